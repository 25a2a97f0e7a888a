package bench

import (
	"cmp"
	"fmt"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// brokenInvariants checks what must be true of every cell, and words what is not.
func brokenInvariants(e *Evidence, c *speedmatrix.Cell) []speedmatrix.Warning {
	var list []speedmatrix.Warning
	broken := func(format string, args ...any) {
		list = append(list, speedmatrix.Warning{Code: "invariant", Message: fmt.Sprintf(format, args...)})
	}
	if n := c.Requests; n != nil && n.Completed+n.Cut+n.Failed != n.Sent {
		broken("%d requests were sent, but %d ended", n.Sent, n.Completed+n.Cut+n.Failed)
	}
	if peak := peakInFlight(e.Requests); peak > e.Concurrency {
		broken("%d requests were in flight at once, more than the %d planned", peak, e.Concurrency)
	}
	for _, r := range e.Requests {
		if n := mostCounted(r); e.MaxTokens > 0 && n > e.MaxTokens {
			broken("request %d counts %d tokens, more than the %d that it asked for", r.Row.Request, n, e.MaxTokens)
			break
		}
	}
	for _, r := range e.Requests {
		if m := firstBeforeWritten(r); m != "" {
			broken("%s", m)
			break
		}
	}
	return list
}

// mostCounted is the largest count of a request.
func mostCounted(r Recorded) int {
	most := int32(0)
	if r.Row.CompletionTokens != nil {
		most = *r.Row.CompletionTokens
	}
	for e := range r.Events {
		if e.Tokens != nil {
			most = max(most, *e.Tokens)
		}
	}
	return int(most)
}

func firstBeforeWritten(r Recorded) string {
	row := &r.Row
	if row.FirstNS == nil || row.WrittenNS == nil || *row.FirstNS >= *row.WrittenNS {
		return ""
	}
	return fmt.Sprintf("request %d had its first token before its last byte was sent", row.Request)
}

// peakInFlight is the greatest number of requests in flight at any instant.
func peakInFlight(requests []Recorded) int {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, r := range requests {
		if r.Row.WrittenNS == nil || r.Row.EndedNS == nil {
			continue
		}
		edges = append(edges, edge{*r.Row.WrittenNS, 1}, edge{*r.Row.EndedNS, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	peak, now := 0, 0
	for _, x := range edges {
		now += x.delta
		peak = max(peak, now)
	}
	return peak
}

// checkPrefills warns of the run where a longer prompt was not read slower than a shorter one.
func (s *Session) checkPrefills() {
	var before *speedmatrix.Cell
	for i := range s.Run.Cells {
		c := &s.Run.Cells[i]
		if c.Phase != speedmatrix.PhasePrefill || c.Status != speedmatrix.StatusValid || c.TTFT == nil || c.TTFT.P50 == nil {
			continue
		}
		if before != nil && *c.TTFT.P50 <= *before.TTFT.P50 {
			s.Warn("prefill flat", fmt.Sprintf("the prefill of %s took %s, no longer than that of %s (%s): something other than the prompt was timed",
				c.ContextLabel, unit.Latency(*c.TTFT.P50), before.ContextLabel, unit.Latency(*before.TTFT.P50)))
		}
		before = c
	}
}
