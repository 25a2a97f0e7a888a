package calibrate

import (
	"speedmatrix"
	"speedmatrix/internal/predict"
)

// Figure names what a residual is of.
type Figure string

// The figures that a profile is fitted to.
const (
	FigurePrefill Figure = "prefill TTFT (ms)"
	FigureLaunch  Figure = "launch TTFT (ms)"
	FigureStep    Figure = "time between tokens (ms)" // of a decode cell: its requests ÷ its total tok/s, or the time itself
)

// The errors that measurements usually have, as shares: figures weigh by them.
const (
	usualPrefill = 0.01
	usualLaunch  = 0.05
	usualStep    = 0.01
	// restarted is for cells in which answers ended: their steps are not all alike.
	restarted = 0.03
)

// figure is one measured number.
type figure struct {
	cell     speedmatrix.Cell
	kind     Figure
	measured float64
	usual    float64
	// factor is what a whole predicted run gives ÷ what the fast model gives, from the last correction.
	factor float64
	// context is the mean context of the steps that the figure speaks of.
	context float64
}

// target is what the fast model has to give.
func (f *figure) target() float64 { return f.measured / f.factor }

// figuresOf gathers the figures of a run's Valid cells, in the order in which a bed has to make them.
func figuresOf(run *speedmatrix.Run) []figure {
	compat := run.Method.Name == speedmatrix.MethodCompat
	var list []figure
	for _, c := range predict.Order(run.Cells) {
		if c.Phase == speedmatrix.PhasePrefill {
			list = append(list, figure{cell: c, kind: FigurePrefill, measured: *c.TTFT.P50, usual: usualPrefill, factor: 1})
			continue
		}
		if value, context, ok := stepOf(&c, compat); ok {
			f := figure{cell: c, kind: FigureStep, measured: value, usual: usualStep, factor: 1, context: context}
			if c.CompletedRequests != nil && *c.CompletedRequests > 0 {
				f.usual = restarted
			}
			list = append(list, f)
		}
		list = append(list, figure{cell: c, kind: FigureLaunch, measured: *c.TTFT.P50, usual: usualLaunch, factor: 1})
	}
	return list
}

// stepOf gives the mean time of a decode cell's steps in ms, and the mean context at which they ran. The time between
// tokens says it exactly; under method compat it covers the launch too, so that only one request's is taken.
func stepOf(c *speedmatrix.Cell, compat bool) (ms, context float64, ok bool) {
	if c.ContextTokens == nil {
		return 0, 0, false
	}
	between := c.TimeBetweenTokens != nil && c.TimeBetweenTokens.P50 != nil
	switch {
	case between && !compat:
		return *c.TimeBetweenTokens.P50, c.ContextTokens.Mean, true
	case between && c.Concurrency == 1 && c.PromptTokens != nil:
		return *c.TimeBetweenTokens.P50, (*c.PromptTokens + c.ContextTokens.End) / 2, true
	case c.TotalTokensPerSecond != nil && *c.TotalTokensPerSecond > 0:
		return 1e3 * float64(c.Concurrency) / *c.TotalTokensPerSecond, c.ContextTokens.Mean, true
	}
	return 0, 0, false
}

// read gives the figure's value in another run of the same matrix; false where that run has none.
func (f *figure) read(run *speedmatrix.Run) (value float64, ok bool) {
	c := run.FindCell(f.cell.Phase, f.cell.Context, f.cell.Concurrency)
	if c == nil || c.TTFT == nil || c.TTFT.P50 == nil {
		return 0, false
	}
	if f.kind == FigureStep {
		ms, _, ok := stepOf(c, run.Method.Name == speedmatrix.MethodCompat)
		return ms, ok
	}
	return *c.TTFT.P50, true
}
