// Package account is who may do what on a results site: people, their sessions
// in a browser, the tokens of their programs, and the rights of each. It speaks
// OpenID Connect and GitHub's form of OAuth, and knows no pages and no database.
package account

import (
	"context"
	"errors"
	"time"
)

// ErrNotFound: no account, session, token or device has that name, or its time is over.
var ErrNotFound = errors.New("not found")

// Role is what an account may do beyond its own runs.
type Role string

// The roles of an account.
const (
	Member    Role = "member"
	Moderator Role = "moderator"
	// Administrator also changes roles.
	Administrator Role = "administrator"
	// Blocked may read, and nothing else.
	Blocked Role = "blocked"
)

// Account is a person or, on a site for one user, its only one.
type Account struct {
	// ID is a ULID in lower case; Provider and Subject are what the identity provider calls it.
	ID, Provider, Subject string
	// Name is shown beside its runs; unique, 2 to 40 of a-z, 0-9 and -.
	Name      string
	Role      Role
	CreatedAt time.Time
}

// Session is a signed-in browser. Its secret is never kept, only its SHA-256.
type Session struct {
	Hash      [32]byte
	Account   string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Scope is a right of a token.
type Scope string

// The scopes of a token.
const (
	// ReadOwn sees the owner's drafts and unlisted runs; Submit uploads; Manage edits, withdraws and deletes the owner's runs;
	// Moderate is a moderator's.
	ReadOwn  Scope = "read"
	Submit   Scope = "submit"
	Manage   Scope = "manage"
	Moderate Scope = "moderate"
)

// Token is a program's key. The secret is shown once, when it is made, and never kept, only its SHA-256.
type Token struct {
	// ID is shown; Name is its owner's word for it.
	ID, Name  string
	Hash      [32]byte
	Account   string
	Scopes    []Scope
	CreatedAt time.Time
	// ExpiresAt and UsedAt are zero for never.
	ExpiresAt, UsedAt time.Time
}

// Device is a command line that waits for its user to sign in elsewhere (RFC 8628).
type Device struct {
	// CodeHash is the SHA-256 of the device code; UserCode is what the user types.
	CodeHash  [32]byte
	UserCode  string
	Scopes    []Scope
	ExpiresAt time.Time
	// Account is who approved it, "" before; Denied says that the user refused.
	Account string
	Denied  bool
}

// Store keeps accounts. Its writes are atomic and on the disk when they return; times are kept to the microsecond.
type Store interface {
	PutAccount(ctx context.Context, a Account) error // adds or replaces by ID; another's Name or identity is ErrTaken
	Account(ctx context.Context, id string) (Account, error)
	AccountByName(ctx context.Context, name string) (Account, error)
	AccountByIdentity(ctx context.Context, provider, subject string) (Account, error)
	// Accounts lists all by name.
	Accounts(ctx context.Context) ([]Account, error)

	PutSession(ctx context.Context, s Session) error
	Session(ctx context.Context, hash [32]byte) (Session, error)
	DropSession(ctx context.Context, hash [32]byte) error
	DropSessionsOf(ctx context.Context, account string) error

	PutToken(ctx context.Context, t Token) error // adds or replaces by ID
	TokenByHash(ctx context.Context, hash [32]byte) (Token, error)
	TokensOf(ctx context.Context, account string) ([]Token, error)
	DropToken(ctx context.Context, account, id string) error

	PutDevice(ctx context.Context, d Device) error // adds or replaces by CodeHash
	DeviceByCode(ctx context.Context, codeHash [32]byte) (Device, error)
	DeviceByUserCode(ctx context.Context, userCode string) (Device, error)
	DropDevice(ctx context.Context, codeHash [32]byte) error
	// DropExpired forgets sessions, devices and tokens whose time is over.
	DropExpired(ctx context.Context, now time.Time) error
}

// ErrTaken: another account has that name or identity.
var ErrTaken = errors.New("taken")

// Visitor is who asks: nobody (the zero value), an account in a browser, or a token.
type Visitor struct {
	Account Account
	// Scopes are those of a token; nil in a browser, which may do all that its account may.
	Scopes []Scope
	// Token says that it came with a token rather than a session.
	Token bool
}

// SignedIn says whether the visitor has an account.
func (v Visitor) SignedIn() bool { return v.Account.ID != "" }
