package sse

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// vllmEvent is an event as vLLM sends it in a chat, with usage in every event.
const vllmEvent = `data: {"id":"chatcmpl-a5c9e8f0b1d24c7f9d3e6b8a7c5d4e3f","object":"chat.completion.chunk","created":1764540000,"model":"smollm2","choices":[{"index":0,"delta":{"content":" model"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":38,"total_tokens":45,"completion_tokens":7}}` + "\n\n"

func data(texts ...string) []seen {
	var all []seen
	for _, text := range texts {
		all = append(all, seen{Data: text})
	}
	return all
}

func TestEventsAreTheSameHoweverTheStreamIsCut(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct {
		name, stream string
		want         []seen
	}{
		{"line feeds", "data: a\n\ndata: b\n\n", data("a", "b")},
		{"carriage return and line feed", "data: a\r\n\r\ndata: b\r\n\r\n", data("a", "b")},
		{"carriage returns alone", "data: a\r\rdata: b\r\r", data("a", "b")},
		{"all line ends mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\rdata: d\n\r", data("a", "b", "c", "d")},
		{"no blank behind the colon", "data:a\n\n", data("a")},
		{"only one blank is taken off", "data:  a \n\n", data(" a ")},
		{"blanks at the borders of pieces stay", "data: {\"t\":\" a b \"}\n\n", data(`{"t":" a b "}`)},
		{"several data lines", "data: a\ndata: b\ndata:\ndata: c\n\n", data("a\nb\n\nc")},
		{"several data lines with CRLF", "data: a\r\ndata: b\r\n\r\n", data("a\nb")},
		{"keep-alive comments", ": keep-alive\n\n:\n\ndata: a\n: ping\n\n: ping\n\n", data("a")},
		{"a comment between data lines", "data: a\n: ping\ndata: b\n\n", data("a\nb")},
		{"event, id and retry", "event: start\nid: 7\nretry: 10\ndata: a\n\ndata: b\n\n", []seen{{Name: "start", Data: "a"}, {Data: "b"}}},
		{"an event name behind its data", "data: a\nevent: late\n\n", []seen{{Name: "late", Data: "a"}}},
		{"a name without data names nothing", "event: lost\n\ndata: a\n\n", data("a")},
		{"unknown fields", "dat: x\ndatas: x\n data: x\nfoo\ndata: a\n\n", data("a")},
		{"data without a colon", "data\n\n", data("")},
		{"empty data", "data:\n\ndata: \n\n", data("", "")},
		{"a colon in the value", "data: a:b: c\n\n", data("a:b: c")},
		{"a character of four bytes", "data: \U0001F600\n\n", data("\U0001F600")},
		{"a byte order mark", "\ufeffdata: a\n\n", data("a")},
		{"a byte order mark later is text", "data: a\n\n\ufeffdata: b\n\n", data("a")},
		{"two byte order marks", "\ufeff\ufeffdata: b\n\n", nil},
		{"half a byte order mark", "\xef\xbbdata: b\n\ndata: c\n\n", data("c")},
		{"blank lines at the start", "\n\r\n\r\ndata: a\n\n", data("a")},
		{"a long line", "data: " + long + "\n\n", data(long)},
		{"a long line after a carried one", "data: a\n\ndata: " + long + "\ndata: " + long + "\n\n", data("a", long+"\n"+long)},
		{"the end mark", "data: a\n\ndata: [DONE]\n\n", data("a", "[DONE]")},
		{"no blank line at the end", "data: a\n\ndata: b\n", data("a", "b")},
		{"no line end at the end", "data: a\n\ndata: b", data("a", "b")},
		{"a carriage return at the end", "data: a\r\n\r\ndata: b\r", data("a", "b")},
		{"half a field name at the end", "data: a\n\ndat", data("a")},
		{"data lines before half a line", "data: a\ndata: b\nda", data("a\nb")},
		{"nothing", "", nil},
		{"no event stream", "{\"a\": 1}\n", nil},
		{"the events of vLLM", vllmEvent + vllmEvent, data(vllmEvent[6:len(vllmEvent)-2], vllmEvent[6:len(vllmEvent)-2])},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { checkSplits(t, test.stream, test.want) })
	}
}

// pieces is what random streams are made of.
var pieces = []string{
	"data: ", "data:", "data", "event: ", "id: 1", "retry", ":", ": note", " ", "a", "\U0001F600", "é", "{\"x\":1}",
	"[DONE]", "\n", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\r\r", "\ufeff", "\xef", "\xbb",
}

func TestAnySplitOfAnyStreamGivesTheSameEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, "pieces"), ""))
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(text)), 0, 12).Draw(t, "cuts")
		chunks := cut(text, cuts)
		var r Reader
		got := feed(&r, chunks)
		if want := oracle(chunks); !slices.Equal(got, want) {
			t.Fatalf("chunks %q:\n got %+v\nwant %+v", chunks, got, want)
		}
		r.Reset()
		if again := feed(&r, chunks); !slices.Equal(got, again) {
			t.Fatalf("after Reset: got %+v, first %+v", again, got)
		}
	})
}

// cut cuts text at the given offsets, in whatever order. The last chunk is not
// empty, so that the stamp of the end is that of the last byte.
func cut(text []byte, cuts []int) [][]byte {
	slices.Sort(cuts)
	var chunks [][]byte
	from := 0
	for _, to := range cuts {
		if to < len(text) {
			chunks = append(chunks, text[from:to])
			from = to
		}
	}
	return append(chunks, text[from:])
}

func TestAnEventTakesTheStampOfTheReadThatCompletedItsLastDataLine(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string // with the stamps 0, 1, 2 …
		want   []seen
	}{
		{"not that of the first part of the line", []string{"data: a", "bc\n\n"}, []seen{{Data: "abc", At: 1}}},
		{"not that of the blank line", []string{"data: a\n", "\n"}, []seen{{Data: "a", At: 0}}},
		{"not that of a comment in between", []string{"data: a\n", ": note\n", "\n"}, []seen{{Data: "a", At: 0}}},
		{"that of the last of several lines", []string{"data: a\n", "data: b\n", "\n"}, []seen{{Data: "a\nb", At: 1}}},
		{"a carriage return ends the line", []string{"data: a\r", "\n\r", "\n"}, []seen{{Data: "a", At: 0}}},
		{"all events of one read have its stamp", []string{"da", "ta: a\n\ndata: b\n\n"}, []seen{{Data: "a", At: 1}, {Data: "b", At: 1}}},
		{"the end of the stream adds none", []string{"data: a\n\nda", "ta: b"}, []seen{{Data: "a", At: 0}, {Data: "b", At: 1}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var chunks [][]byte
			for _, chunk := range test.chunks {
				chunks = append(chunks, []byte(chunk))
			}
			var r Reader
			if got := feed(&r, chunks); !slices.Equal(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestNoEventComesBeforeItsBlankLine(t *testing.T) {
	var r Reader
	var ev Event
	for _, c := range "data: 12\ndata: 3\n" {
		if r.Push([]byte(string(c)), 1); r.Next(&ev) {
			t.Fatalf("the event %q", ev.Data)
		}
	}
	if r.Push([]byte("\n"), 2); !r.Next(&ev) || r.End(&ev) {
		t.Fatal("the event has to come once, at its blank line")
	}
}

func TestBytesNotYetReadSurviveTheNextPush(t *testing.T) {
	var r Reader
	r.Push([]byte("data: a\n\ndata: b\n"), 1)
	r.Push([]byte("\ndata: c\n\n"), 2)
	var ev Event
	var got []string
	for r.Next(&ev) {
		got = append(got, string(ev.Data))
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestRawShowsABodyThatIsNoEventStream(t *testing.T) {
	page := "<html>\r\n<title>busy</title>\n</html>"
	document := "{\n  \"choices\": [\n  ]\n}\n"
	tests := []struct{ name, body, want string }{
		{"a document", document, document},
		{"lines of JSON", "{\"a\":1}\n{\"a\":2}\n", "{\"a\":1}\n{\"a\":2}\n"},
		{"a page", page, page},
		{"a byte order mark is not part of it", "\ufeff{}", "{}"},
		{"half a mark is", "\xef\xbb{}", "\xef\xbb{}"},
		{"white space first", "\n\n{}", "\n\n{}"},
		{"a data field", "data: {}\n", ""},
		{"a comment", ":\n", ""},
		{"an event stream late", "\nfoo\nevent: a\n{}", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var r Reader
			for _, chunks := range splits(test.body) {
				r.Reset()
				feed(&r, chunks)
				if got := string(r.Raw()); got != test.want {
					t.Fatalf("chunks %q: raw %q, want %q", chunks, got, test.want)
				}
			}
		})
	}
}

func TestRawIsKnownFromTheFirstByteOn(t *testing.T) {
	var r Reader
	var ev Event
	if r.Raw() == nil {
		t.Fatal("an event stream before the first byte")
	}
	r.Push([]byte("\ufeff{")[:2], 1)
	if r.Next(&ev) || r.Raw() == nil || len(r.Raw()) != 0 {
		t.Fatalf("raw %q after half a byte order mark", r.Raw())
	}
	r.Reset()
	r.Push([]byte("{"), 1)
	if r.Next(&ev); string(r.Raw()) != "{" {
		t.Fatalf("raw %q, want {", r.Raw())
	}
	r.Reset()
	r.Push([]byte("da"), 1)
	if r.Next(&ev); string(r.Raw()) != "da" {
		t.Fatalf("raw %q, want da", r.Raw())
	}
	r.Push([]byte("ta: x\n"), 2)
	if r.Next(&ev); r.Raw() != nil {
		t.Fatalf("raw %q in an event stream", r.Raw())
	}
}

// pumps are the ways in which a benchmark lets events arrive, as reads of one
// event or more.
func pumps() map[string][][]byte {
	event := []byte(vllmEvent)
	return map[string][][]byte{
		"one event a read":    {event},
		"an event in 2 reads": {event[:100], event[100:]},
		"16 events a read":    {bytes.Repeat(event, 16)},
	}
}

func TestAnOrdinaryEventAllocatesNothing(t *testing.T) {
	for name, chunks := range pumps() {
		t.Run(name, func(t *testing.T) {
			var r Reader
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
			if len(ev.Data) != len(vllmEvent)-8 {
				t.Errorf("data of %d bytes, want %d", len(ev.Data), len(vllmEvent)-8)
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	for name, chunks := range pumps() {
		b.Run(name, func(b *testing.B) {
			var r Reader
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

func FuzzReader(f *testing.F) {
	f.Add([]byte(vllmEvent), []byte{10, 200})
	f.Add([]byte("\ufeffevent: x\r\ndata: a\rdata: b\n\r\n: note\n\ndata"), []byte{1, 2, 20, 21})
	f.Fuzz(func(t *testing.T, text, at []byte) {
		cuts := make([]int, len(at))
		for i, c := range at {
			cuts[i] = int(c)
		}
		chunks := cut(text, cuts)
		var r Reader
		if got, want := feed(&r, chunks), oracle(chunks); !slices.Equal(got, want) {
			t.Fatalf("chunks %q:\n got %+v\nwant %+v", chunks, got, want)
		}
	})
}
