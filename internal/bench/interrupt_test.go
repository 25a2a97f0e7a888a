package bench_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/truth"
)

func small() bench.Settings {
	return bench.Settings{Contexts: []int{0, 1024}, Concurrency: []int{1, 2}, Prefill: []int{1024}}
}

func smallScript() truth.Script {
	return truth.Script{PrefixCache: true, Gap: every(20 * ms), PrefillPerToken: 2 * ms}
}

// at ends the run when a cell comes to a step.
func at(key string, step bench.Step) func(w *world, g bench.Glance) {
	return func(w *world, g bench.Glance) {
		if g.Key == key && g.Step == step && (step != bench.StepWindow || g.Share > 0.3) {
			w.cancel()
		}
	}
}

// An interruption in any step keeps what was measured and marks the rest; the run resumed then measures the rest
// alone, with fresh heads, and all of it agrees with the rows.
func TestAnInterruptionInEachStepAndTheResumedRun(t *testing.T) {
	for _, step := range []bench.Step{bench.StepDrain, bench.StepFill, bench.StepLaunch, bench.StepRamp, bench.StepWindow, bench.StepSettle, bench.StepStop, bench.StepEmpty} {
		for _, key := range []string{"decode-1k-x1", "decode-1k-x2"} {
			t.Run(key+" "+step.String(), func(t *testing.T) {
				s := setting{settings: small(), script: smallScript(), limits: bench.Limits{KVBlockTokens: 16}}
				s.glance = at(key, step)
				w := measure(t, s)
				if step == bench.StepLaunch && w.err == nil {
					t.Skip("nobody looked during the launch, which takes no time")
				}
				w.kept(t, w.run.FindCell(speedmatrix.PhaseDecode, 1024, int(key[len(key)-1]-'0')), step)
				s.glance = nil
				resumed := resume(t, s, w)
				for i := range resumed.run.Cells {
					if c := &resumed.run.Cells[i]; c.Status != speedmatrix.StatusValid {
						t.Errorf("resumed: %s is %s: %s", c.Key(), c.Status, c.Reason)
					}
				}
				if before := w.cell(0, 1).WindowStartedAt; !resumed.cell(0, 1).WindowStartedAt.Equal(*before) {
					t.Error("a cell that was measured was measured again")
				}
				resumed.verified()
			})
		}
	}
}

// kept wants what was measured before an interruption in a step of a cell.
func (w *world) kept(t *testing.T, c *speedmatrix.Cell, step bench.Step) {
	t.Helper()
	if speedmatrix.KindOf(w.err) != speedmatrix.KindInterrupted || w.run.Ended == "" {
		t.Fatalf("error %v, ended %q", w.err, w.run.Ended)
	}
	w.verified()
	want := speedmatrix.StatusInterrupted
	if step >= bench.StepSettle {
		want = speedmatrix.StatusValid
	}
	if c.Status != want {
		t.Errorf("%s: %s, want %s", c.Status, c.Reason, want)
	}
	if step >= bench.StepWindow && c.TotalTokensPerSecond == nil {
		t.Error("what the window measured is lost")
	}
	for _, done := range []int{1, 2} {
		if c := w.cell(0, done); c.Status != speedmatrix.StatusValid {
			t.Errorf("context 0 × %d is %s", done, c.Status)
		}
	}
}

// resume goes on with a run on a new server.
func resume(t *testing.T, s setting, before *world) (w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(before.sinceStart()) // so that the stamps of the two parts do not meet
		w = newWorld(t, s)
		plan := w.run.Plan
		*w.run = *before.run
		w.run.Plan = plan
		w.store.requests, w.store.events = before.store.requests, before.store.events
		w.session.Generation = 1
		w.session.Continue(before.store.server)
		w.finish(s)
		w.account = w.server.Account()
		w.server.Close()
	})
	w.t = t
	return w
}

// sinceStart is how long the run took, and a minute.
func (w *world) sinceStart() time.Duration { return w.run.FinishedAt.Sub(w.began) + time.Minute }

func TestAServerThatDiesEndsTheRunWithWhatWasMeasured(t *testing.T) {
	s := setting{settings: small(), script: smallScript(), limits: bench.Limits{KVBlockTokens: 16}}
	s.glance = func(w *world, g bench.Glance) {
		if g.Key == "decode-1k-x2" && g.Step == bench.StepWindow && g.Share > 0.5 {
			w.server.Close()
		}
	}
	w := measure(t, s)
	if speedmatrix.KindOf(w.err) != speedmatrix.KindMeasured || !strings.Contains(w.err.Error(), "stopped answering") {
		t.Errorf("the error is %v", w.err)
	}
	c := w.cell(1024, 2)
	if c.Status != speedmatrix.StatusFailed || c.FirstError == "" || c.TotalTokensPerSecond == nil || !strings.Contains(c.Reason, "%") {
		t.Errorf("%s: %s, first error %q", c.Status, c.Reason, c.FirstError)
	}
	if c := w.cell(1024, 1); c.Status != speedmatrix.StatusValid {
		t.Errorf("the cell before is %s", c.Status)
	}
	w.verified()
}

func TestAServerThatNeverAnswersFailsEveryCellInBoundedTime(t *testing.T) {
	s := setting{settings: small(), warm: true, script: truth.Script{Fail: from(0, truth.Failure{Kind: truth.FailSilent})}}
	w := measure(t, s)
	for i := range w.run.Cells {
		if c := &w.run.Cells[i]; c.Status != speedmatrix.StatusFailed || c.Reason == "" {
			t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
		}
	}
	if took := w.sinceStart(); took > time.Hour {
		t.Errorf("it took %v", took)
	}
	if len(w.warmUp.Warnings) == 0 {
		t.Error("the warm-up does not warn")
	}
	w.verified()
}

// Reuse of heads is observed: with a prefix cache the launches are warm, without one nothing is filled after the
// row's first launch, and launches are cold.
func TestReuseIsObservedAtTheFirstLaunch(t *testing.T) {
	for _, tt := range []struct {
		name          string
		cache, hidden bool
		kind          speedmatrix.TTFTKind
	}{
		{"cache", true, false, speedmatrix.TTFTWarm}, {"cache that does not tell", true, true, speedmatrix.TTFTWarm},
		{"no cache", false, false, speedmatrix.TTFTUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := smallScript()
			script.PrefixCache, script.HideCached = tt.cache, tt.hidden
			w := measure(t, setting{settings: bench.Settings{Contexts: []int{1024}, Concurrency: []int{1, 2, 4}, Prefill: []int{1024}},
				script: script, limits: bench.Limits{KVBlockTokens: 16}})
			w.verified()
			for _, c := range []int{1, 2, 4} {
				cell := w.cell(1024, c)
				if cell.Status != speedmatrix.StatusValid {
					t.Errorf("× %d: %s: %s", c, cell.Status, cell.Reason)
				}
				if cell.TTFTKind != tt.kind {
					t.Errorf("× %d: the TTFT is %s, want %s", c, cell.TTFTKind, tt.kind)
				}
				if fills := cell.StepSeconds.Fill; !tt.cache && c > 1 && fills > 0 {
					t.Errorf("× %d: %.1f s of fills without a cache", c, fills)
				}
			}
			if got := warned(w.cell(1024, 1), "no prefix reuse"); got == tt.cache {
				t.Errorf("warned of no reuse: %v", got)
			}
			want := 4
			if !tt.cache {
				want = 3
			}
			if n := len(w.prefill(1024).PrefillSamples); n != want {
				t.Errorf("%d samples, want %d", n, want)
			}
			if tt.hidden != warned(w.prefill(1024), "cold unproven") && tt.cache {
				t.Error("cold is proved by cached tokens, or it is said that it is not")
			}
		})
	}
}

// Heads that the server has seen before are no cold samples, and are said to be none.
func TestASampleFromTheCacheDoesNotCount(t *testing.T) {
	s := bench.Settings{Contexts: []int{1024}, Concurrency: []int{1, 4}, Prefill: []int{1024}, Prompts: "shared-prefix"}
	w := measure(t, setting{settings: s, script: smallScript(), limits: bench.Limits{KVBlockTokens: 16}})
	c := w.prefill(1024)
	if c.Status != speedmatrix.StatusValid || !warned(c, "not cold") {
		t.Errorf("%s: %s, %v", c.Status, c.Reason, c.Warnings)
	}
	if c.TTFT.N != 3 || *c.TTFT.Min < 1900 {
		t.Errorf("%d cold samples, the shortest %.0f ms", c.TTFT.N, *c.TTFT.Min)
	}
	w.verified()
}

func TestSharedPromptsAreFilledOnce(t *testing.T) {
	s := bench.Settings{Contexts: []int{1024}, Concurrency: []int{2, 4}, Prefill: []int{1024}, Prompts: "shared"}
	script := smallScript()
	script.KeepPrompts = true
	w := measure(t, setting{settings: s, script: script, limits: bench.Limits{KVBlockTokens: 16}})
	w.verified()
	if c := w.prefill(1024); c.TTFT.N != 3 || warned(c, "not cold") {
		t.Errorf("%d cold samples, %v", c.TTFT.N, c.Warnings)
	}
	seen := map[string]bool{}
	for _, r := range w.account.Requests {
		if seen[r.Prompt] {
			t.Fatalf("a prompt was sent twice: %.80s…", r.Prompt)
		}
		seen[r.Prompt] = true
	}
}

// Loops are tried again with other tails; a loop in the ramp restarts its stream; few looping streams are a warning.
func TestLoops(t *testing.T) {
	loop := func(which func(req, token int) bool) func(req, token int) string {
		return func(req, token int) string {
			if which(req, token) {
				return " over and over and over and over"
			}
			return truth.Word(req, token)
		}
	}
	tests := []struct {
		name     string
		text     func(req, token int) string
		status   speedmatrix.Status
		attempts int
		warned   bool
	}{
		{"all streams, always", loop(func(_, token int) bool { return token > 150 }), speedmatrix.StatusLooped, 3, false},
		{"once", loop(func(req, token int) bool { return req < 8 && token > 150 }), speedmatrix.StatusValid, 2, true},
		{"one of eight, always", loop(func(req, token int) bool { return req%8 == 1 && token > 150 }), speedmatrix.StatusValid, 3, true},
		{"in the ramp", loop(func(req, _ int) bool { return req == 0 }), speedmatrix.StatusValid, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// A request that never begins holds the ramp open until the loop is seen.
			script := truth.Script{Text: tt.text, Gap: every(10 * ms)}
			if tt.name == "in the ramp" {
				script.Gap = func(s truth.Step) time.Duration { return ms }
				script.PrefillBase = 300 * ms
			}
			w := measure(t, setting{settings: one(0, 8), script: script})
			c := w.cell(0, 8)
			if c.Status != tt.status || c.Attempts != tt.attempts {
				t.Errorf("%s after %d attempts: %s; want %s after %d", c.Status, c.Attempts, c.Reason, tt.status, tt.attempts)
			}
			if warned(c, "loops") != tt.warned {
				t.Errorf("warnings %v", c.Warnings)
			}
			if tt.status == speedmatrix.StatusLooped && (len(c.Loops) < 8 || c.Loops[0].Excerpt == "") {
				t.Errorf("%d pieces of evidence", len(c.Loops))
			}
			w.verified()
		})
	}
}

func TestASkippedCellIsSkippedAndTheRunGoesOn(t *testing.T) {
	for _, key := range []string{"decode-0-x1", "prefill-1k"} {
		s := setting{settings: small(), script: smallScript()}
		s.happened = func(w *world, e bench.Event) {
			if e.Event == bench.EventCell && e.Cell == key {
				time.AfterFunc(500*ms, w.driver.SkipCell)
			}
		}
		w := measure(t, s)
		if w.err != nil {
			t.Fatal(w.err)
		}
		skipped := 0
		for i := range w.run.Cells {
			if c := &w.run.Cells[i]; c.Status == speedmatrix.StatusSkipped {
				skipped++
				if c.Key() != key {
					t.Errorf("%s was skipped, want %s", c.Key(), key)
				}
			}
		}
		if want := map[bool]int{true: 1, false: 0}[key == "decode-0-x1"]; skipped != want {
			t.Errorf("%s: %d cells skipped, want %d", key, skipped, want)
		}
		w.verified()
	}
}

func TestARunDirectoryThatCannotBeWrittenEndsTheRun(t *testing.T) {
	s := setting{settings: small(), script: smallScript()}
	s.prepared = func(w *world) { w.store.fail = context.DeadlineExceeded }
	if w := measure(t, s); w.err == nil {
		t.Error("the run went on")
	}
}
