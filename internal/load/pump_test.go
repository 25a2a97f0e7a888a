package load

import (
	"net"
	"sync"
	"time"

	"speedmatrix/internal/stamp"
)

// WithPump lets loops drive the streams over connections of any kind, such as
// those of a network in memory.
func WithPump(o Options) Options {
	o.Engine = EngineEpoll
	o.poller = func(clock *stamp.Clock) (poller, error) {
		return &pump{clock: clock, bell: make(chan struct{}, 1)}, nil
	}
	return o
}

// pump is a poller whose connections are each read by a goroutine.
type pump struct {
	clock *stamp.Clock
	bell  chan struct{} // capacity 1

	mu     sync.Mutex
	events []event
}

func (p *pump) add(conn net.Conn, lane int32) (*stamp.Conn, error) {
	c := &pumped{Conn: conn}
	go func() {
		for err := error(nil); err == nil; {
			buf := make([]byte, 4096)
			var n int
			n, err = conn.Read(buf)
			c.mu.Lock()
			c.arrived, c.err = append(c.arrived, buf[:n]), err
			c.mu.Unlock()
			p.tell(event{lane: lane, in: true, gone: err != nil})
		}
	}()
	return stamp.Wrap(c, p.clock), nil
}

func (p *pump) tell(e event) {
	p.mu.Lock()
	p.events = append(p.events, e)
	p.mu.Unlock()
	p.wake()
}

func (p *pump) wait(ready []event, d time.Duration) ([]event, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.bell:
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ready = append(ready, p.events...)
	p.events = nil
	return ready, nil
}

func (p *pump) wake() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *pump) nap(d time.Duration) { <-time.After(d) }

func (p *pump) close() {}

// pumped is a connection whose bytes are fetched beforehand.
type pumped struct {
	net.Conn
	mu      sync.Mutex
	arrived [][]byte
	err     error
}

func (c *pumped) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.arrived) > 0 {
		n := copy(b, c.arrived[0])
		if c.arrived[0] = c.arrived[0][n:]; len(c.arrived[0]) == 0 {
			c.arrived = c.arrived[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
	if c.err != nil {
		return 0, c.err
	}
	return 0, errAgain
}
