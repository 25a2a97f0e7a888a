package stamp

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// pair gives both ends of a TCP connection on loopback, the first one wrapped.
func pair(t testing.TB) (*Conn, net.Conn, *Clock) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	clock := NewClock()
	return Wrap(a, clock), b, clock
}

// warm exchanges bytes until the kernel stamps: it begins a little after the
// first connection on the machine asks for it.
func warm(t testing.TB, c *Conn, peer net.Conn) {
	t.Helper()
	buf := make([]byte, 16)
	for range 2000 {
		peer.Write([]byte("x"))
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
		if _, kernel := c.LastRead(); kernel {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("2000 reads and none with a kernel stamp")
}

func TestTheKernelStampIsTheArrivalAndNotTheRead(t *testing.T) {
	if !Kernel() {
		t.Skip("no kernel stamps on this system")
	}
	c, peer, clock := pair(t)
	warm(t, c, peer)
	before := clock.Now()
	peer.Write([]byte("token"))
	written := clock.Now()
	time.Sleep(20 * time.Millisecond) // the bytes lie in the socket meanwhile
	readAt := clock.Now()
	if _, err := c.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	at, kernel := c.LastRead()
	if !kernel {
		t.Fatal("no kernel stamp")
	}
	// Both clocks are read within a few µs of each other; the read came 20 ms later.
	if slack := int64(2 * time.Millisecond); at < before-slack || at > written+slack || at >= readAt {
		t.Errorf("stamped %v after the write began, %v before the read", time.Duration(at-before), time.Duration(readAt-at))
	}
	if lag := c.Lag().Max(); lag < 20*time.Millisecond {
		t.Errorf("lag %v, the bytes lay 20 ms", lag)
	}
}

func TestTheEndOfTheStreamMovesNoStamp(t *testing.T) {
	c, peer, _ := pair(t)
	peer.Write([]byte("last"))
	buf := make([]byte, 16)
	if n, err := c.Read(buf); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	at, _ := c.LastRead()
	peer.Close()
	if n, err := c.Read(buf); n != 0 || err != io.EOF {
		t.Fatalf("n %d, err %v at the end", n, err)
	}
	if again, _ := c.LastRead(); again != at || c.Reads() != 1 || c.LastSize() != 4 {
		t.Errorf("after the end: moved %d ns, %d reads, size %d", again-at, c.Reads(), c.LastSize())
	}
}

func TestALargeWriteArrivesWholeAndIsStampedAtItsEnd(t *testing.T) {
	c, peer, clock := pair(t)
	sent := make([]byte, 8<<20)
	for i := range sent {
		sent[i] = byte(i * 7 / 3)
	}
	got := make(chan []byte)
	started := make(chan int64, 1)
	go func() {
		time.Sleep(20 * time.Millisecond) // more than the socket takes at once: the writer waits
		started <- clock.Now()
		all, _ := io.ReadAll(peer)
		got <- all
	}()
	n, err := c.Write(sent)
	if n != len(sent) || err != nil {
		t.Fatal(n, err)
	}
	c.Conn.(*net.TCPConn).CloseWrite()
	if !bytes.Equal(<-got, sent) {
		t.Error("other bytes arrived")
	}
	if at := <-started; c.WriteBegan() >= at || c.LastWrite() < at {
		t.Errorf("began %v before the reader did, ended %v after", at-c.WriteBegan(), c.LastWrite()-at)
	}
}

func TestAWriteToAConnectionThatIsGoneFails(t *testing.T) {
	c, peer, _ := pair(t)
	peer.(*net.TCPConn).SetLinger(0)
	peer.Close()
	var err error
	for err == nil {
		_, err = c.Write([]byte("x"))
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("err %v", err)
	}
	c.SetWriteDeadline(time.Now().Add(-time.Second))
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("err %v after the deadline", err)
	}
}

func TestReadsWaitDeadlinesHoldAndCloseWakes(t *testing.T) {
	c, _, _ := pair(t)
	c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
		t.Fatalf("err %v, want a timeout", err)
	}
	c.SetReadDeadline(time.Time{})
	done := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- err
	}()
	c.Close()
	if err := <-done; err == nil {
		t.Error("a read of a closed connection without an error")
	}
}

func TestReadAndWriteAllocateNothing(t *testing.T) {
	c, peer, _ := pair(t)
	buf, token := make([]byte, 64), []byte("token")
	allocs := testing.AllocsPerRun(200, func() {
		c.Write(token)
		peer.Read(buf)
		peer.Write(token)
		c.Read(buf)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestUnderNetHTTPAndTLSTheConnIsFound(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, 100_000))
	}))
	defer server.Close()
	raw, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	below := Wrap(raw, NewClock())
	conn := tls.Client(below, &tls.Config{InsecureSkipVerify: true})
	defer conn.Close()
	if Under(conn) != below || Under(below) != below {
		t.Fatal("the wrapper was not found")
	}
	if Under(raw) != nil || Under(nil) != nil {
		t.Fatal("a wrapper was found where there is none")
	}
	io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	got, err := io.ReadAll(conn)
	if err != nil || len(got) < 100_000 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if at, _ := below.LastRead(); at == 0 || below.LastWrite() == 0 || at < below.LastWrite()-int64(time.Second) {
		t.Errorf("read %d, write %d", at, below.LastWrite())
	}
}

func TestOtherConnectionsAreStampedAtTheReturnOfTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		clock := NewClock()
		c := Wrap(a, clock)
		start := clock.Now()
		go func() {
			time.Sleep(3 * time.Second)
			b.Write([]byte("x"))
			b.Close()
		}()
		c.Read(make([]byte, 1))
		at, kernel := c.LastRead()
		if at-start != int64(3*time.Second) || kernel || c.KernelStamped() {
			t.Errorf("stamped after %v, kernel %v", time.Duration(at-start), kernel)
		}
		if c.Reads() != 1 || c.Unstamped() != 0 || c.Lag().Count() != 0 {
			t.Errorf("%d reads, %d unstamped, %d lags", c.Reads(), c.Unstamped(), c.Lag().Count())
		}
		if !clock.Time(at).Equal(time.Now()) || clock.Check() != 0 {
			t.Error("the clock does not run with the bubble")
		}
	})
}

func TestAStepOfTheWallClockIsFoundOnceAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		for _, step := range []time.Duration{time.Second, -time.Minute, 60 * time.Microsecond} {
			// The clock believes in an offset from before the step.
			c.offset.Add(-int64(step))
			if got := c.Check(); got != step {
				t.Errorf("step %v, want %v", got, step)
			}
			if got := c.Check(); got != 0 {
				t.Errorf("step %v found again", got)
			}
		}
		c.offset.Add(int64(40 * time.Microsecond))
		if got := c.Check(); got != 0 {
			t.Errorf("%v is below 50 µs and yet a step", got)
		}
		if c.Steps() != 3 {
			t.Errorf("%d steps", c.Steps())
		}
		if real := time.Now().UnixNano(); c.FromKernel(real) != c.Now() {
			t.Errorf("the kernel's now is %d ns off", c.FromKernel(real)-c.Now())
		}
	})
}

func TestAStampIsNeverInTheFutureNorBeforeOlderBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewClock()
		c := &Conn{clock: clock}
		now := clock.Now()
		c.note(1, now+int64(time.Hour))
		if at, kernel := c.LastRead(); at != now || !kernel {
			t.Errorf("stamp %v in the future", time.Duration(at-now))
		}
		time.Sleep(time.Second)
		c.note(1, now-int64(time.Hour))
		if at, _ := c.LastRead(); at != now {
			t.Errorf("stamp %v before that of older bytes", time.Duration(now-at))
		}
		c.note(1, 0)
		if at, kernel := c.LastRead(); at != clock.Now() || kernel || c.Unstamped() != 1 {
			t.Error("a read without a stamp is not stamped now and counted")
		}
	})
}

func TestAQuantileIsWithinSixPercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		n := rapid.IntRange(1, 500).Draw(t, "n")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		rng := rand.New(rand.NewPCG(seed, 1))
		var h, half Histogram
		var all []time.Duration
		for i := range n {
			d := time.Duration(1024 * (1 + rng.ExpFloat64()*float64(int64(1)<<rng.IntN(20))))
			all = append(all, d)
			if i%2 == 0 {
				h.Add(d)
			} else {
				half.Add(d)
			}
		}
		h.Merge(&half)
		slices.Sort(all)
		want := all[int(q*float64(n-1))]
		got := h.Quantile(q)
		if ratio := float64(got) / float64(want); ratio < 0.94 || ratio > 1.07 {
			t.Fatalf("quantile %v is %v, want %v", q, got, want)
		}
		if h.Count() != int64(n) || h.Max() != all[n-1] {
			t.Fatalf("count %d of %d, max %v of %v", h.Count(), n, h.Max(), all[n-1])
		}
	})
}

func TestTheEndsOfTheHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.99) != 0 || h.Max() != 0 {
		t.Error("an empty histogram is not zero")
	}
	h.Add(-time.Second)
	h.Add(0)
	if h.Quantile(1) != 0 {
		t.Errorf("only zeros, and quantile %v", h.Quantile(1))
	}
	h.Add(time.Hour)
	if h.Quantile(1) < 64*time.Second || h.Max() != time.Hour {
		t.Errorf("an hour became %v, max %v", h.Quantile(1), h.Max())
	}
	for i := 1; i < histLength-1; i++ {
		if bucket(middle(i)) != i {
			t.Fatalf("the middle of bucket %d lies in %d", i, bucket(middle(i)))
		}
	}
}

func BenchmarkRead(b *testing.B) {
	c, peer, _ := pair(b)
	buf, token := make([]byte, 4096), make([]byte, 280)
	b.ReportAllocs()
	for b.Loop() {
		peer.Write(token)
		c.Read(buf)
	}
}
