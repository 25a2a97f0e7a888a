package bench

import (
	"iter"

	"speedmatrix"
)

// Recorded is one request of a cell and its events in order of arrival.
type Recorded struct {
	Row    speedmatrix.RequestRow
	Events iter.Seq[speedmatrix.EventRow]
}

// arrival is one recorded event with the tokens that it brought. Further channels of the same event are
// folded into it.
type arrival struct {
	at     int64
	tokens float64
	length int32
	text   bool
}

// hiddenReasoning is how many tokens of a request are reasoning that the server sent no text of.
func hiddenReasoning(r Recorded) int32 {
	n, all := r.Row.ReasoningTokens, r.Row.CompletionTokens
	if n == nil || all == nil || *n > *all {
		return 0
	}
	for e := range r.Events {
		if e.Channel == speedmatrix.ChannelReasoning.String() && e.TextLength > 0 {
			return 0
		}
	}
	return *n
}

// sourceRank orders the token sources, best first.
var sourceRank = map[speedmatrix.TokenSource]int{
	speedmatrix.TokensPerEventUsage: 1, speedmatrix.TokensFinalUsage: 2, speedmatrix.TokensTokenizer: 3,
	speedmatrix.TokensCounters: 4, speedmatrix.TokensWarmUp: 5, speedmatrix.TokensEvents: 6,
}

// worse gives the worse of two token sources; "" is none.
func worse(a, b speedmatrix.TokenSource) speedmatrix.TokenSource {
	if sourceRank[b] > sourceRank[a] {
		return b
	}
	return a
}

// factor is the tokens per event that a cell assumes for requests without a count of their own.
type factor struct {
	tokensPerEvent float64
	source         speedmatrix.TokenSource
}

// arrivals folds a request's events and says whether they carried cumulative counts. Counts that rise with fewer than
// half of the texts that bring them are none: some servers send 0, or the count of the event alone.
func arrivals(events iter.Seq[speedmatrix.EventRow]) (list []arrival, counted bool, length int64) {
	var most int32
	rose, told, some := 0, 0, false
	for e := range events {
		tokens := 0.0
		if e.Tokens != nil {
			some = true
			if e.TextLength > 0 {
				told++
			}
			if *e.Tokens > most {
				if e.TextLength > 0 {
					rose++
				}
				tokens = float64(*e.Tokens - most)
				most = *e.Tokens
			}
		}
		length += int64(e.TextLength)
		if e.Continued && len(list) > 0 {
			last := &list[len(list)-1]
			last.length += e.TextLength
			last.tokens += tokens
			last.text = last.text || e.TextLength > 0
			continue
		}
		list = append(list, arrival{at: e.TimeNS, tokens: tokens, length: e.TextLength, text: e.TextLength > 0})
	}
	return list, some && 2*rose >= told, length
}

// weigh gives the arrivals of a request with their tokens, by the best source that the request has.
// The window (start, end] is needed for counts of the window's text.
func weigh(r Recorded, start, end int64, f factor) (list []arrival, source speedmatrix.TokenSource) {
	list, counted, length := arrivals(r.Events)
	if counted {
		return list, speedmatrix.TokensPerEventUsage
	}
	perByte, before := 0.0, 0.0
	switch {
	case r.Row.Class == string(speedmatrix.RequestCompleted) && length > 0 && plausible(r.Row.CompletionTokens, list):
		before = float64(hiddenReasoning(r))
		perByte, source = (float64(*r.Row.CompletionTokens)-before)/float64(length), speedmatrix.TokensFinalUsage
	case r.Row.WindowTokens != nil:
		if inside := lengthBetween(list, start, end); inside > 0 {
			perByte, source = float64(*r.Row.WindowTokens)/float64(inside), speedmatrix.TokensTokenizer
		}
	}
	for i := range list {
		switch {
		case source != "":
			list[i].tokens = perByte * float64(list[i].length)
			if list[i].text {
				list[i].tokens, before = list[i].tokens+before, 0 // what was hidden came before the first text
			}
		case list[i].text:
			list[i].tokens = f.tokensPerEvent
		}
	}
	if source == "" {
		source = f.source
	}
	return list, source
}

// plausible says whether a usage is there and can be that of the texts: with fewer tokens than half of them it is none.
func plausible(completion *int32, list []arrival) bool {
	texts := 0
	for i := range list {
		if list[i].text {
			texts++
		}
	}
	return completion != nil && 2*int(*completion) >= texts
}

func lengthBetween(list []arrival, start, end int64) (length int64) {
	for i := range list {
		if list[i].at > start && list[i].at <= end {
			length += int64(list[i].length)
		}
	}
	return length
}

// cellFactor is the factor for requests without counts: from the engine's live counter, where the warm-up's
// tokens per event do not already agree with it, else from the warm-up, else one token per event.
func cellFactor(e *Evidence, start, end int64) factor {
	warmUp := factor{tokensPerEvent: e.TokensPerEvent, source: speedmatrix.TokensWarmUp}
	if warmUp.tokensPerEvent <= 0 {
		warmUp = factor{tokensPerEvent: 1, source: speedmatrix.TokensEvents}
	}
	if !e.LiveCounter {
		return warmUp
	}
	first, last, ok := counterSpan(e.Scrapes, start, end)
	if !ok {
		return warmUp
	}
	from, to := first.MiddleNS(), last.MiddleNS()
	events := 0
	for _, r := range e.Requests {
		for ev := range r.Events {
			if ev.TextLength > 0 && !ev.Continued && ev.TimeNS > from && ev.TimeNS <= to {
				events++
			}
		}
	}
	tokens := *last.GenerationTokens - *first.GenerationTokens
	if events == 0 || tokens <= 0 {
		return warmUp
	}
	uncertainty := counterUncertainty(first, last)
	if warmUp.source == speedmatrix.TokensWarmUp &&
		abs(tokens-warmUp.tokensPerEvent*float64(events)) <= uncertainty*tokens+float64(e.Concurrency) {
		return warmUp
	}
	return factor{tokensPerEvent: tokens / float64(events), source: speedmatrix.TokensCounters}
}

// counterSpan gives the first and the last scrape in the window that carry the live counter; ok is false too when the
// counter fell in between, as it does when an engine starts again.
func counterSpan(scrapes []speedmatrix.ServerRow, start, end int64) (first, last *speedmatrix.ServerRow, ok bool) {
	for i := range scrapes {
		s := &scrapes[i]
		if s.GenerationTokens == nil || s.MiddleNS() <= start || s.MiddleNS() > end {
			continue
		}
		if last != nil && *s.GenerationTokens < *last.GenerationTokens {
			return nil, nil, false
		}
		if first == nil {
			first = s
		}
		last = s
	}
	return first, last, first != nil && last != first
}

// counterUncertainty is the share by which a counter's rate may be off, because a scrape has a length.
func counterUncertainty(first, last *speedmatrix.ServerRow) float64 {
	reading := (first.ReceivedNS - first.SentNS) + (last.ReceivedNS - last.SentNS)
	return float64(reading) / 2 / float64(last.MiddleNS()-first.MiddleNS())
}

func abs(x float64) float64 { return max(x, -x) }
