package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
)

// tokenView is a token as its owner sees it, without its secret.
type tokenView struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Scopes    []account.Scope `json:"scopes"`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt *time.Time      `json:"expires_at"`
	UsedAt    *time.Time      `json:"used_at"`
}

func viewToken(t account.Token) tokenView {
	v := tokenView{ID: t.ID, Name: t.Name, Scopes: t.Scopes, CreatedAt: t.CreatedAt.UTC()}
	if !t.ExpiresAt.IsZero() {
		v.ExpiresAt = &t.ExpiresAt
	}
	if !t.UsedAt.IsZero() {
		v.UsedAt = &t.UsedAt
	}
	return v
}

type meOutput struct {
	Body struct {
		SignedIn bool            `json:"signed_in"`
		Name     string          `json:"name"`
		Role     account.Role    `json:"role"`
		Scopes   []account.Scope `json:"scopes" doc:"Those of the token; empty in a browser, which may do all that its account may."`
	}
}

type myRunsOutput struct {
	Body struct {
		Runs []catalog.View `json:"runs" doc:"All of one's own, drafts and withdrawn ones too, newest first."`
	}
}

type tokensOutput struct {
	Body struct {
		Tokens []tokenView `json:"tokens"`
	}
}

type newTokenInput struct {
	Body struct {
		Name   string          `json:"name" minLength:"1" maxLength:"100"`
		Scopes []account.Scope `json:"scopes" minItems:"1" maxItems:"4" enum:"read,submit,manage,moderate"`
		Days   int             `json:"days,omitempty" minimum:"0" maximum:"3660" doc:"Until it expires; 0 is never."`
	}
}

type newTokenOutput struct {
	Body struct {
		Token  tokenView `json:"token"`
		Secret string    `json:"secret" doc:"The token itself, shown this once."`
	}
}

type tokenInput struct {
	ID string `path:"id" maxLength:"64"`
}

type deviceInput struct {
	Body struct {
		Scopes []account.Scope `json:"scopes" minItems:"1" maxItems:"4" enum:"read,submit,manage,moderate"`
	}
}

// deviceOutput is the answer of RFC 8628, section 3.2.
type deviceOutput struct {
	Body struct {
		DeviceCode      string `json:"device_code"`
		UserCode        string `json:"user_code"`
		VerificationURI string `json:"verification_uri"`
		Complete        string `json:"verification_uri_complete"`
		ExpiresIn       int    `json:"expires_in" doc:"Seconds."`
		Interval        int    `json:"interval" doc:"Seconds between two questions for the token."`
	}
}

type deviceTokenInput struct {
	Body struct {
		DeviceCode string `json:"device_code" maxLength:"200"`
	}
}

type deviceTokenOutput struct {
	Body struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
	}
}

func (s *Server) registerMe() {
	huma.Register(s.api, protected(s.operation("get-me", "GET /me", "Who one is here", reads)),
		func(ctx context.Context, _ *struct{}) (*meOutput, error) {
			v, out := account.FromContext(ctx), &meOutput{}
			out.Body.SignedIn, out.Body.Name, out.Body.Role, out.Body.Scopes = v.SignedIn(), v.Account.Name, v.Account.Role, v.Scopes
			return out, nil
		})
	huma.Register(s.api, protected(s.operation("list-my-runs", "GET /me/runs", "One's own runs", reads)),
		func(ctx context.Context, _ *struct{}) (*myRunsOutput, error) {
			v := account.FromContext(ctx)
			if err := s.o.Rules.May(v, account.ListOwn, ""); err != nil {
				return nil, s.worded(ctx, err)
			}
			out := &myRunsOutput{}
			out.Body.Runs = []catalog.View{}
			for _, e := range s.o.Index.OwnedBy(v.Account.ID) {
				out.Body.Runs = append(out.Body.Runs, e.View(s.o.Base))
			}
			return out, nil
		})
	if s.o.Accounts != nil {
		s.registerTokens()
		s.registerDevice()
	}
}

func (s *Server) registerTokens() {
	huma.Register(s.api, protected(s.operation("list-tokens", "GET /me/tokens", "One's own tokens", reads)),
		func(ctx context.Context, _ *struct{}) (*tokensOutput, error) {
			tokens, err := s.o.Accounts.Tokens(ctx, account.FromContext(ctx))
			if err != nil {
				return nil, s.worded(ctx, err)
			}
			out := &tokensOutput{}
			out.Body.Tokens = make([]tokenView, len(tokens))
			for i, t := range tokens {
				out.Body.Tokens[i] = viewToken(t)
			}
			return out, nil
		})
	create := protected(s.operation("create-token", "POST /me/tokens", "Make a token; its secret is shown this once", signIns))
	create.DefaultStatus = http.StatusCreated
	huma.Register(s.api, create, func(ctx context.Context, in *newTokenInput) (*newTokenOutput, error) {
		secret, t, err := s.o.Accounts.MakeToken(ctx, account.FromContext(ctx), account.TokenWish{Name: in.Body.Name, Scopes: in.Body.Scopes, For: time.Duration(in.Body.Days) * 24 * time.Hour})
		if err != nil {
			return nil, s.worded(ctx, err)
		}
		out := &newTokenOutput{}
		out.Body.Token, out.Body.Secret = viewToken(t), secret
		return out, nil
	})
	huma.Register(s.api, protected(s.operation("delete-token", "DELETE /me/tokens/{id}", "Revoke a token", reads)),
		func(ctx context.Context, in *tokenInput) (*struct{}, error) {
			return nil, s.worded(ctx, s.o.Accounts.DropToken(ctx, account.FromContext(ctx), in.ID))
		})
}

func (s *Server) registerDevice() {
	huma.Register(s.api, s.operation("begin-device", "POST /device", "Begin the login of a command line (RFC 8628)", signIns),
		func(ctx context.Context, in *deviceInput) (*deviceOutput, error) {
			d, err := s.o.Accounts.BeginDevice(ctx, in.Body.Scopes)
			if err != nil {
				return nil, s.worded(ctx, err)
			}
			out := &deviceOutput{}
			out.Body.DeviceCode, out.Body.UserCode = d.Code, d.UserCode
			out.Body.VerificationURI = s.o.Base + "/device"
			out.Body.Complete = s.o.Base + "/device?code=" + d.UserCode
			out.Body.ExpiresIn, out.Body.Interval = int(d.Lasts/time.Second), int(d.Interval/time.Second)
			return out, nil
		})
	huma.Register(s.api, s.operation("device-token", "POST /device/token", "The token of a device login, once its user approved it", reads),
		func(ctx context.Context, in *deviceTokenInput) (*deviceTokenOutput, error) {
			secret, err := s.o.Accounts.DeviceToken(ctx, in.Body.DeviceCode)
			if err != nil {
				return nil, s.worded(ctx, err)
			}
			out := &deviceTokenOutput{}
			out.Body.AccessToken, out.Body.TokenType = secret, "bearer"
			return out, nil
		})
}
