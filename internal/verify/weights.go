package verify

import (
	"cmp"
	"math"
	"slices"

	"speedmatrix"
)

// sources are the token sources, best first.
var sources = []speedmatrix.TokenSource{
	speedmatrix.TokensPerEventUsage, speedmatrix.TokensFinalUsage, speedmatrix.TokensTokenizer,
	speedmatrix.TokensCounters, speedmatrix.TokensWarmUp, speedmatrix.TokensEvents,
}

// weigh gives every event of the streams the tokens that it brought, each request by
// the best source it has, and finds the worst source used in the window.
func (c *checker) weigh(m *measurement) {
	source, factor := c.factor(m)
	worst := -1
	for _, r := range m.streams {
		switch {
		case r.countsAlong():
			r.source = speedmatrix.TokensPerEventUsage
			r.weighByCounts()
		case r.finalUsage() && r.spread(float64(*r.CompletionTokens-r.hidden()), func(event) bool { return true }):
			r.source = speedmatrix.TokensFinalUsage
			r.addHidden()
		case r.WindowTokens != nil && r.spread(float64(*r.WindowTokens), func(e event) bool { return m.in(e.at) }):
			r.source = speedmatrix.TokensTokenizer
		default:
			r.source = source
			r.weighByEvents(factor)
		}
		if slices.ContainsFunc(r.events, func(e event) bool { return m.in(e.at) }) {
			worst = max(worst, slices.Index(sources, r.source))
		}
	}
	if worst >= 0 {
		m.source = sources[worst]
	}
}

// countsAlong says whether events of the request carried cumulative counts. Those are
// none that do not rise with at least half of the texts that bring one.
func (r *request) countsAlong() bool {
	var largest int32
	some, rising, still := false, 0, 0
	for _, e := range r.events {
		some = some || e.tokens >= 0
		switch {
		case e.text == 0 || e.tokens < 0:
		case e.tokens > largest:
			rising++
		default:
			still++
		}
		largest = max(largest, e.tokens)
	}
	return some && rising >= still
}

// finalUsage says whether the request finished and told its completion tokens, which
// are none where they are fewer than half of its texts.
func (r *request) finalUsage() bool {
	texts := int32(0)
	for _, e := range r.events {
		if e.text > 0 {
			texts++
		}
	}
	return r.Class == string(speedmatrix.RequestCompleted) && r.CompletionTokens != nil && *r.CompletionTokens >= (texts+1)/2
}

// hidden is how many tokens of the usage are reasoning without text.
func (r *request) hidden() int32 {
	shown := slices.ContainsFunc(r.events, func(e event) bool { return e.reasoning })
	if r.ReasoningTokens == nil || r.CompletionTokens == nil || *r.ReasoningTokens > *r.CompletionTokens || shown {
		return 0
	}
	return *r.ReasoningTokens
}

// addHidden puts the hidden tokens where the first text came.
func (r *request) addHidden() {
	i := slices.IndexFunc(r.events, func(e event) bool { return e.text > 0 })
	if i >= 0 {
		r.events[i].weight += float64(r.hidden())
	}
}

// weighByCounts: the count of an event minus the largest one before it.
func (r *request) weighByCounts() {
	var largest int32
	for i := range r.events {
		e := &r.events[i]
		e.weight = float64(max(e.tokens-largest, 0))
		largest = max(largest, e.tokens)
	}
}

// spread gives tokens to the events by length of text: tokens is what the chosen
// events have together. It is false when they have no text.
func (r *request) spread(tokens float64, chosen func(event) bool) bool {
	var length float64
	for _, e := range r.events {
		if chosen(e) {
			length += float64(e.text)
		}
	}
	if length == 0 {
		return false
	}
	for i := range r.events {
		r.events[i].weight = tokens * float64(r.events[i].text) / length
	}
	return true
}

func (r *request) weighByEvents(factor float64) {
	for i := range r.events {
		if r.events[i].text > 0 {
			r.events[i].weight = factor
		}
	}
}

// factor is the tokens per event for requests that cannot be counted: from the
// engine's counter, else from the warm-up, else 1. That the counter moves with every
// step is known by the cell's counter_check. A cell that says it used the warm-up
// although there is a counter is followed when both agree as far as the counter can tell.
func (c *checker) factor(m *measurement) (speedmatrix.TokenSource, float64) {
	warmUp := c.run.Server.Habits.TokensPerEvent
	first, last, ok := ends(m.inside, generated)
	if ok && m.cell.CounterCheck != nil {
		increase := *last.GenerationTokens - *first.GenerationTokens
		events := float64(m.textEvents(first.MiddleNS(), last.MiddleNS()))
		// Besides its time, each stream may have a token on its way at either end.
		doubt := increase*uncertainty(first, last)/span(first, last) + float64(m.cell.Concurrency)
		agrees := warmUp > 0 && math.Abs(increase-warmUp*events) <= doubt
		if increase > 0 && events > 0 && (m.cell.TokenSource != speedmatrix.TokensWarmUp || !agrees) {
			return speedmatrix.TokensCounters, increase / events
		}
	}
	if warmUp > 0 {
		return speedmatrix.TokensWarmUp, warmUp
	}
	return speedmatrix.TokensEvents, 1
}

// textEvents counts the streams' events with text in (from, to].
func (m *measurement) textEvents(from, to int64) int {
	n := 0
	for _, r := range m.streams {
		for _, e := range r.events {
			if e.text > 0 && from < e.at && e.at <= to {
				n++
			}
		}
	}
	return n
}

// tokens is Σ w over the streams' events in (from, to].
func (m *measurement) tokens(from, to int64) float64 {
	var sum float64
	for _, r := range m.streams {
		for _, e := range r.events {
			if from < e.at && e.at <= to {
				sum += e.weight
			}
		}
	}
	return sum
}

func generated(s speedmatrix.ServerRow) *float64 { return s.GenerationTokens }

// ends gives the first and the last of the scrapes that have a counter's value, if they are two and it never fell:
// one that did began anew.
func ends(scrapes []speedmatrix.ServerRow, value func(speedmatrix.ServerRow) *float64) (first, last speedmatrix.ServerRow, ok bool) {
	known := having(scrapes, value)
	if len(known) < 2 || !slices.IsSortedFunc(known, func(a, b speedmatrix.ServerRow) int { return cmp.Compare(*value(a), *value(b)) }) {
		return first, last, false
	}
	return known[0], known[len(known)-1], true
}

func having(scrapes []speedmatrix.ServerRow, value func(speedmatrix.ServerRow) *float64) []speedmatrix.ServerRow {
	var some []speedmatrix.ServerRow
	for _, s := range scrapes {
		if value(s) != nil {
			some = append(some, s)
		}
	}
	return some
}

// span is the time between the middles of two scrapes, in seconds.
func span(first, last speedmatrix.ServerRow) float64 {
	return float64(last.MiddleNS()-first.MiddleNS()) / 1e9
}

// uncertainty is how far from the middles the two scrapes may have been taken, together, in seconds.
func uncertainty(first, last speedmatrix.ServerRow) float64 {
	return float64(first.ReceivedNS-first.SentNS+last.ReceivedNS-last.SentNS) / 2e9
}
