package report

import (
	"io"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// warningsOfEach is how many warnings of one kind a terminal shows.
const warningsOfEach = 3

// Terminal writes the document as text tables. All measurements come before the
// matrix, so that what a reader wants first is what stands last on the screen:
// matrix, prefill, warnings, findings, trust. It fails only if w does.
func Terminal(w io.Writer, d *Document, o TerminalOptions) error {
	s := newScreen(w, o)
	s.documentHead(d)
	s.facts(d)
	s.measurements(d)
	s.machine(d)
	s.matrix(d)
	s.prefill(d)
	s.warnings(d)
	s.findings(d)
	s.trust(d)
	return s.flush()
}

func (s *screen) documentHead(d *Document) {
	for _, line := range wrap(d.Title, s.width) {
		s.line(piece{line, heading})
	}
	for _, text := range []string{d.Subtitle, d.Coverage, d.Provenance} {
		if text != "" {
			s.entry(piece{}, 0, piece{text, plain})
		}
	}
}

// inProvenance are the facts that the provenance line has said already.
var inProvenance = map[string]bool{toolLabel: true, methodLabel: true}

func (s *screen) facts(d *Document) {
	const indent = 10
	if len(d.Facts) > 0 || d.LaunchCommand.Value != "" {
		s.line()
	}
	stated := false
	for _, section := range d.Facts {
		var parts []string
		for _, fact := range section.Facts {
			if inProvenance[fact.Label] {
				continue
			}
			part := fact.Label + " " + fact.Value
			if fact.Label == section.Title {
				part = fact.Value
			}
			if fact.Stated {
				part, stated = part+" ○", true
			}
			parts = append(parts, part)
		}
		s.entry(piece{section.Title, faint}, indent, piece{strings.Join(parts, " · "), plain})
	}
	if command := d.LaunchCommand.Value; command != "" {
		head := piece{"Launch", faint}
		for line := range strings.SplitSeq(command, "\n") {
			s.entry(head, indent, piece{line, plain})
			head = piece{}
		}
	}
	if stated {
		s.entry(piece{}, indent, piece{"○ stated by the user, not measured", faint})
	}
}

// statusColumn is the column of the table of measurements that says how a cell ended.
const statusColumn = 2

func (s *screen) measurements(d *Document) {
	if len(d.Measurements) == 0 {
		return
	}
	s.title("All measurements", "")
	s.entry(piece{}, 0, piece{MeasurementsCaption, faint})
	for rest := d.Measurements; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Phase == rest[0].Phase {
			n++
		}
		s.phase(rest[:n])
		rest = rest[n:]
	}
}

// phase writes the table of one phase's cells.
func (s *screen) phase(list []*Measurement) {
	s.line()
	s.line(piece{list[0].Phase, heading})
	g := grid{keys: statusColumn, columns: measurementColumns(list)}
	for _, run := range sameEnd(list) {
		g.rows = append(g.rows, measurementRow(run))
	}
	g.write(s)
}

// terminalField is a column of the table of measurements.
type terminalField struct {
	head  string
	left  bool
	value func(*Measurement) string
}

var terminalFields = []terminalField{
	{"Context", false, func(m *Measurement) string { return m.Context }},
	{"At/once", false, func(m *Measurement) string { return m.Requests }},
	{"Status", true, func(m *Measurement) string { return statusWord(m.Status) }},
	{"Total/tok/s", false, func(m *Measurement) string { return m.Total }},
	{"95 %/interval", false, func(m *Measurement) string { return m.Interval }},
	{"Each/tok/s", false, func(m *Measurement) string { return m.PerRequest }},
	{"TTFT", false, func(m *Measurement) string { return m.TTFT }},
	{"Between/tokens", false, func(m *Measurement) string { return m.TimeBetween }},
	{"Active/mean", false, func(m *Measurement) string { return m.Active }},
	{"Completed", false, func(m *Measurement) string { return m.Completed }},
	{"Output/tokens", false, func(m *Measurement) string { return m.OutputTokens }},
	{"Measured/for", false, func(m *Measurement) string { return m.Window }},
	{"Prompt/tokens", false, func(m *Measurement) string { return m.PromptTokens }},
	{"TTFT/kind", true, func(m *Measurement) string { return m.TTFTKind }},
}

// usedFields are the columns that say something of these cells; the names and the status always do.
func usedFields(list []*Measurement) []terminalField {
	var used []terminalField
	for i, field := range terminalFields {
		says := i <= statusColumn
		for _, m := range list {
			v := field.value(m)
			says = says || m.ShowsSpeed && v != "" && v != unit.Dash
		}
		if says {
			used = append(used, field)
		}
	}
	return used
}

func measurementColumns(list []*Measurement) []gridColumn {
	var columns []gridColumn
	for _, field := range usedFields(list) {
		head := strings.SplitN(field.head, "/", 2)
		columns = append(columns, gridColumn{head: head, left: field.left})
	}
	return columns
}

// measured are the measurements of one line of the table, and all of its table.
type measured struct {
	line, all []*Measurement
}

// sameEnd joins neighbours of one context that were not run for the same reason of kind:
// where 32 requests do not fit, 64 do not either.
func sameEnd(list []*Measurement) []measured {
	var lines []measured
	for _, m := range list {
		if n := len(lines) - 1; n >= 0 && joins(lines[n].line[0], m) {
			lines[n].line = append(lines[n].line, m)
			continue
		}
		lines = append(lines, measured{line: []*Measurement{m}, all: list})
	}
	return lines
}

func joins(first, m *Measurement) bool {
	switch {
	case first.Cell.Context != m.Cell.Context || first.Status != m.Status || m.ShowsSpeed:
		return false
	case first.Cell.Attempted() || m.Cell.Attempted():
		return false
	case first.Reason == m.Reason:
		return true
	}
	return m.Status == speedmatrix.StatusOverCapacity || m.Status == speedmatrix.StatusExceedsModelLength
}

func measurementRow(run measured) gridRow {
	m := run.line[0]
	row := gridRow{note: piece{m.Reason, faint}, noteFrom: statusColumn}
	for i, field := range usedFields(run.all) {
		if i > statusColumn && !m.ShowsSpeed {
			break
		}
		p := piece{field.value(m), plain}
		if i == statusColumn {
			p.style = statusStyle(m.Status)
		}
		row.cells = append(row.cells, []piece{p})
	}
	if last := run.line[len(run.line)-1]; last != m {
		row.cells[1][0].text = span(m.Requests, last.Requests)
	}
	if !m.ShowsSpeed {
		row.noteFrom = statusColumn + 1
	}
	return row
}

// statusWord is the status, or a dash for a planned cell that the run lacks.
func statusWord(status speedmatrix.Status) string {
	if status == "" {
		return unit.Dash
	}
	return string(status)
}

func (s *screen) matrix(d *Document) {
	if len(d.Matrix.Rows) == 0 {
		return
	}
	s.title("Sustained decode", ", total tok/s (TTFT below)")
	s.entry(piece{}, 0, piece{"rows are context length, columns are simultaneous requests", faint})
	s.line()
	g := grid{keys: 1, columns: []gridColumn{{}}, loose: true}
	for _, c := range d.Matrix.Concurrency {
		g.columns = append(g.columns, gridColumn{head: []string{unit.Count(c)}})
	}
	for _, row := range d.Matrix.Rows {
		cells := [][]piece{{{row.Label, faint}}}
		for _, m := range row.Cells {
			cells = append(cells, matrixCell(m, m.Total))
		}
		g.rows = append(g.rows, gridRow{cells: cells})
	}
	g.write(s)
	s.notes(d)
}

// matrixCell is number, status words if it is not Valid, TTFT: one below the other.
func matrixCell(m *Measurement, speed string) []piece {
	var lines []piece
	if m.ShowsSpeed {
		lines = append(lines, piece{speed, plain})
	}
	if m.Status != speedmatrix.StatusValid {
		for word := range strings.FieldsSeq(statusWord(m.Status)) {
			lines = append(lines, piece{word, statusStyle(m.Status)})
		}
	}
	if m.ShowsSpeed {
		lines = append(lines, piece{m.TTFT, faint})
	}
	return lines
}

func (s *screen) notes(d *Document) {
	if len(d.Notes) > 0 || d.TTFTNote != "" {
		s.line()
	}
	for _, note := range d.Notes {
		s.entry(piece{}, 0, piece{string(note.Status) + ": " + note.Text, faint})
	}
	if d.TTFTNote != "" {
		s.entry(piece{}, 0, piece{d.TTFTNote, faint})
	}
}

func (s *screen) prefill(d *Document) {
	if len(d.Prefill) == 0 {
		return
	}
	s.title("Prefill", ", prompt tok/s by context length (TTFT below)")
	s.line()
	g := grid{}
	row := gridRow{}
	for _, p := range d.Prefill {
		g.columns = append(g.columns, gridColumn{head: []string{p.Context}})
		row.cells = append(row.cells, matrixCell(p.Measurement, p.Speed))
	}
	g.rows = []gridRow{row}
	g.write(s)
}

func (s *screen) warnings(d *Document) {
	if len(d.Warnings) == 0 {
		return
	}
	s.title("Warnings", "")
	for _, w := range fewOfEach(d.Warnings, warningsOfEach) {
		text := w.Message
		if scope := w.Scope(); scope != "" {
			text = scope + ": " + text
		}
		s.entry(piece{"!", amber}, 2, piece{text, plain})
	}
}

func (s *screen) findings(d *Document) {
	if len(d.Findings) == 0 {
		return
	}
	s.title("Findings", "")
	for i, f := range d.Findings {
		number := piece{unit.Count(i + 1), amber}
		if f.Kind == KindNote {
			number.style = faint
		}
		s.entry(number, 3, piece{f.Text, plain})
	}
}

func (s *screen) trust(d *Document) {
	const indent = 11
	if len(d.Trust) == 0 {
		return
	}
	s.title("Trust", "")
	for _, t := range d.Trust {
		body := piece{t.Text, plain}
		if t.Doubt {
			body = piece{"! " + t.Text, amber}
		}
		s.entry(piece{t.Label, faint}, indent, body)
	}
}

// machine writes what the samples of the machine tell of the cells.
func (s *screen) machine(d *Document) {
	if len(d.Machine) == 0 {
		return
	}
	s.title("Machine", "")
	s.entry(piece{}, 0, piece{machineCaption, faint})
	s.line()
	g := grid{keys: 1, columns: []gridColumn{
		{left: true}, {head: []string{"Power"}}, {head: []string{"Per", "token"}}, {head: []string{"Clock,", "median"}}, {head: []string{"Drop"}},
		{head: []string{"Clocks held", "down by"}, left: true},
	}}
	for _, l := range d.Machine {
		var cells [][]piece
		for _, text := range l.values() {
			cells = append(cells, []piece{{text, plain}})
		}
		g.rows = append(g.rows, gridRow{cells: cells})
	}
	g.write(s)
}

func findingText(f speedmatrix.Finding) string {
	text := f.Message
	if f.Evidence != "" {
		text += " (" + f.Evidence + ")"
	}
	if f.Fix != "" {
		text += ". " + f.Fix
	}
	return text
}
