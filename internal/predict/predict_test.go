package predict

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/verify"
)

func predicted(t testing.TB, p *profile.Profile, s bench.Settings, o Options) *speedmatrix.Run {
	t.Helper()
	run, err := Predict(t.Context(), p, s, o)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func encoded(t *testing.T, run *speedmatrix.Run) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := runfile.Encode(&out, run); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The whole default matrix by the standard method, fills and drift cell included: 27.3 and 11.0 minutes by a hand
// calculation from the step times.
func TestTheStandardMatrixTakesAsLongAsCalculatedByHand(t *testing.T) {
	for name, minutes := range map[string]float64{awq: 27.3, fp8: 11.0} {
		run := predicted(t, named(t, name), bench.Settings{}, Options{})
		got := VirtualTime(run).Minutes()
		t.Logf("%s: %.1f minutes", name, got)
		if math.Abs(got/minutes-1) > 0.1 {
			t.Errorf("%s takes %.1f minutes, by hand %.1f", name, got, minutes)
		}
		if run.Drift == nil || run.Drift.Cell.Status != speedmatrix.StatusValid || run.Drift.Significant {
			t.Errorf("%s: drift %+v", name, run.Drift)
		}
		for i := range run.Cells {
			c := &run.Cells[i]
			if c.Status != speedmatrix.StatusValid && c.Status != speedmatrix.StatusOverCapacity {
				t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
			}
			if c.Status == speedmatrix.StatusValid && len(c.Warnings) > 0 {
				t.Errorf("%s: %v", c.Key(), c.Warnings)
			}
			if c.Phase == speedmatrix.PhasePrefill && *c.CachedTokens > 0 {
				t.Errorf("%s found %g tokens in the cache", c.Key(), *c.CachedTokens)
			}
		}
	}
}

// The document is one that every other command reads, and its numbers follow from its raw rows.
func TestAPredictionIsAnOrdinaryRun(t *testing.T) {
	dir, err := runfile.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	settings := bench.Settings{Contexts: []int{0, 4096}, Concurrency: []int{1, 3}, Prefill: []int{2048, 4096}, Repeat: 2}
	run := predicted(t, named(t, fp8), settings, Options{Noise: 0.01, Seed: 3, Store: dir, Tool: speedmatrix.Tool{Name: "speedmatrix"}})
	data := encoded(t, run)
	if err := runfile.Validate(data); err != nil {
		t.Error(err)
	}
	again, err := runfile.DecodeStrict(data)
	if err != nil {
		t.Fatal(err)
	}
	if again.Origin != speedmatrix.OriginPredicted || again.Hardware.Text(speedmatrix.HardwareGPU) != "RTX 3090" || len(again.Repeats) != 1 {
		t.Errorf("origin %q, hardware %v, %d repeats", again.Origin, again.Hardware, len(again.Repeats))
	}
	report, err := verify.Check(again, dir)
	if err != nil {
		t.Fatal(err)
	}
	if report.Numbers < 100 || len(report.Disagreements) > 0 {
		t.Errorf("%d numbers recomputed, disagreements %v", report.Numbers, report.Disagreements)
	}
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	settings := bench.Settings{Contexts: []int{0, 8192}, Concurrency: []int{1, 8}}
	for _, mode := range []prompt.Mode{prompt.ModeDistinct, prompt.ModeShared, prompt.ModeSharedPrefix} {
		settings.Prompts = mode
		a := encoded(t, predicted(t, named(t, awq), settings, Options{Noise: 0.005, Seed: 1}))
		b := encoded(t, predicted(t, named(t, awq), settings, Options{Noise: 0.005, Seed: 1}))
		other := encoded(t, predicted(t, named(t, awq), settings, Options{Noise: 0.005, Seed: 2}))
		if !bytes.Equal(a, b) || bytes.Equal(a, other) {
			t.Errorf("%s: the seed does not decide the document", mode)
		}
	}
}

// Heads that streams share are read once by the engine, so they decode faster than heads of their own.
func TestPromptsOfEachModeShareWhatTheySay(t *testing.T) {
	speed := map[prompt.Mode]float64{}
	for _, mode := range []prompt.Mode{prompt.ModeDistinct, prompt.ModeSharedPrefix, prompt.ModeShared} {
		run := predicted(t, named(t, awq), bench.Settings{Contexts: []int{16384}, Concurrency: []int{4}, Prompts: mode, NoPrefill: true}, Options{})
		c := &run.Cells[0]
		if c.Status != speedmatrix.StatusValid {
			t.Fatalf("%s: %s: %s", mode, c.Status, c.Reason)
		}
		if want := 16384.0; *c.PromptTokens != want || c.TTFTKind != speedmatrix.TTFTWarm {
			t.Errorf("%s: prompts of %g tokens, %s", mode, *c.PromptTokens, c.TTFTKind)
		}
		speed[mode] = *c.TotalTokensPerSecond
	}
	if !(speed[prompt.ModeDistinct] < speed[prompt.ModeSharedPrefix] && speed[prompt.ModeSharedPrefix] < speed[prompt.ModeShared]) {
		t.Errorf("%v", speed)
	}
}

// A machine with little KV cache is asked for more than it holds: the engine preempts, and the cell says so.
func TestAMachineThatRunsOutOfMemoryIsOverCapacity(t *testing.T) {
	p := named(t, awq)
	p.KV.Blocks, p.Model.MaxLengthTokens = 600, 9000
	run := predicted(t, p, bench.Settings{Contexts: []int{2048}, Concurrency: []int{1, 4, 8}, NoPrefill: true}, Options{})
	want := []speedmatrix.Status{speedmatrix.StatusValid, speedmatrix.StatusOverCapacity, speedmatrix.StatusOverCapacity}
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Status != want[i] {
			t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
		}
	}
	if c := &run.Cells[1]; c.Preemptions == nil || *c.Preemptions == 0 {
		t.Errorf("%s: preemptions %v", c.Key(), c.Preemptions)
	}
}

// More requests than the engine runs at once wait in its queue.
func TestRequestsBeyondTheRunningLimitAreQueued(t *testing.T) {
	p := named(t, fp8)
	p.Scheduler.MaxRunning = 4
	run := predicted(t, p, bench.Settings{Contexts: []int{1024}, Concurrency: []int{4, 8}, MaxOutput: 4096, NoPrefill: true}, Options{})
	if run.Cells[0].Status != speedmatrix.StatusValid || run.Cells[1].Status != speedmatrix.StatusRequestsQueued {
		t.Errorf("%s and %s: %s", run.Cells[0].Status, run.Cells[1].Status, run.Cells[1].Reason)
	}
}

// Streams whose answers end restart in the window, warm, without a pause.
func TestStreamsRestartWhenAnAnswerEnds(t *testing.T) {
	run := predicted(t, named(t, fp8), bench.Settings{Contexts: []int{4096}, Concurrency: []int{2}, MaxOutput: 128, NoPrefill: true}, Options{})
	c := &run.Cells[0]
	if c.Status != speedmatrix.StatusValid || *c.CompletedRequests < 10 || c.Requests.Completed+c.Requests.Cut != c.Requests.Sent {
		t.Errorf("%s %s: %d completed, %+v", c.Status, c.Reason, *c.CompletedRequests, c.Requests)
	}
}

func TestAnInterruptedPredictionKeepsItsCells(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := 0
	tell := func(e bench.Event) {
		if e.Event == bench.EventDone {
			if done++; done == 2 {
				cancel()
			}
		}
	}
	run, err := Predict(ctx, named(t, fp8), bench.Settings{Contexts: []int{0}, Concurrency: []int{1, 2, 4, 8}}, Options{Tell: tell})
	if speedmatrix.KindOf(err) != speedmatrix.KindInterrupted {
		t.Fatalf("error %v", err)
	}
	if run.FindCell(speedmatrix.PhaseDecode, 0, 2).Status != speedmatrix.StatusValid || run.FindCell(speedmatrix.PhaseDecode, 0, 8).Status != speedmatrix.StatusInterrupted {
		t.Error("the cells do not say what was measured")
	}
}

func TestWhatCannotBePredictedIsRefused(t *testing.T) {
	p := named(t, awq)
	if _, err := Predict(t.Context(), p, bench.Settings{Concurrency: []int{0}}, Options{}); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
		t.Errorf("no requests at once: %v", err)
	}
	p.StepTime.BaseMS = 0
	var e *speedmatrix.Error
	if _, err := Predict(t.Context(), p, bench.Settings{}, Options{}); !errors.As(err, &e) || !strings.Contains(e.What, p.Name) {
		t.Errorf("a machine without step times: %v", err)
	}
}

func TestTheStartIsTheCallers(t *testing.T) {
	start := time.Date(2026, 11, 30, 20, 15, 0, 0, time.UTC)
	run := predicted(t, named(t, fp8), bench.Settings{Contexts: []int{0}, Concurrency: []int{1}, NoPrefill: true}, Options{Start: start})
	if !run.StartedAt.Equal(start) || run.ID != "20261130T201500Z-rtx3090-agents-a1-4b-fp8-predicted" || !run.Cells[0].WindowStartedAt.After(start) {
		t.Errorf("%s started at %s, its window at %s", run.ID, run.StartedAt, run.Cells[0].WindowStartedAt)
	}
}

// The whole default matrix of 54 cells.
func BenchmarkMatrix54(b *testing.B) {
	for _, name := range []string{awq, fp8} {
		b.Run(name, func(b *testing.B) {
			p := named(b, name)
			for b.Loop() {
				if run := predicted(b, p, bench.Settings{}, Options{}); len(run.Cells) != 54 {
					b.Fatalf("%d cells", len(run.Cells))
				}
			}
		})
	}
}
