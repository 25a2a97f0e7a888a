package simserver_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/simserver"
)

func TestFaultsAreReadFromTheirTexts(t *testing.T) {
	for _, tt := range []struct {
		texts []string
		want  simserver.Faults
	}{
		{nil, simserver.Faults{}},
		{[]string{"spike=250ms@1%"}, simserver.Faults{Spike: 250 * ms, SpikeShare: 0.01}},
		{[]string{"drop=0.02", "error=5%"}, simserver.Faults{DropShare: 0.02, ErrorShare: 0.05, ErrorStatus: 500}},
		{[]string{"drop=2%@50, error=5%@503", "metrics=2s,kv=25%"},
			simserver.Faults{DropShare: 0.02, DropAfter: 50, ErrorShare: 0.05, ErrorStatus: 503, MetricsDelay: 2 * time.Second, KVShare: 0.25}},
		{[]string{"kv=25%", "kv=50%"}, simserver.Faults{KVShare: 0.5}},
	} {
		if got, err := simserver.ParseFaults(tt.texts); err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v", tt.texts, got, err)
		}
	}
}

func TestAWrongFaultSaysWhatItMayBe(t *testing.T) {
	for text, next := range map[string]string{
		"spike=250ms": "spike=250ms@1% makes", "spike=-1s@1%": "spike=250ms@1%", "drop=200%": "drop=2% cuts", "drop=1%@0": "drop=2%@50",
		"error=5%@200": "error=5%@503", "metrics=fast": "metrics=2s", "kv=0": "kv=25%", "kv=NaN": "kv=25%",
		"droop=1%": "drop=2% cuts", "x": "The kinds are drop, error, kv, metrics, spike.",
	} {
		_, err := simserver.ParseFaults([]string{text})
		e, ok := errors.AsType[*speedmatrix.Error](err)
		if !ok || e.Kind != speedmatrix.KindUsage || !strings.Contains(e.What, text) || !strings.Contains(e.Next, next) {
			t.Errorf("%q: %+v", text, e)
		}
	}
}

func TestAProfileOrSpeedThatCannotRunIsAUsageError(t *testing.T) {
	broken := machine()
	broken.StepTime.BaseMS = 0
	for _, o := range []simserver.Options{{}, {Speed: -1}, {Speed: 1e9}} {
		if _, err := simserver.New(broken, o); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestSpikesLengthenSteps(t *testing.T) {
	inBubble(t, machine(), simserver.Options{Faults: simserver.Faults{Spike: 200 * ms, SpikeShare: 0.1}}, func(t *testing.T, w *world) {
		times := w.post(t.Context(), "/v1/chat/completions", chat(sea, 500)).times(0)
		spikes := 0
		for i := 1; i < len(times); i++ {
			switch gap := times[i] - times[i-1]; gap {
			case 11 * ms:
			case 211 * ms:
				spikes++
			default:
				t.Fatalf("a gap of %v", gap)
			}
		}
		if spikes < 25 || spikes > 75 {
			t.Errorf("%d spikes in 500 steps", spikes)
		}
	})
}

func TestErrorsAndDropsHitTheirShare(t *testing.T) {
	faults := simserver.Faults{ErrorShare: 0.3, ErrorStatus: 429, DropShare: 0.3, DropAfter: 3}
	inBubble(t, machine(), simserver.Options{Faults: faults}, func(t *testing.T, w *world) {
		refused, dropped, whole := 0, 0, 0
		for range 200 {
			switch a := w.post(t.Context(), "/v1/chat/completions", chat(sea, 5)); {
			case a.status == 429 && a.events[0].body.Error.Type == "TooManyRequestsError":
				refused++
			case errors.Is(a.err, io.ErrUnexpectedEOF) && len(a.times(0)) == 3:
				dropped++
			case a.err == nil && a.status == 200 && a.usage().Completion == 5:
				whole++
			default:
				t.Fatalf("%d, %v, %d tokens", a.status, a.err, len(a.times(0)))
			}
		}
		if refused < 40 || refused > 80 || dropped < 24 || dropped > 62 || refused+dropped+whole != 200 {
			t.Errorf("%d refused, %d dropped, %d whole", refused, dropped, whole)
		}
		if n := sum(t, w.scrape(), "vllm:request_success_total"); n != float64(whole) {
			t.Errorf("%v successes counted, want %d", n, whole)
		}
	})
}

func TestASlowScrapeTakesItsTimeAndShowsTheBeginning(t *testing.T) {
	inBubble(t, machine(), simserver.Options{Speed: 2, Faults: simserver.Faults{MetricsDelay: 2 * time.Second}}, func(t *testing.T, w *world) {
		done := make(chan float64)
		go func() { done <- sum(t, w.scrape(), "vllm:generation_tokens_total") }()
		time.Sleep(ms)
		w.post(t.Context(), "/v1/chat/completions", chat(sea, 5))
		if n := <-done; n != 0 || time.Since(w.begun) != time.Second+us {
			t.Errorf("%v tokens after %v", n, time.Since(w.begun))
		}
	})
}

func TestAShrunkenCacheRefusesWhatCanNeverRun(t *testing.T) {
	inBubble(t, machine(), simserver.Options{Faults: simserver.Faults{KVShare: 0.1}}, func(t *testing.T, w *world) {
		a := w.post(t.Context(), "/v1/completions", text(make([]int, 2000), 5))
		if want := "The prompt of 2000 tokens can never run: the KV cache holds 1616 tokens."; a.status != 400 || !strings.Contains(a.events[0].data, want) {
			t.Errorf("%d %s", a.status, a.events[0].data)
		}
		a = w.post(t.Context(), "/v1/completions", text(make([]int, 1000), 4000))
		if u := a.usage(); u.Completion != 616 {
			t.Errorf("an answer up to the end of the cache has %d tokens, want 616", u.Completion)
		}
		if n, ok := w.scrape().Label("vllm:cache_config_info", "num_gpu_blocks"); !ok || n != "102" {
			t.Errorf("num_gpu_blocks %s", n)
		}
	})
}
