package bench_test

import (
	"slices"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/truth"
)

// The method of the older tool: first column, first row, the rest; one prompt for all; the first scout of a row is
// its prefill sample; 30 s after 3 s of readiness whatever the tokens.
func TestTheCompatMethodMeasuresInItsOrder(t *testing.T) {
	s := bench.Settings{Contexts: []int{0, 1024, 2048}, Concurrency: []int{1, 2}, Prefill: []int{1024, 2048}, Method: speedmatrix.MethodCompat}
	script := truth.Script{PrefixCache: true, PrefillPerToken: 100 * time.Microsecond, Gap: every(5 * ms), KeepPrompts: true}
	w := measure(t, setting{settings: s, script: script, limits: bench.Limits{KVBlockTokens: 16}})
	if w.err != nil {
		t.Fatal(w.err)
	}
	var order []string
	for _, e := range w.events {
		if e.Event == bench.EventCell {
			order = append(order, e.Cell)
		}
	}
	want := []string{"decode-0-x1", "decode-1k-x1", "decode-2k-x1", "decode-0-x2", "decode-1k-x2", "prefill-1k", "decode-2k-x2", "prefill-2k"}
	if !slices.Equal(order, want) {
		t.Errorf("measured in the order %v, want %v", order, want)
	}
	for i := range w.run.Cells {
		c := &w.run.Cells[i]
		if c.Status != speedmatrix.StatusValid {
			t.Errorf("%s: %s: %s", c.Key(), c.Status, c.Reason)
			continue
		}
		if c.Phase == speedmatrix.PhasePrefill {
			if len(c.PrefillSamples) != 1 || c.TTFTKind != speedmatrix.TTFTCold {
				t.Errorf("%s has %d samples, %s", c.Key(), len(c.PrefillSamples), c.TTFTKind)
			}
			continue
		}
		if got := *c.WindowSeconds; got < 29.9 || got > 30.1 {
			t.Errorf("%s: the window took %.2f s", c.Key(), got)
		}
		near(t, c.Key()+" time between tokens", c.TimeBetweenTokens.P50, 5)
	}
	prompts := map[string]bool{}
	for _, r := range w.account.Requests {
		if r.PromptTokens > 1500 {
			prompts[r.Prompt] = true
		}
	}
	if len(prompts) != 1 {
		t.Errorf("%d prompts at 2K, want one for all", len(prompts))
	}
	w.verified()
}
