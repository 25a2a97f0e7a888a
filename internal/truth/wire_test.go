package truth_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// value reads one sample (the sum over its label sets) of a metrics page and
// checks every line's form on the way.
func value(t *testing.T, text, name string) float64 {
	t.Helper()
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# HELP ") || strings.HasPrefix(line, "# TYPE ") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		series := line[:cut]
		if i := strings.IndexByte(series, '{'); i >= 0 {
			if !strings.HasSuffix(series, `"}`) {
				t.Fatalf("line %q has no end of its labels", line)
			}
			series = series[:i]
		}
		if series == name {
			sum, found = sum+v, true
		}
	}
	if !found {
		t.Fatalf("no %s in\n%s", name, text)
	}
	return sum
}

func TestVLLMMetricsAreLive(t *testing.T) {
	script := truth.Script{
		MaxRunning: 1, KVTokens: 1600, Metrics: truth.Metrics{Engines: 3, Before: 2 * ms, After: 3 * ms, Speculative: true},
		PrefixCache: true, TokensPerEvent: 2,
	}
	inBubble(t, script, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() { w.together(2, ms, 10) })
		time.Sleep(51 * ms)
		start := time.Now()
		_, text := w.get("/metrics")
		if time.Since(start) != 5*ms {
			t.Errorf("the scrape took %v, want 5ms", time.Since(start))
		}
		for name, want := range map[string]float64{
			"vllm:num_requests_running": 1, "vllm:num_requests_waiting": 1, "vllm:generation_tokens_total": 6, // sent at 10, 30 and 50 ms
			"vllm:prompt_tokens_total": 12, "vllm:num_preemptions_total": 0, "vllm:spec_decode_num_drafts_total": 3,
			"vllm:spec_decode_num_accepted_tokens_total": 3, "vllm:prefix_cache_queries_total": 12,
		} {
			if got := value(t, text, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if !strings.Contains(text, `num_gpu_blocks="33"`) || !strings.Contains(text, `kv_cache_size_tokens="533"`) {
			t.Errorf("cache config: %s", text)
		}
		wg.Wait()
		_, text = w.get("/metrics")
		if value(t, text, "vllm:generation_tokens_total") != 20 || value(t, text, "vllm:request_success_total") != 2 || value(t, text, "vllm:num_requests_running") != 0 {
			t.Errorf("at the end:\n%s", text)
		}
	})
}

func TestMetricsCanFailOrBeMissing(t *testing.T) {
	html := &wire.Problem{Status: 502, Raw: "<html>Bad Gateway</html>", ContentType: "text/html"}
	script := truth.Script{Metrics: truth.Metrics{Fail: func(i int) *wire.Problem {
		if i == 1 {
			return html
		}
		return nil
	}}}
	inBubble(t, script, func(t *testing.T, w *world) {
		for i, want := range []int{200, 502, 200} {
			if status, _ := w.get("/metrics"); status != want {
				t.Errorf("scrape %d: %d, want %d", i, status, want)
			}
		}
	})
	for _, s := range []truth.Script{{Metrics: truth.Metrics{Off: true}}, {Engine: truth.Plain}} {
		inBubble(t, s, func(t *testing.T, w *world) {
			if status, body := w.get("/metrics"); status != 404 || body != `{"detail":"Not Found"}` {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestLlamaCounters(t *testing.T) {
	script := truth.Script{Engine: truth.LlamaCpp, MaxRunning: 2, MaxLength: 512, Version: "b1-7e4c0a9", Tokenize: true, RoleFirst: true}
	inBubble(t, script, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() { w.together(3, ms, 10) })
		time.Sleep(45 * ms)
		_, text := w.get("/metrics")
		for name, want := range map[string]float64{
			"llamacpp:tokens_predicted_total": 0, "llamacpp:requests_processing": 2, "llamacpp:requests_deferred": 1, "llamacpp:n_decode_total": 10,
		} {
			if got := value(t, text, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if _, slots := w.get("/slots"); strings.Count(slots, `"n_decoded":5`) != 2 {
			t.Errorf("slots %s", slots)
		}
		wg.Wait()
		if _, text = w.get("/metrics"); value(t, text, "llamacpp:tokens_predicted_total") != 30 {
			t.Errorf("at the end:\n%s", text)
		}
		if _, props := w.get("/props"); !strings.Contains(props, `"n_ctx":512},"total_slots":2`) || !strings.Contains(props, "b1-7e4c0a9") {
			t.Errorf("props %s", props)
		}
		if got := w.post(t.Context(), "/v1/chat/completions/input_tokens", map[string]any{"messages": []any{map[string]string{"content": "a b"}}}); !strings.Contains(string(got.raw), `{"input_tokens":13,`) {
			t.Errorf("%s", got.raw)
		}
	})
}

func TestLlamaStreams(t *testing.T) {
	script := truth.Script{Engine: truth.LlamaCpp, RoleFirst: true, PrefillBase: 24 * ms, TemplateTokens: -1}
	inBubble(t, script, func(t *testing.T, w *world) {
		got := w.chat(t.Context(), "a b", 3, map[string]any{"timings_per_token": true, "model": "any", "stream_options": map[string]any{"include_usage": true}})
		timings, _ := got.all[len(got.all)-1]["timings"].(map[string]any)
		if timings["predicted_ms"] != 20.0 || timings["predicted_per_second"] != 100.0 || timings["prompt_ms"] != 24.0 || timings["prompt_n"] != 2.0 {
			t.Errorf("timings %v", timings)
		}
		if second, _ := got.all[2]["timings"].(map[string]any); second["predicted_n"] != 2.0 || len(got.all) != 6 || !got.done {
			t.Errorf("%s", got.raw)
		}
		if !strings.Contains(string(got.raw), `"delta":{"role":"assistant","content":null}`) || !strings.Contains(string(got.raw), `"delta":{},"logprobs":null,"finish_reason":"length"`) {
			t.Errorf("%s", got.raw)
		}
		if got := w.chat(t.Context(), "a b", 1, nil); got.usage() != nil || got.all[len(got.all)-1]["timings"] == nil {
			t.Errorf("unasked: %s", got.raw)
		}
	})
}

func TestFramings(t *testing.T) {
	tests := []struct {
		name    string
		framing truth.Framing
		want    string // of the raw body, W0 and W1 the JSON of the two token events
	}{
		{"plain", truth.Framing{}, "data: W0\n\ndata: W1\n\ndata: [DONE]\n\n"},
		{"CRLF", truth.Framing{Ending: "\r\n"}, "data: W0\r\n\r\ndata: W1\r\n\r\ndata: [DONE]\r\n\r\n"},
		{"CR without a blank", truth.Framing{Ending: "\r", NoBlank: true}, "data:W0\r\rdata:W1\r\rdata:[DONE]\r\r"},
		{"byte order mark, comments", truth.Framing{BOM: true, Comments: 1}, "\ufeff: keep-alive\ndata: W0\n\n: keep-alive\ndata: W1\n\n: keep-alive\ndata: [DONE]\n\n"},
		{"other fields, no [DONE]", truth.Framing{Fields: true, NoDone: true}, "event: message\nid: 7\nretry: 1000\ndata: W0\n\nevent: message\nid: 7\nretry: 1000\ndata: W1\n\n"},
		{"no final blank line", truth.Framing{NoDone: true, NoFinalBlank: true}, "data: W0\n\ndata: W1\n"},
		{"no final line end", truth.Framing{NoDone: true, NoFinalEnding: true}, "data: W0\n\ndata: W1"},
		{"late blank lines", truth.Framing{LateBlank: true}, "data: W0\n\ndata: W1\n\ndata: [DONE]\n\n"},
		{"NDJSON", truth.Framing{NDJSON: true}, "W0\nW1\n"},
		{"two data lines", truth.Framing{TwoLines: true, NoDone: true}, "data: {\ndata: V0\n\ndata: {\ndata: V1\n\n"},
		{"split", truth.Framing{Split: []int{1, 7, 3}}, "data: W0\n\ndata: W1\n\ndata: [DONE]\n\n"},
		{"two events a write", truth.Framing{EventsPerWrite: 2}, "data: W0\n\ndata: W1\n\ndata: [DONE]\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, truth.Script{Framing: tt.framing}, func(t *testing.T, w *world) {
				begun := time.Now()
				got := w.chat(t.Context(), "hi", 2, nil)
				head := `{"id":"chatcmpl-truth-0","object":"chat.completion.chunk","created":` + strconv.FormatInt(begun.Unix(), 10) +
					`,"model":"truth","choices":[{"index":0,"delta":{"content":"`
				w0 := head + truth.Word(0, 0) + `"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`
				w1 := head + truth.Word(0, 1) + `"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}`
				want := strings.NewReplacer("W0", w0, "W1", w1, "V0", w0[1:], "V1", w1[1:]).Replace(tt.want)
				if string(got.raw) != want {
					t.Errorf("got\n%q\nwant\n%q", got.raw, want)
				}
				times := sent(w.server.Account().Requests[0], begun)
				if len(tt.framing.Split) == 0 && tt.framing.EventsPerWrite == 0 {
					wantTimes(t, "sent", times, 0, 10*ms)
				}
				if tt.framing.EventsPerWrite == 2 {
					wantTimes(t, "sent", times, 10*ms, 10*ms)
				}
			})
		})
	}
}

func TestPingsComeUntilTheFirstToken(t *testing.T) {
	script := truth.Script{MaxRunning: 1, PrefillBase: 25 * ms, Framing: truth.Framing{Ping: 10 * ms}}
	inBubble(t, script, func(t *testing.T, w *world) {
		answers := w.together(2, 0, 2)
		counts := []int{bytes.Count(answers[0].raw, []byte(": ping\n\n")), bytes.Count(answers[1].raw, []byte(": ping\n\n"))}
		slices.Sort(counts)
		if !slices.Equal(counts, []int{2, 5}) { // before 25 ms and before 60 ms, when the second's token is due
			t.Errorf("pings %v", counts)
		}
	})
}

func TestASplitEventIsSentWhenItsDataLineIsComplete(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 4).Draw(r, "sizes")
		ending := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(r, "ending")
		script := truth.Script{Framing: truth.Framing{Split: sizes, Ending: ending, Fields: true}}
		inBubble(t, script, func(t *testing.T, w *world) {
			resp, err := w.client.Post(w.url+"/v1/completions", "", jsonBody(`{"prompt":"x","stream":true,"max_tokens":5}`))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			var all []byte
			var complete []int64
			for buf := make([]byte, 4096); ; {
				n, err := resp.Body.Read(buf)
				all = append(all, buf[:n]...)
				for bytes.Count(all, []byte("token_ids\":null}]}"+ending[:1])) > len(complete) {
					complete = append(complete, time.Now().UnixNano())
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for i, e := range w.server.Account().Requests[0].Events {
				if complete[i] != e.AtNS {
					t.Errorf("event %d: the account says %d, its line was complete at %d", i, e.AtNS, complete[i])
				}
			}
		})
	})
}

func TestTokensAddUpAtWordBorders(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.StringMatching(`[a-zä]{1,13}|[0-9]{1,7}|[.,!?]{1,6}|日本`)
		words := rapid.SliceOfN(word, 1, 30).Draw(r, "words")
		cut := rapid.IntRange(0, len(words)-1).Draw(r, "cut")
		whole := strings.Join(words, " ")
		left, right := strings.Join(words[:cut], " "), strings.Join(words[cut:], " ")
		if cut > 0 {
			right = " " + right
		}
		if got, want := truth.CountTokens(whole), truth.CountTokens(left)+truth.CountTokens(right); got != want {
			r.Fatalf("%q: %d tokens, its parts %d", whole, got, want)
		}
	})
	if n := truth.CountTokens("one  two\n\nthree 12345 ... "); n != 9 {
		t.Errorf("%d tokens, want 9", n) // one, blank, two, line ends, three, 123, 45, dots, blank
	}
	for token := range 2000 {
		if text := truth.Word(3, token); truth.CountTokens(text) != 1 || text[0] != ' ' {
			t.Fatalf("%q is not one token", text)
		}
	}
}

func TestTheTokenizerEndpointAgreesWithUsage(t *testing.T) {
	inBubble(t, truth.Script{Tokenize: true, MaxLength: 100, Version: "0.32.0"}, func(t *testing.T, w *world) {
		text := "It was a bright cold day in April, and the clocks were striking thirteen."
		usage := w.chat(t.Context(), text, 1, asked()).usage()
		got := w.post(t.Context(), "/tokenize", map[string]any{"model": "truth", "messages": []any{map[string]string{"role": "user", "content": text}}})
		want := `{"count":` + strconv.Itoa(int(usage["prompt_tokens"].(float64))) + `,"max_model_len":100,"tokens":[1,1,`
		if !strings.HasPrefix(string(got.raw), want) {
			t.Errorf("%s, want %s…", got.raw, want)
		}
		plain := w.post(t.Context(), "/tokenize", map[string]any{"prompt": "Hello world"})
		if !strings.HasPrefix(string(plain.raw), `{"count":2,`) || w.server.Account().Tokenized != 2 {
			t.Errorf("%s", plain.raw)
		}
		if status, body := w.get("/version"); status != 200 || body != `{"version":"0.32.0"}` {
			t.Errorf("%d %s", status, body)
		}
		if _, body := w.get("/v1/models"); !strings.Contains(body, `"owned_by":"vllm"`) || !strings.Contains(body, `"max_model_len":100`) {
			t.Errorf("%s", body)
		}
	})
}

func TestRealSocketsKeepTheAccount(t *testing.T) {
	server, err := truth.Start(truth.Script{Spin: true, Gap: func(truth.Step) time.Duration { return 200 * time.Microsecond }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := &world{t: t, server: server, url: server.URL(), client: &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxIdleConnsPerHost: 8,
	}}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := w.chat(ctx, "hi", 50, asked()); got.err != nil || len(got.texts) != 50 {
				t.Errorf("%d tokens, %v", len(got.texts), got.err)
			}
		})
	}
	wg.Wait()
	w.client.CloseIdleConnections()
	server.Close()
	a := server.Account()
	for _, r := range a.Requests {
		if r.Class != truth.Completed || len(r.Events) != 50 {
			t.Errorf("request %d: %q, %d events", r.ID, r.Class, len(r.Events))
			continue
		}
		for i, e := range r.Events {
			if due := r.ArrivedNS + int64(i)*int64(200*time.Microsecond); e.AtNS < due {
				t.Errorf("request %d: token %d was sent %d ns before it was due", r.ID, i, due-e.AtNS)
			}
		}
	}
	if a.OpenConnections != 0 || a.Connections != 8 {
		t.Errorf("%d connections, %d open", a.Connections, a.OpenConnections)
	}
}

func BenchmarkOneStream(b *testing.B) {
	server, err := truth.Start(truth.Script{Gap: func(truth.Step) time.Duration { return 0 }})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	body := `{"prompt":"x","stream":true,"max_tokens":` + strconv.Itoa(b.N) + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`
	b.ReportAllocs()
	b.ResetTimer()
	resp, err := http.Post(server.URL()+"/v1/completions", "", jsonBody(body))
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
	_ = resp.Body.Close()
}
