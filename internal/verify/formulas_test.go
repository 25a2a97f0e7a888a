package verify

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/stats"
)

// near asserts a recomputed number to twelve digits; NaN stands for null.
func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	switch {
	case got == nil && math.IsNaN(want):
	case got == nil || math.IsNaN(want) || math.Abs(*got-want) > 1e-12*max(1, math.Abs(want)):
		t.Errorf("%s is %s, want %v", what, showFloat(got), want)
	}
}

func showFloat(x *float64) string {
	if x == nil {
		return "null"
	}
	return number(*x)
}

// weighing is a cell of one or two streams and what its events have to weigh. Each
// stream has 40 events in the window, (1,210, 5,210] ms, every 100 ms.
type weighing struct {
	setup  func(run *speedmatrix.Run, rows *memory, key string)
	output float64
	source speedmatrix.TokenSource
}

func checkWeighing(t *testing.T, tests map[string]weighing) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run, _, key := bare(2)
			rows := newMemory()
			test.setup(run, rows, key)
			got, _ := recompute(t, run, rows)
			near(t, "output_tokens", got.OutputTokens, test.output)
			near(t, "total", got.TotalTokensPerSecond, test.output/4)
			if got.TokenSource != test.source {
				t.Errorf("source %q, want %q", got.TokenSource, test.source)
			}
		})
	}
}

// stream adds a request with an event of so many bytes every 100 ms.
func stream(rows *memory, key string, r speedmatrix.RequestRow, length int32) {
	rows.put(key, r, every(210, 100, 60, length)...)
}

func TestTokensAreWeighedByTheBestSourceOfEachRequest(t *testing.T) {
	checkWeighing(t, map[string]weighing{
		"counts along the way": {func(_ *speedmatrix.Run, rows *memory, key string) {
			list := every(210, 100, 60, 4)
			// Counts of 2 tokens in every other event; the last one before the window holds 10.
			for i := 0; i < len(list); i += 2 {
				list[i].Tokens = whole(i)
			}
			list[30].Tokens = whole(3) // a count that falls brings nothing
			rows.put(key, launch(0, 0, 10), list...)
		}, 40, speedmatrix.TokensPerEventUsage},
		"final usage": {func(_ *speedmatrix.Run, rows *memory, key string) {
			stream(rows, key, completedAt(launch(0, 0, 10), 6140, 120), 4)
		}, 80, speedmatrix.TokensFinalUsage},
		"final usage by length": {func(_ *speedmatrix.Run, rows *memory, key string) {
			list := every(210, 100, 60, 1)
			list[59].TextLength = 61 // half of the text comes after the window
			rows.put(key, completedAt(launch(0, 0, 10), 6140, 120), list...)
		}, 40, speedmatrix.TokensFinalUsage},
		"usage of a request that did not finish": {func(_ *speedmatrix.Run, rows *memory, key string) {
			r := launch(0, 0, 10)
			r.CompletionTokens = whole(500)
			stream(rows, key, r, 4)
		}, 40, speedmatrix.TokensEvents},
		"tokenizer": {func(_ *speedmatrix.Run, rows *memory, key string) {
			r := launch(0, 0, 10)
			r.WindowTokens = whole(52)
			stream(rows, key, r, 4)
		}, 52, speedmatrix.TokensTokenizer},
		"the worst of two": {func(_ *speedmatrix.Run, rows *memory, key string) {
			rows.put(key, launch(0, 0, 10), counted(2, every(210, 100, 60, 4))...)
			stream(rows, key, launch(1, 1, 10), 4)
		}, 120, speedmatrix.TokensEvents},
		"a worse one outside the window": {func(_ *speedmatrix.Run, rows *memory, key string) {
			rows.put(key, launch(0, 0, 10), counted(2, every(210, 100, 60, 4))...)
			rows.put(key, launch(1, 1, 10), every(300, 100, 5, 4)...)
		}, 80, speedmatrix.TokensPerEventUsage},
		"two channels of one event": {func(_ *speedmatrix.Run, rows *memory, key string) {
			var list []speedmatrix.EventRow
			for _, e := range every(210, 100, 60, 4) {
				more := e
				more.Channel, more.Continued = "tool", true
				list = append(list, e, more)
			}
			rows.put(key, launch(0, 0, 10), list...)
		}, 40, speedmatrix.TokensEvents},
		"requests of no stream": {func(_ *speedmatrix.Run, rows *memory, key string) {
			stream(rows, key, launch(0, 0, 10), 4)
			r := launch(7, -1, 10)
			r.Purpose = "ping"
			stream(rows, key, r, 4)
		}, 40, speedmatrix.TokensEvents},
	})
}

func TestRequestsWithoutACountShareOneFactor(t *testing.T) {
	// 90 tokens for the 20 events of 2,000–4,000 ms.
	counter := func(rows *memory) {
		for i, middle := range []float64{2000, 4000} {
			s := scrape("", middle)
			s.GenerationTokens = new(1000 + 90*float64(i))
			rows.server = append(rows.server, s)
		}
	}
	checkWeighing(t, map[string]weighing{
		"counters": {func(run *speedmatrix.Run, rows *memory, key string) {
			stream(rows, key, launch(0, 0, 10), 4)
			counter(rows)
			run.Cells[0].CounterCheck = &speedmatrix.CounterCheck{}
		}, 180, speedmatrix.TokensCounters},
		"a counter that is not live": {func(run *speedmatrix.Run, rows *memory, key string) {
			stream(rows, key, launch(0, 0, 10), 4)
			counter(rows)
		}, 40, speedmatrix.TokensEvents},
		"warm-up that a counter confirms": {func(run *speedmatrix.Run, rows *memory, key string) {
			stream(rows, key, launch(0, 0, 10), 4)
			counter(rows)
			run.Cells[0].CounterCheck = &speedmatrix.CounterCheck{}
			run.Cells[0].TokenSource = speedmatrix.TokensWarmUp
			run.Server.Habits.TokensPerEvent = 4.45
		}, 178, speedmatrix.TokensWarmUp},
		"warm-up that a counter denies": {func(run *speedmatrix.Run, rows *memory, key string) {
			stream(rows, key, launch(0, 0, 10), 4)
			counter(rows)
			run.Cells[0].CounterCheck = &speedmatrix.CounterCheck{}
			run.Cells[0].TokenSource = speedmatrix.TokensWarmUp
			run.Server.Habits.TokensPerEvent = 4.3
		}, 180, speedmatrix.TokensCounters},
		"warm-up": {func(run *speedmatrix.Run, rows *memory, key string) {
			stream(rows, key, launch(0, 0, 10), 4)
			run.Server.Habits.TokensPerEvent = 2.5
		}, 100, speedmatrix.TokensWarmUp},
	})
}

// TestTheIntervalIsThatOfTheBatchMeans: two implementations agree on any arrivals.
func TestTheIntervalIsThatOfTheBatchMeans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.SliceOfN(rapid.Int64Range(-100, 5_000), 0, 200).Draw(t, "at")
		scale := rapid.SampledFrom([]int64{1, 1_000_003}).Draw(t, "scale")
		m := &measurement{from: 7 * scale, to: 4_000 * scale, streams: []*request{{}, {}}}
		var times []int64
		var weights []float64
		for i, x := range at {
			e := event{at: x * scale, weight: float64(i % 4)}
			m.streams[i%2].events = append(m.streams[i%2].events, e)
			times, weights = append(times, e.at), append(weights, e.weight)
		}
		low, high, ok := stats.BatchMeans(times, weights, m.from, m.to)
		got, half := m.interval95()
		if ok != (got != nil) {
			t.Fatalf("%v here, %v there", got, ok)
		}
		if slack := 1e-7 * (low + high); ok && (math.Abs(got.Low-low) > slack || math.Abs(got.High-high) > slack || math.Abs(2*half-(high-low)) > slack) {
			t.Fatalf("%v ± %v here, %v to %v there", *got, half, low, high)
		}
	})
}

func TestPercentilesNeedTheirSamples(t *testing.T) {
	tests := []struct {
		n             int
		p90, p95, p99 float64
	}{
		{9, math.NaN(), math.NaN(), math.NaN()},
		{10, 9.1, math.NaN(), math.NaN()},
		{19, 17.2, math.NaN(), math.NaN()},
		{20, 18.1, 19.05, math.NaN()},
		{99, 89.2, 94.1, math.NaN()},
		{100, 90.1, 95.05, 99.01},
	}
	for _, test := range tests {
		var samples []float64
		for i := range test.n {
			samples = append(samples, float64(test.n-i))
		}
		d := distribution(samples, "streams")
		near(t, "p50", d.P50, float64(test.n+1)/2)
		near(t, "p90", d.P90, test.p90)
		near(t, "p95", d.P95, test.p95)
		near(t, "p99", d.P99, test.p99)
		near(t, "min", d.Min, 1)
		near(t, "max", d.Max, float64(test.n))
		near(t, "mean", d.Mean, float64(test.n+1)/2)
	}
	if distribution(nil, "streams") != nil || median(nil) != nil {
		t.Error("no samples give a number")
	}
}

func TestAStreamUnderTwentyTokensGivesNoTimeBetweenTokens(t *testing.T) {
	for n, want := range map[int]int{19: 0, 20: 1} {
		run, _, key := bare(1)
		rows := newMemory()
		rows.put(key, launch(0, 0, 10), every(1310, 100, n, 4)...)
		got, _ := recompute(t, run, rows)
		if have := got.TimeBetweenTokens; (have != nil) != (want == 1) {
			t.Errorf("%d tokens give %+v", n, have)
		}
	}
}

func TestTheCompatMethodCountsTheRampIn(t *testing.T) {
	run, _, key := bare(1)
	rows := newMemory()
	// 10 tokens/s in the ramp, 20 in the window.
	list := append(every(210, 100, 11, 4), every(1260, 50, 100, 4)...)
	rows.put(key, launch(0, 0, 10), list...)
	got, _ := recompute(t, run, rows)
	near(t, "in the window", got.TimeBetweenTokens.P50, 50)
	run.Method.Name = speedmatrix.MethodCompat
	got, _ = recompute(t, run, rows)
	near(t, "whole life", got.TimeBetweenTokens.P50, 5000.0/90)
	near(t, "total", got.TotalTokensPerSecond, 20)
}

func TestActiveAndQueuedComeFromTheStreamsWithoutGauges(t *testing.T) {
	run, _, key := bare(3)
	rows := newMemory()
	// Two launches with a TTFT of 200 and 300 ms: patience is 750 ms. The third never got a token.
	rows.put(key, launch(0, 0, 10), every(210, 100, 60, 4)...)
	rows.put(key, completedAt(launch(1, 1, 10), 3010, 28), every(310, 100, 28, 4)...)
	rows.put(key, launch(2, 2, 2000))
	// A restart whose first token came 100 ms after its patience.
	rows.put(key, restart(3, 1, 4000), every(4850, 100, 13, 4)...)
	got, _ := recompute(t, run, rows)
	near(t, "active", got.ActiveRequestsMean, (4+1.8+3.21+1.21)/4)
	near(t, "queued", got.QueuedShare, (5.21-2.75+0.1)/(3*4))

	// Scrapes outside the window change nothing; one inside speaks for all of it.
	outside := scrape(key, 1210)
	outside.Waiting, outside.Running = new(1.0), new(9.0)
	rows.server = append(rows.server, outside)
	got, _ = recompute(t, run, rows)
	near(t, "queued", got.QueuedShare, (5.21-2.75+0.1)/(3*4))
	inside := scrape(key, 5210)
	inside.Waiting = new(1.0)
	rows.server = append(rows.server, inside)
	got, _ = recompute(t, run, rows)
	near(t, "queued", got.QueuedShare, 1)
	near(t, "active", got.ActiveRequestsMean, (4+1.8+3.21+1.21)/4)
}

func TestPreemptionsCountFromTheLaunchToTheEndOfTheCell(t *testing.T) {
	run, _, key := bare(1)
	rows := newMemory()
	rows.put(key, launch(0, 0, 10), every(210, 100, 60, 4)...)
	for _, s := range []struct {
		cell   string
		middle float64
		value  float64
	}{{key, -500, 1}, {key, 500, 4}, {key, 5500, 9}, {"decode-2k-x1", 7000, 20}} {
		row := scrape(s.cell, s.middle)
		row.Preemptions = &s.value
		rows.server = append(rows.server, row)
	}
	got, _ := recompute(t, run, rows)
	if diff := cmp.Diff(new(5), got.Preemptions); diff != "" {
		t.Error(diff)
	}
}

func TestContextTokensNeedPromptTokensAndRequestsInFlight(t *testing.T) {
	run, _, key := bare(1)
	rows := newMemory()
	rows.put(key, launch(0, 0, 10), every(210, 100, 60, 4)...)
	if got, _ := recompute(t, run, rows); got.ContextTokens != nil {
		t.Error("context tokens without prompt tokens")
	}
	rows.requests[key][0].PromptTokens = whole(100)
	got, _ := recompute(t, run, rows)
	want := &speedmatrix.ContextTokens{Start: 111, Mean: 131.5, End: 151}
	if diff := cmp.Diff(want, got.ContextTokens); diff != "" {
		t.Error(diff)
	}
	rows.requests[key][0].EndedNS = at(5210)
	if got, _ := recompute(t, run, rows); got.ContextTokens != nil {
		t.Error("context tokens at an instant at which nothing was in flight")
	}
}
