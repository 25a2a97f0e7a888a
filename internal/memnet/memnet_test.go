package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"speedmatrix/internal/memnet"
)

// pair gives the two ends of a fresh connection.
func pair(t *testing.T, n *memnet.Network) (client, server *memnet.Conn) {
	t.Helper()
	l, err := n.Listen("server:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := n.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*memnet.Conn), s.(*memnet.Conn)
}

func TestBytesArriveInTheInstantOfTheirWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := pair(t, memnet.New())
		go func() {
			time.Sleep(7 * time.Millisecond)
			_, _ = s.Write([]byte("hello"))
			_ = s.Close()
		}()
		start := time.Now()
		got := make([]byte, 16)
		n, err := c.Read(got)
		if err != nil || string(got[:n]) != "hello" || time.Since(start) != 7*time.Millisecond {
			t.Fatalf("read %q, %v after %v; want hello after 7ms", got[:n], err, time.Since(start))
		}
		if _, err := c.Read(got); !errors.Is(err, io.EOF) {
			t.Fatalf("read after the peer's close: %v, want EOF", err)
		}
	})
}

func TestAFullBufferHoldsTheWriterBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.SetBuffer(4)
		c, s := pair(t, n)
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			_, _ = io.ReadFull(s, make([]byte, 10))
		}()
		if _, err := c.Write([]byte("0123456789")); err != nil || time.Since(start) != time.Second {
			t.Fatalf("write returned %v after %v, want nil after 1s", err, time.Since(start))
		}
	})
}

func TestDeadlinesEndWaitsAndCanBeTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.SetBuffer(1)
		c, s := pair(t, n)
		start := time.Now()
		_ = c.SetDeadline(start.Add(time.Second))
		_, err := c.Read(make([]byte, 1))
		if nerr, ok := errors.AsType[net.Error](err); !ok || !nerr.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatalf("read: %v after %v, want a timeout after 1s", err, time.Since(start))
		}
		if n, err := c.Write([]byte("ab")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write after its deadline: %d, %v", n, err)
		}
		_ = c.SetDeadline(time.Time{})
		go func() {
			time.Sleep(time.Hour)
			_, _ = s.Write([]byte("x"))
		}()
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatalf("read without a deadline: %v", err)
		}
		go func() {
			time.Sleep(time.Minute)
			_ = c.SetReadDeadline(time.Unix(1, 0))
		}()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a past deadline set while reading: %v", err)
		}
	})
}

func TestHowConnectionsEnd(t *testing.T) {
	read := func(c *memnet.Conn) error { _, err := c.Read(make([]byte, 8)); return err }
	write := func(c *memnet.Conn) error { _, err := c.Write([]byte("w")); return err }
	tests := []struct {
		name string
		end  func(t *testing.T, c, s *memnet.Conn)
		then []func(c *memnet.Conn) error // what the other end does
		want []error
	}{
		{"the peer drains, then EOF", func(_ *testing.T, _, s *memnet.Conn) { _ = write(s); _ = s.Close() },
			[]func(*memnet.Conn) error{read, read, read}, []error{nil, io.EOF, io.EOF}},
		{"writing to a closed peer is lost once, then fails", func(_ *testing.T, _, s *memnet.Conn) { _ = s.Close() },
			[]func(*memnet.Conn) error{write, write, read}, []error{nil, syscall.EPIPE, syscall.ECONNRESET}},
		{"closing with bytes unread resets", func(_ *testing.T, c, s *memnet.Conn) { _ = write(c); _ = s.Close() },
			[]func(*memnet.Conn) error{read, write}, []error{syscall.ECONNRESET, syscall.ECONNRESET}},
		{"a reset comes after what was received", func(_ *testing.T, _, s *memnet.Conn) { _ = write(s); s.Reset() },
			[]func(*memnet.Conn) error{read, read, write}, []error{nil, syscall.ECONNRESET, syscall.ECONNRESET}},
		{"half-close ends one direction only", func(_ *testing.T, _, s *memnet.Conn) { _ = s.CloseWrite() },
			[]func(*memnet.Conn) error{read, write, write}, []error{io.EOF, nil, nil}},
		{"one's own close", func(_ *testing.T, c, _ *memnet.Conn) { _ = c.Close() },
			[]func(*memnet.Conn) error{read, write}, []error{net.ErrClosed, net.ErrClosed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, s := pair(t, memnet.New())
			tt.end(t, c, s)
			for i, do := range tt.then {
				if err := do(c); !errors.Is(err, tt.want[i]) {
					t.Errorf("step %d: %v, want %v", i, err, tt.want[i])
				}
			}
		})
	}
}

func TestACloseWakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := pair(t, memnet.New())
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { _, errs[0] = c.Read(make([]byte, 1)) })
		wg.Go(func() { _, errs[1] = s.Read(make([]byte, 1)) })
		synctest.Wait()
		_ = c.Close()
		wg.Wait()
		if !errors.Is(errs[0], net.ErrClosed) || !errors.Is(errs[1], io.EOF) {
			t.Fatalf("got %v and %v", errs[0], errs[1])
		}
	})
}

func TestListeners(t *testing.T) {
	n := memnet.New()
	if _, err := n.DialContext(t.Context(), "tcp", "nobody:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial where nobody listens: %v", err)
	}
	l, err := n.Listen("a:80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen("a:80"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("second listener: %v", err)
	}
	c, err := n.DialContext(t.Context(), "tcp", "a:80")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("connection in the backlog of a closed listener: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("accept after close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("second close: %v", err)
	}
	if _, err := n.Listen("a:80"); err != nil {
		t.Fatalf("listen again: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.DialContext(ctx, "tcp", "a:80"); !errors.Is(err, context.Canceled) {
		t.Fatalf("dial with an ended context: %v", err)
	}
	if _, err := n.Listen("no port"); err == nil {
		t.Fatal("an address without a port was taken")
	}
}

func TestEveryByteArrivesInOrderWhateverTheSizes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sent := rapid.SliceOfN(rapid.Byte(), 1, 20000).Draw(r, "bytes")
		room := rapid.IntRange(1, 9000).Draw(r, "room")
		piece := rapid.IntRange(1, 7000).Draw(r, "piece")
		n := memnet.New()
		n.SetBuffer(room)
		c, s := pair(t, n)
		go func() {
			for left := sent; len(left) > 0; {
				k := min(piece, len(left))
				_, _ = s.Write(left[:k])
				left = left[k:]
			}
			_ = s.Close()
		}()
		var got bytes.Buffer
		if _, err := io.CopyBuffer(&got, struct{ io.Reader }{c}, make([]byte, rapid.IntRange(1, 5000).Draw(r, "read"))); err != nil {
			r.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), sent) {
			r.Fatalf("%d bytes arrived differently (%d sent)", got.Len(), len(sent))
		}
	})
}

func TestHTTPRunsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		l, err := n.Listen("server:80")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Minute)
			_, _ = io.WriteString(w, "late")
		})}
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(l) })
		transport := &http.Transport{DialContext: n.DialContext}
		start := time.Now()
		resp, err := (&http.Client{Transport: transport}).Post("http://server:80/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != "late" || err != nil || time.Since(start) != time.Minute {
			t.Fatalf("%q, %v after %v", body, err, time.Since(start))
		}
		transport.CloseIdleConnections()
		_ = server.Close()
		wg.Wait()
	})
}
