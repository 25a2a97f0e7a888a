package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
)

// With --events standard output holds JSON objects alone, in the order of the run, and people read standard error.
func TestEventsAreAloneOnStandardOutput(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.main(small("--events")...)
		w.ended(0, "Plan 4 of 4 cells", "Warming up", "All measurements", "Saved run")
		counts := map[bench.EventKind]int{}
		var kinds []bench.EventKind
		last := time.Time{}
		for line := range strings.Lines(w.out.String()) {
			var e bench.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			at, err := time.Parse(time.RFC3339Nano, e.Time)
			if err != nil || at.Before(last) {
				t.Errorf("%s at %q comes after %s: %v", e.Event, e.Time, last, err)
			}
			if last = at; counts[e.Event] == 0 {
				kinds = append(kinds, e.Event)
			}
			if counts[e.Event]++; e.Event == bench.EventDone && (e.Result == nil || e.Result.Status != speedmatrix.StatusValid || e.Total != 5) {
				t.Errorf("done: %s", line)
			}
		}
		want := []bench.EventKind{bench.EventWarmUp, bench.EventPlan, bench.EventCell, bench.EventProgress, bench.EventDone, bench.EventEnd}
		if !slices.Equal(kinds, want) || counts[bench.EventDone] != 5 || counts[bench.EventEnd] != 1 {
			t.Errorf("events %v %v, want in this order %v", kinds, counts, want)
		}
	})
}

func TestAFailureLeavesStandardOutputToEvents(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.main("run", local, "--events")
		w.ended(3, "no LLM server")
		if w.out.String() != "" {
			w.t.Errorf("standard output: %s", w.out.String())
		}
	})
}
