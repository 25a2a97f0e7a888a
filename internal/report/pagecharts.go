package report

import (
	"fmt"
	"html/template"
	"strconv"

	"speedmatrix"
	"speedmatrix/internal/capacity"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// curveView is a chart of a quantity against context.
type curveView struct {
	Title, Sub, Says string
	Picture          template.HTML
}

// The sizes of drawings on a page: for a desk and for a phone.
var (
	tradeWide, tradeNarrow     = chart.Size{Width: 640, Height: 430}, chart.Size{Width: 358, Height: 400}
	curveWide, curveNarrow     = chart.Size{Width: 562, Height: 330}, chart.Size{Width: 358, Height: 320}
	prefillWide, prefillNarrow = chart.Size{Width: 562, Height: 330}, chart.Size{Width: 358, Height: 300}
)

// both holds a drawing for a desk and one for a phone; the style sheet shows one of them.
func both(draw func(chart.Size) chart.Drawing, wide, narrow chart.Size) template.HTML {
	return template.HTML(`<div class="only-w">` + draw(wide).Inline() + `</div><div class="only-n">` + draw(narrow).Inline() + `</div>`)
}

func (v *pageView) setCharts(d *Document) {
	if t, ok := tradeoff(d); ok {
		v.Tradeoff, v.TradeoffSays = both(t.Draw, tradeWide, tradeNarrow), glue(tradeoffSays(d))
		v.Users = newUsersView(d)
	}
	if c, ok := ttftCurves(d); ok {
		v.Curves = append(v.Curves, curveView{"The wait for the first token", "TTFT against context; dashed: 1\u00a0s", glue(ttftSays(d)), both(c.Draw, curveWide, curveNarrow)})
	}
	if c, ok := prefillCurve(d); ok {
		v.Curves = append(v.Curves, curveView{"How prefill holds up", "prompt tok/s against context, one request", glue(prefillSays(d)), both(c.Draw, prefillWide, prefillNarrow)})
	}
}

// demands are those that a page offers without a script: comfortable, fast, patient.
var demands = []capacity.Demand{{Floor: 20, LimitMillis: 1000}, {Floor: 50, LimitMillis: 500}, {Floor: 10, LimitMillis: 3000}}

// fit is how many users of a row get what they demand. Only measured cells count; nothing between them is guessed.
func (row MatrixRow) fit(q capacity.Demand) capacity.Row {
	cells := make([]*speedmatrix.Cell, len(row.Cells))
	for i, m := range row.Cells {
		cells[i] = m.Cell
	}
	return capacity.Of(cells, q)
}

// usersView is the table of how many users fit.
type usersView struct {
	Demands []pairView
	Columns []string
	Rows    []usersRow
	Marks   []pairView
}

type usersRow struct {
	Label string
	Fits  []fitView
	Dots  []dotView
}

type fitView struct{ Key, Users, Why string }

type dotView struct{ Class, Title, Raw string }

func newUsersView(d *Document) usersView {
	v := usersView{Marks: []pairView{{"ay", "keeps both"}, {"", "ran, does not"}, {"x", "not run"}}}
	for i, q := range demands {
		v.Demands = append(v.Demands, pairView{demandKey(i), q.Text()})
	}
	for _, c := range d.Matrix.Concurrency {
		v.Columns = append(v.Columns, unit.Count(c))
	}
	quiet := false
	for _, row := range d.Matrix.Rows {
		r := usersRow{Label: row.Label}
		for i, q := range demands {
			f := row.fit(q)
			users := unit.Count(f.Users)
			if f.AtLeast {
				users = "≥" + users
			}
			r.Fits = append(r.Fits, fitView{demandKey(i), users, f.Why})
		}
		for _, m := range row.Cells {
			dot := newDot(m)
			quiet = quiet || dot.Class == "q"
			r.Dots = append(r.Dots, dot)
		}
		v.Rows = append(v.Rows, r)
	}
	if quiet {
		v.Marks = append(v.Marks, pairView{"q", "no speed published"})
	}
	return v
}

func newDot(m *Measurement) dotView {
	switch mark(m, demands[0]) {
	case chart.MarkNone:
		return dotView{Class: "x", Title: m.Requests + ": " + lower(statusWord(m.Status))}
	case chart.MarkQuiet:
		return dotView{Class: "q", Title: m.Requests + ": " + lower(statusWord(m.Status))}
	}
	dot := dotView{Class: "r", Title: fmt.Sprintf("%s: %s tok/s each, TTFT %s", m.Requests, m.PerRequest, m.TTFT)}
	for i, q := range demands {
		if q.Keeps(m.Cell) {
			dot.Class += " " + demandKey(i) + "y"
		}
	}
	if each, ttft := m.Cell.PerRequestTokensPerSecond, median(m.Cell.TTFT); each != nil && ttft != nil {
		dot.Raw = strconv.FormatFloat(*each, 'g', 6, 64) + " " + strconv.FormatFloat(*ttft, 'g', 6, 64)
	}
	return dot
}
