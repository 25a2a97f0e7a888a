package dialect

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// appendUnescaped appends the text of a valid JSON string, given without its
// quotes. Half a surrogate pair and each byte that is not UTF-8 become U+FFFD.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return appendValid(dst, raw)
		}
		dst = appendValid(dst, raw[:i])
		var n int
		dst, n = appendEscape(dst, raw[i:])
		raw = raw[i+n:]
	}
}

// appendValid appends text with each byte that is not UTF-8 replaced.
func appendValid(dst, text []byte) []byte {
	if utf8.Valid(text) {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[n:]
	}
	return dst
}

// appendEscape appends what the escape sequence at the start of raw stands for,
// and gives its length.
func appendEscape(dst, raw []byte) ([]byte, int) {
	c := raw[1]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return appendUnicode(dst, raw)
	}
	return append(dst, c), 2
}

// appendUnicode is appendEscape for \u, which takes two sequences for a
// character outside the basic plane.
func appendUnicode(dst, raw []byte) ([]byte, int) {
	high, _ := hex4(raw[2:])
	if utf16.IsSurrogate(high) && len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		low, _ := hex4(raw[8:])
		if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
			return utf8.AppendRune(dst, pair), 12
		}
	}
	return utf8.AppendRune(dst, high), 6
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// isString tells whether the text of a value is a string.
func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// isNull tells whether the text of a value is null, or absent.
func isNull(raw []byte) bool { return len(raw) == 0 || raw[0] == 'n' }

// isFault tells whether the text of a value stands for an error: some servers
// say that there is none with null, false or an empty string.
func isFault(raw []byte) bool {
	return !isNull(raw) && string(raw) != "false" && string(raw) != `""`
}

// parseCount reads a count: a whole number from 0 to 2⁵³, however written. For
// anything else it gives −1.
func parseCount(raw []byte) int {
	const largest = 1 << 53
	n := 0
	for _, c := range raw {
		if c-'0' > 9 || n > largest {
			return countOfFloat(parseFloat(raw), largest)
		}
		n = n*10 + int(c-'0')
	}
	if len(raw) == 0 || n > largest {
		return -1
	}
	return n
}

// countOfFloat is the count that a number with a point or an exponent stands for.
func countOfFloat(f, largest float64) int {
	if f < 0 || f > largest || f != float64(int(f)) {
		return -1
	}
	return int(f)
}

// parseFloat reads a number that is not negative; −1 for anything else.
func parseFloat(raw []byte) float64 {
	if len(raw) == 0 || raw[0]-'0' > 9 {
		return -1
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return -1
	}
	return f
}
