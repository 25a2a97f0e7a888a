package simserver

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// vocabText lists the tokens that are not made by rule, one a line; package vocab in bench makes it.
//
//go:embed vocab.txt
var vocabText string

// The ids of a vocabulary: single bytes, the special tokens of the chat
// template, runs of white space, numbers of two and three digits, then the list.
const (
	firstSpecial = 256
	firstBlank   = firstSpecial + 3
	longestBlank = 8 // blanks in one token
	longestLines = 4 // line ends in one token
)

// The special tokens.
const (
	tokenStart = firstSpecial + iota // opens a message
	tokenEnd                         // closes a message
	tokenText                        // ends a text
)

// tokenizer cuts text into tokens and joins tokens to text. It does not change.
//
// A text is cut into pieces: letters with a blank before them, up to three
// digits, other signs with a blank before them, white space. A piece is cut
// from its start into the longest tokens there are, bytes at the worst. So a
// text that is cut where a token ends has the tokens of its parts, and the
// tokens of a stream are those of its text.
type tokenizer struct {
	texts   []string
	ids     map[string]uint32
	longest int // bytes of the longest token of the list
}

// vocabulary is the one tokenizer, made when it is first asked for.
var vocabulary = sync.OnceValue(func() *tokenizer { return newTokenizer(vocabText) })

func newTokenizer(list string) *tokenizer {
	t := &tokenizer{ids: make(map[string]uint32, 16384)}
	for b := range 256 {
		t.add(string([]byte{byte(b)}))
	}
	t.texts = append(t.texts, "<|im_start|>", "<|im_end|>", "<|endoftext|>")
	for n := 2; n <= longestBlank; n++ {
		t.add(strings.Repeat(" ", n))
	}
	for n := 2; n <= longestLines; n++ {
		t.add(strings.Repeat("\n", n))
	}
	for n := range 100 {
		t.add(fmt.Sprintf("%02d", n))
	}
	for n := range 1000 {
		t.add(fmt.Sprintf("%03d", n))
	}
	for token := range strings.SplitSeq(strings.TrimSuffix(list, "\n"), "\n") {
		t.add(token)
		t.longest = max(t.longest, len(token))
	}
	return t
}

// add gives a token the next id.
func (t *tokenizer) add(token string) {
	t.ids[token] = uint32(len(t.texts))
	t.texts = append(t.texts, token)
}

// size is the number of tokens.
func (t *tokenizer) size() int { return len(t.texts) }

// text is a token's text.
func (t *tokenizer) text(id uint32) string { return t.texts[id] }

// join is the text of tokens.
func (t *tokenizer) join(ids []uint32) string {
	var all strings.Builder
	for _, id := range ids {
		all.WriteString(t.texts[id])
	}
	return all.String()
}

// encode appends the tokens of a text.
func (t *tokenizer) encode(dst []uint32, text string) []uint32 {
	for len(text) > 0 {
		n := nextPiece(text)
		dst = t.cut(dst, text[:n])
		text = text[n:]
	}
	return dst
}

// cut appends the tokens of a piece.
func (t *tokenizer) cut(dst []uint32, piece string) []uint32 {
	for len(piece) > 0 {
		n := min(len(piece), t.longest)
		id, known := t.ids[piece[:n]]
		for !known {
			n--
			id, known = t.ids[piece[:n]]
		}
		dst = append(dst, id)
		piece = piece[n:]
	}
	return dst
}

type class uint8

const (
	letter class = iota
	digit
	blank
	other
)

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r), unicode.IsMark(r):
		return letter
	case '0' <= r && r <= '9':
		return digit
	case r == ' ', r == '\n':
		return blank
	}
	return other
}

// nextPiece is the length in bytes of the first piece of a text that is not empty.
func nextPiece(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	switch of := classOf(r); of {
	case blank:
		return blankPiece(text, text[0])
	case digit:
		return min(3, runOf(text, digit))
	default:
		return size + runOf(text[size:], of)
	}
}

// blankPiece is a run of blanks or of line ends, or a single blank with the word or signs after it.
func blankPiece(text string, of byte) int {
	n, limit := 1, longestBlank
	if of == '\n' {
		limit = longestLines
	}
	for n < min(limit, len(text)) && text[n] == of {
		n++
	}
	if of == '\n' || n > 1 || n == len(text) {
		return n
	}
	r, size := utf8.DecodeRuneInString(text[n:])
	if next := classOf(r); next == letter || next == other {
		return n + size + runOf(text[n+size:], next)
	}
	return n
}

// runOf is the length of the characters of a class at the start of a text.
func runOf(text string, of class) int {
	for i, r := range text {
		if classOf(r) != of {
			return i
		}
	}
	return len(text)
}
