// Package accounttest is for tests: accounts in memory.
package accounttest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"speedmatrix/internal/account"
)

// Memory is an account.Store that keeps everything in memory.
type Memory struct {
	mu       sync.Mutex
	accounts map[string]account.Account
	sessions map[[32]byte]account.Session
	tokens   map[string]account.Token
	devices  map[[32]byte]account.Device
}

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{accounts: map[string]account.Account{}, sessions: map[[32]byte]account.Session{}, tokens: map[string]account.Token{}, devices: map[[32]byte]account.Device{}}
}

// PutAccount adds or replaces an account.
func (m *Memory) PutAccount(_ context.Context, a account.Account) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.accounts {
		if other.ID != a.ID && (other.Name == a.Name || other.Provider == a.Provider && other.Subject == a.Subject) {
			return account.ErrTaken
		}
	}
	m.accounts[a.ID] = a
	return nil
}

func (m *Memory) find(pass func(account.Account) bool) (account.Account, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.accounts {
		if pass(a) {
			return a, nil
		}
	}
	return account.Account{}, account.ErrNotFound
}

// Account gives an account by its ID.
func (m *Memory) Account(_ context.Context, id string) (account.Account, error) {
	return m.find(func(a account.Account) bool { return a.ID == id })
}

// AccountByName gives an account by its name.
func (m *Memory) AccountByName(_ context.Context, name string) (account.Account, error) {
	return m.find(func(a account.Account) bool { return a.Name == name })
}

// AccountByIdentity gives the account of someone at an identity provider.
func (m *Memory) AccountByIdentity(_ context.Context, provider, subject string) (account.Account, error) {
	return m.find(func(a account.Account) bool { return a.Provider == provider && a.Subject == subject })
}

// Accounts lists all by name.
func (m *Memory) Accounts(context.Context) ([]account.Account, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.accounts), func(a, b account.Account) int { return strings.Compare(a.Name, b.Name) }), nil
}

// kept gives what a map has under a key.
func kept[K comparable, V any](m *Memory, from map[K]V, key K) (V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := from[key]
	if !ok {
		return v, account.ErrNotFound
	}
	return v, nil
}

func put[K comparable, V any](m *Memory, into map[K]V, key K, v V) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	into[key] = v
	return nil
}

func drop[K comparable, V any](m *Memory, from map[K]V, pass func(K, V) bool) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(from)
	maps.DeleteFunc(from, pass)
	return before - len(from)
}

// PutSession adds a session, or gives it another end.
func (m *Memory) PutSession(_ context.Context, s account.Session) error {
	return put(m, m.sessions, s.Hash, s)
}

// Session gives a session by its hash.
func (m *Memory) Session(_ context.Context, hash [32]byte) (account.Session, error) {
	return kept(m, m.sessions, hash)
}

// DropSession ends a session.
func (m *Memory) DropSession(_ context.Context, hash [32]byte) error {
	drop(m, m.sessions, func(h [32]byte, _ account.Session) bool { return h == hash })
	return nil
}

// DropSessionsOf ends all sessions of an account.
func (m *Memory) DropSessionsOf(_ context.Context, id string) error {
	drop(m, m.sessions, func(_ [32]byte, s account.Session) bool { return s.Account == id })
	return nil
}

// PutToken adds a token or replaces what is known of it.
func (m *Memory) PutToken(_ context.Context, t account.Token) error {
	return put(m, m.tokens, t.ID, t)
}

// TokenByHash gives a token by the hash of its secret.
func (m *Memory) TokenByHash(_ context.Context, hash [32]byte) (account.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tokens {
		if t.Hash == hash {
			return t, nil
		}
	}
	return account.Token{}, account.ErrNotFound
}

// TokensOf lists the tokens of an account.
func (m *Memory) TokensOf(_ context.Context, id string) (list []account.Token, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tokens {
		if t.Account == id {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b account.Token) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// DropToken revokes a token of an account.
func (m *Memory) DropToken(_ context.Context, owner, id string) error {
	if drop(m, m.tokens, func(k string, t account.Token) bool { return k == id && t.Account == owner }) == 0 {
		return account.ErrNotFound
	}
	return nil
}

// PutDevice adds a login of a command line, or how it was answered.
func (m *Memory) PutDevice(_ context.Context, d account.Device) error {
	return put(m, m.devices, d.CodeHash, d)
}

// DeviceByCode gives a login by the hash of its device code.
func (m *Memory) DeviceByCode(_ context.Context, codeHash [32]byte) (account.Device, error) {
	return kept(m, m.devices, codeHash)
}

// DeviceByUserCode gives a login by what its user types.
func (m *Memory) DeviceByUserCode(_ context.Context, userCode string) (account.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.devices {
		if d.UserCode == userCode {
			return d, nil
		}
	}
	return account.Device{}, account.ErrNotFound
}

// DropDevice forgets a login.
func (m *Memory) DropDevice(_ context.Context, codeHash [32]byte) error {
	drop(m, m.devices, func(h [32]byte, _ account.Device) bool { return h == codeHash })
	return nil
}

// DropExpired forgets what has expired.
func (m *Memory) DropExpired(_ context.Context, now time.Time) error {
	drop(m, m.sessions, func(_ [32]byte, s account.Session) bool { return s.ExpiresAt.Before(now) })
	drop(m, m.devices, func(_ [32]byte, d account.Device) bool { return d.ExpiresAt.Before(now) })
	drop(m, m.tokens, func(_ string, t account.Token) bool { return !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(now) })
	return nil
}
