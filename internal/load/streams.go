package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stamp"
)

const (
	// opening is how many connections are opened at once: servers queue few.
	opening = 64
	// restartWait is how long a stream waits after it failed twice in a row without a token.
	restartWait = time.Second
	// freshen is how long before the launch connections that are too old are opened anew.
	freshen = time.Second
)

// Streams are C streams, each sending one request after the other on a
// connection of its own. All methods may be called from any goroutine.
type Streams struct {
	list    []*stream
	clock   *stamp.Clock
	next    func(stream int, restart bool) Request
	ctx     context.Context
	end     context.CancelCauseFunc
	running sync.WaitGroup
	engine  Engine
	loops   []*loop // of EngineEpoll
	driven  bool    // they run, or have run

	start    sync.Once
	launched chan struct{} // closed by Launch, which sets the two below before
	atNS     int64
	spacing  time.Duration
}

// Open opens n connections, TLS handshakes included, and prepares the first
// request of each stream; it sends nothing. next gives the requests of a
// stream: restart is false for the first, true for those that follow. It is
// called from several goroutines at once. The end of ctx is as good as Stop for
// the requests, but Stop must be called all the same. If a connection cannot be
// opened, Open closes the others and returns a *speedmatrix.Error.
func (c *Client) Open(ctx context.Context, n int, next func(stream int, restart bool) Request) (*Streams, error) {
	s := &Streams{clock: c.options.Clock, next: next, launched: make(chan struct{})}
	s.ctx, s.end = context.WithCancelCause(ctx)
	for i := range n {
		s.list = append(s.list, newStream(c, int32(i)))
	}
	var failed error
	if s.engine = c.engine(n); s.engine == EngineEpoll {
		failed = s.openLanes(c, n)
	} else {
		failed = s.openGoroutines(n)
	}
	if failed != nil {
		s.end(errCut)
		s.Stop()
		return nil, c.unopened(failed)
	}
	if n >= tidyFrom {
		runtime.GC()
	}
	s.drive()
	s.running.Go(func() { watch(s.ctx, s.clock, c.options.Limits, s.list) })
	return s, nil
}

// openGoroutines opens n streams, each with a goroutine of its own.
func (s *Streams) openGoroutines(n int) error {
	slots, opened := make(chan struct{}, opening), make(chan error, n)
	for i := range s.list {
		s.running.Go(func() { s.run(i, slots, opened) })
	}
	return s.await(opened, n)
}

// await waits until n connections are open; after the first error it gives up the others.
func (s *Streams) await(opened <-chan error, n int) (failed error) {
	for range n {
		if err := <-opened; err != nil && failed == nil {
			failed = err
			s.end(errCut)
		}
	}
	return failed
}

// Engine says how the streams are read.
func (s *Streams) Engine() Engine { return s.engine }

// tidyFrom is the number of streams from which garbage is collected before the
// launch, so that no collection falls into it and makes requests leave late.
const tidyFrom = 64

// unopened is the error for a connection that could not be opened.
func (c *Client) unopened(err error) error {
	kind, next := speedmatrix.KindNoServer, "Check the address and that the server is running."
	if failure, _ := whyUnanswered(err); failure == FailureTLS {
		kind, next = speedmatrix.KindRefused, "Check the scheme of the address and the server's certificate."
	}
	why := ""
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		kind = speedmatrix.KindUsage
		why, next = " (this machine has no port left)", "Measure fewer requests at once, or wait until the ports of closed connections are free again."
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		kind = speedmatrix.KindUsage
		why, next = " (no more files may be opened)", "Measure fewer requests at once, or raise the limit of open files (ulimit -n)."
	}
	return &speedmatrix.Error{
		Kind: kind,
		What: fmt.Sprintf("no connection to %s: %v%s", c.target.address, err, why),
		Next: next,
		Err:  err,
	}
}

// run is the goroutine of a stream: it opens the connection, waits for the
// launch and sends requests until the end.
func (s *Streams) run(i int, slots chan struct{}, opened chan<- error) {
	st := s.list[i]
	slots <- struct{}{}
	err := st.open(s.ctx)
	<-slots
	if err != nil {
		opened <- err
		return
	}
	r := s.next(i, false)
	opened <- nil
	if !s.awaitLaunch(st, &r) {
		return
	}
	for {
		st.exchange(s.ctx, r)
		if s.ctx.Err() != nil {
			return
		}
		if st.failures.Load() >= 2 && !pause(s.ctx, restartWait) {
			return
		}
		r = s.next(i, true)
	}
}

// awaitLaunch returns at the planned time of a stream's first request, with the
// connection fresh; false when the end came before.
func (s *Streams) awaitLaunch(st *stream, r *Request) bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-s.launched:
	}
	r.PlannedNS = s.atNS + int64(st.index)*int64(s.spacing)
	if !s.until(r.PlannedNS - int64(freshen)) {
		return false
	}
	st.refresh(s.ctx, r.PlannedNS)
	return s.until(r.PlannedNS)
}

// until waits for a time of the clock; false when the end came before.
func (s *Streams) until(ns int64) bool {
	return pause(s.ctx, time.Duration(ns-s.clock.Now()))
}

// pause waits; false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Launch lets stream i send its first request at atNS + i·spacing, which becomes
// the request's PlannedNS. It returns at once. A second call does nothing.
func (s *Streams) Launch(atNS int64, spacing time.Duration) {
	s.start.Do(func() {
		s.atNS, s.spacing = atNS, spacing
		close(s.launched)
	})
}

// Cut ends the current request of a stream, which goes on with its next one.
// Between two requests it does nothing.
func (s *Streams) Cut(stream int) {
	if l := s.list[stream].current.Load(); l != nil {
		l.cancel(errCut)
	}
}

// Stop cuts all requests, returns when every goroutine has ended, and leaves all
// connections closed. Further calls do nothing.
func (s *Streams) Stop() {
	s.end(errCut)
	s.running.Wait()
	s.abandon()
	for _, st := range s.list {
		st.close()
	}
}

// View is what a stream is doing.
type View struct {
	Requests int // started so far
	// InFlight says whether a request is under way. The times are those of the
	// newest request: sent, first and last text; 0 is not yet.
	InFlight                   bool
	WrittenNS, FirstNS, LastNS int64
	Failures                   int   // failed in a row without a token
	Failed                     int   // failed in all
	Events                     int64 // events with text, of all requests
	// Counted is the sum of the cumulative counts of all requests, −1 as long as
	// the server has sent none along with the text.
	Counted   int64
	LastError string // of the newest failed request
}

// View takes a glance at a stream, consistent enough for deciding and showing.
func (s *Streams) View(stream int) View { return s.list[stream].view() }

// Follow reads a stream's text while it grows, from its first request on.
func (s *Streams) Follow(stream int) *Follower { return &Follower{stream: s.list[stream]} }

// Logs gives all requests, ordered by stream and then time. Call it after Stop.
func (s *Streams) Logs() []*Log {
	var all []*Log
	for _, st := range s.list {
		all = append(all, st.logs...)
	}
	return all
}

// Quality says how well the streams could be timed.
type Quality struct {
	// Engine is how the streams were read.
	Engine Engine
	// Kernel says whether every connection had the kernel's stamps.
	Kernel bool
	// Reads is the number of reads of all connections that brought bytes, Unstamped those of
	// them without a kernel stamp on a connection that should give them.
	Reads, Unstamped int64
	// EventReads is the number of reads that completed recorded events, Events the number of
	// these events, CoalescedReads the reads whose stamp more than one event shares, or whose
	// event may have been complete before.
	EventReads, Events, CoalescedReads int64
	// Shared is, for each event that has its stamp from the bytes of a later one, the most that
	// the stamp is late: the time since the read before.
	Shared *stamp.Histogram
	// Lag is the time from stamp to return of the reads; empty without kernel stamps.
	Lag *stamp.Histogram
	// Replays counts requests sent again because their connection was dead.
	Replays int
}

// Quality sums up all streams so far.
func (s *Streams) Quality() Quality {
	q := Quality{Engine: s.engine, Shared: new(stamp.Histogram)}
	all := new(connections)
	for _, st := range s.list {
		st.addTo(&q, all)
	}
	q.Kernel = all.number > 0 && all.user == 0
	q.Reads, q.Unstamped, q.Lag = all.reads, all.unstamped, &all.lag
	return q
}

// StampBound is the most that a share p (0–1) of the events' stamps are late because
// several events came with one read.
func (q *Quality) StampBound(p float64) time.Duration {
	shared := q.Shared.Count()
	exact := q.Events - shared // their stamps are their own
	if q.Events == 0 || float64(exact) >= p*float64(q.Events) {
		return 0
	}
	return q.Shared.Quantile((p*float64(q.Events) - float64(exact)) / float64(shared))
}
