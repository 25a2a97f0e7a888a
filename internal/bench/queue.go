package bench

import (
	"cmp"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/stats"
)

// The purposes of a request.
const (
	PurposeFill    = "fill"
	PurposeLaunch  = "launch"
	PurposeRestart = "restart"
	PurposePing    = "ping"
	PurposeWarmUp  = "warm-up"
)

// heldShare is the share of the window in which a scrape for which is(row) holds: each scrape speaks from its
// middle to the middle of the next, the first one in the window also back to the window's start.
func heldShare(scrapes []speedmatrix.ServerRow, w window, is func(*speedmatrix.ServerRow) bool) (share float64, known bool) {
	var held int64
	var current *speedmatrix.ServerRow
	from := w.start
	flush := func(to int64) {
		if current != nil && is(current) {
			held += max(min(to, w.end)-max(from, w.start), 0)
		}
		if current != nil {
			from = to
		}
	}
	for i := range scrapes {
		s := &scrapes[i]
		if s.Waiting == nil || !w.holds(s.MiddleNS()) {
			continue
		}
		known = true
		flush(s.MiddleNS())
		current = s
	}
	flush(w.end)
	return float64(held) / float64(w.end-w.start), known
}

// queuedShare is the share of the window in which requests waited; see docs/method.md.
func queuedShare(e *Evidence, w window) *float64 {
	share, known := heldShare(e.Scrapes, w, func(s *speedmatrix.ServerRow) bool { return *s.Waiting > 0 })
	if known {
		return &share
	}
	var ttft []float64
	for _, r := range e.Requests {
		// Who begins only when others are cut at the end has waited; their times must not make waiting look usual.
		if r.Row.Purpose == PurposeLaunch && r.Row.FirstNS != nil && r.Row.WrittenNS != nil && *r.Row.FirstNS <= w.end {
			ttft = append(ttft, float64(*r.Row.FirstNS-*r.Row.WrittenNS))
		}
	}
	if len(ttft) == 0 {
		return nil
	}
	patience := int64(3 * stats.Median(ttft))
	var waited int64
	for _, r := range e.Requests {
		if r.Row.WrittenNS == nil {
			continue
		}
		until := int64(0)
		switch {
		case r.Row.FirstNS != nil:
			until = *r.Row.FirstNS
		case r.Row.Class == string(speedmatrix.RequestCompleted):
			continue // its tokens had no text: when they came is not known
		case r.Row.EndedNS != nil:
			until = *r.Row.EndedNS
		}
		waited += w.overlap(*r.Row.WrittenNS+patience, until)
	}
	share = float64(waited) / float64(w.end-w.start) / float64(e.Concurrency)
	return &share
}

// fullShare is the share of the window in which requests waited while the KV cache was at least 95 % in use.
func fullShare(e *Evidence, w window) float64 {
	share, _ := heldShare(e.Scrapes, w, func(s *speedmatrix.ServerRow) bool {
		return *s.Waiting > 0 && s.KVUsage != nil && *s.KVUsage >= 0.95
	})
	return share
}

// putBackShare is the share of the window in which an engine ran fewer of our requests than it had begun to answer,
// while requests waited: the others it had preempted. vLLM counts a preemption only when the request runs again, so its
// counter stands still where that does not happen in the cell's time.
//
// Gauges may be as old as a step, and the end of an answer may arrive late: a request counts as begun if its first text
// came before the scrape before, and if it was in flight beyond the scrape after. What never ran was not put back, so
// the running gauge must have been higher in the cell.
func putBackShare(e *Evidence, w window) (share float64) {
	if !e.LiveCounter {
		return 0 // then the gauges may stand still for many steps too
	}
	putBack := map[*speedmatrix.ServerRow]bool{}
	most := 0.0
	for i := 1; i+1 < len(e.Scrapes); i++ {
		s := &e.Scrapes[i]
		if s.Running == nil || s.Waiting == nil {
			continue
		}
		begun := 0
		for _, r := range e.Requests {
			row := &r.Row
			if row.FirstNS != nil && *row.FirstNS <= e.Scrapes[i-1].SentNS && (row.EndedNS == nil || *row.EndedNS > e.Scrapes[i+1].ReceivedNS) {
				begun++
			}
		}
		putBack[s] = *s.Waiting > 0 && *s.Running < min(float64(begun), most)
		most = max(most, *s.Running)
	}
	share, _ = heldShare(e.Scrapes, w, func(s *speedmatrix.ServerRow) bool { return putBack[s] })
	return share
}

// activeMean is the mean of the running gauge in the window, else the mean of our requests in flight.
func activeMean(e *Evidence, w window) *float64 {
	sum, n := 0.0, 0
	for i := range e.Scrapes {
		s := &e.Scrapes[i]
		if s.Running != nil && w.holds(s.MiddleNS()) {
			sum += *s.Running
			n++
		}
	}
	if n > 0 {
		mean := sum / float64(n)
		return &mean
	}
	var flight int64
	for _, r := range e.Requests {
		if r.Row.WrittenNS == nil {
			continue
		}
		until := int64(0)
		if r.Row.EndedNS != nil {
			until = *r.Row.EndedNS
		}
		flight += w.overlap(*r.Row.WrittenNS, until)
	}
	mean := float64(flight) / float64(w.end-w.start)
	return &mean
}

// preemptions is the increase of the engine's counter over the scrapes of the cell: unknown with fewer than two of
// them, and when the counter fell, as it does when an engine starts again.
func preemptions(scrapes []speedmatrix.ServerRow) *int {
	values := counted(scrapes, func(s *speedmatrix.ServerRow) *float64 { return s.Preemptions })
	if len(values) < 2 || !slices.IsSorted(values) {
		return nil
	}
	n := int(values[len(values)-1] - values[0])
	return &n
}

// counted gives the values of a counter that are known, in order of time.
func counted(scrapes []speedmatrix.ServerRow, of func(*speedmatrix.ServerRow) *float64) (values []float64) {
	for i := range scrapes {
		if v := of(&scrapes[i]); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

// missingShare is the share of the window in which fewer than C streams had a request in flight.
func missingShare(e *Evidence, w window) float64 {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, r := range e.Requests {
		from := r.Row.PlannedNS
		if r.Row.WrittenNS != nil && r.Row.SendNS != nil {
			from = *r.Row.WrittenNS - *r.Row.SendNS
		}
		edges = append(edges, edge{from, 1})
		if r.Row.EndedNS != nil {
			edges = append(edges, edge{*r.Row.EndedNS, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.delta, a.delta)) })
	flying, at := 0, w.start
	var missing int64
	for _, x := range edges {
		if x.at > at {
			to := min(x.at, w.end)
			if flying < e.Concurrency && to > at {
				missing += to - at
			}
			at = max(at, to)
		}
		flying += x.delta
	}
	if flying < e.Concurrency && w.end > at {
		missing += w.end - at
	}
	return float64(missing) / float64(w.end-w.start)
}
