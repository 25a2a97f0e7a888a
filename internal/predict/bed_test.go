package predict

import (
	"math"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/engine"
)

// A bed shows the same times to first token as the whole run, and the step times between its tokens.
func TestABedShowsWhatTheRunShows(t *testing.T) {
	for _, name := range []string{awq, fp8} {
		for _, s := range []bench.Settings{SeedSettings(named(t, name)), {}} {
			p := named(t, name)
			run := predicted(t, p, s, Options{})
			memo := NewMemo()
			bed, err := NewBed(p, SettingsOf(run), memo)
			if err != nil {
				t.Fatal(err)
			}
			timing := engine.TimingOf(&p.StepTime)
			for _, c := range Order(run.Cells) {
				if c.Phase == speedmatrix.PhasePrefill {
					if ms, ok := bed.Prefill(c.Context); !ok || math.Abs(ms-*c.TTFT.P50) > 1e-3 {
						t.Errorf("%s %s: a prefill takes %g ms, in the run %g", name, c.Key(), ms, *c.TTFT.P50)
					}
					continue
				}
				got, ok := bed.Launch(c.Context, c.Concurrency)
				if !ok || math.Abs(got.TTFT / *c.TTFT.P50 - 1) > 0.005 {
					t.Errorf("%s %s %s: TTFT %g ms, in the run %g", name, run.Method.Name, c.Key(), got.TTFT, *c.TTFT.P50)
				}
				load := got.Load
				more := c.ContextTokens.Mean*float64(c.Concurrency) - load.Total
				load.Total += more
				load.Unique += more
				load.Longest += more / float64(c.Concurrency)
				load.LongestDecode += more / float64(c.Concurrency)
				if rate := float64(c.Concurrency) / timing.Step(&load) * 1e9; math.Abs(rate / *c.TotalTokensPerSecond - 1) > 0.005 {
					t.Errorf("%s %s %s: %g tok/s, in the run %g", name, run.Method.Name, c.Key(), rate, *c.TotalTokensPerSecond)
				}
			}
		}
	}
}

func BenchmarkBed(b *testing.B) {
	for _, name := range []string{awq, fp8} {
		b.Run(name, func(b *testing.B) {
			p := named(b, name)
			run := predicted(b, p, bench.Settings{}, Options{})
			memo, cells := NewMemo(), Order(run.Cells)
			for b.Loop() {
				bed, err := NewBed(p, SettingsOf(run), memo)
				if err != nil {
					b.Fatal(err)
				}
				for i := range cells {
					if c := &cells[i]; c.Phase == speedmatrix.PhasePrefill {
						bed.Prefill(c.Context)
					} else {
						bed.Launch(c.Context, c.Concurrency)
					}
				}
			}
		})
	}
}
