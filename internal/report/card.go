package report

import (
	"io"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// Card writes a PNG of 1200 × 630 pixels for link previews: the title, the three numbers that
// matter and the matrix in whole tok/s, in the light scheme.
func Card(w io.Writer, d *Document) error {
	model, hardware, _ := strings.Cut(d.Title, " on ")
	c := chart.Card{Eyebrow: Eyebrow, Brand: "speedmatrix", Title: model, Subtitle: joinFacts(" · ", hardware, d.Subtitle), Footer: cardFooter(d)}
	for _, f := range d.Glance {
		if f.Key != "" && len(c.Figures) < 3 {
			c.Figures = append(c.Figures, chart.Figure{Label: cardLabel(d, f), Value: f.Value, Unit: f.Unit})
		}
	}
	scale := d.heatScale(metrics[0])
	for _, n := range d.Matrix.Concurrency {
		c.Columns = append(c.Columns, unit.Count(n))
	}
	for _, row := range d.Matrix.Rows {
		c.Rows = append(c.Rows, row.Label)
		var cells []chart.Cell
		for _, m := range row.Cells {
			cell := heatCell(m, scale)
			if v := m.Cell.TotalTokensPerSecond; cell.Heat && v != nil {
				cell.Text = number(v, count)
			}
			cells = append(cells, cell)
		}
		c.Cells = append(c.Cells, cells)
	}
	return c.PNG(w)
}

// cardLabel names a number; of the highest total also how many requests made it.
func cardLabel(d *Document, f Figure) string {
	if f.Label != highestTotal {
		return f.Label
	}
	for _, m := range d.Measurements {
		if m.Key == f.Key {
			return f.Label + ", " + plural(m.Cell.Concurrency, "request")
		}
	}
	return f.Label
}

// cardFooter explains the matrix and the patterns in it.
func cardFooter(d *Document) string {
	if len(d.Matrix.Rows) == 0 {
		return d.Coverage
	}
	parts := []string{"total tok/s", "context down, requests across"}
	has := func(status speedmatrix.Status) bool {
		return slices.ContainsFunc(d.Measurements, func(m *Measurement) bool { return m.Status == status })
	}
	if has(speedmatrix.StatusOverCapacity) {
		parts = append(parts, "hatched: over capacity")
	}
	if has(speedmatrix.StatusRequestsQueued) {
		parts = append(parts, "dashed: queued")
	}
	if d.Run.Origin == speedmatrix.OriginPredicted {
		parts = append(parts, "predicted")
	}
	return strings.Join(parts, " · ")
}
