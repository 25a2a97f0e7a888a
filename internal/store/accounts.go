package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"speedmatrix/internal/account"
	"speedmatrix/internal/store/db"
)

var _ account.Store = (*Store)(nil)

// uniqueViolation is what PostgreSQL calls a value that another row has.
const uniqueViolation = "23505"

// taken turns a broken uniqueness into account.ErrTaken.
func taken(err error) error {
	if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == uniqueViolation {
		return fmt.Errorf("%w: %s", account.ErrTaken, p.ConstraintName)
	}
	if l, ok := errors.AsType[*sqlite.Error](err); ok && (l.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || l.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY) {
		return fmt.Errorf("%w: %w", account.ErrTaken, err)
	}
	return err
}

// PutAccount adds or replaces an account.
func (s *Store) PutAccount(ctx context.Context, a account.Account) error {
	return taken(s.change(ctx, func(q *db.Queries) error {
		return q.PutAccount(ctx, db.PutAccountParams{ID: a.ID, Provider: a.Provider, Subject: a.Subject, Name: a.Name, Role: string(a.Role), CreatedAt: micros(a.CreatedAt)})
	}))
}

func person(a db.Account, err error, name string) (account.Account, error) {
	return account.Account{ID: a.ID, Provider: a.Provider, Subject: a.Subject, Name: a.Name, Role: account.Role(a.Role), CreatedAt: instant(a.CreatedAt)},
		missing(err, "account", name, account.ErrNotFound)
}

// Account gives an account by its ID.
func (s *Store) Account(ctx context.Context, id string) (account.Account, error) {
	a, err := s.queries().Account(ctx, id)
	return person(a, err, id)
}

// AccountByName gives an account by its name.
func (s *Store) AccountByName(ctx context.Context, name string) (account.Account, error) {
	a, err := s.queries().AccountByName(ctx, name)
	return person(a, err, name)
}

// AccountByIdentity gives the account of someone at an identity provider.
func (s *Store) AccountByIdentity(ctx context.Context, provider, subject string) (account.Account, error) {
	a, err := s.queries().AccountByIdentity(ctx, db.AccountByIdentityParams{Provider: provider, Subject: subject})
	return person(a, err, "at "+provider)
}

// Accounts lists all by name.
func (s *Store) Accounts(ctx context.Context) ([]account.Account, error) {
	rows, err := s.queries().Accounts(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]account.Account, len(rows))
	for i, a := range rows {
		list[i], _ = person(a, nil, "")
	}
	return list, nil
}

func hashText(h [32]byte) string { return hex.EncodeToString(h[:]) }

func hashOf(text string) (h [32]byte) {
	// A hash of another length is nobody's.
	_, _ = hex.Decode(h[:], []byte(text))
	return h
}

// PutSession adds a session, or gives it another end.
func (s *Store) PutSession(ctx context.Context, v account.Session) error {
	return s.change(ctx, func(q *db.Queries) error {
		return q.PutSession(ctx, db.PutSessionParams{Hash: hashText(v.Hash), Account: v.Account, CreatedAt: micros(v.CreatedAt), ExpiresAt: micros(v.ExpiresAt)})
	})
}

// Session gives a session by its hash.
func (s *Store) Session(ctx context.Context, hash [32]byte) (account.Session, error) {
	v, err := s.queries().Session(ctx, hashText(hash))
	return account.Session{Hash: hash, Account: v.Account, CreatedAt: instant(v.CreatedAt), ExpiresAt: instant(v.ExpiresAt)}, missing(err, "session", "", account.ErrNotFound)
}

// DropSession ends a session.
func (s *Store) DropSession(ctx context.Context, hash [32]byte) error {
	return s.change(ctx, func(q *db.Queries) error { return q.DropSession(ctx, hashText(hash)) })
}

// DropSessionsOf ends all sessions of an account.
func (s *Store) DropSessionsOf(ctx context.Context, id string) error {
	return s.change(ctx, func(q *db.Queries) error { return q.DropSessionsOf(ctx, id) })
}

func scopeText(scopes []account.Scope) string {
	words := make([]string, len(scopes))
	for i, v := range scopes {
		words[i] = string(v)
	}
	return strings.Join(words, " ")
}

func scopesOf(text string) []account.Scope {
	var list []account.Scope
	for word := range strings.FieldsSeq(text) {
		list = append(list, account.Scope(word))
	}
	return list
}

// PutToken adds a token or replaces what is known of it.
func (s *Store) PutToken(ctx context.Context, t account.Token) error {
	return s.change(ctx, func(q *db.Queries) error {
		return q.PutToken(ctx, db.PutTokenParams{ID: t.ID, Hash: hashText(t.Hash), Account: t.Account, Name: t.Name, Scopes: scopeText(t.Scopes),
			CreatedAt: micros(t.CreatedAt), ExpiresAt: micros(t.ExpiresAt), UsedAt: micros(t.UsedAt)})
	})
}

func token(t db.Token) account.Token {
	return account.Token{ID: t.ID, Name: t.Name, Hash: hashOf(t.Hash), Account: t.Account, Scopes: scopesOf(t.Scopes),
		CreatedAt: instant(t.CreatedAt), ExpiresAt: instant(t.ExpiresAt), UsedAt: instant(t.UsedAt)}
}

// TokenByHash gives a token by the hash of its secret.
func (s *Store) TokenByHash(ctx context.Context, hash [32]byte) (account.Token, error) {
	t, err := s.queries().TokenByHash(ctx, hashText(hash))
	return token(t), missing(err, "token", "", account.ErrNotFound)
}

// TokensOf lists the tokens of an account, the oldest first.
func (s *Store) TokensOf(ctx context.Context, id string) ([]account.Token, error) {
	rows, err := s.queries().TokensOf(ctx, id)
	if err != nil {
		return nil, err
	}
	list := make([]account.Token, len(rows))
	for i, t := range rows {
		list[i] = token(t)
	}
	return list, nil
}

// DropToken revokes a token of an account.
func (s *Store) DropToken(ctx context.Context, owner, id string) error {
	return s.change(ctx, func(q *db.Queries) error {
		n, err := q.DropToken(ctx, db.DropTokenParams{Account: owner, ID: id})
		if err == nil && n == 0 {
			err = sql.ErrNoRows
		}
		return missing(err, "token", id, account.ErrNotFound)
	})
}

// PutDevice adds a login of a command line, or how it was answered.
func (s *Store) PutDevice(ctx context.Context, d account.Device) error {
	denied := int64(0)
	if d.Denied {
		denied = 1
	}
	return taken(s.change(ctx, func(q *db.Queries) error {
		return q.PutDevice(ctx, db.PutDeviceParams{CodeHash: hashText(d.CodeHash), UserCode: d.UserCode, Scopes: scopeText(d.Scopes), ExpiresAt: micros(d.ExpiresAt), Account: d.Account, Denied: denied})
	}))
}

func device(d db.Device) account.Device {
	return account.Device{CodeHash: hashOf(d.CodeHash), UserCode: d.UserCode, Scopes: scopesOf(d.Scopes), ExpiresAt: instant(d.ExpiresAt), Account: d.Account, Denied: d.Denied != 0}
}

// DeviceByCode gives a login by the hash of its device code.
func (s *Store) DeviceByCode(ctx context.Context, codeHash [32]byte) (account.Device, error) {
	d, err := s.queries().DeviceByCode(ctx, hashText(codeHash))
	return device(d), missing(err, "device", "", account.ErrNotFound)
}

// DeviceByUserCode gives a login by what its user types.
func (s *Store) DeviceByUserCode(ctx context.Context, userCode string) (account.Device, error) {
	d, err := s.queries().DeviceByUserCode(ctx, userCode)
	return device(d), missing(err, "device", userCode, account.ErrNotFound)
}

// DropDevice forgets a login.
func (s *Store) DropDevice(ctx context.Context, codeHash [32]byte) error {
	return s.change(ctx, func(q *db.Queries) error { return q.DropDevice(ctx, hashText(codeHash)) })
}

// DropExpired forgets sessions, logins and tokens whose time is over.
func (s *Store) DropExpired(ctx context.Context, now time.Time) error {
	at := micros(now)
	return s.change(ctx, func(q *db.Queries) error {
		return errors.Join(q.DropExpiredSessions(ctx, at), q.DropExpiredDevices(ctx, at), q.DropExpiredTokens(ctx, at))
	})
}
