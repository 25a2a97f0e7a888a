package bench_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// one is a matrix of one cell.
func one(context, concurrency int) bench.Settings {
	return bench.Settings{Contexts: []int{context}, Concurrency: []int{concurrency}, NoPrefill: true}
}

// every is a gap that never changes.
func every(d time.Duration) func(truth.Step) time.Duration {
	return func(truth.Step) time.Duration { return d }
}

// from gives the failure to the requests from an id on.
func from(id int, f truth.Failure) func(truth.Call) *truth.Failure {
	return func(c truth.Call) *truth.Failure {
		if c.Request < id {
			return nil
		}
		return &f
	}
}

func TestEveryStatusHasItsCauseAndItsReason(t *testing.T) {
	lowMemory := &wire.Problem{Status: 503, Message: "KV cache is full"}
	tests := []struct {
		name   string
		s      setting
		status speedmatrix.Status
		reason string // a part of it
	}{
		{name: "nothing wrong", s: setting{settings: one(0, 2)}, status: speedmatrix.StatusValid},
		{name: "too long for the model", s: setting{settings: one(8192, 2), limits: bench.Limits{MaxLength: 8200}},
			status: speedmatrix.StatusExceedsModelLength, reason: "8,192 + 512 tokens of output exceed the model's 8,200"},
		{name: "planned beyond the cache", s: setting{settings: one(4096, 4), limits: bench.Limits{KVTokens: 8192, KVBlockTokens: 16}},
			status: speedmatrix.StatusOverCapacity, reason: "4 prompts of 4K need 16,448 of 8,192 tokens"},
		{name: "preempted", s: setting{settings: one(0, 2), script: truth.Script{Preempt: []truth.Preemption{{Request: 0, At: 6 * second, Pause: second}}}},
			status: speedmatrix.StatusOverCapacity, reason: "preempted requests 1 time"},
		{name: "preempted and never run again", s: setting{settings: one(0, 2),
			script: truth.Script{Preempt: []truth.Preemption{{Request: 1, At: 12 * second, Pause: time.Hour, CountLate: true}}}},
			status: speedmatrix.StatusOverCapacity, reason: "had begun to answer were put back into the queue for "},
		{name: "refused for memory", s: setting{settings: one(0, 4), script: truth.Script{Fail: from(2, truth.Failure{Kind: truth.FailStatus, Problem: lowMemory})}},
			status: speedmatrix.StatusOverCapacity, reason: "for memory: KV cache is full"},
		{name: "waiting with a full cache", s: setting{settings: one(0, 8),
			script: truth.Script{KVTokens: 320, KVLimits: true, StopAfter: func(truth.Call) int { return 200 }, Gap: every(50 * ms)}},
			status: speedmatrix.StatusOverCapacity, reason: "KV cache at least 95 % in use"},
		{name: "every request fails", s: setting{settings: one(0, 2), script: truth.Script{Fail: from(0, truth.Failure{Kind: truth.FailStatus})}},
			status: speedmatrix.StatusFailed, reason: "4 of 4 requests failed (100 %); the first: HTTP 503: "},
		{name: "an answer without a token", s: setting{settings: one(0, 1), script: truth.Script{Fail: from(0, truth.Failure{Kind: truth.FailEnd, Done: true})}},
			status: speedmatrix.StatusFailed, reason: "requests failed (100 %); the first: "},
		{name: "200 and never a token", s: setting{settings: one(0, 2), script: truth.Script{Fail: from(0, truth.Failure{Kind: truth.FailHang})}},
			status: speedmatrix.StatusFailed, reason: "none of the 2 requests had a token"},
		{name: "more queue than places", s: setting{settings: one(0, 4), script: truth.Script{MaxRunning: 2}},
			status: speedmatrix.StatusRequestsQueued, reason: "waited for 100 % of the window"},
		{name: "the same without gauges", s: setting{settings: one(0, 4), blind: true, script: truth.Script{Engine: truth.Plain, MaxRunning: 2}},
			status: speedmatrix.StatusRequestsQueued, reason: "waited for"},
		{name: "slow prefill is no queue", s: setting{settings: one(4096, 4), script: truth.Script{PrefillPerToken: ms}},
			status: speedmatrix.StatusValid},
		{name: "nor without gauges", s: setting{settings: one(4096, 4), blind: true, script: truth.Script{Engine: truth.Plain, PrefillPerToken: ms}},
			status: speedmatrix.StatusValid},
		{name: "one stream never begins", s: setting{settings: one(0, 2), script: truth.Script{Fail: from(1, truth.Failure{Kind: truth.FailHang})}},
			status: speedmatrix.StatusNotReady, reason: "not all 2 streams were producing 35 s after launch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.s.script.Gap == nil {
				tt.s.script.Gap = every(20 * ms)
			}
			w := measure(t, tt.s)
			c := w.cell(w.run.Plan.Contexts[0], w.run.Plan.Concurrency[0])
			if c.Status != tt.status || !strings.Contains(c.Reason, tt.reason) || tt.reason == "" && c.Reason != "" {
				t.Errorf("%s: %q, want %s: …%s…", c.Status, c.Reason, tt.status, tt.reason)
			}
			if (c.TotalTokensPerSecond == nil || c.WindowSeconds == nil) && c.Status.ShowsSpeed() {
				t.Error("a status that shows a speed, without one")
			}
			w.verified()
		})
	}
}

// A cell in which one request in fifty fails after half its tokens is measured twice and then called Failed; one
// with fewer failures only warns.
func TestFailuresAreCountedAndTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		each   int
		status speedmatrix.Status
	}{{20, speedmatrix.StatusFailed}, {150, speedmatrix.StatusValid}} {
		t.Run(fmt.Sprint(tt.each), func(t *testing.T) {
			w := measure(t, setting{settings: one(0, 8), script: truth.Script{Gap: every(10 * ms), StopAfter: func(truth.Call) int { return 40 },
				Fail: func(c truth.Call) *truth.Failure {
					if c.Request%tt.each != tt.each-1 {
						return nil
					}
					return &truth.Failure{Kind: truth.FailEvent, After: 20}
				}}})
			c := w.cell(0, 8)
			if c.Status != tt.status {
				t.Errorf("%s: %s", c.Status, c.Reason)
			}
			if tt.status == speedmatrix.StatusFailed && (c.Attempts != 2 || c.FirstError == "" || c.TotalTokensPerSecond == nil) {
				t.Errorf("%d attempts, first error %q", c.Attempts, c.FirstError)
			}
			if tt.status == speedmatrix.StatusValid && !warned(c, "failed requests") {
				t.Errorf("no warning of %d failures: %v", *c.FailedRequests, c.Warnings)
			}
			w.verified()
		})
	}
}

func warned(c *speedmatrix.Cell, code string) bool {
	for _, w := range c.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// A server that keeps running what was cut, or what others send, is named.
func TestAServerThatIsNotEmptyIsNamed(t *testing.T) {
	s := setting{settings: one(0, 1), script: truth.Script{Gap: every(20 * ms)}}
	foreign := func(w *world, g bench.Glance) {
		if g.Step == bench.StepWindow && w.foreign == nil {
			w.foreign = w.open(3)
		}
	}
	s.glance = foreign
	w := measure(t, s)
	c := w.cell(0, 1)
	if c.Status != speedmatrix.StatusFailed || !strings.Contains(c.Reason, "running 3, waiting 0, ours 0") {
		t.Errorf("%s: %s", c.Status, c.Reason)
	}
}

// A server without gauges is asked for one token. How long that takes varies: one quick answer does not make all later
// ones look slow, but a load that others put on it does.
func TestAServerWithoutGaugesIsEmptyWhenATokenTakesAsLongAsUsual(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stall  func(req int) time.Duration // beyond 10 ms
		status speedmatrix.Status
		reason string
	}{
		{"one quick answer", func(req int) time.Duration {
			if req == 0 {
				return 0
			}
			return 50*ms + time.Duration(req*37%11)*4*ms
		}, speedmatrix.StatusValid, ""},
		{"slow from some time on", func(req int) time.Duration {
			if req < 7 { // five to learn what is usual, two of the cell
				return 50 * ms
			}
			return 100 * ms
		}, speedmatrix.StatusFailed, "whether it is empty: one token took 110.0 ms, when it is empty 60.0 ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := measure(t, setting{settings: one(0, 2), blind: true, script: truth.Script{Engine: truth.Plain, Gap: every(20 * ms), PrefillBase: 10 * ms,
				Stall: func(req, token int) time.Duration {
					if token > 0 {
						return 0
					}
					return tt.stall(req)
				}}})
			c := w.cell(0, 2)
			if c.Status != tt.status || !strings.Contains(c.Reason, tt.reason) {
				t.Errorf("%s: %s", c.Status, c.Reason)
			}
			w.verified()
		})
	}
}

// open lets others use the server.
func (w *world) open(n int) *load.Streams {
	body, err := dialect.Chat().Body(dialect.Params{Model: "truth", Prompt: "others", MaxTokens: 1 << 20, Stream: true})
	if err != nil {
		w.t.Fatal(err)
	}
	streams, err := w.client.Open(w.t.Context(), n, func(int, bool) load.Request { return load.Request{Body: body} })
	if err != nil {
		w.t.Fatal(err)
	}
	streams.Launch(w.clock.Now(), 0)
	w.t.Cleanup(streams.Stop)
	return streams
}

// often preempts each of the first n requests every two seconds.
func often(n int) (list []truth.Preemption) {
	for request := range n {
		for at := range 100 {
			list = append(list, truth.Preemption{Request: request, At: time.Duration(2*at) * second, Pause: 100 * ms})
		}
	}
	return list
}

// Where two causes come together the first in the order of statuses counts.
func TestTheFirstStatusThatAppliesCounts(t *testing.T) {
	loops := func(int, int) string { return " again and again" }
	full := &wire.Problem{Status: 503, Message: "out of memory"}
	tests := []struct {
		name   string
		s      setting
		status speedmatrix.Status
	}{
		{"too long and beyond the cache", setting{settings: one(8192, 64), limits: bench.Limits{MaxLength: 8200, KVTokens: 8192}}, speedmatrix.StatusExceedsModelLength},
		{"refused for memory and failed", setting{settings: one(0, 2), script: truth.Script{Fail: from(0, truth.Failure{Kind: truth.FailStatus, Problem: full})}}, speedmatrix.StatusOverCapacity},
		{"preempted and looped", setting{settings: one(0, 1), script: truth.Script{Text: loops,
			Preempt: often(12)}}, speedmatrix.StatusOverCapacity},
		{"failed and queued", setting{settings: one(0, 4), script: truth.Script{MaxRunning: 2, Gap: every(10 * ms), StopAfter: func(truth.Call) int { return 40 },
			Fail: func(c truth.Call) *truth.Failure {
				if c.Request%8 == 7 {
					return &truth.Failure{Kind: truth.FailEvent, After: 20}
				}
				return nil
			}}}, speedmatrix.StatusFailed},
		{"failed and not ready", setting{settings: one(0, 4), script: truth.Script{Fail: func(c truth.Call) *truth.Failure {
			if c.Request == 0 {
				return &truth.Failure{Kind: truth.FailHang}
			}
			if c.Request%4 == 1 {
				return &truth.Failure{Kind: truth.FailStatus}
			}
			return nil
		}}}, speedmatrix.StatusFailed},
		{"preempted and queued", setting{settings: one(0, 4), script: truth.Script{MaxRunning: 2, Preempt: []truth.Preemption{{Request: 0, At: 8 * second, Pause: second}}}}, speedmatrix.StatusOverCapacity},
		{"looped and queued", setting{settings: one(0, 4), script: truth.Script{MaxRunning: 2, Text: loops, Gap: every(20 * ms)}}, speedmatrix.StatusLooped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := measure(t, tt.s)
			c := w.cell(w.run.Plan.Contexts[0], w.run.Plan.Concurrency[0])
			if c.Status != tt.status {
				t.Errorf("%s: %s, want %s", c.Status, c.Reason, tt.status)
			}
			w.verified()
		})
	}
}
