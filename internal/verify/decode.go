package verify

import (
	"math"

	"speedmatrix"
)

// minStreamTokens in the window are what a stream needs to give a time between tokens;
// the slack is for sums of weights that are no whole numbers.
const minStreamTokens = 20 - 1e-6

// decode recomputes a decode cell.
func (c *checker) decode(m *measurement) *speedmatrix.Cell {
	got := &speedmatrix.Cell{
		TTFT:        distribution(m.ttft((*request).firstText), "requests"),
		VisibleTTFT: distribution(m.ttft((*request).firstContent), "requests"),
		Preemptions: m.preemptions(),
	}
	m.perRequest(got)
	got.TTFTKind = c.kind(m, got.TTFT)
	got.Repeats = c.spread(m)
	if m.hasWindow() {
		m.overWindow(got, c.run.Method.Name == speedmatrix.MethodCompat)
		window := []stretch{{m.from, m.to}}
		c.overMachine(got, window)
		got.EnergyPerOutputToken = energyPerToken(got.GPUPower, window, *got.OutputTokens)
	}
	return got
}

// ttft gives one sample per launched request that had such an event, in ms.
func (m *measurement) ttft(first func(*request) (int64, bool)) []float64 {
	var samples []float64
	for _, r := range m.streams {
		if at, ok := first(r); ok && r.isLaunch() && r.WrittenNS != nil {
			samples = append(samples, float64(at-*r.WrittenNS)/1e6)
		}
	}
	return samples
}

// perRequest recomputes what needs the streams' requests alone.
func (m *measurement) perRequest(got *speedmatrix.Cell) {
	var prompt, cached, send, connect []float64
	for _, r := range m.streams {
		if r.PromptTokens != nil {
			prompt = append(prompt, float64(*r.PromptTokens))
		}
		if r.CachedTokens != nil {
			cached = append(cached, float64(*r.CachedTokens))
		}
		send, connect = appendMillis(send, r.SendNS), appendMillis(connect, r.ConnectNS)
	}
	got.PromptTokens, got.CachedTokens = median(prompt), median(cached)
	got.Send, got.Connect = distribution(send, "requests"), distribution(connect, "requests")
	got.Requests = countClasses(m.streams)
	got.FailedRequests = new(got.Requests.Failed)
}

// countClasses counts requests by how they ended.
func countClasses(requests []*request) *speedmatrix.RequestCounts {
	counts := &speedmatrix.RequestCounts{Sent: len(requests)}
	for _, r := range requests {
		switch speedmatrix.RequestClass(r.Class) {
		case speedmatrix.RequestCompleted:
			counts.Completed++
		case speedmatrix.RequestCut:
			counts.Cut++
		case speedmatrix.RequestFailed:
			counts.Failed++
		}
	}
	return counts
}

// appendMillis adds a duration in ns, if it is known, in ms.
func appendMillis(list []float64, ns *int64) []float64 {
	if ns == nil {
		return list
	}
	return append(list, float64(*ns)/1e6)
}

// overWindow recomputes what the window bounds.
func (m *measurement) overWindow(got *speedmatrix.Cell, wholeLife bool) {
	got.WindowStartedAt, got.WindowSeconds = m.cell.WindowStartedAt, new(m.seconds())
	output := m.tokens(m.from, m.to)
	got.OutputTokens, got.TokenSource = &output, m.source
	got.TotalTokensPerSecond = new(output / m.seconds())
	got.Interval95, _ = m.interval95()
	if n := m.textEvents(m.from, m.to); n > 0 {
		got.TokensPerEvent = new(output / float64(n))
	}
	between := m.timeBetweenTokens(wholeLife)
	var speeds []float64
	for _, ms := range between {
		speeds = append(speeds, 1000/ms)
	}
	got.PerRequestTokensPerSecond = median(speeds)
	got.TimeBetweenTokens = distribution(between, "streams")
	got.EventGap = distribution(m.gaps(), "events")
	got.ContextTokens = m.contextTokens(got.PromptTokens)
	got.CompletedRequests = new(m.completed())
	got.ActiveRequestsMean = m.activeMean()
	got.QueuedShare = m.queuedShare()
	got.AcceptedTokensPerStep = m.tokensPerStep()
	got.CounterCheck = m.counterCheck()
}

// timeBetweenTokens gives one sample per stream in ms. Whole life is the definition of
// the compat method: each request from its first text on, ramp included.
func (m *measurement) timeBetweenTokens(wholeLife bool) []float64 {
	var samples []float64
	for i := 0; i < len(m.streams); {
		stream := m.streams[i].Stream
		var duration, after, inside float64
		for ; i < len(m.streams) && m.streams[i].Stream == stream; i++ {
			d, a := m.streams[i].pace(func(e event) bool { return m.in(e.at) || wholeLife && e.at <= m.to })
			duration, after = duration+d, after+a
			for _, e := range m.streams[i].events {
				if m.in(e.at) {
					inside += e.weight
				}
			}
		}
		if inside >= minStreamTokens && after > 0 && duration > 0 {
			samples = append(samples, duration/after*1000)
		}
	}
	return samples
}

// pace is, over the chosen arrivals of a request, last − first in seconds, and the
// tokens after the first.
func (r *request) pace(chosen func(event) bool) (duration, after float64) {
	var first, last int64
	begun := false
	for _, e := range r.timed() {
		if !chosen(e) || e.weight <= 0 && e.text == 0 {
			continue
		}
		if !begun {
			first, begun = e.at, true
		}
		if e.at > first {
			after += e.weight
		}
		last = e.at
	}
	return float64(last-first) / 1e9, after
}

// timed are the events that have a time of their own: of a request that ended not what was
// counted after its last text.
func (r *request) timed() []event {
	end := len(r.events)
	for end > 0 && r.events[end-1].text == 0 {
		end--
	}
	if end == 0 || r.Class != string(speedmatrix.RequestCompleted) {
		return r.events
	}
	return r.events[:end]
}

// gaps are the times between consecutive events with text of a request, both in the window, in ms.
func (m *measurement) gaps() []float64 {
	var gaps []float64
	for _, r := range m.streams {
		before, begun := int64(0), false
		for _, e := range r.events {
			if e.text == 0 {
				continue
			}
			if begun && m.in(before) && m.in(e.at) {
				gaps = append(gaps, float64(e.at-before)/1e6)
			}
			before, begun = e.at, true
		}
	}
	return gaps
}

// contextTokens: a request that does not tell its prompt tokens is taken to have the
// median of those that do. It is nil when none does, or when nothing was in flight.
func (m *measurement) contextTokens(prompt *float64) *speedmatrix.ContextTokens {
	if prompt == nil {
		return nil
	}
	var startSum, endSum, startN, endN, weighted, weights float64
	for _, r := range m.streams {
		context := *prompt
		if r.PromptTokens != nil {
			context = float64(*r.PromptTokens)
		}
		atStart, atEnd := context, context
		soFar := context
		for _, e := range r.events {
			soFar += e.weight
			if e.at <= m.from {
				atStart = soFar
			}
			if e.at <= m.to {
				atEnd = soFar
			}
			if m.in(e.at) {
				weighted += e.weight * soFar
				weights += e.weight
			}
		}
		if r.inFlight(m.from) {
			startSum, startN = startSum+atStart, startN+1
		}
		if r.inFlight(m.to) {
			endSum, endN = endSum+atEnd, endN+1
		}
	}
	if startN == 0 || endN == 0 || weights == 0 {
		return nil
	}
	return &speedmatrix.ContextTokens{Start: startSum / startN, Mean: weighted / weights, End: endSum / endN}
}

func (m *measurement) completed() int {
	n := 0
	for _, r := range m.streams {
		if r.Class == string(speedmatrix.RequestCompleted) && r.EndedNS != nil && m.in(*r.EndedNS) {
			n++
		}
	}
	return n
}

// activeMean is the mean of the running gauge, else of our requests in flight.
func (m *measurement) activeMean() *float64 {
	running := func(s speedmatrix.ServerRow) *float64 { return s.Running }
	var sum float64
	if known := having(m.inside, running); len(known) > 0 {
		for _, s := range known {
			sum += *s.Running
		}
		return new(sum / float64(len(known)))
	}
	for _, r := range m.streams {
		if r.WrittenNS != nil {
			sum += m.overlap(*r.WrittenNS, r.endedBy(m.to))
		}
	}
	return new(sum / m.seconds())
}

// queuedShare by the waiting gauge, else by streams that waited long for a first token.
func (m *measurement) queuedShare() *float64 {
	known := having(m.inside, func(s speedmatrix.ServerRow) *float64 { return s.Waiting })
	var waited float64
	for i, s := range known {
		from, to := s.MiddleNS(), m.to
		if i == 0 {
			from = m.from
		}
		if i+1 < len(known) {
			to = known[i+1].MiddleNS()
		}
		if *s.Waiting > 0 {
			waited += m.overlap(from, to)
		}
	}
	if len(known) > 0 {
		return new(waited / m.seconds())
	}
	usual := m.usualWait()
	if usual == nil {
		return nil
	}
	patience := 3 * *usual
	for _, r := range m.streams {
		if r.WrittenNS == nil {
			continue
		}
		until, ok := r.firstText()
		if !ok {
			until = r.endedBy(m.to)
		}
		if !ok && r.Class == string(speedmatrix.RequestCompleted) {
			continue // tokens without text: when they came is not known
		}
		// Seconds since the window's start: an instant in ns is too large for a float64.
		from := float64(*r.WrittenNS-m.from)/1e9 + patience
		to := float64(until-m.from) / 1e9
		waited += max(min(to, m.seconds())-max(from, 0), 0)
	}
	return new(waited / (float64(m.cell.Concurrency) * m.seconds()))
}

// usualWait is the median time to first token of the launched requests that had one by the window's end, in seconds.
func (m *measurement) usualWait() *float64 {
	var ttft []float64
	for _, r := range m.streams {
		if first, ok := r.firstText(); ok && r.isLaunch() && r.WrittenNS != nil && first <= m.to {
			ttft = append(ttft, float64(first-*r.WrittenNS)/1e9)
		}
	}
	return median(ttft)
}

// preemptions is the increase of the engine's counter from the first scrape of the
// launch to the last one of the cell.
func (m *measurement) preemptions() *int {
	launched := int64(math.MaxInt64)
	for _, r := range m.streams {
		if r.isLaunch() {
			launched = min(launched, r.PlannedNS)
		}
	}
	// A cell that is measured again has its scrapes in another place of the file.
	var own []speedmatrix.ServerRow
	for _, s := range m.scrapes {
		if s.SentNS < launched {
			continue
		}
		if s.Cell != m.key && s.Cell != m.cell.Key() {
			break
		}
		own = append(own, s)
	}
	first, last, ok := ends(own, func(s speedmatrix.ServerRow) *float64 { return s.Preemptions })
	if !ok {
		return nil
	}
	return new(int(math.Round(*last.Preemptions - *first.Preemptions)))
}

// tokensPerStep of speculative decoding: the step's own token and the accepted drafts.
func (m *measurement) tokensPerStep() *float64 {
	first, last, ok := ends(m.inside, func(s speedmatrix.ServerRow) *float64 {
		if s.DraftsAccepted == nil {
			return nil
		}
		return s.Drafts
	})
	_, _, rose := ends(m.inside, func(s speedmatrix.ServerRow) *float64 {
		if s.Drafts == nil {
			return nil
		}
		return s.DraftsAccepted
	})
	if !ok || !rose || *last.Drafts <= *first.Drafts {
		return nil
	}
	return new(1 + (*last.DraftsAccepted-*first.DraftsAccepted)/(*last.Drafts-*first.Drafts))
}

// counterCheck compares the engine's counter with our tokens between the first and the
// last scrape in the window.
func (m *measurement) counterCheck() *speedmatrix.CounterCheck {
	first, last, ok := ends(m.inside, generated)
	if !ok {
		return nil
	}
	return &speedmatrix.CounterCheck{
		SpanSeconds: span(first, last), UncertaintySeconds: uncertainty(first, last),
		ServerTokens: *last.GenerationTokens - *first.GenerationTokens,
		ClientTokens: m.tokens(first.MiddleNS(), last.MiddleNS()),
	}
}
