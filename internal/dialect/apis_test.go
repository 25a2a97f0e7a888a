package dialect

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
	"speedmatrix/internal/sse"
)

func TestEveryKnownShapeOfEveryAPIIsUnderstood(t *testing.T) {
	for _, g := range grammars {
		t.Run(g.dialect.Name(), func(t *testing.T) {
			d := g.dialect.NewDecoder()
			var ev Event
			for _, test := range shapesOf[g.dialect.Name()] {
				// One decoder and one event for all: nothing of an answer may show in the next.
				d.Reset()
				d.Decode([]byte(test.data), &ev)
				if diff := cmp.Diff(test.want, plainOf(&ev)); diff != "" {
					t.Errorf("%s: %s\n(−want +got):\n%s", test.name, test.data, diff)
				}
				checkGrammar(t, g.dialect, []byte(test.data))
				for end := 1; end < len(test.data); end++ {
					d.Decode([]byte(test.data[:end]), &ev)
					if diff := cmp.Diff(plain{Tokens: -1, Surprise: true}, plainOf(&ev)); diff != "" {
						t.Fatalf("%s\n(−want +got):\n%s", test.data[:end], diff)
					}
				}
			}
		})
	}
}

func TestDocumentReadsWholeAnswersOfEveryAPI(t *testing.T) {
	tests := []struct {
		dialect Dialect
		body    string
		want    plain
	}{
		{Responses(), " " + responseWhole + "\n", plain{Content: "a b", Reasoning: "mh", Tool: "look{}", Finish: "stop", Tokens: 4, Usage: &Usage{3, 0, 4, 1}}},
		{Anthropic(), messageWhole, plain{Content: "Hi!", Reasoning: "hm", Tool: `look{"a":1}`, Finish: "stop", Tokens: 4, Usage: &Usage{32, 0, 4, -1}}},
		{Anthropic(), messageError, plain{Tokens: -1, Failed: true}},
		{Ollama(), ollamaNative + ollamaDone, plain{Content: " model", Finish: "length", Tokens: 25, Done: true, Usage: usageOf(16, 25), Timings: &Timings{-1, -1, 25, 130.5, 1250}}},
		{Ollama(), ollamaGone, plain{Tokens: -1, Failed: true}},
		{TGI(), `{"generated_text":"a"}`, plain{Content: "a", Finish: "stop", Tokens: -1, Done: true}},
		{TGI(), tgiFailure[:20], plain{Tokens: -1, Surprise: true}},
	}
	for _, test := range tests {
		var ev Event
		test.dialect.NewDecoder().Document([]byte(test.body), &ev)
		if diff := cmp.Diff(test.want, plainOf(&ev)); diff != "" {
			t.Errorf("%s: %s\n(−want +got):\n%s", test.dialect.Name(), test.body, diff)
		}
	}
}

// The prompt of Anthropic's API has three parts, and an event may repeat one of them alone.
func TestAnthropicsPromptIsTheSumOfWhatItsEventsSaid(t *testing.T) {
	d := Anthropic().NewDecoder()
	var ev Event
	for _, test := range []struct {
		data string
		want Usage
	}{
		{messageStart, Usage{500, 20, -1, -1}},
		{`{"type":"message_delta","delta":{},"usage":{"output_tokens":7}}`, Usage{500, 20, 7, -1}},
		{`{"type":"message_delta","delta":{},"usage":{"input_tokens":472,"output_tokens":8}}`, Usage{500, 20, 8, -1}},
		{`{"type":"message_delta","delta":{},"usage":{"input_tokens":400,"cache_read_input_tokens":92,"output_tokens":9}}`, Usage{500, 92, 9, -1}},
		{`{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`, Usage{5, -1, -1, -1}},
	} {
		if d.Decode([]byte(test.data), &ev); ev.Usage == nil || *ev.Usage != test.want {
			t.Errorf("%s: %+v, want %+v", test.data, ev.Usage, test.want)
		}
	}
	d.Reset()
	if d.Decode([]byte(messageDelta), &ev); *ev.Usage != (Usage{-1, -1, 89, -1}) {
		t.Errorf("after another answer: %+v", *ev.Usage)
	}
}

func TestTGIsEventsAreCounted(t *testing.T) {
	d := TGI().NewDecoder()
	var ev Event
	for range 2 {
		for i, want := range []int{1, 2, 5, 6} {
			data := `{"token":{"id":1,"text":"a","special":false}}`
			if i == 2 {
				data = `{"index":5,"token":{"id":1,"text":"abc","special":false}}`
			}
			if d.Decode([]byte(data), &ev); ev.Tokens != want {
				t.Errorf("event %d: %d tokens, want %d", i, ev.Tokens, want)
			}
		}
		d.Reset()
	}
}

func TestErrorsOfEveryAPIAreInTheServersWords(t *testing.T) {
	tests := []struct {
		dialect    Dialect
		data, want string
	}{
		{Responses(), responseFailed, "The model failed to generate a response. (server_error)"},
		{Responses(), responseError, "Something went wrong (error, ERR_SOMETHING)"},
		{Responses(), `{"type":"response.failed","response":{}}`, `{"type":"response.failed","response":{}}`},
		{Responses(), vllmBusy, "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance. (Service Unavailable, 503)"},
		{Anthropic(), messageError, "Overloaded (overloaded_error)"},
		{Anthropic(), `{"type":"error"}`, `{"type":"error"}`},
		{Ollama(), ollamaGone, "llama runner process has terminated: signal: killed"},
		{TGI(), tgiFailure, "Request failed during generation: Server error: CANCELLED"},
	}
	for _, test := range tests {
		var ev Event
		if test.dialect.NewDecoder().Decode([]byte(test.data), &ev); ev.Error != test.want || ev.Surprise {
			t.Errorf("%s: %s:\n got %q, surprise %v\nwant %q", test.dialect.Name(), test.data, ev.Error, ev.Surprise, test.want)
		}
	}
}

func TestBodiesAreAsEachAPIWantsThem(t *testing.T) {
	warm, cold, seed := 0.8, 0.0, 7
	full := Params{
		Model: "m", System: "Be <brief>.", Prompt: "Hi \"you\"", MaxTokens: 8, Temperature: &warm, Seed: &seed,
		IgnoreEOS: true, IncludeUsage: true, ContinuousUsage: true, TimingsPerToken: true, Stream: true,
	}
	greedy := Params{Prompt: "p", Temperature: &cold}
	own := Params{Prompt: "p", MaxTokens: 8, Extra: map[string]any{
		"options": map[string]any{"num_ctx": 4096, "num_predict": 9}, "parameters": map[string]any{"top_p": 0.9}, "think": false,
	}}
	replaced := Params{Prompt: "p", MaxTokens: 8, Extra: map[string]any{"options": nil, "parameters": nil, "max_tokens": 3}}
	tests := []struct {
		name    string
		dialect Dialect
		params  Params
		want    string
	}{
		{"all set", Chat(), full, `{"model":"m","messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":"Hi \"you\""}],"max_tokens":8,"temperature":0.8,"seed":7,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"timings_per_token":true}`},
		{"all set", Responses(), full, `{"model":"m","instructions":"Be <brief>.","input":"Hi \"you\"","max_output_tokens":8,"temperature":0.8,"seed":7,"stream":true,"store":false,"ignore_eos":true}`},
		{"all set", Anthropic(), full, `{"model":"m","max_tokens":8,"system":"Be <brief>.","messages":[{"role":"user","content":"Hi \"you\""}],"temperature":0.8,"stream":true}`},
		{"all set", Ollama(), full, `{"model":"m","messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":"Hi \"you\""}],"stream":true,"options":{"num_predict":8,"seed":7,"temperature":0.8},"truncate":false,"shift":false}`},
		{"all set", TGI(), full, `{"inputs":"Be <brief>.\n\nHi \"you\"","parameters":{"details":true,"do_sample":true,"max_new_tokens":8,"seed":7,"temperature":0.8}}`},
		{"nothing set", Responses(), Params{}, `{"input":"","store":false}`},
		{"nothing set", Anthropic(), Params{}, `{"max_tokens":4096,"messages":[{"role":"user","content":""}]}`},
		{"nothing set", Ollama(), Params{}, `{"messages":[{"role":"user","content":""}],"stream":false,"truncate":false,"shift":false}`},
		{"nothing set", TGI(), Params{}, `{"inputs":"","parameters":{"details":true}}`},
		{"greedy", TGI(), greedy, `{"inputs":"p","parameters":{"details":true,"do_sample":false}}`},
		{"the user's settings are laid over ours", Ollama(), own, `{"messages":[{"role":"user","content":"p"}],"stream":false,"options":{"num_ctx":4096,"num_predict":9},"truncate":false,"shift":false,"parameters":{"top_p":0.9},"think":false}`},
		{"the user's settings are laid over ours", TGI(), own, `{"inputs":"p","parameters":{"details":true,"max_new_tokens":8,"top_p":0.9},"options":{"num_ctx":4096,"num_predict":9},"think":false}`},
		{"the user's fields replace ours", Ollama(), replaced, `{"messages":[{"role":"user","content":"p"}],"stream":false,"truncate":false,"shift":false,"max_tokens":3,"options":null,"parameters":null}`},
		{"the user's fields replace ours", Anthropic(), replaced, `{"messages":[{"role":"user","content":"p"}],"max_tokens":3,"options":null,"parameters":null}`},
	}
	for _, test := range tests {
		t.Run(test.dialect.Name()+", "+test.name, func(t *testing.T) {
			for range 2 { // the user's own fields stay as they are
				got, err := test.dialect.Body(test.params)
				if err != nil || string(got) != test.want {
					t.Errorf("got  %s (%v)\nwant %s", got, err, test.want)
				}
			}
			if accepted, err := test.dialect.Body(test.dialect.Accept(test.params)); err != nil || string(accepted) != test.want {
				t.Errorf("what it accepts makes another body: %s (%v)", accepted, err)
			}
		})
	}
}

func TestWhatNoAPICarriesIsAUsageError(t *testing.T) {
	nan := math.NaN()
	for _, d := range All() {
		_, err := d.Body(Params{Prompt: "p", Temperature: &nan, Extra: map[string]any{"top_p": nan}})
		if speedmatrix.KindOf(err) != speedmatrix.KindUsage {
			t.Errorf("%s: error %v", d.Name(), err)
		}
	}
}

func TestEveryAPIHasItsHeaders(t *testing.T) {
	for _, d := range All() {
		want, none := map[string]string{"Authorization": "Bearer k"}, map[string]string(nil)
		if d.Name() == "anthropic" {
			want = map[string]string{"x-api-key": "k", "anthropic-version": "2023-06-01"}
			none = map[string]string{"anthropic-version": "2023-06-01"}
		}
		if diff := cmp.Diff(want, d.Headers("k")); diff != "" {
			t.Errorf("%s (−want +got):\n%s", d.Name(), diff)
		}
		if diff := cmp.Diff(none, d.Headers("")); diff != "" {
			t.Errorf("%s without a key (−want +got):\n%s", d.Name(), diff)
		}
	}
}

// ordinaryOf are the events that a measurement sees by the million, by API.
var ordinaryOf = map[string][]string{
	"chat":        {vllmPlain, vllmText},
	"completions": {vllmRaw},
	"responses":   {responseText, responseThought, responseArguments},
	"anthropic":   {messageText, messageThought, messageJSON},
	"ollama":      {ollamaNative, ollamaThought},
	"tgi":         {tgiToken},
}

// framed puts an event on the wire as the dialect's servers do.
func framed(d Dialect, data string) []byte {
	if d.Framing() == sse.Lines {
		return []byte(data + "\n")
	}
	return []byte("data: " + data + "\n\n")
}

// readerOf gives the reader of a dialect's framing.
func readerOf(d Dialect) sse.Framer {
	if d.Framing() == sse.Lines {
		return new(sse.LineReader)
	}
	return new(sse.Reader)
}

func TestAnOrdinaryEventOfEveryAPIAllocatesNothing(t *testing.T) {
	for _, dialect := range All() {
		for i, data := range ordinaryOf[dialect.Name()] {
			t.Run(dialect.Name()+" "+strconv.Itoa(i), func(t *testing.T) {
				d, r, chunk := dialect.NewDecoder(), readerOf(dialect), framed(dialect, data)
				var frame sse.Event
				var ev Event
				n := testing.AllocsPerRun(200, func() {
					r.Push(chunk, 1)
					for r.Next(&frame) {
						d.Decode(frame.Data, &ev)
					}
				})
				if n != 0 || ev.Surprise || len(ev.Content)+len(ev.Reasoning)+len(ev.Tool) == 0 {
					t.Errorf("%v allocations an event, %+v", n, plainOf(&ev))
				}
			})
		}
	}
}

// BenchmarkEventOfEveryAPI is the whole way of an event: from the bytes of a
// read to its text and counts.
func BenchmarkEventOfEveryAPI(b *testing.B) {
	for _, dialect := range All() {
		data := ordinaryOf[dialect.Name()][0]
		b.Run(dialect.Name(), func(b *testing.B) {
			d, r, chunk := dialect.NewDecoder(), readerOf(dialect), framed(dialect, data)
			var frame sse.Event
			var ev Event
			b.ReportAllocs()
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				r.Push(chunk, 1)
				for r.Next(&frame) {
					d.Decode(frame.Data, &ev)
				}
			}
		})
	}
}

// fuzz is the fuzz target of one API.
func fuzz(f *testing.F, d Dialect) {
	for _, test := range shapesOf[d.Name()] {
		f.Add([]byte(test.data))
	}
	f.Add([]byte(strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkGrammar(t, d, data)
		var ev Event
		d.NewDecoder().Document(data, &ev)
	})
}

func FuzzResponses(f *testing.F) { fuzz(f, Responses()) }
func FuzzAnthropic(f *testing.F) { fuzz(f, Anthropic()) }
func FuzzOllama(f *testing.F)    { fuzz(f, Ollama()) }
func FuzzTGI(f *testing.F)       { fuzz(f, TGI()) }
