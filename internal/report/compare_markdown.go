package report

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

// commentRoom is what a comment on GitHub may hold, in bytes, with some left for what stands around it.
const commentRoom = 60_000

// ComparisonMarkdown writes a comparison as GitHub-flavoured Markdown that fits into a comment on a pull request:
// verdicts, what differs, the map, and every cell folded away. What does not fit is left out in the order cells,
// statuses, equal settings, and named. It fails only if w does.
func ComparisonMarkdown(w io.Writer, d *Comparison) error {
	for level := range 4 {
		var out bytes.Buffer
		m := &markdown{w: bufio.NewWriter(&out)}
		m.comparison(d, level)
		if err := m.w.Flush(); err != nil {
			return err
		}
		if out.Len() <= commentRoom || level == 3 {
			_, err := w.Write(out.Bytes())
			return err
		}
	}
	return nil
}

// comparison writes everything at level 0, and less at every level above it.
func (m *markdown) comparison(d *Comparison, level int) {
	m.block("### " + escape(d.Title))
	var sides []string
	for _, s := range d.Sides {
		var line strings.Builder
		line.WriteString("**" + s.Name + "** " + escape(joinFacts(" · ", s.Title, s.Subtitle)) + " (" + escape(lower(s.Origin)+" "+s.About) + ")")
		for _, note := range s.Notes {
			line.WriteString("; " + escape(note))
		}
		sides = append(sides, "- "+line.String())
	}
	m.block(sides...)
	for i := range d.Pairs {
		m.comparedVerdicts(d, &d.Pairs[i], level)
	}
	m.comparedSettings(d)
	for i := range d.Pairs {
		m.comparedMap(&d.Pairs[i])
		if level == 0 {
			m.comparedCells(&d.Pairs[i])
		}
	}
	if level > 0 {
		m.block("The cell by cell table is left out, because it would not fit into a comment: `speedmatrix compare` with `--html` or `--json` has it.")
	}
	var notes []string
	for _, note := range d.Notes {
		notes = append(notes, "<sub>"+escape(note)+"</sub>")
	}
	m.block(strings.Join(notes, "\n"))
}

func (m *markdown) comparedVerdicts(d *Comparison, p *ComparedPair, level int) {
	var lines []string
	if len(d.Pairs) > 1 {
		m.block("#### " + pairTitle(p))
	}
	for _, text := range p.Verdicts {
		head, rest, _ := strings.Cut(text, ": ")
		lines = append(lines, "- **"+escape(head)+":** "+escape(rest))
	}
	if len(p.Verdicts) == 0 {
		lines = append(lines, "- No cell has a number on both sides.")
	}
	for _, text := range p.Changed {
		if level > 1 {
			text = clip(text, 200)
		}
		lines = append(lines, "- "+escape(text))
	}
	m.block(lines...)
}

func (m *markdown) comparedSettings(d *Comparison) {
	m.block(escape(d.differenceCaption()))
	if len(d.Different) == 0 {
		return
	}
	head := []string{"Setting"}
	for _, s := range d.Sides {
		head = append(head, s.Name)
	}
	var rows [][]string
	for _, s := range d.Different {
		row := []string{escape(s.Label)}
		if s.Allowed {
			row[0] += " (allowed)"
		}
		for _, value := range s.Values {
			row = append(row, escape(clip(value, 120)))
		}
		rows = append(rows, row)
	}
	m.table(head, rows, len(head))
}

func (m *markdown) comparedMap(p *ComparedPair) {
	if len(p.Rows) == 0 {
		return
	}
	m.block("**Total tok/s from " + p.From + " to " + p.To + "**: " + escape(p.Counts))
	head := []string{"Context"}
	for _, n := range p.Concurrency {
		head = append(head, unit.Count(n))
	}
	var rows [][]string
	for _, row := range p.Rows {
		cells := []string{escape(row.Label)}
		for _, c := range row.Cells {
			cells = append(cells, markdownChange(c))
		}
		rows = append(rows, cells)
	}
	m.table(head, rows, 1)
}

// markdownChange is the change, bold where it was found, and the numbers.
func markdownChange(c *ComparedCell) string {
	n, there := c.Numbers[compare.Total]
	if !there {
		return escape(strings.TrimPrefix(c.State, "neither"))
	}
	text := escape(n.Change)
	if n.Significant {
		text = "**" + text + "**"
	}
	return text + "<br>" + escape(n.Both)
}

// comparedCells folds every cell away.
func (m *markdown) comparedCells(p *ComparedPair) {
	for _, phase := range []speedmatrix.Phase{speedmatrix.PhasePrefill, speedmatrix.PhaseDecode} {
		metrics := comparedMetrics(phase)
		head := []string{"Cell", metrics[0].Name(), "Change", "95 % interval", "p, corrected"}
		for _, x := range metrics[1:] {
			head = append(head, x.Name())
		}
		var rows [][]string
		for _, c := range p.Cells {
			n, there := c.Numbers[metrics[0]]
			if !there || c.Data.Phase != phase {
				continue
			}
			row := []string{escape(c.Name), escape(n.Both), escape(n.Exact), escape(n.Interval), probability(c.Data.Differences[metrics[0]])}
			for _, x := range metrics[1:] {
				row = append(row, escape(c.Numbers[x].Exact))
			}
			rows = append(rows, row)
		}
		if len(rows) > 0 {
			m.block("<details><summary>" + phaseName(phase) + ", cell by cell: " + pairTitle(p) + "</summary>")
			m.table(head, rows, 1)
			m.block("</details>")
		}
	}
}

// probability is a corrected probability in short.
func probability(d *compare.Difference) string {
	switch {
	case d.Adjusted == nil:
		return unit.Dash
	case *d.Adjusted < 0.0001:
		return "< 0.0001"
	}
	return unit.Fixed(*d.Adjusted, 4)
}
