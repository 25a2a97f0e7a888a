package bench

import (
	"time"

	"speedmatrix"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// rowState is what a row has learned.
type rowState struct {
	context int
	// filled are the streams whose heads the server was sent.
	filled map[int]bool
	// tails counts the tails of each head.
	tails map[int]int
	// samples are the prefills of the row's prefill cell, loose those that stand in a decode cell's file.
	samples []Prefilled
	loose   map[string][]Prefilled
	// fills are the times to first token of the fills of the matrix, in ns.
	fills []float64
	fresh int
	// longest is the longest prompt that the server counted.
	longest int
	// reuse says whether the cache keeps heads, as observed at the first launch.
	reuse    bool
	observed bool
	again    []int
	// spoilt: the samples of an earlier part of the run came to nothing with its server.
	spoilt bool
	// full is the concurrency at which the engine ran out of memory; 0 none.
	full int
}

// looseFrom numbers the first prefill in a decode cell's file, away from the streams' requests.
const looseFrom = -1 << 20

func (s *Session) row(context int) *rowState {
	r := s.rows[context]
	if r == nil {
		r = &rowState{context: context, filled: map[int]bool{}, tails: map[int]int{}, loose: map[string][]Prefilled{}}
		s.rows[context] = r
	}
	return r
}

// takeOver takes into the row what a cell measured by an earlier part of the run knows.
func (s *Session) takeOver(c *speedmatrix.Cell) {
	r := s.row(c.Context)
	if c.Status == speedmatrix.StatusOverCapacity && c.Attempts > 0 && (r.full == 0 || c.Concurrency < r.full) {
		r.full = c.Concurrency
	}
	for _, row := range s.earlier(c.Key()) {
		r.took(&row)
	}
}

// takeSamples takes over the prefills of a row whose prefill cell is not complete.
func (s *Session) takeSamples(p *PlannedCell) {
	r := s.row(p.Context)
	if r.spoilt {
		return
	}
	for _, row := range s.earlier(speedmatrix.CellKey(p.Phase, unit.FormatTokens(p.Context), p.Concurrency)) {
		r.took(&row)
		r.samples = append(r.samples, Prefilled{Drained: true, Head: Head{Context: p.Context, Stream: int(row.Head)},
			Recorded: Recorded{Row: row, Events: func(func(speedmatrix.EventRow) bool) {}}})
	}
	s.partPrefill(r)
}

// earlier gives the rows of a cell that the store has from an earlier part of the run.
func (s *Session) earlier(key string) []speedmatrix.RequestRow {
	store, ok := s.Store.(Earlier)
	if !ok || s.Generation == 0 || !store.HasCell(key) {
		return nil
	}
	rows, err := store.Requests(key)
	if err != nil {
		return nil
	}
	return rows
}

// took notes the time of a fill.
func (r *rowState) took(row *speedmatrix.RequestRow) {
	if row.PromptTokens != nil {
		r.longest = max(r.longest, int(*row.PromptTokens))
	}
	if row.Purpose == PurposeFill && row.FirstNS != nil && row.WrittenNS != nil {
		r.fills = append(r.fills, float64(*row.FirstNS-*row.WrittenNS))
	}
}

// fillTTFT is the median time to first token of the row's fills, 0 without one.
func (r *rowState) fillTTFT() time.Duration {
	if len(r.fills) == 0 {
		return 0
	}
	return time.Duration(stats.Median(r.fills))
}

// prefillCell is the row's prefill cell in the document, nil without one.
func (s *Session) prefillCell(context int) *speedmatrix.Cell {
	return s.Run.FindCell(speedmatrix.PhasePrefill, context, 1)
}

// isSample says whether the next fill of the row is a sample of its prefill cell: in the matrix, where there is
// such a cell that is not complete; with method compat only the row's first one.
func (s *Session) isSample(r *rowState) bool {
	c := s.prefillCell(r.context)
	return s.aside == "" && c != nil && unmeasured(c) && (!s.compat() || len(r.samples) == 0)
}

// learn takes in what an attempt showed of the row: fills, heads now cached, and whether the cache keeps heads.
func (s *Session) learn(r *rowState, spec *DecodeSpec, result *DecodeResult) {
	for i, f := range result.Fills {
		if f.cut() {
			continue // an interruption is no sample
		}
		if spec.FirstFill >= 0 {
			r.samples = append(r.samples, f)
		} else {
			r.loose[spec.Key] = append(r.loose[spec.Key], f)
		}
		if s.aside == "" {
			r.took(&f.Recorded.Row)
		}
		if !f.OK() {
			s.fillsFailed++
			continue
		}
		s.refine(&f)
		r.filled[spec.Heads[spec.Fill[i]].Stream] = true
	}
	if r.observed || spec.Context == 0 || len(spec.Fill) == 0 {
		return
	}
	if reuse, known := reuseAtLaunch(result.Evidence, r.fillTTFT()); known {
		r.observed, r.reuse = true, reuse
	}
}

// reuseAtLaunch says whether the launch found its heads in the cache: by the cached tokens of most requests that
// report them, else by a time to first token under half a fill's.
func reuseAtLaunch(e *Evidence, fill time.Duration) (reuse, known bool) {
	var ttft, cached []float64
	for _, x := range e.Requests {
		row := &x.Row
		if row.Purpose != PurposeLaunch || row.FirstNS == nil || row.WrittenNS == nil {
			continue
		}
		ttft = append(ttft, float64(*row.FirstNS-*row.WrittenNS))
		if row.CachedTokens != nil && row.PromptTokens != nil && *row.PromptTokens > 0 {
			cached = append(cached, float64(*row.CachedTokens)/float64(*row.PromptTokens))
		}
	}
	switch {
	case len(cached) > 0:
		return stats.Median(cached) > 0.5, true
	case len(ttft) == 0 || fill == 0:
		return false, false
	}
	return stats.Median(ttft) < float64(fill)/2, true
}

// refine takes a prefill into the pilot.
func (s *Session) refine(f *Prefilled) {
	row := &f.Recorded.Row
	tokens := float64(f.Head.Context)
	if row.PromptTokens != nil {
		tokens = float64(*row.PromptTokens)
		if row.CachedTokens != nil {
			tokens -= float64(*row.CachedTokens)
		}
	}
	if tokens <= 0 {
		return
	}
	s.prefillP = append(s.prefillP, tokens)
	s.prefillS = append(s.prefillS, float64(*row.FirstNS-*row.WrittenNS)/1e9)
	s.refit()
}
