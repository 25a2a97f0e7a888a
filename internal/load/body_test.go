package load

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// cutAll cuts a body that arrives in pieces.
func cutAll(c *bodyCutter, whole []byte, piece func(left int) int) (data, rest []byte, err error) {
	for len(whole) > 0 && c.state != bodyDone {
		n := piece(len(whole))
		chunk := whole[:n]
		whole = whole[n:]
		for len(chunk) > 0 && c.state != bodyDone {
			var part []byte
			if part, chunk, err = c.next(chunk); err != nil {
				return data, nil, err
			}
			data = append(data, part...)
		}
		rest = chunk
	}
	return data, append(rest, whole...), nil
}

func TestAChunkedBodyIsTheSameHoweverItArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body bytes.Buffer
		w := httputil.NewChunkedWriter(&body)
		var want []byte
		for range rapid.IntRange(0, 20).Draw(t, "chunks") {
			chunk := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "chunk")
			want = append(want, chunk...)
			if _, err := w.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "trailer") {
			body.WriteString("X-Sum: 1\r\n")
		}
		body.WriteString("\r\nbehind")
		c := &bodyCutter{state: chunkSize}
		got, rest, err := cutAll(c, body.Bytes(), func(left int) int { return rapid.IntRange(1, min(left, 40)).Draw(t, "piece") })
		if err != nil || !bytes.Equal(got, want) || c.state != bodyDone || string(rest) != "behind" {
			t.Fatalf("%v: %d of %d bytes, state %d, rest %q", err, len(got), len(want), c.state, rest)
		}
	})
}

func TestBodiesOfEveryKindEnd(t *testing.T) {
	tests := []struct {
		name, body string
		cutter     bodyCutter
		data, rest string
		done, bad  bool
	}{
		{"so many bytes", "abcdef", bodyCutter{state: bodyLength, left: 4}, "abcd", "ef", true, false},
		{"to the close", "abcdef", bodyCutter{state: bodyToClose}, "abcdef", "", false, false},
		{"line feeds alone", "3\nabc\n0\n\n", bodyCutter{state: chunkSize}, "abc", "", true, false},
		{"an extension", "3 ;name=value\r\nabc\r\n0;x\r\n\r\n", bodyCutter{state: chunkSize}, "abc", "", true, false},
		{"large letters", "A\r\n0123456789\r\n", bodyCutter{state: chunkSize}, "0123456789", "", false, false},
		{"no size", "xyz\r\n", bodyCutter{state: chunkSize}, "", "", false, true},
		{"an empty size", "\r\n", bodyCutter{state: chunkSize}, "", "", false, true},
		{"a size beyond all bounds", "ffffffffffffffff\r\n", bodyCutter{state: chunkSize}, "", "", false, true},
		{"more than its size", "3\r\nabcd\r\n", bodyCutter{state: chunkSize}, "abc", "", false, true},
		{"an endless line", strings.Repeat("1", 5000), bodyCutter{state: chunkSize}, "", "", false, true},
	}
	for _, tt := range tests {
		data, rest, err := cutAll(&tt.cutter, []byte(tt.body), func(left int) int { return left })
		if string(data) != tt.data || string(rest) != tt.rest || (tt.cutter.state == bodyDone) != tt.done || (err != nil) != tt.bad {
			t.Errorf("%s: data %q, rest %q, state %d, %v", tt.name, data, rest, tt.cutter.state, err)
		}
	}
}

func TestAHeadEndsWithItsBlankLine(t *testing.T) {
	for head, want := range map[string]int{
		"HTTP/1.1 200 OK\r\n\r\nx": 19, "HTTP/1.1 200 OK\n\nx": 17, "HTTP/1.1 200 OK\r\nA: b\r\n": 0, "HTTP/1.1 200 OK\r\n\r": 0, "": 0,
	} {
		if got := headSize([]byte(head), 0); got != want {
			t.Errorf("%q: %d, want %d", head, got, want)
		}
		for from := range len(head) { // the end is found whichever bytes came before
			if got := headSize([]byte(head), from); from < want && got != want {
				t.Errorf("%q from %d: %d, want %d", head, from, got, want)
			}
		}
	}
}

func TestANapIsASmallPartOfAGap(t *testing.T) {
	tests := []struct {
		rate    float64
		streams int
		want    time.Duration
	}{
		{1000, 1024, 0},                          // nothing to save
		{51_200, 1024, 2 * time.Millisecond},     // a gap of 20 ms
		{102_400, 1024, 1250 * time.Microsecond}, // 10 ms
		{100_000, 50, 0},                         // 0.5 ms: too short to sleep
	}
	for _, tt := range tests {
		if got := napFor(tt.rate, tt.streams); got != tt.want {
			t.Errorf("%v events/s of %d streams: %v, want %v", tt.rate, tt.streams, got, tt.want)
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(vllmEvent), vllmEvent)
	c := &bodyCutter{state: chunkSize}
	b.ReportAllocs()
	for b.Loop() {
		for rest := chunk; len(rest) > 0; {
			var err error
			if _, rest, err = c.next(rest); err != nil && err != io.EOF {
				b.Fatal(err)
			}
		}
	}
}

// FuzzBody cuts chunked bodies as the standard library does, however they arrive.
func FuzzBody(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"), uint8(1))
	f.Add([]byte("A;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n"), uint8(7))
	f.Add([]byte("3\r\nabcd\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, piece uint8) {
		c := &bodyCutter{state: chunkSize}
		got, _, err := cutAll(c, body, func(left int) int { return min(left, int(piece)+1) })
		if err != nil || c.state != bodyDone {
			return // the library accepts other forms, and ends elsewhere
		}
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
		if wantErr == nil && !bytes.Equal(got, want) {
			t.Fatalf("%q: cut %q, want %q", body, got, want)
		}
	})
}
