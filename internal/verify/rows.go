package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"speedmatrix"
)

// event is one recorded event: the rows of its channels together.
type event struct {
	at     int64
	weight float64
	text   int32 // bytes of all channels
	tokens int32 // cumulative count, −1 without one
	// content says that some of the text was of the content channel.
	content bool
	// reasoning says the same of the reasoning channel.
	reasoning bool
}

// request is one request of a cell with its events in order of arrival.
type request struct {
	speedmatrix.RequestRow
	events []event
	source speedmatrix.TokenSource
}

// measurement is a cell as its rows tell it.
type measurement struct {
	key      string
	cell     *speedmatrix.Cell
	requests []*request
	// streams are the requests that belong to a stream, ordered by stream, then time.
	streams []*request
	// from (excluded) and to (included) bound the window, in ns; equal without one.
	from, to int64
	// scrapes worked; inside are those with the middle in the window.
	scrapes, inside []speedmatrix.ServerRow
	// arrivals are the stamps of all events of the streams, in order.
	arrivals []int64
	source   speedmatrix.TokenSource
}

func (m *measurement) hasWindow() bool { return m.to > m.from }

// in says whether an instant lies in the window.
func (m *measurement) in(at int64) bool { return m.from < at && at <= m.to }

func (m *measurement) seconds() float64 { return float64(m.to-m.from) / 1e9 }

// overlap is how much of [from, to] lies in the window, in seconds.
func (m *measurement) overlap(from, to int64) float64 {
	return float64(max(min(to, m.to)-max(from, m.from), 0)) / 1e9
}

// load reads the rows of a cell and weighs its events.
func (c *checker) load(key string, cell *speedmatrix.Cell) (*measurement, error) {
	rows, err := c.rows.Requests(key)
	if err != nil {
		return nil, err
	}
	m := &measurement{key: key, cell: cell, requests: make([]*request, len(rows))}
	index := make(map[int32]int, len(rows))
	for i, row := range rows {
		if _, twice := index[row.Request]; twice {
			c.disagree(key, "requests", fmt.Sprintf("request %d is there twice", row.Request), "each request once")
		}
		m.requests[i] = &request{RequestRow: row}
		index[row.Request] = i
	}
	if err := c.loadEvents(m, index); err != nil {
		return nil, err
	}
	m.requests = m.requests[:min(len(m.requests), countedRows(cell))]
	if at, length := cell.WindowStartedAt, cell.WindowSeconds; at != nil && length != nil {
		m.from = at.UnixNano()
		m.to = m.from + int64(math.Round(*length*float64(time.Second)))
	}
	m.order()
	c.loadScrapes(m)
	c.weigh(m)
	return m, nil
}

// countedRows is how many of a cell's rows it was published from. A prefill cell is published whenever a row has more
// samples of it: a program that was killed after it wrote them and before it wrote the document leaves further rows.
func countedRows(cell *speedmatrix.Cell) int {
	if cell.Phase == speedmatrix.PhasePrefill && cell.Status == speedmatrix.StatusInterrupted && cell.Requests != nil {
		return cell.Requests.Sent
	}
	return math.MaxInt
}

func (c *checker) loadEvents(m *measurement, index map[int32]int) error {
	strangers := map[int32]bool{}
	for row, err := range c.rows.Events(m.key) {
		if err != nil {
			return err
		}
		i, ok := index[row.Request]
		if !ok || m.requests[i].Stream != row.Stream {
			if !strangers[row.Request] {
				c.disagree(m.key, "events", fmt.Sprintf("request %d of stream %d", row.Request, row.Stream), "no such request")
			}
			strangers[row.Request] = true
			continue
		}
		m.requests[i].add(row)
	}
	return nil
}

// find gives the request of a number, nil if there is none.
func (m *measurement) find(id int) *request {
	for _, r := range m.requests {
		if int(r.Request) == id {
			return r
		}
	}
	return nil
}

// add takes one event row; the second channel of an event joins the first.
func (r *request) add(row speedmatrix.EventRow) {
	e := event{at: row.TimeNS, text: row.TextLength, tokens: -1}
	if row.Tokens != nil {
		e.tokens = *row.Tokens
	}
	e.reasoning = row.TextLength > 0 && row.Channel == speedmatrix.ChannelReasoning.String()
	e.content = row.TextLength > 0 && row.Channel == speedmatrix.ChannelContent.String()
	if n := len(r.events); row.Continued && n > 0 {
		last := &r.events[n-1]
		last.text += e.text
		last.tokens = max(last.tokens, e.tokens)
		last.content = last.content || e.content
		last.reasoning = last.reasoning || e.reasoning
		return
	}
	r.events = append(r.events, e)
}

// order sorts the streams' requests and collects their arrivals.
func (m *measurement) order() {
	for _, r := range m.requests {
		if r.Stream >= 0 {
			m.streams = append(m.streams, r)
			for _, e := range r.events {
				m.arrivals = append(m.arrivals, e.at)
			}
		}
	}
	slices.SortStableFunc(m.streams, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.began(), b.began()))
	})
	slices.Sort(m.arrivals)
}

// loadScrapes keeps the scrapes that worked, in time.
func (c *checker) loadScrapes(m *measurement) {
	for _, row := range c.server {
		if row.Error == "" {
			m.scrapes = append(m.scrapes, row)
		}
	}
	slices.SortStableFunc(m.scrapes, func(a, b speedmatrix.ServerRow) int { return cmp.Compare(a.MiddleNS(), b.MiddleNS()) })
	for _, row := range m.scrapes {
		if m.in(row.MiddleNS()) {
			m.inside = append(m.inside, row)
		}
	}
}

// firstText is the arrival of the request's first event with text.
func (r *request) firstText() (at int64, ok bool) {
	for _, e := range r.events {
		if e.text > 0 {
			return e.at, true
		}
	}
	return 0, false
}

// firstContent is the arrival of the request's first event with text for the reader.
func (r *request) firstContent() (at int64, ok bool) {
	for _, e := range r.events {
		if e.content {
			return e.at, true
		}
	}
	return 0, false
}

// lastText is the arrival of the request's last event with text.
func (r *request) lastText() (at int64, ok bool) {
	for _, e := range slices.Backward(r.events) {
		if e.text > 0 {
			return e.at, true
		}
	}
	return 0, false
}

// endedBy is when the request ended, or the given instant while it ran.
func (r *request) endedBy(otherwise int64) int64 {
	if r.EndedNS == nil {
		return otherwise
	}
	return *r.EndedNS
}

// began is when the request was written, or planned if it never was.
func (r *request) began() int64 {
	if r.WrittenNS == nil {
		return r.PlannedNS
	}
	return *r.WrittenNS
}

func (r *request) isLaunch() bool { return r.Purpose == "launch" }

// inFlight says whether the request was written and had not ended.
func (r *request) inFlight(at int64) bool {
	return r.WrittenNS != nil && *r.WrittenNS <= at && (r.EndedNS == nil || at < *r.EndedNS)
}
