package verify

import (
	"cmp"
	"fmt"
	"slices"

	"speedmatrix"
)

// watchedFor is how long after the planned end an arrival is waited for, in ns.
const watchedFor = 2_000_000_000

// checkInvariants tests what must hold of the rows whatever was measured.
func (c *checker) checkInvariants(m *measurement) {
	for _, r := range m.requests {
		c.checkRequest(m, r)
	}
	if m.cell.Phase == speedmatrix.PhaseDecode {
		c.checkStreams(m)
		c.checkInFlight(m)
		c.checkWindow(m)
	}
}

// checkRequest tests one request against its own events.
func (c *checker) checkRequest(m *measurement, r *request) {
	name := fmt.Sprintf("request %d", r.Request)
	switch speedmatrix.RequestClass(r.Class) {
	case speedmatrix.RequestCompleted:
		if !r.hasToken() {
			c.disagree(m.key, name+" class", "completed", "no token")
		}
	case speedmatrix.RequestCut, speedmatrix.RequestFailed:
	default:
		c.disagree(m.key, name+" class", r.Class, "one of completed, cut, failed")
	}
	if !slices.IsSortedFunc(r.events, func(a, b event) int { return cmp.Compare(a.at, b.at) }) {
		c.disagree(m.key, name+" events", "in this order", "an arrival before the one before it")
	}
	if most := c.run.Method.MaxOutput; most > 0 && !speedmatrix.CapsOutput(c.run.Method.Body) && r.mostTokens() > most {
		c.disagree(m.key, name+" tokens", r.mostTokens(), fmt.Sprintf("at most %d", most))
	}
	if r.Stream >= 0 || len(r.events) > 0 {
		c.checkTimes(m, r, name)
	}
	if r.countsAfterText() {
		c.disagree(m.key, name+" events", "a count that came after the text", "final usage, no count along the way")
	}
}

// checkTimes tests the times of a request's row against its events.
func (c *checker) checkTimes(m *measurement, r *request, name string) {
	for _, x := range []struct {
		what  string
		row   *int64
		event func() (int64, bool)
	}{
		{"first_ns", r.FirstNS, r.firstText},
		{"first_visible_ns", r.FirstVisibleNS, r.firstContent},
		{"last_ns", r.LastNS, r.lastText},
	} {
		at, ok := x.event()
		if !ok && x.row == r.FirstNS && r.isTextless() {
			continue
		}
		if ok != (x.row != nil) || ok && at != *x.row {
			c.disagree(m.key, name+" "+x.what, instant(x.row), instantIf(at, ok))
		}
	}
	if r.FirstNS != nil && r.LastNS != nil {
		if gaps := r.gapSum(); *r.LastNS-*r.FirstNS != gaps {
			c.disagree(m.key, name+" latency − TTFT", *r.LastNS-*r.FirstNS, fmt.Sprintf("sum of gaps %d", gaps))
		}
	}
	c.checkWritten(m, r, name)
}

// checkWritten tests that a request was written before anything came of it.
func (c *checker) checkWritten(m *measurement, r *request, name string) {
	if r.WrittenNS == nil {
		if r.FirstNS != nil {
			c.disagree(m.key, name+" written_ns", "null", "written before its first token")
		}
		return
	}
	for _, later := range []*int64{r.FirstNS, r.EndedNS} {
		if later != nil && *later < *r.WrittenNS {
			c.disagree(m.key, name+" written_ns", *r.WrittenNS, fmt.Sprintf("at most %d", *later))
		}
	}
}

// isTextless says that the request is a prefill whose token has no text: it came with
// the event that counts it, or with the finish reason.
func (r *request) isTextless() bool {
	counted := len(r.events) == 0 || r.FirstNS != nil && *r.FirstNS == r.events[0].at
	return r.Purpose == "fill" && r.Class == string(speedmatrix.RequestCompleted) && counted
}

// checkStreams tests that each stream is one of the cell's, is launched once and
// first, and sends one request after another.
func (c *checker) checkStreams(m *measurement) {
	for i, r := range m.streams {
		name := fmt.Sprintf("stream %d", r.Stream)
		first := i == 0 || m.streams[i-1].Stream != r.Stream
		if int(r.Stream) >= m.cell.Concurrency {
			c.disagree(m.key, name, "sends requests", fmt.Sprintf("concurrency is %d", m.cell.Concurrency))
		}
		if first != r.isLaunch() {
			c.disagree(m.key, name, fmt.Sprintf("request %d is %q", r.Request, r.Purpose), "a launch first and only then")
		}
		if !first && r.WrittenNS != nil && (m.streams[i-1].EndedNS == nil || *m.streams[i-1].EndedNS > *r.WrittenNS) {
			c.disagree(m.key, name, fmt.Sprintf("request %d began", r.Request),
				fmt.Sprintf("request %d had not ended", m.streams[i-1].Request))
		}
	}
}

// checkInFlight tests that never more than C requests were in flight.
func (c *checker) checkInFlight(m *measurement) {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, r := range m.streams {
		if r.WrittenNS == nil {
			continue
		}
		edges = append(edges, edge{*r.WrittenNS, 1})
		if r.EndedNS != nil {
			edges = append(edges, edge{*r.EndedNS, -1})
		}
	}
	// A request that ends makes room for one that begins at the same instant.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	flying, most := 0, 0
	for _, e := range edges {
		flying += e.delta
		most = max(most, flying)
	}
	if most > m.cell.Concurrency {
		c.disagree(m.key, "requests in flight", fmt.Sprintf("at most %d", m.cell.Concurrency), most)
	}
}

// checkWindow tests that the window's ends are arrivals. The end is the planned one
// only when no arrival came within 2 s, and the streams were watched that long.
func (c *checker) checkWindow(m *measurement) {
	if (m.cell.WindowStartedAt == nil) != (m.cell.WindowSeconds == nil) {
		c.disagree(m.key, "window_seconds", "one end of the window", "both or none")
		return
	}
	if m.cell.WindowSeconds == nil {
		return
	}
	if !m.hasWindow() {
		c.disagree(m.key, "window_seconds", number(*m.cell.WindowSeconds), "more than 0")
		return
	}
	// The window of the compat method begins when the reference would have begun it.
	if c.run.Method.Name != speedmatrix.MethodCompat && !m.arrivedAt(m.from) {
		c.disagree(m.key, "window_started_at", m.from, "an arrival")
	}
	if m.arrivedAt(m.to) {
		return
	}
	next, _ := slices.BinarySearch(m.arrivals, m.to)
	watched := int64(0)
	for _, r := range m.streams {
		watched = max(watched, r.endedBy(m.to+watchedFor))
	}
	if next < len(m.arrivals) && m.arrivals[next] <= m.to+watchedFor || watched < m.to+watchedFor && !m.allFailed() {
		c.disagree(m.key, "window_seconds", number(*m.cell.WindowSeconds), "ends at an arrival, or none came within 2 s")
	}
}

// allFailed says that the last request of every stream failed, so that none was left to watch.
func (m *measurement) allFailed() bool {
	for i, r := range m.streams {
		last := i+1 == len(m.streams) || m.streams[i+1].Stream != r.Stream
		if last && r.Class != string(speedmatrix.RequestFailed) {
			return false
		}
	}
	return true
}

func (m *measurement) arrivedAt(at int64) bool {
	_, ok := slices.BinarySearch(m.arrivals, at)
	return ok
}

func (r *request) hasToken() bool {
	return len(r.events) > 0 || r.FirstNS != nil || r.CompletionTokens != nil && *r.CompletionTokens > 0
}

// mostTokens is the largest count that the request told.
func (r *request) mostTokens() int {
	var most int32
	if r.CompletionTokens != nil {
		most = *r.CompletionTokens
	}
	for _, e := range r.events {
		most = max(most, e.tokens)
	}
	return int(most)
}

// countsAfterText says that several events had text, and the only counts came after
// them: such a count would put all tokens of the request at its end.
func (r *request) countsAfterText() bool {
	texts, counts := 0, false
	for _, e := range r.events {
		switch {
		case e.text == 0:
			counts = counts || e.tokens >= 0
		case e.tokens >= 0:
			return false
		default:
			texts++
		}
	}
	return counts && texts > 1
}

// gapSum is the sum of the times between consecutive events with text, in ns.
func (r *request) gapSum() (sum int64) {
	before, begun := int64(0), false
	for _, e := range r.events {
		if e.text == 0 {
			continue
		}
		if begun {
			sum += max(e.at-before, 0)
		}
		before, begun = e.at, true
	}
	return sum
}

func instant(at *int64) string {
	if at == nil {
		return "null"
	}
	return fmt.Sprint(*at)
}

func instantIf(at int64, ok bool) string {
	if !ok {
		return "null"
	}
	return fmt.Sprint(at)
}
