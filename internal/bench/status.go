package bench

import (
	"fmt"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// The thresholds of the statuses; see the table in docs/method.md.
const (
	failedShareLimit  = 0.01
	missingShareLimit = 0.02
	queuedShareLimit  = 0.05
	underfilledBelow  = 0.98

	userLagLimit       = 5 * time.Millisecond
	userLagShare       = 0.10
	kernelLagShare     = 0.50
	coalescedAllowance = 0.05
	sendLateLimit      = 5 * time.Millisecond
)

// Judgement is what decides a cell's status besides its evidence.
type Judgement struct {
	// ServerCoalesced is the share of coalesced reads at one request: the server's own habit.
	ServerCoalesced float64
}

// Judge gives the first status that applies, with the numbers that decided it in the reason.
func Judge(e *Evidence, c *speedmatrix.Cell, j Judgement) (speedmatrix.Status, string) {
	w, windowed := snap(e)
	rules := []func() (speedmatrix.Status, string){
		func() (speedmatrix.Status, string) { return judgeEnding(e) },
		func() (speedmatrix.Status, string) { return judgeCapacity(e, c, w, windowed) },
		func() (speedmatrix.Status, string) { return judgeFailed(e, c, w, windowed) },
		func() (speedmatrix.Status, string) { return judgeClient(e, c, j) },
		func() (speedmatrix.Status, string) { return judgeLooped(e) },
		func() (speedmatrix.Status, string) { return judgeQueued(e, c, w, windowed) },
		func() (speedmatrix.Status, string) { return judgeReady(e, windowed) },
	}
	for _, rule := range rules {
		if status, reason := rule(); status != "" {
			return status, reason
		}
	}
	return speedmatrix.StatusValid, ""
}

func judgeEnding(e *Evidence) (speedmatrix.Status, string) {
	switch e.Outcome.Ending {
	case EndedSkipped:
		return speedmatrix.StatusSkipped, "skipped by the user while it ran"
	case EndedInterrupted:
		return speedmatrix.StatusInterrupted, "the run was interrupted inside it"
	}
	return "", ""
}

// memoryWords are how servers say that a request was refused or killed for want of KV cache.
var memoryWords = []string{
	"context size has been exceeded", "out of memory", "kv cache is full", "kv cache", "not enough memory",
	"no available memory", "insufficient memory", "memory pool is full", "cache is full",
}

func refusedForMemory(text string) bool {
	text = strings.ToLower(text)
	for _, words := range memoryWords {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

func judgeCapacity(e *Evidence, c *speedmatrix.Cell, w window, windowed bool) (speedmatrix.Status, string) {
	if c.Preemptions != nil && *c.Preemptions > 0 {
		return speedmatrix.StatusOverCapacity, fmt.Sprintf("the engine preempted requests %s times", unit.Count(*c.Preemptions))
	}
	refused, first := 0, ""
	for _, r := range e.Requests {
		if r.Row.Class == string(speedmatrix.RequestFailed) && refusedForMemory(r.Row.Error) {
			refused++
			first = r.Row.Error
		}
	}
	if refused > 0 {
		return speedmatrix.StatusOverCapacity, fmt.Sprintf("the server refused %d of %d requests for memory: %s", refused, len(e.Requests), first)
	}
	if windowed {
		if share := fullShare(e, w); share > queuedShareLimit {
			return speedmatrix.StatusOverCapacity, fmt.Sprintf("requests waited with the KV cache at least 95 %% in use for %.0f %% of the window", share*100)
		}
		if share := putBackShare(e, w); share > queuedShareLimit {
			return speedmatrix.StatusOverCapacity, fmt.Sprintf("requests that had begun to answer were put back into the queue for %.0f %% of the window", share*100)
		}
	}
	return "", ""
}

func judgeFailed(e *Evidence, c *speedmatrix.Cell, w window, windowed bool) (speedmatrix.Status, string) {
	switch e.Outcome.Ending {
	case EndedNotDrained:
		return speedmatrix.StatusFailed, e.Outcome.left("")
	case EndedFillFailed:
		return speedmatrix.StatusFailed, "a prefill of this row's prompts failed" + because(c.FirstError)
	}
	if e.Outcome.Ending == EndedNotReady && c.TTFT == nil && !waitedAtTheEnd(e) {
		return speedmatrix.StatusFailed, fmt.Sprintf("none of the %d requests had a token %s after launch%s", e.Concurrency, readyTime(e), because(c.FirstError))
	}
	sent, failed := c.Requests.Sent, c.Requests.Failed
	if failed > 0 && float64(failed) > failedShareLimit*float64(sent) {
		return speedmatrix.StatusFailed, fmt.Sprintf("%d of %d requests failed (%.0f %%)%s", failed, sent, 100*float64(failed)/float64(sent), because(c.FirstError))
	}
	if !windowed {
		if e.Outcome.PlannedStartNS != 0 && e.Outcome.Ending == EndedMeasured {
			return speedmatrix.StatusFailed, "no token arrived in the window" + because(c.FirstError)
		}
		return "", ""
	}
	if share := missingShare(e, w); share > missingShareLimit {
		return speedmatrix.StatusFailed, fmt.Sprintf("fewer than %d requests were in flight for %.0f %% of the window%s", e.Concurrency, share*100, because(c.FirstError))
	}
	if e.Outcome.stillRunning() {
		return speedmatrix.StatusFailed, e.Outcome.left(" after they were cut")
	}
	return "", ""
}

func because(text string) string {
	if text == "" {
		return ""
	}
	return "; the first: " + text
}

// judgeClient applies the rules of client quality: stamps that the reader's lateness may have spoiled, or
// requests that left late.
func judgeClient(e *Evidence, c *speedmatrix.Cell, j Judgement) (speedmatrix.Status, string) {
	q := e.Client
	if q == nil {
		return "", ""
	}
	if q.SendLateP99Micros != nil && *q.SendLateP99Micros > float64(sendLateLimit.Microseconds()) {
		return speedmatrix.StatusClientLimited, fmt.Sprintf("requests left %.1f ms (p99) later than planned", *q.SendLateP99Micros/1e3)
	}
	if q.ReaderLagP99Micros == nil || c.EventGap == nil || c.EventGap.P50 == nil {
		return "", ""
	}
	lag, gap := *q.ReaderLagP99Micros/1e3, *c.EventGap.P50
	if q.StampSource != StampKernel {
		if limit := min(float64(userLagLimit.Milliseconds()), userLagShare*gap); lag > limit {
			return speedmatrix.StatusClientLimited, fmt.Sprintf("events were read %.1f ms (p99) late, at %.1f ms between events", lag, gap)
		}
		return "", ""
	}
	coalesced := 0.0
	if q.CoalescedShare != nil {
		coalesced = *q.CoalescedShare
	}
	if lag > kernelLagShare*gap && coalesced > j.ServerCoalesced+coalescedAllowance {
		return speedmatrix.StatusClientLimited, fmt.Sprintf("events were read %.1f ms (p99) late, at %.1f ms between events, and %.0f %% of the reads held several",
			lag, gap, coalesced*100)
	}
	return "", ""
}

// loopLimit is the number of looping streams from which a cell counts as looped.
func loopLimit(concurrency int) int { return max(1, concurrency/4) }

func judgeLooped(e *Evidence) (speedmatrix.Status, string) {
	if n := len(e.Outcome.Looping); n >= loopLimit(e.Concurrency) {
		return speedmatrix.StatusLooped, fmt.Sprintf("%d of %d streams repeated the same text", n, e.Concurrency)
	}
	return "", ""
}

func judgeQueued(e *Evidence, c *speedmatrix.Cell, w window, windowed bool) (speedmatrix.Status, string) {
	if !windowed || c.QueuedShare == nil {
		if e.Outcome.Ending == EndedNotReady && waitedAtTheEnd(e) {
			return speedmatrix.StatusRequestsQueued, "requests waited in the server's queue until the time to get ready was over"
		}
		return "", ""
	}
	if *c.QueuedShare > queuedShareLimit {
		return speedmatrix.StatusRequestsQueued, fmt.Sprintf("requests waited for %.0f %% of the window", *c.QueuedShare*100)
	}
	if n := neverStarted(e, w); n > 0 && !gaugesKnown(e) {
		return speedmatrix.StatusRequestsQueued, fmt.Sprintf("%d of %d streams had no token in the window while others did", n, e.Concurrency)
	}
	return "", ""
}

func gaugesKnown(e *Evidence) bool {
	for i := range e.Scrapes {
		if e.Scrapes[i].Waiting != nil {
			return true
		}
	}
	return false
}

// waitedAtTheEnd says whether the last scrape before the stop showed waiting requests.
func waitedAtTheEnd(e *Evidence) bool {
	waiting := false
	for i := range e.Scrapes {
		s := &e.Scrapes[i]
		if s.Waiting != nil && s.MiddleNS() <= e.Outcome.StopNS {
			waiting = *s.Waiting > 0
		}
	}
	return waiting
}

// neverStarted counts the streams without a first token by the end of the window.
func neverStarted(e *Evidence, w window) int {
	started := map[int32]bool{}
	for _, r := range e.Requests {
		if r.Row.FirstNS != nil && *r.Row.FirstNS <= w.end {
			started[r.Row.Stream] = true
		}
	}
	return e.Concurrency - len(started)
}

func judgeReady(e *Evidence, windowed bool) (speedmatrix.Status, string) {
	if e.Outcome.Ending == EndedNotReady || e.Outcome.Unready || !windowed {
		return speedmatrix.StatusNotReady, fmt.Sprintf("not all %d streams were producing %s after launch", e.Concurrency, readyTime(e))
	}
	return "", ""
}

// readyTime is the time from launch that the streams were given to get ready.
func readyTime(e *Evidence) string {
	until := e.Outcome.StopNS
	if e.Outcome.PlannedStartNS > 0 {
		until = e.Outcome.PlannedStartNS
	}
	return unit.Duration(time.Duration(until - e.Outcome.LaunchNS))
}
