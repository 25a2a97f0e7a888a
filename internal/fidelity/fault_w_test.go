package fidelity_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// about fails the test unless a number is that close to another, as a share.
func about(t *testing.T, what string, got *float64, want, share float64) {
	t.Helper()
	if got == nil || !(math.Abs(*got/want-1) <= share) {
		t.Errorf("%s is %s, want %v within %v", what, shown(got), want, share)
	}
}

func shown(x *float64) string {
	if x == nil {
		return "unknown"
	}
	return fmt.Sprint(*x)
}

// The faults of llm-inference-bench in a cell's course and its load, with the triggers of the measurements T1 to T7.
func TestTheCourseOfACell(t *testing.T) {
	t.Run("W1 a slow prefill is no queue", caseW1ASlowPrefillIsNoQueue)
	t.Run("T1 a prefill of 14 s beside a warm-up of 12 s", caseT1APrefillOf14SBesideAWarmUpOf12S)
	t.Run("W2 every stream has a prompt of its own", caseW2EveryStreamHasAPromptOfItsOwn)
	t.Run("W3 what fits is tried, whatever the cap of the output", caseW3WhatFitsIsTriedWhateverTheCapOfTheOutput)
	t.Run("W6 T6 a slow scrape takes nothing from the window", caseW6ASlowScrapeTakesNothingFromTheWindow)
	t.Run("W7 all numbers of a cell are of one window", caseW7AllNumbersOfACellAreOfOneWindow)
	t.Run("W13 a window ends with its tokens, and says at which context", caseW13AWindowEndsWithItsTokensAndSaysAtWhichContext)
	t.Run("W14 the sampling is fixed and recorded, and texts vary", caseW14TheSamplingIsFixedAndRecordedAndTextsVary)
	t.Run("W15 a bad stream costs one request or one more try, not the cell", caseW15ABadStreamCostsOneRequestOrOneMoreTryNotTheCell)
	t.Run("W16 repeats, intervals, and no percentile without its samples", caseW16RepeatsIntervalsAndNoPercentileWithoutItsSamples)
	t.Run("W17 one waiting sample is no queue, and preemptions are read", caseW17OneWaitingSampleIsNoQueueAndPreemptionsAreRead)
	t.Run("W18 queued, not ready, and failed are different words", caseW18QueuedNotReadyAndFailedAreDifferentWords)
	t.Run("W27 nothing is prefilled in vain", caseW27NothingIsPrefilledInVain)
}

func caseW1ASlowPrefillIsNoQueue(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{MaxLength: 256 << 10, PrefixCache: true, PrefillPerToken: 12 * ms, Gap: every(57 * ms)}, args: oneCell("8K", "1")}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "queued share", c.QueuedShare, 0)
	if fill := c.StepSeconds.Fill; fill < 95 || c.StepSeconds.Ramp > 5 {
		t.Errorf("the fill took %v s and the ramp %v s", fill, c.StepSeconds.Ramp)
	}
}

func caseT1APrefillOf14SBesideAWarmUpOf12S(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{PrefillBase: 14 * second, Gap: every(10 * ms)}, args: oneCell("0", "1")}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "queued share", c.QueuedShare, 0)
	near(t, "total tok/s", c.TotalTokensPerSecond, 100)
}

func caseW2EveryStreamHasAPromptOfItsOwn(t *testing.T) {
	t.Parallel()
	for mode, most := range map[string]int{"distinct": 16, "shared": 1100} {
		s := cached()
		s.KeepPrompts = true
		w := bed{script: s, args: oneCell("1K", "4", "--prompts", mode)}.measure(t)
		c := w.valid()
		if w.run.Method.Prompts != mode {
			t.Errorf("the method says %q", w.run.Method.Prompts)
		}
		var prompts []string
		for _, list := range w.answers(c.Key()) {
			prompts = append(prompts, list[0].served.Prompt)
		}
		common := len(prompts[0])
		for _, p := range prompts[1:] {
			n := 0
			for n < min(common, len(p)) && p[n] == prompts[0][n] {
				n++
			}
			common = n
		}
		if tokens := truth.CountTokens(prompts[0][:common]); tokens > most || mode == "shared" && tokens < 900 {
			t.Errorf("%s: the streams' prompts begin with the same %d tokens", mode, tokens)
		}
	}
}

func caseW3WhatFitsIsTriedWhateverTheCapOfTheOutput(t *testing.T) {
	t.Parallel()
	// A quarter of the published page: 32 × (0 + 2,048) and 8 × (4K + 2,048) exceed the budget, and what is produced does not.
	s := truth.Script{MaxLength: 36 << 10, KVTokens: 36_864, KVLimits: true, PrefixCache: true}
	args := []string{"--contexts", "0,4K", "--concurrency", "8,32", "--prefill", "none", "--duration", "5s", "--max-output", "2048"}
	w := bed{script: s, args: args}.measure(t)
	for _, x := range []struct {
		context, streams int
		status           speedmatrix.Status
	}{{0, 8, speedmatrix.StatusValid}, {0, 32, speedmatrix.StatusValid}, {4 << 10, 8, speedmatrix.StatusValid}, {4 << 10, 32, speedmatrix.StatusOverCapacity}} {
		w.is(w.cell(x.context, x.streams), x.status)
	}
	w = bed{script: s, args: append(args, "--kv-plan", "reserve")}.measure(t)
	w.is(w.cell(0, 32), speedmatrix.StatusOverCapacity, "reserved need 65,536 of 36,864")
	w.is(w.cell(4<<10, 8), speedmatrix.StatusOverCapacity, "reserved need 49,152 of 36,864")
}

func caseW6ASlowScrapeTakesNothingFromTheWindow(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{200 * ms, second} {
		w := bed{script: truth.Script{Gap: every(10 * ms), Metrics: truth.Metrics{Before: took / 2, After: took / 2}}, args: oneCell("0", "4")}.measure(t)
		c := w.valid()
		w.exact(c)
		near(t, "total tok/s", c.TotalTokensPerSecond, 400)
		near(t, "seconds", c.WindowSeconds, 5)
	}
}

func caseW7AllNumbersOfACellAreOfOneWindow(t *testing.T) {
	t.Parallel()
	// Each token takes longer than the one before, so that the ramp is faster than the window.
	w := bed{script: truth.Script{Lockstep: true, Gap: func(s truth.Step) time.Duration { return 10*ms + time.Duration(s.At/second)*ms }}, args: oneCell("0", "4")}.measure(t)
	c := w.valid()
	w.exact(c)
	about(t, "per request × streams", new(*c.PerRequestTokensPerSecond*4), *c.TotalTokensPerSecond, 0.005)
}

func caseW13AWindowEndsWithItsTokensAndSaysAtWhichContext(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{4 * ms, 20 * ms} {
		w := bed{script: truth.Script{Gap: every(gap)}, args: []string{"--contexts", "0", "--concurrency", "2", "--prefill", "none"}}.measure(t)
		c := w.valid()
		w.exact(c)
		seconds := map[time.Duration]float64{4 * ms: 5, 20 * ms: 20.48}[gap]
		about(t, "seconds", c.WindowSeconds, seconds, 0.003)
		var start, end float64
		from, to := windowOf(c)
		for _, list := range w.answers(c.Key()) {
			r := list[0].served
			for _, e := range r.Events {
				if e.AtNS <= from {
					start += 1.0 / 2
				}
				if e.AtNS <= to {
					end += 1.0 / 2
				}
			}
			start, end = start+float64(r.PromptTokens)/2, end+float64(r.PromptTokens)/2
		}
		near(t, "context at the start", &c.ContextTokens.Start, start)
		near(t, "context at the end", &c.ContextTokens.End, end)
	}
}

func caseW14TheSamplingIsFixedAndRecordedAndTextsVary(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{KeepPrompts: true}, args: oneCell("0", "8")}.measure(t)
	c := w.valid()
	prompts := map[string]bool{}
	for _, list := range w.answers(c.Key()) {
		fields := list[0].served.Fields
		if string(fields["temperature"]) != "0.8" || string(fields["ignore_eos"]) != "true" || fields["seed"] != nil {
			t.Errorf("sent with %s", fields)
		}
		prompts[list[0].served.Prompt] = true
	}
	if len(prompts) != 8 || w.run.Method.Temperature != "0.8" || w.run.Method.Salt != "s" {
		t.Errorf("%d prompts, method %+v", len(prompts), w.run.Method)
	}
}

func caseW15ABadStreamCostsOneRequestOrOneMoreTryNotTheCell(t *testing.T) {
	t.Parallel()
	l := &late{loops: func(nth int) bool { return nth == 1 }, text: circling(unlike(9, 90), 40), prefix: 60}
	w := bed{script: l.script()}.measure(t)
	c := w.valid("loops")
	w.exact(c)
	failing := 0
	w = bed{script: truth.Script{StopAfter: short(40), Fail: func(call truth.Call) *truth.Failure {
		if !ofCell(call) {
			return nil
		}
		if failing++; failing > 3 {
			return nil // the server is well again
		}
		return &truth.Failure{Kind: truth.FailEvent, After: 3, Problem: upstream}
	}}, args: oneCell("0", "1")}.measure(t)
	c = w.valid()
	w.exact(c)
	if c.Attempts != 2 {
		t.Errorf("%d attempts", c.Attempts)
	}
}

func caseW16RepeatsIntervalsAndNoPercentileWithoutItsSamples(t *testing.T) {
	t.Parallel()
	w := bed{args: oneCell("0", "2", "--repeat", "3")}.measure(t)
	c := w.valid()
	if c.Repeats == nil || c.Repeats.TotalTokensPerSecond.N != 3 || len(w.run.Repeats) != 2 || c.Interval95 == nil {
		t.Fatalf("repeats %+v, interval %v", c.Repeats, c.Interval95)
	}
	near(t, "median of the repeats", c.Repeats.TotalTokensPerSecond.P50, 100)
	if d := c.TTFT; d.N != 2 || d.P90 != nil || d.P95 != nil || d.P99 != nil {
		t.Errorf("TTFT %+v", d)
	}
	if d := c.EventGap; d.N != 498 || d.P99 == nil {
		t.Errorf("event gap %+v", d)
	}
}

func caseW17OneWaitingSampleIsNoQueueAndPreemptionsAreRead(t *testing.T) {
	t.Parallel()
	waits := func(share int) func(int, string) string {
		some := changed("vllm:num_requests_waiting", func(float64) string { return "1.0" })
		return func(scrape int, text string) string {
			if scrape%share != 0 {
				return text
			}
			return some(scrape, text)
		}
	}
	w := bed{script: truth.Script{Metrics: truth.Metrics{Rewrite: waits(1000)}}, args: oneCell("0", "2", "--duration", "30s")}.measure(t)
	w.exact(w.valid())
	// Requests 0 and 1 of the cell are preempted within the window.
	l := &late{loops: func(int) bool { return false }}
	s := l.script()
	s.Text = nil
	for request := range 60 {
		s.Preempt = append(s.Preempt, truth.Preemption{Request: request, At: 14 * second, Pause: 300 * ms})
	}
	w = bed{script: s}.measure(t)
	c := w.cell(0, 2)
	w.is(c, speedmatrix.StatusOverCapacity, fmt.Sprintf("preempted requests %d times", w.account.Preemptions))
	w.exact(c)
	if w.account.Preemptions != 2 {
		t.Errorf("%d preemptions, want those of the two streams in the window", w.account.Preemptions)
	}
}

func caseW18QueuedNotReadyAndFailedAreDifferentWords(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{MaxRunning: 2}, args: oneCell("0", "4")}.measure(t)
	w.is(w.cell(0, 4), speedmatrix.StatusRequestsQueued, "requests waited for 100 % of the window")
	w.exact(w.cell(0, 4))
	near(t, "queued share", w.cell(0, 4).QueuedShare, 1)
	near(t, "active requests", w.cell(0, 4).ActiveRequestsMean, 2)
	w = bed{script: truth.Script{Fail: ofCells(2, truth.Failure{Kind: truth.FailHang})}}.measure(t)
	w.is(w.cell(0, 2), speedmatrix.StatusNotReady, "not all 2 streams were producing")
	w = bed{script: truth.Script{Metrics: truth.Metrics{Off: true}}, args: oneCell("0", "4")}.measure(t)
	w.exact(w.valid()) // without figures nothing is made up
}

func caseW27NothingIsPrefilledInVain(t *testing.T) {
	t.Parallel()
	s := cached()
	w := bed{script: s, args: []string{"--contexts", "4K,16K", "--concurrency", "1,2", "--prefill", "4K,16K", "--duration", "5s"}}.measure(t)
	cold := map[int]int{}
	for _, r := range w.account.Requests {
		if read := r.PromptTokens - r.CachedTokens; read > 3000 {
			cold[(read+1000)>>10]++
		}
	}
	// 2 heads of each row and one more are its samples; the first cell again for the drift; 2K and 8K in the warm-up.
	if cold[16] != 3 || cold[4] > 3+1 || cold[8] > 1 {
		t.Errorf("cold prefills by length in K: %v", cold)
	}
	for _, n := range []int{4 << 10, 16 << 10} {
		w.readCold(w.prefill(n), s, 3)
	}
}

func TestCountsOfTokens(t *testing.T) {
	t.Run("W4 T4 usage at the end of a request is no count along the way", caseW4UsageAtTheEndOfARequestIsNoCountAlongTheWay)
	t.Run("W5 T5 four tokens an event", caseW5FourTokensAnEvent)
	t.Run("W8 T3 two engines in the metrics", caseW8TwoEnginesInTheMetrics)
	t.Run("W9 a scrape that fails is unknown, not zero", caseW9AScrapeThatFailsIsUnknownNotZero)
	t.Run("W10 T2 rates up to thousands of tokens a second", caseW10RatesUpToThousandsOfTokensASecond)
	t.Run("W11 T7 several samples, to the nanosecond, also where the first token has no text", caseW11SeveralSamplesToTheNanosecondAlsoWhereTheFirstTokenHa)
	t.Run("W12 the measured length stands beside the label", caseW12TheMeasuredLengthStandsBesideTheLabel)
}

func caseW4UsageAtTheEndOfARequestIsNoCountAlongTheWay(t *testing.T) {
	t.Parallel()
	// 500 and 700 tokens a request, of which the window sees some end and some not.
	for tokens, duration := range map[int]string{500: "12s", 700: "8s"} {
		w := bed{script: truth.Script{Gap: every(10 * ms), Usage: truth.UsageFinal, Text: digits}, args: oneCell("0", "4", "--max-output", fmt.Sprint(tokens), "--duration", duration)}.measure(t)
		c := w.cell(0, 4)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		about(t, "total tok/s", c.TotalTokensPerSecond, 400, 0.005)
		if c.TokenSource == speedmatrix.TokensPerEventUsage {
			t.Errorf("the tokens are from %q", c.TokenSource)
		}
	}
}

func caseW5FourTokensAnEvent(t *testing.T) {
	t.Parallel()
	for usage, source := range map[truth.Usage]speedmatrix.TokenSource{truth.UsageAsked: speedmatrix.TokensPerEventUsage, truth.UsageFinal: speedmatrix.TokensWarmUp} {
		w := bed{script: truth.Script{Gap: every(10 * ms), TokensPerEvent: 4, Usage: usage}}.measure(t)
		c := w.valid()
		if usage == truth.UsageAsked {
			w.exact(c)
		}
		near(t, "total tok/s", c.TotalTokensPerSecond, 200)
		near(t, "tokens per event", c.TokensPerEvent, 4)
		if c.TokenSource != source {
			t.Errorf("the tokens are from %q", c.TokenSource)
		}
	}
}

func caseW8TwoEnginesInTheMetrics(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Gap: every(10 * ms), Metrics: truth.Metrics{Engines: 2}}, args: oneCell("0", "4")}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "total tok/s", c.TotalTokensPerSecond, 400)
	near(t, "active requests", c.ActiveRequestsMean, 4)
	near(t, "queued share", c.QueuedShare, 0)
	if k := c.CounterCheck; k == nil || k.ServerTokens != k.ClientTokens || k.ServerTokens != 1600 || c.StepSeconds.Ramp > 3 {
		t.Errorf("counter check %+v, ramp %v s", k, c.StepSeconds.Ramp)
	}
}

func caseW9AScrapeThatFailsIsUnknownNotZero(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Metrics: truth.Metrics{Fail: func(scrape int) *wire.Problem {
		if scrape%3 == 1 {
			return &wire.Problem{Status: http.StatusInternalServerError, Message: "busy"}
		}
		return nil
	}}}}.measure(t)
	c := w.valid("unread figures")
	w.exact(c)
	near(t, "active requests", c.ActiveRequestsMean, 2)
	failed := 0
	for _, row := range w.store.server {
		if row.Error == "" {
			continue
		}
		failed++
		if row.Running != nil || row.Waiting != nil || row.GenerationTokens != nil || !strings.Contains(row.Error, "busy") {
			t.Errorf("a failed scrape: %+v", row)
		}
	}
	if failed < 5 {
		t.Errorf("%d scrapes failed", failed)
	}
}

func caseW10RatesUpToThousandsOfTokensASecond(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 24} {
		w := bed{script: truth.Script{PrefillBase: 1, Lockstep: true, Gap: every(10 * ms), Stall: func(_, token int) time.Duration {
			if token == 0 {
				return 100 * ms
			}
			return 0
		}}, args: oneCell("0", fmt.Sprint(n))}.measure(t)
		c := w.valid()
		w.exact(c)
		near(t, "total tok/s", c.TotalTokensPerSecond, float64(100*n))
		near(t, "seconds", c.WindowSeconds, 5)
		if *c.TTFT.Min < 100 || *c.TTFT.Max > 120 {
			t.Errorf("TTFT from %v to %v ms", *c.TTFT.Min, *c.TTFT.Max)
		}
	}
	t.Log("a client that cannot keep up is a status of its own, by the lateness of its stamps: Client limited")
}

func caseW11SeveralSamplesToTheNanosecondAlsoWhereTheFirstTokenHa(t *testing.T) {
	t.Parallel()
	s := cached()
	s.PrefillPerToken = 500 * time.Microsecond
	w := bed{script: s, args: []string{"--contexts", "2K", "--concurrency", "1", "--prefill", "2K,4K", "--duration", "5s"}}.measure(t)
	w.readCold(w.prefill(2048), s, 3)
	w.readCold(w.prefill(4096), s, 3)
	s.Channel = func(_, token int) string {
		if token == 0 {
			return truth.Hidden
		}
		return wire.Content
	}
	w = bed{script: s, args: []string{"--contexts", "2K", "--concurrency", "1", "--prefill", "2K,4K", "--duration", "5s"}}.measure(t)
	w.is(w.cell(2048, 1), speedmatrix.StatusValid)
	w.exact(w.cell(2048, 1))
	w.readCold(w.prefill(2048), s, 3)
	w.readCold(w.prefill(4096), s, 3)
}

func caseW12TheMeasuredLengthStandsBesideTheLabel(t *testing.T) {
	t.Parallel()
	s := cached()
	s.Tokenize = false
	w := bed{script: s, args: []string{"--contexts", "1K,8K,32K", "--concurrency", "1", "--prefill", "1K,8K", "--duration", "5s"}}.measure(t)
	for _, n := range []int{1 << 10, 8 << 10, 32 << 10} {
		c := w.cell(n, 1)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c) // prompt tokens are the server's count
		within(t, c.Key(), c.PromptTokens, n, 0.02)
	}
}

// digits is a text of six letters for each token, never twice in a while.
func digits(req, token int) string { return fmt.Sprintf(" %05d", (req*7919+token*37)%100_000) }

// Whatever the pace, the tokens in an event, the usage, the scrapes and the engines behind them: the cell's numbers
// are the server's own.
func TestAnyServerIsMeasuredAsItIs(t *testing.T) {
	type trial struct {
		Gap, Base, Scrape time.Duration
		Burst, Streams    int
		Engines, Ends     int
		Lockstep          bool
	}
	several(t, 5, func(rt *rapid.T) trial {
		return trial{time.Duration(rapid.IntRange(4, 60).Draw(rt, "gap")) * ms, time.Duration(rapid.IntRange(1, 2500).Draw(rt, "base")) * ms,
			time.Duration(rapid.IntRange(0, 900).Draw(rt, "scrape")) * ms, rapid.IntRange(1, 7).Draw(rt, "burst"), rapid.IntRange(1, 12).Draw(rt, "streams"),
			rapid.IntRange(1, 4).Draw(rt, "engines"), rapid.IntRange(60, 4000).Draw(rt, "ends"), rapid.Bool().Draw(rt, "lockstep")}
	}, func(t *testing.T, x trial) {
		s := truth.Script{Gap: every(x.Gap), PrefillBase: x.Base, TokensPerEvent: x.Burst, Lockstep: x.Lockstep, StopAfter: short(x.Ends),
			Metrics: truth.Metrics{Engines: x.Engines, Before: x.Scrape}}
		w := bed{script: s, args: oneCell("0", fmt.Sprint(x.Streams))}.measure(t)
		c := w.cell(0, x.Streams)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
	})
}
