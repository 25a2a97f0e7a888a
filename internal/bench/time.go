package bench

import (
	"speedmatrix"
	"speedmatrix/internal/prompt"
)

// noteTime puts into the plan how long the run took, and how long it would have taken as tools of its kind measure:
// with prefill samples apart from the fills, and with windows of the whole duration whatever comes in them. A run that
// was gone on with, or that took turns with another, has no such time.
func (s *Session) noteTime() {
	run := s.Run
	run.Plan.TakenSeconds, run.Plan.SeparateSeconds = nil, nil
	if run.Method.Name != speedmatrix.MethodStandard || run.Ended != "" || run.Plan.Resumed > 0 || s.turn != nil {
		return
	}
	taken := run.FinishedAt.Sub(run.StartedAt).Seconds()
	separate := taken
	for i := range run.Cells {
		separate += sampledByFills(run, &run.Cells[i]) + cutShort(run, &run.Cells[i])
	}
	if run.Drift != nil {
		separate += cutShort(run, &run.Drift.Cell)
	}
	for i := range run.Repeats {
		for j := range run.Repeats[i].Cells {
			separate += cutShort(run, &run.Repeats[i].Cells[j])
		}
	}
	run.Plan.TakenSeconds, run.Plan.SeparateSeconds = &taken, &separate
}

// sampledByFills is the time of those samples of a prefill cell that its row's fills were, in seconds: as many as are
// wanted, and no more than heads were filled.
func sampledByFills(run *speedmatrix.Run, prefill *speedmatrix.Cell) float64 {
	if prefill.Phase != speedmatrix.PhasePrefill || prefill.TTFT == nil || prefill.TTFT.P50 == nil {
		return 0
	}
	filled := 0
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Phase == speedmatrix.PhaseDecode && c.Context == prefill.Context && c.StepSeconds != nil && c.StepSeconds.Fill > 0 {
			filled = max(filled, c.Concurrency)
		}
	}
	if run.Method.Prompts == string(prompt.ModeShared) {
		filled = min(filled, 1)
	}
	ttft := *prefill.TTFT.P50 / 1000
	wanted := wantedSamples
	if ttft > slowPrefill.Seconds() {
		wanted = 1
	}
	return float64(min(wanted, filled)) * ttft
}

// cutShort is how much shorter than the method's duration a cell's window was, in seconds; below zero for one that
// was extended.
func cutShort(run *speedmatrix.Run, c *speedmatrix.Cell) float64 {
	if c.Phase != speedmatrix.PhaseDecode || c.WindowSeconds == nil {
		return 0
	}
	return run.Method.DurationSeconds - *c.WindowSeconds
}
