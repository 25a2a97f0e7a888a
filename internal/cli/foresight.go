package cli

import (
	"fmt"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/unit"
)

// assumedNoise is what measurements of one server are taken to differ by where nobody states it.
const assumedNoise = 0.005

// foresight says which change a comparison will find after so many measurements, by a formula of package stats.
func foresight(plan *bench.Plan, times int, noise float64, least func(n, tests int, noise float64) float64) string {
	cells := 0
	for i := range plan.Cells {
		if c := &plan.Cells[i]; c.Phase == speedmatrix.PhaseDecode && c.Verdict != bench.Refused {
			cells++
		}
	}
	stated := "as stated"
	if noise == 0 {
		noise, stated = assumedNoise, "assumed; --run-noise states it"
	}
	return fmt.Sprintf("Measured %d times, %s each: with %s noise from one to the next (%s) a comparison finds a change of %s in a cell.",
		times, plural(cells, "cell", "cells"), unit.PercentFine(noise), stated, unit.PercentFine(least(times, cells, noise)))
}
