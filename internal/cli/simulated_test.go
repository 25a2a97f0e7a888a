package cli_test

import (
	"math"
	"sync"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/simserver"
)

// simulated starts the simulated engine of a profile.
func (w *world) simulated(p *profile.Profile) {
	w.t.Helper()
	l, err := w.net.Listen(local)
	if err != nil {
		w.t.Fatal(err)
	}
	server, err := simserver.New(p, simserver.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	w.t.Cleanup(func() { server.Close(); serving.Wait() })
}

// The same cells, measured over HTTP in virtual time and predicted by stepping the engine: client, server and engine agree.
// The contexts lie between multiples of the engine's chunk of 2,048 tokens, where a prompt that is a few tokens longer
// than its label costs no further step.
func TestARunOverTheSimulatedServerGivesWhatPredictGives(t *testing.T) {
	for _, name := range []string{"rtx3090-agents-a1-4b-fp8", "rtx3090-qwen3-coder-30b-a3b-awq"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				p, err := profile.Named(name)
				if err != nil {
					t.Fatal(err)
				}
				w.simulated(p)
				if code := w.main("run", "http://"+local, "--contexts", "0,3K,15K", "--concurrency", "1,4", "--prefill", "3K,7K,15K", "--salt", "s", "--out", "run"); code != 0 {
					t.Fatalf("exit %d\n%s", code, w.err.String())
				}
				dir, err := runfile.Open("run")
				if err != nil {
					t.Fatal(err)
				}
				measured, _, err := dir.LoadRun()
				if err != nil {
					t.Fatal(err)
				}
				predicted, err := predict.Predict(t.Context(), p, bench.Settings{Contexts: []int{0, 3 << 10, 15 << 10}, Concurrency: []int{1, 4},
					Prefill: []int{3 << 10, 7 << 10, 15 << 10}, Salt: "s"}, predict.Options{})
				if err != nil {
					t.Fatal(err)
				}
				worst := 0.0
				for i := range measured.Cells {
					worst = max(worst, sameNumbers(t, &measured.Cells[i], predicted))
				}
				t.Logf("largest difference %.2f %%", worst*100)
			})
		})
	}
}

// sameNumbers compares a measured cell with the predicted one: within 0.5 %, or a token per stream where those are more.
// The time of a prefill and a prompt's length go together, so prefill is compared by its speed.
func sameNumbers(t *testing.T, m *speedmatrix.Cell, predicted *speedmatrix.Run) (worst float64) {
	t.Helper()
	p := predicted.FindCell(m.Phase, m.Context, m.Concurrency)
	if p == nil || m.Status != p.Status {
		t.Errorf("%s: measured %s (%s), predicted %v", m.Key(), m.Status, m.Reason, p)
		return 0
	}
	compare := func(what string, a, b *float64, allowed float64) {
		if a == nil || b == nil {
			t.Errorf("%s: %s measured %v, predicted %v", m.Key(), what, a, b)
			return
		}
		off := math.Abs(*a / *b - 1)
		worst = max(worst, off)
		if off > allowed {
			t.Errorf("%s: %s measured %.2f, predicted %.2f, %.2f %% apart", m.Key(), what, *a, *b, off*100)
		}
	}
	if m.Phase == speedmatrix.PhasePrefill {
		compare("prompt tok/s", m.PromptTokensPerSecond, p.PromptTokensPerSecond, 0.005)
		return worst
	}
	perStream := float64(m.Concurrency) / *p.OutputTokens
	compare("total tok/s", m.TotalTokensPerSecond, p.TotalTokensPerSecond, max(0.005, perStream))
	compare("per request tok/s", m.PerRequestTokensPerSecond, p.PerRequestTokensPerSecond, max(0.005, perStream))
	compare("time between tokens", m.TimeBetweenTokens.P50, p.TimeBetweenTokens.P50, max(0.005, perStream))
	return worst
}
