package report

import (
	"fmt"
	"html/template"
	"io"

	"speedmatrix"
	"speedmatrix/internal/chart"
)

// Frame is what a site puts around a page and into it. A page in a frame has no style, script or policy of its own: the
// site links to Style and Script and sends the policy. All fields are the site's own HTML.
type Frame struct {
	// Head stands in the head, with the title; Top above the page's title, in place of the program's name.
	Head, Top template.HTML
	// Below stands below the line of provenance, End at the end of the main part.
	Below, End template.HTML
	// Footer stands in place of the page's own.
	Footer template.HTML
}

// Style is the style sheet of a framed page, Script its script.
func Style() ([]byte, error) {
	css, err := pageStyle()
	return []byte(css), err
}

// Script is the script of a framed page: the page is complete without it.
func Script() ([]byte, error) { return pageFiles.ReadFile("page/page.js") }

// ComparisonStyle is the style sheet of a framed comparison of up to so many sides.
func ComparisonStyle(sides int) ([]byte, error) {
	css, err := comparisonStyle(sides - 1)
	return []byte(css), err
}

// Description is the document in one sentence, for previews.
func (d *Document) Description() string { return description(d) }

// Description is the comparison's verdicts in one text, for previews.
func (d *Comparison) Description() string {
	return description(&Document{Subtitle: joinFacts(" ", allVerdicts(d)...)})
}

// Reproduce is the command that measures the run again, "" where that is not known.
func (d *Document) Reproduce() string { return joinFacts(" ", reproduce(d)...) }

// The drawings of one cell's raw rows, by their names in addresses.
const (
	DrawingWindow  = "window"  // the window over time
	DrawingGaps    = "gaps"    // the times between events
	DrawingFirst   = "first"   // TTFT of the launch
	DrawingMachine = "machine" // clocks, power and temperature over the whole run, of no cell
)

// drawingsOf are the drawings that a cell's rows may give, with what each shows.
func drawingsOf(m *Measurement) []pairView {
	if m.Cell.WindowStartedAt == nil || value(m.Cell.WindowSeconds) <= 0 {
		return nil
	}
	return []pairView{{DrawingWindow, "The window of " + m.Name + " over time"}, {DrawingGaps, "Distribution of the time between events of " + m.Name},
		{DrawingFirst, "TTFT of each request of the launch of " + m.Name}}
}

// imageView is a drawing that is loaded when it is seen.
type imageView struct{ Source, Alt string }

// images are the drawings of a cell by their addresses, none where it has no rows or shows no speed.
func images(m *Measurement, address func(cell, drawing string) string) []imageView {
	var list []imageView
	if address == nil || !m.ShowsSpeed {
		return nil
	}
	for _, x := range drawingsOf(m) {
		if source := address(m.Cell.Key(), x.Label); source != "" {
			list = append(list, imageView{source, x.Text})
		}
	}
	return list
}

// RowsSVG writes one drawing of raw rows as a file of its own, for light and dark schemes: of a cell by its key, or of
// the machine. A name or cell that there is not, and rows that cannot be read or give no drawing, are *speedmatrix.Error.
func RowsSVG(w io.Writer, d *Document, rows Rows, of [2]string) error {
	drawing, err := rowsDrawing(d, rows, of)
	if err != nil {
		return err
	}
	_, err = w.Write(drawing.File())
	return err
}

func rowsDrawing(d *Document, rows Rows, of [2]string) (chart.Drawing, error) {
	cell, name := of[0], of[1]
	nothing := &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("the raw rows of %s give no drawing %s", clip(Clean(cell), 60), clip(Clean(name), 40)),
		Next: "the run's page links to those that there are"}
	if name == DrawingMachine && cell == "" {
		samples, err := rows.Machine()
		if err != nil {
			return chart.Drawing{}, err
		}
		if c, ok := course(d, samples); ok {
			return c.Draw(courseWide), nil
		}
		return chart.Drawing{}, nothing
	}
	for _, m := range d.Measurements {
		if m.Cell.Key() != cell {
			continue
		}
		server, err := rows.Server()
		if err != nil {
			return chart.Drawing{}, err
		}
		drawn, err := drawCell(m, rows, server)
		switch {
		case err != nil:
			return chart.Drawing{}, err
		case name == DrawingWindow && drawn.HasTime:
			return drawn.Time, nil
		case name == DrawingGaps && drawn.HasGaps:
			return drawn.Gaps, nil
		case name == DrawingFirst && drawn.HasFirst:
			return drawn.First, nil
		}
		return chart.Drawing{}, nothing
	}
	return chart.Drawing{}, nothing
}
