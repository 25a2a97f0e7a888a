package trust

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
	"speedmatrix/internal/verify"
)

// good is a measured run in which every check passes: two contexts, four numbers of requests, prefill at one context. A step
// takes as long as reading 8 GB and each request's KV at 936 GB/s, twice over.
func good() Input {
	stated := func(v any) speedmatrix.Fact { return speedmatrix.Fact{Value: v, Source: "GET /version"} }
	run := &speedmatrix.Run{
		Schema: speedmatrix.Schema, ID: "20261130T201500Z-good", Origin: speedmatrix.OriginMeasured,
		Tool: speedmatrix.Tool{Name: "speedmatrix", Version: "0.1.0"}, StartedAt: time.Date(2026, 11, 30, 20, 15, 0, 0, time.UTC),
		Method: speedmatrix.Method{Name: speedmatrix.MethodStandard, Prompts: "distinct", KVPlan: "observe", MaxOutput: 8192, Repeat: 1},
		Model: speedmatrix.Facts{speedmatrix.ModelName: stated("Good-7B"), speedmatrix.ModelRevision: stated("0123456789abcdef"), speedmatrix.ModelMaxLength: stated(65536.0),
			speedmatrix.ModelReadBytes: stated(8e9), speedmatrix.ModelFLOP: stated(14e9), speedmatrix.ModelKVBytes: stated(1e5)},
		Hardware: speedmatrix.Facts{speedmatrix.HardwareGPU: stated("RTX 3090"), speedmatrix.HardwareVRAM: stated("24 GB")},
		Engine: speedmatrix.Facts{speedmatrix.EngineName: stated("vllm"), speedmatrix.EngineVersion: stated("0.32.0"), speedmatrix.EngineBuild: stated("vllm/vllm-openai:v0.32.0"),
			speedmatrix.EngineRunningLimit: stated(128.0), speedmatrix.EngineKVTokens: stated(200_000.0)},
		LaunchCommand: &speedmatrix.Fact{Value: "vllm serve org/Good-7B --max-model-len 65536", Source: "process"},
		Plan:          speedmatrix.Plan{Contexts: []int{0, 16384}, Concurrency: []int{1, 2, 4, 8}, Prefill: []int{16384}},
		Client:        speedmatrix.Client{StampErrorP99Micros: new(9.0)},
		Telemetry:     &speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfServer},
	}
	run.Cells = append(run.Cells, speedmatrix.Cell{Phase: speedmatrix.PhasePrefill, Context: 16384, ContextLabel: "16K", Concurrency: 1, Status: speedmatrix.StatusValid,
		PromptTokens: new(16384.0), CachedTokens: new(9.0), PromptTokensPerSecond: new(2048.0), TTFT: &speedmatrix.Distribution{P50: new(8000.0), N: 3}, TTFTKind: speedmatrix.TTFTCold})
	for _, context := range run.Plan.Contexts {
		for _, n := range run.Plan.Concurrency {
			run.Cells = append(run.Cells, goodCell(context, n))
		}
	}
	in := Input{Run: run, Recomputed: &verify.Report{Cells: 9, Numbers: 300}}
	in.describe()
	return in
}

// describe makes the entry of the run, owned by ada.
func (in *Input) describe() {
	e := catalog.Describe(in.Run)
	e.ID, e.Owner, e.OwnerName, e.EventsHash = "run-a", "ada", "ada", "rows-a"
	in.Entry = &e
}

func goodCell(context, n int) speedmatrix.Cell {
	step := 2 * (8e9 + float64(n*context)*1e5) / 936e9
	each := 1 / step
	total := each * float64(n)
	return speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Context: context, ContextLabel: unit.FormatTokens(context), Concurrency: n, Status: speedmatrix.StatusValid,
		TotalTokensPerSecond: &total, PerRequestTokensPerSecond: &each, Interval95: &speedmatrix.Interval{Low: total * 0.99, High: total * 1.01},
		TTFT: &speedmatrix.Distribution{P50: new(50.0), N: n}, TimeBetweenTokens: &speedmatrix.Distribution{P50: new(1000 * step), N: n},
		OutputTokens: new(total * 30), WindowSeconds: new(30.0), ActiveRequestsMean: new(float64(n)), QueuedShare: new(0.0),
		TokenSource: speedmatrix.TokensPerEventUsage, Throttle: &speedmatrix.Throttle{Verdict: speedmatrix.ThrottleNone, N: 60}}
}

// cell is a cell of the run.
func (in *Input) cell(context, n int) *speedmatrix.Cell {
	c := in.Run.FindCell(speedmatrix.PhaseDecode, context, n)
	if c == nil {
		panic(fmt.Sprintf("no cell %d × %d", context, n))
	}
	return c
}

// other is the entry of another's measurement of the same set-up, its totals so many times as high.
func other(in Input, owner string, factor float32) *catalog.Entry {
	e := *in.Entry
	e.ID, e.Owner, e.OwnerName, e.RunID, e.EventsHash, e.Level = "run-"+owner, owner, owner, "measured by "+owner, "rows-"+owner, catalog.SelfConsistent
	e.Cells = slices.Clone(e.Cells)
	for i := range e.Cells {
		e.Cells[i].Total *= factor
		e.Cells[i].Half *= factor
	}
	return &e
}

// found gives the check of a code; there is exactly one.
func found(t testing.TB, r Report, code string) Check {
	t.Helper()
	var list []Check
	for _, c := range r.Checks {
		if c.Code == code {
			list = append(list, c)
		}
	}
	if len(list) != 1 {
		t.Fatalf("%d checks are called %s: %+v", len(list), code, r.Checks)
	}
	return list[0]
}
