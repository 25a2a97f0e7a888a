package fidelity_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/truth"
)

// tap stands between the program and the network and keeps what the program sent.
type tap struct {
	// before is how long each connection takes to open.
	before time.Duration

	mu      sync.Mutex
	dialled []string
	dialing int
	most    int // connections that were opened at once
	sent    []*sent
}

// sent is what the program wrote on one connection.
type sent struct {
	net.Conn
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (s *sent) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.bytes.Write(b)
	s.mu.Unlock()
	return s.Conn.Write(b)
}

// dial is a bed's dial.
func (p *tap) dial(n *memnet.Network) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		p.mu.Lock()
		p.dialled = append(p.dialled, address)
		p.dialing++
		p.most = max(p.most, p.dialing)
		p.mu.Unlock()
		if p.before > 0 {
			<-time.After(p.before)
		}
		c, err := n.DialContext(ctx, network, address)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dialing--
		if err != nil {
			return nil, err
		}
		s := &sent{Conn: c}
		p.sent = append(p.sent, s)
		return s, nil
	}
}

// requests gives everything that was asked for, as far as it was sent in full.
func (p *tap) requests(t *testing.T) (all []*http.Request) {
	t.Helper()
	for _, s := range p.sent {
		r := bufio.NewReader(bytes.NewReader(s.bytes.Bytes()))
		for {
			request, err := http.ReadRequest(r)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, request)
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				break
			}
		}
	}
	return all
}

// failed fails the test unless a cell is Failed with that reason, and gives it.
func (w *world) failed(c *speedmatrix.Cell, reason ...string) *speedmatrix.Cell {
	w.t.Helper()
	w.is(c, speedmatrix.StatusFailed, reason...)
	return c
}

// is fails the test unless a cell has that status and the parts of its reason, and the numbers follow from the rows.
func (w *world) is(c *speedmatrix.Cell, status speedmatrix.Status, reason ...string) {
	w.t.Helper()
	if c.Status != status {
		w.t.Errorf("%s is %s: %s; want %s", c.Key(), c.Status, c.Reason, status)
	}
	for _, part := range reason {
		if !strings.Contains(c.Reason, part) {
			w.t.Errorf("%s: the reason is %q, want …%s…", c.Key(), c.Reason, part)
		}
	}
	w.verified()
}

// exited fails the test unless the program ended with that code and said those things on standard error.
func (w *world) exited(code int, says ...string) {
	w.t.Helper()
	if w.code != code {
		w.t.Errorf("exit code %d, want %d\n%s%s", w.code, code, w.out.String(), w.errout.String())
	}
	for _, part := range says {
		if !strings.Contains(strings.Join(strings.Fields(w.errout.String()), " "), part) {
			w.t.Errorf("standard error lacks %q: %s", part, w.errout.String())
		}
	}
}

// warning gives the message of the run's warning of a code, "" without one.
func (w *world) warning(code string) string {
	i := slices.IndexFunc(w.run.Warnings, func(x speedmatrix.Warning) bool { return x.Code == code })
	if i < 0 {
		return ""
	}
	return w.run.Warnings[i].Message
}

// cut counts the requests of a cell that the program cut.
func (w *world) cut(key string) (n int) {
	for _, r := range w.store.requests[key] {
		if r.Class == string(speedmatrix.RequestCut) {
			n++
		}
	}
	return n
}

// several holds a property that takes a whole run of the program against some values that rapid makes, the same ones
// each time.
func several[T any](t *testing.T, n int, draw func(*rapid.T) T, holds func(t *testing.T, x T)) {
	t.Helper()
	made := rapid.Custom(draw)
	for seed := range n {
		x := made.Example(seed)
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			t.Parallel()
			holds(t, x)
		})
	}
}

// ofCell says whether a request is one of a decode cell's streams: those of the probe and the warm-up ask for less.
func ofCell(c truth.Call) bool { return c.Body.MaxTokens > 2000 }
