package report

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// matrixView is the heat map of a page.
type matrixView struct {
	Metrics []metricView
	// Caption is what the subtitle says after the number's name.
	Caption string
	Columns []string
	Rows    []matrixRowView
	// Tall gives cells the room for an interval.
	Tall bool
	// Many gives a matrix of many columns the whole width of the page.
	Many bool
}

// manyColumns is how many columns fit beside the facts.
const manyColumns = 8

type metricView struct {
	Key, Name, Caption string
	Low, High, Ratio   string
	Ramp               template.HTML
}

type matrixRowView struct {
	Label string
	Cells []matrixCellView
}

type matrixCellView struct {
	ID, Class, Link string
	// Heat says whether the cell has a number, with a variant for each metric.
	Heat                         bool
	Values                       []variant
	State, TTFT, Interval, Total string
}

type variant struct{ Key, Text string }

func newMatrixView(d *Document, a *anchors) matrixView {
	var scales []heatScale
	for _, m := range metrics {
		scales = append(scales, d.heatScale(m))
	}
	return matrixWithScales(d, a, scales)
}

func matrixWithScales(d *Document, a *anchors, scales []heatScale) matrixView {
	v := matrixView{Caption: strings.TrimPrefix(MatrixCaption, metrics[0].caption)}
	for _, s := range scales {
		m := s.metric
		view := metricView{Key: m.key, Name: m.name, Caption: m.caption, Ramp: ramp(m), Ratio: ratio(s)}
		view.Low, view.High = s.ends()
		v.Metrics = append(v.Metrics, view)
	}
	for _, c := range d.Matrix.Concurrency {
		v.Columns = append(v.Columns, unit.Count(c))
	}
	v.Many = len(v.Columns) > manyColumns
	for _, row := range d.Matrix.Rows {
		r := matrixRowView{Label: row.Label}
		for _, m := range row.Cells {
			cell := newMatrixCell(m, scales)
			cell.ID, cell.Link = a.id[m], a.link(m)
			v.Tall = v.Tall || cell.Interval != ""
			r.Cells = append(r.Cells, cell)
		}
		v.Rows = append(v.Rows, r)
	}
	return v
}

func newMatrixCell(m *Measurement, scales []heatScale) matrixCellView {
	v := matrixCellView{Heat: m.ShowsSpeed, TTFT: m.TTFT, Total: m.Total, Interval: m.Interval}
	if !m.valid() {
		v.State = statusWord(m.Status)
	}
	if !v.Heat {
		if pattern := patternOf[m.Status]; pattern != "" {
			v.Class = "st-" + pattern
		}
		return v
	}
	class := []string{"c"}
	for _, s := range scales {
		v.Values = append(v.Values, variant{s.key, s.text(m)})
		step := "x"
		if i, ok := s.step(m); ok {
			step = strconv.Itoa(i)
		}
		class = append(class, s.key+step)
	}
	if m.Status == speedmatrix.StatusRequestsQueued {
		class = append(class, "st-queue")
	}
	v.Class = strings.Join(class, " ")
	return v
}

// ramp is the steps of a scale beside each other.
func ramp(m metric) template.HTML {
	letter := "u"
	if m.direction == chart.MoreIsWorse {
		letter = "d"
	}
	var b strings.Builder
	for i := range chart.Steps {
		fmt.Fprintf(&b, `<i style="--bg:var(--%s%d)"></i>`, letter, i)
	}
	return template.HTML(b.String())
}

// ratio is how far apart neighbouring steps of a scale are, "" where that is no ratio.
func ratio(s heatScale) string {
	if s.linear || !s.any || s.lo <= 0 || s.hi <= s.lo {
		return ""
	}
	return "each step × " + unit.Fixed(chart.StepRatio(s.lo, s.hi), 2)
}
