package catalog_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/catalog"
)

func fact(v any) speedmatrix.Fact { return speedmatrix.Fact{Value: v, Source: "user"} }

func measured(total float64) speedmatrix.Cell {
	return speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, ContextLabel: "16K", Context: 16384, Concurrency: 8, Status: speedmatrix.StatusValid, TotalTokensPerSecond: new(total),
		PerRequestTokensPerSecond: new(total / 8), TTFT: &speedmatrix.Distribution{P50: new(2 * total)}, Interval95: &speedmatrix.Interval{Low: total - 1, High: total + 1}}
}

func exampleRun() *speedmatrix.Run {
	return &speedmatrix.Run{ID: "own", Origin: speedmatrix.OriginImported, Tool: speedmatrix.Tool{Name: "tool", Version: "1"}, StartedAt: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC), Method: speedmatrix.Method{Name: "standard/1"},
		Model:    speedmatrix.Facts{speedmatrix.ModelName: fact("org/Qwen3-8B"), speedmatrix.ModelRevision: fact("sha256:0123456789abcdef"), speedmatrix.ModelQuantization: fact("FP8")},
		Hardware: speedmatrix.Facts{speedmatrix.HardwareGPU: fact("RTX 3090"), speedmatrix.HardwareGPUCount: fact(2.0), speedmatrix.HardwareVRAM: fact("24 GB")},
		Engine:   speedmatrix.Facts{speedmatrix.EngineName: fact("TensorRT-LLM"), speedmatrix.EngineVersion: fact("1.2"), speedmatrix.EngineSpeculative: fact("off")},
		Cells: []speedmatrix.Cell{measured(100), {Phase: speedmatrix.PhaseDecode, ContextLabel: "32K", Context: 32768, Concurrency: 8, Status: speedmatrix.StatusLooped, TotalTokensPerSecond: new(3.0)},
			{Phase: speedmatrix.PhasePrefill, ContextLabel: "16K", Context: 16384, PromptTokensPerSecond: new(9000.0)}}}
}

func TestADocumentBecomesAnEntry(t *testing.T) {
	e := catalog.Describe(exampleRun())
	if e.Model != "Qwen3-8B" || e.ModelKey != "qwen3-8b" || e.Weights != "0123456789abcdef" || e.Hardware != "2 × RTX 3090 24GB" || e.HardwareKey != "2x-rtx-3090-24gb" ||
		e.Engine != "TensorRT-LLM" || e.EngineVersion != "1.2" || e.Speculative != "" || e.Modified != "" || e.Repeats != 1 || e.Source != "tool 1" || e.RunID != "own" {
		t.Errorf("%+v", e)
	}
	c := e.Cells[0]
	if c.Total != 100 || c.Half != 1 || c.PerRequest != 12.5 || c.TTFT != 200 || !math.IsNaN(float64(c.Between)) || !math.IsNaN(float64(e.Cells[1].Total)) || e.Prefill[0].TokensPerSecond != 9000 {
		t.Errorf("%+v %+v", e.Cells, e.Prefill)
	}
	for value, want := range map[string]string{"main": "", "0123456789ab": "0123456789ab", "sha256:main": ""} {
		run := exampleRun()
		run.Model[speedmatrix.ModelRevision] = fact(value)
		if got := catalog.Describe(run).Weights; got != want {
			t.Errorf("revision %s: weights %q, want %q", value, got, want)
		}
	}
}

func TestNamesArePlainTextOfBoundedLength(t *testing.T) {
	run := exampleRun()
	run.Model[speedmatrix.ModelName], run.Engine[speedmatrix.EngineVersion] = fact("a\x1b[2J\u202e b\r\n\xffc"+strings.Repeat("d", 1000)), fact(" \t")
	e := catalog.Describe(run)
	if !strings.HasPrefix(e.Model, "a [2J b cd") || len(e.Model) > 200 || e.EngineVersion != "" {
		t.Errorf("%q %q", e.Model, e.EngineVersion)
	}
}

// The numbers of a cell that was measured again are medians, with the interval of their mean by Student's t: 4.303 × 10 ÷ √3 for
// 90, 100 and 110.
func TestRepeatsBecomeMediansWithStudentsInterval(t *testing.T) {
	run := exampleRun()
	failed := measured(1)
	failed.Status = speedmatrix.StatusFailed
	run.Repeats = []speedmatrix.Repeat{{Cells: []speedmatrix.Cell{measured(90)}}, {Cells: []speedmatrix.Cell{measured(110)}}, {Cells: []speedmatrix.Cell{failed}}}
	e := catalog.Describe(run)
	c := e.Cells[0]
	if e.Repeats != 4 || c.Total != 100 || c.PerRequest != 12.5 || c.TTFT != 200 || math.Abs(float64(c.Half)-24.8414) > 0.001 {
		t.Errorf("repeats %d, %+v", e.Repeats, c)
	}
}

func TestChangedHardwareAndFlagsAreSeen(t *testing.T) {
	for _, tt := range []struct {
		command, want string
		limit         float64
		flags         []string
	}{
		{"vllm serve m --kv-cache-dtype fp8 -tp=2 \\\n --enable-x --temp -1.5", "", 350, []string{"--kv-cache-dtype fp8", "-tp=2", "--enable-x", "--temp -1.5"}},
		{"gpu-unlock && vllm serve m", "modified card, unlocked", 350, nil},
		{"vllm serve m", "power limit raised to 400 W", 400, nil}, {"vllm serve m", "power limit lowered to 250 W", 250, nil},
	} {
		run := exampleRun()
		run.LaunchCommand = new(fact(tt.command))
		run.Hardware[speedmatrix.HardwareGPUPowerLimit], run.Hardware[speedmatrix.HardwareGPUPowerDefault] = fact(tt.limit), fact(350.0)
		e := catalog.Describe(run)
		if e.Modified != tt.want || !slices.Equal(e.Flags, tt.flags) {
			t.Errorf("%q: %q, flags %q", tt.command, e.Modified, e.Flags)
		}
	}
	run := exampleRun()
	run.Engine[speedmatrix.EngineSimulated] = fact("rtx3090-x")
	e := catalog.Describe(run)
	if got := e.Incomparable(); got != "simulated engine" {
		t.Errorf("a simulated engine does not compare because of %q", got)
	}
	for value, want := range map[any]string{"eagle 3": "eagle 3", "None": "", false: "", true: "true"} {
		run := exampleRun()
		run.Engine[speedmatrix.EngineSpeculative] = fact(value)
		if got := catalog.Describe(run).Speculative; got != want {
			t.Errorf("speculative decoding %v: %q, want %q", value, got, want)
		}
	}
}
