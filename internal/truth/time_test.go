package truth_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

const ms = time.Millisecond

// sent gives a request's event times since begun.
func sent(r truth.Request, begun time.Time) []time.Duration {
	var list []time.Duration
	for _, e := range r.Events {
		list = append(list, time.Duration(e.AtNS-begun.UnixNano()))
	}
	return list
}

func wantTimes(t *testing.T, what string, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// together sends n chats, spacing apart, and waits for all.
func (w *world) together(n int, spacing time.Duration, maxTokens int) []*answer {
	answers := make([]*answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * spacing)
			answers[i] = w.chat(w.t.Context(), "hi", maxTokens, asked())
		})
	}
	wg.Wait()
	return answers
}

func TestQueuedRequestsStartInOrderOfArrival(t *testing.T) {
	script := truth.Script{MaxRunning: 2, PrefillBase: 10 * ms, Gap: func(truth.Step) time.Duration { return 20 * ms }}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		w.together(4, ms, 3)
		a := w.server.Account()
		// 0 and 1 run at once, their prefills one after the other; 2 and 3 enter as they end.
		wantTimes(t, "request 0", sent(a.Requests[0], begun), 10*ms, 30*ms, 50*ms)
		wantTimes(t, "request 1", sent(a.Requests[1], begun), 20*ms, 40*ms, 60*ms)
		wantTimes(t, "request 2", sent(a.Requests[2], begun), 60*ms, 80*ms, 100*ms)
		wantTimes(t, "request 3", sent(a.Requests[3], begun), 70*ms, 90*ms, 110*ms)
		if a.PeakRunning != 2 || a.PeakWaiting != 2 {
			t.Errorf("peaks %d running, %d waiting; want 2 and 2", a.PeakRunning, a.PeakWaiting)
		}
		if got := time.Duration(a.Requests[2].AdmittedNS - begun.UnixNano()); got != 50*ms {
			t.Errorf("request 2 left the queue at %v, want 50ms", got)
		}
	})
}

func TestAPrefillOfALeavingClientMakesRoomAtOnce(t *testing.T) {
	script := truth.Script{MaxRunning: 2, PrefillBase: 100 * ms}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 40*ms)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { w.chat(ctx, "first", 9, nil) })
		wg.Go(func() {
			time.Sleep(ms)
			w.chat(t.Context(), "second", 2, nil)
		})
		wg.Wait()
		a := w.server.Account()
		wantTimes(t, "second", sent(a.Requests[1], begun), 140*ms, 150*ms)
		if r := a.Requests[0]; a.Aborts != 1 || r.Class != truth.Aborted || r.EndedNS != begun.Add(40*ms).UnixNano() {
			t.Errorf("aborts %d, class %q", a.Aborts, r.Class)
		}
	})
}

func TestLockstepStreamsTickTogether(t *testing.T) {
	script := truth.Script{Lockstep: true, Gap: func(truth.Step) time.Duration { return 10 * ms }}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		w.together(3, 4*ms, 3)
		a := w.server.Account()
		wantTimes(t, "0", sent(a.Requests[0], begun), 0, 10*ms, 20*ms)
		wantTimes(t, "1", sent(a.Requests[1], begun), 10*ms, 20*ms, 30*ms)
		wantTimes(t, "2", sent(a.Requests[2], begun), 10*ms, 20*ms, 30*ms)
	})
}

func TestLockstepBeginsANewClockAfterAPause(t *testing.T) {
	script := truth.Script{Lockstep: true, Stall: func(_, token int) time.Duration {
		if token == 1 {
			return 15 * ms
		}
		return 0
	}}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		w.chat(t.Context(), "a", 3, nil)
		time.Sleep(3 * ms)
		w.chat(t.Context(), "b", 1, nil)
		a := w.server.Account()
		wantTimes(t, "stalled to the tick after", sent(a.Requests[0], begun), 0, 30*ms, 40*ms)
		wantTimes(t, "later", sent(a.Requests[1], begun), 43*ms)
	})
}

func TestGapsSeeWhoRuns(t *testing.T) {
	script := truth.Script{Gap: func(s truth.Step) time.Duration { return time.Duration(s.Running*10+s.Context) * ms }, TemplateTokens: -1}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		w.together(2, 5*ms, 2)
		a := w.server.Account()
		wantTimes(t, "alone when asked", sent(a.Requests[0], begun), 0, 12*ms)
		wantTimes(t, "beside another", sent(a.Requests[1], begun), 5*ms, 27*ms)
	})
}

func TestStallsAndPreemptionsMoveAllThatFollows(t *testing.T) {
	script := truth.Script{
		Stall: func(req, token int) time.Duration {
			if req == 0 && token == 2 {
				return 200 * ms
			}
			return 0
		},
		Preempt: []truth.Preemption{{Request: 1, At: 15 * ms, Pause: time.Second, CountLate: true}, {Request: 0, At: time.Hour}},
	}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		go func() {
			time.Sleep(500 * ms)
			if _, text := w.get("/metrics"); value(t, text, "vllm:num_requests_waiting") != 1 || value(t, text, "vllm:num_preemptions_total") != 0 {
				t.Errorf("while preempted:\n%s", text)
			}
		}()
		w.together(2, 0, 4)
		a := w.server.Account()
		wantTimes(t, "stalled", sent(a.Requests[0], begun), 0, 10*ms, 220*ms, 230*ms)
		wantTimes(t, "preempted", sent(a.Requests[1], begun), 0, 10*ms, 1020*ms, 1030*ms)
		if _, text := w.get("/metrics"); value(t, text, "vllm:num_preemptions_total") != 1 || a.Preemptions != 1 {
			t.Errorf("%d preemptions, want 1", a.Preemptions)
		}
	})
}

func TestTokensOfAnEventComeWhenTheLastIsDue(t *testing.T) {
	script := truth.Script{TokensPerEvent: 4, Burst: func(_, token int) int {
		if token == 0 {
			return 1
		}
		return 4
	}}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		got := w.chat(t.Context(), "hi", 8, asked())
		r := w.server.Account().Requests[0]
		wantTimes(t, "events", sent(r, begun), 0, 40*ms, 70*ms)
		if r.Events[1].Tokens != 5 || r.Events[2].Tokens != 8 || r.Tokens != 8 || truth.CountTokens(got.text()) != 8 {
			t.Errorf("events %+v, text %q", r.Events, got.text())
		}
	})
}

func TestTheRoleComesBeforeTheFirstToken(t *testing.T) {
	tests := []struct {
		name  string
		early time.Duration
		want  time.Duration
	}{
		{"with it", 0, 50 * ms},
		{"early", 20 * ms, 30 * ms},
		{"not before the prefill", time.Hour, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := truth.Script{PrefillBase: 50 * ms, RoleFirst: true, RoleEarly: tt.early}
			inBubble(t, script, func(t *testing.T, w *world) {
				begun := time.Now()
				got := w.chat(t.Context(), "hi", 2, asked())
				r := w.server.Account().Requests[0]
				if at := time.Duration(r.RoleNS - begun.UnixNano()); at != tt.want {
					t.Errorf("role at %v, want %v", at, tt.want)
				}
				wantTimes(t, "tokens", sent(r, begun), 50*ms, 60*ms)
				if len(got.all) != 4 || len(got.texts) != 2 {
					t.Errorf("%d events, %d with text; want role, 2 tokens, usage", len(got.all), len(got.texts))
				}
			})
		})
	}
}

func TestWhenHeadersAndTheEndCome(t *testing.T) {
	tests := []struct {
		headers truth.Headers
		want    time.Duration
	}{
		{truth.HeadersAtOnce, 0}, {truth.HeadersAtStart, 30 * ms}, {truth.HeadersAtToken, 80 * ms},
	}
	for _, tt := range tests {
		script := truth.Script{MaxRunning: 1, PrefillBase: 50 * ms, Headers: tt.headers, FinalDelay: 7 * ms, Fail: func(c truth.Call) *truth.Failure {
			if c.Request == 0 {
				return &truth.Failure{Kind: truth.FailEnd}
			}
			return nil
		}}
		inBubble(t, script, func(t *testing.T, w *world) {
			begun := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() { w.chat(t.Context(), "holds the only place until 50 ms", 1, nil) })
			time.Sleep(20 * ms)
			wg.Go(func() {
				resp, err := w.client.Post(w.url+"/v1/completions", "", jsonBody(`{"prompt":"x","stream":true,"max_tokens":1}`))
				if err != nil {
					t.Error(err)
					return
				}
				if got := time.Since(begun) - 20*ms; got != tt.want {
					t.Errorf("headers after %v, want %v", got, tt.want)
				}
				a := &answer{}
				a.read(resp.Body)
				_ = resp.Body.Close()
				if got := time.Since(begun); got != 107*ms || !a.done {
					t.Errorf("ended at %v (done %v), want 107ms", got, a.done)
				}
			})
			wg.Wait()
		})
	}
}

func TestKVLimitsLetAPromptWaitUntilItFits(t *testing.T) {
	script := truth.Script{KVTokens: 64, BlockTokens: 16, KVLimits: true, TemplateTokens: 40}
	inBubble(t, script, func(t *testing.T, w *world) {
		begun := time.Now()
		w.together(2, ms, 3)
		a := w.server.Account()
		wantTimes(t, "fits", sent(a.Requests[0], begun), 0, 10*ms, 20*ms)
		wantTimes(t, "waits", sent(a.Requests[1], begun), 20*ms, 30*ms, 40*ms)
	})
}

func TestThePrefixCacheKeepsWholeBlocks(t *testing.T) {
	script := truth.Script{
		PrefixCache: true, BlockTokens: 4, TemplateTokens: 2, PrefillPerToken: ms, KeepPrompts: true,
	}
	inBubble(t, script, func(t *testing.T, w *world) {
		prompts := []struct {
			text           string
			prompt, cached int
		}{
			{"a b c d e f g", 9, 0},
			{"a b c d e f g", 9, 8},
			{"a b c d x y z w", 10, 4},
			{"a b c d e f", 8, 4}, // the last token is always read again
			{"b b c d e f g", 9, 0},
		}
		for i, p := range prompts {
			start := time.Now()
			got := w.chat(t.Context(), p.text, 1, asked())
			r := w.server.Account().Requests[i]
			if r.PromptTokens != p.prompt || r.CachedTokens != p.cached || r.Prompt != p.text {
				t.Errorf("%q: %d prompt tokens, %d cached; want %d and %d", p.text, r.PromptTokens, r.CachedTokens, p.prompt, p.cached)
			}
			wantTimes(t, p.text, sent(r, start), time.Duration(p.prompt-p.cached)*ms)
			details, _ := got.usage()["prompt_tokens_details"].(map[string]any)
			if details["cached_tokens"] != float64(p.cached) {
				t.Errorf("%q: usage %v", p.text, got.usage())
			}
		}
	})
}

func TestOneRequestCanHaveBothChannelsAndHiddenTokens(t *testing.T) {
	script := truth.Script{
		TokensPerEvent: 2, ReasoningTokens: true, ReasoningField: "both",
		Channel: func(_, token int) string {
			return []string{wire.Reasoning, wire.Reasoning, truth.Hidden, wire.Content, wire.Tool, truth.Hidden}[token]
		},
	}
	inBubble(t, script, func(t *testing.T, w *world) {
		got := w.chat(t.Context(), "hi", 6, asked())
		r := w.server.Account().Requests[0]
		var channels []string
		var counts []int
		for _, e := range r.Events {
			channels, counts = append(channels, e.Channel), append(counts, e.Tokens)
		}
		if !slices.Equal(channels, []string{"reasoning", "content", "tool", "content"}) || !slices.Equal(counts, []int{2, 4, 5, 6}) {
			t.Errorf("channels %v with %v tokens", channels, counts)
		}
		u := got.usage()
		if details, _ := u["completion_tokens_details"].(map[string]any); u["completion_tokens"] != 6.0 || details["reasoning_tokens"] != 4.0 {
			t.Errorf("usage %v", u)
		}
	})
}

func TestCloseCutsWhatRunsAndWaits(t *testing.T) {
	inBubble(t, truth.Script{MaxRunning: 1}, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() { w.together(2, ms, 100000) })
		time.Sleep(time.Second)
		synctest.Wait()
		w.server.Close()
		wg.Wait()
		for _, r := range w.server.Account().Requests {
			if r.Class != truth.Closed {
				t.Errorf("request %d: %q, want closed", r.ID, r.Class)
			}
		}
	})
}
