package load

import (
	"iter"
	"math"
	"sync/atomic"

	"speedmatrix"
)

const (
	firstEvents = 64  // entries in the first page of a request: 1 KiB
	pageEvents  = 512 // in each further one: 8 KiB
	firstText   = 1 << 10
	pageText    = 8 << 10
	// textLimit bounds the text that one stream keeps.
	textLimit = 4 << 20
)

// entry is one recorded event in 16 bytes.
type entry struct {
	at     int64
	tokens uint32 // noTokens if the event carried no count
	packed uint32 // length of the text, channel, continued flag
}

const (
	noTokens     = math.MaxUint32
	lengthMask   = 1<<24 - 1
	channelShift = 24
	channelMask  = 3
	continuedBit = 1 << 31
)

// pack makes an entry of an event. A length that 24 bits cannot hold is beyond
// textLimit anyway and becomes the largest they can.
func pack(e Event) entry {
	tokens := uint32(noTokens)
	if e.Tokens >= 0 {
		tokens = uint32(min(e.Tokens, noTokens-1))
	}
	packed := uint32(min(e.Length, lengthMask)) | uint32(e.Channel)<<channelShift
	if e.Continued {
		packed |= continuedBit
	}
	return entry{at: e.At, tokens: tokens, packed: packed}
}

func (e entry) length() int { return int(e.packed & lengthMask) }

func (e entry) channel() speedmatrix.Channel {
	return speedmatrix.Channel(e.packed >> channelShift & channelMask)
}

func (e entry) event() Event {
	tokens := -1
	if e.tokens != noTokens {
		tokens = int(e.tokens)
	}
	return Event{
		At: e.at, Length: e.length(), Tokens: tokens,
		Channel: e.channel(), Continued: e.packed&continuedBit != 0,
	}
}

// eventPage is a piece of a record; next is set before anything behind it is
// published.
type eventPage struct {
	entries []entry
	next    *eventPage
}

// record holds the events of one request. One goroutine appends; others read
// what is published, without waiting and without being waited for.
type record struct {
	request   int32
	first     *eventPage
	published atomic.Int64
	text      texts
	next      atomic.Pointer[record] // of the stream's next request

	// The writer's own.
	last  *eventPage
	used  int
	total int64
}

func newRecord(request int32) *record {
	page := &eventPage{entries: make([]entry, firstEvents)}
	return &record{request: request, first: page, last: page}
}

// append adds an event, unpublished.
func (r *record) append(e Event) {
	if r.used == len(r.last.entries) {
		page := &eventPage{entries: make([]entry, pageEvents)}
		r.last.next = page
		r.last, r.used = page, 0
	}
	r.last.entries[r.used] = pack(e)
	r.used++
	r.total++
}

// publish shows readers all that was appended, the text included.
func (r *record) publish() {
	r.text.publish()
	r.published.Store(r.total)
}

// walker reads the published entries of a record one by one.
type walker struct {
	record *record
	page   *eventPage
	pos    int
	done   int64
}

func (r *record) walk() walker { return walker{record: r, page: r.first} }

// peek gives the next entry if it is published.
func (w *walker) peek() (entry, bool) {
	if w.done == w.record.published.Load() {
		return entry{}, false
	}
	if w.pos == len(w.page.entries) {
		w.page, w.pos = w.page.next, 0
	}
	return w.page.entries[w.pos], true
}

// step passes the entry that peek gave.
func (w *walker) step() {
	w.pos++
	w.done++
}

// entries gives what is published.
func (r *record) entries() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		w := r.walk()
		for e, ok := w.peek(); ok; e, ok = w.peek() {
			if !yield(e) {
				return
			}
			w.step()
		}
	}
}

// textPage is a piece of a text; next is set before anything behind it is
// published.
type textPage struct {
	bytes []byte
	next  *textPage
}

// texts holds the text of one request, with the rules of record.
type texts struct {
	first     *textPage
	published atomic.Int64

	last  *textPage
	used  int
	total int64
}

// append adds text, unpublished.
func (t *texts) append(text []byte) {
	t.total += int64(len(text))
	for len(text) > 0 {
		if t.last == nil || t.used == len(t.last.bytes) {
			t.grow()
		}
		n := copy(t.last.bytes[t.used:], text)
		t.used += n
		text = text[n:]
	}
}

func (t *texts) grow() {
	if t.last == nil {
		t.first = &textPage{bytes: make([]byte, firstText)}
		t.last = t.first
		return
	}
	t.last.next = &textPage{bytes: make([]byte, pageText)}
	t.last, t.used = t.last.next, 0
}

func (t *texts) publish() { t.published.Store(t.total) }

// cursor reads published text from its start on.
type cursor struct {
	texts *texts
	page  *textPage
	pos   int
	done  int64
}

func (t *texts) start() *cursor { return &cursor{texts: t} }

// available is how much of the next n bytes there is: less than n only where
// the limit of the stream's text was reached.
func (c *cursor) available(n int) int {
	return int(min(int64(n), c.texts.published.Load()-c.done))
}

// room makes the cursor stand in a page with bytes to read and says how many
// the page has left. There must be published bytes.
func (c *cursor) room() int {
	switch {
	case c.page == nil:
		c.page = c.texts.first
	case c.pos == len(c.page.bytes):
		c.page, c.pos = c.page.next, 0
	}
	return len(c.page.bytes) - c.pos
}

// view gives the next n bytes, which must be available, and passes them. They
// lie in one page where they can, else in a copy.
func (c *cursor) view(n int) (text []byte, inPage bool) {
	if n <= c.room() {
		text = c.page.bytes[c.pos : c.pos+n]
		c.pos += n
		c.done += int64(n)
		return text, true
	}
	return c.copy(make([]byte, 0, n), n), false
}

// copy appends the next n bytes, as far as they are there, to dst and passes them.
func (c *cursor) copy(dst []byte, n int) []byte {
	for n = c.available(n); n > 0; {
		part := min(n, c.room())
		dst = append(dst, c.page.bytes[c.pos:c.pos+part]...)
		c.pos += part
		c.done += int64(part)
		n -= part
	}
	return dst
}

// skip passes the next n bytes, as far as they are there.
func (c *cursor) skip(n int) {
	for n = c.available(n); n > 0; {
		part := min(n, c.room())
		c.pos += part
		c.done += int64(part)
		n -= part
	}
}
