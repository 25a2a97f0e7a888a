package load

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"speedmatrix/internal/dialect"
	"speedmatrix/internal/stamp"
)

// poller tells which connections can be gone on with. Its connections never
// wait: Read and Write give errAgain instead.
type poller interface {
	// add takes a connection over, which belongs to a lane.
	add(conn net.Conn, lane int32) (*stamp.Conn, error)
	// wait appends the lanes that can be gone on with; it returns with none after
	// d, or when wake is called.
	wait(ready []event, d time.Duration) ([]event, error)
	// nap lets time pass, whatever there is to do.
	nap(d time.Duration)
	// wake ends a wait, or the next one. It may be called from any goroutine, and
	// after close.
	wake()
	// close frees the poller; its connections stay as they are.
	close()
}

// event is what a poller tells of a lane: something to read, room to write, or
// that the other side has closed.
type event struct {
	lane          int32
	in, out, gone bool
}

const (
	// loopRead is the buffer that all lanes of a loop read into, loopWrite the one they write from.
	loopRead  = 64 << 10
	loopWrite = 64 << 10
	// loopDials is how many connections a loop opens at once.
	loopDials = 64
	// ringEvery is how many events are handled between two looks at the clock.
	ringEvery = 16
)

// loop drives many streams from one goroutine, which alone touches its lanes.
type loop struct {
	streams *Streams
	client  *Client
	poll    poller
	lanes   []*lane
	read    []byte
	write   []byte
	// What one event is decoded into serves all lanes, so that it stays in the processor's cache.
	decoded *dialect.Event
	dials   chan struct{}
	helpers sync.WaitGroup // goroutines that open connections and make requests
	over    int            // lanes that have ended
	alarms  alarms
	naps    naps

	mu     sync.Mutex
	posted []func()
	spare  []func()
}

func newLoop(s *Streams, c *Client, p poller) *loop {
	return &loop{streams: s, client: c, poll: p, read: make([]byte, loopRead), write: make([]byte, loopWrite),
		decoded: new(dialect.Event), dials: make(chan struct{}, loopDials)}
}

// post lets the loop's goroutine call a function. It may be called from any goroutine.
func (l *loop) post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.mu.Unlock()
	l.poll.wake()
}

// runPosted calls what was posted.
func (l *loop) runPosted() {
	l.mu.Lock()
	list := l.posted
	l.posted, l.spare = l.spare[:0], nil
	l.mu.Unlock()
	for i, f := range list {
		f()
		list[i] = nil
	}
	l.spare = list[:0]
}

// run drives the lanes until all have ended.
func (l *loop) run() {
	defer context.AfterFunc(l.streams.ctx, func() { l.post(l.end) })()
	defer l.poll.close()
	defer l.leave()
	var ready []event
	for l.over < len(l.lanes) {
		l.runPosted()
		wait := l.ring()
		if l.over == len(l.lanes) {
			return
		}
		var err error
		if ready, err = l.poll.wait(ready[:0], wait); err != nil {
			l.broken(err)
			continue
		}
		for i, e := range ready {
			l.lanes[e.lane/int32(len(l.streams.loops))].ready(e)
			if i%ringEvery == ringEvery-1 {
				l.ring() // a round may be longer than requests may be late
			}
		}
		l.naps.after(len(ready), l)
	}
}

// leave waits for the helpers, and closes the connections that they still opened.
func (l *loop) leave() {
	l.helpers.Wait()
	l.runPosted()
}

// end ends all lanes.
func (l *loop) end() {
	for _, n := range l.lanes {
		n.end()
	}
}

// broken ends everything where the system gives no events any more.
func (l *loop) broken(err error) {
	l.streams.end(errors.Join(errCut, err))
	l.end()
}

// alarm is a time at which something is to be done.
type alarm struct {
	atNS int64
	call func()
}

// alarms are ordered by time.
type alarms []alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return cmp.Less(a[i].atNS, a[j].atNS) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)        { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// at lets a function be called at a time of the clock.
func (l *loop) at(ns int64, call func()) { heap.Push(&l.alarms, alarm{ns, call}) }

// ring calls what is due and gives the time until more is.
func (l *loop) ring() time.Duration {
	for len(l.alarms) > 0 {
		if wait := l.alarms[0].atNS - l.streams.clock.Now(); wait > 0 {
			return time.Duration(wait)
		}
		heap.Pop(&l.alarms).(alarm).call()
	}
	return time.Hour
}

// Naps let tokens of several streams wait in their sockets, so that one round
// serves them all: the kernel has stamped them. A nap is a small part of the gap
// between two tokens of a stream.
const (
	napRate  = 20_000 // events a second from which naps pay
	napPart  = 8      // of a gap
	napLeast = 100 * time.Microsecond
	napMost  = 2 * time.Millisecond
	napCount = 50 * time.Millisecond
)

// naps watches the rate and naps where that saves work.
type naps struct {
	sinceNS int64
	events  int
	nap     time.Duration
}

// after counts the events of a round and naps.
func (n *naps) after(events int, l *loop) {
	now := l.streams.clock.Now()
	n.events += events
	if spent := now - n.sinceNS; spent > int64(napCount) {
		n.nap = napFor(float64(n.events)/(float64(spent)/1e9), len(l.lanes))
		n.sinceNS, n.events = now, 0
	}
	if conn := l.lanes[0].conn; n.nap == 0 || events == 0 || conn == nil || !conn.KernelStamped() {
		return
	}
	if len(l.alarms) > 0 && l.alarms[0].atNS-now < int64(n.nap) {
		return // a request is to leave soon
	}
	l.poll.nap(n.nap)
}

// napFor is the nap at a rate of events over so many streams, 0 for none.
func napFor(rate float64, streams int) time.Duration {
	if rate < napRate {
		return 0
	}
	nap := min(time.Duration(float64(streams)/rate/napPart*float64(time.Second)), napMost)
	if nap < napLeast {
		return 0
	}
	return nap
}
