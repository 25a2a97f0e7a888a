package loop

import (
	"bytes"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// A track works on bytes: UTF-8 text repeats in characters exactly where it
// repeats in bytes, and only the lengths have to be counted in characters.
//
// How a period is found: every 32 bytes the hash of the last 64 goes into a
// table (an anchor), and after every byte the hash of the last 64 is looked
// up. In a loop each anchor is met again one cycle later, and the distance is
// the period. A period that survives a few spot checks is compared backwards
// once, then byte by byte as text arrives, until it breaks or is confirmed.
const (
	gram       = 64                      // bytes that are hashed together
	anchorStep = 32                      // bytes from anchor to anchor
	firstRing  = 4096                    // bytes of history at first
	lastRing   = History * utf8.UTFMax   // and at most
	watched    = 4                       // periods that are followed at the same time
	spotChecks = 8                       // bytes compared before all of them
	costly     = 512                     // bytes compared that must not be compared again
	maxPeriod  = MaxPeriod * utf8.UTFMax // in bytes
	enough     = MinChars * utf8.UTFMax  // bytes to look back for short periods
)

// The rolling hash is a polynomial in factor modulo 2⁶⁴; leaving, factor to
// the power of gram, is the weight of the byte that leaves it. ratio is 2⁶⁴
// by the golden ratio and brings the hash's variety into its upper bits.
const (
	ratio    = 0x9E3779B97F4A7C15
	factor   = 0x5851F42D4C957F2D
	modulo   = 1<<64 - 1
	factor2  = factor * factor & modulo
	factor4  = factor2 * factor2 & modulo
	factor8  = factor4 * factor4 & modulo
	factor16 = factor8 * factor8 & modulo
	factor32 = factor16 * factor16 & modulo
	leaving  = factor32 * factor32 & modulo
)

type track struct {
	ring    []byte // the last bytes, at their position modulo its length, a power of two
	n       int    // bytes so far
	chars   int    // characters that begin in the ring
	pending int    // bytes that the character begun last still lacks
	hash    uint64 // of the last gram bytes
	anchors []anchor
	shift   int // of a tag to its index in anchors
	periods [watched]period
	active  int // periods in use, the first ones
}

// anchor is a place whose last bytes had a hash with that tag; at is its
// position + 1 modulo 2³², 0 for none.
type anchor struct{ at, tag uint32 }

// period is a distance at which the newest text repeats.
type period struct {
	bytes int
	start int // where the repeating text begins, first cycle included
	state state
	chars int // characters that begin in it, once they are counted
}

// state says what is known of a period. Most break before they are long enough
// to be worth a look at their characters.
type state uint8

const (
	young   state = iota // characters not counted yet
	counted              // and counted on with each byte
	idle                 // never to be confirmed: white space, or too long in characters
)

func newTrack() *track {
	t := &track{}
	t.resize(firstRing)
	return t
}

// push takes the next byte; confirmable says that a watched period may have
// become long enough with it.
func (t *track) push(b byte) (confirmable bool) {
	if t.n >= len(t.ring) {
		t.makeRoom()
	}
	mask := len(t.ring) - 1
	starts := 0
	if utf8.RuneStart(b) {
		starts = 1
	}
	for i := 0; i < t.active; {
		p := &t.periods[i]
		if t.ring[(t.n-p.bytes)&mask] != b {
			t.active--
			*p = t.periods[t.active]
			continue
		}
		p.chars += starts
		confirmable = confirmable || p.state != idle && t.n+1-p.start >= max(MinChars, MinCycles*p.bytes)
		i++
	}
	t.hash = t.hash*factor + uint64(b) + 1
	if t.n >= gram {
		t.hash -= leaving * (uint64(t.ring[(t.n-gram)&mask]) + 1)
	}
	t.ring[t.n&mask] = b
	t.n++
	t.chars += starts
	t.follow(b)
	if t.n >= gram {
		t.look()
	}
	return confirmable && t.pending == 0
}

// follow keeps count of the bytes that the current character lacks.
func (t *track) follow(b byte) {
	switch {
	case b < utf8.RuneSelf:
		t.pending = 0
	case utf8.RuneStart(b):
		t.pending = min(bits.LeadingZeros8(^b), utf8.UTFMax) - 1
	default:
		t.pending = max(0, t.pending-1)
	}
}

// look meets the anchor that had the bytes of now, and sets a new one.
func (t *track) look() {
	tag := uint32(t.hash * ratio >> 32)
	slot := &t.anchors[tag>>t.shift]
	if slot.at != 0 && slot.tag == tag {
		t.consider(int(uint32(t.n) + 1 - slot.at))
	}
	if t.n%anchorStep == 0 {
		*slot = anchor{uint32(t.n) + 1, tag}
	}
}

// consider begins to watch a period if the text has repeated at that distance
// for two cycles, and for half of the characters that a loop needs.
func (t *track) consider(distance int) {
	least := max(2*distance, MinChars/2)
	if distance > maxPeriod || least > min(t.n, len(t.ring)) {
		return
	}
	for _, p := range t.periods[:t.active] {
		// A multiple of a period that reaches as far back says nothing new.
		if distance%p.bytes == 0 && (p.bytes == distance || t.n-p.start >= distance) {
			return
		}
	}
	mask := len(t.ring) - 1
	first := t.n - least + distance
	for i := range spotChecks {
		at := first + i*(least-distance)/spotChecks
		if t.ring[at&mask] != t.ring[(at-distance)&mask] {
			return
		}
	}
	// A period that broke not long ago is followed too if it cost much to find
	// that out, so that its next anchor costs nothing.
	if start := t.reach(distance); t.n-start >= min(least, distance+costly) {
		t.watch(period{bytes: distance, start: start})
	}
}

// reach is where the text that repeats at the distance begins, as far back as
// a loop needs it.
func (t *track) reach(distance int) int {
	mask := len(t.ring) - 1
	oldest := t.n - min(t.n, len(t.ring), max(MinCycles*distance, enough)+distance)
	at := t.n
	for at-distance > oldest && t.ring[(at-1)&mask] == t.ring[(at-1-distance)&mask] {
		at--
	}
	return at - distance
}

// watch follows p, in the place of the one with the fewest cycles.
func (t *track) watch(p period) {
	if t.active < watched {
		t.periods[t.active] = p
		t.active++
		return
	}
	fewest := 0
	for i := range t.periods {
		if t.cycles(i) < t.cycles(fewest) {
			fewest = i
		}
	}
	t.periods[fewest] = p
}

func (t *track) cycles(i int) int {
	return (t.n - t.periods[i].start) / t.periods[i].bytes
}

// confirm looks whether a watched period fulfils the rule; to be called
// behind a whole character.
func (t *track) confirm() (Finding, bool) {
	for i := range t.periods[:t.active] {
		p := &t.periods[i]
		if t.n-p.start < max(MinChars, MinCycles*p.bytes) {
			continue
		}
		if p.state == young {
			t.inspect(p)
		}
		if p.state == idle || p.chars < MinChars {
			continue
		}
		if tail := t.n - p.start - t.severed(p); tail >= MinCycles*p.bytes {
			return describe(t.last(p.bytes), tail), true
		}
	}
	return Finding{}, false
}

// severed is how many bytes at the start of a period belong to a character
// that begins before it and so does not repeat. Bytes that left the ring are
// read a number of cycles later.
func (t *track) severed(p *period) int {
	at := p.start
	if gone := t.n - len(t.ring) - at; gone > 0 {
		at += (gone + p.bytes - 1) / p.bytes * p.bytes
	}
	n := 0
	for n < p.bytes && !utf8.RuneStart(t.ring[(at+n)&(len(t.ring)-1)]) {
		n++
	}
	return n
}

// inspect looks at the characters of a period that is long enough in bytes.
func (t *track) inspect(p *period) {
	p.state = counted
	if t.count(t.n-p.bytes, t.n) > MaxPeriod || blank(t.last(p.bytes)) {
		p.state = idle
	}
	p.chars = t.count(max(p.start, t.n-len(t.ring)), t.n)
}

// last copies the newest n bytes.
func (t *track) last(n int) []byte {
	out := make([]byte, 0, n)
	for i := t.n - n; i < t.n; i++ {
		out = append(out, t.ring[i&(len(t.ring)-1)])
	}
	return out
}

// blank tells whether a cycle is white space alone. It may begin inside a
// character, whose first bytes then are its last.
func blank(cycle []byte) bool {
	whole := 0
	for whole < len(cycle) && !utf8.RuneStart(cycle[whole]) {
		whole++
	}
	turned := append(slices.Clone(cycle[whole:]), cycle[:whole]...)
	return len(bytes.TrimSpace(turned)) == 0
}

// count gives the number of characters that begin from one position to
// another.
func (t *track) count(from, to int) int {
	chars := 0
	for i := from; i < to; i++ {
		if utf8.RuneStart(t.ring[i&(len(t.ring)-1)]) {
			chars++
		}
	}
	return chars
}

// makeRoom grows a full ring that has not the whole history yet, or lets the
// oldest byte go.
func (t *track) makeRoom() {
	if t.chars < History && len(t.ring) < lastRing {
		t.resize(2 * len(t.ring))
		return
	}
	if utf8.RuneStart(t.ring[t.n&(len(t.ring)-1)]) {
		t.chars--
	}
}

// resize moves history and anchors into a larger ring.
func (t *track) resize(size int) {
	ring, anchors := t.ring, t.anchors
	t.ring = make([]byte, size)
	for i := t.n - min(t.n, len(ring)); i < t.n; i++ {
		t.ring[i&(size-1)] = ring[i&(len(ring)-1)]
	}
	t.anchors = make([]anchor, size/anchorStep)
	t.shift = 32 - bits.TrailingZeros(uint(len(t.anchors)))
	for _, a := range anchors {
		if a.at != 0 {
			t.anchors[a.tag>>t.shift] = a
		}
	}
}
