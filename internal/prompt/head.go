package prompt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mode says what the heads of the streams of a cell have in common.
type Mode string

// The modes of prompts.
const (
	ModeDistinct     Mode = "distinct"      // each stream its own head
	ModeShared       Mode = "shared"        // all streams one head
	ModeSharedPrefix Mode = "shared-prefix" // the first half common, the second half each its own
)

// HeadID names a head: the context it is for (tokens), the stream that sends
// it, and a count of attempts, raised where a head must be new again.
type HeadID struct{ Context, Stream, Attempt int }

// common stands in the place of a stream for text that all streams share.
const common = -1

// Writer writes the prompts of one run. It holds no state that changes and
// may be used from many goroutines.
type Writer struct {
	library *Library
	salt    string
	mode    Mode
}

// NewWriter gives a writer. Writers of equal library, salt and mode write
// equal prompts; another salt makes every prompt begin differently.
func NewWriter(l *Library, salt string, mode Mode) *Writer {
	return &Writer{library: l, salt: salt, mode: mode}
}

// Head gives natural text of at most chars Unicode characters, less by a word
// at most, cut at a word border; if the library is used up, all there is. A
// longer head of the same id begins with the shorter one, in mode
// shared-prefix as far as the shorter one's common half.
func (w *Writer) Head(h HeadID, chars int) string {
	if w.mode == ModeShared {
		h.Stream = common
	}
	text := &text{left: chars}
	text.out.Grow(chars + chars/16)
	used := make([]bool, len(w.library.paragraphs))
	if w.mode == ModeSharedPrefix {
		text.left = chars / 2
		w.fill(text, HeadID{h.Context, common, h.Attempt}, used)
		text.left = chars - text.written
	}
	w.fill(text, h, used)
	return text.out.String()
}

// fill writes paragraphs in the order of h until the text is full, without
// those used before.
func (w *Writer) fill(text *text, h HeadID, used []bool) {
	full := !text.add(w.opening(h))
	for _, i := range w.order(h) {
		if full {
			return
		}
		if !used[i] {
			used[i] = true
			full = !text.addCounted(w.library.paragraphs[i])
		}
	}
}

// room is the most characters that a head can have.
func (w *Writer) room(h HeadID) int {
	room := w.library.chars + len(between)*len(w.library.paragraphs) + len(w.opening(h))
	if w.mode == ModeSharedPrefix {
		// The other opening and the rest of the paragraph cut at the half.
		room += len(w.opening(h)) + len(between) - longest
	}
	return max(0, room)
}

// text is a head being written.
type text struct {
	out     strings.Builder
	written int // characters
	left    int // characters that still fit
}

func (t *text) add(s string) (whole bool) {
	return t.addCounted(paragraph{s, utf8.RuneCountInString(s)})
}

// addCounted appends a paragraph, or its words that fit. The first word of a
// text is written whatever fits, for a head must not be empty.
func (t *text) addCounted(p paragraph) (whole bool) {
	separator := between
	if t.written == 0 {
		separator = ""
	}
	fits := t.left - len(separator)
	whole = p.chars <= fits
	if !whole {
		p = words(p.text, fits)
		if p.chars == 0 && t.written == 0 {
			p.text, _, _ = strings.Cut(p.text, " ")
			p.chars = utf8.RuneCountInString(p.text)
		}
	}
	if p.chars > 0 {
		t.out.WriteString(separator)
		t.out.WriteString(p.text)
		t.written += len(separator) + p.chars
		t.left -= len(separator) + p.chars
	}
	return whole
}

// words gives the beginning of s of at most chars characters that ends at a
// word border. If there is none, the text is s and the count 0.
func words(s string, chars int) paragraph {
	at, atChars, n := 0, 0, 0
	before := rune(' ')
	for i, r := range s {
		if n > chars {
			break
		}
		// Within something endless that is no word the limit is border enough.
		if !joined(before, r) || n-atChars > longestWord {
			at, atChars = i, n
		}
		before = r
		n++
	}
	if trimmed := strings.TrimRight(s[:at], " \n\t"); trimmed != "" {
		return paragraph{trimmed, utf8.RuneCountInString(trimmed)}
	}
	return paragraph{s, 0}
}

// longestWord is the characters of a word that is never cut.
const longestWord = 64

// joined tells whether two neighbours belong to one word.
func joined(a, b rune) bool {
	return inWord(a) && inWord(b)
}

// inWord is true for what words are made of in scripts that put blanks
// between them.
func inWord(r rune) bool {
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
		return false
	}
	return r == '\'' || r == '’' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// order is the paragraphs of a head, shuffled.
func (w *Writer) order(h HeadID) []int {
	sum := w.hash("order", h)
	source := rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
	return rand.New(source).Perm(len(w.library.paragraphs))
}

// opening is the first line of a head, made of words that exist in no
// language, so that no two heads share their first tokens.
func (w *Writer) opening(h HeadID) string {
	sum := w.hash("opening", h)
	return w.name(h) + " " + word(binary.LittleEndian.Uint64(sum[:])) + " " +
		word(binary.LittleEndian.Uint64(sum[8:])) + ": a reader."
}

// name is a word for h, different for any two streams below 2²¹ that share
// context and attempt, and from the first syllable on for any 128 streams in
// a row: an odd factor and a shift permute the numbers modulo 2²¹.
func (w *Writer) name(h HeadID) string {
	sum := w.hash("name", HeadID{h.Context, 0, h.Attempt})
	factor, shift := binary.LittleEndian.Uint64(sum[:])|1, binary.LittleEndian.Uint64(sum[8:])
	return word(uint64(h.Stream)*factor + shift)
}

// word spells the low 21 bits of n in three syllables of 7 bits. A syllable
// is one consonant, a vowel, and perhaps a consonant that none can follow
// directly but the next syllable's, so that different numbers differ.
func word(n uint64) string {
	const onsets = "bdfghklmnprstvwz"
	endings := [8]string{"a", "e", "i", "o", "u", "an", "el", "or"}
	var out strings.Builder
	for i := range 3 {
		syllable := n >> (7 * i) & 127
		onset := onsets[syllable>>3]
		if i == 0 {
			onset -= 'a' - 'A'
		}
		out.WriteByte(onset)
		out.WriteString(endings[syllable&7])
	}
	return out.String()
}

// hash depends on everything that names a text of this writer.
func (w *Writer) hash(what string, h HeadID) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%q\n%s\n%d %d %d", what, w.salt, w.mode, h.Context, h.Stream, h.Attempt))
}
