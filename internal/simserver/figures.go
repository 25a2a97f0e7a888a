package simserver

import (
	"slices"
	"sync"

	"speedmatrix/internal/engine"
	"speedmatrix/internal/wire"
)

// mostBounds is more than any histogram has buckets.
const mostBounds = 28

// histogram counts observations by bucket; its bounds are in histograms.
type histogram struct {
	counts [mostBounds]int64 // the last used one has no upper bound
	n      int64
	sum    float64
}

// The histograms, in vLLM's order.
const (
	histPromptTokens = iota
	histGenerationTokens
	histIterationTokens
	histMaxGenerationTokens
	histParamsN
	histParamsMaxTokens
	histFirstToken
	histInterToken
	histPerOutputToken
	histLatency
	histQueue
	histInference
	histPrefill
	histDecode
	histPreemptions
	histComputed
	histCount
)

// The finish reasons, in vLLM's order.
var finishReasons = [...]string{wire.FinishStop, wire.FinishLength, wire.FinishAbort, "error", "repetition"}

// figures is what /metrics shows, as of a step boundary.
type figures struct {
	atNS    int64
	gauges  engine.Gauges
	engine  engine.Counters
	choices int64 // choices that came

	promptTokens, cachedTokens, generated int64
	preemptions, rejected                 int64
	success                               [len(finishReasons)]int64
	histograms                            [histCount]histogram

	iteration int // prompt tokens whose request got its first token in this step
	bounds    *[histCount][]float64
}

func (f *figures) observe(which int, v float64) {
	h := &f.histograms[which]
	at, _ := slices.BinarySearch(f.bounds[which], v) // the first bound not below v
	h.counts[at]++
	h.n++
	h.sum += v
}

// token books a token of a choice that leaves at an instant.
func (f *figures) token(j *job, o *engine.Output, at int64) {
	f.generated++
	if o.Index > 0 {
		f.observe(histInterToken, seconds(at-j.lastNS))
		return
	}
	j.firstNS = at
	f.promptTokens += int64(len(j.prompt))
	f.cachedTokens += int64(o.Cached)
	f.iteration += len(j.prompt)
	f.observe(histFirstToken, seconds(at-j.group.arrivedNS))
}

// ended books the end of a choice. Aborted ones are booked nowhere, as in vLLM.
func (f *figures) ended(j *job, cached, tokens int) {
	if i := slices.Index(finishReasons[:], j.finish); i >= 0 {
		f.success[i]++
	}
	decode := seconds(j.lastNS - j.firstNS)
	f.observe(histPromptTokens, float64(len(j.prompt)))
	f.observe(histGenerationTokens, float64(tokens))
	f.observe(histMaxGenerationTokens, float64(tokens))
	f.observe(histParamsN, float64(j.n))
	f.observe(histParamsMaxTokens, float64(j.max))
	f.observe(histPerOutputToken, decode/float64(max(tokens-1, 1)))
	f.observe(histLatency, seconds(j.lastNS-j.group.arrivedNS))
	f.observe(histQueue, seconds(j.startedNS-j.readyNS))
	f.observe(histInference, seconds(j.lastNS-j.startedNS))
	f.observe(histPrefill, seconds(j.firstNS-j.startedNS))
	f.observe(histDecode, decode)
	f.observe(histPreemptions, float64(j.preempted))
	f.observe(histComputed, float64(len(j.prompt)-cached))
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// board shows the figures to scrapers without making the engine wait for them.
type board struct {
	mu             sync.Mutex
	before, newest figures
}

// publish shows the figures as of an instant.
func (b *board) publish(f *figures, at int64) {
	f.atNS = at
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest.atNS < at {
		b.before = b.newest
	}
	b.newest = *f
}

// read gives the figures that were shown before an instant: what a step that
// ends in the same instant changes, a scrape does not see.
func (b *board) read(at int64) figures {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest.atNS < at {
		return b.newest
	}
	return b.before
}
