package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/capacity"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// Pictures are the names of the drawings that SVG makes, with what each shows.
func Pictures() []Picture { return slices.Clone(pictures) }

// Picture is a drawing by its name.
type Picture struct{ Name, Shows string }

var pictures = []Picture{
	{"matrix", "total tok/s by context and requests at once"},
	{"per-request", "tok/s of each request by context and requests at once"},
	{"ttft-matrix", "TTFT by context and requests at once"},
	{"time-between-tokens", "time between tokens by context and requests at once"},
	{"efficiency", "scaling efficiency by context and requests at once"},
	{"prefill", "prompt tok/s by context, as bars"},
	{"tradeoff", "what one user gets against what the server makes"},
	{"users", "how many users fit"},
	{"ttft", "TTFT against context"},
	{"prefill-curve", "prompt tok/s against context"},
}

// SVG writes one drawing of Pictures as a file of its own, for light and dark schemes.
// An unknown name, and a drawing for which the run has no numbers, is a *speedmatrix.Error.
func SVG(w io.Writer, d *Document, name string) error {
	drawing, ok := draw(d, name)
	switch {
	case !slices.ContainsFunc(pictures, func(p Picture) bool { return p.Name == name }):
		return unknownPicture(name)
	case !ok:
		return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "the run has no numbers for the drawing " + name, Next: "speedmatrix report RUN shows what it has"}
	}
	_, err := w.Write(drawing.Padded(24).File())
	return err
}

func unknownPicture(name string) error {
	var names []string
	for _, p := range pictures {
		names = append(names, p.Name)
	}
	next := "the drawings are " + strings.Join(names, ", ")
	if near := unit.Nearest(name, names); near != "" {
		next = "did you mean " + near + "? " + upper(next)
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "there is no drawing " + clip(Clean(name), 40), Next: next}
}

// draw makes a drawing by its name; ok is false where the run has no numbers for it.
func draw(d *Document, name string) (drawing chart.Drawing, ok bool) {
	wide := chart.Size{Width: 640, Height: 430}
	switch name {
	case "prefill":
		return prefillBars(d).Draw(720), len(d.Prefill) > 0
	case "tradeoff":
		t, ok := tradeoff(d)
		return t.Draw(wide), ok
	case "users":
		return usersDots(d).Draw(), len(d.Matrix.Rows) > 0
	case "ttft":
		c, ok := ttftCurves(d)
		return c.Draw(wide), ok
	case "prefill-curve":
		c, ok := prefillCurve(d)
		return c.Draw(wide), ok
	}
	i := slices.IndexFunc(metrics, func(m metric) bool { return m.picture == name })
	if i < 0 {
		return chart.Drawing{}, false
	}
	return heatMap(d, metrics[i]).Draw(), len(d.Matrix.Rows) > 0
}

// metric is a number that the matrix can show.
type metric struct {
	// key is its letter in classes; picture the name of its drawing.
	key, picture string
	// name heads the switch, caption is what the matrix's subtitle begins with.
	name, caption string
	// low and high name the ends of its scale.
	low, high string
	direction chart.Direction
	linear    bool
	value     func(*Measurement) *float64
	text      func(*Measurement) string
	// write writes an end of the scale.
	write func(float64) string
}

var metrics = []metric{
	{"t", "matrix", "Total tok/s", "total tok/s", "slowest", "fastest", chart.MoreIsBetter, false,
		func(m *Measurement) *float64 { return m.Cell.TotalTokensPerSecond }, func(m *Measurement) string { return m.Total }, unit.Rate},
	{"p", "per-request", "Per request tok/s", "per request tok/s", "slowest", "fastest", chart.MoreIsBetter, false,
		func(m *Measurement) *float64 { return m.Cell.PerRequestTokensPerSecond }, func(m *Measurement) string { return m.PerRequest }, unit.Rate},
	{"f", "ttft-matrix", "TTFT", "TTFT in ms", "shortest", "longest", chart.MoreIsWorse, false,
		func(m *Measurement) *float64 { return median(m.Cell.TTFT) }, func(m *Measurement) string { return m.TTFT }, unit.TTFT},
	{"i", "time-between-tokens", "Time between tokens", "time between tokens in ms", "shortest", "longest", chart.MoreIsWorse, false,
		func(m *Measurement) *float64 { return median(m.Cell.TimeBetweenTokens) }, func(m *Measurement) string { return m.TimeBetween }, unit.Millis},
	{"s", "efficiency", "Scaling efficiency", "scaling efficiency: total ÷ (requests × total of one request)", "lowest", "highest", chart.MoreIsBetter, true,
		func(m *Measurement) *float64 { return m.Scaling }, func(m *Measurement) string { return m.Efficiency }, unit.Percent},
}

// heatScale is the least and the greatest value of a metric in the matrix.
type heatScale struct {
	metric
	lo, hi float64
	any    bool
}

func (d *Document) heatScale(of metric) heatScale {
	s := heatScale{metric: of}
	for _, row := range d.Matrix.Rows {
		for _, m := range row.Cells {
			v := of.value(m)
			if !m.ShowsSpeed || v == nil {
				continue
			}
			if !s.any {
				s.lo, s.hi = *v, *v
			}
			s.lo, s.hi, s.any = min(s.lo, *v), max(s.hi, *v), true
		}
	}
	return s
}

// step is a cell's step on the scale; ok is false for a cell without the number.
func (s heatScale) step(m *Measurement) (step int, ok bool) {
	v := s.value(m)
	if !m.ShowsSpeed || v == nil {
		return 0, false
	}
	return chart.Step(*v, s.lo, s.hi, s.linear), true
}

// ends are what the ends of the scale say: "slowest 56.2".
func (s heatScale) ends() (low, high string) {
	if !s.any {
		return "", ""
	}
	return s.low + " " + number(&s.lo, s.write), s.high + " " + number(&s.hi, s.write)
}

// patternOf is the pattern of a state without a speed; "" is plain paper.
var patternOf = map[speedmatrix.Status]string{
	speedmatrix.StatusOverCapacity: "over", speedmatrix.StatusExceedsModelLength: "long", speedmatrix.StatusNotReady: "wait",
	speedmatrix.StatusClientLimited: "client", speedmatrix.StatusLooped: "loop", speedmatrix.StatusFailed: "fail",
}

func heatMap(d *Document, of metric) chart.HeatMap {
	scale := d.heatScale(of)
	h := chart.HeatMap{
		Label: "Sustained decode, " + of.caption, Title: d.Title, Caption: "Sustained decode, " + of.caption + " · rows are context length, columns are simultaneous requests",
		Corner: "Context", Direction: of.direction,
	}
	h.Low, h.High = scale.ends()
	for _, c := range d.Matrix.Concurrency {
		h.Columns = append(h.Columns, unit.Count(c))
	}
	for _, row := range d.Matrix.Rows {
		h.Rows = append(h.Rows, row.Label)
		var cells []chart.Cell
		for _, m := range row.Cells {
			cells = append(cells, heatCell(m, scale))
		}
		h.Cells = append(h.Cells, cells)
	}
	for _, note := range d.Notes {
		h.Notes = append(h.Notes, string(note.Status)+": "+note.Text)
	}
	return h
}

func heatCell(m *Measurement, scale heatScale) chart.Cell {
	c := chart.Cell{Text: scale.text(m), Pattern: patternOf[m.Status]}
	c.Step, c.Heat = scale.step(m)
	if !m.valid() {
		c.State = statusWord(m.Status)
	}
	if !c.Heat && m.ShowsSpeed {
		c.State = unit.Dash
	}
	c.Sub = m.TTFT + " TTFT"
	if scale.key != "t" {
		c.Sub = m.Total + " total"
	}
	return c
}

func prefillBars(d *Document) chart.Bars {
	b := chart.Bars{Label: "Prefill, prompt tok/s by context", Title: d.Title, Caption: "Prefill, " + PrefillCaption}
	for _, p := range d.Prefill {
		b.Bars = append(b.Bars, chart.Bar{Name: p.Context + " context", Value: p.Speed, Also: prefillAlso(p), Share: p.Share})
	}
	return b
}

// prefillAlso is what stands after a bar: its TTFT, or why there is none.
func prefillAlso(p PrefillRow) string {
	if !p.ShowsSpeed {
		return statusWord(p.Status)
	}
	return p.TTFT + " TTFT"
}

func usersDots(d *Document) chart.Dots {
	q := demands[0]
	t := chart.Dots{Label: "How many users fit: " + q.Text(), Title: "How many users fit", Caption: "most requests at once that keep " + q.Text() + " · " + d.Title,
		Key: "filled: keeps both · ring: ran, does not · dotted ring: no speed published · dash: not run"}
	for _, c := range d.Matrix.Concurrency {
		t.Columns = append(t.Columns, unit.Count(c))
	}
	for _, row := range d.Matrix.Rows {
		f := row.fit(q)
		r := chart.DotRow{Name: row.Label, Value: unit.Count(f.Users), Why: f.Why}
		for _, m := range row.Cells {
			r.Marks = append(r.Marks, mark(m, q))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

func mark(m *Measurement, q capacity.Demand) chart.Mark {
	switch {
	case q.Keeps(m.Cell):
		return chart.MarkFits
	case m.ShowsSpeed:
		return chart.MarkFails
	case m.Cell.Attempted() || m.Status == speedmatrix.StatusLooped:
		return chart.MarkQuiet
	}
	return chart.MarkNone
}

// readingSpeed is how fast text may come and still be read with ease, in tok/s.
const readingSpeed = 20

func tradeoff(d *Document) (chart.Tradeoff, bool) {
	t := chart.Tradeoff{
		Label:  "Per request tok/s against total tok/s, one line per context, points labelled with the number of simultaneous requests",
		XTitle: "tok/s for each request", YTitle: "Total tok/s, log scale", Floor: readingSpeed, FloorText: "20 tok/s: comfortable reading",
	}
	any := false
	for i, row := range d.Matrix.Rows {
		line := chart.Line{Name: row.Label}
		if i == 0 {
			line.Name += " context"
		}
		for _, m := range row.Cells {
			total, each := value(m.Cell.TotalTokensPerSecond), value(m.Cell.PerRequestTokensPerSecond)
			if !m.ShowsSpeed || total <= 0 || each <= 0 {
				continue
			}
			any = true
			line.Points = append(line.Points, chart.Point{X: each, Y: total, Label: m.Requests, Hollow: !m.valid(),
				Title: fmt.Sprintf("%s: %s tok/s in all, %s each", where(m), m.Total, m.PerRequest)})
		}
		t.Lines = append(t.Lines, line)
	}
	return t, any
}
