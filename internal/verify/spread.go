package verify

import "speedmatrix"

// spread recomputes a cell's summary over the matrix and its repeats from the cells' published figures, which are
// checked by themselves. It is nil for a run without repeats and for a cell of a repeat.
func (c *checker) spread(m *measurement) *speedmatrix.RepeatSummary {
	if len(c.run.Repeats) == 0 || m.key != m.cell.Key() {
		return nil
	}
	var total, perRequest, ttft []float64
	take := func(cell *speedmatrix.Cell) {
		if cell.Phase != m.cell.Phase || cell.Context != m.cell.Context || cell.Concurrency != m.cell.Concurrency || !cell.Status.ShowsSpeed() {
			return
		}
		if x := cell.TotalTokensPerSecond; x != nil {
			total = append(total, *x)
		}
		if x := cell.PerRequestTokensPerSecond; x != nil {
			perRequest = append(perRequest, *x)
		}
		if d := cell.TTFT; d != nil && d.P50 != nil {
			ttft = append(ttft, *d.P50)
		}
	}
	take(m.cell)
	for i := range c.run.Repeats {
		for j := range c.run.Repeats[i].Cells {
			take(&c.run.Repeats[i].Cells[j])
		}
	}
	if len(total) == 0 {
		return nil
	}
	return &speedmatrix.RepeatSummary{
		TotalTokensPerSecond:      distribution(total, "repeats"),
		PerRequestTokensPerSecond: distribution(perRequest, "repeats"),
		TTFT:                      distribution(ttft, "repeats"),
	}
}
