package sse

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oracleOfLines reads a whole body in the plainest way: it cuts the text at the
// line feeds, and finds for each line the chunk that holds its end. left is what
// Raw must give at the end, nil for nothing.
func oracleOfLines(chunks [][]byte) (want []seen, left []byte) {
	all := bytes.Join(chunks, nil)
	stamp := func(offset int) int64 {
		for i, chunk := range chunks {
			if offset -= len(chunk); offset < 0 {
				return int64(i)
			}
		}
		return int64(len(chunks) - 1)
	}
	text := strings.TrimPrefix(string(all), mark)
	begun, offset := false, len(all)-len(text)
	for line := range strings.SplitAfterSeq(text, "\n") {
		offset += len(line)
		if strings.Trim(line, " \t\r\n") == "" {
			continue
		}
		if !begun && (!strings.HasSuffix(line, "\n") || !json.Valid([]byte(line))) {
			return nil, all
		}
		begun = true
		if event := strings.TrimSpace(line); event != "" {
			at := stamp(offset - 1)
			if !strings.HasSuffix(line, "\n") {
				at = int64(len(chunks) - 1)
			}
			want = append(want, seen{"", event, at})
		}
	}
	if !begun {
		left = all
	}
	return want, left
}

// linesOfServers are bodies as servers send them.
var linesOfServers = map[string]string{
	"Ollama":                       "{\"message\":{\"content\":\" é\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true}\n",
	"CRLF, blank lines, a mark":    mark + "\r\n \n{\"a\":1}\r\n\r\n\t{\"b\":2} \r\n",
	"the last line has no end":     "{\"a\":1}\n{\"b\":2}",
	"an error on a line alone":     "{\"error\":\"gone\"}\n",
	"later lines need no JSON":     "{\"a\":1}\noops\n{\"b\":",
	"a document over several":      "{\n  \"a\": 1\n}\n{\"b\":2}\n",
	"a document without an end":    `{"a":1}`,
	"documents without line feeds": `{"a":1}{"b":2}`,
	"nothing":                      "",
	"blanks":                       " \r\n\n ",
	"an event stream":              "data: {}\n\ndata: [DONE]\n\n",
	"a web page":                   "<html>\n</html>\n",
}

func checkLines(t rapid.TB, chunks [][]byte) {
	var r LineReader
	want, left := oracleOfLines(chunks)
	for range 2 { // the second time after a Reset
		got := feed(&r, chunks)
		if !slices.Equal(got, want) {
			t.Fatalf("%q:\n got %q\nwant %q", chunks, got, want)
		}
		if raw := r.Raw(); (raw == nil) != (left == nil && len(want) > 0) || !bytes.Equal(raw, left) {
			t.Fatalf("%q: raw %q, want %q", chunks, raw, left)
		}
		var ev Event
		if r.End(&ev) {
			t.Fatalf("%q: a second end gives %q", chunks, ev.Data)
		}
		r.Reset()
	}
}

func TestLinesAreTheSameHoweverTheBodyIsCut(t *testing.T) {
	for name, text := range linesOfServers {
		t.Run(name, func(t *testing.T) {
			for at := range len(text) + 1 {
				checkLines(t, [][]byte{[]byte(text[:at]), []byte(text[at:])})
			}
			checkLines(t, bytes.SplitAfter([]byte(text), nil))
		})
	}
}

func TestAnySplitOfAnyLinesGivesTheSameEvents(t *testing.T) {
	parts := []string{"{", "}", `{"a":1}`, `{"b":"\n"}`, "\n", "\n", "\r\n", " ", "\t", mark, "x", "\v", "[1]", "data: x", `"é"`}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 40).Draw(t, "parts"), ""))
		checkLines(t, cut(text, rapid.SliceOfN(rapid.IntRange(0, len(text)), 0, 12).Draw(t, "cuts")))
	})
}

func TestALineNotYetReadSurvivesTheNextPush(t *testing.T) {
	var r LineReader
	var ev Event
	r.Push([]byte("{\"a\":1}\n{\"b\":2}\n"), 1)
	if !r.Next(&ev) || string(ev.Data) != `{"a":1}` || ev.At != 1 {
		t.Fatalf("%+v", ev)
	}
	r.Push([]byte("{\"c\":3}\n"), 2)
	for _, want := range []string{`{"b":2}`, `{"c":3}`} {
		if !r.Next(&ev) || string(ev.Data) != want || ev.At != 2 {
			t.Errorf("%q at %d, want %q at 2", ev.Data, ev.At, want)
		}
	}
}

func TestTheFirstByteTellsTheFraming(t *testing.T) {
	for first, want := range map[byte]Framing{'{': Lines, 'd': EventStream, ':': EventStream, '<': EventStream, '[': EventStream} {
		if got := FramingOf(first); got != want {
			t.Errorf("%c: %d, want %d", first, got, want)
		}
	}
}

const ollamaLine = `{"model":"smollm2:latest","created_at":"2025-12-01T00:00:00.000000001Z","message":{"role":"assistant","content":" model"},"done":false}` + "\n"

func linePumps() map[string][][]byte {
	line := []byte(ollamaLine)
	return map[string][][]byte{
		"one line a read":    {line},
		"a line in 2 reads":  {line[:100], line[100:]},
		"16 lines in a read": {bytes.Repeat(line, 16)},
	}
}

func TestAnOrdinaryLineAllocatesNothing(t *testing.T) {
	for name, chunks := range linePumps() {
		t.Run(name, func(t *testing.T) {
			var r LineReader
			var ev Event
			pump := func() {
				for _, chunk := range chunks {
					r.Push(chunk, 1)
					for r.Next(&ev) {
					}
				}
			}
			if n := testing.AllocsPerRun(200, pump); n != 0 {
				t.Errorf("%v allocations a round", n)
			}
			if string(ev.Data) != strings.TrimSpace(ollamaLine) {
				t.Errorf("the last line is %q", ev.Data)
			}
		})
	}
}

func BenchmarkLineReader(b *testing.B) {
	for name, chunks := range linePumps() {
		b.Run(name, func(b *testing.B) {
			var r LineReader
			var ev Event
			b.ReportAllocs()
			events := 0
			for b.Loop() {
				for _, chunk := range chunks {
					r.Push(chunk, 1)
					for r.Next(&ev) {
						events++
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}

func FuzzLineReader(f *testing.F) {
	for _, text := range linesOfServers {
		f.Add([]byte(text), []byte{1, 9, 30})
	}
	f.Fuzz(func(t *testing.T, text, at []byte) {
		cuts := make([]int, len(at))
		for i, c := range at {
			cuts[i] = int(c)
		}
		checkLines(t, cut(text, cuts))
	})
}
