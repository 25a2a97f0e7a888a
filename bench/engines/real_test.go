// Package engines holds the tests that measure a real engine.
package engines

import (
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/need"
	"speedmatrix/internal/runfile"
)

// measure runs the program against the server and gives the run's document.
func measure(t *testing.T, program, url string, args ...string) *speedmatrix.Run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(program, append([]string{"run", url, "--out", out, "--quick"}, args...)...)
	text, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", cmd, text)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if text, err := exec.Command(program, "verify", out).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, text)
	}
	dir, err := runfile.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	run, warnings, err := dir.LoadRun()
	if err != nil || len(warnings) > 0 {
		t.Fatalf("the document: %v, warnings %v", err, warnings)
	}
	return run
}

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "speedmatrix")
	if text, err := exec.Command("go", "build", "-o", program, "speedmatrix/cmd/speedmatrix").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	return program
}

// agrees checks a measured decode cell against the engine's own live counter: within 0.2 % or a token per stream,
// and one more for each second that a scrape may lie beside the instant.
func agrees(t *testing.T, c *speedmatrix.Cell) {
	t.Helper()
	k := c.CounterCheck
	if k == nil {
		t.Errorf("%s: no engine counter to compare with", c.Key())
		return
	}
	allowed := max(0.002*k.ServerTokens, float64(c.Concurrency)) + k.UncertaintySeconds/k.SpanSeconds*k.ServerTokens
	if math.Abs(k.ClientTokens-k.ServerTokens) > allowed {
		t.Errorf("%s: %.0f tokens counted, the engine's %s moved by %.0f, %.1f apart allowed", c.Key(), k.ClientTokens, k.Counter, k.ServerTokens, allowed)
	}
}

func TestRealLlamaCppAgreesWithItsOwnCounters(t *testing.T) {
	url, program := need.Setting(t, need.LlamaCPP), build(t)
	run := measure(t, program, url, "--contexts", "0,256,1K", "--prefill", "256,1K", "--concurrency", "1,2,4")
	measured := 0
	for i := range run.Cells {
		c := &run.Cells[i]
		switch {
		case c.Phase == speedmatrix.PhasePrefill:
			if c.Status != speedmatrix.StatusValid || c.TTFTKind != speedmatrix.TTFTCold || c.CachedTokens == nil ||
				*c.CachedTokens > float64(run.Server.Habits.TemplateTokens+16) {
				t.Errorf("%s: %s, %s, %v tokens cached; want a Valid cold sample (%s)", c.Key(), c.Status, c.TTFTKind, c.CachedTokens, c.Reason)
			}
		case c.Status == speedmatrix.StatusValid:
			measured++
			agrees(t, c)
			if c.PromptTokens == nil || c.Context > 0 && math.Abs(*c.PromptTokens-float64(c.Context)) > max(0.005*float64(c.Context), 8) {
				t.Errorf("%s: prompts of %v tokens", c.Key(), c.PromptTokens)
			}
			if c.Context >= 1024 && c.TTFTKind != speedmatrix.TTFTWarm {
				t.Errorf("%s: the launch was %s, want warm: the row's heads were filled", c.Key(), c.TTFTKind)
			}
		case c.Status != speedmatrix.StatusLooped:
			t.Errorf("%s: %s: %s", c.Key(), c.Status, c.Reason)
		}
	}
	// A small model may loop now and then, but not everywhere.
	if measured < 6 {
		t.Errorf("%d of 9 decode cells were Valid", measured)
	}
}

func TestRealLlamaCppQueuesBeyondItsSlots(t *testing.T) {
	url, program := need.Setting(t, need.LlamaCPP), build(t)
	run := measure(t, program, url, "--contexts", "0", "--prefill", "none", "--concurrency", "4,7")
	room, crowd := run.FindCell(speedmatrix.PhaseDecode, 0, 4), run.FindCell(speedmatrix.PhaseDecode, 0, 7)
	if !slices.Contains([]speedmatrix.Status{speedmatrix.StatusValid, speedmatrix.StatusLooped}, room.Status) {
		t.Errorf("4 requests on 4 slots: %s: %s", room.Status, room.Reason)
	}
	if crowd.Status != speedmatrix.StatusRequestsQueued || crowd.QueuedShare == nil || *crowd.QueuedShare < 0.5 ||
		!strings.Contains(crowd.Reason, "% of the window") {
		t.Errorf("7 requests on 4 slots: %s: %s, share %v", crowd.Status, crowd.Reason, crowd.QueuedShare)
	}
}
