package bench

import (
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"speedmatrix"
)

// nextTail gives tails that no request of the row had before; safe for concurrent use.
func (r *rowState) nextTail(heads []Head) func(stream int) int {
	var mu sync.Mutex
	return func(stream int) int {
		mu.Lock()
		defer mu.Unlock()
		h := heads[stream].Stream
		r.tails[h]++
		return r.tails[h]
	}
}

func (s *Session) tell(e Event) {
	if s.Tell == nil {
		return
	}
	e.Time = time.Unix(0, s.Lab.Now()).UTC().Format(time.RFC3339Nano)
	e.Done, e.Total = s.done, s.total
	s.Tell(e)
}

// begin says that a cell begins.
func (s *Session) begin(key string) {
	left := s.Expected().Seconds()
	s.tell(Event{Event: EventCell, Cell: s.aside + key, SecondsLeft: &left})
}

// finished says that a cell has ended.
func (s *Session) finished(c *speedmatrix.Cell) {
	s.done++
	left := s.Expected().Seconds()
	s.tell(Event{Event: EventDone, Cell: s.aside + c.Key(), SecondsLeft: &left, Result: c})
}

// keep writes a decode cell's rows and then the document, so that the document never names rows that are not
// there. The prefills that are no samples of the row's prefill cell stand in the same file.
func (s *Session) keep(r *rowState, key string, result *DecodeResult) error {
	if result.Evidence.Outcome.Ending == EndedSkipped {
		return s.publishSamples(r) // it publishes no number
	}
	list := slices.Clone(result.Evidence.Requests)
	for _, f := range r.loose[s.aside+key] {
		list = append(list, f.Recorded)
	}
	if err := s.saveRows(s.aside+key, list); err != nil {
		return err
	}
	return s.publishSamples(r)
}

// publishSamples writes the samples that a row has so far and what follows from them, and the document.
func (s *Session) publishSamples(r *rowState) error {
	if !s.partPrefill(r) {
		return s.save()
	}
	return s.keepPrefill(r, s.prefillCell(r.context))
}

// partPrefill computes the row's prefill cell from the samples so far; it stays to be completed. It is false
// where there is nothing to compute.
func (s *Session) partPrefill(r *rowState) bool {
	c := s.prefillCell(r.context)
	if c == nil || !unmeasured(c) || len(r.samples) == 0 {
		return false
	}
	s.summarizePrefill(r, c)
	c.Status, c.Reason = speedmatrix.StatusInterrupted, unfinished
	return true
}

// saveRows writes the requests and events of a cell.
func (s *Session) saveRows(key string, list []Recorded) error {
	rows := make([]speedmatrix.RequestRow, len(list))
	for i := range list {
		rows[i] = list[i].Row
	}
	var events iter.Seq[speedmatrix.EventRow] = func(yield func(speedmatrix.EventRow) bool) {
		for i := range list {
			for e := range list[i].Events {
				if !yield(e) {
					return
				}
			}
		}
	}
	return s.Store.SaveCell(key, rows, events)
}

// save writes the scrapes, the samples of the machine, and the document.
func (s *Session) save() error {
	rows := append(s.serverFrom[:len(s.serverFrom):len(s.serverFrom)], s.Lab.Scrapes()...)
	if len(rows) > 0 {
		if err := s.Store.SaveServer(rows); err != nil {
			return err
		}
	}
	if err := s.saveMachine(); err != nil {
		return err
	}
	return s.Store.SaveRun(s.Run)
}

// Continue takes the scrapes of the run's earlier part over.
func (s *Session) Continue(rows []speedmatrix.ServerRow) { s.serverFrom = rows }

// relativeChange is (b − a) ÷ a, nil when either is unknown.
func relativeChange(a, b *float64) *float64 {
	if a == nil || b == nil || *a == 0 {
		return nil
	}
	change := (*b - *a) / *a
	return &change
}

// apart says whether two cells' intervals do not meet; without an interval a value stands for itself.
func apart(a, b *speedmatrix.Cell) bool {
	lowA, highA, okA := bounds(a)
	lowB, highB, okB := bounds(b)
	return okA && okB && (lowA > highB || lowB > highA)
}

func bounds(c *speedmatrix.Cell) (low, high float64, ok bool) {
	switch {
	case c.Interval95 != nil:
		return c.Interval95.Low, c.Interval95.High, true
	case c.TotalTokensPerSecond != nil:
		return *c.TotalTokensPerSecond, *c.TotalTokensPerSecond, true
	}
	return math.NaN(), math.NaN(), false
}
