package report

import (
	"bufio"
	"io"
	"strings"

	"speedmatrix/internal/unit"
)

// Words of the tables that every rendering for people shares.
var measurementHeads = []string{
	"Phase", "Context", "Requests at once", "Status", "Total tok/s", "Per request tok/s", "TTFT", "Time between tokens",
	"Average active requests", "Completed requests", "Output tokens", "Measured for",
}

// measurementValues are a measurement's words below measurementHeads.
func measurementValues(m *Measurement) []string {
	return []string{
		m.Phase, m.Context, m.Requests, statusWord(m.Status), m.Total, m.PerRequest, m.TTFT, m.TimeBetween,
		m.Active, m.Completed, m.OutputTokens, m.Window,
	}
}

// Text writes the document's core and nothing else, as plain text: title, facts, launch
// command, prefill, matrix, all measurements, the notes on the statuses that occur, and what the
// run found that makes it unrepresentative. Tables are lines of cells between bars. It fails only
// if w does.
func Text(w io.Writer, d *Document) error {
	out := bufio.NewWriter(w)
	put := func(parts ...string) {
		for _, part := range parts {
			out.WriteString(part)
		}
		out.WriteByte('\n')
	}
	put(Eyebrow)
	put(d.Title)
	put(joinFacts("\n", d.Subtitle, d.Coverage))
	for _, section := range d.Facts {
		put(section.Title)
		for _, fact := range section.Facts {
			if !fact.Detail {
				put("- ", fact.Label, "\n- ", fact.Value)
			}
		}
	}
	if command := d.LaunchCommand.Value; command != "" {
		put("Launch command\n", command)
	}
	if len(d.Prefill) > 0 {
		put("Prefill\n", PrefillCaption)
		for _, p := range d.Prefill {
			put(p.Context, " context ", p.Speed, " ", p.TTFT, " TTFT")
		}
	}
	textMatrix(put, d)
	if len(d.Measurements) > 0 {
		put("All measurements\n", MeasurementsCaption)
		putRow(put, measurementHeads)
		putRule(put, len(measurementHeads))
		for _, m := range d.Measurements {
			putRow(put, measurementValues(m))
		}
		textNotes(put, d)
	}
	for i, f := range d.Run.Findings {
		if i == 0 {
			put("Findings")
		}
		put("- ", recorded(f).Text)
	}
	return out.Flush()
}

func textMatrix(put func(...string), d *Document) {
	if len(d.Matrix.Rows) == 0 {
		return
	}
	put("Sustained decode\n", MatrixCaption)
	head := []string{"Context"}
	for _, c := range d.Matrix.Concurrency {
		head = append(head, unit.Count(c))
	}
	putRow(put, head)
	putRule(put, len(head))
	for _, row := range d.Matrix.Rows {
		cells := []string{row.Label}
		for _, m := range row.Cells {
			cells = append(cells, strings.Join(matrixWords(m), " "))
		}
		putRow(put, cells)
	}
	textNotes(put, d)
	if d.TTFTNote != "" {
		put(d.TTFTNote)
	}
}

// matrixWords is what a cell of the matrix says: number, status if it is not Valid, TTFT.
func matrixWords(m *Measurement) []string {
	var parts []string
	if m.ShowsSpeed {
		parts = append(parts, m.Total)
	}
	if !m.valid() {
		parts = append(parts, statusWord(m.Status))
	}
	if m.ShowsSpeed {
		parts = append(parts, m.TTFT+" TTFT")
	}
	return parts
}

func textNotes(put func(...string), d *Document) {
	var notes []string
	for _, note := range d.Notes {
		notes = append(notes, string(note.Status)+": "+note.Text)
	}
	if len(notes) > 0 {
		put(strings.Join(notes, " "))
	}
}

func putRow(put func(...string), cells []string) { put("| ", strings.Join(cells, " | "), " |") }

func putRule(put func(...string), columns int) { put("|", strings.Repeat("---|", columns)) }
