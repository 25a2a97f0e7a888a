package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Markdown writes the document as GitHub-flavoured Markdown: the sections of the
// document in their order, every warning and every reason. It fails only if w does.
func Markdown(w io.Writer, d *Document) error {
	m := &markdown{w: bufio.NewWriter(w)}
	m.head(d)
	m.facts(d)
	m.prefill(d)
	m.matrix(d)
	m.measurements(d)
	m.reasons(d)
	m.machine(d)
	m.trust(d)
	return m.w.Flush()
}

// markdown writes blocks with a blank line between them. The first error stays until Flush.
type markdown struct {
	w     *bufio.Writer
	begun bool
}

// block writes lines as one block. They are Markdown: text in them is escaped already.
func (m *markdown) block(lines ...string) {
	if len(lines) == 0 {
		return
	}
	if m.begun {
		m.w.WriteByte('\n')
	}
	m.begun = true
	for _, line := range lines {
		m.w.WriteString(line + "\n")
	}
}

// table writes a table; left is how many of the first columns are words.
func (m *markdown) table(head []string, rows [][]string, left int) {
	lines := []string{tableLine(head)}
	marks := make([]string, len(head))
	for i := range head {
		marks[i] = "---:"
		if i < left {
			marks[i] = "---"
		}
	}
	lines = append(lines, "| "+strings.Join(marks, " | ")+" |")
	for _, row := range rows {
		lines = append(lines, tableLine(row))
	}
	m.block(lines...)
}

func tableLine(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }

func (m *markdown) head(d *Document) {
	m.block("# " + escape(d.Title))
	var lines []string
	for _, text := range []string{d.Subtitle, d.Coverage, d.Provenance} {
		if text != "" {
			lines = append(lines, escape(text))
		}
	}
	m.block(strings.Join(lines, "\\\n"))
}

func (m *markdown) facts(d *Document) {
	stated := false
	for _, section := range d.Facts {
		m.block("## " + section.Title)
		var rows [][]string
		for _, f := range section.Facts {
			value := escape(f.Value)
			if f.Stated {
				value, stated = value+" ○", true
			}
			rows = append(rows, []string{escape(f.Label), value})
		}
		m.table([]string{"", ""}, rows, 2)
	}
	if stated {
		m.block("○ stated by the user, not measured")
	}
	if command := d.LaunchCommand.Value; command != "" {
		m.block("## Launch command")
		fence := strings.Repeat("`", max(3, longestRun(command, '`')+1))
		m.block(fence, command, fence)
	}
}

func (m *markdown) prefill(d *Document) {
	if len(d.Prefill) == 0 {
		return
	}
	m.block("## Prefill")
	m.block(escape(PrefillCaption))
	var rows [][]string
	for _, p := range d.Prefill {
		rows = append(rows, []string{escape(p.Context), escape(statusWord(p.Status)), p.Speed, p.TTFT})
	}
	m.table([]string{"Context", "Status", "Prompt tok/s", "TTFT"}, rows, 2)
}

func (m *markdown) matrix(d *Document) {
	if len(d.Matrix.Rows) == 0 {
		return
	}
	m.block("## Sustained decode")
	m.block(escape(MatrixCaption))
	head := []string{"Context"}
	for _, c := range d.Matrix.Concurrency {
		head = append(head, unit.Count(c))
	}
	var rows [][]string
	for _, row := range d.Matrix.Rows {
		cells := []string{escape(row.Label)}
		for _, c := range row.Cells {
			cells = append(cells, markdownCell(c))
		}
		rows = append(rows, cells)
	}
	m.table(head, rows, 1)
	m.notes(d)
	if d.TTFTNote != "" {
		m.block(escape(d.TTFTNote))
	}
}

// markdownCell is speed, status word where it is not Valid, and TTFT.
func markdownCell(m *Measurement) string {
	if !m.ShowsSpeed {
		return escape(statusWord(m.Status))
	}
	parts := []string{m.Total}
	if m.Status != speedmatrix.StatusValid {
		parts = append(parts, escape(statusWord(m.Status)))
	}
	return strings.Join(append(parts, m.TTFT+" TTFT"), "<br>")
}

func (m *markdown) notes(d *Document) {
	for _, note := range d.Notes {
		m.block("**" + escape(string(note.Status)) + ":** " + escape(note.Text))
	}
}

func (m *markdown) measurements(d *Document) {
	if len(d.Measurements) == 0 {
		return
	}
	m.block("## All measurements")
	m.block(escape(MeasurementsCaption))
	head := []string{
		"Phase", "Context", "Requests at once", "Status", "Total tok/s", "95 % interval", "Per request tok/s", "TTFT", "Time between tokens",
		"Average active requests", "Completed requests", "Output tokens", "Measured for", "Prompt tokens",
	}
	var rows [][]string
	for _, c := range d.Measurements {
		interval := c.Interval
		if interval == "" {
			interval = unit.Dash
		}
		rows = append(rows, []string{
			escape(c.Phase), escape(c.Context), c.Requests, escape(statusWord(c.Status)), c.Total, interval, c.PerRequest, c.TTFT, c.TimeBetween,
			c.Active, c.Completed, c.OutputTokens, c.Window, c.PromptTokens,
		})
	}
	m.table(head, rows, 4)
}

// reasons lists why cells are not Valid, cells with the same reason together.
func (m *markdown) reasons(d *Document) {
	var lines []string
	at := map[string]int{}
	var names [][]string
	for _, c := range d.Measurements {
		if c.Reason == "" || c.Status == speedmatrix.StatusValid {
			continue
		}
		text := "**" + escape(statusWord(c.Status)) + ":** " + escape(c.Reason)
		i, there := at[text]
		if !there {
			i = len(lines)
			at[text] = i
			lines, names = append(lines, text), append(names, nil)
		}
		names[i] = append(names[i], escape(c.Name))
	}
	for i := range lines {
		lines[i] = fmt.Sprintf("- %s (%s)", lines[i], strings.Join(names[i], ", "))
	}
	if len(lines) > 0 {
		m.block("### Reasons")
		m.block(lines...)
	}
}

// machine writes what the samples of the machine tell of the cells.
func (m *markdown) machine(d *Document) {
	if len(d.Machine) == 0 {
		return
	}
	m.block("## Machine")
	m.block(escape(machineCaption))
	var rows [][]string
	for _, l := range d.Machine {
		row := l.values()
		for i := range row {
			row[i] = escape(row[i])
		}
		rows = append(rows, row)
	}
	m.table(machineHeads, rows, 1)
}

func (m *markdown) trust(d *Document) {
	if len(d.Warnings) > 0 {
		m.block("## Warnings")
		var lines []string
		for _, w := range d.Warnings {
			line := "- " + escape(w.Message)
			if len(w.Cells) > 0 {
				line += " (" + escape(strings.Join(w.Cells, ", ")) + ")"
			}
			lines = append(lines, line)
		}
		m.block(lines...)
	}
	if len(d.Findings) > 0 {
		m.block("## Findings")
		var lines []string
		for i, f := range d.Findings {
			lines = append(lines, fmt.Sprintf("%d. **%s:** %s", i+1, f.Kind, escape(f.Text)))
		}
		m.block(lines...)
	}
	if len(d.Trust) > 0 {
		m.block("## Trust")
		var lines []string
		for _, t := range d.Trust {
			mark := ""
			if t.Doubt {
				mark = "Doubt: "
			}
			lines = append(lines, "- **"+t.Label+":** "+mark+escape(t.Text))
		}
		m.block(lines...)
	}
}

// escape makes clean text show as itself in Markdown, at the beginning of a block,
// inside a line and inside a table.
func escape(s string) string {
	var b strings.Builder
	ordinal := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if ordinal == len(s) || ordinal+1 < len(s) && s[ordinal+1] != ' ' {
		ordinal = 0 // "0.32.0" begins no list, "1. a" does
	}
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*_[]<>|~#&!$^", r),
			i == 0 && strings.ContainsRune("-+=", r),
			i > 0 && i == ordinal && strings.ContainsRune(".)", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// longestRun is the length of the longest run of c in s.
func longestRun(s string, c rune) int {
	longest, n := 0, 0
	for _, r := range s {
		if r != c {
			n = 0
			continue
		}
		n++
		longest = max(longest, n)
	}
	return longest
}
