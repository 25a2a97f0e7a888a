package verify

import (
	"testing"
	"time"

	"speedmatrix"
)

// timed is a run of 100 s with two rows, whose windows took 20 s in the place of 30, and one 33.
func timed() *speedmatrix.Run {
	began := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	decode := func(context, concurrency int, fill, window float64) speedmatrix.Cell {
		return speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Context: context, Concurrency: concurrency, Status: speedmatrix.StatusValid,
			StepSeconds: &speedmatrix.StepSeconds{Fill: fill}, WindowSeconds: &window}
	}
	prefill := func(context int, ttft float64) speedmatrix.Cell {
		return speedmatrix.Cell{Phase: speedmatrix.PhasePrefill, Context: context, Concurrency: 1, Status: speedmatrix.StatusValid,
			TTFT: &speedmatrix.Distribution{P50: &ttft, N: 3, Of: "requests"}}
	}
	return &speedmatrix.Run{StartedAt: began, FinishedAt: new(began.Add(100 * time.Second)), Method: speedmatrix.Method{DurationSeconds: 30, Prompts: "distinct"},
		Cells: []speedmatrix.Cell{decode(4096, 1, 1, 20), decode(4096, 8, 7, 20), decode(8192, 2, 4, 33), decode(65536, 1, 61, 30),
			prefill(2048, 500), prefill(4096, 1000), prefill(8192, 2000), prefill(65536, 61000)},
		Drift:   &speedmatrix.Drift{Cell: decode(4096, 1, 0, 20)},
		Repeats: []speedmatrix.Repeat{{Index: 2, Cells: []speedmatrix.Cell{decode(4096, 1, 9, 20), {Phase: speedmatrix.PhaseDecode}}}}}
}

func TestTheTimeThatWasSavedIsRecomputed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *speedmatrix.Run)
		// want is what the run would have taken: 100 s, 4 windows 10 s longer and one 3 s shorter, and the samples.
		want float64
	}{
		{"as it is", func(*speedmatrix.Run) {}, 100 + 4*10 - 3 + 3*1 + 2*2 + 61},
		{"a shared prompt", func(r *speedmatrix.Run) { r.Method.Prompts = "shared" }, 100 + 4*10 - 3 + 1 + 2 + 61},
		{"no fills", func(r *speedmatrix.Run) {
			for i := range r.Cells {
				r.Cells[i].StepSeconds = nil
			}
		}, 100 + 4*10 - 3},
	} {
		run := timed()
		tt.change(run)
		check := func(taken, separate *float64) int {
			c := &checker{run: run, report: &Report{}}
			run.Plan.TakenSeconds, run.Plan.SeparateSeconds = taken, separate
			c.checkTime()
			return len(c.report.Disagreements)
		}
		if n := check(new(100.0), &tt.want); n != 0 {
			t.Errorf("%s: %v s are doubted", tt.name, tt.want)
		}
		if check(new(101.0), &tt.want) == 0 || check(new(100.0), new(tt.want+0.1)) == 0 || check(nil, &tt.want) == 0 || check(new(100.0), nil) == 0 {
			t.Errorf("%s: a wrong time is not seen", tt.name)
		}
		if n := check(nil, nil); n != 0 {
			t.Errorf("%s: a run without times is doubted", tt.name)
		}
		run.FinishedAt = nil
		if check(new(100.0), &tt.want) == 0 {
			t.Errorf("%s: a run without end has a time", tt.name)
		}
	}
}
