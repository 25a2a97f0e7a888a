package fidelity_test

import (
	"maps"
	"math"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/truth"
)

// windowOf gives the ends of a cell's window.
func windowOf(c *speedmatrix.Cell) (from, to int64) {
	from = c.WindowStartedAt.UnixNano()
	return from, from + int64(math.Round(*c.WindowSeconds*1e9))
}

// answer is a request as the program recorded it and as the server did it.
type answer struct {
	row    *speedmatrix.RequestRow
	served *truth.Request
}

// answers gives the requests of a cell by stream, in order, each beside the server's account of it: in virtual time
// a request arrives in the instant in which it was written.
func (w *world) answers(key string) map[int32][]answer {
	w.t.Helper()
	streams := map[int32][]answer{}
	taken := map[int]bool{} // two requests may arrive in one instant
	for i := range w.store.requests[key] {
		row := &w.store.requests[key][i]
		if row.Stream < 0 || row.WrittenNS == nil {
			continue
		}
		j := w.served(key, row, taken)
		if j < 0 {
			w.t.Fatalf("request %d of %s never arrived", row.Request, key)
		}
		taken[j] = true
		streams[row.Stream] = append(streams[row.Stream], answer{row, &w.account.Requests[j]})
	}
	return streams
}

// served finds a request in the server's account, −1 if it is not there. Of several that arrived in one instant it is
// the one whose events fit best.
func (w *world) served(key string, row *speedmatrix.RequestRow, taken map[int]bool) int {
	best, fit := -1, 0
	got := w.events(key, row.Request)
	for i := range w.account.Requests {
		r := &w.account.Requests[i]
		same := row.PromptTokens == nil || int(*row.PromptTokens) == r.PromptTokens
		if !same || taken[i] || r.ArrivedNS != *row.WrittenNS {
			continue
		}
		fits := -max(len(got)-len(r.Events), len(r.Events)-len(got))
		for n := range min(len(got), len(r.Events)) {
			if got[n].TimeNS == r.Events[n].AtNS {
				fits++
			}
		}
		if best < 0 || fits > fit {
			best, fit = i, fits
		}
	}
	return best
}

// events gives the recorded events of a request of a cell.
func (w *world) events(key string, request int32) []speedmatrix.EventRow {
	if w.byRequest[key] == nil {
		list := map[int32][]speedmatrix.EventRow{}
		for _, e := range w.store.events[key] {
			list[e.Request] = append(list[e.Request], e)
		}
		if w.byRequest == nil {
			w.byRequest = map[string]map[int32][]speedmatrix.EventRow{}
		}
		w.byRequest[key] = list
	}
	return w.byRequest[key][request]
}

// owed is what a cell must publish, by the server's own account.
type owed struct {
	tokens, completed                     float64
	events                                int
	ttft, visible, prompts, between, gaps []float64
}

// owed works out a cell's numbers from the server's account of its requests.
func (w *world) owed(c *speedmatrix.Cell) (o owed) {
	w.t.Helper()
	from, to := windowOf(c)
	streams := w.answers(c.Key())
	for _, stream := range slices.Sorted(maps.Keys(streams)) {
		var nanos, after, all float64
		for i, a := range streams[stream] {
			r := a.served
			if a.row.PromptTokens != nil { // a request that was cut before its first event told nothing
				o.prompts = append(o.prompts, float64(r.PromptTokens))
			}
			if i == 0 {
				o.first(r)
			}
			if r.Class == truth.Completed && r.EndedNS > from && r.EndedNS <= to {
				o.completed++
			}
			n, in, later := o.window(r, from, to)
			nanos, all, after = nanos+n, all+in, after+later
		}
		if all >= 20 && after > 0 {
			o.between = append(o.between, nanos/after/1e6)
		}
	}
	return o
}

// first takes the times of a launched request.
func (o *owed) first(r *truth.Request) {
	if at := r.FirstNS(); at > 0 {
		o.ttft = append(o.ttft, float64(at-r.ArrivedNS)/1e6)
	}
	for _, e := range r.Events {
		if e.Length > 0 && e.Channel == "content" {
			o.visible = append(o.visible, float64(e.AtNS-r.ArrivedNS)/1e6)
			return
		}
	}
}

// window takes what one request did in the window, and gives the time from its first event there to its last, the
// tokens of all of them and those after the first.
func (o *owed) window(r *truth.Request, from, to int64) (nanos, all, after float64) {
	before, first, last, text := 0, int64(0), int64(0), int64(0)
	for i, e := range r.Events {
		brought := float64(e.Tokens - before)
		before = e.Tokens
		if e.AtNS <= from || e.AtNS > to {
			continue
		}
		all += brought
		// A last event that only has the finish reason is no time between tokens.
		if e.Length > 0 || i < len(r.Events)-1 || r.Class != truth.Completed {
			if first == 0 {
				first = e.AtNS
			}
			if e.AtNS > first {
				after += brought
			}
			last = e.AtNS
		}
		if e.Length == 0 {
			continue
		}
		o.events++
		if text != 0 {
			o.gaps = append(o.gaps, float64(e.AtNS-text)/1e6)
		}
		text = e.AtNS
	}
	o.tokens += all
	return float64(last - first), all, after
}

// exact compares every number of a cell with the server's account, and gives that account.
func (w *world) exact(c *speedmatrix.Cell) owed {
	w.t.Helper()
	o := w.owed(c)
	from, to := windowOf(c)
	near(w.t, "output tokens", c.OutputTokens, o.tokens)
	near(w.t, "total tok/s", c.TotalTokensPerSecond, o.tokens/float64(to-from)*1e9)
	if len(o.prompts) > 0 {
		near(w.t, "prompt tokens", c.PromptTokens, middle(o.prompts))
	} else {
		unknown(w.t, "prompt tokens", c.PromptTokens)
	}
	near(w.t, "tokens per event", c.TokensPerEvent, o.tokens/float64(o.events))
	w.timed(c, o)
	return o
}

// timed compares the times of a cell with the server's account.
func (w *world) timed(c *speedmatrix.Cell, o owed) {
	w.t.Helper()
	sameSamples(w.t, "TTFT", c.TTFT, o.ttft)
	sameSamples(w.t, "visible TTFT", c.VisibleTTFT, o.visible)
	sameSamples(w.t, "time between tokens", c.TimeBetweenTokens, o.between)
	sameSamples(w.t, "event gap", c.EventGap, o.gaps)
	if len(o.between) > 0 {
		speeds := make([]float64, len(o.between))
		for i, b := range o.between {
			speeds[i] = 1000 / b
		}
		near(w.t, "per request tok/s", c.PerRequestTokensPerSecond, middle(speeds))
	}
	if float64(*c.CompletedRequests) != o.completed {
		w.t.Errorf("%d requests completed in the window, want %v", *c.CompletedRequests, o.completed)
	}
}

// middle is the median.
func middle(values []float64) float64 {
	list := slices.Sorted(slices.Values(values))
	n := len(list)
	if n == 0 {
		return math.NaN()
	}
	return (list[(n-1)/2] + list[n/2]) / 2
}

// sameSamples compares a distribution with the samples that it should be of.
func sameSamples(t reporter, what string, d *speedmatrix.Distribution, samples []float64) {
	t.Helper()
	if d == nil || len(samples) == 0 {
		if d != nil || len(samples) > 0 {
			t.Errorf("%s is %v, want %d samples", what, d, len(samples))
		}
		return
	}
	if d.N != len(samples) {
		t.Errorf("%s has %d samples, want %d", what, d.N, len(samples))
	}
	near(t, what+" p50", d.P50, middle(samples))
	near(t, what+" min", d.Min, slices.Min(samples))
	near(t, what+" max", d.Max, slices.Max(samples))
	sum := 0.0
	for _, x := range samples {
		sum += x
	}
	near(t, what+" mean", d.Mean, sum/float64(len(samples)))
}

// sameEvents wants of each request of a cell exactly the events that the server sent before it ended: the times to
// the nanosecond, the lengths, the channels, and the counts where the server sends them.
func (w *world) sameEvents(c *speedmatrix.Cell) {
	w.t.Helper()
	for _, list := range w.answers(c.Key()) {
		for _, a := range list {
			got := w.events(c.Key(), a.row.Request)
			for i, e := range got {
				if i >= len(a.served.Events) {
					w.t.Fatalf("request %d: %d events, the server sent %d", a.row.Request, len(got), len(a.served.Events))
				}
				s := a.served.Events[i]
				counted := e.Tokens == nil || int(*e.Tokens) == s.Tokens
				if e.TimeNS != s.AtNS || int(e.TextLength) != s.Length || e.Channel != s.Channel || !counted {
					w.t.Fatalf("request %d event %d is %+v, the server sent %+v", a.row.Request, i, e, s)
				}
			}
			if n := len(got); n < len(a.served.Events) && a.served.Events[n].AtNS < *a.row.EndedNS {
				w.t.Fatalf("request %d lacks event %d of %+v", a.row.Request, n, a.served.Events[n])
			}
		}
	}
}
