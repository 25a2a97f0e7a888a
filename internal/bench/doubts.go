package bench

import (
	"fmt"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// Doubts are the warnings that a measured cell's numbers deserve.
func Doubts(e *Evidence, c *speedmatrix.Cell) []speedmatrix.Warning {
	var list []speedmatrix.Warning
	warn := func(code, format string, args ...any) {
		list = append(list, speedmatrix.Warning{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if underfilled(e, c) {
		warn("underfilled", "%.1f of %d requests ran on average, although none waited", *c.ActiveRequestsMean, e.Concurrency)
	}
	if c.Requests != nil && c.Requests.Failed > 0 && c.Status.ShowsSpeed() {
		warn("failed requests", "%d of %d requests failed%s", c.Requests.Failed, c.Requests.Sent, because(c.FirstError))
	}
	if n := len(e.Outcome.Looping); n > 0 && n < loopLimit(e.Concurrency) {
		warn("loops", "%d of %d streams repeated the same text", n, e.Concurrency)
	}
	if k := c.CounterCheck; k != nil && countsDiffer(k, e.Concurrency) {
		warn("token counts", "we counted %.0f tokens where the engine's %s moved by %.0f", k.ClientTokens, k.Counter, k.ServerTokens)
	}
	if n, of := hidingRequests(e); n > 0 {
		warn("hidden reasoning", "the server sent no text of the reasoning of %d requests (%d tokens at the median): the time to first token includes it, and its tokens count when the first text comes", n, of)
	}
	if along, final, n := countsAndUsage(e); abs(along-final) > countTolerance*final+float64(n) {
		warn("token counts", "the counts along the text of %d requests end at %.0f tokens in all where their usage at the end says %.0f", n, along, final)
	}
	if sourceRank[c.TokenSource] == sourceRank[speedmatrix.TokensEvents] {
		warn("events counted", "tokens are counted as events: a lower bound")
	}
	readingDoubts(e, warn)
	return append(list, brokenInvariants(e, c)...)
}

// readingDoubts are those about what was read of the server besides the cell's tokens.
func readingDoubts(e *Evidence, warn func(code, format string, args ...any)) {
	if failed, words := failedScrapes(e); failed*unreadAllowance > len(e.Scrapes) {
		warn("unread figures", "%d of %d reads of the server's figures failed; the first: %s", failed, len(e.Scrapes), words)
	}
	if silent := silentEnd(e); silent > 0 {
		warn("silence", "no token came in the last %s of the window", unit.Duration(silent))
	}
	if e.Outcome.stillRunning() {
		warn("not drained", "%s", e.Outcome.left(" after they were cut"))
	}
	if q := e.Client; q != nil && q.Replays > 0 {
		warn("replays", "%d requests were sent again, because the server had closed a connection that it had promised to keep", q.Replays)
	}
}

// silentEnd is how long before its end a window had its last token, where none came after it in time to close it.
func silentEnd(e *Evidence) time.Duration {
	w, ok := snap(e)
	if !ok || e.WholeLife || w.end != e.Outcome.PlannedEndNS {
		return 0
	}
	last := w.start
	for _, r := range e.Requests {
		for ev := range r.Events {
			if w.holds(ev.TimeNS) {
				last = max(last, ev.TimeNS)
			}
		}
	}
	return time.Duration(w.end - last)
}

// unreadAllowance: one failed scrape in so many is not worth a warning.
const unreadAllowance = 10

// failedScrapes counts the scrapes of a cell that failed, with the words of the first.
func failedScrapes(e *Evidence) (n int, words string) {
	for i := range e.Scrapes {
		if e.Scrapes[i].Error == "" {
			continue
		}
		if n++; n == 1 {
			words = e.Scrapes[i].Error
		}
	}
	return n, words
}

// hidingRequests counts the requests whose reasoning had no text, and gives the median of its tokens.
func hidingRequests(e *Evidence) (n, tokens int) {
	var hidden []float64
	for _, r := range e.Requests {
		if h := hiddenReasoning(r); h > 0 {
			hidden = append(hidden, float64(h))
		}
	}
	if len(hidden) == 0 {
		return 0, 0
	}
	return len(hidden), int(stats.Median(hidden))
}

// countTolerance is how far apart two counts of the same tokens may be, as a share.
const countTolerance = 0.01

// countsAndUsage sums over the requests that ended and were counted along their text what the last text had and what the
// usage at the end says. A token without text may come in between in each.
func countsAndUsage(e *Evidence) (along, final float64, n int) {
	for _, r := range e.Requests {
		if r.Row.Class != string(speedmatrix.RequestCompleted) || r.Row.CompletionTokens == nil {
			continue
		}
		var most int32
		for ev := range r.Events {
			if ev.TextLength > 0 && ev.Tokens != nil {
				most = max(most, *ev.Tokens)
			}
		}
		if _, counted, _ := arrivals(r.Events); counted && most > 0 {
			along, final, n = along+float64(most), final+float64(*r.Row.CompletionTokens), n+1
		}
	}
	return along, final, n
}

// underfilled says whether fewer requests ran than planned although none waited.
func underfilled(e *Evidence, c *speedmatrix.Cell) bool {
	queued := c.QueuedShare != nil && *c.QueuedShare > 0
	return c.Status == speedmatrix.StatusValid && !queued &&
		c.ActiveRequestsMean != nil && *c.ActiveRequestsMean < underfilledBelow*float64(e.Concurrency)
}

// countsDiffer says whether our count and the engine's are more than 1 % apart, beyond what the length of the
// scrapes and a token on its way in each stream explain.
func countsDiffer(k *speedmatrix.CounterCheck, concurrency int) bool {
	if k.ServerTokens <= 0 {
		return false
	}
	slack := k.UncertaintySeconds/k.SpanSeconds + float64(concurrency)/k.ServerTokens
	return abs(k.ClientTokens-k.ServerTokens)/k.ServerTokens > countTolerance+slack
}
