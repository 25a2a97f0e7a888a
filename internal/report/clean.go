package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text of any origin safe to show on one line of a terminal or a
// page: line ends and tabs become blanks; control characters, what reorders
// a line (bidirectional controls) and broken UTF-8 become U+FFFD, so that a reader
// sees that something stood there; invisible characters go.
func Clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' {
			return ' '
		}
		return cleanRune(r)
	}, strings.ReplaceAll(s, "\r\n", "\n")))
}

// CleanLines is Clean for text whose line ends matter.
func CleanLines(s string) string {
	return strings.TrimSpace(strings.Map(cleanRune, strings.ReplaceAll(s, "\r\n", "\n")))
}

func cleanRune(r rune) rune {
	switch {
	case r >= ' ' && r <= '~':
		return r
	case r == '\n':
		return r
	case r == '\t', r == '\u2028', r == '\u2029', r == '\u00a0':
		return ' '
	case r >= 0xE0000 && r <= 0xE007F, r == '\u00ad', r == '\u200b', r == '\u2060', r == '\ufeff':
		return -1
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return utf8.RuneError
	}
	return r
}

// clip shortens a label to n columns, so that no text can widen a column without bound.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n && displayWidth(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		if used += max(runeWidth(r), 1); used >= n {
			return s[:i] + "…"
		}
	}
	return s
}

// displayWidth is the number of terminal columns that text takes.
func displayWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// wide are the blocks whose characters take two columns in a terminal.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1}, {Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97c, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1b000, Hi: 0x1b2ff, Stride: 1}, {Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1},
		{Lo: 0x1f900, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// wrap breaks text at blanks into lines of at most width columns; a longer word is cut.
func wrap(s string, width int) []string {
	width = max(width, 1)
	var lines []string
	line, used := "", 0
	flush := func() { lines, line, used = append(lines, line), "", 0 }
	for word := range strings.FieldsSeq(s) {
		n := displayWidth(word)
		if used > 0 && used+1+n > width {
			flush()
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		for n > width {
			head, rest, taken := cut(word, width)
			line, word, n = head, rest, n-taken
			flush()
		}
		line, used = line+word, used+n
	}
	if used > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}

// cut splits a word where its first part fills width columns, and says how many that
// part takes; it is never empty.
func cut(word string, width int) (head, rest string, taken int) {
	for i, r := range word {
		n := runeWidth(r)
		if taken+n > width && i > 0 {
			return word[:i], word[i:], taken
		}
		taken += n
	}
	return word, "", taken
}
