package bench

import (
	"speedmatrix"
	"speedmatrix/internal/stats"
)

// SetHabits takes over what the warm-up showed of the way the server streams. Call it between cells.
func (d *Driver) SetHabits(h speedmatrix.Habits) { d.o.Habits = h }

// Learn takes the prefills of the warm-up into the pilot, so that the first cell's times are predicted.
func (s *Session) Learn(w WarmUp) {
	s.prefillP = append(s.prefillP, w.Prompts...)
	s.prefillS = append(s.prefillS, w.Seconds...)
	s.refit()
}

// refit makes the pilot anew from all prefills that were timed.
func (s *Session) refit() {
	if a, b, ok := stats.FitQuadratic(s.prefillP, s.prefillS); ok {
		s.Pilot = Pilot{A: a, B: b, Known: true}
	}
}
