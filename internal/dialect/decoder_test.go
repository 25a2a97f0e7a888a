package dialect

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix/internal/sse"
)

func TestEveryKnownShapeIsUnderstood(t *testing.T) {
	// One decoder and one event for all: nothing of an event may show in the next.
	var d Decoder
	var ev Event
	for _, test := range shapesOfServers {
		t.Run(test.name, func(t *testing.T) {
			d.Decode([]byte(test.data), &ev)
			if diff := cmp.Diff(test.want, plainOf(&ev)); diff != "" {
				t.Errorf("%s\n(−want +got):\n%s", test.data, diff)
			}
			check(t, &d, &ev, []byte(test.data))
		})
	}
}

func TestEveryPieceOfAnEventIsASurprise(t *testing.T) {
	var d Decoder
	var ev Event
	for _, text := range []string{vllmText, llamaText, llamaUsage} {
		for end := 1; end < len(text); end++ {
			d.Decode([]byte(text[:end]), &ev)
			if diff := cmp.Diff(plain{Tokens: -1, Surprise: true}, plainOf(&ev)); diff != "" {
				t.Fatalf("%s\n(−want +got):\n%s", text[:end], diff)
			}
		}
	}
}

func TestNestingIsLimitedAndNoTrouble(t *testing.T) {
	var d Decoder
	var ev Event
	nest := func(before, after string, n int) string {
		return `{"choices":[{"text":"a"}],"x":` + strings.Repeat(before, n) + strings.Repeat(after, n) + "}"
	}
	for _, test := range []struct {
		data string
		want bool
	}{
		{nest("[", "]", maxDepth-1), false},
		{nest("[", "]", maxDepth), true},
		{nest(`{"a":[`, "]}", maxDepth/2-1), false},
		{nest(`{"a":[`, "]}", 1_000_000), true},
	} {
		if d.Decode([]byte(test.data), &ev); ev.Surprise != test.want {
			t.Errorf("%d bytes: surprise %v, want %v", len(test.data), ev.Surprise, test.want)
		}
	}
	deep := `{"choices":[{"delta":{"content":` + strings.Repeat(`[{"thinking":`, 4000) + "null" + strings.Repeat("}]", 4000) + "}}]}"
	if d.Decode([]byte(deep), &ev); ev.Surprise || len(ev.Reasoning) > 0 {
		t.Errorf("deep parts: %+v", plainOf(&ev))
	}
}

// streams are whole streams as servers send them, with what they say in all.
var streams = []struct {
	name, text string
	want       plain
	counts     []int // the count of tokens of each event
}{
	{"vLLM", stream(vllmRole, vllmText, vllmLast, vllmUsage, "[DONE]"), plain{Content: " model.", Finish: "length", Tokens: 12, Done: true}, []int{0, 7, 12, 12, -1}},
	{"llama.cpp", ": ping\n\n" + strings.ReplaceAll(stream(llamaPrefill, llamaRole, llamaText, llamaFinish, llamaUsage, "[DONE]"), "\n", "\r\n"), plain{Content: "Hello", Finish: "length", Tokens: 20, Done: true}, []int{-1, -1, 3, -1, 20, -1}},
	{"Ollama", stream(ollamaText, ollamaFinish, ollamaUsage, "[DONE]"), plain{Content: "Hello", Finish: "stop", Tokens: 25, Done: true}, []int{-1, -1, 25, -1}},
	{"an error in the stream", stream(vllmText, llamaFull), plain{Content: " model", Tokens: 7, Failed: true}, []int{7, -1}},
	{"characters of four bytes", stream("{\"choices\":[{\"text\":\"\U0001F600 é\"}]}", vllmUsage), plain{Content: "\U0001F600 é", Tokens: 12}, []int{-1, 12}},
}

func stream(events ...string) string {
	return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
}

func TestAStreamCutAtAnyByteSaysTheSame(t *testing.T) {
	for _, test := range streams {
		t.Run(test.name, func(t *testing.T) {
			for cut := range len(test.text) {
				got, counts := follow([]byte(test.text[:cut]), []byte(test.text[cut:]))
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Fatalf("cut at %d (−want +got):\n%s", cut, diff)
				}
				if diff := cmp.Diff(test.counts, counts); diff != "" {
					t.Fatalf("cut at %d, counts (−want +got):\n%s", cut, diff)
				}
			}
		})
	}
}

// follow reads a stream from its pieces and adds up what its events say.
func follow(pieces ...[]byte) (all plain, counts []int) {
	var r sse.Reader
	var ev sse.Event
	d := Chat().NewDecoder()
	var got Event
	for _, piece := range pieces {
		r.Push(bytes.Clone(piece), 1)
		for r.Next(&ev) {
			d.Decode(ev.Data, &got)
			p := plainOf(&got)
			all.Content += p.Content
			all.Finish += p.Finish
			all.Tokens = max(all.Tokens, p.Tokens)
			all.Done, all.Failed = all.Done || p.Done, all.Failed || p.Failed
			all.Surprise = all.Surprise || p.Surprise
			counts = append(counts, p.Tokens)
		}
	}
	return all, counts
}

func TestDocumentReadsAnswersThatWereNotStreamed(t *testing.T) {
	answer := `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b","reasoning":"hm","tool_calls":[]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":null},"metrics":null}`
	tests := []shape{
		{"one document", "\n" + answer + "\n", plain{Content: "a b", Reasoning: "hm", Finish: "stop", Tokens: 4, Usage: usageOf(3, 4)}},
		{"lines of JSON", ollamaText + "\n" + ollamaText + "\n" + ollamaFinish + "\n" + ollamaUsage, plain{Content: "HelloHello", Finish: "stop", Tokens: 25, Usage: usageOf(16, 25)}},
		{"an error", vllmBusy, plain{Tokens: -1, Failed: true}},
		{"text, then an error", ollamaText + llamaFull, plain{Content: "Hello", Tokens: -1, Failed: true}},
		{"half a document", answer[:50], plain{Tokens: -1, Surprise: true}},
		{"a document and half a document", ollamaText + answer[:50], plain{Tokens: -1, Surprise: true}},
		{"a page", "<html></html>", plain{Tokens: -1, Surprise: true}},
		{"nothing", "", plain{Tokens: -1, Surprise: true}},
		{"an unknown document", `{"a":1}`, plain{Tokens: -1, Surprise: true}},
	}
	d := Chat().NewDecoder()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var ev Event
			d.Document([]byte(test.data), &ev)
			if diff := cmp.Diff(test.want, plainOf(&ev)); diff != "" {
				t.Errorf("(−want +got):\n%s", diff)
			}
		})
	}
}

func TestAnErrorInAStreamIsInTheServersWords(t *testing.T) {
	tests := []struct {
		data, want string
		code       int
	}{
		{llamaFull, "Context size has been exceeded. (server_error, 500)", 500},
		{vllmBusy, "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance. (Service Unavailable, 503)", 503},
		{`{"error":"overloaded"}`, "overloaded", 0},
		{`{"error":{"message":"slow","code":"504"}}`, "slow (504)", 504},
		{`{"error":{"message":"slow","code":"rate_limit_exceeded","n":1e999}}`, "slow (rate_limit_exceeded)", 0},
		{`{"error":{}}`, "{}", 0},
		{`{"error":" "}`, `" "`, 0},
		{`{"error":true}`, "true", 0},
		{`{"object":"error","message":"no","type":"BadRequestError","code":400}`, "no (BadRequestError, 400)", 400},
	}
	d := Chat().NewDecoder()
	for _, test := range tests {
		var ev Event
		if d.Decode([]byte(test.data), &ev); ev.Error != test.want || ev.ErrorCode != test.code || ev.Surprise {
			t.Errorf("%s:\n got %q, code %d, surprise %v\nwant %q, code %d", test.data, ev.Error, ev.ErrorCode, ev.Surprise, test.want, test.code)
		}
	}
}

// ordinary are the events that a measurement sees by the million.
var ordinary = []struct{ name, data string }{
	{"vLLM without usage", vllmPlain},
	{"vLLM with usage", vllmText},
	{"vLLM completions", vllmRaw},
	{"llama.cpp with timings", llamaText},
	{"Ollama", ollamaText},
	{"reasoning", strings.Replace(vllmPlain, `"content"`, `"reasoning"`, 1)},
	{"an escape", strings.Replace(vllmPlain, " model", `\n\u00e9`, 1)},
	{"a tool call", `{"id":"chatcmpl-8d","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]},"finish_reason":null}]}`},
	{"the end mark", "[DONE]"},
}

func TestAnOrdinaryEventAllocatesNothing(t *testing.T) {
	for _, test := range ordinary {
		t.Run(test.name, func(t *testing.T) {
			d := Chat().NewDecoder()
			data := []byte(test.data)
			var ev Event
			if n := testing.AllocsPerRun(200, func() { d.Decode(data, &ev) }); n != 0 {
				t.Errorf("%v allocations an event", n)
			}
			if ev.Surprise {
				t.Error("a surprise")
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, test := range ordinary[:4] {
		b.Run(test.name+" "+strconv.Itoa(len(test.data))+" bytes", func(b *testing.B) {
			d := Chat().NewDecoder()
			data := []byte(test.data)
			var ev Event
			b.ReportAllocs()
			for b.Loop() {
				d.Decode(data, &ev)
			}
		})
	}
}

// BenchmarkEvent is the whole way of an event: from the bytes of a read to its
// text and counts.
func BenchmarkEvent(b *testing.B) {
	for _, test := range ordinary[:2] {
		b.Run(test.name, func(b *testing.B) {
			chunk := []byte(stream(test.data))
			d := Chat().NewDecoder()
			var r sse.Reader
			var ev sse.Event
			var got Event
			b.ReportAllocs()
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				r.Push(chunk, 1)
				for r.Next(&ev) {
					d.Decode(ev.Data, &got)
				}
			}
		})
	}
}
