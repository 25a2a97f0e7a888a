package predict

import (
	"math"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/engine"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/report"
)

// The whole default matrix of both machines takes at most that share of what it would with prefill samples apart from
// the fills and with windows of 30 s.
func TestTheStandardMatrixSavesTime(t *testing.T) {
	for name, most := range map[string]float64{awq: 0.7, fp8: 0.6} {
		run := predicted(t, named(t, name), bench.Settings{}, Options{})
		t.Logf("%s: %s", name, report.TimeLine(run))
		taken, separate := *run.Plan.TakenSeconds, *run.Plan.SeparateSeconds
		if taken != VirtualTime(run).Seconds() || !(taken <= most*separate) {
			t.Errorf("%s takes %.0f of %.0f s", name, taken, separate)
		}
		if want := apart(run); math.Abs(separate/want-1) > 0.01 {
			t.Errorf("%s: %.0f s with separate samples and windows of 30 s, by hand %.0f", name, separate, want)
		}
	}
}

// apart is what a run would have taken: its own time without what its fills and windows took, and then 30 s a window,
// a prefill for each head, and three samples of each size, or one of more than a minute.
func apart(run *speedmatrix.Run) float64 {
	seconds := VirtualTime(run).Seconds()
	cells := append(run.Cells[:len(run.Cells):len(run.Cells)], run.Drift.Cell)
	for i := range cells {
		c := &cells[i]
		if c.Phase == speedmatrix.PhaseDecode && c.StepSeconds != nil {
			seconds += 30 - c.StepSeconds.Window
		}
		if c.Phase != speedmatrix.PhasePrefill {
			continue
		}
		sample := *c.TTFT.P50 / 1000
		seconds += 3 * sample
		if sample > 60 {
			seconds -= 2 * sample
		}
		// Samples that were no fill were apart already.
		heads := 0
		for j := range run.Cells {
			if d := &run.Cells[j]; d.Phase == speedmatrix.PhaseDecode && d.Context == c.Context && d.Status == speedmatrix.StatusValid {
				heads = d.Concurrency
			}
		}
		seconds -= float64(len(c.PrefillSamples)-heads) * sample
	}
	return seconds
}

// truthAt is the speed of a machine at a number of simultaneous requests whose contexts are that long on average, in tok/s.
func truthAt(p *profile.Profile, requests int, context float64) float64 {
	var load engine.Load
	for i := range requests {
		length := math.Floor(context)
		if float64(i) < (context-length)*float64(requests) {
			length++
		}
		load.AddDecode(int(length))
	}
	load.Unique = load.Total
	timing := engine.TimingOf(&p.StepTime)
	return float64(requests) / timing.Step(&load) * 1e9
}

// With --precision 1% every cell is within 1 % of the profile's truth at the context in its window, with steps that vary
// by 1 % each.
func TestPrecisionKeepsWhatItPromises(t *testing.T) {
	const precision, seeds = 0.01, 5
	for _, name := range []string{awq, fp8} {
		p := named(t, name)
		whole := predicted(t, p, bench.Settings{}, Options{Noise: 0.01, Seed: 1})
		cells, early, worst, where := 0, 0, 0.0, ""
		for seed := range uint64(seeds) {
			run := predicted(t, p, bench.Settings{Precision: precision}, Options{Noise: 0.01, Seed: seed + 1})
			for i := range run.Cells {
				c := &run.Cells[i]
				if c.Phase != speedmatrix.PhaseDecode || !c.Status.ShowsSpeed() {
					continue
				}
				cells++
				if *c.WindowSeconds < *whole.Cells[i].WindowSeconds-0.5 {
					early++
				}
				off := *c.TotalTokensPerSecond/truthAt(p, c.Concurrency, c.ContextTokens.Mean) - 1
				if math.Abs(off) > math.Abs(worst) {
					worst, where = off, c.Key()
				}
			}
			if seed == 0 {
				t.Logf("%s: %s; without --precision: %s", name, report.TimeLine(run), report.TimeLine(whole))
			}
			if *run.Plan.TakenSeconds >= *whole.Plan.TakenSeconds {
				t.Errorf("%s, seed %d: no time was saved", name, seed+1)
			}
		}
		t.Logf("%s: %d of %d windows closed early, largest error %+.2f %% (%s)", name, early, cells, 100*worst, where)
		if math.Abs(worst) > precision || early == 0 || cells < 19*seeds {
			t.Errorf("%s: %d cells, %d closed early, an error of %+.2f %% at %s", name, cells, early, 100*worst, where)
		}
	}
}
