package sse

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Framing is how the events of a stream are put on the wire.
type Framing uint8

// The framings.
const (
	EventStream Framing = iota // server-sent events
	Lines                      // one JSON document a line
)

// FramingOf tells the framing of a stream from its first byte that is neither
// white space nor part of a byte order mark.
func FramingOf(first byte) Framing {
	if first == '{' {
		return Lines
	}
	return EventStream
}

// Framer is an incremental reader of one framing: a Reader or a LineReader,
// which say what the methods do.
type Framer interface {
	Push(chunk []byte, at int64)
	Next(ev *Event) bool
	End(ev *Event) bool
	Raw() []byte
	Reset()
}

// LineReader is a Reader of newline-delimited JSON: an event is a line, without
// the white space around it, and blank lines are none. An event's time is that
// of the read that brought the end of its line. The zero value is ready. It is
// for one goroutine.
type LineReader struct {
	chunk []byte // bytes of the last Push
	pos   int    // start of what is not yet read in chunk
	at    int64  // stamp of the last Push

	carry []byte // start of a line whose end has not arrived
	begun bool   // the first line has come, and was JSON
	whole bool   // the first line has come, and was none: one document over several lines
	raw   []byte // everything so far, until begun
	clear int    // how much of raw is known to hold no end of the first line
}

// Push gives the reader the bytes of one read and the stamp of that read. The
// chunk must stay untouched until Next has returned false, and only then may the
// next chunk come: bytes of a chunk not yet read are kept, but take the new stamp.
func (r *LineReader) Push(chunk []byte, at int64) {
	r.at = at
	if !r.begun {
		r.raw = append(r.raw, chunk...)
		return
	}
	if r.pos < len(r.chunk) {
		chunk = slices.Concat(r.chunk[r.pos:], chunk)
	}
	r.chunk, r.pos = chunk, 0
}

// Next fills ev with the next whole line. It returns false, with ev untouched,
// when the bytes so far hold no more.
func (r *LineReader) Next(ev *Event) bool {
	if !r.begun && !r.begin() {
		return false
	}
	for {
		end := bytes.IndexByte(r.chunk[r.pos:], '\n')
		if end < 0 {
			r.carry = append(r.carry, r.chunk[r.pos:]...)
			r.chunk, r.pos = nil, 0
			return false
		}
		line := r.chunk[r.pos : r.pos+end]
		r.pos += end + 1
		if len(r.carry) > 0 {
			line = append(r.carry, line...)
			r.carry = line[:0]
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			*ev = Event{Data: line, At: r.at}
			return true
		}
	}
}

// begin looks at the first line that is not blank, and goes to it.
func (r *LineReader) begin() bool {
	if r.whole {
		return false
	}
	start := len(r.raw) - len(bytes.TrimLeft(bytes.TrimPrefix(r.raw, []byte(mark)), " \t\r\n"))
	from := max(start, r.clear)
	end := bytes.IndexByte(r.raw[from:], '\n')
	if end < 0 {
		r.clear = len(r.raw)
		return false
	}
	r.begun = json.Valid(r.raw[start : from+end])
	r.whole = !r.begun
	if r.begun {
		r.chunk, r.pos = r.raw, start
	}
	return r.begun
}

// End fills ev with what is left when the stream has ended: a last line without
// an end. It returns false when nothing is left, so a second call returns false.
func (r *LineReader) End(ev *Event) bool {
	if r.Next(ev) {
		return true
	}
	line := bytes.TrimSpace(r.carry)
	r.carry = r.carry[:0]
	if len(line) == 0 {
		return false
	}
	*ev = Event{Data: line, At: r.at}
	return true
}

// Raw gives all bytes pushed so far, as long as no whole line of JSON was among
// them; nil from the first such line on, and never nil before it. At the end of
// a body that is one document Raw is the whole body. The slice is valid until
// the next call of Push, Next, End or Reset.
func (r *LineReader) Raw() []byte {
	switch {
	case r.begun:
		return nil
	case r.raw == nil:
		return []byte{}
	}
	return r.raw
}

// Reset makes the reader ready for another stream. It keeps its memory.
func (r *LineReader) Reset() {
	*r = LineReader{carry: r.carry[:0], raw: r.raw[:0]}
}
