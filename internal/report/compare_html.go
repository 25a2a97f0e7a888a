package report

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

// ComparisonHTML writes a comparison as one page: no other file, no script, no request to anywhere, in light, dark and
// print; or into a site's frame. The same comparison gives the same bytes. It fails only if w does.
func ComparisonHTML(w io.Writer, d *Comparison, f *Frame) error {
	css, err := comparisonStyle(len(d.Pairs))
	if err != nil {
		return err
	}
	view := comparisonView{Doc: d, Frame: f, CSS: css, Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'",
		Caption: d.differenceCaption(), Eyebrow: "Comparison of " + countWord(len(d.Sides)) + " set-ups"}
	for i := range d.Pairs {
		view.Pairs = append(view.Pairs, newPairView(d, &d.Pairs[i], i))
	}
	view.Description = d.Description()
	var out bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&out, "compare", view); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

func allVerdicts(d *Comparison) (list []string) {
	for _, p := range d.Pairs {
		list = append(list, p.Verdicts...)
	}
	return list
}

// countWord writes a small number as a word.
func countWord(n int) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six"}
	if n < len(words) {
		return words[n]
	}
	return unit.Count(n)
}

// comparisonView is what the template shows.
type comparisonView struct {
	Doc                 *Comparison
	Frame               *Frame
	CSS                 template.CSS
	Policy, Description string
	Eyebrow, Caption    string
	Pairs               []comparedPairView
}

// comparedPairView is a side against the first, on a page.
type comparedPairView struct {
	*ComparedPair
	// N numbers the pair, for the names of its switches and sections.
	N     string
	Title string
	// Trust is the first thing to know about the numbers.
	Trust    string
	Verdicts []verdictView
	Metrics  []pairView
	Rows     []comparedRowView
	Columns  []string
	Tall     bool
	Heat     []heatView
	Duels    []duelView
	Heads    []string
	Cells    []rowView
	Ramp     template.HTML
}

type verdictView struct{ Name, Text string }

type comparedRowView struct {
	Label string
	Cells []comparedCellView
}

// comparedCellView is a cell of the map: a variant of everything for each metric.
type comparedCellView struct {
	Class      string
	Numbers    []comparedVariant
	State, Why string
	Words      string
}

type comparedVariant struct{ Key, Change, Both, Interval string }

// heatView is the matrix of one side.
type heatView struct {
	Key, Name, Title string
	Matrix           matrixView
}

type duelView struct {
	Title   string
	Picture template.HTML
}

// keyOf are the letters of metrics in classes, those of a run's page.
var keyOf = map[compare.Metric]string{compare.Total: "t", compare.PerRequest: "p", compare.TTFT: "f", compare.TimeBetweenTokens: "i"}

func newPairView(d *Comparison, p *ComparedPair, i int) comparedPairView {
	v := comparedPairView{ComparedPair: p, N: strconv.Itoa(i), Title: pairTitle(p), Ramp: differenceRamp()}
	if len(d.Notes) > 0 {
		v.Trust = glue(d.Notes[0])
	}
	for _, text := range p.Verdicts {
		head, rest, _ := strings.Cut(text, ": ")
		v.Verdicts = append(v.Verdicts, verdictView{head, glue(rest)})
	}
	for _, m := range comparedMetrics(speedmatrix.PhaseDecode) {
		v.Metrics = append(v.Metrics, pairView{keyOf[m], m.Name()})
	}
	for _, n := range p.Concurrency {
		v.Columns = append(v.Columns, unit.Count(n))
	}
	for _, row := range p.Rows {
		r := comparedRowView{Label: row.Label}
		for _, c := range row.Cells {
			cell := newComparedCellView(c)
			v.Tall = v.Tall || slices.ContainsFunc(cell.Numbers, func(n comparedVariant) bool { return n.Interval != "" })
			r.Cells = append(r.Cells, cell)
		}
		v.Rows = append(v.Rows, r)
	}
	v.Heat = heatViews(d, p)
	v.Duels = duelViews(p)
	v.Heads, v.Cells = comparedTable(p)
	return v
}

func newComparedCellView(c *ComparedCell) comparedCellView {
	v := comparedCellView{State: c.State, Why: c.Why, Words: c.Words}
	if c.State != "" {
		v.Class = "only st-over"
		return v
	}
	class := []string{"c"}
	for _, m := range comparedMetrics(speedmatrix.PhaseDecode) {
		n, there := c.Numbers[m]
		step := "x"
		if there {
			step = strconv.Itoa(n.Step)
		} else {
			n = ComparedNumber{Change: unit.Dash, Both: "not compared"}
		}
		class = append(class, "d"+keyOf[m]+step)
		v.Numbers = append(v.Numbers, comparedVariant{keyOf[m], n.Change, n.Both, n.Interval})
	}
	v.Class = strings.Join(class, " ")
	return v
}

// differenceRamp is the steps of the scale of differences beside each other.
func differenceRamp() template.HTML {
	var b strings.Builder
	for i := range chart.Differences {
		fmt.Fprintf(&b, `<i style="--bg:var(--v%d)"></i>`, i)
	}
	return template.HTML(b.String())
}

// heatViews are the matrices of both sides on the same scales.
func heatViews(d *Comparison, p *ComparedPair) []heatView {
	var docs []*Document
	for _, from := range []bool{true, false} {
		docs = append(docs, Build(meanRun(d, p, from)))
	}
	var scales []heatScale
	for _, m := range metrics {
		s, other := docs[0].heatScale(m), docs[1].heatScale(m)
		switch {
		case !s.any:
			s = other
		case other.any:
			s.lo, s.hi = min(s.lo, other.lo), max(s.hi, other.hi)
		}
		scales = append(scales, s)
	}
	var list []heatView
	for i, doc := range docs {
		name, key := p.From, "a"
		if i == 1 {
			name, key = p.To, "b"
		}
		matrix := matrixWithScales(doc, &anchors{}, scales)
		list = append(list, heatView{Key: key, Name: name, Title: doc.Title, Matrix: matrix})
	}
	return list
}

// meanRun is a run whose decode cells are the means of one side of a pair.
func meanRun(d *Comparison, p *ComparedPair, from bool) *speedmatrix.Run {
	name := p.To
	if from {
		name = p.From
	}
	side := d.Data.Sides[slices.IndexFunc(d.Data.Sides, func(s compare.Side) bool { return s.Name == name })]
	run := &speedmatrix.Run{Model: side.Runs[0].Model, Hardware: side.Runs[0].Hardware}
	for i := range p.Data.Cells {
		c := &p.Data.Cells[i]
		x := c.To
		if from {
			x = c.From
		}
		if c.Phase == speedmatrix.PhaseDecode && x.Status != "" {
			run.Cells = append(run.Cells, meanCell(c, x))
		}
	}
	return run
}

func meanCell(c *compare.Cell, s compare.Standing) speedmatrix.Cell {
	number := func(m compare.Metric) *float64 {
		if v, there := s.Values[m]; there {
			return &v
		}
		return nil
	}
	return speedmatrix.Cell{Phase: c.Phase, ContextLabel: c.ContextLabel, Context: c.Context, Concurrency: c.Concurrency, Status: s.Status,
		TotalTokensPerSecond: number(compare.Total), PerRequestTokensPerSecond: number(compare.PerRequest),
		TTFT: &speedmatrix.Distribution{P50: number(compare.TTFT)}, TimeBetweenTokens: &speedmatrix.Distribution{P50: number(compare.TimeBetweenTokens)}}
}

// duelViews are one small trade-off for each context that both sides ran, on the same axes.
func duelViews(p *ComparedPair) []duelView {
	var duels []chart.Duel
	var views []duelView
	axes := chart.Duel{Floor: readingSpeed}
	for _, row := range p.Rows {
		duel := chart.Duel{Floor: readingSpeed, Label: "Per request against total tok/s at " + row.Label + " context, " + p.From + " and " + p.To,
			A: duelPoints(row, p.From, true), B: duelPoints(row, p.To, false)}
		if len(duel.A) == 0 || len(duel.B) == 0 {
			continue
		}
		for _, point := range append(slices.Clone(duel.A), duel.B...) {
			axes.Right, axes.High = max(axes.Right, point.X), max(axes.High, point.Y)
			if axes.Low == 0 || point.Y < axes.Low {
				axes.Low = point.Y
			}
		}
		duels, views = append(duels, duel), append(views, duelView{Title: row.Label + " context"})
	}
	for i, duel := range duels {
		duel.Right, duel.Low, duel.High = axes.Right, axes.Low, axes.High
		views[i].Picture = both(duel.Draw, chart.Size{Width: 216, Height: 260}, chart.Size{Width: 171, Height: 220})
	}
	return views
}

// duelPoints are a side's cells of a context; the last one is labelled with the side and its requests at once.
func duelPoints(row ComparedRow, name string, from bool) (points []chart.Point) {
	for _, c := range row.Cells {
		x := c.Data.To
		if from {
			x = c.Data.From
		}
		total, each := x.Values[compare.Total], x.Values[compare.PerRequest]
		if total > 0 && each > 0 {
			points = append(points, chart.Point{X: each, Y: total, Hollow: x.Status != speedmatrix.StatusValid, Label: name + " " + unit.Count(c.Data.Concurrency),
				Title: fmt.Sprintf("%s, %s: %s tok/s in all, %s each", name, c.Name, unit.Rate(total), unit.Rate(each))})
		}
	}
	return points
}

// comparedTable is the table of every cell.
func comparedTable(p *ComparedPair) (heads []string, rows []rowView) {
	heads = []string{"Cell", "Number", p.From + " → " + p.To, "Change", "95 % interval", "p, corrected", "Found"}
	for _, c := range p.Cells {
		for i, m := range comparedMetrics(c.Data.Phase) {
			n, there := c.Numbers[m]
			if !there {
				continue
			}
			d := c.Data.Differences[m]
			name, class := "", ""
			if i == 0 {
				name, class = c.Name, "g"
			}
			interval := n.Interval
			if interval == "" {
				interval = unit.Dash
			}
			rows = append(rows, rowView{Class: class, Cells: []string{name, m.Name(), n.Both, n.Exact, interval, probability(d), judged(d)}})
		}
	}
	return heads, rows
}

// comparisonStyle is the page's style sheet, with the rules of its switches.
func comparisonStyle(pairs int) (template.CSS, error) {
	css, err := pageStyle()
	if err != nil {
		return "", err
	}
	own, err := pageFiles.ReadFile("page/compare.css")
	if err != nil {
		return "", fmt.Errorf("read the page's style: %w", err)
	}
	return css + template.CSS(string(own)+comparedRules(pairs)), nil
}

// comparedRules show one view of the matrix and one metric in it.
func comparedRules(pairs int) string {
	var b strings.Builder
	for _, key := range []string{"t", "p", "f", "i"} {
		for n := range max(pairs, 1) {
			on := ""
			if key != "t" {
				on = fmt.Sprintf(".dfw:has(#m%d-%s:checked) ", n, key)
				fmt.Fprintf(&b, "%[1]s.on-t{display:none}%[1]s.on-%[2]s{display:var(--dsp,block)}", on, key)
				fmt.Fprintf(&b, "%[1]s.un-t{display:block}", on)
				for i := range chart.Steps {
					letter := "u"
					if key == "f" || key == "i" {
						letter = "d"
					}
					fmt.Fprintf(&b, "%s.%s%d{--bg:var(--%s%d);--fg:var(--%sf%d)}", on, key, i, letter, i, letter, i)
				}
			}
			for i := range chart.Differences {
				fmt.Fprintf(&b, "%s.d%s%d{--bg:var(--v%d);--fg:var(--vf%d)}", on, key, i, i, i)
			}
			fmt.Fprintf(&b, "%s.d%sx{--bg:transparent;--fg:var(--ink)}", on, key)
		}
	}
	for n := range pairs {
		for _, view := range []string{"a", "b"} {
			fmt.Fprintf(&b, ".dfw:has(#w%[1]d-%[2]s:checked) .view-d{display:none}.dfw:has(#w%[1]d-%[2]s:checked) .view-%[2]s{display:block}", n, view)
		}
	}
	return b.String()
}
