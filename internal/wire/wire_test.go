package wire_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"speedmatrix/internal/wire"
)

func TestStringsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\x00-\x7f]{0,20}`),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(r, "s")
		var got string
		if err := json.Unmarshal(wire.AppendString(nil, s), &got); err != nil {
			r.Fatalf("%q: %v", s, err)
		}
		want := s
		if !utf8.ValidString(s) {
			want = string([]rune(s)) // each wrong byte becomes the replacement character
		}
		if got != want {
			r.Fatalf("%q came back as %q", s, got)
		}
	})
}

func TestChunks(t *testing.T) {
	usage := &wire.Usage{Prompt: 38, Completion: 12, Cached: -1, Reasoning: -1}
	chat := wire.Stream{API: wire.Chat, ID: "chatcmpl-1", Model: "m", Created: 5}
	both := chat
	both.ReasoningField = "both"
	ids := wire.Stream{API: wire.Completions, ID: "cmpl-1", Model: "m", Created: 5, TokenIDs: true}
	head := `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[`
	textHead := `{"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":`
	tests := []struct {
		name   string
		stream wire.Stream
		chunk  wire.Chunk
		want   string
	}{
		{"vLLM's role", chat, wire.Chunk{Role: true}, head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`},
		{"llama.cpp's role", chat, wire.Chunk{RoleNull: true}, head + `{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}]}`},
		{"text with usage", chat, wire.Chunk{Text: "a\"b<\n", Usage: usage},
			head + `{"index":0,"delta":{"content":"a\"b<\n"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":38,"total_tokens":50,"completion_tokens":12}}`},
		{"reasoning in both fields", both, wire.Chunk{Channel: wire.Reasoning, Text: "x"},
			head + `{"index":0,"delta":{"reasoning":"x","reasoning_content":"x"},"logprobs":null,"finish_reason":null}]}`},
		{"a tool call", chat, wire.Chunk{Channel: wire.Tool, ToolName: "f", Text: "{"},
			head + `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call-0","type":"function","function":{"name":"f","arguments":"{"}}]},"logprobs":null,"finish_reason":null}]}`},
		{"a bare finish", chat, wire.Chunk{Bare: true, Finish: "length"},
			head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"length","stop_reason":null}]}`},
		{"usage alone, with details", chat, wire.Chunk{NoChoices: true, Usage: &wire.Usage{Prompt: 9, Completion: 3, Cached: 0, Reasoning: 2}},
			head + `],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}}`},
		{"usage without completion tokens", chat, wire.Chunk{NoChoices: true, Usage: &wire.Usage{Prompt: 9, Completion: -1, Total: 22, Cached: -1, Reasoning: 13}},
			head + `],"usage":{"prompt_tokens":9,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":13}}}`},
		{"usage null", chat, wire.Chunk{Text: "x", UsageNull: true}, head + `{"index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}],"usage":null}`},
		{"usage under x_groq", chat, wire.Chunk{Text: "x", Usage: usage, UsagePlace: wire.UsageXGroq},
			head + `{"index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}],"x_groq":{"usage":{"prompt_tokens":38,"total_tokens":50,"completion_tokens":12}}}`},
		{"usage in the choice, token ids", ids, wire.Chunk{Text: "x", Usage: usage, UsagePlace: wire.UsageChoice},
			textHead + `"x","logprobs":null,"finish_reason":null,"token_ids":null,"usage":{"prompt_tokens":38,"total_tokens":50,"completion_tokens":12}}]}`},
		{"timings", ids, wire.Chunk{Timings: &wire.Timings{Cached: 4, Prompt: 10, Predicted: 1, PromptMillis: 20}},
			textHead + `"","logprobs":null,"finish_reason":null,"token_ids":null}],"timings":{"cache_n":4,"prompt_n":10,"prompt_ms":20,"prompt_per_token_ms":2,` +
				`"prompt_per_second":500,"predicted_n":1,"predicted_ms":0,"predicted_per_token_ms":0,"predicted_per_second":0}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(wire.NewEncoder(tt.stream).Append(nil, &tt.chunk))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

func TestAnOrdinaryChunkCostsNoAllocation(t *testing.T) {
	e := wire.NewEncoder(wire.Stream{API: wire.Chat, ID: "x", Model: "m"})
	chunk := &wire.Chunk{Text: " word ä", Usage: &wire.Usage{Prompt: 1, Completion: 2, Cached: -1, Reasoning: -1}}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = wire.AppendEvent(buf[:0], e.Append(buf[512:512], chunk)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRequestsAreRead(t *testing.T) {
	temperature := 0.8
	chat, problem := wire.Decode(wire.Chat, []byte(`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":null}],
		"max_tokens":null,"max_completion_tokens":7,"temperature":0.8,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"timings_per_token":true}`))
	if problem != nil {
		t.Fatal(problem.Message)
	}
	fields := chat.Fields
	chat.Fields = nil
	want := &wire.Request{
		API: wire.Chat, Model: "m", MaxTokens: 7, Temperature: &temperature, Stream: true, IncludeUsage: true, ContinuousUsage: true,
		IgnoreEOS: true, TimingsPerToken: true, Messages: []wire.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "ab"}, {Role: "user"}},
	}
	if diff := cmp.Diff(want, chat); diff != "" {
		t.Error(diff)
	}
	if chat.Text() != "s\nab\n" {
		t.Errorf("text %q", chat.Text())
	}
	chat.Fields = fields
	for path, has := range map[string]bool{
		"ignore_eos": true, "stream_options.include_usage": true, "stream_options.x": false, "min_tokens": false, "model.x": false, "x.y": false,
	} {
		if chat.Has(path) != has {
			t.Errorf("Has(%q) is %v", path, !has)
		}
	}
}

func TestPromptsHaveManyShapes(t *testing.T) {
	tests := []struct {
		body string
		text string
		ids  []int
		bad  string // the param of the problem
	}{
		{`{"prompt":"x"}`, "x", nil, ""},
		{`{"prompt":["x"]}`, "x", nil, ""},
		{`{"prompt":[1,2]}`, "", []int{1, 2}, ""},
		{`{"prompt":[[1,2]]}`, "", []int{1, 2}, ""},
		{`{"prompt":["x","y"]}`, "", nil, "body.prompt"},
		{`{"prompt":null}`, "", nil, "body.prompt"},
		{`{}`, "", nil, "body.prompt"},
		{`{"prompt":"x","max_tokens":0}`, "", nil, "max_tokens"},
		{`{"prompt":"x","stream":7}`, "", nil, "body"},
		{`[]`, "", nil, "null"},
	}
	for _, tt := range tests {
		r, problem := wire.Decode(wire.Completions, []byte(tt.body))
		if problem != nil {
			if tt.bad == "" || !strings.Contains(string(problem.Body()), `"param":`+strings.ReplaceAll(`"`+tt.bad+`"`, `"null"`, "null")) || problem.Status != 400 {
				t.Errorf("%s: %s", tt.body, problem.Body())
			}
			continue
		}
		if tt.bad != "" || r.Text() != tt.text || !cmp.Equal(r.PromptIDs, tt.ids) || r.MaxTokens != -1 {
			t.Errorf("%s: %+v", tt.body, r)
		}
	}
}

func TestTokenizeRequestsAreRead(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt":"a b"}`: "a b", `{"content":""}`: "", `{"messages":[{"role":"user","content":"hi"}]}`: "", `{}`: "!", `{`: "!",
		`{"messages":[{"content":7}]}`: "!",
	} {
		r, problem := wire.DecodeTokenize([]byte(body))
		if (problem != nil) != (want == "!") || (r != nil && r.Text != want) {
			t.Errorf("%s: %+v, %+v", body, r, problem)
		}
	}
}

func TestProblemsAreInTheEnginesWords(t *testing.T) {
	tests := []struct {
		problem *wire.Problem
		status  int
		want    string
	}{
		{wire.PromptTooLong(8192), 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=8193)","type":"BadRequestError","param":"input_tokens","code":400}}`},
		{wire.UnknownModel("nope", "smollm2"), 404, "{\"error\":{\"message\":\"The model `nope` does not exist. Valid aliases: smollm2.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"},
		{wire.MaxTokensTooSmall(0), 400, `{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","type":"BadRequestError","param":"max_tokens","code":400}}`},
		{wire.EngineBusy(), 503, `{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}`},
		{wire.NotFound(), 404, `{"detail":"Not Found"}`},
		{wire.ContextExceeded(1531, 1024), 400, `{"error":{"code":400,"message":"request (1531 tokens) exceeds the available context size (1024 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1531,"n_ctx":1024}}`},
		{wire.ContextFull(), 500, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`},
		{&wire.Problem{Status: 429, Raw: "slow down", ContentType: "text/plain", RetryAfter: "3"}, 429, "slow down"},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		tt.problem.Write(w)
		if w.Code != tt.status || w.Body.String() != tt.want {
			t.Errorf("%d %s\nwant %d %s", w.Code, w.Body, tt.status, tt.want)
		}
		if tt.problem.RetryAfter != w.Header().Get("Retry-After") {
			t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
		}
	}
}

func TestEventsAreWrittenOneByOne(t *testing.T) {
	rec := httptest.NewRecorder()
	w := wire.NewEventWriter(rec)
	for _, err := range []error{w.Open(), w.Comment("ping"), w.Event([]byte("{}")), w.Done()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := rec.Body.String(); got != ": ping\n\ndata: {}\n\ndata: [DONE]\n\n" {
		t.Errorf("%q", got)
	}
	if !rec.Flushed || rec.Header().Get("Content-Type") != wire.EventStream {
		t.Errorf("flushed %v, headers %v", rec.Flushed, rec.Header())
	}
}

func TestDocuments(t *testing.T) {
	answer := wire.Answer{
		Stream: wire.Stream{API: wire.Chat, ID: "x", Model: "m"}, Text: "t", Reasoning: "r", Finish: "stop",
		Usage: &wire.Usage{Prompt: 1, Completion: 2, Cached: -1, Reasoning: -1}, Timings: &wire.Timings{},
	}
	text := answer
	text.API, text.Timings = wire.Completions, nil
	for _, tt := range []struct{ got, want string }{
		{string(wire.Models(wire.Model{ID: "a", OwnedBy: "vllm", Root: "r", MaxLength: 8}, wire.Model{ID: "b", OwnedBy: "o", Meta: `{"n_ctx":1}`})),
			`{"object":"list","data":[{"id":"a","object":"model","created":0,"owned_by":"vllm","root":"r","parent":null,"max_model_len":8},{"id":"b","object":"model","created":0,"owned_by":"o","meta":{"n_ctx":1}}]}`},
		{string(wire.Tokenized([]int{5, 6}, 8)), `{"count":2,"max_model_len":8,"tokens":[5,6],"token_strs":null}`},
		{string(wire.LlamaTokenized(nil)), `{"tokens":[]}`},
		{string(text.Document()), `{"id":"x","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"t","logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2}}`},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Error(diff)
		}
	}
	if got := answer.Document(); !json.Valid(got) || !strings.Contains(string(got), `"message":{"role":"assistant","content":"t","reasoning":"r"},"logprobs"`) {
		t.Errorf("%s", got)
	}
}

func TestExposition(t *testing.T) {
	var x wire.Exposition
	x.Family("a_total", "counter", "Help\nme.")
	x.Sample(3, "engine", "0", "model_name", "a\"b\\")
	x.Sample(0.25)
	x.Family("h", "histogram", "H")
	x.Suffixed("_bucket", 1e18, "le", "+Inf")
	want := "# HELP a_total Help\\nme.\n# TYPE a_total counter\na_total{engine=\"0\",model_name=\"a\\\"b\\\\\"} 3.0\na_total 0.25\n" +
		"# HELP h H\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1e+18\n"
	if got := string(x.Bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
