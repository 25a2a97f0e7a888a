package truth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

func jsonBody(s string) io.Reader { return strings.NewReader(s) }

func TestFailuresAreAsScripted(t *testing.T) {
	tests := []struct {
		name    string
		failure truth.Failure
		headers truth.Headers
		class   truth.Class
		status  int // 0: no answer
		texts   int
		done    bool
		err     error
		after   time.Duration
	}{
		{"an HTTP status with its body", truth.Failure{Kind: truth.FailStatus, Delay: 5 * ms}, 0, truth.Failed, 503, 0, false, nil, 5 * ms},
		{"closed on arrival", truth.Failure{Kind: truth.FailClose}, 0, truth.Failed, 0, 0, false, io.EOF, 0},
		{"never answered", truth.Failure{Kind: truth.FailSilent}, 0, truth.Aborted, 0, 0, false, context.DeadlineExceeded, time.Minute},
		{"an error event after tokens", truth.Failure{Kind: truth.FailEvent, After: 2}, 0, truth.Failed, 200, 2, false, nil, 20 * ms},
		{"an error event at once, then [DONE]", truth.Failure{Kind: truth.FailEvent, Done: true}, 0, truth.Failed, 200, 0, true, nil, 0},
		{"dropped inside the body", truth.Failure{Kind: truth.FailDrop, After: 3}, 0, truth.Failed, 200, 3, false, io.ErrUnexpectedEOF, 30 * ms},
		{"dropped before the headers", truth.Failure{Kind: truth.FailDrop}, truth.HeadersAtToken, truth.Failed, 0, 0, false, io.EOF, 0},
		{"reset", truth.Failure{Kind: truth.FailReset, After: 1}, 0, truth.Failed, 200, 1, false, syscall.ECONNRESET, 10 * ms},
		{"silent after tokens", truth.Failure{Kind: truth.FailHang, After: 1}, 0, truth.Aborted, 200, 1, false, context.DeadlineExceeded, time.Minute},
		{"an empty 200", truth.Failure{Kind: truth.FailEnd}, 0, truth.Failed, 200, 0, false, nil, 0},
		{"an end without a finish", truth.Failure{Kind: truth.FailEnd, After: 1, Done: true}, 0, truth.Failed, 200, 1, true, nil, 10 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := truth.Script{Headers: tt.headers, Fail: func(c truth.Call) *truth.Failure { return &tt.failure }}
			inBubble(t, script, func(t *testing.T, w *world) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got := w.chat(ctx, "hi", 10, nil)
				if got.status != tt.status || len(got.texts) != tt.texts || got.done != tt.done || !errors.Is(got.err, tt.err) {
					t.Errorf("status %d, %d texts, done %v, error %v", got.status, len(got.texts), got.done, got.err)
				}
				if time.Since(start) != tt.after {
					t.Errorf("ended after %v, want %v", time.Since(start), tt.after)
				}
				if tt.failure.Kind == truth.FailEvent && !strings.Contains(string(got.raw), `data: {"error":{"message":"The engine is currently busy`) {
					t.Errorf("no error event in %s", got.raw)
				}
				time.Sleep(ms) // the server sees the client leave
				if r := w.server.Account().Requests[0]; r.Class != tt.class || r.Tokens != tt.texts {
					t.Errorf("account: class %q, %d tokens", r.Class, r.Tokens)
				}
			})
		})
	}
}

func TestRefusalsAreInTheEnginesWords(t *testing.T) {
	base := truth.Script{MaxLength: 40, RejectFields: []string{"ignore_eos", "stream_options.continuous_usage_stats"}}
	llama := base
	llama.Engine = truth.LlamaCpp
	long := strings.Repeat("word ", 50)
	tests := []struct {
		name   string
		script truth.Script
		body   string
		status int
		words  string
	}{
		{"prompt too long", base, `{"messages":[{"role":"user","content":"` + long + `"}]}`, 400,
			`your prompt contains at least 41 input tokens, which exceeds this limit`},
		{"prompt that fills the context", base, `{"messages":[{"role":"user","content":"` + strings.TrimSpace(long[:29*5]) + `"}]}`, 400,
			`max_tokens must be at least 1, got 0.`},
		{"limit beyond the context", base, `{"max_tokens":41,"messages":[{"role":"user","content":"x"}]}`, 400,
			`max_tokens=41 cannot be greater than max_model_len=40.`},
		{"unknown model", base, `{"model":"nope","messages":[{"role":"user","content":"x"}]}`, 404,
			"The model `nope` does not exist. Valid aliases: truth."},
		{"unknown field", base, `{"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`, 400, `"param":"ignore_eos"`},
		{"unknown inner field", base, `{"stream_options":{"continuous_usage_stats":false},"messages":[{"role":"user","content":"x"}]}`, 400,
			`Unrecognized request argument supplied: stream_options.continuous_usage_stats`},
		{"no messages", base, `{}`, 400, `body.messages`},
		{"not JSON", base, `{`, 400, `JSON decode error`},
		{"llama.cpp's context", llama, `{"messages":[{"role":"user","content":"` + long + `"}]}`, 400,
			`request (62 tokens) exceeds the available context size (40 tokens)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.script, func(t *testing.T, w *world) {
				resp, err := w.client.Post(w.url+"/v1/chat/completions", "application/json", jsonBody(tt.body))
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.words) {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
				if r := w.server.Account().Requests[0]; r.Class != truth.Refused || r.Status != tt.status {
					t.Errorf("account: %q, %d", r.Class, r.Status)
				}
			})
		})
	}
}

func TestTheOutputIsCutToTheContextSilently(t *testing.T) {
	inBubble(t, truth.Script{MaxLength: 20}, func(t *testing.T, w *world) {
		got := w.chat(t.Context(), "hi", 20, asked())
		r := w.server.Account().Requests[0]
		if len(got.texts) != 8 || r.FinishReason != "length" || r.Limit != 8 || r.MaxTokens != 20 {
			t.Errorf("%d tokens, finish %q, limit %d", len(got.texts), r.FinishReason, r.Limit)
		}
	})
}

func TestTheNaturalEnd(t *testing.T) {
	tests := []struct {
		name   string
		honour bool
		ignore bool
		want   int
		finish string
	}{
		{"comes where EOS is not ignored", true, false, 3, "stop"},
		{"comes where the server does not take ignore_eos", false, true, 3, "stop"},
		{"is ignored where asked and taken", true, true, 9, "length"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := truth.Script{StopAfter: func(truth.Call) int { return 3 }, HonourIgnoreEOS: tt.honour}
			inBubble(t, script, func(t *testing.T, w *world) {
				got := w.chat(t.Context(), "hi", 9, map[string]any{"ignore_eos": tt.ignore})
				if r := w.server.Account().Requests[0]; len(got.texts) != tt.want || r.FinishReason != tt.finish {
					t.Errorf("%d tokens, finish %q", len(got.texts), r.FinishReason)
				}
				last := got.all[len(got.all)-1]["choices"].([]any)[0].(map[string]any)
				if last["finish_reason"] != tt.finish {
					t.Errorf("last event says %v", last)
				}
			})
		})
	}
}

func TestConnectionsAreKeptOrBroken(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(strconv.FormatBool(broken), func(t *testing.T) {
			script := truth.Script{CloseAfterStream: broken, CloseDelay: ms}
			inBubble(t, script, func(t *testing.T, w *world) {
				if got := w.chat(t.Context(), "hi", 1, nil); got.err != nil || !got.done || got.header.Get("Connection") != "" {
					t.Fatalf("first: %+v", got)
				}
				second := w.chat(t.Context(), "hi", 1, nil)
				if (second.err != nil) != broken {
					t.Errorf("a request right after: %v", second.err)
				}
				time.Sleep(2 * ms)
				if third := w.chat(t.Context(), "hi", 1, nil); third.err != nil {
					t.Errorf("a request later: %v", third.err)
				}
				want := map[bool]int{false: 1, true: 2}[broken]
				if a := w.server.Account(); a.Connections != want {
					t.Errorf("%d connections, want %d", a.Connections, want)
				}
			})
		})
	}
}

func TestLoadingAndKeys(t *testing.T) {
	inBubble(t, truth.Script{Loading: time.Second, Auth: "secret"}, func(t *testing.T, w *world) {
		if status, body := w.get("/v1/models"); status != 503 || !strings.Contains(body, "Loading model") {
			t.Errorf("while loading: %d %s", status, body)
		}
		time.Sleep(time.Second)
		if status, body := w.get("/v1/models"); status != 401 || body != `{"error":"Unauthorized"}` {
			t.Errorf("without the key: %d %s", status, body)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/models", nil)
		req.Header.Set("Authorization", "Bearer secret")
		resp, err := w.client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("with the key: %v, %v", resp, err)
		}
		_ = resp.Body.Close()
		if status, _ := w.get("/metrics"); status != 200 {
			t.Errorf("/metrics needs no key, got %d", status)
		}
	})
}

// final is the last event.
func final(a *answer) map[string]any { return a.all[len(a.all)-1] }

// choice is the first choice of an event, empty if it has none.
func choice(event map[string]any) map[string]any {
	list, _ := event["choices"].([]any)
	if len(list) == 0 {
		return nil
	}
	c, _ := list[0].(map[string]any)
	return c
}

// completion is the completion tokens of the usage object in there, nil if there is none.
func completion(in map[string]any) any {
	usage, _ := in["usage"].(map[string]any)
	return usage["completion_tokens"]
}

func TestUsageStandsWhereTheScriptSays(t *testing.T) {
	tests := []struct {
		name  string
		usage truth.Usage
		more  map[string]any
		check func(a *answer) bool
	}{
		{"not asked", truth.UsageAsked, nil, func(a *answer) bool { return a.usage() == nil && len(a.all) == 2 }},
		{"asked for in each event", truth.UsageAsked, asked(), func(a *answer) bool {
			return completion(a.all[0]) == 1.0 && completion(a.all[2]) == 2.0 && len(a.all) == 3
		}},
		{"final only", truth.UsageFinal, asked(), func(a *answer) bool { return completion(a.all[0]) == nil && completion(final(a)) == 2.0 }},
		{"unasked in each", truth.UsageEvery, nil, func(a *answer) bool { return completion(a.all[0]) == 1.0 && completion(final(a)) == 2.0 }},
		{"never", truth.UsageNone, asked(), func(a *answer) bool { return a.usage() == nil && a.done }},
		{"null", truth.UsageNull, asked(), func(a *answer) bool {
			return strings.Count(string(a.raw), `"usage":null`) == 2 && completion(final(a)) == 2.0
		}},
		{"on the finish event", truth.UsageOnFinish, asked(), func(a *answer) bool {
			return len(a.all) == 3 && choice(final(a))["finish_reason"] == "length" && completion(final(a)) == 2.0
		}},
		{"inside the choice", truth.UsageInChoice, asked(), func(a *answer) bool { return completion(choice(final(a))) == 2.0 }},
		{"under x_groq", truth.UsageXGroq, asked(), func(a *answer) bool {
			groq, _ := final(a)["x_groq"].(map[string]any)
			return completion(groq) == 2.0
		}},
		{"without completion tokens", truth.UsagePartial, asked(), func(a *answer) bool {
			return completion(final(a)) == nil && a.usage()["total_tokens"] == 14.0
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, truth.Script{Usage: tt.usage}, func(t *testing.T, w *world) {
				got := w.chat(t.Context(), "hi", 2, tt.more)
				if got.err != nil || len(got.texts) != 2 || !tt.check(got) {
					t.Errorf("%v\n%s", got.err, got.raw)
				}
			})
		})
	}
}

func TestReportedCountsCanBeWrong(t *testing.T) {
	script := truth.Script{Reported: func(_, tokens int) int { return 2 * tokens }}
	inBubble(t, script, func(t *testing.T, w *world) {
		if u := w.chat(t.Context(), "hi", 3, asked()).usage(); u["completion_tokens"] != 6.0 {
			t.Errorf("usage %v", u)
		}
	})
}

func TestAnswersInOneDocument(t *testing.T) {
	script := truth.Script{IgnoreStream: true, Channel: func(_, token int) string {
		return []string{wire.Reasoning, wire.Content, wire.Content}[token]
	}}
	inBubble(t, script, func(t *testing.T, w *world) {
		start := time.Now()
		got := w.chat(t.Context(), "hi", 3, nil)
		text := truth.Word(0, 1) + truth.Word(0, 2)
		if !strings.Contains(string(got.raw), `"content":"`+text+`"`) || !strings.Contains(string(got.raw), `"completion_tokens":3`) ||
			!strings.Contains(string(got.raw), `"reasoning":"`+truth.Word(0, 0)+`"`) {
			t.Errorf("%s", got.raw)
		}
		if time.Since(start) != 20*ms || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("after %v, type %s", time.Since(start), got.header.Get("Content-Type"))
		}
	})
}
