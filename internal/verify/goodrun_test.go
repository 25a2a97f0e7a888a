package verify

import (
	"cmp"
	"slices"
	"time"

	"speedmatrix"
)

// goodRun is a run of one decode and one prefill cell, a drift and a repeat; every
// number in it was computed by hand from the rows.
func goodRun() (*speedmatrix.Run, *memory) {
	rows := newMemory()
	run := &speedmatrix.Run{
		Schema: speedmatrix.Schema, Origin: speedmatrix.OriginMeasured,
		Method: speedmatrix.Method{Name: speedmatrix.MethodStandard, MaxOutput: 8192},
		Engine: speedmatrix.Facts{speedmatrix.EngineKVBlockTokens: {Value: 16.0, Source: "GET /metrics"}},
		Plan:   speedmatrix.Plan{Contexts: []int{1024}, Concurrency: []int{2}, Prefill: []int{1024}},
	}
	run.Server.Habits.TemplateTokens = 9
	decode := goodDecode()
	for _, prefix := range []string{"", "drift-", "repeat-2-"} {
		decodeRows(rows, prefix+decode.Key())
	}
	goodScrapes(rows, decode.Key())
	rows.machine = goodMachine()
	run.Cells = []speedmatrix.Cell{goodPrefill(), decode}
	prefillRows(rows, run.Cells[0].Key())

	again := goodDecode()
	// The scrapes stand once in the file, under the key of the first measurement.
	again.Status, again.Reason = speedmatrix.StatusRequestsQueued, "waited"
	run.Drift = &speedmatrix.Drift{Cell: again, Change: new(0.0)}
	run.Repeats = []speedmatrix.Repeat{{Index: 2, Cells: []speedmatrix.Cell{again}}}
	return run, rows
}

// decodeRows: stream 0 gets a token every 100 ms in one request; stream 1 three tokens
// every 200 ms, first as reasoning, in a request that completes and one that is cut.
func decodeRows(rows *memory, key string) {
	r0 := launch(0, 0, 10)
	r0.PromptTokens, r0.CachedTokens = whole(1001), whole(900)
	r0.SendNS, r0.ConnectNS = new(int64(2_000_000)), new(int64(500_000))
	rows.put(key, r0, counted(1, every(210, 100, 60, 4))...)

	r1 := completedAt(launch(1, 1, 22), 3020, 45)
	r1.PromptTokens, r1.CachedTokens = whole(1000), whole(904)
	r1.SendNS, r1.Replays = new(int64(4_000_000)), 1
	list := counted(3, every(212, 200, 15, 12))
	list[0].Channel, list[1].Channel = "reasoning", "reasoning"
	rows.put(key, r1, list...)

	// It does not tell its prompt tokens, as it was cut.
	rows.put(key, restart(2, 1, 3050), counted(3, every(3112, 200, 15, 12))...)
}

// goodScrapes: 2, 2, 1 and 2 running, waiting in the parts that begin at 1,210 and 4,000 ms.
func goodScrapes(rows *memory, key string) {
	for i, middle := range []float64{1000, 2000, 3000, 4000, 5000, 6000} {
		s := scrape(key, middle)
		s.Running, s.Waiting = new([]float64{2, 2, 2, 1, 2, 7}[i]), new([]float64{0, 1, 0, 2, 0, 5}[i])
		s.Preemptions = new(3.0)
		s.GenerationTokens = new(26 * middle / 1000)
		s.Drafts, s.DraftsAccepted = new(100+10*float64(i)), new(50+15*float64(i))
		rows.server = append(rows.server, s)
	}
	failed := scrape(key, 3500)
	failed.Error = "connection refused"
	rows.server = append(rows.server, failed)
}

// goodMachine: GPU 0 is sampled every 500 ms and tells its power; GPU 1 has a counter of energy and was idle once.
func goodMachine() []speedmatrix.MachineRow {
	gpu := func(index int32, at float64) speedmatrix.MachineRow {
		return speedmatrix.MachineRow{TimeNS: ms(at), GPU: &index, Utilization: new(1.0)}
	}
	before := gpu(0, 1210) // the window begins after it
	before.Power, before.Clock, before.PowerCap, before.Thermal, before.HardwareSlowdown = new(9999.0), new(9999.0), new(true), new(true), new(true)
	rows := []speedmatrix.MachineRow{{TimeNS: ms(1000), CPUBusy: new(0.5)}, before}
	for i := range 8 {
		r := gpu(0, 1710+500*float64(i))
		r.Power, r.Clock = new(100+100*float64(i)), new(1900-10*float64(i))
		r.PowerCap, r.Thermal, r.HardwareSlowdown = new(i < 3), new(false), new(false)
		rows = append(rows, r)
	}
	one, two, three := gpu(1, 1500), gpu(1, 3500), gpu(1, 5000)
	one.Energy, two.Energy, three.Energy = new(1000.0), new(1400.0), new(1700.0)
	one.Clock, two.Clock, three.Clock = new(1500.0), new(300.0), new(1200.0)
	two.Utilization, two.PowerCap, two.Thermal, two.HardwareSlowdown = new(0.0), new(true), new(true), new(true)
	three.PowerCap, three.Thermal, three.HardwareSlowdown = new(false), new(false), new(false)
	rows = append(rows, one, two, three)
	slices.SortStableFunc(rows, func(a, b speedmatrix.MachineRow) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	return rows
}

func goodDecode() speedmatrix.Cell {
	return speedmatrix.Cell{
		Phase: speedmatrix.PhaseDecode, ContextLabel: "1K", Context: 1024, Concurrency: 2,
		Status: speedmatrix.StatusRequestsQueued, Reason: "requests waited for 70 % of the window",
		// Start: 1001 + 11 and 1000 + 15. End: 1001 + 51 and 1000.5 + 33.
		ContextTokens: &speedmatrix.ContextTokens{Start: 1013.5, Mean: 105855.5 / 103, End: 1042.75},
		PromptTokens:  new(1000.5), CachedTokens: new(902.0),
		TotalTokensPerSecond: new(25.75),
		// Of about 125 ms each, which alternate too much to be merged.
		Interval95:                &speedmatrix.Interval{Low: 21.87992617034459, High: 29.62007382965541},
		PerRequestTokensPerSecond: new(12.5),
		TTFT:                      &speedmatrix.Distribution{P50: new(195.0), Min: new(190.0), Max: new(200.0), Mean: new(195.0), N: 2, Of: "requests"},
		TTFTKind:                  speedmatrix.TTFTWarm,
		VisibleTTFT:               &speedmatrix.Distribution{P50: new(395.0), Min: new(200.0), Max: new(590.0), Mean: new(395.0), N: 2, Of: "requests"},
		TimeBetweenTokens: &speedmatrix.Distribution{
			P50: new(250.0 / 3), Min: new(200.0 / 3), Max: new(100.0), Mean: new(250.0 / 3), N: 2, Of: "streams",
		},
		// 39 gaps of 100 ms and 19 of 200 ms.
		EventGap: &speedmatrix.Distribution{
			P50: new(100.0), P90: new(200.0), P95: new(200.0), Min: new(100.0), Max: new(200.0), Mean: new(7700.0 / 58), N: 58, Of: "events",
		},
		ActiveRequestsMean: new(1.75), CompletedRequests: new(1), FailedRequests: new(0),
		Requests:     &speedmatrix.RequestCounts{Sent: 3, Completed: 1, Cut: 2},
		OutputTokens: new(103.0), TokenSource: speedmatrix.TokensPerEventUsage,
		WindowStartedAt: new(time.Unix(0, ms(1210)).UTC()), WindowSeconds: new(4.0),
		QueuedShare: new(2.79 / 4), Preemptions: new(0),
		StepSeconds:    &speedmatrix.StepSeconds{Window: 4},
		TokensPerEvent: new(103.0 / 61), AcceptedTokensPerStep: new(1 + 45.0/30),
		Send:    &speedmatrix.Distribution{P50: new(3.0), Min: new(2.0), Max: new(4.0), Mean: new(3.0), N: 2, Of: "requests"},
		Connect: &speedmatrix.Distribution{P50: new(0.5), Min: new(0.5), Max: new(0.5), Mean: new(0.5), N: 1, Of: "requests"},
		// From 2,000 to 5,000 ms: 30 tokens of stream 0; 6 events of the second request, 10 of the third.
		CounterCheck: &speedmatrix.CounterCheck{
			Counter: "generation_tokens_total", SpanSeconds: 3, UncertaintySeconds: 0.004, ServerTokens: 78, ClientTokens: 30 + 18 + 30,
		},
		// GPU 0: 50 J up to its first sample, then 0.5 s × (150 + 250 + … + 750 W). GPU 1: 700 J in 3.5 s.
		GPUPower: new(1625.0/4 + 200), EnergyPerOutputToken: new((1625.0 + 800) / 103),
		GPUClock: &speedmatrix.ClockSummary{Median: 1855, Min: 1200, Max: 1900, DropShare: 0.2, N: 10},
		Throttle: &speedmatrix.Throttle{Verdict: speedmatrix.ThrottlePowerCap, PowerCapShare: 3.0 / 9, N: 9},
		Client:   &speedmatrix.ClientQuality{StampSource: "kernel", Replays: 1}, Attempts: 1,
	}
}

// prefillRows: three cold samples and one that the cache served.
func prefillRows(rows *memory, key string) {
	for i, x := range []struct {
		ttft           float64
		prompt, cached int
	}{{500, 1000, 9}, {400, 1000, 25}, {520, 1040, 0}, {20, 1000, 26}} {
		written := -10000 + 1000*float64(i)
		rows.put(key, speedmatrix.RequestRow{
			Request: int32(i), Stream: -1, Purpose: "fill", Head: int32(i), PlannedNS: ms(written), WrittenNS: at(written),
			FirstNS: at(written + x.ttft), FirstVisibleNS: at(written + x.ttft), LastNS: at(written + x.ttft), EndedNS: at(written + x.ttft),
			Class: "completed", PromptTokens: whole(x.prompt), CachedTokens: whole(x.cached), CompletionTokens: whole(1), SendNS: new(int64(1_000_000)),
		})
	}
}

func goodPrefill() speedmatrix.Cell {
	return speedmatrix.Cell{
		Phase: speedmatrix.PhasePrefill, ContextLabel: "1K", Context: 1024, Concurrency: 1, Status: speedmatrix.StatusValid,
		PromptTokens: new(1000.0), CachedTokens: new(9.0), PromptTokensPerSecond: new(2000.0),
		TTFT: &speedmatrix.Distribution{P50: new(500.0), Min: new(400.0), Max: new(520.0), Mean: new(1420.0 / 3), N: 3, Of: "requests"}, TTFTKind: speedmatrix.TTFTCold,
		Requests: &speedmatrix.RequestCounts{Sent: 4, Completed: 4}, CompletedRequests: new(4), FailedRequests: new(0),
		Send: &speedmatrix.Distribution{P50: new(1.0), Min: new(1.0), Max: new(1.0), Mean: new(1.0), N: 3},
		PrefillSamples: []speedmatrix.PrefillSample{
			{PromptTokens: 1000, CachedTokens: new(9.0), TTFTMillis: 500, Request: 0},
			{PromptTokens: 1000, CachedTokens: new(25.0), TTFTMillis: 400, Request: 1},
			{PromptTokens: 1040, CachedTokens: new(0.0), TTFTMillis: 520, Request: 2},
			{PromptTokens: 1000, CachedTokens: new(26.0), TTFTMillis: 20, Request: 3},
		},
	}
}
