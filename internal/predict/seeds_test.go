package predict

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/profile"
)

// The two machines that profiles are calibrated to.
const (
	awq = "rtx3090-qwen3-coder-30b-a3b-awq"
	fp8 = "rtx3090-agents-a1-4b-fp8"
)

// published is one cell of a published page: TTFT, total and per request tok/s, time between tokens in ms.
type published struct {
	Phase       speedmatrix.Phase  `json:"phase"`
	Context     int                `json:"context"`
	Concurrency int                `json:"concurrency"`
	Status      speedmatrix.Status `json:"status"`
	Total       *float64           `json:"total_tok_s"`
	PerRequest  *float64           `json:"per_request_tok_s"`
	TTFT        *float64           `json:"ttft_ms"`
	Between     *float64           `json:"itl_ms"`
}

// pages gives the published cells of both machines, by profile.
func pages(t *testing.T) map[string][]published {
	t.Helper()
	data, err := os.ReadFile("testdata/published.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]published
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all[awq]) != 53 || len(all[fp8]) != 53 {
		t.Fatalf("%d and %d published cells, want 53 each", len(all[awq]), len(all[fp8]))
	}
	return all
}

func named(t testing.TB, name string) *profile.Profile {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// otherwise lists the cells whose status differs from the page's, and why.
func otherwise(name string, c *published) (want speedmatrix.Status, why string) {
	if name != awq {
		return c.Status, ""
	}
	switch {
	case c.Context == 16<<10 && c.Concurrency == 2:
		return speedmatrix.StatusValid, "its text looped there; the simulated one does not"
	case c.Context >= 128<<10 && c.Concurrency == 1:
		return speedmatrix.StatusValid, "the page counts the prompt's prefill as waiting"
	}
	return c.Status, ""
}

// errorsOf gathers the largest error of a figure.
type errorsOf struct {
	worst float64
	where string
}

func (e *errorsOf) add(t *testing.T, what string, got, want *float64, allowed func(got, want float64) bool) {
	t.Helper()
	if want == nil {
		return
	}
	if got == nil {
		t.Errorf("%s is unknown, published %g", what, *want)
		return
	}
	x := *got / *want - 1
	if math.Abs(x) > math.Abs(e.worst) {
		e.worst, e.where = x, what
	}
	if !allowed(*got, *want) {
		t.Errorf("%s: %g, published %g (%+.1f %%)", what, *got, *want, 100*x)
	}
}

func within(share float64) func(got, want float64) bool {
	// What is published is rounded to a tenth.
	return func(got, want float64) bool { return math.Abs(got-want) <= share*want+0.05 }
}

func TestBothPublishedPagesAreGivenBack(t *testing.T) {
	for name, cells := range pages(t) {
		t.Run(name, func(t *testing.T) {
			p := named(t, name)
			run, err := Predict(t.Context(), p, SeedSettings(p), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(run.Cells) != len(cells) {
				t.Errorf("%d cells, published %d", len(run.Cells), len(cells))
			}
			var prefill, warm, total, each, between errorsOf
			for i := range cells {
				want := &cells[i]
				c := run.FindCell(want.Phase, want.Context, want.Concurrency)
				if c == nil {
					t.Errorf("no cell %v", want)
					continue
				}
				if status, why := otherwise(name, want); c.Status != status {
					t.Errorf("%s is %s (%s), want %s %s", c.Key(), c.Status, c.Reason, status, why)
				}
				if want.TTFT == nil {
					continue
				}
				if want.Phase == speedmatrix.PhasePrefill {
					prefill.add(t, c.Key()+" TTFT", c.TTFT.P50, want.TTFT, within(0.02))
					prefill.add(t, c.Key()+" tok/s", c.PromptTokensPerSecond, want.Total, within(0.02))
					continue
				}
				total.add(t, c.Key()+" total", c.TotalTokensPerSecond, want.Total, within(0.04))
				each.add(t, c.Key()+" per request", c.PerRequestTokensPerSecond, want.PerRequest, within(0.04))
				between.add(t, c.Key()+" time between tokens", c.TimeBetweenTokens.P50, want.Between, within(0.04))
				warm.add(t, c.Key()+" warm TTFT", c.TTFT.P50, want.TTFT, func(got, want float64) bool {
					return math.Abs(got-want) <= max(0.2*want, 15)
				})
			}
			t.Logf("virtual time %s", VirtualTime(run))
			for what, e := range map[string]errorsOf{"prefill": prefill, "total": total, "per request": each, "between tokens": between, "warm TTFT": warm} {
				t.Logf("%-15s largest error %+.2f %% at %s", what, 100*e.worst, e.where)
			}
		})
	}
}
