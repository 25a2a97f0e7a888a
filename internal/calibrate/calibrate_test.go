package calibrate_test

import (
	"math"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/calibrate"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
)

// A run predicted from a known profile gives back a profile whose decode and prefill agree with the known one's: inside
// the matrix within 1 %, one octave outside within 3 %.
func TestAKnownProfileIsGivenBack(t *testing.T) {
	known, err := profile.Named("rtx3090-agents-a1-4b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	matrix := bench.Settings{Contexts: []int{0, 16 << 10, 32 << 10, 64 << 10}, Concurrency: []int{1, 2, 4, 8},
		Prefill: []int{8 << 10, 16 << 10, 32 << 10, 64 << 10}, Method: speedmatrix.MethodCompat}
	run := predicted(t, known, matrix)
	result, err := calibrate.Fit(t.Context(), run, calibrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, run, predicted(t, result.Profile, matrix), 0.01)
	outside := bench.Settings{Contexts: []int{128 << 10}, Concurrency: []int{1, 2}, Prefill: []int{128 << 10}, Method: speedmatrix.MethodCompat}
	agree(t, predicted(t, known, outside), predicted(t, result.Profile, outside), 0.03)
}

func predicted(t *testing.T, p *profile.Profile, s bench.Settings) *speedmatrix.Run {
	t.Helper()
	run, err := predict.Predict(t.Context(), p, s, predict.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// agree compares every cell's speed.
func agree(t *testing.T, want, got *speedmatrix.Run, allowed float64) {
	t.Helper()
	compared := 0
	for i := range want.Cells {
		w := &want.Cells[i]
		g := got.FindCell(w.Phase, w.Context, w.Concurrency)
		if w.Status != speedmatrix.StatusValid || g == nil || g.Status != speedmatrix.StatusValid {
			continue
		}
		a, b := w.TotalTokensPerSecond, g.TotalTokensPerSecond
		if w.Phase == speedmatrix.PhasePrefill {
			a, b = w.PromptTokensPerSecond, g.PromptTokensPerSecond
		}
		compared++
		if off := math.Abs(*b / *a - 1); off > allowed {
			t.Errorf("%s: %.2f tok/s, want %.2f: %.2f %% apart", w.Key(), *b, *a, off*100)
		}
	}
	if compared < 3 {
		t.Errorf("%d cells compared", compared)
	}
}
