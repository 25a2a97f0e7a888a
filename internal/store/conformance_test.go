package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
	"speedmatrix/internal/store"
)

// opener gives an empty store.
type opener func(t *testing.T) *store.Store

func openSQLite(t *testing.T) *store.Store {
	t.Helper()
	return open(t, "sqlite:"+filepath.Join(t.TempDir(), "a site's.db"))
}

func open(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSQLiteKeepsRunsAndAccounts(t *testing.T) { conform(t, openSQLite) }

// conform is what every store must do.
func conform(t *testing.T, open opener) {
	for name, test := range map[string]func(t *testing.T, s *store.Store){
		"a run comes back as it went in":           runComesBack,
		"versions follow each other":               versionsFollow,
		"a change of what has changed is refused":  staleChangeIsRefused,
		"followers hear of everything in order":    followersHear,
		"a removed run is gone":                    removedIsGone,
		"runs are found by rows and by their name": foundByRowsAndName,
		"files are in use while a version has it":  filesInUse,
		"writers at once lose nothing":             writersAtOnce,
		"uploads":                                  uploads,
		"accounts are one for a name and identity": accounts,
		"sessions end":                             sessions,
		"tokens":                                   tokens,
		"devices":                                  devices,
		"what is not there":                        notThere,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var at = time.Date(2026, 11, 30, 12, 34, 56, 789012000, time.UTC)

func record(i int) catalog.Record {
	e := catalogtest.Entries(i+1, 7)[i]
	e.Sequence = 0
	e.OwnerName = "naïve-Ünïcode-\u202e\U0001F600"
	return catalog.Record{Entry: e, Document: fmt.Appendf(nil, `{"id": %q, "text": "ünïcode \u0000 %s"}`, e.RunID, "long "), Checks: []byte(`{"level":3}`),
		Blobs: []catalog.Blob{{Name: "run.json", Hash: fmt.Sprintf("%064d", i), Size: 12}, {Name: "cells/decode-0-x1.parquet", Hash: fmt.Sprintf("%064d", 99), Size: 1 << 40}}, Why: "first"}
}

// renamed is the same run under another address.
func renamed(r catalog.Record, i int) catalog.Record {
	r.Entry.ID = fmt.Sprintf("01z%023d", i)
	return r
}

var received = catalog.Change{At: at, By: "owner", What: "received", Why: "because\n'quoted\""}

func put(t *testing.T, s *store.Store, r catalog.Record) catalog.Record {
	t.Helper()
	e, err := s.Put(context.Background(), r, received)
	if err != nil {
		t.Fatal(err)
	}
	r.Entry = e
	return r
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func get(t *testing.T, s *store.Store, id string, version int) catalog.Record {
	t.Helper()
	r, err := s.Get(context.Background(), id, version)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func runComesBack(t *testing.T, s *store.Store) {
	for i := range 5 {
		r := put(t, s, record(i))
		same(t, r, get(t, s, r.Entry.ID, 0))
		same(t, r, get(t, s, r.Entry.ID, 1))
	}
	big := record(6)
	big.Document = make([]byte, 3<<20)
	big.Entry.Cells, big.Entry.Prefill, big.Blobs = nil, nil, nil
	big.Entry.MeasuredAt, big.Entry.PublishedAt = time.Time{}, time.Time{}
	big = put(t, s, big)
	same(t, big, get(t, s, big.Entry.ID, 0))
}

func versionsFollow(t *testing.T, s *store.Store) {
	first := put(t, s, record(0))
	second := first
	second.Entry.Version, second.Why = 2, "label corrected"
	second.Document = []byte(`{"second":true}`)
	second = put(t, s, second)
	if second.Entry.Sequence <= first.Entry.Sequence {
		t.Errorf("sequence %d after %d", second.Entry.Sequence, first.Entry.Sequence)
	}
	same(t, first, get(t, s, first.Entry.ID, 1))
	same(t, second, get(t, s, first.Entry.ID, 0))
	for _, version := range []int{1, 2, 4} {
		again := first
		again.Entry.Version = version
		if _, err := s.Put(context.Background(), again, received); !errors.Is(err, catalog.ErrConflict) {
			t.Errorf("version %d again: %v", version, err)
		}
	}
	history, err := s.History(context.Background(), first.Entry.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := []catalog.Change{received, received}
	want[0].Sequence, want[0].Version, want[1].Sequence, want[1].Version = first.Entry.Sequence, 1, second.Entry.Sequence, 2
	same(t, want, history)
}

func staleChangeIsRefused(t *testing.T, s *store.Store) {
	r := put(t, s, record(0))
	r.Entry.Visibility, r.Entry.Owner, r.Entry.Level, r.Entry.Reproductions = catalog.Withdrawn, "other", catalog.Reproduced, 4
	r.Entry.PublishedAt, r.Checks = at.Add(time.Hour), []byte(`{"level":5}`)
	stale := r
	e, err := s.Set(context.Background(), r, catalog.Change{At: at, What: "withdrawn"})
	if err != nil {
		t.Fatal(err)
	}
	r.Entry = e
	same(t, r, get(t, s, r.Entry.ID, 0))
	if _, err := s.Set(context.Background(), stale, received); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("a stale change: %v", err)
	}
	same(t, r, get(t, s, r.Entry.ID, 0))
}

func since(t *testing.T, s *store.Store, sequence int64) (list []catalog.Entry) {
	t.Helper()
	for e, err := range s.Since(context.Background(), sequence) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func followersHear(t *testing.T, s *store.Store) {
	var want []catalog.Entry
	for i := range 1203 {
		want = append(want, put(t, s, renamed(record(0), i)).Entry)
	}
	same(t, want, since(t, s, 0))
	changed := catalog.Record{Entry: want[3], Checks: []byte("{}")}
	changed.Entry.Visibility = catalog.Unlisted
	e, err := s.Set(context.Background(), changed, received)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(context.Background(), want[5].ID); err != nil {
		t.Fatal(err)
	}
	same(t, []catalog.Entry{e, {ID: want[5].ID, Sequence: e.Sequence + 1}}, since(t, s, want[len(want)-1].Sequence))
}

func removedIsGone(t *testing.T, s *store.Store) {
	ctx := context.Background()
	r := put(t, s, record(0))
	if err := s.Remove(ctx, r.Entry.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, r.Entry.ID, 0); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Get(ctx, r.Entry.ID, 1); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("get version 1: %v", err)
	}
	if err := s.Remove(ctx, r.Entry.ID); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("remove again: %v", err)
	}
	if _, err := s.Set(ctx, r, received); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("set: %v", err)
	}
	if used, err := s.BlobInUse(ctx, r.Blobs[0].Hash); used || err != nil {
		t.Errorf("its file is in use: %v, %v", used, err)
	}
}

func foundByRowsAndName(t *testing.T, s *store.Store) {
	a, b := put(t, s, record(1)), put(t, s, record(2))
	next := a
	next.Entry.Version, next.Entry.EventsHash = 2, b.Entry.EventsHash
	put(t, s, next)
	for _, c := range []struct {
		hash string
		want []string
	}{{a.Entry.EventsHash, []string{a.Entry.ID}}, {b.Entry.EventsHash, []string{a.Entry.ID, b.Entry.ID}}, {"", nil}, {"other", nil}} {
		got, err := s.ByEvents(context.Background(), c.hash)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("rows %q: %v, %v; want %v", c.hash, got, err, c.want)
		}
	}
	got, err := s.ByRunID(context.Background(), b.Entry.RunID)
	if err != nil || !slices.Equal(got, []string{b.Entry.ID}) {
		t.Errorf("by name: %v, %v", got, err)
	}
}

func filesInUse(t *testing.T, s *store.Store) {
	r := put(t, s, record(0))
	for hash, want := range map[string]bool{r.Blobs[0].Hash: true, r.Blobs[1].Hash: true, "no": false} {
		if got, err := s.BlobInUse(context.Background(), hash); got != want || err != nil {
			t.Errorf("%s: %v, %v", hash, got, err)
		}
	}
}

func writersAtOnce(t *testing.T, s *store.Store) {
	const writers, each = 8, 10
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if _, err := s.Put(context.Background(), renamed(record(0), w*each+i), received); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	list := since(t, s, 0)
	if len(list) != writers*each {
		t.Errorf("%d runs of %d", len(list), writers*each)
	}
	for i, e := range list {
		if e.Sequence != int64(i+1) {
			t.Fatalf("place %d has number %d", i, e.Sequence)
		}
	}
}

func uploads(t *testing.T, s *store.Store) {
	ctx := context.Background()
	u := catalog.Upload{ID: "u1", Owner: "o", Hash: "h", Size: 10, Received: 3, CreatedAt: at, ExpiresAt: at.Add(time.Hour)}
	if err := s.PutUpload(ctx, u); err != nil {
		t.Fatal(err)
	}
	u.Received, u.Run = 10, "run"
	if err := s.PutUpload(ctx, u); err != nil {
		t.Fatal(err)
	}
	got, err := s.Upload(ctx, "u1")
	same(t, []any{u, nil}, []any{got, err})
	got, err = s.UploadByHash(ctx, "o", "h")
	same(t, []any{u, nil}, []any{got, err})
	if _, err := s.UploadByHash(ctx, "another", "h"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("another's upload: %v", err)
	}
	for after, want := range map[time.Duration]int{time.Hour: 0, time.Hour + time.Microsecond: 1} {
		list, err := s.ExpiredUploads(ctx, at.Add(after))
		if err != nil || len(list) != want {
			t.Errorf("after %v: %v, %v", after, list, err)
		}
	}
	if err := s.DropUpload(ctx, "u1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Upload(ctx, "u1"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("dropped: %v", err)
	}
}

func accounts(t *testing.T, s *store.Store) {
	ctx := context.Background()
	a := account.Account{ID: "1", Provider: "oidc", Subject: "x", Name: "ada", Role: account.Member, CreatedAt: at}
	b := account.Account{ID: "2", Provider: "oidc", Subject: "y", Name: "bob", Role: account.Moderator, CreatedAt: at}
	for _, v := range []account.Account{b, a} {
		if err := s.PutAccount(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	a.Role = account.Administrator
	if err := s.PutAccount(ctx, a); err != nil {
		t.Fatal(err)
	}
	for _, v := range []account.Account{{ID: "3", Provider: "oidc", Subject: "z", Name: "ada"}, {ID: "3", Provider: "oidc", Subject: "x", Name: "eve"}, {ID: "2", Provider: "oidc", Subject: "y", Name: "ada"}} {
		if err := s.PutAccount(ctx, v); !errors.Is(err, account.ErrTaken) {
			t.Errorf("%v: %v", v, err)
		}
	}
	byID, err1 := s.Account(ctx, "1")
	byName, err2 := s.AccountByName(ctx, "bob")
	byIdentity, err3 := s.AccountByIdentity(ctx, "oidc", "x")
	all, err4 := s.Accounts(ctx)
	same(t, []any{a, b, a, []account.Account{a, b}, nil, nil, nil, nil}, []any{byID, byName, byIdentity, all, err1, err2, err3, err4})
}

func sessions(t *testing.T, s *store.Store) {
	ctx := context.Background()
	v := account.Session{Hash: sha256.Sum256([]byte("a")), Account: "1", CreatedAt: at, ExpiresAt: at.Add(time.Hour)}
	other := account.Session{Hash: sha256.Sum256([]byte("b")), Account: "2", CreatedAt: at, ExpiresAt: at}
	for _, x := range []account.Session{v, other} {
		if err := s.PutSession(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	v.ExpiresAt = at.Add(2 * time.Hour)
	if err := s.PutSession(ctx, v); err != nil {
		t.Fatal(err)
	}
	got, err := s.Session(ctx, v.Hash)
	same(t, []any{v, nil}, []any{got, err})
	if err := s.DropExpired(ctx, at.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Session(ctx, other.Hash); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("expired: %v", err)
	}
	if err := s.DropSessionsOf(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Session(ctx, v.Hash); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("ended: %v", err)
	}
}

func tokens(t *testing.T, s *store.Store) {
	ctx := context.Background()
	v := account.Token{ID: "t1", Name: "laptop", Hash: sha256.Sum256([]byte("a")), Account: "1", Scopes: []account.Scope{account.Submit, account.ReadOwn}, CreatedAt: at}
	if err := s.PutToken(ctx, v); err != nil {
		t.Fatal(err)
	}
	v.UsedAt = at.Add(time.Minute)
	if err := s.PutToken(ctx, v); err != nil {
		t.Fatal(err)
	}
	got, err1 := s.TokenByHash(ctx, v.Hash)
	list, err2 := s.TokensOf(ctx, "1")
	same(t, []any{v, []account.Token{v}, nil, nil}, []any{got, list, err1, err2})
	if err := s.DropToken(ctx, "2", "t1"); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("another's token: %v", err)
	}
	if err := s.DropToken(ctx, "1", "t1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TokenByHash(ctx, v.Hash); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("revoked: %v", err)
	}
}

func devices(t *testing.T, s *store.Store) {
	ctx := context.Background()
	v := account.Device{CodeHash: sha256.Sum256([]byte("a")), UserCode: "BCDF-GHJK", Scopes: []account.Scope{account.Submit}, ExpiresAt: at}
	if err := s.PutDevice(ctx, v); err != nil {
		t.Fatal(err)
	}
	if err := s.PutDevice(ctx, account.Device{CodeHash: sha256.Sum256([]byte("b")), UserCode: v.UserCode, ExpiresAt: at}); !errors.Is(err, account.ErrTaken) {
		t.Errorf("a code twice: %v", err)
	}
	v.Account, v.Denied = "1", true
	if err := s.PutDevice(ctx, v); err != nil {
		t.Fatal(err)
	}
	byCode, err1 := s.DeviceByCode(ctx, v.CodeHash)
	byUser, err2 := s.DeviceByUserCode(ctx, v.UserCode)
	same(t, []any{v, v, nil, nil}, []any{byCode, byUser, err1, err2})
	if err := s.DropDevice(ctx, v.CodeHash); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeviceByCode(ctx, v.CodeHash); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("dropped: %v", err)
	}
}

func notThere(t *testing.T, s *store.Store) {
	ctx := context.Background()
	_, err := s.Get(ctx, "x", 0)
	_, errHistory := s.History(ctx, "x")
	_, errAccount := s.Account(ctx, "x")
	for _, err := range []error{err, errHistory} {
		if !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
	if !errors.Is(errAccount, account.ErrNotFound) {
		t.Errorf("%v", errAccount)
	}
	if list := since(t, s, 0); len(list) != 0 {
		t.Errorf("an empty store has %v", list)
	}
}
