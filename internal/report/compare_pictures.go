package report

import (
	"io"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

// ComparisonSVG writes the map of differences in total tok/s, of the second side against the first, as a file of its
// own for light and dark schemes. Runs without decode cells are a *speedmatrix.Error.
func ComparisonSVG(w io.Writer, d *Comparison) error {
	p := &d.Pairs[0]
	if len(p.Rows) == 0 {
		return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "the runs have no decode cells to draw", Next: "speedmatrix compare A B shows what they have"}
	}
	h := chart.HeatMap{Label: "Difference in total tok/s from " + p.From + " to " + p.To, Title: d.Title,
		Caption: "Total tok/s from " + p.From + " to " + p.To + " · " + p.Counts, Corner: "Context", Direction: chart.Diverging,
		Low: p.To + " slower", High: p.To + " faster"}
	for _, n := range p.Concurrency {
		h.Columns = append(h.Columns, unit.Count(n))
	}
	for _, row := range p.Rows {
		h.Rows = append(h.Rows, row.Label)
		var cells []chart.Cell
		for _, c := range row.Cells {
			n, there := c.Numbers[compare.Total]
			cell := chart.Cell{Text: n.Change, Sub: n.Both, Step: n.Step, Heat: there}
			if !there {
				cell.State, cell.Pattern = c.State, "over"
			}
			cells = append(cells, cell)
		}
		h.Cells = append(h.Cells, cells)
	}
	for _, s := range d.Sides {
		h.Notes = append(h.Notes, s.Name+": "+joinFacts(" · ", s.Title, s.Subtitle))
	}
	_, err := w.Write(h.Draw().Padded(24).File())
	return err
}
