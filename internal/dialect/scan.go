package dialect

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// maxDepth is how deep values may nest, the limit of encoding/json.
const maxDepth = 10000

// scanner walks one JSON text once, front to back, without allocating. It
// accepts exactly what encoding/json accepts. After a fault bad is set, peek
// gives 0 and all loops end.
//
//	if s.enter('{') {
//		for s.key() {
//			switch string(s.name) {
//			case "wanted":
//				raw := s.value()
//			default:
//				s.value()
//			}
//		}
//	}
type scanner struct {
	data  []byte
	pos   int
	depth int
	fresh bool   // a container was entered and its first element has not been looked for
	bad   bool   // not JSON
	odd   bool   // JSON, but a container was expected and something else came
	name  []byte // the key found by key, unescaped
	spare []byte // memory for names with escapes
}

// start begins a text. The memory for names is kept.
func (s *scanner) start(data []byte) {
	*s = scanner{data: data, spare: s.spare}
}

// end tells whether the text was one JSON value with nothing but white space
// behind it.
func (s *scanner) end() bool {
	s.space()
	return !s.bad && s.pos == len(s.data)
}

// fail marks the text as bad.
func (s *scanner) fail() {
	s.bad = true
	s.pos = len(s.data)
}

// space passes over white space.
func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return
		}
	}
}

// peek gives the first byte of the next token, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// enter goes into an object ('{') or array ('['). If the value is null it is
// passed over; if it is anything else too, and the text is odd.
func (s *scanner) enter(open byte) bool {
	switch s.peek() {
	case open:
		s.open()
		return true
	case 'n':
		s.value()
	default:
		s.odd = true
		s.value()
	}
	return false
}

// open passes over an opening bracket.
func (s *scanner) open() {
	s.pos++
	s.fresh = true
	if s.depth++; s.depth > maxDepth {
		s.fail()
	}
}

// more moves to the next element of the container entered last, or leaves it at
// its closing bracket.
func (s *scanner) more(closing byte) bool {
	c := s.peek()
	fresh := s.fresh
	s.fresh = false
	switch {
	case c == closing:
		s.pos++
		s.depth--
		return false
	case fresh:
		return !s.bad
	case c == ',':
		s.pos++
		return true
	}
	s.fail()
	return false
}

// element moves to the next element of an array.
func (s *scanner) element() bool { return s.more(']') }

// key moves to the value of the next member of an object and sets name.
func (s *scanner) key() bool {
	raw, ok := s.member()
	if !ok {
		return false
	}
	s.name = raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		s.spare = appendUnescaped(s.spare[:0], raw)
		s.name = s.spare
	}
	return true
}

// member moves to the value of the next member of an object and gives the text
// of its name.
func (s *scanner) member() (raw []byte, ok bool) {
	if !s.more('}') {
		return nil, false
	}
	if s.peek() == '"' {
		raw = s.string()
		if s.peek() == ':' {
			s.pos++
			return raw, true
		}
	}
	s.fail()
	return nil, false
}

// value passes over any value and gives its text.
func (s *scanner) value() []byte {
	c := s.peek()
	from := s.pos
	switch c {
	case '"':
		s.string()
	case '{':
		s.open()
		for _, ok := s.member(); ok; _, ok = s.member() {
			s.value()
		}
	case '[':
		s.open()
		for s.element() {
			s.value()
		}
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
	if s.bad {
		return nil
	}
	return s.data[from:s.pos]
}

// literal passes over a word.
func (s *scanner) literal(word string) {
	end := s.pos + len(word)
	if end > len(s.data) || string(s.data[s.pos:end]) != word {
		s.fail()
		return
	}
	s.pos = end
}

// string passes over a string and gives what is between its quotes.
func (s *scanner) string() []byte {
	s.pos++
	from := s.pos
	for !s.bad {
		s.plain()
		if s.pos == len(s.data) {
			break
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[from : s.pos-1]
		case c == '\\':
			s.escape()
		case c < ' ':
			s.fail()
		default:
			s.pos++
		}
	}
	s.fail()
	return nil
}

// Patterns with one bit, or one byte, in each of the eight bytes of a word.
const (
	lows   = 0x0101010101010101
	highs  = 0x8080808080808080
	quotes = lows * '"'
	slash  = lows * '\\'
	spaces = lows * ' '
)

// plain passes over the bytes of a string that mean themselves, eight at a
// time. It may stop early, never late.
func (s *scanner) plain() {
	for s.pos+8 <= len(s.data) {
		w := binary.LittleEndian.Uint64(s.data[s.pos:])
		quote, back := w^quotes, w^slash
		// A byte's high bit is set here if the byte is a quote, a backslash or
		// below space. A borrow may set bits above the first one, not below.
		stop := ((quote - lows) &^ quote) | ((back - lows) &^ back) | ((w - spaces) &^ w)
		if stop &= highs; stop != 0 {
			s.pos += bits.TrailingZeros64(stop) / 8
			return
		}
		s.pos += 8
	}
}

// escape passes over one escape sequence.
func (s *scanner) escape() {
	if s.pos+1 >= len(s.data) {
		s.fail()
		return
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
	case 'u':
		if _, ok := hex4(s.data[s.pos+2:]); !ok {
			s.fail()
			return
		}
		s.pos += 6
	default:
		s.fail()
	}
}

// number passes over a number.
func (s *scanner) number() {
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else {
		s.digits()
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		s.digits()
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		s.digits()
	}
}

// digits passes over one digit or more.
func (s *scanner) digits() {
	from := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	if s.pos == from {
		s.fail()
	}
}
