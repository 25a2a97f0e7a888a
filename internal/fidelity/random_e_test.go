package fidelity_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/truth"
)

// Streams of any phase, speed and length, with stalls wherever they fall: the window counts what the server sent in it.
func TestAnyPhaseGivesTheServersRate(t *testing.T) {
	check(t, 6, func(rt *rapid.T) {
		gaps := rapid.SliceOfN(rapid.IntRange(4_000, 90_000), 1, 5).Draw(rt, "gaps in µs")
		lengths := rapid.SliceOfN(rapid.IntRange(1, 250), 1, 7).Draw(rt, "lengths")
		stalls := rapid.SliceOfN(rapid.IntRange(0, 1000), 1, 60).Draw(rt, "stalls")
		s := truth.Script{
			Usage:       truth.UsageEvery, // whatever the first answers look like
			PrefillBase: time.Duration(rapid.IntRange(1, 300).Draw(rt, "prefill")) * ms,
			Lockstep:    rapid.Bool().Draw(rt, "in step"),
			Gap:         func(s truth.Step) time.Duration { return time.Duration(gaps[s.Request%len(gaps)]) * time.Microsecond },
			StopAfter:   func(c truth.Call) int { return lengths[c.Request%len(lengths)] },
			Stall: func(req, token int) time.Duration {
				return time.Duration(max(stalls[(req*7+token)%len(stalls)]-980, 0)) * 40 * ms
			},
			FinalDelay: time.Duration(rapid.IntRange(0, 200).Draw(rt, "final")) * ms,
		}
		w := bed{script: s, args: oneCell("0", []string{"1", "2", "5"}[rapid.IntRange(0, 2).Draw(rt, "requests")])}.measure(t)
		w.t = rt
		c := w.onlyDecode()
		w.verified()
		if !c.Status.ShowsSpeed() {
			unknown(rt, "total tok/s of "+string(c.Status), publishedTotal(c))
			return
		}
		w.exact(c)
		w.oneStamp(c)
		if most, _ := w.flight(c); most > c.Concurrency {
			rt.Errorf("%d requests at once", most)
		}
		start, mean, end := w.contextOf(c)
		if c.ContextTokens != nil {
			near(rt, "context at the start", &c.ContextTokens.Start, start)
			near(rt, "context on average", &c.ContextTokens.Mean, mean)
			near(rt, "context at the end", &c.ContextTokens.End, end)
		}
	})
}

// onlyDecode is the one decode cell of a bed.
func (w *world) onlyDecode() *speedmatrix.Cell {
	w.t.Helper()
	if w.run == nil {
		w.t.Fatalf("no run; exit code %d\n%s%s", w.code, w.out.String(), w.errout.String())
	}
	for i := range w.run.Cells {
		if w.run.Cells[i].Phase == speedmatrix.PhaseDecode {
			return &w.run.Cells[i]
		}
	}
	w.t.Fatalf("no decode cell")
	return nil
}

// publishedTotal is the total that a page shows: none where the status shows no speed.
func publishedTotal(c *speedmatrix.Cell) *float64 {
	if c.Status.ShowsSpeed() {
		return c.TotalTokensPerSecond
	}
	return nil
}

// Streams that all stop in the window have the rate that they had, and a warning.
func TestStreamsThatStopInTheWindow(t *testing.T) {
	w := bed{script: truth.Script{Stall: func(_, token int) time.Duration {
		if token == 150 {
			return time.Hour
		}
		return 0
	}}}.measure(t)
	w.exact(w.valid("silence"))
}

// A ramp beyond its allowance and a server that is full give no plateau, and the cell says so.
func TestWindowsThatCannotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		s    truth.Script
		want speedmatrix.Status
	}{
		"one stream is not ready in time": {truth.Script{Stall: func(req, token int) time.Duration {
			if req%4 == 3 && token == 0 {
				return time.Hour
			}
			return 0
		}}, speedmatrix.StatusNotReady},
		"nothing comes before the window":     {truth.Script{PrefillBase: 3 * time.Hour}, speedmatrix.StatusFailed},
		"more streams than the server runs":   {truth.Script{MaxRunning: 1}, speedmatrix.StatusRequestsQueued},
		"the gauges say that one has to wait": {truth.Script{MaxRunning: 3}, speedmatrix.StatusRequestsQueued},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bed{script: tt.s, args: oneCell("0", "4")}.measure(t)
			if w.run == nil {
				if w.code == 0 {
					t.Errorf("no run, and exit code 0")
				}
				return
			}
			c := w.onlyDecode()
			t.Log(c.Status, c.Reason)
			if c.Status != tt.want || c.Reason == "" {
				t.Errorf("%s: %s, want %s", c.Status, c.Reason, tt.want)
			}
			w.verified()
		})
	}
}
