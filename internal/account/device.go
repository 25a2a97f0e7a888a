package account

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// DeviceLogin is what a command line needs to let its user sign in elsewhere (RFC 8628, section 3.2).
type DeviceLogin struct {
	// Code is the command line's secret, UserCode what its user types.
	Code, UserCode  string
	Lasts, Interval time.Duration
}

// userLetters are told apart by eye and ear, and make no words: 20 of them, 8 in a code, are 2·10¹⁰ codes.
const userLetters = "BCDFGHJKLMNPQRSTVWXZ"

func (s *Service) userCode() (string, error) {
	var b strings.Builder
	for i := range 8 {
		if i == 4 {
			b.WriteByte('-')
		}
		var raw [8]byte
		if _, err := io.ReadFull(s.o.Entropy, raw[:]); err != nil {
			return "", err
		}
		// Of 2⁶⁴ values the remainder favours none that anyone could notice.
		b.WriteByte(userLetters[binary.LittleEndian.Uint64(raw[:])%uint64(len(userLetters))])
	}
	return b.String(), nil
}

// BeginDevice begins a login of a command line.
func (s *Service) BeginDevice(ctx context.Context, scopes []Scope) (DeviceLogin, error) {
	if s.o.Rules.ReadOnly {
		return DeviceLogin{}, &Denied{Action: ApproveDevice, ReadOnly: true}
	}
	if !scopesKnown(scopes) {
		return DeviceLogin{}, &Denied{Action: ApproveDevice}
	}
	code, err := s.secret("smd_")
	if err != nil {
		return DeviceLogin{}, err
	}
	for {
		user, err := s.userCode()
		if err != nil {
			return DeviceLogin{}, err
		}
		err = s.o.Store.PutDevice(ctx, Device{CodeHash: hashOf(code), UserCode: user, Scopes: scopes, ExpiresAt: s.o.Now().Add(deviceLasts)})
		if errors.Is(err, ErrTaken) {
			continue
		}
		return DeviceLogin{Code: code, UserCode: user, Lasts: deviceLasts, Interval: DeviceInterval}, err
	}
}

// normal writes a user code as it was shown, however it was typed.
func normal(code string) string {
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune(userLetters, r) {
			return r
		}
		return -1
	}, strings.ToUpper(code))
	if len(clean) != 8 {
		return ""
	}
	return clean[:4] + "-" + clean[4:]
}

// Device gives the login that waits for a user code.
func (s *Service) Device(ctx context.Context, userCode string) (Device, error) {
	d, err := s.o.Store.DeviceByUserCode(ctx, normal(userCode))
	if err == nil && (!s.o.Now().Before(d.ExpiresAt) || d.Account != "" || d.Denied) {
		return Device{}, ErrNotFound
	}
	return d, err
}

// AnswerDevice allows or refuses a login. It is answered once.
func (s *Service) AnswerDevice(ctx context.Context, by Visitor, userCode string, allow bool) error {
	if err := s.o.Rules.May(by, ApproveDevice, ""); err != nil {
		return err
	}
	d, err := s.Device(ctx, userCode)
	if err != nil {
		return err
	}
	d.Account, d.Denied = by.Account.ID, !allow
	return s.o.Store.PutDevice(ctx, d)
}

// DeviceToken gives the token of an allowed login, once. Until then it is ErrPending, ErrSlowDown where it is asked too often,
// ErrRefused or ErrNotFound.
func (s *Service) DeviceToken(ctx context.Context, code string) (string, error) {
	hash := hashOf(code)
	d, err := s.o.Store.DeviceByCode(ctx, hash)
	if err != nil {
		return "", err
	}
	now := s.o.Now()
	switch {
	case !now.Before(d.ExpiresAt):
		return "", errors.Join(ErrNotFound, s.o.Store.DropDevice(ctx, hash))
	case d.Denied:
		return "", errors.Join(ErrRefused, s.o.Store.DropDevice(ctx, hash))
	case d.Account == "" && !s.asked.longAgo(string(hash[:]), now, DeviceInterval):
		return "", ErrSlowDown
	case d.Account == "":
		return "", ErrPending
	}
	if err := s.o.Store.DropDevice(ctx, hash); err != nil {
		return "", err
	}
	secret, _, err := s.makeToken(ctx, d.Account, TokenWish{Name: "command line, " + now.UTC().Format(time.DateOnly), Scopes: d.Scopes})
	return secret, err
}

// recent remembers when names were last seen, a bounded number of them.
type recent struct {
	mu    sync.Mutex
	most  int
	order *list.List
	at    map[string]*list.Element
}

type sighting struct {
	name string
	at   time.Time
}

func newRecent(most int) *recent {
	return &recent{most: most, order: list.New(), at: map[string]*list.Element{}}
}

// longAgo says whether a name was not seen within a time, and remembers it.
func (r *recent) longAgo(name string, now time.Time, within time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.at[name]; ok {
		s := e.Value.(*sighting)
		long := now.Sub(s.at) >= within
		s.at = now
		r.order.MoveToBack(e)
		return long
	}
	if r.order.Len() >= r.most {
		oldest := r.order.Front()
		delete(r.at, oldest.Value.(*sighting).name)
		r.order.Remove(oldest)
	}
	r.at[name] = r.order.PushBack(&sighting{name, now})
	return true
}
