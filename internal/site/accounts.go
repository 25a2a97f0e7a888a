package site

import (
	"context"
	"html/template"
	"net/http"

	"speedmatrix/internal/account"
)

// Accounts is what the pages ask about people. Its methods that change something check the visitor's right.
type Accounts interface {
	Account(ctx context.Context, id string) (account.Account, error)
	AccountByName(ctx context.Context, name string) (account.Account, error)
	// People lists all accounts by name, for moderators.
	People(ctx context.Context, by account.Visitor) ([]account.Account, error)
	SetRole(ctx context.Context, by account.Visitor, id string, to account.Role) error
	// Ways are the providers to sign in with: the name in addresses, and that for people.
	Ways() [][2]string
	Device(ctx context.Context, userCode string) (account.Device, error)
	AnswerDevice(ctx context.Context, by account.Visitor, userCode string, allow bool) error
}

// Tokens are the keys of the visitor's programs.
type Tokens interface {
	Tokens(ctx context.Context, by account.Visitor) ([]account.Token, error)
	// MakeToken gives the secret, which is shown once.
	MakeToken(ctx context.Context, by account.Visitor, wish account.TokenWish) (secret string, t account.Token, err error)
	DropToken(ctx context.Context, by account.Visitor, id string) error
}

// proof is what a form of the visitor's must carry, "" where it needs nothing.
func (p *pages) proof(r *http.Request) string {
	if p.CSRF == nil {
		return ""
	}
	return p.CSRF(r)
}

// csrf is the field that holds it.
func (p *pages) csrf(r *http.Request) template.HTML {
	proof := p.proof(r)
	if proof == "" {
		return ""
	}
	return template.HTML(`<input type="hidden" name="csrf" value="` + template.HTMLEscapeString(proof) + `">`)
}
