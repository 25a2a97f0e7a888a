package load

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/sse"
	"speedmatrix/internal/stamp"
)

// stream sends requests one after the other on one connection at a time. The
// fields of the first group belong to its goroutine; the others are for
// observers.
type stream struct {
	client    *Client
	index     int32
	line      *line
	transport *http.Transport  // nil before the first connection, and where a loop reads
	conn      *http.ClientConn // open, nil without one
	openedNS  int64
	// ends, if set, is told from any goroutine that a request was ended by its context.
	ends     func(*exchange)
	logs     []*Log
	newest   *record
	textLeft int
	answer
	tally

	records   atomic.Pointer[record] // the first one
	current   atomic.Pointer[live]   // of the newest request
	lastError atomic.Pointer[string]
	requests, failures, failed,
	textEvents, counted, allEvents,
	eventReads, coalesced, replays atomic.Int64
	hasCounts atomic.Bool
	shared    atomic.Pointer[stamp.Histogram] // how late stamps may be that events share; nil without any

	mu   sync.Mutex
	used *stamp.Conn  // in use
	past *connections // used before; nil without any
}

// answer is the memory for reading one answer after the other.
type answer struct {
	buf     []byte
	head    []byte // the first bytes of the body, for words about it
	decoder *dialect.Decoder
	decoded *dialect.Event
	frames  sse.Framer // one of the two below
	events  sse.Reader
	lines   sse.LineReader
	event   sse.Event
	framing sse.Framing // of frames
	framed  bool        // the body has shown that framing is its own
}

// use makes the reader of a framing ready for another body.
func (a *answer) use(f sse.Framing) {
	a.framing, a.framed, a.frames = f, false, &a.events
	if f == sse.Lines {
		a.frames = &a.lines
	}
	a.frames.Reset()
}

// tally is the goroutine's own count, shown to observers after each read.
type tally struct {
	inRead                   int64 // events completed by the read at hand
	sinceNS, readNS          int64 // stamps of the read before and of the one at hand
	spanned                  bool  // the bytes at hand came by more than one read
	nText, nCounted, nEvents int64
	nEventReads, nCoalesced  int64
}

// connections sums up connections.
type connections struct {
	number, user     int // all, and those of them without kernel stamps
	reads, unstamped int64
	lag              stamp.Histogram
}

func (c *connections) add(conn *stamp.Conn) {
	if conn == nil {
		return
	}
	c.number++
	if !conn.KernelStamped() {
		c.user++
	}
	c.reads += conn.Reads()
	c.unstamped += conn.Unstamped()
	c.lag.Merge(conn.Lag())
}

func (c *connections) merge(o *connections) {
	c.number += o.number
	c.user += o.user
	c.reads += o.reads
	c.unstamped += o.unstamped
	c.lag.Merge(&o.lag)
}

func newStream(c *Client, index int32) *stream {
	l := newLine(c)
	return &stream{
		client: c, index: index, line: l, textLeft: textLimit,
	}
}

// open opens a connection and keeps it.
func (s *stream) open(ctx context.Context) error {
	if s.transport == nil {
		s.transport, s.buf = s.line.transport(), make([]byte, readBytes)
		s.decoder, s.decoded = s.client.options.Dialect.NewDecoder(), new(dialect.Event)
	}
	door := s.client.target.endpoint
	conn, err := s.transport.NewClientConn(ctx, door.Scheme, address(door))
	if err != nil {
		return err
	}
	s.conn, s.openedNS = conn, s.client.options.Clock.Now()
	return nil
}

// usable says whether a connection is open.
func (s *stream) usable() bool {
	if s.conn != nil && s.conn.Err() != nil {
		s.drop()
	}
	return s.conn != nil
}

// refresh opens the connection anew if it is gone, or will be too old at a time.
// Without success there is none, and the request that needs one finds out why.
func (s *stream) refresh(ctx context.Context, atNS int64) {
	if s.usable() && atNS-s.openedNS <= int64(stockAge) {
		return
	}
	s.drop()
	_ = s.open(ctx)
}

// drop closes the connection.
func (s *stream) drop() {
	if s.conn != nil {
		_ = s.conn.Close() // it is of no more use, however it ends
		s.conn = nil
	}
}

// close closes all connections. No request may be under way.
func (s *stream) close() {
	s.line.close()
	s.drop()
}

// took notes the connection that a request goes out on.
func (s *stream) took(conn *stamp.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if conn == s.used {
		return
	}
	if s.past == nil && s.used != nil {
		s.past = new(connections)
	}
	s.past.add(s.used)
	s.used = conn
}

// newRecord starts the record of a request, behind those before it.
func (s *stream) newRecord(request int32) *record {
	r := newRecord(request)
	if s.newest == nil {
		s.records.Store(r)
	} else {
		s.newest.next.Store(r)
	}
	s.newest = r
	return r
}

// keep keeps text as long as the stream may keep any: the first piece that does
// not fit ends it, so that what is kept has no holes.
func (s *stream) keep(to *texts, text []byte) {
	if len(text) > s.textLeft {
		s.textLeft = 0
		return
	}
	s.textLeft -= len(text)
	to.append(text)
}

// reset makes the memory ready for another answer.
func (s *stream) reset() {
	s.use(s.client.options.Dialect.Framing())
	s.decoder.Reset()
	s.head = s.head[:0]
	s.inRead, s.spanned = 0, false
}

// reading begins a read of a body, with that stamp, for which the connection was
// read that many times; large says that its bytes are more than the newest of
// these reads brought.
func (s *stream) reading(reads int64, large bool, at int64) {
	if reads > 0 {
		s.inRead, s.spanned = 0, large
		s.sinceNS, s.readNS = s.readNS, at
	}
}

// counting counts a recorded event against the read that completed it.
func (s *stream) counting(text bool) {
	s.nEvents++
	if text {
		s.nText++
	}
	s.inRead++
	switch {
	case s.inRead == 1:
		s.nEventReads++
		if s.spanned {
			s.nCoalesced++
			s.shares()
		}
	case s.inRead == 2 && !s.spanned:
		s.nCoalesced++
	}
	if s.inRead > 1 {
		s.shares()
	}
}

// shares counts an event whose stamp is that of a later one's bytes: it is late by
// no more than the time since the read before.
func (s *stream) shares() {
	h := s.shared.Load()
	if h == nil {
		h = new(stamp.Histogram)
		s.shared.Store(h)
	}
	h.Add(time.Duration(s.readNS - s.sinceNS))
}

// count counts tokens by cumulative counts.
func (s *stream) count(tokens int) {
	s.nCounted += int64(tokens)
	if !s.hasCounts.Load() {
		s.hasCounts.Store(true)
	}
}

// publish shows the tally to observers.
func (s *stream) publish() {
	s.textEvents.Store(s.nText)
	s.counted.Store(s.nCounted)
	s.allEvents.Store(s.nEvents)
	s.eventReads.Store(s.nEventReads)
	s.coalesced.Store(s.nCoalesced)
}

// ended keeps the log of a request and shows its outcome to observers.
func (s *stream) ended(x *exchange) {
	l := x.log
	s.logs = append(s.logs, l)
	s.replays.Add(int64(l.Replays))
	failed := l.Class == speedmatrix.RequestFailed
	if failed {
		s.failed.Add(1)
		s.lastError.Store(&l.Error)
	}
	switch {
	case l.FirstNS != 0 || x.counted > 0 || l.Class == speedmatrix.RequestCompleted:
		s.failures.Store(0)
	case failed:
		s.failures.Add(1)
	}
	x.live.over.Store(true)
}

// view is Streams.View of this stream.
func (s *stream) view() View {
	v := View{
		Requests: int(s.requests.Load()),
		Failures: int(s.failures.Load()),
		Failed:   int(s.failed.Load()),
		Events:   s.textEvents.Load(),
		Counted:  -1,
	}
	// Fewer tokens than half of the events are no cumulative counts.
	if n := s.counted.Load(); s.hasCounts.Load() && 2*n >= v.Events {
		v.Counted = n
	}
	if words := s.lastError.Load(); words != nil {
		v.LastError = *words
	}
	if now := s.current.Load(); now != nil {
		v.InFlight = !now.over.Load()
		v.WrittenNS, v.FirstNS, v.LastNS = now.writtenNS(), now.first.Load(), now.last.Load()
	}
	return v
}

// addTo adds the stream's share to a quality.
func (s *stream) addTo(q *Quality, all *connections) {
	q.Events += s.allEvents.Load()
	q.EventReads += s.eventReads.Load()
	q.CoalescedReads += s.coalesced.Load()
	q.Replays += int(s.replays.Load())
	if h := s.shared.Load(); h != nil {
		q.Shared.Merge(h)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all.add(s.used)
	if s.past != nil {
		all.merge(s.past)
	}
}
