//go:build !race

package calibrate_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/calibrate"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
)

const k = 1 << 10

// Each figure of a page, launches included, is given back within 1 % at the cells of the run and between them, and
// within 3 % one octave beyond them, in context and in concurrency, on a machine with memory enough for that.
func TestEveryFigureOfAKnownMachineIsGivenBack(t *testing.T) {
	tests := []struct {
		name             string
		run              bench.Settings
		between, outside bench.Settings
	}{
		{"rtx3090-agents-a1-4b-fp8", bench.Settings{Method: speedmatrix.MethodCompat, Contexts: []int{0, 16 * k, 32 * k, 64 * k}, Concurrency: []int{1, 2, 4, 8}},
			bench.Settings{Method: speedmatrix.MethodCompat, Contexts: []int{24 * k, 48 * k}, Concurrency: []int{1, 3, 6}},
			bench.Settings{Method: speedmatrix.MethodCompat, Contexts: []int{0, 16 * k, 128 * k}, Concurrency: []int{1, 4, 16}}},
		{"rtx3090-qwen3-coder-30b-a3b-awq", bench.Settings{Method: speedmatrix.MethodCompat, Contexts: []int{0, 4 * k, 8 * k, 16 * k}, Concurrency: []int{1, 2, 4}},
			bench.Settings{Method: speedmatrix.MethodCompat, Contexts: []int{6 * k, 12 * k}, Concurrency: []int{1, 3}},
			bench.Settings{Method: speedmatrix.MethodCompat, Contexts: []int{0, 8 * k, 32 * k}, Concurrency: []int{1, 8}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			known, err := profile.Named(tt.name)
			if err != nil {
				t.Fatal(err)
			}
			run := predicted(t, known, tt.run)
			result, err := calibrate.Fit(t.Context(), run, calibrate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d evaluations in %s; residuals median %.2g %%, largest %.2g %%", result.Evaluations, result.Took, 100*result.Median, 100*result.Worst)
			fitted := result.Profile
			everyFigure(t, "inside", run, predicted(t, fitted, tt.run), 0.01)
			everyFigure(t, "between", predicted(t, known, tt.between), predicted(t, fitted, tt.between), 0.01)
			enlarge(known)
			enlarge(fitted)
			everyFigure(t, "outside", predicted(t, known, tt.outside), predicted(t, fitted, tt.outside), 0.03)
		})
	}
}

func enlarge(p *profile.Profile) {
	p.KV.Blocks *= 4
	p.Model.MaxLengthTokens *= 2
}

// everyFigure compares the speeds and times of all cells.
func everyFigure(t *testing.T, where string, want, got *speedmatrix.Run, allowed float64) {
	t.Helper()
	worst, compared := 0.0, 0
	for i := range want.Cells {
		w := &want.Cells[i]
		g := got.FindCell(w.Phase, w.Context, w.Concurrency)
		if g == nil || g.Status != w.Status {
			t.Errorf("%s %s: statuses differ", where, w.Key())
			continue
		}
		a, b := figuresOf(w), figuresOf(g)
		for name, x := range a {
			compared++
			off := math.Abs(b[name]/x - 1)
			worst = max(worst, off)
			if !(off <= allowed) {
				t.Errorf("%s %s %s: %.4g, want %.4g: %.2f %% apart", where, w.Key(), name, b[name], x, off*100)
			}
		}
	}
	t.Logf("%s: %d figures, at most %.3f %% apart", where, compared, 100*worst)
}

func figuresOf(c *speedmatrix.Cell) map[string]float64 {
	out := map[string]float64{}
	put := func(name string, v *float64) {
		if v != nil {
			out[name] = *v
		}
	}
	if c.Status != speedmatrix.StatusValid {
		return out
	}
	put("total tok/s", c.TotalTokensPerSecond)
	put("per request tok/s", c.PerRequestTokensPerSecond)
	put("prefill tok/s", c.PromptTokensPerSecond)
	put("TTFT", c.TTFT.P50)
	if c.TimeBetweenTokens != nil {
		put("time between tokens", c.TimeBetweenTokens.P50)
	}
	return out
}

// With a known profile's structure given, its numbers come back themselves where the run decides them.
func TestTheNumbersThatARunDecidesComeBack(t *testing.T) {
	known, err := profile.Named("rtx3090-agents-a1-4b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	run := predicted(t, known, bench.Settings{Method: speedmatrix.MethodCompat, Contexts: []int{0, 16 * k, 64 * k}, Concurrency: []int{1, 2, 4, 8}})
	result, err := calibrate.Fit(t.Context(), run, calibrate.Options{Like: known, Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"step_time.base_ms": known.StepTime.BaseMS, "step_time.per_sequence_ms": known.StepTime.PerSequenceMS,
		"step_time.prefill_token_us": known.StepTime.PrefillTokenUS, "step_time.attention_pair_ns": known.StepTime.AttentionPairNS}
	undecided := 0
	for _, q := range result.Parameters {
		if x, ok := want[q.Name]; ok && (!q.Determined || math.Abs(q.Value/x-1) > 0.01) {
			t.Errorf("%s is %g (%v %s), want %g", q.Name, q.Value, q.Determined, q.Why, x)
		}
		if !q.Determined {
			undecided++
			if q.Why == "" || !slices.ContainsFunc(result.Profile.Assumptions, func(a string) bool { return strings.HasPrefix(a, q.Name) }) {
				t.Errorf("%s: the profile does not say that the run leaves it open", q.Name)
			}
		}
	}
	if undecided == 0 {
		t.Error("one run decides even how the front end's time splits")
	}
	if result.Profile.Name != "mine" || result.Profile.Kind != profile.KindFitted || result.Profile.KV != known.KV {
		t.Errorf("profile %+v", result.Profile)
	}
	data, err := result.Profile.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := profile.Decode("mine.yaml", data); err != nil {
		t.Errorf("the fitted profile is not read back: %v", err)
	}
}

// Distinct prompts share no blocks, so a run with them cannot tell what sharing saves, and the fit says so.
func TestWhatARunDoesNotDecideIsSaid(t *testing.T) {
	known, err := profile.Named("rtx3090-agents-a1-4b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	run, err := predict.Predict(t.Context(), known, bench.Settings{Contexts: []int{0, 16 * k, 32 * k}, Concurrency: []int{1, 2, 4}}, predict.Options{Noise: 0.005, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	result, err := calibrate.Fit(t.Context(), run, calibrate.Options{Like: known})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range result.Parameters {
		if q.Name == "step_time.kv_unique_us" && q.Determined {
			t.Errorf("%s is taken for determined: %g", q.Name, q.Value)
		}
	}
	if result.Median > 0.005 {
		t.Errorf("residuals of %.2g in the median", result.Median)
	}
}

func TestARunWithTooFewCellsIsRefused(t *testing.T) {
	known, err := profile.Named("rtx3090-agents-a1-4b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	run := predicted(t, known, bench.Settings{Contexts: []int{0}, Concurrency: []int{1, 2}})
	var e *speedmatrix.Error
	if _, err := calibrate.Fit(t.Context(), run, calibrate.Options{}); !errors.As(err, &e) || !strings.Contains(e.What, "2 Valid decode cells and 1 Valid prefill cells") {
		t.Errorf("%v", err)
	}
}
