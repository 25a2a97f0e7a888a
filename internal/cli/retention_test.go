package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
)

// lasting is something of a site that is removed by itself.
type lasting struct {
	what  string
	lasts time.Duration
	there func() bool
}

// keepDrafts is how long the sites of these tests keep drafts.
const keepDrafts = 72 * time.Hour

// lastingThings puts into a site what it removes by itself, each as it is made by those who use the site.
func (w *submitWorld) lastingThings() []lasting {
	w.t.Helper()
	ctx := context.Background()
	run := func(id string) func() bool {
		return func() bool {
			_, inIndex := w.r.index.Get(id)
			_, err := w.r.store.Get(ctx, id, 0)
			if inIndex != (err == nil) || err != nil && !errors.Is(err, catalog.ErrNotFound) {
				w.t.Errorf("run %s: in the index %v, in the store %v", id, inIndex, err)
			}
			return inIndex
		}
	}
	receipt, err := w.r.runs.Receive(ctx, account.Visitor{}, bytes.NewReader(archiveOf(w.t, "run-of-nobody")))
	if err != nil {
		w.t.Fatal(err)
	}
	list := []lasting{{"a draft", keepDrafts, run(w.draft("run-draft"))}, {"a run without an account", keepDrafts, run(receipt.ID)}}
	list = append(list, w.unfinishedUpload(), w.leftFolder())

	device, err := w.r.people.BeginDevice(ctx, []account.Scope{account.Submit})
	if err != nil {
		w.t.Fatal(err)
	}
	found := func(err error) bool {
		if err != nil && !errors.Is(err, account.ErrNotFound) {
			w.t.Error(err)
		}
		return err == nil
	}
	now := time.Now()
	session, token := sha256.Sum256([]byte("a session")), sha256.Sum256([]byte("a token"))
	err = errors.Join(w.r.store.PutSession(ctx, account.Session{Hash: session, Account: "id-owner", CreatedAt: now, ExpiresAt: now.Add(account.SessionLasts)}),
		w.r.store.PutToken(ctx, account.Token{ID: "of a week", Name: "x", Hash: token, Account: "id-owner", Scopes: []account.Scope{account.Submit}, CreatedAt: now, ExpiresAt: now.Add(7 * 24 * time.Hour)}))
	if err != nil {
		w.t.Fatal(err)
	}
	return append(list,
		lasting{"a login of a command line", device.Lasts, func() bool { _, err := w.r.store.DeviceByUserCode(ctx, device.UserCode); return found(err) }},
		lasting{"a session", account.SessionLasts, func() bool { _, err := w.r.store.Session(ctx, session); return found(err) }},
		lasting{"a token of a week", 7 * 24 * time.Hour, func() bool { _, err := w.r.store.TokenByHash(ctx, token); return found(err) }})
}

// unfinishedUpload begins an upload of which the second half does not come.
func (w *submitWorld) unfinishedUpload() lasting {
	ctx, archive := context.Background(), archiveOf(w.t, "run-half")
	sum := sha256.Sum256(archive)
	u, err := w.r.runs.Begin(ctx, w.owner(), int64(len(archive)), hex.EncodeToString(sum[:]))
	if err == nil {
		_, err = w.r.runs.Append(ctx, w.owner(), u.ID, 0, bytes.NewReader(archive[:len(archive)/2]))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return lasting{"an unfinished upload", keepUploads, func() bool {
		_, err := w.r.store.Upload(ctx, u.ID)
		pieces := filesUnder(w.t, filepath.Join(w.r.o.data, "uploads", "pieces"))
		if (err == nil) != (len(pieces) == 1) {
			w.t.Errorf("the upload: %v; its pieces: %v", err, pieces)
		}
		return err == nil
	}}
}

// leftFolder is what a process that was killed left of an upload it worked on.
func (w *submitWorld) leftFolder() lasting {
	left := filepath.Join(w.r.o.data, "uploads", "run-left")
	err := os.Mkdir(left, 0o700)
	if err == nil {
		err = os.Chtimes(left, time.Now(), time.Now())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return lasting{"what a killed process left", time.Hour, func() bool { _, err := os.Stat(left); return err == nil }}
}

// sweeps lets the site look after itself until the test ends.
func (w *submitWorld) sweeps() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		w.r.sweep(ctx)
		close(done)
	}()
	w.t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// Everything that docs/operate.md gives a time goes within an hour after it, and not before; what is published stays.
func TestWhatExpiresIsRemovedInItsTime(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		public := w.published("run-public")
		stays := filesUnder(t, filepath.Join(w.r.o.data, "files"))
		list, began := w.lastingThings(), time.Now()
		if all := filesUnder(t, filepath.Join(w.r.o.data, "files")); len(all) <= len(stays) {
			t.Fatalf("the drafts have no files of their own: %v", all)
		}
		w.sweeps()
		time.Sleep(time.Second) // between two sweeps
		for len(list) > 0 && time.Since(began) < 40*24*time.Hour {
			list = slices.DeleteFunc(list, func(l lasting) bool {
				age := time.Since(began)
				if l.there() {
					return false
				}
				if age < l.lasts || age > l.lasts+sweepEvery+time.Second {
					t.Errorf("%s was removed at an age of %s, not %s", l.what, age, l.lasts)
				}
				return true
			})
			time.Sleep(sweepEvery)
		}
		for _, l := range list {
			t.Errorf("%s is still there", l.what)
		}
		if got := filesUnder(t, filepath.Join(w.r.o.data, "files")); !slices.Equal(got, stays) {
			t.Errorf("files %v, want those of the published run: %v", got, stays)
		}
		if out := w.as("nobody", http.MethodGet, "/runs/"+public, "", nil); out.Code != http.StatusOK {
			t.Errorf("the published run: %d", out.Code)
		}
	}, func(o *serveOptions) { o.drafts, o.anonymous = keepDrafts, true })
}

func TestDraftsAreKeptWhereThatIsAsked(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		draft := w.draft("run-draft")
		w.sweeps()
		time.Sleep(1000 * time.Hour)
		if _, ok := w.r.index.Get(draft); !ok {
			t.Error("--keep-drafts 0 removed a draft")
		}
	}, func(o *serveOptions) { o.drafts = 0 })
}

func TestAReadOnlySiteRemovesNothing(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		list := w.lastingThings()
		w.r.rules.ReadOnly = true
		w.sweeps()
		time.Sleep(1000 * time.Hour)
		for _, l := range list {
			if !l.there() {
				t.Errorf("%s was removed", l.what)
			}
		}
	}, func(o *serveOptions) { o.drafts, o.anonymous = keepDrafts, true })
}
