package simserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"speedmatrix/internal/golden"
	"speedmatrix/internal/metricstext"
	"speedmatrix/internal/simserver"
)

// TestMetricsAreNamedAsVLLMNamesThem keeps the whole page: names, labels,
// buckets, order and the values after three requests.
func TestMetricsAreNamedAsVLLMNamesThem(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		long := strings.Repeat("All the world's a stage. ", 20)
		w.together(0, chat(long, 7))
		w.together(us, chat(long, 3), chat(sea, 20).with("ignore_eos", false))
		time.Sleep(us)
		a := w.do(t.Context(), http.MethodGet, "/metrics", nil)
		if kind := a.header.Get("Content-Type"); kind != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("content type %q", kind)
		}
		golden.Check(t, "metrics.txt", []byte(a.events[0].data))
	})
}

func TestMetricsMoveWhenAStepEnds(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		done := make(chan *answer)
		go func() { done <- w.post(t.Context(), "/v1/chat/completions", chat(sea, 4)) }()
		for _, tt := range []struct {
			at               time.Duration
			tokens, running  float64
			prompts, success float64
		}{
			{20 * ms, 0, 0, 0, 0},        // vLLM's gauges move with the first step's end as well
			{24400*us - us, 0, 0, 14, 0}, // in the very instant: not yet; prompts are those after it
			{24401 * us, 1, 1, 14, 0},
			{40 * ms, 2, 1, 14, 0},
			{57401 * us, 4, 0, 14, 1},
		} {
			time.Sleep(tt.at - us - time.Since(w.begun))
			f := w.scrape()
			if n := sum(t, f, "vllm:generation_tokens_total"); n != tt.tokens {
				t.Errorf("at %v: %v tokens, want %v", tt.at, n, tt.tokens)
			}
			if n := sum(t, f, "vllm:num_requests_running"); n != tt.running {
				t.Errorf("at %v: %v run, want %v", tt.at, n, tt.running)
			}
			if tt.tokens > 0 {
				if n := sum(t, f, "vllm:prompt_tokens_total"); n != tt.prompts {
					t.Errorf("at %v: %v prompt tokens, want %v", tt.at, n, tt.prompts)
				}
			}
			if n := sum(t, f, "vllm:request_success_total", metricstext.Label{Name: "finished_reason", Value: "length"}); n != tt.success {
				t.Errorf("at %v: %v successes, want %v", tt.at, n, tt.success)
			}
		}
		<-done
	})
}

func TestPreemptionsAreToldWhenTheRequestRunsAgain(t *testing.T) {
	p := machine()
	p.KV.Blocks = 9
	inBubble(t, p, simserver.Options{}, func(t *testing.T, w *world) {
		done := make(chan []*answer)
		go func() { done <- w.together(us, chat(sea, 100), chat(sea, 100)) }()
		sawWaiting := false
		for range 60 {
			time.Sleep(50 * ms)
			f := w.scrape()
			told, waits := sum(t, f, "vllm:num_preemptions_total"), sum(t, f, "vllm:num_requests_waiting")
			if waits == 1 && sum(t, f, "vllm:generation_tokens_total") > 10 {
				sawWaiting = true
				if told != 0 {
					t.Fatalf("%v preemptions told while the request waits", told)
				}
			}
		}
		for _, a := range <-done {
			if a.usage().Completion != 100 {
				t.Errorf("%d tokens", a.usage().Completion)
			}
		}
		f := w.scrape()
		if n := sum(t, f, "vllm:num_preemptions_total"); n != 1 || !sawWaiting {
			t.Errorf("%v preemptions, seen waiting: %v", n, sawWaiting)
		}
		if n := sum(t, f, "vllm:request_num_preemptions_sum"); n != 1 {
			t.Errorf("%v preemptions of requests", n)
		}
	})
}
