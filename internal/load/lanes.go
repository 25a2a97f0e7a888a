package load

import (
	"context"
	"net"
	"runtime"

	"speedmatrix/internal/stamp"
)

// finish ends the request under way and goes on with the next one.
func (n *lane) finish(keep bool) {
	x := n.x
	n.x, n.body, n.answer, n.size = nil, nil, nil, 0
	if !keep {
		n.drop()
	}
	x.settle()
	n.stream.ended(x)
	x.release(nil)
	s := n.loop.streams
	switch {
	case s.ctx.Err() != nil:
		n.end()
	case n.stream.failures.Load() >= 2:
		n.loop.at(s.clock.Now()+int64(restartWait), n.goOn)
	default:
		n.goOn()
	}
}

// goOn makes the next request, in a goroutine of its own since prompts are long, and starts it.
func (n *lane) goOn() {
	if n.ended {
		return
	}
	n.loop.helpers.Go(func() {
		r := n.loop.streams.next(int(n.stream.index), true)
		n.loop.post(func() { n.start(r) })
	})
}

// end ends the lane; a request under way is cut, one that opens its connection ends with that.
func (n *lane) end() {
	switch {
	case n.ended:
	case n.x != nil:
		n.x.release(context.Cause(n.loop.streams.ctx)) // which may be about to do so itself
		n.cut(n.x)
	default:
		n.ended = true
		n.loop.over++
		n.drop()
	}
}

// dialed takes the connection that was opened for a request, or for none.
func (n *lane) dialed(x *exchange, conn net.Conn, err error) {
	wanted := n.conn == nil && !n.ended && (x == n.x)
	if err == nil && !wanted {
		_ = conn.Close()
	}
	if !wanted {
		return
	}
	if err != nil {
		if x != nil {
			n.unanswered(err)
		}
		return
	}
	n.adopt(conn.(*stamp.Conn))
	if x != nil {
		n.send(false)
	}
}

// adopt makes a connection the lane's own.
func (n *lane) adopt(conn *stamp.Conn) {
	n.conn, n.openedNS = conn, n.loop.streams.clock.Now()
	if !n.launched {
		n.receive(false) // what came before may have been told already
	}
}

// launch plans the first request.
func (n *lane) launch(atNS int64) {
	n.first.PlannedNS = atNS
	if atNS-n.openedNS > int64(stockAge) {
		n.loop.at(atNS-int64(freshen), n.refresh)
	}
	n.loop.at(atNS, func() {
		n.launched = true
		if !n.ended {
			n.start(n.first)
		}
	})
}

// refresh opens the connection anew.
func (n *lane) refresh() {
	if !n.ended && n.x == nil {
		n.drop()
		n.dial(nil)
	}
}

// openLanes opens n streams that loops drive; several loops share large numbers.
func (s *Streams) openLanes(c *Client, n int) error {
	for range min(max(n/lanesPerLoop, 1), runtime.GOMAXPROCS(0)) {
		p, err := c.options.poller(s.clock)
		if err != nil {
			return err
		}
		s.loops = append(s.loops, newLoop(s, c, p))
	}
	slots, opened := make(chan struct{}, opening), make(chan error, n)
	for i, st := range s.list {
		l := s.loops[i%len(s.loops)]
		own := &lane{loop: l, stream: st}
		st.decoder, st.decoded = st.client.options.Dialect.NewDecoder(), l.decoded // a decoder may keep what it needs of its answer
		st.ends = func(x *exchange) { l.post(func() { own.cut(x) }) }
		st.line.wrap = func(conn net.Conn) (net.Conn, error) { return wrapped(l.poll.add(conn, int32(i))) }
		l.lanes = append(l.lanes, own)
		s.running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			conn, err := st.line.newPlain(s.ctx, "tcp", c.target.address)
			if err == nil {
				own.conn, own.openedNS = conn.(*stamp.Conn), s.clock.Now()
				own.first = s.next(i, false)
			}
			opened <- err
		})
	}
	return s.await(opened, n)
}

// lanesPerLoop is how many streams one loop drives before another one helps.
const lanesPerLoop = 4096

// wrapped makes no interface of a nil pointer.
func wrapped(conn *stamp.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// drive starts the loops.
func (s *Streams) drive() {
	s.driven = true
	for _, l := range s.loops {
		s.running.Go(l.run)
	}
	s.running.Go(func() {
		select {
		case <-s.ctx.Done():
			return
		case <-s.launched:
		}
		for _, l := range s.loops {
			l.post(func() {
				for _, n := range l.lanes {
					n.launch(s.atNS + int64(n.stream.index)*int64(s.spacing))
				}
			})
		}
	})
}

// abandon closes what openLanes opened where the loops never ran.
func (s *Streams) abandon() {
	if s.driven {
		return
	}
	for _, l := range s.loops {
		for _, n := range l.lanes {
			n.drop()
		}
		l.poll.close()
	}
}
