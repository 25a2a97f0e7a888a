package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe is one direction of a connection: a ring of bytes.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond

	ring  []byte // grows up to size
	size  int
	start int
	used  int

	writeClosed bool // by the writer: the reader drains, then io.EOF
	readClosed  bool // by the reader: writes are lost
	failed      syscall.Errno

	readLimit, writeLimit limit
}

func newPipe(size int) *pipe {
	p := &pipe{size: size}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// read waits for at least one byte.
func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readClosed:
			return 0, net.ErrClosed
		case p.readLimit.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.used > 0:
			n := p.take(b)
			p.changed.Broadcast()
			return n, nil
		case p.failed != 0:
			return 0, syscall.ECONNRESET
		case p.writeClosed:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

// write waits until all of b is taken. lost says that the reader had closed
// its end before: the bytes went nowhere and the connection is now reset.
func (p *pipe) write(b []byte) (n int, lost bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.writeClosed:
			return n, false, net.ErrClosed
		case p.failed != 0:
			return n, false, p.failed
		case p.writeLimit.passed():
			return n, false, os.ErrDeadlineExceeded
		case p.readClosed && len(b) > 0:
			p.failed = syscall.EPIPE
			p.changed.Broadcast()
			return n + len(b), true, nil
		}
		if taken := p.put(b); taken > 0 {
			n, b = n+taken, b[taken:]
			p.changed.Broadcast()
		}
		if len(b) == 0 {
			return n, false, nil
		}
		p.changed.Wait()
	}
}

// take moves bytes out of the ring.
func (p *pipe) take(b []byte) int {
	n := min(len(b), p.used)
	first := copy(b[:n], p.ring[p.start:])
	copy(b[first:n], p.ring)
	p.start = (p.start + n) % len(p.ring)
	p.used -= n
	return n
}

// put moves as many bytes into the ring as it has room for.
func (p *pipe) put(b []byte) int {
	n := min(len(b), p.size-p.used)
	if p.used+n > len(p.ring) {
		p.grow(p.used + n)
	}
	if n == 0 {
		return 0
	}
	end := (p.start + p.used) % len(p.ring)
	first := copy(p.ring[end:], b[:n])
	copy(p.ring, b[first:n])
	p.used += n
	return n
}

// grow makes the ring hold need bytes, which is at most p.size.
func (p *pipe) grow(need int) {
	ring := make([]byte, min(p.size, max(need, 2*len(p.ring), 4096)))
	first := copy(ring, p.ring[p.start:min(p.start+p.used, len(p.ring))])
	copy(ring[first:], p.ring[:p.used-first])
	p.ring, p.start = ring, 0
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeClosed = true
	p.writeLimit.stop()
	p.changed.Broadcast()
}

// closeRead says whether bytes lay unread that the writer believes delivered.
func (p *pipe) closeRead() (unread bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unread = !p.readClosed && p.used > 0
	p.readClosed = true
	p.readLimit.stop()
	p.changed.Broadcast()
	return unread
}

func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == 0 {
		p.failed = syscall.ECONNRESET
	}
	p.changed.Broadcast()
}

func (p *pipe) setReadDeadline(t time.Time) { p.setLimit(&p.readLimit, t) }

func (p *pipe) setWriteDeadline(t time.Time) { p.setLimit(&p.writeLimit, t) }

func (p *pipe) setLimit(l *limit, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.stop()
	l.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		l.timer = time.AfterFunc(wait, p.wake)
	}
	p.changed.Broadcast()
}

// wake lets all waiting calls look at their deadlines again.
func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast()
}

// limit is a deadline and the timer that wakes those who wait for it.
type limit struct {
	at    time.Time
	timer *time.Timer
}

func (l *limit) passed() bool { return !l.at.IsZero() && !time.Now().Before(l.at) }

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}
