package report

import (
	"fmt"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

func user(value any) speedmatrix.Fact {
	return speedmatrix.Fact{Value: value, Source: speedmatrix.SourceUser}
}

func from(source string, value any) speedmatrix.Fact {
	return speedmatrix.Fact{Value: value, Source: source}
}

// baseRun is a run without cells.
func baseRun() *speedmatrix.Run {
	finished := time.Date(2026, 11, 30, 20, 27, 4, 0, time.UTC)
	return &speedmatrix.Run{
		Schema:    speedmatrix.Schema,
		ID:        "20261130T201500Z-agents-a1-4b-rtx3090-x7k2",
		Tool:      speedmatrix.Tool{Name: "speedmatrix", Version: "0.1.0"},
		Origin:    speedmatrix.OriginMeasured,
		StartedAt: time.Date(2026, 11, 30, 20, 15, 0, 0, time.UTC), FinishedAt: &finished,
		Method: speedmatrix.Method{
			Name: speedmatrix.MethodStandard, DurationSeconds: 30, MinWindowSeconds: 5, WindowTokens: 1024, MinTokens: 64, MaxExtension: 4,
			MaxOutput: 8192, Prompts: "distinct", Text: "public-domain prose", Temperature: "0.8", KVPlan: "observe", API: "chat", Repeat: 1,
		},
		Model: speedmatrix.Facts{
			speedmatrix.ModelName: user("Agents-A1-4B-FP8"), speedmatrix.ModelServedName: from("GET /v1/models", "bench"),
			speedmatrix.ModelQuantization: user("FP8"), speedmatrix.ModelRevision: user("main"), speedmatrix.ModelMaxLength: from("GET /v1/models", 262144.0),
		},
		Hardware: speedmatrix.Facts{
			speedmatrix.HardwareType: user("Discrete GPU"), speedmatrix.HardwareGPU: from("machine", "RTX 3090"), speedmatrix.HardwareVRAM: from("machine", "24 GB"),
			speedmatrix.HardwareCPU: from("machine", "AMD Ryzen 9 7900X (12C)"), speedmatrix.HardwareRAM: from("machine", "32 GB"),
			speedmatrix.HardwareOS: from("machine", "Ubuntu 24.04.5"),
		},
		Engine: speedmatrix.Facts{
			speedmatrix.EngineName: from("GET /version", "vLLM"), speedmatrix.EngineVersion: from("GET /version", "0.32.0"),
			speedmatrix.EngineKVTokens: from("GET /metrics", 459360.0), speedmatrix.EnginePrefixCaching: from("GET /metrics", true),
		},
		LaunchCommand: &speedmatrix.Fact{Value: "vllm serve InternScience/Agents-A1-4B-FP8 \\\n  --max-model-len 262144", Source: "process"},
		Server:        speedmatrix.Server{URL: "http://127.0.0.1:8000", API: "chat", SameMachine: true},
		Client: speedmatrix.Client{
			StampSource: "kernel", StampErrorP50Micros: new(3.0), StampErrorP99Micros: new(9.0), SelfCheckStreams: 128, SelfCheckRate: 12800,
		},
	}
}

// speedOfMatrix, by context and concurrency: total tok/s, each, TTFT and time between tokens in ms.
var speedOfMatrix = map[int][][4]float64{
	0: {{117.3, 117.5, 54, 8.5}, {225.7, 113.2, 71, 8.8}, {432.6, 108.7, 129, 9.2}, {788.5, 99.3, 213, 10.1},
		{1376.6, 86.9, 362, 11.5}, {2124.5, 66.7, 533, 15.0}},
	16 << 10:  {{109.1, 109.2, 53, 9.2}, {201.2, 100.7, 68, 9.9}, {375.5, 94.1, 105, 10.6}, {635.9, 79.6, 177, 12.6}, {955.0, 59.6, 354, 16.8}},
	32 << 10:  {{102.5, 102.6, 115, 9.7}, {180.9, 90.5, 153, 11.1}, {328.2, 82.1, 234, 12.2}, {518.9, 64.6, 391, 15.5}},
	64 << 10:  {{91.4, 91.5, 158, 10.9}, {150.7, 75.4, 206, 13.3}, {260.4, 65.0, 297, 15.4}},
	128 << 10: {{75.1, 75.1, 285, 13.3}, {113.2, 56.6, 347, 17.7}},
	248 << 10: {{56.2, 56.2, 600, 17.8}},
}

// fullRun is a complete run of 48 decode cells and 5 prefill sizes.
func fullRun() *speedmatrix.Run {
	run := baseRun()
	run.Plan = speedmatrix.Plan{
		Contexts:    []int{0, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 248 << 10},
		Concurrency: []int{1, 2, 4, 8, 16, 32, 64, 128},
		Prefill:     []int{8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10},
	}
	for i, x := range [][2]float64{{10800, 779}, {10004, 1639}, {9015, 3609}, {7505, 8616}, {5569, 23154}} {
		run.Cells = append(run.Cells, prefillCell(run.Plan.Prefill[i], x[0], x[1]))
	}
	for _, context := range run.Plan.Contexts {
		for i, c := range run.Plan.Concurrency {
			if i < len(speedOfMatrix[context]) {
				run.Cells = append(run.Cells, decodeCell(context, c, speedOfMatrix[context][i]))
				continue
			}
			run.Cells = append(run.Cells, stoppedCell(context, c, speedmatrix.StatusOverCapacity,
				fmt.Sprintf("%s prompts of %s need %s of 459,360 tokens", unit.Count(c), unit.FormatTokens(context), unit.Count(c*(context+16)))))
		}
	}
	run.Drift = &speedmatrix.Drift{Cell: decodeCell(0, 1, speedOfMatrix[0][0]), Change: new(-0.002)}
	run.Findings = []speedmatrix.Finding{{Code: "power_cap", Message: "GPU power cap during 38 % of the windows", Evidence: "350 W limit"}}
	return run
}

func prefillCell(context int, speed, ttft float64) speedmatrix.Cell {
	return speedmatrix.Cell{
		Phase: speedmatrix.PhasePrefill, ContextLabel: unit.FormatTokens(context), Context: context, Concurrency: 1, Status: speedmatrix.StatusValid,
		PromptTokens: new(float64(context + 5)), PromptTokensPerSecond: &speed, TTFT: &speedmatrix.Distribution{P50: &ttft, N: 1, Of: "requests"},
		TTFTKind: speedmatrix.TTFTCold, CompletedRequests: new(1),
		PrefillSamples: []speedmatrix.PrefillSample{{PromptTokens: float64(context + 5), TTFTMillis: ttft, Request: 1}},
	}
}

func decodeCell(context, concurrency int, x [4]float64) speedmatrix.Cell {
	tokens := x[0] * 30
	started := time.Date(2026, 11, 30, 20, 16, 7, 123456789, time.UTC)
	return speedmatrix.Cell{
		Phase: speedmatrix.PhaseDecode, ContextLabel: unit.FormatTokens(context), Context: context, Concurrency: concurrency,
		Status:        speedmatrix.StatusValid,
		ContextTokens: &speedmatrix.ContextTokens{Start: float64(context + 60), Mean: float64(context + 560), End: float64(context + 1084)},
		PromptTokens:  new(float64(context + 31)), CachedTokens: new(float64(context)),
		TotalTokensPerSecond: &x[0], Interval95: &speedmatrix.Interval{Low: x[0] * 0.997, High: x[0] * 1.003},
		PerRequestTokensPerSecond: &x[1],
		TTFT:                      &speedmatrix.Distribution{P50: &x[2], N: concurrency, Of: "requests"}, TTFTKind: speedmatrix.TTFTWarm,
		TimeBetweenTokens:  &speedmatrix.Distribution{P50: &x[3], N: concurrency, Of: "streams"},
		ActiveRequestsMean: new(float64(concurrency)), CompletedRequests: new(0), FailedRequests: new(0),
		Requests:     &speedmatrix.RequestCounts{Sent: concurrency, Cut: concurrency},
		OutputTokens: &tokens, TokenSource: speedmatrix.TokensPerEventUsage, WindowStartedAt: &started, WindowSeconds: new(30.0),
		QueuedShare: new(0.0), Preemptions: new(0), StepSeconds: &speedmatrix.StepSeconds{Drain: 0.5, Ramp: 1.5, Window: 30, Stop: 0.25},
		TokensPerEvent: new(1.0), Attempts: 1,
		CounterCheck: &speedmatrix.CounterCheck{
			Counter: "vllm:generation_tokens_total", SpanSeconds: 28, UncertaintySeconds: 0.02, ServerTokens: tokens, ClientTokens: tokens * 1.0005,
		},
		Client: &speedmatrix.ClientQuality{
			StampSource: "kernel", EventsPerRead: new(1.0), CoalescedShare: new(0.0), ReaderLagP99Micros: new(140.0), CPUShare: new(0.06),
		},
	}
}

func stoppedCell(context, concurrency int, status speedmatrix.Status, reason string) speedmatrix.Cell {
	return speedmatrix.Cell{
		Phase: speedmatrix.PhaseDecode, ContextLabel: unit.FormatTokens(context), Context: context, Concurrency: concurrency,
		Status: status, Reason: reason,
	}
}

// everyStatusRun has one cell of each status; those that were attempted keep what was measured.
func everyStatusRun() *speedmatrix.Run {
	run := baseRun()
	run.Plan = speedmatrix.Plan{Contexts: []int{4 << 10, 64 << 10}, Concurrency: []int{1, 2, 4, 8, 16, 32}, Prefill: []int{4 << 10, 64 << 10}}
	reasons := map[speedmatrix.Status]string{
		speedmatrix.StatusSkipped:            "--max-time 10m",
		speedmatrix.StatusInterrupted:        "Ctrl-C in the ramp",
		speedmatrix.StatusExceedsModelLength: "65,536 + 512 tokens need more than the model's 65,536",
		speedmatrix.StatusOverCapacity:       "the engine preempted 3 requests with the KV cache at 100 %",
		speedmatrix.StatusFailed:             "9 of 32 requests failed (28 %); first: HTTP 500: CUDA out of memory. Tried to allocate 1.20 GiB",
		speedmatrix.StatusClientLimited:      "reader lag p99 7.3 ms against a median gap of 8.1 ms",
		speedmatrix.StatusLooped:             "2 of 4 streams repeated themselves, in 3 attempts",
		speedmatrix.StatusRequestsQueued:     "requests waited for 31 % of the window",
		speedmatrix.StatusNotReady:           "13 of 16 streams were producing after 74 s",
	}
	for i, status := range append(speedmatrix.Statuses(), "") {
		c := decodeCell([]int{4 << 10, 64 << 10}[i/6], run.Plan.Concurrency[i%6], [4]float64{98765.4, 12345.6, 4321, 77.7})
		c.Status, c.Reason = status, reasons[status]
		if status != "" {
			run.Cells = append(run.Cells, c)
		}
	}
	failed := prefillCell(64<<10, 9999, 1)
	failed.Status, failed.Reason = speedmatrix.StatusFailed, "connection reset"
	run.Cells = append(run.Cells, prefillCell(4<<10, 3531, 2337), failed)
	run.Ended = "interrupted by the user"
	run.Warnings = []speedmatrix.Warning{{Code: "clock_step", Message: "the wall clock stepped by 3 ms"}}
	for i := range run.Cells {
		run.Cells[i].Warnings = append(run.Cells[i].Warnings, speedmatrix.Warning{Code: "shared_server", Message: "others' requests ran beside ours"})
		run.Cells[i].Warnings = append(run.Cells[i].Warnings, speedmatrix.Warning{Code: "underfilled", Message: fmt.Sprintf("only %d.5 requests ran", i)})
	}
	return run
}

func oneCellRun() *speedmatrix.Run {
	run := baseRun()
	run.Plan = speedmatrix.Plan{Contexts: []int{0}, Concurrency: []int{1}}
	run.Cells = []speedmatrix.Cell{decodeCell(0, 1, speedOfMatrix[0][0])}
	run.Model, run.Hardware, run.Engine, run.LaunchCommand = nil, nil, nil, nil
	run.Origin, run.Tool, run.Client = speedmatrix.OriginPredicted, speedmatrix.Tool{Name: "speedmatrix"}, speedmatrix.Client{}
	run.Cells[0].Client, run.Cells[0].CounterCheck, run.Cells[0].Interval95 = nil, nil, nil
	return run
}

// wideRun is 12 contexts × 10 concurrencies, with fast cells.
func wideRun() *speedmatrix.Run {
	run := baseRun()
	for i := range 12 {
		run.Plan.Contexts = append(run.Plan.Contexts, i*12<<10)
	}
	for i := range 10 {
		run.Plan.Concurrency = append(run.Plan.Concurrency, 1<<i)
	}
	for _, context := range run.Plan.Contexts {
		for i, c := range run.Plan.Concurrency {
			if context > 100<<10 && c > 64 {
				run.Cells = append(run.Cells, stoppedCell(context, c, speedmatrix.StatusOverCapacity, "too much"))
				continue
			}
			each := 130 / (1 + float64(context)/2e5 + float64(c)/100)
			run.Cells = append(run.Cells, decodeCell(context, c, [4]float64{each * float64(c), each, 50 + 10*float64(i), 1000 / each}))
		}
	}
	return run
}

// hostileText tries to leave its place: escape sequences, lines, direction, tables, markup, formulas.
const hostileText = "=cmd|'/c calc'!A1\x1b[2J\x1b]0;owned\a\r\n\t| a | **b** `c` <script>alert(1)</script> [x](http://e) \u202eright\u2066 \u0085\u009b31m \xff世界 e\u0301 \u200bend"
