package report

import (
	"io"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

// ComparisonTerminal writes a comparison as text tables: cells first, then the map, what differs and the verdicts, so
// that what a reader wants first stands last on the screen. It fails only if w does.
func ComparisonTerminal(w io.Writer, d *Comparison, o TerminalOptions) error {
	s := newScreen(w, o)
	for _, line := range wrap(d.Title, s.width) {
		s.line(piece{line, heading})
	}
	s.comparedSides(d)
	s.comparedSettings(d)
	for i := range d.Pairs {
		s.comparedCells(&d.Pairs[i])
		s.comparedMap(&d.Pairs[i])
		s.comparedVerdicts(d, &d.Pairs[i])
	}
	if len(d.Notes) > 0 {
		s.title("How far to trust this", "")
		for _, note := range d.Notes {
			s.entry(piece{}, 0, piece{note, plain})
		}
	}
	return s.flush()
}

func (s *screen) comparedSides(d *Comparison) {
	const indent = 4
	s.line()
	for _, side := range d.Sides {
		s.entry(piece{side.Name, heading}, indent, piece{joinFacts(" · ", side.Title, side.Subtitle), plain})
		s.entry(piece{}, indent, piece{side.Origin + " " + side.About, faint})
		for _, note := range side.Notes {
			s.entry(piece{}, indent, piece{upper(note), plain})
		}
	}
}

// comparedSettings writes what differs, a line for a setting where that is enough.
func (s *screen) comparedSettings(d *Comparison) {
	s.title("What differs", "")
	s.entry(piece{}, 0, piece{d.differenceCaption(), faint})
	if len(d.Different) == 0 {
		return
	}
	indent := 0
	for _, setting := range d.Different {
		indent = max(indent, min(displayWidth(setting.Label), 28)+2)
	}
	for _, setting := range d.Different {
		head := piece{clip(setting.Label, indent-1), faint}
		var parts []string
		for i, value := range setting.Values {
			parts = append(parts, d.Sides[i].Name+" "+value)
		}
		if one := strings.Join(parts, " · "); displayWidth(one) <= s.width-indent {
			parts = []string{one}
		}
		for _, part := range parts {
			s.entry(head, indent, piece{part, plain})
			head = piece{}
		}
	}
}

// pairTitle is "B against A".
func pairTitle(p *ComparedPair) string { return p.To + " against " + p.From }

// comparedCells writes every cell that both sides have a number of.
func (s *screen) comparedCells(p *ComparedPair) {
	for _, phase := range []speedmatrix.Phase{speedmatrix.PhasePrefill, speedmatrix.PhaseDecode} {
		g := grid{keys: 1, columns: []gridColumn{{head: []string{"Context"}}}}
		metrics := comparedMetrics(phase)
		if phase == speedmatrix.PhaseDecode {
			g.keys, g.columns = 2, append(g.columns, gridColumn{head: []string{"At", "once"}})
		}
		main := metrics[0]
		g.columns = append(g.columns, gridColumn{head: strings.SplitAfter(main.Name(), " ")}, gridColumn{head: []string{"Change"}},
			gridColumn{head: []string{"95 %", "interval"}}, gridColumn{head: []string{""}, left: true})
		for _, m := range metrics[1:] {
			g.columns = append(g.columns, gridColumn{head: comparedHeads[m]})
		}
		for _, c := range p.Cells {
			if n, there := c.Numbers[main]; there && c.Data.Phase == phase {
				g.rows = append(g.rows, comparedRow(c, n, metrics))
			}
		}
		if len(g.rows) > 0 {
			s.title(phaseName(phase)+", "+pairTitle(p), "")
			g.write(s)
		}
	}
}

// comparedMetrics are those of a phase, the main one first.
func comparedMetrics(phase speedmatrix.Phase) []compare.Metric {
	if phase == speedmatrix.PhasePrefill {
		return []compare.Metric{compare.Prefill}
	}
	return []compare.Metric{compare.Total, compare.PerRequest, compare.TTFT, compare.TimeBetweenTokens}
}

// comparedHeads are the heads of narrow columns.
var comparedHeads = map[compare.Metric][]string{
	compare.PerRequest: {"Each", "tok/s"}, compare.TTFT: {"TTFT"}, compare.TimeBetweenTokens: {"Between", "tokens"},
}

func comparedRow(c *ComparedCell, n ComparedNumber, metrics []compare.Metric) gridRow {
	cells := []string{contextLabel(&speedmatrix.Cell{ContextLabel: c.Data.ContextLabel, Context: c.Data.Context})}
	if c.Data.Phase == speedmatrix.PhaseDecode {
		cells = append(cells, unit.Count(c.Data.Concurrency))
	}
	cells = append(cells, n.Both, n.Exact, n.Interval, judged(c.Data.Differences[metrics[0]]))
	for _, m := range metrics[1:] {
		other, there := c.Numbers[m]
		if !there {
			other.Exact = unit.Dash
		}
		cells = append(cells, other.Exact)
	}
	var row gridRow
	for _, text := range cells {
		row.cells = append(row.cells, []piece{{text, plain}})
	}
	return row
}

// judged is what a difference is worth in a word.
func judged(d *compare.Difference) string {
	switch {
	case d.Judgement == compare.Same:
		return "same"
	case d.Significant():
		return string(d.Judgement)
	}
	return string(d.Judgement) + "?"
}

// comparedMap writes the map of total tok/s.
func (s *screen) comparedMap(p *ComparedPair) {
	if len(p.Rows) == 0 {
		return
	}
	s.title("Total tok/s from "+p.From+" to "+p.To, "")
	s.entry(piece{}, 0, piece{p.Counts, faint})
	g := grid{keys: 1, columns: []gridColumn{{head: []string{"Context"}}}}
	for _, n := range p.Concurrency {
		g.columns = append(g.columns, gridColumn{head: []string{unit.Count(n)}})
	}
	for _, row := range p.Rows {
		line := gridRow{cells: [][]piece{{{row.Label, plain}}}}
		for _, c := range row.Cells {
			line.cells = append(line.cells, []piece{mapPiece(c)})
		}
		g.rows = append(g.rows, line)
	}
	g.write(s)
}

// mapPiece is a cell of the map: its change, or which side alone has a speed.
func mapPiece(c *ComparedCell) piece {
	n, there := c.Numbers[compare.Total]
	switch {
	case !there:
		return piece{strings.TrimPrefix(c.State, "neither"), faint}
	case n.Change == "same":
		return piece{n.Change, faint}
	}
	return piece{n.Change, plain}
}

func (s *screen) comparedVerdicts(d *Comparison, p *ComparedPair) {
	s.title("Verdict, "+pairTitle(p), "")
	if len(p.Verdicts) == 0 {
		s.entry(piece{}, 0, piece{"No cell has a number on both sides.", plain})
	}
	for _, text := range p.Verdicts {
		head, rest, _ := strings.Cut(text, ": ")
		s.entry(piece{head, faint}, 21, piece{rest, plain})
	}
	for i, text := range p.Changed {
		head := piece{}
		if i == 0 {
			head = piece{"Statuses", faint}
		}
		s.entry(head, 21, piece{text, plain})
	}
	if slices.ContainsFunc(d.Data.Settings, func(x compare.Setting) bool { return x.Allowed }) {
		s.entry(piece{"Warning", amber}, 21, piece{"the methods differ, and that was allowed: the numbers do not compare", amber})
	}
}
