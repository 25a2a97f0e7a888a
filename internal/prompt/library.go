// Package prompt writes prompts of a wanted length from natural, varied text,
// so that a server's caches, its speculative decoding and its attention meet
// what real users send.
//
// A prompt is a head followed directly by a tail (or, at context 0, one short
// instruction). A head begins with made-up words of its own and goes on with
// whole paragraphs of the library in an order of its own, none twice; a tail
// is a short instruction. Everything follows from the salt of the run and the
// name of the head, so that a run can be made again to the letter.
package prompt

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"speedmatrix"
)

// The texts and their origin are listed in NOTICE.md; the format is that of
// the command in the folder pack.
//
//go:embed library.txt.gz
var packed []byte

// longest is the bytes of a user's paragraph before it is cut into several.
const longest = 4000

// between separates paragraphs in a head.
const between = "\n\n"

// Library is the paragraphs of a text. It does not change and may be used
// from many goroutines.
type Library struct {
	name       string
	sha256     string
	paragraphs []paragraph
	chars      int
}

type paragraph struct {
	text  string
	chars int
}

// Embedded gives the library of public-domain texts that is built in: about
// 8 million characters, close to 2 million tokens of most models. They are
// unpacked at the first call, and stay.
func Embedded() (*Library, error) { return builtIn() }

var builtIn = sync.OnceValues(unpack)

func unpack() (*Library, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("embedded texts: %w", err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("embedded texts: %w", err)
	}
	text := strings.TrimSuffix(string(data), "\n")
	return newLibrary("public-domain texts", strings.Split(text, "\n"))
}

// FromText makes a library of a user's text, which must be UTF-8. Empty lines
// separate paragraphs; line breaks and blanks inside them stay as they are.
// Paragraphs beyond 4,000 bytes are cut after a line or a sentence, and
// paragraphs that occur twice are taken once. name is for messages and for
// the run's document. Errors are of kind usage.
func FromText(name string, text []byte) (*Library, error) {
	if !utf8.Valid(text) {
		return nil, &speedmatrix.Error{
			Kind: speedmatrix.KindUsage,
			What: fmt.Sprintf("the text %q is not UTF-8", name),
			Next: "Prompts are made of plain text: convert the file, or name another one.",
		}
	}
	var all []string
	seen := map[string]bool{}
	for _, p := range split(string(text)) {
		if !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, &speedmatrix.Error{
			Kind: speedmatrix.KindUsage,
			What: fmt.Sprintf("the text %q is empty", name),
			Next: "Name a file with enough text for the longest context, about 4 characters per token.",
		}
	}
	return newLibrary(name, all)
}

func newLibrary(name string, paragraphs []string) (*Library, error) {
	l := &Library{name: name, paragraphs: make([]paragraph, len(paragraphs))}
	hash := sha256.New()
	for i, text := range paragraphs {
		chars := utf8.RuneCountInString(text)
		l.paragraphs[i] = paragraph{text, chars}
		l.chars += chars
		if _, err := io.WriteString(hash, text+between); err != nil {
			return nil, fmt.Errorf("text %q: %w", name, err)
		}
	}
	l.sha256 = hex.EncodeToString(hash.Sum(nil))
	return l, nil
}

// Name is what the text is called.
func (l *Library) Name() string { return l.name }

// SHA256 is the hash of the paragraphs in hexadecimal: equal hashes and salts
// make equal prompts.
func (l *Library) SHA256() string { return l.sha256 }

// Chars is the number of Unicode characters of all paragraphs.
func (l *Library) Chars() int { return l.chars }

// split gives the paragraphs of a text, none empty, none beyond longest.
func split(text string) []string {
	text = strings.NewReplacer("\ufeff", "", "\r\n", "\n", "\r", "\n").Replace(text)
	var all []string
	var open []string
	flush := func() {
		if len(open) > 0 {
			all = append(all, pieces(strings.Join(open, "\n"))...)
			open = open[:0]
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\f")
		if line == "" {
			flush()
			continue
		}
		open = append(open, line)
	}
	flush()
	return all
}

// pieces cuts a long paragraph after a line, else a sentence, else a word,
// else wherever the limit falls.
func pieces(p string) []string {
	var all []string
	for len(p) > longest {
		at := longest
		for !utf8.RuneStart(p[at]) {
			at--
		}
		for _, border := range []string{"\n", ". ", " "} {
			if i := strings.LastIndex(p[:at], border); i >= longest/2 {
				at = i + len(border)
				break
			}
		}
		all = append(all, strings.TrimRight(p[:at], " \n"))
		p = p[at:]
	}
	if strings.TrimSpace(p) != "" {
		all = append(all, p)
	}
	return all
}
