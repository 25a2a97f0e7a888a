// Package sse cuts the bytes of a stream into events, however the network cut
// the bytes, and says which read completed each of them. A Reader reads
// server-sent events, a LineReader one JSON document a line.
//
// A Reader reads what the WHATWG HTML standard calls an event stream: lines ended by
// LF, CRLF or CR, fields data, event, id and retry, comments, a leading byte
// order mark. A line may be of any length. An ordinary event, one data line
// that arrived in one read, is handed out in place without a copy.
package sse

import (
	"bytes"
	"slices"
)

// Event is one dispatched event. Its slices are valid until the next call of
// Push, Next, End or Reset.
type Event struct {
	// Name is the value of the event field, empty if there was none.
	Name []byte
	// Data is the values of the data fields, joined by line feeds. It may be
	// empty: a data field without a value is an event too.
	Data []byte
	// At is the stamp given to the Push whose bytes completed the last data line,
	// in the unit of the caller.
	At int64
}

// Reader is an incremental reader of an event stream. The zero value is ready.
// It is for one goroutine.
//
//	r.Push(chunk, stamp)
//	for r.Next(&ev) { … }
//
// and, when the stream has ended, End.
type Reader struct {
	chunk []byte // bytes of the last Push
	first int    // start of what belongs to raw in chunk
	pos   int    // start of what is not yet read in chunk
	feed  int    // where the next LF is in chunk, at or after pos; len(chunk) if none
	at    int64  // stamp of the last Push

	carry []byte // start of a line whose end has not arrived
	name  field
	data  field

	dataAt int64
	skipLF bool // the last byte read was the CR that ended a line
	sense  sense
	lead   int    // bytes of the byte order mark seen while sense is senseMark
	raw    []byte // everything so far, while sense is below senseStream
}

// sense is what is known of the stream.
type sense uint8

const (
	senseMark   sense = iota // at its first bytes: a byte order mark may come
	senseOpen                // no line of an event stream seen
	senseStream              // an event stream
)

// mark is the UTF-8 byte order mark.
const mark = "\xef\xbb\xbf"

// Push gives the reader the bytes of one read and the stamp of that read. The
// chunk must stay untouched until Next has returned false, and only then may the
// next chunk come: bytes of a chunk not yet read are kept, but take the new stamp.
func (r *Reader) Push(chunk []byte, at int64) {
	if r.pos < len(r.chunk) {
		chunk = slices.Concat(r.chunk[r.pos:], chunk)
	}
	r.chunk, r.pos, r.at = chunk, 0, at
	r.skipMark()
	r.first = r.pos
	r.skipFeed()
	r.findFeed()
}

// Next fills ev with the next complete event, one whose blank line has arrived.
// It returns false, with ev untouched, when the bytes so far hold no more.
func (r *Reader) Next(ev *Event) bool {
	for {
		line, ok := r.line()
		if !ok {
			r.settle()
			return false
		}
		if len(line) > 0 {
			r.take(line)
			continue
		}
		if r.dispatch(ev) {
			return true
		}
	}
}

// End fills ev with what is left when the stream has ended. It is lenient where
// the standard drops an unfinished event: servers and proxies that close early
// leave out the last blank line or even the last line end, and the text was
// sent. It returns false when nothing is left, so a second call returns false.
func (r *Reader) End(ev *Event) bool {
	if r.Next(ev) {
		return true
	}
	if len(r.carry) > 0 {
		line := r.carry
		r.carry = line[:0]
		r.take(line)
	}
	return r.dispatch(ev)
}

// Raw gives all bytes pushed so far, without a byte order mark, as long as no
// line of them was a field or a comment of an event stream; nil from the first
// such line on, and never nil before it. A caller uses it to see, after Next has returned false, that a
// body is something else: its first byte that is not white space tells JSON
// ({ or [) and markup (<) from an event stream, at once and whatever the
// content type says. At the end of such a body Raw is the whole body. The slice
// is valid until the next call of Push, Next, End or Reset.
func (r *Reader) Raw() []byte {
	if r.sense == senseStream {
		return nil
	}
	if r.raw == nil {
		return []byte{}
	}
	return r.raw
}

// Reset makes the reader ready for another stream. It keeps its memory.
func (r *Reader) Reset() {
	*r = Reader{
		carry: r.carry[:0],
		raw:   r.raw[:0],
		name:  field{own: r.name.own[:0]},
		data:  field{own: r.data.own[:0]},
	}
}

// line cuts the next whole line off, without its end. The slice lies in the
// chunk or in carry.
func (r *Reader) line() ([]byte, bool) {
	if r.pos > r.feed {
		r.findFeed()
	}
	end := r.feed
	if cr := bytes.IndexByte(r.chunk[r.pos:end], '\r'); cr >= 0 {
		end = r.pos + cr
	}
	if end == len(r.chunk) {
		return nil, false
	}
	line := r.chunk[r.pos:end]
	r.skipLF = r.chunk[end] == '\r'
	r.pos = end + 1
	r.skipFeed()
	if len(r.carry) > 0 {
		line = append(r.carry, line...)
		r.carry = line[:0]
	}
	return line, true
}

// findFeed looks for the next LF. It is remembered, so that a stream with CR
// line ends is not searched to its end for each line.
func (r *Reader) findFeed() {
	r.feed = len(r.chunk)
	if i := bytes.IndexByte(r.chunk[r.pos:], '\n'); i >= 0 {
		r.feed = r.pos + i
	}
}

// skipFeed passes over the LF of a CRLF whose CR has ended the line already.
func (r *Reader) skipFeed() {
	if !r.skipLF || r.pos == len(r.chunk) {
		return
	}
	r.skipLF = false
	if r.chunk[r.pos] == '\n' {
		r.pos++
	}
}

// skipMark passes over a byte order mark, which may come in pieces.
func (r *Reader) skipMark() {
	for r.sense == senseMark && r.pos < len(r.chunk) {
		if r.chunk[r.pos] != mark[r.lead] {
			// The bytes held back were no mark: they belong to the first line.
			r.carry = append(r.carry, mark[:r.lead]...)
			r.raw = append(r.raw, mark[:r.lead]...)
			r.sense = senseOpen
			return
		}
		r.pos++
		if r.lead++; r.lead == len(mark) {
			r.sense = senseOpen
		}
	}
}

// settle moves what is still needed of the chunk into memory of the reader.
func (r *Reader) settle() {
	r.name.keep()
	r.data.keep()
	if r.sense != senseStream {
		r.raw = append(r.raw, r.chunk[r.first:]...)
	}
	r.carry = append(r.carry, r.chunk[r.pos:]...)
	r.chunk, r.first, r.pos, r.feed = nil, 0, 0, 0
}

// take reads one line that is not blank.
func (r *Reader) take(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		r.data.add(value)
		r.dataAt = r.at
	case "event":
		r.name.set(value)
	case "", "id", "retry":
	default:
		return
	}
	r.sense = senseStream
}

// dispatch ends the event being built; false if it has no data.
func (r *Reader) dispatch(ev *Event) bool {
	has := r.data.has
	if has {
		*ev = Event{Name: r.name.value, Data: r.data.value, At: r.dataAt}
	}
	r.name.clear()
	r.data.clear()
	return has
}
