package bench

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Store keeps a run as it grows; runfile.Dir is one. If it also is Earlier, a resumed run takes over the prefills
// of its earlier part.
type Store interface {
	SaveRun(r *speedmatrix.Run) error
	SaveCell(key string, requests []speedmatrix.RequestRow, events iter.Seq[speedmatrix.EventRow]) error
	SaveServer(rows []speedmatrix.ServerRow) error
	SaveMachine(rows []speedmatrix.MachineRow) error
}

// Earlier gives back what a store keeps of cells.
type Earlier interface {
	HasCell(key string) bool
	Requests(key string) ([]speedmatrix.RequestRow, error)
}

// Session measures the cells of one run, in order, and keeps the document true after each.
type Session struct {
	Settings Settings
	Plan     *Plan
	Limits   Limits
	Lab      Lab
	Store    Store
	// Run is the document; Prepare fills in its cells.
	Run *speedmatrix.Run
	// Pilot predicts times; it is refined after every prefill.
	Pilot Pilot
	// BaseRunning and BaseWaiting are the foreign load that is accepted.
	BaseRunning, BaseWaiting float64
	// HasGauges says that the server tells how many requests run.
	HasGauges bool
	// ServerCoalesced is the share of coalesced reads at one request: the server's own habit.
	ServerCoalesced float64
	// Generation numbers the times that the run was begun: heads of different generations differ.
	Generation int
	// Telemetry samples the machine, may be nil.
	Telemetry Telemetry
	// Tell is told of everything that happens, may be nil.
	Tell func(Event)

	rows        map[int]*rowState
	prefillP    []float64
	prefillS    []float64
	fillsFailed int
	done, total int
	serverFrom  []speedmatrix.ServerRow
	machineFrom []speedmatrix.MachineRow
	// prefillSpans are by context.
	prefillSpans map[int]prefillSpan
	// turn waits until this run may measure the next cell, nil where it need not.
	turn func(ctx context.Context, round, cell int)
	// aside names the measurement besides the matrix that goes on: "drift-", "repeat-2-"; "" in the matrix.
	aside string
}

const (
	drainLimit      = time.Minute
	wantedSamples   = 3
	slowPrefill     = time.Minute
	loopAttempts    = 3
	launchSpacing   = 50 * time.Microsecond
	rampHold        = time.Second
	baseAllowance   = 30 * time.Second
	leastSaturation = 5 * time.Second
	tailTokens      = 128
	// heldBack stands in the document for a cell that the run has not come to, unfinished for one that lacks samples.
	heldBack   = "the run did not come to it"
	unfinished = "the run ended before all its samples were taken"
)

// Prepare puts every planned cell into the document; those already measured by an earlier part of the run stay.
func (s *Session) Prepare() {
	s.rows, s.prefillSpans = map[int]*rowState{}, map[int]prefillSpan{}
	var cells []speedmatrix.Cell
	for i := range s.Plan.Cells {
		p := &s.Plan.Cells[i]
		old := s.Run.FindCell(p.Phase, p.Context, p.Concurrency)
		if old != nil && !unmeasured(old) && !lost(old) {
			cells = append(cells, *old)
			s.takeOver(old)
			continue
		}
		c := newCell(p)
		if p.Verdict != Refused {
			c.Status, c.Reason = speedmatrix.StatusInterrupted, heldBack
			s.total++
			s.forgetLost(old)
		}
		cells = append(cells, c)
	}
	s.Run.Cells = cells
	for i := range s.Plan.Cells {
		if p := &s.Plan.Cells[i]; p.Phase == speedmatrix.PhasePrefill && p.Verdict != Refused && unmeasured(s.cell(i)) {
			s.takeSamples(p)
		}
	}
}

// unmeasured says whether a cell is still to be measured when a run is resumed.
func unmeasured(c *speedmatrix.Cell) bool { return c.Status == speedmatrix.StatusInterrupted }

func newCell(p *PlannedCell) speedmatrix.Cell {
	return speedmatrix.Cell{Phase: p.Phase, ContextLabel: unit.FormatTokens(p.Context), Context: p.Context, Concurrency: p.Concurrency,
		Status: p.Status, Reason: p.Reason, TTFTKind: speedmatrix.TTFTUnknown}
}

// Measure runs the cells that are not measured yet. It returns when all are, when ctx ends (the rest stays
// Interrupted), or when the server is gone or the run directory cannot be written.
func (s *Session) Measure(ctx context.Context) error {
	err := s.matrix(ctx)
	s.checkPrefills()
	if err == nil && ctx.Err() == nil {
		err = s.afterMatrix(ctx)
	}
	switch {
	case err != nil:
		s.Run.Ended = err.Error()
	case ctx.Err() != nil:
		s.Run.Ended = "interrupted by the user"
		if errors.Is(context.Cause(ctx), errOtherEnded) {
			s.Run.Ended = errOtherEnded.Error()
		}
		err = &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "interrupted; what was measured is kept"}
	default:
		s.Run.Ended = ""
	}
	finished := time.Unix(0, s.Lab.Now()).UTC()
	s.Run.FinishedAt = &finished
	s.noteTime()
	if saveErr := s.save(); saveErr != nil {
		return saveErr
	}
	return err
}

// matrix measures every row once.
func (s *Session) matrix(ctx context.Context) error {
	if s.compat() {
		if err := s.firstColumn(ctx); err != nil {
			return err
		}
	}
	for _, context := range s.order() {
		if err := s.measureRow(ctx, context); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// firstColumn measures the least concurrency of every context, with which llm-inference-bench begins; its first
// row and the rest row by row follow by themselves.
func (s *Session) firstColumn(ctx context.Context) error {
	for i := range s.Plan.Cells {
		p := &s.Plan.Cells[i]
		if p.Phase != speedmatrix.PhaseDecode || p.Concurrency != s.Plan.Concurrency[0] {
			continue
		}
		if err := s.measureDecode(ctx, s.row(p.Context), i); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func (s *Session) compat() bool { return s.Settings.Method == speedmatrix.MethodCompat }

// order gives the contexts of the plan, ascending.
func (s *Session) order() []int {
	var list []int
	for i := range s.Plan.Cells {
		if c := s.Plan.Cells[i].Context; !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

func (s *Session) measureRow(ctx context.Context, context int) error {
	r := s.row(context)
	for i := range s.Plan.Cells {
		p := &s.Plan.Cells[i]
		if p.Context != context || p.Phase != speedmatrix.PhaseDecode || ctx.Err() != nil {
			continue
		}
		if err := s.measureDecode(ctx, r, i); err != nil {
			return err
		}
	}
	again := r.again
	r.again = nil
	for _, i := range again {
		if ctx.Err() != nil {
			return nil
		}
		if err := s.decodeAgain(ctx, r, i); err != nil {
			return err
		}
	}
	if err := s.finishPrefill(ctx, r); err != nil {
		return err
	}
	s.forget(r)
	return nil
}

// forget lets go of a row's texts and samples.
func (s *Session) forget(r *rowState) {
	if d, ok := s.Lab.(interface{ Forget(context int) }); ok {
		d.Forget(r.context)
	}
	r.samples = nil
}

// cell gives the document's cell for a planned one.
func (s *Session) cell(i int) *speedmatrix.Cell {
	p := &s.Plan.Cells[i]
	return s.Run.FindCell(p.Phase, p.Context, p.Concurrency)
}
