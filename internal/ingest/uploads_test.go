package ingest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/memnet"
)

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (w *world) begin(by account.Visitor, data []byte) catalog.Upload {
	w.t.Helper()
	u, err := w.Begin(w.t.Context(), by, int64(len(data)), sumOf(data))
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// broken gives its bytes and then fails as a connection does that is lost.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestAnUploadGoesOnWhereItBrokeOff(t *testing.T) {
	w, ada := newWorld(t), member("ada")
	data := packed(t, nil)
	u := w.begin(ada, data)
	if _, err := w.Append(t.Context(), ada, u.ID, 0, broken{bytes.NewReader(data[:3000])}); codeOf(t, err) != "piece-broken" {
		t.Errorf("a piece that broke off: %v", err)
	}
	if _, err := w.Finish(t.Context(), ada, u.ID); codeOf(t, err) != "not-whole" {
		t.Errorf("finished before its end: %v", err)
	}
	if again := w.begin(ada, data); again.ID != u.ID || again.Received != 3000 {
		t.Errorf("begun again: %+v", again)
	}
	if _, err := w.Append(t.Context(), ada, u.ID, 2000, bytes.NewReader(data[2000:])); codeOf(t, err) != "offset" {
		t.Errorf("a piece at the wrong place: %v", err)
	}
	if _, err := w.Upload(t.Context(), member("eve"), u.ID); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("another's upload: %v", err)
	}
	for _, end := range []int{5000, len(data)} {
		now, err := w.Upload(t.Context(), ada, u.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now, err = w.Append(t.Context(), ada, u.ID, now.Received, bytes.NewReader(data[now.Received:end])); err != nil || now.Received != int64(end) {
			t.Fatalf("%+v %v", now, err)
		}
	}
	r, err := w.Finish(t.Context(), ada, u.ID)
	if err != nil || r.Visibility != catalog.Draft || r.Report.Level != catalog.SelfConsistent {
		t.Fatalf("%+v %v", r, err)
	}
	if again, err := w.Finish(t.Context(), ada, u.ID); err != nil || again.ID != r.ID || w.store.Len() != 1 {
		t.Errorf("finished twice: %+v %v", again, err)
	}
	if _, err := w.Append(t.Context(), ada, u.ID, int64(len(data)), bytes.NewReader([]byte("x"))); codeOf(t, err) != "offset" {
		t.Errorf("a piece behind the end: %v", err)
	}
	w.tidy()
}

func TestUploadsInPiecesThatAreNotWhatTheySaid(t *testing.T) {
	w, eve := newWorld(t), member("eve")
	data := packed(t, nil)
	if _, err := w.Begin(t.Context(), eve, 1<<40, sumOf(data)); codeOf(t, err) != "archive-too-large" {
		t.Errorf("a terabyte: %v", err)
	}
	if _, err := w.Begin(t.Context(), eve, 0, sumOf(data)); codeOf(t, err) != "archive-too-large" {
		t.Errorf("nothing: %v", err)
	}
	u := w.begin(eve, data)
	if _, err := w.Append(t.Context(), eve, u.ID, 0, io.MultiReader(bytes.NewReader(data), &endless{})); codeOf(t, err) != "more-than-promised" {
		t.Errorf("more than promised: %v", err)
	}
	other := bytes.Clone(data)
	other[100] ^= 1
	if _, err := w.Append(t.Context(), eve, u.ID, 0, bytes.NewReader(other)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(t.Context(), eve, u.ID); codeOf(t, err) != "wrong-hash" {
		t.Errorf("other bytes: %v", err)
	}
	if _, err := w.Upload(t.Context(), eve, u.ID); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("what was refused is still there: %v", err)
	}
	w.nothing()
}

func TestUploadsThatRestTooLongAreForgotten(t *testing.T) {
	now := today
	w := newWorld(t, func(o *ingest.Options) { o.Now = func() time.Time { return now } })
	ada, data := member("ada"), packed(t, nil)
	u := w.begin(ada, data)
	if _, err := w.Append(t.Context(), ada, u.ID, 0, bytes.NewReader(data[:100])); err != nil {
		t.Fatal(err)
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Upload(t.Context(), ada, u.ID); err != nil {
		t.Errorf("forgotten too early: %v", err)
	}
	now = now.Add(time.Hour + time.Second)
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Upload(t.Context(), ada, u.ID); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("still there: %v", err)
	}
	w.nothing()
}

func TestWhatAKilledProcessLeftIsSweptAway(t *testing.T) {
	w := newWorld(t)
	for name, age := range map[string]time.Duration{"run-old": 2 * time.Hour, "in-old": 2 * time.Hour, "run-new": time.Minute} {
		path := filepath.Join(w.folder, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, today.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(w.folder, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "pieces" || filepath.Base(left[1]) != "run-new" {
		t.Errorf("%v %v", left, err)
	}
}

func TestTwoPiecesAtOnceAreRefused(t *testing.T) {
	w, ada, data := newWorld(t), member("ada"), packed(t, nil)
	u := w.begin(ada, data)
	pipe, hold := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := w.Append(context.Background(), ada, u.ID, 0, pipe)
		done <- err
	}()
	if _, err := hold.Write(data[:10]); err != nil { // it is read: the first piece is on its way
		t.Fatal(err)
	}
	if _, err := w.Append(t.Context(), ada, u.ID, 0, bytes.NewReader(data)); codeOf(t, err) != "upload-busy" {
		t.Errorf("a second piece: %v", err)
	}
	if _, err := w.Finish(t.Context(), ada, u.ID); codeOf(t, err) != "upload-busy" {
		t.Errorf("its end: %v", err)
	}
	if err := hold.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFiftyUploadsAtOnceAreAllKept(t *testing.T) {
	w := newWorld(t, func(o *ingest.Options) { o.Patience, o.Incoming = 10*time.Minute, 50 })
	var all sync.WaitGroup
	ids := make([]string, 50)
	for i := range ids {
		archive := named(t, fmt.Sprintf("20261201T0000%02dZ-run", i))
		all.Go(func() {
			r, err := w.Receive(context.Background(), member(fmt.Sprint("owner-", i%7)), bytes.NewReader(archive))
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = r.ID
		})
	}
	all.Wait()
	for i, id := range ids {
		if r, err := w.store.Get(t.Context(), id, 0); err != nil || r.Entry.RunID != fmt.Sprintf("20261201T0000%02dZ-run", i) {
			t.Errorf("%d: %s, %v", i, r.Entry.RunID, err)
		}
	}
	if w.store.Len() != 50 || w.index.Len() != 50 {
		t.Errorf("%d are kept, %d known", w.store.Len(), w.index.Len())
	}
	w.tidy()
}

func TestWhoWaitsTooLongForASeatIsAskedToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		w := newWorld(t, func(o *ingest.Options) {
			o.AtOnce, o.Incoming, o.Patience = 1, 2, 5*time.Second
			trusting(o) // rows that are read in here leave a decoder of this bubble in a pool that other tests take from
			examine := o.Examine
			o.Examine = func(ctx context.Context, folder string) (ingest.Examination, error) {
				<-let
				return examine(ctx, folder)
			}
		})
		upload := func(name string) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := w.Receive(context.Background(), member(name), bytes.NewReader(packed(t, nil)))
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first := upload("ada") // has the seat
		start := time.Now()
		second, third := upload("bob"), upload("carol")
		if fourth := upload("dan"); true {
			if p := problemOf(<-fourth); p == nil || p.Code != "busy" || p.Status != 503 || time.Since(start) != 0 {
				t.Errorf("at the door: %v after %v", p, time.Since(start))
			}
		}
		for _, done := range []chan error{second, third} {
			if p := problemOf(<-done); p == nil || p.Code != "busy" || time.Since(start) != 5*time.Second {
				t.Errorf("without a seat: %v after %v", p, time.Since(start))
			}
		}
		close(let)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if w.store.Len() != 1 {
			t.Errorf("%d runs", w.store.Len())
		}
		w.tidy()
	})
}

// A body may come slowly, and stop, without keeping others from their seat.
func TestASlowBodyKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Rows that are read in here leave a decoder of this bubble in a pool that other tests take from.
		w := newWorld(t, trusting, func(o *ingest.Options) { o.AtOnce, o.Patience = 1, time.Second })
		network := memnet.New()
		l, err := network.Listen("127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		slow := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				err = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			}
			if err == nil {
				_, err = w.Receive(context.Background(), member("eve"), conn)
			}
			slow <- errors.Join(err, conn.Close())
		}()
		client, err := network.DialContext(t.Context(), "tcp", "127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for i := range 5 { // a byte every five seconds, then nothing
			if _, err := client.Write(packed(t, nil)[i : i+1]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		before := time.Now()
		if r := w.receive(member("ada"), packed(t, nil)); r.ID == "" || time.Since(before) != 0 {
			t.Errorf("another waited %v", time.Since(before))
		}
		if p := problemOf(<-slow); p == nil || p.Code != "too-slow" || p.Status != 408 || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v", p, time.Since(start))
		}
		if w.store.Len() != 1 {
			t.Errorf("%d runs", w.store.Len())
		}
		w.tidy()
		_ = errors.Join(client.Close(), l.Close())
	})
}

func TestASenderThatIsGoneIsNotWaitedFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, func(o *ingest.Options) {
		o.Examine = func(ctx context.Context, folder string) (ingest.Examination, error) {
			cancel()
			return ingest.Examine(ctx, folder)
		}
	})
	_, err := w.Receive(ctx, member("ada"), bytes.NewReader(packed(t, nil)))
	if err == nil || strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
	w.nothing()
}
