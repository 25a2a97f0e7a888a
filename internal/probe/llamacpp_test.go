package probe

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

const propsLlama = `{"default_generation_settings":{"n_ctx":2048,"params":{}},"total_slots":4,"model_alias":"smol","model_path":"/x/SmolLM2-135M-Instruct.Q4_1.gguf","model_ftype":"Q4_1","build_info":"b1-7e4c0a9","is_sleeping":false}`

func llamaFake(props string) *fake {
	f := newFake()
	f.honours, f.timings, f.cached = true, true, true
	f.get("/v1/models", listLlama).get("/props", props).get("/health", `{"status":"ok"}`)
	f.post("/tokenize", func(body map[string]any) string {
		text, _ := body["content"].(string)
		return `{"tokens":[` + strings.TrimSuffix(strings.Repeat("1,", words(text)), ",") + `]}`
	})
	return f.post("/v1/chat/completions/input_tokens", func(body map[string]any) string {
		return fmt.Sprintf(`{"input_tokens":%d,"object":"response.input_tokens"}`, words(asked(body))+f.template)
	})
}

func TestLlamaCppIsFoundWithItsSlots(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := llamaFake(propsLlama).get("/api/version", `{"version":"0.1"}`).get("/api/tags", `{"models":[]}`)
		s := found(t, n, f, nil)
		if s.Kind != KindLlamaCpp || s.MaxLength != 2048 || s.RunningLimit != 4 {
			t.Errorf("%s, length %d, running limit %d", s.Kind, s.MaxLength, s.RunningLimit)
		}
		if s.PrefixCaching != nil || s.Facts.Engine.Text(speedmatrix.EngineKVType) != "" {
			t.Errorf("prefix caching %v and KV type %q are not told by the server", s.PrefixCaching, s.Facts.Engine.Text(speedmatrix.EngineKVType))
		}
		h := s.Habits
		if !h.UsageEveryEvent || !h.IgnoresEOS || !h.Tokenizer || h.TemplateTokens != 9 || !s.Params.TimingsPerToken {
			t.Errorf("habits %+v, params %+v", h, s.Params)
		}
		if got := s.Facts.Engine.Text(speedmatrix.EngineTokenizer); got != "POST /v1/chat/completions/input_tokens" {
			t.Errorf("tokenizer %q", got)
		}
		if tokens, err := s.CountTokens(t.Context(), "one two three"); tokens != 12 || err != nil {
			t.Errorf("prompt of 3 words: %d, %v", tokens, err)
		}
		if tokens, err := s.CountText(t.Context(), "one two three"); tokens != 3 || err != nil {
			t.Errorf("text of 3 words: %d, %v", tokens, err)
		}
	})
}

func TestABuildWithoutANumberIsNamedByItsCommit(t *testing.T) {
	for build, want := range map[string]string{"b0-unknown": "", "b0-7e4c0a9": "7e4c0a9", "b1-7e4c0a9": "7e4c0a9", "b1": "", "b10434-7e4c0a9": "b10434-7e4c0a9"} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			s := found(t, n, llamaFake(strings.Replace(propsLlama, "b1-7e4c0a9", build, 1)), nil)
			if got := s.Facts.Engine.Text(speedmatrix.EngineVersion); got != want {
				t.Errorf("%s: version %q, want %q", build, got, want)
			}
		})
	}
}

func TestTheOwnerIsEnoughForLlamaCpp(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		if s := found(t, n, newFake().get("/v1/models", listLlama), nil); s.Kind != KindLlamaCpp || s.MaxLength != 2048 {
			t.Errorf("%s, length %d", s.Kind, s.MaxLength)
		}
	})
}

func TestSlotsTimesContextIsNotTheKVCacheUnlessNothingElseCanBe(t *testing.T) {
	oneSlot := strings.Replace(propsLlama, `"total_slots":4`, `"total_slots":1`, 1)
	for _, c := range []struct {
		name   string
		props  string
		stated int
		want   int
		warns  bool
	}{
		{"four slots", propsLlama, 0, 0, true},
		{"four slots, less stated than their product: unified", propsLlama, 2048, 2048, false},
		{"four slots, their product stated", propsLlama, 8192, 8192, false},
		{"four slots, more stated than they can use", propsLlama, 100000, 8192, false},
		{"one slot", oneSlot, 0, 2048, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				s := found(t, n, llamaFake(c.props), func(o *Options) {
					if c.stated > 0 {
						o.Stated.Engine = speedmatrix.Facts{speedmatrix.EngineKVTokens: {Value: c.stated, Source: speedmatrix.SourceUser}}
					}
				})
				if s.KVTokens != c.want || s.warned("kv_unknown") != c.warns {
					t.Errorf("KV %d tokens, warnings %v; want %d", s.KVTokens, s.Warnings, c.want)
				}
			})
		})
	}
}

// slotsText is /slots with one running slot at n tokens of a task, and one never used.
func slotsText(task, n int) string {
	return fmt.Sprintf(`[{"id":0,"n_ctx":2048,"speculative":false,"is_processing":true,"id_task":%d,"n_prompt_tokens":9,
		"next_token":[{"has_next_token":true,"has_new_line":false,"n_remain":1,"n_decoded":%d}]},
		{"id":1,"n_ctx":2048,"speculative":false,"is_processing":false}]`, task, n)
}

func TestLlamaCppsLiveFiguresComeFromItsSlots(t *testing.T) {
	const metrics = "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total 400\n" +
		"# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 7\n" +
		"# TYPE llamacpp:requests_deferred gauge\nllamacpp:requests_deferred 3\n"
	for _, withMetrics := range []bool{true, false} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := llamaFake(propsLlama)
			var slots atomic.Value
			slots.Store(slotsText(1, 0))
			f.mux.HandleFunc("GET /slots", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, slots.Load()) })
			if withMetrics {
				f.get("/metrics", metrics)
			}
			s := found(t, n, f, nil)
			if !s.Gauges() || s.CounterName() != slotsCounter || !s.LiveCounter() {
				t.Errorf("gauges %v, counter %q, live %v", s.Gauges(), s.CounterName(), s.LiveCounter())
			}
			for _, c := range []struct{ task, n, want int }{{5, 17, 17}, {5, 49, 49}, {5, 49, 49}, {6, 3, 52}, {6, 20, 69}, {7, 20, 89}, {7, 5, 94}} {
				slots.Store(slotsText(c.task, c.n))
				row := s.Scrape(t.Context())
				if row.Error != "" || *row.GenerationTokens != float64(c.want) || *row.Running != 1 {
					t.Fatalf("task %d at %d: %+v, want %d tokens", c.task, c.n, row, c.want)
				}
				if withMetrics != (row.Waiting != nil) || withMetrics && *row.Waiting != 3 {
					t.Errorf("waiting %v with metrics %v", row.Waiting, withMetrics)
				}
			}
		})
	}
}

func TestWithoutSlotsTheCounterIsNotLive(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := llamaFake(propsLlama).get("/metrics", "llamacpp:tokens_predicted_total 400\nllamacpp:requests_processing 2\n")
		f.mux.HandleFunc("GET /slots", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(501)
			fmt.Fprint(w, `{"error":{"code":501,"message":"This server does not support slots endpoint.","type":"not_supported_error"}}`)
		})
		s := found(t, n, f, nil)
		if s.LiveCounter() || s.CounterName() != "llamacpp:tokens_predicted_total" || !s.Gauges() {
			t.Errorf("live %v, counter %q, gauges %v", s.LiveCounter(), s.CounterName(), s.Gauges())
		}
	})
}

func TestOlderServersGiveTheNextTokenAsAnObject(t *testing.T) {
	slot := slotState{Next: []byte(`{"n_decoded":12}`)}
	if n, ok := slot.decoded(); n != 12 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	for _, next := range []string{"", "null", "[]", "[{}]", "{}", "3"} {
		slot := slotState{Next: []byte(next)}
		if n, ok := slot.decoded(); ok {
			t.Errorf("%q counts as %d", next, n)
		}
	}
}

func TestTheSlotCountNeverFallsAndMissesOnlyWhatItDidNotSee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c slotCounter
		c.start()
		type slot struct{ task, decoded int }
		slots := make([]slot, rapid.IntRange(1, 4).Draw(t, "slots"))
		truth, last, missed, nextTask := 0, 0.0, 0, 1
		seen := make([]slot, len(slots))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(slots)-1).Draw(t, "slot")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // another task begins
				if slots[i].task == seen[i].task {
					missed += slots[i].decoded - seen[i].decoded
				} else {
					missed += slots[i].decoded
				}
				slots[i] = slot{task: nextTask}
				nextTask++
			case 1, 2:
				n := rapid.IntRange(1, 50).Draw(t, "tokens")
				if slots[i].task > 0 {
					slots[i].decoded += n
					truth += n
				}
			default:
				var states []slotState
				for i, s := range slots {
					state := slotState{ID: i}
					if s.task > 0 {
						state.Task, state.Next = &s.task, fmt.Appendf(nil, `[{"n_decoded":%d}]`, s.decoded)
					}
					states = append(states, state)
				}
				copy(seen, slots)
				got := c.count(states)
				if got < last || got != float64(truth-missed) {
					t.Fatalf("count %v after %v, want %d of %d", got, last, truth-missed, truth)
				}
				last = got
			}
		}
	})
}
