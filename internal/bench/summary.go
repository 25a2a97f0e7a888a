package bench

import (
	"maps"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stats"
)

// tally gathers the numbers of a cell while its requests are gone through.
type tally struct {
	w       window
	output  float64
	events  int
	source  speedmatrix.TokenSource
	spans   map[int32]*span
	gaps    []float64
	times   []int64
	weights []float64
	ctx     struct {
		weighted, tokens, start, end float64
		startN, endN                 int
	}
	ttft    []float64
	visible []float64
	prompts []float64
	cached  []float64
	prompt  float64
}

// span is one stream's share of the window.
type span struct{ nanos, tokens, all float64 }

// Summarize computes the numbers of a decode cell and puts them into c; what is unknown stays null.
// It leaves the status alone.
func Summarize(e *Evidence, c *speedmatrix.Cell) {
	c.Requests = countRequests(e.Requests)
	c.FailedRequests = &c.Requests.Failed
	c.StepSeconds = stepSeconds(e.Outcome.Steps)
	c.Client, c.TextSample = e.Client, e.Text
	c.Preemptions = preemptions(e.Scrapes)
	c.FirstError = firstError(e.Requests)
	if c.FirstError == "" {
		c.FirstError = e.FillError
	}
	t := &tally{spans: map[int32]*span{}}
	for _, r := range e.Requests {
		t.request(r)
	}
	t.launchNumbers(e, c)
	w, ok := snap(e)
	if !ok {
		return
	}
	t.w = w
	if c.PromptTokens != nil {
		t.prompt = *c.PromptTokens
	}
	f := cellFactor(e, w.start, w.end)
	for _, r := range e.Requests {
		t.inWindow(e, r, f)
	}
	t.windowNumbers(e, c)
	c.QueuedShare = queuedShare(e, w)
	c.ActiveRequestsMean = activeMean(e, w)
	c.CounterCheck = t.counterCheck(e)
}

// request takes the figures of one request in that need no window.
func (t *tally) request(r Recorded) {
	row := &r.Row
	if row.WrittenNS != nil && row.FirstNS != nil && row.Purpose == PurposeLaunch {
		t.ttft = append(t.ttft, float64(*row.FirstNS-*row.WrittenNS)/1e6)
		if row.FirstVisibleNS != nil {
			t.visible = append(t.visible, float64(*row.FirstVisibleNS-*row.WrittenNS)/1e6)
		}
	}
	t.prompts = appendKnown(t.prompts, row.PromptTokens)
	t.cached = appendKnown(t.cached, row.CachedTokens)
}

// inWindow takes in the arrivals of one request.
func (t *tally) inWindow(e *Evidence, r Recorded, f factor) {
	list, source := weigh(r, t.w.start, t.w.end, f)
	if t.arrivals(e, &r.Row, list) {
		t.source = worse(t.source, source)
	}
}

// text counts an arrival with text and the gap to the text before it, at last; 0 is none. It gives the last text's time.
func (t *tally) text(a *arrival, last int64) int64 {
	if !a.text {
		return last
	}
	t.events++
	if last != 0 {
		t.gaps = append(t.gaps, float64(a.at-last)/1e6)
	}
	return a.at
}

// arrivals takes in the arrivals of one request and says whether any lay in the window.
func (t *tally) arrivals(e *Evidence, row *speedmatrix.RequestRow, list []arrival) (any bool) {
	prompt := t.prompt
	if row.PromptTokens != nil {
		prompt = float64(*row.PromptTokens)
	}
	var sofar, atStart, atEnd float64
	s := t.span(row.Stream)
	var first, last, lastText int64
	timed := timedArrivals(row, list)
	for i := range list {
		a := &list[i]
		sofar += a.tokens
		if a.at <= t.w.start {
			atStart = sofar
		}
		if a.at <= t.w.end {
			atEnd = sofar
		}
		in := t.w.holds(a.at)
		if in {
			any = true
			t.output += a.tokens
			t.times, t.weights = append(t.times, a.at), append(t.weights, a.tokens)
			t.ctx.weighted += a.tokens * (prompt + sofar)
			s.all += a.tokens
			lastText = t.text(a, lastText)
		}
		if (in || e.WholeLife && a.at <= t.w.end) && (a.tokens > 0 || a.text) && i < timed {
			if first == 0 {
				first = a.at
			}
			if a.at > first { // what shares a read with the first took no time after it
				s.tokens += a.tokens
			}
			last = a.at
		}
	}
	if first != 0 {
		s.nanos += float64(last - first)
	}
	t.inFlight(row, prompt+atStart, prompt+atEnd)
	return any
}

// timedArrivals is how many of the arrivals have a time of their own: what a request that ended was counted after its
// last text came at the server's leisure.
func timedArrivals(row *speedmatrix.RequestRow, list []arrival) int {
	if row.Class == string(speedmatrix.RequestCompleted) {
		for i, a := range slices.Backward(list) {
			if a.text {
				return i + 1
			}
		}
	}
	return len(list)
}

// span is the stream's share of the window.
func (t *tally) span(stream int32) *span {
	s := t.spans[stream]
	if s == nil {
		s = &span{}
		t.spans[stream] = s
	}
	return s
}

// inFlight adds the request's context at the ends of the window, if it was in flight there. A request that does
// not tell its prompt tokens is taken to have the median of those that do.
func (t *tally) inFlight(row *speedmatrix.RequestRow, atStart, atEnd float64) {
	if row.WrittenNS == nil {
		return
	}
	during := func(at int64) bool { return *row.WrittenNS <= at && (row.EndedNS == nil || *row.EndedNS > at) }
	if during(t.w.start) {
		t.ctx.start += atStart
		t.ctx.startN++
	}
	if during(t.w.end) {
		t.ctx.end += atEnd
		t.ctx.endN++
	}
}

func (t *tally) launchNumbers(e *Evidence, c *speedmatrix.Cell) {
	c.TTFT = distribution(t.ttft, "requests")
	c.VisibleTTFT = distribution(t.visible, "requests")
	c.PromptTokens, c.CachedTokens = median(t.prompts), median(t.cached)
	c.Send, c.Connect = sendTimes(e.Requests)
	c.TTFTKind = ttftKind(e, c.TTFT)
}

func (t *tally) windowNumbers(e *Evidence, c *speedmatrix.Cell) {
	started := time.Unix(0, t.w.start).UTC()
	seconds := t.w.seconds()
	c.WindowStartedAt, c.WindowSeconds = &started, &seconds
	c.OutputTokens, c.TokenSource = &t.output, t.source
	total := t.output / seconds
	c.TotalTokensPerSecond = &total
	if low, high, ok := stats.BatchMeans(t.times, t.weights, t.w.start, t.w.end); ok {
		c.Interval95 = &speedmatrix.Interval{Low: low, High: high}
	}
	t.paces(c)
	c.EventGap = distribution(t.gaps, "events")
	completed := 0
	for _, r := range e.Requests {
		if r.Row.Class == string(speedmatrix.RequestCompleted) && r.Row.EndedNS != nil && t.w.holds(*r.Row.EndedNS) {
			completed++
		}
	}
	c.CompletedRequests = &completed
	if t.events > 0 {
		perEvent := t.output / float64(t.events)
		c.TokensPerEvent = &perEvent
	}
	if c.PromptTokens != nil && t.ctx.startN > 0 && t.ctx.endN > 0 && t.output > 0 {
		c.ContextTokens = &speedmatrix.ContextTokens{Start: t.ctx.start / float64(t.ctx.startN),
			Mean: t.ctx.weighted / t.output, End: t.ctx.end / float64(t.ctx.endN)}
	}
	c.AcceptedTokensPerStep = acceptedPerStep(e, t.w)
}

// paces gives each stream's time between tokens, and the speed that follows from it.
func (t *tally) paces(c *speedmatrix.Cell) {
	var between, speeds []float64
	for _, stream := range slices.Sorted(maps.Keys(t.spans)) {
		s := t.spans[stream]
		if s.all < minStreamTokens-sumSlack || s.tokens <= 0 || s.nanos <= 0 {
			continue
		}
		between = append(between, s.nanos/s.tokens/1e6)
		speeds = append(speeds, s.tokens/s.nanos*1e9)
	}
	c.TimeBetweenTokens = distribution(between, "streams")
	c.PerRequestTokensPerSecond = median(speeds)
}

// counterCheck compares our tokens with the engine's live counter over the same span.
func (t *tally) counterCheck(e *Evidence) *speedmatrix.CounterCheck {
	if !e.LiveCounter {
		return nil
	}
	first, last, ok := counterSpan(e.Scrapes, t.w.start, t.w.end)
	if !ok {
		return nil
	}
	from, to := first.MiddleNS(), last.MiddleNS()
	ours := 0.0
	for i, at := range t.times {
		if at > from && at <= to {
			ours += t.weights[i]
		}
	}
	span := float64(to-from) / 1e9
	return &speedmatrix.CounterCheck{Counter: e.Counter, SpanSeconds: span,
		UncertaintySeconds: counterUncertainty(first, last) * span,
		ServerTokens:       *last.GenerationTokens - *first.GenerationTokens, ClientTokens: ours}
}

// acceptedPerStep is generated tokens per engine step of a sequence with speculative decoding:
// (drafts + accepted tokens) ÷ drafts over the window.
func acceptedPerStep(e *Evidence, w window) *float64 {
	var first, last *speedmatrix.ServerRow
	for i := range e.Scrapes {
		s := &e.Scrapes[i]
		if s.Drafts == nil || s.DraftsAccepted == nil || !w.holds(s.MiddleNS()) {
			continue
		}
		if first == nil {
			first = s
		}
		if last != nil && (*s.Drafts < *last.Drafts || *s.DraftsAccepted < *last.DraftsAccepted) {
			return nil // the engine started again
		}
		last = s
	}
	if first == nil || *last.Drafts <= *first.Drafts {
		return nil
	}
	drafts := *last.Drafts - *first.Drafts
	rate := (drafts + *last.DraftsAccepted - *first.DraftsAccepted) / drafts
	return &rate
}
