package sse

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen is an event copied out of the reader.
type seen struct {
	Name, Data string
	At         int64
}

// feed pushes the chunks with the stamps 0, 1, 2 … and collects all events. Each
// chunk is spoiled as soon as the reader must have let go of it.
func feed(r Framer, chunks [][]byte) []seen {
	var got []seen
	var ev Event
	keep := func() {
		got = append(got, seen{string(ev.Name), string(ev.Data), ev.At})
	}
	for i, chunk := range chunks {
		chunk = bytes.Clone(chunk)
		r.Push(chunk, int64(i))
		for r.Next(&ev) {
			keep()
		}
		for j := range chunk {
			chunk[j] = '#'
		}
	}
	for r.End(&ev) {
		keep()
	}
	return got
}

var lineEnd = regexp.MustCompile(`\r\n|\r|\n`)

// oracle reads a whole stream in the plainest way: it cuts the text into lines,
// and finds for each event the chunk that holds the byte that ended its last
// data line.
func oracle(chunks [][]byte) []seen {
	text := string(bytes.Join(chunks, nil))
	var ends []int // for each chunk, the offset behind it
	for i, end := 0, 0; i < len(chunks); i++ {
		end += len(chunks[i])
		ends = append(ends, end)
	}
	stamp := func(offset int) int64 {
		for i, end := range ends {
			if offset < end {
				return int64(i)
			}
		}
		return int64(len(chunks) - 1)
	}
	var all []seen
	var name string
	var data []string
	var at int64
	pos := len(text) - len(strings.TrimPrefix(text, "\ufeff"))
	for pos <= len(text) {
		line, next, end := text[pos:], len(text)+1, len(text)
		if m := lineEnd.FindStringIndex(line); m != nil {
			line, next, end = text[pos:pos+m[0]], pos+m[1], pos+m[0]
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "event":
			name = value
		case "data":
			data, at = append(data, value), stamp(end)
		}
		if line == "" || next > len(text) {
			if data != nil {
				all = append(all, seen{name, strings.Join(data, "\n"), at})
			}
			name, data = "", nil
		}
		pos = next
	}
	return all
}

// splits gives the text whole, cut in two at every byte position, and byte by
// byte.
func splits(text string) [][][]byte {
	all := [][][]byte{{[]byte(text)}, slices.Collect(slices.Chunk([]byte(text), 1))}
	for i := 1; i < len(text); i++ {
		all = append(all, [][]byte{[]byte(text[:i]), []byte(text[i:])})
	}
	return all
}

// checkSplits checks that the text gives the same events however it is cut, and
// the stamp of the right chunk.
func checkSplits(t *testing.T, text string, want []seen) {
	t.Helper()
	var r Reader
	for _, chunks := range splits(text) {
		r.Reset()
		got := feed(&r, chunks)
		if diff := cmp.Diff(oracle(chunks), got); diff != "" {
			t.Fatalf("chunks %q (−oracle +reader):\n%s", chunks, diff)
		}
		for i := range got {
			got[i].At = 0
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("chunks %q (−want +got):\n%s", chunks, diff)
		}
	}
}
