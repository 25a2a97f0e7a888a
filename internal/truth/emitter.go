package truth

import (
	"bytes"
	"net/http"
	"time"

	"speedmatrix/internal/wire"
)

// emitter puts the events of one answer on the wire as the framing says and
// notes when each went out. It is for one goroutine.
type emitter struct {
	s    *Server
	w    http.ResponseWriter
	ctl  *http.ResponseController
	conn *conn // nil if the server is not served by its own listener
	enc  *wire.Encoder
	// speaker writes instead of enc for the APIs that are no chunks, lines says that each event is a line.
	speaker wire.Speaker
	lines   bool
	rec     *record

	json    []byte
	buf     []byte
	pending []pending // token events in buf, in order
	opened  bool
	owed    bool   // a blank line that ends the event before
	hold    bool   // more events follow in the same write
	name    string // of the event being framed
	piece   int    // index in Framing.Split
	endings int    // index in Framing.Endings
	events  int    // asked for so far
}

// pending is a token event whose bytes are not all written. Its data line is
// complete when end bytes of the buffer are.
type pending struct {
	event Event
	end   int
}

// open sends the headers, once.
func (e *emitter) open() error {
	if e.opened {
		return nil
	}
	e.opened = true
	h := e.w.Header()
	h.Set("Content-Type", wire.EventStream)
	h.Set("Cache-Control", "no-cache")
	if e.lines {
		h.Set("Content-Type", wire.NDJSON)
	}
	if kind := e.s.script.Framing.ContentType; kind != "" {
		h.Set("Content-Type", kind)
	}
	if e.s.script.Framing.Unchunked {
		h.Set("Transfer-Encoding", "identity")
	}
	if e.s.script.CloseAfterStream {
		h.Set("Keep-Alive", "timeout=5, max=100")
	}
	e.w.WriteHeader(http.StatusOK)
	return e.ctl.Flush()
}

// tokens queues an event with tokens, and writes when enough are queued. last
// says that nothing follows in the stream.
func (e *emitter) tokens(c *wire.Chunk, event Event, last bool) error {
	e.json = e.enc.Append(e.json[:0], c)
	if end := e.reshaped(e.json, last); end > 0 {
		e.pending = append(e.pending, pending{event, end})
	}
	if len(e.pending) < e.s.script.Framing.EventsPerWrite && !last {
		return nil
	}
	return e.flush()
}

// chunk writes an event without tokens, and all that is queued before it.
func (e *emitter) chunk(c *wire.Chunk, last bool) error {
	e.json = e.enc.Append(e.json[:0], c)
	return e.data(e.json, last)
}

// data writes an event of any data, and all that is queued before it.
func (e *emitter) data(data []byte, last bool) error {
	e.reshaped(data, last)
	return e.flush()
}

// reshaped appends an event, or what the script sends in its place, and gives where
// the last data line of it is complete; 0 if nothing is sent.
func (e *emitter) reshaped(data []byte, last bool) (end int) {
	if e.s.script.Reshape == nil {
		return e.frame(data, last)
	}
	list := e.s.script.Reshape(e.rec.req.ID, e.events, string(data))
	e.events++
	for i, d := range list {
		end = e.frame([]byte(d), last && i == len(list)-1)
	}
	return end
}

// done writes [DONE], the last event.
func (e *emitter) done() error { return e.data([]byte(wire.Done), true) }

// ping writes a comment, or what an API has for it.
func (e *emitter) ping() error {
	if e.lines {
		return nil
	}
	if e.speaker != nil {
		if list := e.speaker.Ping(); len(list) > 0 {
			return e.say(list, Event{})
		}
	}
	e.buf = append(e.buf, ": ping"...)
	e.line()
	e.line()
	return e.flush()
}

// line ends a line.
func (e *emitter) line() { e.buf = append(e.buf, e.ending()...) }

// ending is how the next line ends.
func (e *emitter) ending() string {
	f := &e.s.script.Framing
	if len(f.Endings) == 0 {
		return f.Ending
	}
	e.endings++
	return f.Endings[(e.endings-1)%len(f.Endings)]
}

// frame appends one event to the buffer and gives where its last data line is
// complete: after the first byte of that line's end, because a CR ends it
// already. last says that no event follows.
func (e *emitter) frame(data []byte, last bool) int {
	f := &e.s.script.Framing
	if f.NDJSON || e.lines {
		e.buf = append(e.buf, data...)
		e.line()
		return len(bytes.TrimRight(e.buf, "\r\n")) + 1
	}
	e.preamble()
	if f.TwoLines && len(data) > 1 && data[0] == '{' {
		e.dataLine(data[:1])
		data = data[1:]
	}
	end := e.dataLine(data) + 1
	switch {
	case last && f.NoFinalEnding:
		e.buf = e.buf[:end-1]
	case last && f.NoFinalBlank:
	case f.LateBlank && !last:
		e.owed = true
	default:
		e.line()
	}
	return min(end, len(e.buf))
}

// preamble appends what comes before an event's data: the blank line still
// owed, comments and other fields.
func (e *emitter) preamble() {
	f := &e.s.script.Framing
	if e.owed {
		e.owed = false
		e.line()
	}
	for range f.Comments {
		e.buf = append(e.buf, ": keep-alive"...)
		e.line()
	}
	if f.Fields {
		for _, field := range []string{"event: message", "id: 7", "retry: 1000"} {
			e.buf = append(e.buf, field...)
			e.line()
		}
	}
	if e.name != "" {
		e.buf = append(append(e.buf, "event: "...), e.name...)
		e.line()
	}
}

// dataLine appends a data line and gives where its end begins.
func (e *emitter) dataLine(data []byte) (end int) {
	e.buf = append(e.buf, "data:"...)
	if !e.s.script.Framing.NoBlank {
		e.buf = append(e.buf, ' ')
	}
	e.buf = append(e.buf, data...)
	end = len(e.buf)
	e.line()
	return end
}

// flush writes the buffer, in the pieces of the framing, and books the events.
func (e *emitter) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	if err := e.open(); err != nil {
		return err
	}
	f := &e.s.script.Framing
	for written := 0; written < len(e.buf); {
		size := len(e.buf) - written
		if len(f.Split) > 0 {
			size = min(size, max(f.Split[e.piece%len(f.Split)], 1))
			e.piece++
		}
		if written > 0 {
			time.Sleep(f.SplitPause)
		}
		at, err := e.write(e.buf[written : written+size])
		if err != nil {
			return err
		}
		written += size
		e.book(written, at)
	}
	e.buf = e.buf[:0]
	return nil
}

// write sends bytes in one write and gives the time right before it.
func (e *emitter) write(b []byte) (int64, error) {
	at := e.s.now()
	if _, err := e.w.Write(b); err != nil {
		return 0, err
	}
	if err := e.ctl.Flush(); err != nil {
		return 0, err
	}
	if e.conn != nil {
		at = e.conn.wrote.Load()
	}
	return at, nil
}

// book notes the queued events whose data lines are complete with the bytes written.
func (e *emitter) book(written int, at int64) {
	n := 0
	for n < len(e.pending) && e.pending[n].end <= written {
		n++
	}
	if n == 0 {
		return
	}
	e.rec.mu.Lock()
	defer e.rec.mu.Unlock()
	for _, p := range e.pending[:n] {
		p.event.AtNS = at
		e.rec.req.Events = append(e.rec.req.Events, p.event)
	}
	e.pending = append(e.pending[:0], e.pending[n:]...)
}

// hangUp ends the body properly and then the connection, without having said so.
func (e *emitter) hangUp(wait func() error) {
	c, _, err := e.ctl.Hijack()
	if err != nil {
		return // not HTTP/1.1: nothing to hang up
	}
	_, _ = c.Write([]byte("0\r\n\r\n")) // the client may be gone already
	_ = wait()                          // closing early is as good
	_ = c.Close()
}

// reset ends the connection by a TCP reset.
func (e *emitter) reset() {
	c, _, err := e.ctl.Hijack()
	if err != nil {
		return
	}
	if own, ok := c.(*conn); ok {
		own.reset()
		return
	}
	_ = c.Close()
}
