package simserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"speedmatrix/internal/simserver"
)

// text is a completion that is not streamed.
func text(prompt any, maxTokens int) fields {
	return fields{"prompt": prompt, "max_tokens": maxTokens, "ignore_eos": true}
}

func TestErrorsAreInVLLMsWords(t *testing.T) {
	ids := make([]int, 5000)
	tests := []struct {
		name, path string
		body       any
		status     int
		want       string
	}{
		{"no JSON", "/v1/chat/completions", []byte(`{"mod`), 400, `"type":"BadRequestError"`},
		{"no messages", "/v1/chat/completions", fields{"model": "round"}, 400, `"type":"Bad Request","param":"body.messages"`},
		{"an unknown model", "/v1/chat/completions", chat("x", 1).with("model", "nope"), 404,
			"{\"error\":{\"message\":\"The model `nope` does not exist. Valid aliases: round.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"},
		{"too long a text", "/v1/completions", text(strings.Repeat(" word", 5000), 1), 400,
			`This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens`},
		{"too many ids", "/v1/completions", text(ids, 1), 400, `However, your prompt contains 5000 input tokens, which`},
		{"a prompt that fills the model", "/v1/completions", text(ids[:4096], 1), 400, `max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)`},
		{"too many output tokens", "/v1/completions", text("x", 5000), 400, `max_tokens=5000 cannot be greater than max_model_len=4096.`},
		{"no output tokens", "/v1/completions", text("x", 0), 400, `max_tokens must be at least 1, got 0.`},
		{"more at least than at most", "/v1/completions", text("x", 5).with("min_tokens", 6), 400, `"message":"min_tokens must be less than or equal to max_tokens=5, got 6."`},
		{"an id beyond the vocabulary", "/v1/completions", text([]int{1, 99999}, 1), 400, `Token id 99999 is out of vocabulary`},
		{"an empty prompt", "/v1/completions", text("", 1), 400, `The decoder prompt cannot be empty`},
		{"no choices", "/v1/completions", text("x", 1).with("n", 0), 400, `n must be at least 1, got 0.`},
		{"too many choices", "/v1/completions", text("x", 1).with("n", 5000), 400, `"param":"n"`},
		{"a text for a number", "/v1/completions", text("x", 1).with("n", "two"), 400, `"type":"Bad Request","param":"body.n"`},
		{"a cold temperature", "/v1/completions", text("x", 1).with("temperature", -1), 400, `temperature must be non-negative, got -1.`},
		{"top_p", "/v1/completions", text("x", 1).with("top_p", 2), 400, `top_p must be in (0, 1], got 2.`},
		{"an empty stop", "/v1/completions", text("x", 1).with("stop", []string{""}), 400, `stop cannot contain an empty string.`},
		{"options without a stream", "/v1/completions", text("x", 1).with("stream_options", fields{"include_usage": true}), 400, "Stream options can only be defined when `stream=True`."},
		{"a wrong prompt in a batch", "/v1/completions", text([]any{"x", fields{}}, 1), 400, `"param":"body.prompt"`},
		{"too large a body", "/v1/completions", slices.Repeat([]byte{' '}, 3<<20), 413, `"message":"The body is larger than 2097152 bytes."`},
		{"stop as a number", "/v1/completions", text("x", 1).with("stop", 7), 400, `stop must be a text or a list of texts.`},
		{"at least less than none", "/v1/completions", text("x", 1).with("min_tokens", -1), 400, `min_tokens must be greater than or equal to 0, got -1.`},
		{"tokens of no JSON", "/detokenize", []byte("x"), 400, `"param":"body"`},
		{"tokens of another model", "/tokenize", fields{"model": "nope", "prompt": "x"}, 404, `does not exist`},
		{"no JSON to abort", "/abort_requests", []byte(""), 400, `Invalid JSON format`},
		{"an unknown path", "/v1/nothing", fields{}, 404, `{"detail":"Not Found"}`},
		{"tokens to nothing", "/detokenize", fields{"tokens": []int{-1}}, 400, `Token id -1 is out of vocabulary`},
		{"tokenize without a prompt", "/tokenize", fields{}, 400, `"param":"body.prompt"`},
	}
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		for _, tt := range tests {
			a := w.post(t.Context(), tt.path, tt.body)
			if a.status != tt.status || !strings.Contains(a.events[0].data, tt.want) {
				t.Errorf("%s: %d %s, want %d %s", tt.name, a.status, a.events[0].data, tt.status, tt.want)
			}
			if b := a.events[0].body; a.status == 400 && (b.Error == nil || b.Error.Code != 400) {
				t.Errorf("%s: no error object: %s", tt.name, a.events[0].data)
			}
		}
	})
}

func TestThePromptAndTheAnswerShareTheModelsLength(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			body             fields
			prompt, complete int
		}{
			{text(make([]int, 4000), 500), 4000, 96},
			{text(make([]int, 5000), 5).with("truncate_prompt_tokens", 100), 100, 5},
			{fields{"prompt": "x", "ignore_eos": true}, 1, 16},
		} {
			a := w.post(t.Context(), "/v1/completions", tt.body)
			if u := a.usage(); u.Prompt != tt.prompt || u.Completion != tt.complete {
				t.Errorf("%d: usage %+v, want %d and %d", a.status, u, tt.prompt, tt.complete)
			}
			if reason, _ := a.finish(0); reason != "length" {
				t.Errorf("finish reason %q", reason)
			}
		}
		a := w.post(t.Context(), "/v1/chat/completions", fields{"messages": []fields{{"role": "user", "content": "x"}}, "ignore_eos": true})
		if u := a.usage(); u.Total != 4096 {
			t.Errorf("a chat without a limit: %+v", u)
		}
	})
}

func TestTokenIDsComeAndGo(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		counted := w.post(t.Context(), "/tokenize", fields{"model": "round", "prompt": sea, "return_token_strs": true})
		var doc struct {
			Count   int
			Tokens  []int
			Strings []string `json:"token_strs"`
			Max     int      `json:"max_model_len"`
		}
		if err := json.Unmarshal([]byte(counted.events[0].data), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Count != 6 || len(doc.Tokens) != 6 || doc.Max != 4096 || strings.Join(doc.Strings, "") != sea {
			t.Errorf("tokenize: %+v", doc)
		}
		if back := w.post(t.Context(), "/detokenize", fields{"tokens": doc.Tokens}); back.events[0].data != `{"prompt":"`+sea+`"}` {
			t.Errorf("detokenize: %s", back.events[0].data)
		}
		ask := text(doc.Tokens, 30).with("return_token_ids", true).with("stream", true).with("temperature", 0)
		a := w.post(t.Context(), "/v1/completions", ask)
		var got []uint32
		for _, e := range a.events {
			for _, c := range e.body.Choices {
				got = append(got, c.TokenIDs...)
			}
		}
		said := w.post(t.Context(), "/detokenize", fields{"tokens": got})
		var text struct{ Prompt string }
		if err := json.Unmarshal([]byte(said.events[0].data), &text); err != nil || text.Prompt != a.text(0) || len(got) != 30 {
			t.Errorf("%d ids say %q, the answer was %q", len(got), text.Prompt, a.text(0))
		}
		if ids := a.events[0].body.PromptTokenIDs; len(ids) != 6 || int(ids[0]) != doc.Tokens[0] {
			t.Errorf("prompt ids %v, want %v", ids, doc.Tokens)
		}
		recount := w.post(t.Context(), "/tokenize", fields{"prompt": a.text(0), "add_special_tokens": false})
		if want := fmt.Sprintf(`{"count":30,"max_model_len":4096,"tokens":%s,"token_strs":null}`, mustJSON(t, got)); recount.events[0].data != want {
			t.Errorf("the answer's text has the tokens %s, want %s", recount.events[0].data, want)
		}
		whole := w.post(t.Context(), "/v1/completions", ask.with("stream", false))
		if whole.text(0) != a.text(0) || !slices.Equal(whole.events[0].body.Choices[0].TokenIDs, got) {
			t.Errorf("in one document: %s", whole.events[0].data)
		}
	})
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestACountedChatIsWhatItsUsageSays(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		messages := []fields{{"role": "system", "content": "Be brief."}, {"role": "user", "content": sea}}
		counted := w.post(t.Context(), "/tokenize", fields{"messages": messages})
		a := w.post(t.Context(), "/v1/chat/completions", chat("", 1).with("messages", messages))
		if want := fmt.Sprintf(`{"count":%d,`, a.usage().Prompt); !strings.HasPrefix(counted.events[0].data, want) {
			t.Errorf("tokenize says %s, usage %d", counted.events[0].data, a.usage().Prompt)
		}
	})
}

func TestSeveralPromptsAndChoicesAreAnsweredTogether(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		for _, stream := range []bool{false, true} {
			body := text([]any{sea, []int{300, 301, 302}}, 12).with("n", 2).with("stream", stream).with("temperature", 1)
			if stream {
				body.with("stream_options", fields{"include_usage": true})
			}
			a := w.post(t.Context(), "/v1/completions", body)
			texts := map[string]bool{}
			for i := range 4 {
				texts[a.text(i)] = true
				if reason, _ := a.finish(i); reason != "length" || a.text(i) == "" {
					t.Errorf("choice %d: %q, finish %q", i, a.text(i), reason)
				}
			}
			if u := a.usage(); u.Prompt != 6+3 || u.Completion != 48 || len(texts) != 4 {
				t.Errorf("usage %+v, %d texts", u, len(texts))
			}
		}
		a := w.post(t.Context(), "/v1/chat/completions", chat(sea, 5).with("n", 3))
		for i := range 3 {
			if len(a.times(i)) != 5 {
				t.Errorf("choice %d of a chat has %d tokens", i, len(a.times(i)))
			}
		}
	})
}

func TestAnAnswerEndsByItselfUnlessItMayNot(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		free := w.post(t.Context(), "/v1/completions", text(sea, 3000).with("ignore_eos", false).with("temperature", 0))
		n := free.usage().Completion
		if reason, _ := free.finish(0); reason != "stop" || n < 48 || n > 1500 {
			t.Errorf("%d tokens, finish %q", n, reason)
		}
		at := w.post(t.Context(), "/v1/completions", text(sea, 3000).with("ignore_eos", false).with("temperature", 0).with("min_tokens", n+1))
		if more := at.usage().Completion; more <= n || !strings.HasPrefix(at.text(0), free.text(0)) {
			t.Errorf("%d tokens with min_tokens %d", more, n+1)
		}
		on := w.post(t.Context(), "/v1/completions", text(sea, 2*n).with("temperature", 0))
		if reason, _ := on.finish(0); reason != "length" || on.usage().Completion != 2*n {
			t.Errorf("with ignore_eos: %+v, %q", on.usage(), reason)
		}
		cut := w.post(t.Context(), "/v1/completions", text(sea, n).with("ignore_eos", false).with("temperature", 0))
		if reason, _ := cut.finish(0); reason != "stop" {
			t.Errorf("an end at the limit is one by itself: %q", reason)
		}
	})
}

func TestAStopStringEndsTheTextBeforeIt(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		whole := w.post(t.Context(), "/v1/completions", text(sea, 60).with("temperature", 0)).text(0)
		stop := whole[150:157] // across tokens
		want := whole[:strings.Index(whole, stop)]
		for _, stream := range []bool{false, true} {
			a := w.post(t.Context(), "/v1/completions", text(sea, 60).with("temperature", 0).with("stream", stream).with("stop", []string{"never said", stop}))
			reason, said := a.finish(0)
			if a.text(0) != want || reason != "stop" || said != stop {
				t.Errorf("stream %v: %q, finish %q by %q; want %q by %q", stream, a.text(0), reason, said, want, stop)
			}
		}
		if n := sum(t, w.scrape(), "vllm:num_requests_running"); n != 0 {
			t.Errorf("%v requests run", n)
		}
		free := w.post(t.Context(), "/v1/completions", text(sea, 60).with("temperature", 0).with("stop", stop).with("min_tokens", 59))
		if free.text(0) != whole {
			t.Errorf("with min_tokens beyond the stop string: %q", free.text(0))
		}
	})
}

func TestUsageComesAsItIsAskedFor(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			options      any
			every, final bool
		}{
			{nil, false, false},
			{fields{"include_usage": true}, false, true},
			{fields{"include_usage": true, "continuous_usage_stats": true}, true, true},
		} {
			body := chat(sea, 3).with("stream_options", tt.options)
			if tt.options == nil {
				delete(body, "stream_options")
			}
			a := w.post(t.Context(), "/v1/chat/completions", body)
			last := a.events[len(a.events)-2].body
			if every := a.events[1].body.Usage != nil; every != tt.every {
				t.Errorf("%v: usage in each event: %v", tt.options, every)
			}
			if final := len(last.Choices) == 0 && last.Usage != nil; final != tt.final {
				t.Errorf("%v: final usage: %v", tt.options, final)
			}
			if done := a.events[len(a.events)-1].data; done != "[DONE]" {
				t.Errorf("the last event is %s", done)
			}
		}
	})
}

func TestRequestsAreAbortedByTheirIDs(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		var a *answer
		wg.Go(func() { a = w.post(t.Context(), "/v1/chat/completions", chat(sea, 1000)) })
		time.Sleep(100 * ms)
		if got := w.post(t.Context(), "/abort_requests", fields{"request_ids": []string{"chatcmpl-sim-1"}}); got.events[0].data != `{"status":"aborted","aborted":1}` {
			t.Errorf("%s", got.events[0].data)
		}
		wg.Wait()
		if reason, _ := a.finish(0); reason != "abort" || len(a.times(0)) != 8 || a.usage().Completion != 7 {
			t.Errorf("finish %q after %d events, usage %+v", reason, len(a.times(0)), a.usage())
		}
		wg.Go(func() { a = w.post(t.Context(), "/v1/completions", text(sea, 1000)) })
		time.Sleep(ms) // still in the front end
		w.post(t.Context(), "/abort_requests", fields{})
		wg.Wait()
		if reason, _ := a.finish(0); reason != "abort" || a.text(0) != "" {
			t.Errorf("before its first step: finish %q, text %q", reason, a.text(0))
		}
	})
}

func TestTheServerTellsItsLimits(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		var models struct {
			Data []struct {
				ID     string
				Root   string
				Length int `json:"max_model_len"`
			}
		}
		if err := json.Unmarshal([]byte(w.do(t.Context(), "GET", "/v1/models", nil).events[0].data), &models); err != nil {
			t.Fatal(err)
		}
		if m := models.Data[0]; m.ID != "round" || m.Root != "org/Round-1B" || m.Length != 4096 {
			t.Errorf("models: %+v", m)
		}
		var info struct {
			Config struct {
				Scheduler struct {
					Running int `json:"max_num_seqs"`
					Tokens  int `json:"max_num_batched_tokens"`
				} `json:"scheduler_config"`
				Cache struct {
					Tokens int  `json:"kv_cache_size_tokens"`
					Prefix bool `json:"enable_prefix_caching"`
				} `json:"cache_config"`
			} `json:"vllm_config"`
		}
		if err := json.Unmarshal([]byte(w.do(t.Context(), "GET", "/server_info?config_format=json", nil).events[0].data), &info); err != nil {
			t.Fatal(err)
		}
		if s, c := info.Config.Scheduler, info.Config.Cache; s.Running != 8 || s.Tokens != 512 || c.Tokens != 1025*16 || !c.Prefix {
			t.Errorf("server_info: %+v", info)
		}
		for path, status := range map[string]int{"/health": 200, "/ping": 200, "/load": 200, "/v1/models/round": 200, "/v1/models/x": 404, "/server_info": 200, "/": 404} {
			if got := w.do(t.Context(), http.MethodGet, path, nil).status; got != status {
				t.Errorf("%s: %d, want %d", path, got, status)
			}
		}
	})
}

func TestABusyEngineSaysSoInsideAStream(t *testing.T) {
	inBubble(t, machine(), simserver.Options{MaxQueued: 1}, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { w.post(ctx, "/v1/chat/completions", chat(sea, 1000)) })
		time.Sleep(50 * ms)
		a := w.post(t.Context(), "/v1/chat/completions", chat(sea, 1))
		if e := a.events[0].body.Error; a.status != 200 || e == nil || e.Code != 503 || a.events[1].data != "[DONE]" {
			t.Errorf("stream: %d %+v", a.status, a.events)
		}
		if a := w.post(t.Context(), "/v1/completions", text(sea, 1)); a.status != 503 {
			t.Errorf("document: %d", a.status)
		}
		time.Sleep(50 * ms)
		if n := sum(t, w.scrape(), "vllm:admission_rejections_total"); n != 2 {
			t.Errorf("%v rejections", n)
		}
		cancel()
		wg.Wait()
	})
}
