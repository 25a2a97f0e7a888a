package verify

import "speedmatrix"

// The samples that a prefill has, and the time of one from which on it has one.
const (
	prefillSamples   = 3
	onePrefillMillis = 60_000
)

// checkTime recomputes how long the run took and would have taken, where it says so.
func (c *checker) checkTime() {
	plan := c.run.Plan
	if plan.TakenSeconds == nil && plan.SeparateSeconds == nil {
		return
	}
	if c.run.FinishedAt == nil {
		c.disagree("", "plan.taken_seconds", "known", "the run has no end")
		return
	}
	taken := c.run.FinishedAt.Sub(c.run.StartedAt).Seconds()
	c.compareValue(field{"", "plan.taken_seconds", true}, plan.TakenSeconds, &taken, exactly)
	separate := taken + c.unused(c.run.Cells) + c.fillsThatWereSamples()
	if c.run.Drift != nil {
		separate += c.unused([]speedmatrix.Cell{c.run.Drift.Cell})
	}
	for i := range c.run.Repeats {
		separate += c.unused(c.run.Repeats[i].Cells)
	}
	c.compareValue(field{"", "plan.separate_seconds", true}, plan.SeparateSeconds, &separate, exactly)
}

// unused is the part of the method's duration that the windows of cells did not use, in seconds.
func (c *checker) unused(cells []speedmatrix.Cell) (seconds float64) {
	for i := range cells {
		if w := cells[i].WindowSeconds; w != nil && cells[i].Phase == speedmatrix.PhaseDecode {
			seconds += c.run.Method.DurationSeconds - *w
		}
	}
	return seconds
}

// fillsThatWereSamples is the time of the prefills that a row needed all the same, as many as its size has samples.
func (c *checker) fillsThatWereSamples() (seconds float64) {
	heads := map[int]int{} // by context
	for i := range c.run.Cells {
		cell := &c.run.Cells[i]
		if cell.StepSeconds == nil || cell.StepSeconds.Fill <= 0 {
			continue
		}
		heads[cell.Context] = max(heads[cell.Context], cell.Concurrency)
		if c.run.Method.Prompts == "shared" {
			heads[cell.Context] = 1
		}
	}
	for i := range c.run.Cells {
		cell := &c.run.Cells[i]
		if cell.Phase != speedmatrix.PhasePrefill || cell.TTFT == nil || cell.TTFT.P50 == nil {
			continue
		}
		most := prefillSamples
		if *cell.TTFT.P50 > onePrefillMillis {
			most = 1
		}
		seconds += float64(min(heads[cell.Context], most)) * *cell.TTFT.P50 / 1000
	}
	return seconds
}
