package bench

import (
	"math"
	"time"

	"speedmatrix"
)

// Evidence is everything recorded of one attempt at a decode cell.
type Evidence struct {
	Context, Concurrency int
	Outcome              Outcome
	// Requests are those of the streams, from launch to stop.
	Requests []Recorded
	// Scrapes are those from the launch on, in order of time.
	Scrapes []speedmatrix.ServerRow
	// LiveCounter: GenerationTokens of the scrapes moves with every step; Counter names it.
	LiveCounter bool
	Counter     string
	// TokensPerEvent is the warm-up's; 0 unknown.
	TokensPerEvent float64
	// TemplateTokens and BlockTokens tell cold from warm.
	TemplateTokens, BlockTokens int
	// FillTTFT is the median of the row's fills; 0 when no head was filled.
	FillTTFT time.Duration
	// MaxTokens is the output cap of the requests; 0 where it is not ours to know.
	MaxTokens int
	// WholeLife counts the time between tokens over each request's whole life (method compat).
	WholeLife bool
	Client    *speedmatrix.ClientQuality
	// FillError is the first failed fill's error in the server's words; Text one line of what the model wrote.
	FillError, Text string
}

// minStreamTokens is the least number of tokens in the window from which a stream gives a time between tokens.
const minStreamTokens = 20

// sumSlack is how far a sum of weights that are no whole numbers may be off.
const sumSlack = 1e-6

// window is the snapped window, (start, end].
type window struct{ start, end int64 }

func (w window) holds(t int64) bool { return t > w.start && t <= w.end }

func (w window) seconds() float64 { return float64(w.end-w.start) / 1e9 }

// overlap is how much of [from, to] lies in the window, in ns; an open end is 0.
func (w window) overlap(from, to int64) int64 {
	if to == 0 {
		to = w.end
	}
	return max(min(to, w.end)-max(from, w.start), 0)
}

// snap finds the window's ends among the arrivals of all streams.
func snap(e *Evidence) (w window, ok bool) {
	from, to := e.Outcome.PlannedStartNS, e.Outcome.PlannedEndNS
	if from == 0 || to <= from {
		return w, false
	}
	w = window{start: math.MaxInt64, end: math.MaxInt64}
	lastBefore := int64(0)
	for _, r := range e.Requests {
		for ev := range r.Events {
			if ev.TimeNS >= from && ev.TimeNS < w.start {
				w.start = ev.TimeNS
			}
			if ev.TimeNS >= to && ev.TimeNS < w.end {
				w.end = ev.TimeNS
			}
			if ev.TimeNS > from && ev.TimeNS <= to {
				lastBefore = max(lastBefore, ev.TimeNS)
			}
		}
	}
	if w.end > to+int64(settleLimit) {
		w.end = to
	}
	if e.WholeLife {
		w = window{start: from, end: lastBefore}
	}
	return w, w.start < w.end && w.start != math.MaxInt64
}
