package bench

import (
	"slices"
	"time"
)

func (p *Protocol) open(now int64, o Observation) Action {
	p.enter(StepWindow, now)
	p.out.PlannedStartNS = now
	for i := range o.Streams {
		p.marks[i], p.counted[i] = o.Streams[i].Tokens, o.Streams[i].EverFirst
	}
	return p.wait(now, pollEvery)
}

// slowest is the least number of tokens in the window by a stream that produced at its beginning.
func (p *Protocol) slowest(o Observation) (tokens float64, any bool) {
	for i := range o.Streams {
		if !p.counted[i] {
			continue
		}
		got := o.Streams[i].Tokens - p.marks[i]
		if !any || got < tokens {
			tokens, any = got, true
		}
	}
	return tokens, any
}

func (p *Protocol) window(now int64, o Observation) Action {
	for stream, found := p.newLoop(o); found; stream, found = p.newLoop(o) {
		if !slices.Contains(p.out.Looping, stream) {
			p.out.Looping = append(p.out.Looping, stream)
		}
	}
	switch {
	case p.rules.EndOnLoop && len(p.out.Looping) > 0:
		p.out.Ending = EndedLooped
	case p.failing(o):
		p.out.Ending = EndedFailing
	case !p.windowOver(now, o):
		return Action{Kind: ActionWait, WakeNS: min(now+int64(pollEvery), p.nextMark(now))}
	}
	return p.closeWindow(now, o)
}

// closeWindow plans the window's end for now and waits for the arrival that closes it, whyever it ends.
func (p *Protocol) closeWindow(now int64, o Observation) Action {
	p.out.PlannedEndNS = now
	p.enter(StepSettle, now)
	return p.settle(now, o)
}

// nextMark is the next instant at which time alone may end the window.
func (p *Protocol) nextMark(now int64) int64 {
	w := p.rules.Window
	next := now + int64(pollEvery)
	for _, d := range []time.Duration{w.Min, w.Duration, time.Duration(w.MaxExtension * float64(w.Duration))} {
		if at := p.out.PlannedStartNS + int64(d); at > now && at < next {
			next = at
		}
	}
	return next
}

func (p *Protocol) windowOver(now int64, o Observation) bool {
	w := p.rules.Window
	elapsed := time.Duration(now - p.out.PlannedStartNS)
	if elapsed < min(w.Min, w.Duration) {
		return false
	}
	slowest, some := p.slowest(o)
	switch {
	case w.Tokens > 0 && some && slowest >= float64(w.Tokens):
		return true
	case w.Precision > 0 && o.Interval >= 0 && o.Interval <= w.Precision && o.Drift >= 0 && o.Drift < w.Precision/2 && slowest >= float64(w.MinTokens):
		return true
	case elapsed < w.Duration:
		return false
	}
	return !some || slowest >= float64(w.MinTokens) || float64(elapsed) >= w.MaxExtension*float64(w.Duration)
}

// settle waits for the arrival that closes the window, and then a moment for readers that are behind: what arrived
// before it elsewhere must not be cut off unread.
func (p *Protocol) settle(now int64, o Observation) Action {
	limit := p.out.PlannedEndNS + int64(settleLimit)
	for i := range o.Streams {
		if p.closed == 0 && o.Streams[i].LastNS >= p.out.PlannedEndNS {
			p.closed = now
		}
	}
	if p.closed > 0 {
		limit = p.closed + int64(pollEvery)
	}
	if now >= limit {
		return p.stop(now)
	}
	return Action{Kind: ActionWait, WakeNS: min(now+int64(pollEvery), limit)}
}

// WindowProgress gives the share of the window that is over, by time or tokens, and the slowest stream's tokens in it.
func (p *Protocol) WindowProgress(now int64, o Observation) (share float64, slowest float64) {
	if p.step != StepWindow {
		return 0, 0
	}
	slowest, _ = p.slowest(o)
	w := p.rules.Window
	share = float64(now-p.out.PlannedStartNS) / float64(max(w.Duration, w.Min))
	if w.Tokens > 0 {
		byTokens := slowest / float64(w.Tokens)
		byMin := float64(now-p.out.PlannedStartNS) / float64(max(w.Min, 1))
		share = max(share, min(byTokens, byMin))
	}
	return min(share, 1), slowest
}
