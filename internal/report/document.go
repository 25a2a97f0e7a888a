// Package report turns a run into one document, in which every number is
// already written the way people read it, and the document into terminal
// tables, Markdown and CSV. All renderings show the same numbers, because none
// of them formats any (CSV, for programs, gives them raw).
//
// All text of a document is clean: nothing that came from a server, a file or
// a user can move the cursor, change a colour or reorder the line it stands in.
package report

import (
	"fmt"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Eyebrow is the line above a document's title.
const Eyebrow = "Speed test matrix"

// Captions of the sections.
const (
	PrefillCaption      = "prompt tok/s by context length"
	MatrixCaption       = "total tok/s · rows are context length, columns are simultaneous requests"
	MeasurementsCaption = "Latencies are medians. Total tok/s is output across all simultaneous requests."
)

// Document is a run as it is read: its words and numbers in their order.
type Document struct {
	// Run is the run itself, for what draws (charts, scales). Its text is not cleaned.
	Run *speedmatrix.Run
	ID  string
	// Title is "MODEL on HARDWARE"; Subtitle the engine, its version and the quantization;
	// Coverage what the matrix spans.
	Title    string
	Subtitle string
	Coverage string
	// Origin is "Measured", "Predicted", "Imported", or "Written" where the run does not say; Provenance says by what, when and how.
	Origin     string
	Provenance string

	Facts []Section
	// LaunchCommand may have several lines; Value is "" when it is not known.
	LaunchCommand Fact
	Glance        []Figure

	Prefill []PrefillRow
	Matrix  Matrix
	// Measurements are all cells: prefill by context, then decode by context and concurrency.
	Measurements []*Measurement
	// Notes explain the statuses that occur; TTFTNote says what TTFT includes ("" when nothing ran).
	Notes    []Note
	TTFTNote string

	Warnings []Warning
	Trust    []Trust
	// Machine is what the samples of the machine tell of the cells.
	Machine []MachineLine
	// Findings are those that the run recorded and those that follow from its numbers.
	Findings []Finding
	// NotRun says why cells have no speed; Lengths compare prompts with their labels, and are
	// LengthsDerived where they follow from other numbers; Limits compare with the hardware's.
	NotRun         []NotRun
	Lengths        []Length
	LengthsDerived bool
	Limits         []Limit
}

// PrefillRow is one prompt size.
type PrefillRow struct {
	*Measurement
	// Speed is prompt tokens per second at a glance: "10.8K", "9,015", "686.0".
	Speed string
	// Share of the fastest size's speed, 0–1: the length of its bar.
	Share float64
}

// Matrix is the decode cells by context and concurrency.
type Matrix struct {
	Concurrency []int
	Rows        []MatrixRow
}

// MatrixRow is one context: a cell for each concurrency of the matrix, never nil.
type MatrixRow struct {
	Context int
	Label   string
	Cells   []*Measurement
}

// Note explains a status under a table in which it occurs.
type Note struct {
	Status speedmatrix.Status
	Text   string
}

// Figure is one headline number.
type Figure struct {
	Label, Value, Unit string
	// At says where it was measured and what else it is; Where is its part that names the
	// cell, "" where At names none, and Key that cell's.
	At    string
	Where string
	Key   string
}

// Build makes the document of a run. It reads the run only, and any run: a
// cell that the plan names and the run lacks stands in the matrix without a status.
func Build(run *speedmatrix.Run) *Document {
	d := &Document{
		Run:           run,
		ID:            Clean(run.ID),
		Title:         title(run),
		Subtitle:      subtitle(run),
		Facts:         sections(run),
		LaunchCommand: launchCommand(run.LaunchCommand),
	}
	d.Origin, d.Provenance = provenance(run)
	d.Measurements = measurements(run)
	d.Matrix = matrix(run, d.Measurements)
	d.Prefill = prefill(d.Measurements)
	d.Coverage = coverage(d)
	d.Glance = glance(d)
	d.Notes = notes(d)
	d.TTFTNote = ttftNote(d)
	d.Warnings = warnings(run)
	d.Machine = machineLines(d.Measurements)
	d.Trust = trust(d)
	d.NotRun = notRun(d)
	d.Lengths, d.LengthsDerived = lengths(d)
	d.Limits = limits(d)
	d.Findings = allFindings(d)
	return d
}

func title(run *speedmatrix.Run) string {
	model := text(run.Model, speedmatrix.ModelName)
	if model == "" {
		model = text(run.Model, speedmatrix.ModelServedName)
	}
	if model == "" {
		model = "Unnamed model"
	}
	if hardware := hardwareName(run.Hardware); hardware != "" {
		return model + " on " + hardware
	}
	return model
}

// subtitle is the engine and its version, the quantization, whether no hardware worked, and what stands before the engine.
func subtitle(run *speedmatrix.Run) string {
	through, simulated := "", ""
	if text(run.Engine, speedmatrix.EngineSimulated) != "" {
		simulated = "simulated"
	}
	if proxy := joinFacts(" ", text(run.Engine, speedmatrix.EngineProxy), text(run.Engine, speedmatrix.EngineProxyVersion)); proxy != "" {
		through = "through " + proxy
	}
	return joinFacts(" · ", text(run.Engine, speedmatrix.EngineName), text(run.Engine, speedmatrix.EngineVersion), text(run.Model, speedmatrix.ModelQuantization), simulated, through)
}

// hardwareName is the GPUs with their memory, else the CPU.
func hardwareName(facts speedmatrix.Facts) string {
	gpu := text(facts, speedmatrix.HardwareGPU)
	if gpu == "" {
		return text(facts, speedmatrix.HardwareCPU)
	}
	if n, ok := facts.Int(speedmatrix.HardwareGPUCount); ok && n > 1 {
		gpu = unit.Count(n) + "× " + gpu
	}
	return joinFacts(" ", gpu, strings.ReplaceAll(text(facts, speedmatrix.HardwareVRAM), " ", ""))
}

func provenance(run *speedmatrix.Run) (origin, sentence string) {
	by := "by"
	switch run.Origin {
	case speedmatrix.OriginMeasured:
		origin = "Measured"
	case speedmatrix.OriginPredicted:
		origin = "Predicted"
	case speedmatrix.OriginImported:
		origin, by = "Imported", "from"
	default:
		origin = "Written"
	}
	parts := []string{origin + " " + by + " " + tool(run.Tool)}
	if run.Method.Name != "" {
		parts = append(parts, "method "+Clean(run.Method.Name))
	}
	if !run.StartedAt.IsZero() {
		parts = append(parts, run.StartedAt.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if run.Ended != "" {
		parts = append(parts, "ended early: "+Clean(run.Ended))
	}
	return origin, strings.Join(parts, " · ")
}

func tool(t speedmatrix.Tool) string {
	name, version := Clean(t.Name), Clean(t.Version)
	if name == "" {
		name = "an unnamed tool"
	}
	if version != "" && version[0] >= '0' && version[0] <= '9' {
		version = "v" + version
	}
	return joinFacts(" ", name, version)
}

func coverage(d *Document) string {
	var parts []string
	if rows, columns := d.Matrix.Rows, d.Matrix.Concurrency; len(rows) > 0 && len(columns) > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s) × %s (%s)",
			plural(len(rows), "context"), span(rows[0].Label, rows[len(rows)-1].Label),
			plural(len(columns), "concurrency level"), span(unit.Count(columns[0]), unit.Count(columns[len(columns)-1]))))
	}
	var sizes []string
	for _, row := range d.Prefill {
		sizes = append(sizes, row.Context)
	}
	if len(sizes) > 0 {
		parts = append(parts, "prefill at "+strings.Join(sizes, ", "))
	}
	return strings.Join(parts, " · ")
}

// span is "0–248K", or the one label there is.
func span(first, last string) string {
	if first == last {
		return first
	}
	return first + "–" + last
}

// plural counts things: "1 cell", "6 cells".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return unit.Count(n) + " " + noun + "s"
}

func joinFacts(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}
