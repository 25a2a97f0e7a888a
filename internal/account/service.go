package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"speedmatrix/internal/unit"
)

// Errors of the login of a command line (RFC 8628), wrapped.
var (
	ErrPending  = errors.New("the user has not answered yet")
	ErrSlowDown = errors.New("asked too soon")
	ErrRefused  = errors.New("the user refused")
)

// The lives of secrets.
const (
	SessionLasts   = 30 * 24 * time.Hour
	sessionRenewed = 24 * time.Hour // a session in use is made longer once a day
	deviceLasts    = 10 * time.Minute
	// DeviceInterval is the least time between two questions for a device's token.
	DeviceInterval = 5 * time.Second
	tokenUsedEvery = time.Hour // how exactly the last use of a token is known
	mostTokens     = 50        // of an account
)

// Options are what a Service stands on.
type Options struct {
	Store     Store
	Providers []Provider
	// Administrator is the name that the first administrator has at their provider, "" for none.
	Administrator string
	Rules         Rules
	Now           func() time.Time
	// Entropy is the source of secrets; nil is the system's.
	Entropy io.Reader
}

// Service is the people of a site.
type Service struct {
	o Options
	// asked is when a device's token was last asked for, by the hash of its code.
	asked *recent
}

// New makes a service.
func New(o Options) *Service {
	if o.Entropy == nil {
		o.Entropy = rand.Reader
	}
	return &Service{o: o, asked: newRecent(10_000)}
}

// secretBytes is the length of every secret: nobody guesses one.
const secretBytes = 32

func (s *Service) secret(prefix string) (string, error) {
	raw := make([]byte, secretBytes)
	if _, err := io.ReadFull(s.o.Entropy, raw); err != nil {
		return "", fmt.Errorf("make a secret: %w", err)
	}
	return prefix + hex.EncodeToString(raw), nil
}

func hashOf(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// Account gives an account by its ID.
func (s *Service) Account(ctx context.Context, id string) (Account, error) {
	return s.o.Store.Account(ctx, id)
}

// AccountByName gives an account by its name.
func (s *Service) AccountByName(ctx context.Context, name string) (Account, error) {
	return s.o.Store.AccountByName(ctx, name)
}

// People lists all accounts by name, for moderators.
func (s *Service) People(ctx context.Context, by Visitor) ([]Account, error) {
	if err := s.o.Rules.May(by, Moderating, ""); err != nil {
		return nil, err
	}
	return s.o.Store.Accounts(ctx)
}

// SetRole changes what an account may do. Nobody changes their own role, so that an administrator is always left. A blocked
// account is signed out everywhere.
func (s *Service) SetRole(ctx context.Context, by Visitor, id string, to Role) error {
	if err := s.o.Rules.May(by, SetRole, ""); err != nil {
		return err
	}
	if id == by.Account.ID || !slices.Contains([]Role{Member, Moderator, Administrator, Blocked}, to) {
		return &Denied{Action: SetRole}
	}
	a, err := s.o.Store.Account(ctx, id)
	if err != nil {
		return err
	}
	a.Role = to
	if err := s.o.Store.PutAccount(ctx, a); err != nil || to != Blocked {
		return err
	}
	return s.o.Store.DropSessionsOf(ctx, id)
}

// GrantRole changes an account's role by its name, for the operator.
func GrantRole(ctx context.Context, store Store, name string, to Role) error {
	a, err := store.AccountByName(ctx, name)
	if err != nil {
		return err
	}
	a.Role = to
	if err := store.PutAccount(ctx, a); err != nil || to != Blocked {
		return err
	}
	return store.DropSessionsOf(ctx, a.ID)
}

// Identity is who someone is at an identity provider.
type Identity struct{ Provider, Subject, Name string }

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// nameFor makes a name of the one at the provider: 2 to 40 of a-z, 0-9 and -.
func nameFor(name string) string {
	clean := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(clean) > 34 {
		clean = strings.TrimRight(clean[:34], "-")
	}
	if len(clean) < 2 {
		clean = "user-" + clean
	}
	return strings.Trim(clean, "-")
}

// enter gives the account of an identity, made where it is new.
func (s *Service) enter(ctx context.Context, who Identity) (Account, error) {
	a, err := s.o.Store.AccountByIdentity(ctx, who.Provider, who.Subject)
	if err == nil || !errors.Is(err, ErrNotFound) {
		return a, err
	}
	now := s.o.Now()
	a = Account{Provider: who.Provider, Subject: who.Subject, Role: Member, CreatedAt: now.Truncate(time.Microsecond)}
	if s.o.Administrator != "" && who.Name == s.o.Administrator {
		a.Role = Administrator
	}
	if a.ID, err = unit.NewID(now, s.o.Entropy); err != nil {
		return a, err
	}
	base := nameFor(who.Name)
	for n := 1; n <= 1000; n++ {
		a.Name = base
		if n > 1 {
			a.Name = fmt.Sprintf("%s-%d", base, n)
		}
		if err = s.o.Store.PutAccount(ctx, a); !errors.Is(err, ErrTaken) {
			return a, err
		}
	}
	return a, err
}

// begin makes a session of an account and gives its secret.
func (s *Service) begin(ctx context.Context, id string) (secret string, err error) {
	if secret, err = s.secret(""); err != nil {
		return "", err
	}
	now := s.o.Now()
	return secret, s.o.Store.PutSession(ctx, Session{Hash: hashOf(secret), Account: id, CreatedAt: now, ExpiresAt: now.Add(SessionLasts)})
}

// bySession gives the visitor of a session; nobody where it is over.
func (s *Service) bySession(ctx context.Context, secret string) (Visitor, error) {
	session, err := s.o.Store.Session(ctx, hashOf(secret))
	if errors.Is(err, ErrNotFound) {
		return Visitor{}, nil
	}
	if err != nil {
		return Visitor{}, err
	}
	now := s.o.Now()
	if !now.Before(session.ExpiresAt) {
		return Visitor{}, s.o.Store.DropSession(ctx, session.Hash)
	}
	if session.ExpiresAt.Sub(now) < SessionLasts-sessionRenewed {
		session.ExpiresAt = now.Add(SessionLasts)
		if err := s.o.Store.PutSession(ctx, session); err != nil {
			return Visitor{}, err
		}
	}
	a, err := s.o.Store.Account(ctx, session.Account)
	if errors.Is(err, ErrNotFound) {
		return Visitor{}, nil
	}
	return Visitor{Account: a}, err
}

// tokenPrefix lets people and programs that look for leaked keys know what it is.
const tokenPrefix = "smx_"

// TokenWish is what a token shall be: For 0 is for ever.
type TokenWish struct {
	Name   string
	Scopes []Scope
	For    time.Duration
}

func scopesKnown(scopes []Scope) bool {
	for _, v := range scopes {
		if !slices.Contains([]Scope{ReadOwn, Submit, Manage, Moderate}, v) {
			return false
		}
	}
	return len(scopes) > 0
}

// Tokens lists the visitor's tokens.
func (s *Service) Tokens(ctx context.Context, by Visitor) ([]Token, error) {
	if err := s.o.Rules.May(by, UseTokens, ""); err != nil {
		return nil, err
	}
	return s.o.Store.TokensOf(ctx, by.Account.ID)
}

// MakeToken makes a token of the visitor's and gives its secret, which is shown once.
func (s *Service) MakeToken(ctx context.Context, by Visitor, w TokenWish) (string, Token, error) {
	if err := s.o.Rules.May(by, UseTokens, ""); err != nil {
		return "", Token{}, err
	}
	return s.makeToken(ctx, by.Account.ID, w)
}

func (s *Service) makeToken(ctx context.Context, id string, w TokenWish) (string, Token, error) {
	w.Name = strings.TrimSpace(w.Name)
	if w.Name == "" || len(w.Name) > 100 || !scopesKnown(w.Scopes) || w.For < 0 {
		return "", Token{}, &Denied{Action: UseTokens}
	}
	have, err := s.o.Store.TokensOf(ctx, id)
	if err != nil {
		return "", Token{}, err
	}
	if len(have) >= mostTokens {
		return "", Token{}, &Denied{Action: UseTokens}
	}
	secret, err := s.secret(tokenPrefix)
	if err != nil {
		return "", Token{}, err
	}
	now := s.o.Now()
	t := Token{Name: w.Name, Hash: hashOf(secret), Account: id, Scopes: w.Scopes, CreatedAt: now}
	if w.For > 0 {
		t.ExpiresAt = now.Add(w.For)
	}
	if t.ID, err = unit.NewID(now, s.o.Entropy); err != nil {
		return "", t, err
	}
	return secret, t, s.o.Store.PutToken(ctx, t)
}

// DropToken revokes a token of the visitor's.
func (s *Service) DropToken(ctx context.Context, by Visitor, id string) error {
	if err := s.o.Rules.May(by, UseTokens, ""); err != nil {
		return err
	}
	return s.o.Store.DropToken(ctx, by.Account.ID, id)
}

// ErrToken says that a token is wrong, revoked or expired.
var ErrToken = errors.New("the token is not known, was revoked, or has expired")

// byToken gives the visitor of a token. The database compares hashes of secrets that nobody can choose, so the time it takes
// tells nothing of them.
func (s *Service) byToken(ctx context.Context, secret string) (Visitor, error) {
	if !strings.HasPrefix(secret, tokenPrefix) || len(secret) != len(tokenPrefix)+2*secretBytes {
		return Visitor{}, ErrToken
	}
	t, err := s.o.Store.TokenByHash(ctx, hashOf(secret))
	if errors.Is(err, ErrNotFound) {
		return Visitor{}, ErrToken
	}
	if err != nil {
		return Visitor{}, err
	}
	now := s.o.Now()
	if !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt) {
		return Visitor{}, ErrToken
	}
	if now.Sub(t.UsedAt) >= tokenUsedEvery {
		t.UsedAt = now
		if err := s.o.Store.PutToken(ctx, t); err != nil {
			return Visitor{}, err
		}
	}
	a, err := s.o.Store.Account(ctx, t.Account)
	if errors.Is(err, ErrNotFound) {
		return Visitor{}, ErrToken
	}
	return Visitor{Account: a, Scopes: t.Scopes, Token: true}, err
}
