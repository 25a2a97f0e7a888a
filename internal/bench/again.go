package bench

import (
	"context"
	"fmt"
	"math"
	"slices"

	"speedmatrix"
)

// afterMatrix measures the first cell again, and the decode matrix as often as the settings say.
func (s *Session) afterMatrix(ctx context.Context) error {
	for n := len(s.Run.Repeats) + 2; n <= s.Settings.Repeat && ctx.Err() == nil; n++ {
		if err := s.measureRepeat(ctx, n); err != nil {
			return err
		}
	}
	if ctx.Err() != nil || s.Run.Drift != nil {
		return nil
	}
	return s.measureDrift(ctx)
}

// measureDrift measures the first decode cell again; it is left out when that cell is not Valid or the only one, and by
// methods other than the standard's.
func (s *Session) measureDrift(ctx context.Context) error {
	i := slices.IndexFunc(s.Plan.Cells, func(p PlannedCell) bool { return p.Phase == speedmatrix.PhaseDecode && p.Verdict != Refused })
	if i < 0 || s.Settings.Method != speedmatrix.MethodStandard {
		return nil
	}
	first := s.cell(i)
	if first.Status != speedmatrix.StatusValid || s.measuredDecodes() < 2 {
		return nil
	}
	s.aside = "drift-"
	defer func() { s.aside = "" }()
	s.begin(first.Key())
	r := s.row(first.Context)
	r.filled = map[int]bool{}
	var again speedmatrix.Cell
	result := s.attempts(ctx, r, &s.Plan.Cells[i], &again)
	if again.Status == speedmatrix.StatusInterrupted {
		return nil
	}
	s.Run.Drift = &speedmatrix.Drift{Cell: again}
	if again.Status == speedmatrix.StatusValid {
		s.Run.Drift.Change = relativeChange(first.TotalTokensPerSecond, again.TotalTokensPerSecond)
		s.Run.Drift.Significant = s.Run.Drift.Change != nil && math.Abs(*s.Run.Drift.Change) >= speedmatrix.LeastDrift && apart(first, &again)
	}
	if s.Run.Drift.Significant {
		s.Warn("drift", fmt.Sprintf("the first cell measured again at the end is %+.1f %% off, beyond both intervals: the machine or the server changed during the run",
			*s.Run.Drift.Change*100))
	}
	return s.keep(r, first.Key(), result)
}

func (s *Session) measuredDecodes() (n int) {
	for i := range s.Run.Cells {
		c := &s.Run.Cells[i]
		if c.Phase == speedmatrix.PhaseDecode && c.TotalTokensPerSecond != nil {
			n++
		}
	}
	return n
}

// Warn attaches a doubt to the run, once per code and message.
func (s *Session) Warn(code, message string) {
	w := speedmatrix.Warning{Code: code, Message: message}
	if slices.Contains(s.Run.Warnings, w) {
		return
	}
	s.Run.Warnings = append(s.Run.Warnings, w)
	s.tell(Event{Event: EventWarning, Message: message})
}

// measureRepeat measures the decode matrix once more, without the cells that gave no speed. It is kept only whole.
func (s *Session) measureRepeat(ctx context.Context, n int) error {
	s.aside = fmt.Sprintf("repeat-%d-", n)
	defer func() { s.aside = "" }()
	repeat := speedmatrix.Repeat{Index: n}
	before := -1
	for i := range s.Plan.Cells {
		p := &s.Plan.Cells[i]
		if p.Phase != speedmatrix.PhaseDecode || !s.cell(i).Status.ShowsSpeed() {
			continue
		}
		r := s.row(p.Context)
		if p.Context != before {
			before = p.Context
			r.filled = map[int]bool{}
		}
		var c speedmatrix.Cell
		s.awaitTurn(ctx, n, i)
		s.begin(s.cell(i).Key())
		result := s.attempts(ctx, r, p, &c)
		if ctx.Err() != nil {
			return nil
		}
		s.tell(Event{Event: EventDone, Cell: s.aside + c.Key(), Result: &c})
		repeat.Cells = append(repeat.Cells, c)
		if err := s.keep(r, c.Key(), result); err != nil {
			return err
		}
		if c.Status == speedmatrix.StatusFailed {
			if err := s.gone(ctx); err != nil {
				return err
			}
		}
	}
	s.Run.Repeats = append(s.Run.Repeats, repeat)
	s.summarizeRepeats()
	return s.save()
}

// summarizeRepeats puts into every cell the spread of its figures over all the times that it was measured and
// showed a speed.
func (s *Session) summarizeRepeats() {
	for i := range s.Run.Cells {
		c := &s.Run.Cells[i]
		if c.Phase == speedmatrix.PhaseDecode {
			c.Repeats = repeated(s.Run, c)
		}
	}
}

// repeated is the spread of a cell's figures over the matrix and its repeats; nil where it showed no speed.
func repeated(run *speedmatrix.Run, c *speedmatrix.Cell) *speedmatrix.RepeatSummary {
	all := []*speedmatrix.Cell{c}
	for i := range run.Repeats {
		for j := range run.Repeats[i].Cells {
			if o := &run.Repeats[i].Cells[j]; o.Context == c.Context && o.Concurrency == c.Concurrency {
				all = append(all, o)
			}
		}
	}
	var total, each, ttft []float64
	add := func(list *[]float64, v *float64) {
		if v != nil {
			*list = append(*list, *v)
		}
	}
	for _, o := range all {
		if !o.Status.ShowsSpeed() {
			continue
		}
		add(&total, o.TotalTokensPerSecond)
		add(&each, o.PerRequestTokensPerSecond)
		if o.TTFT != nil {
			add(&ttft, o.TTFT.P50)
		}
	}
	if len(total) == 0 {
		return nil
	}
	return &speedmatrix.RepeatSummary{TotalTokensPerSecond: distribution(total, "repeats"),
		PerRequestTokensPerSecond: distribution(each, "repeats"), TTFT: distribution(ttft, "repeats")}
}
