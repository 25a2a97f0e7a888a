package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// PlanView is what the start screen of a run shows. Unknown text is "", an unknown
// number 0 or nil; a line of which nothing is known is left out.
type PlanView struct {
	// Engine and Version of the server at URL; Found says how it was found ("found on port 8000").
	Engine, Version, URL, Found string

	// Model by its own name, the name it is served under, its quantization and length in tokens.
	Model, ServedName, Quantization string
	MaxLength                       int

	// KVTokens is the KV budget, RunningLimit the requests that the server runs at once.
	KVTokens, RunningLimit int
	PrefixCaching          *bool

	// Machine is what the machine is, part by part: "RTX 3090 24 GB at 350 W", "32 GB".
	Machine []string

	Client PlanClient

	Contexts, Concurrency []int
	// Cells are the planned cells of both phases.
	Cells []PlanCell
	// Expected is the estimated time, PromptTokens what the server will have to read.
	Expected     time.Duration
	PromptTokens int64

	Terminal TerminalOptions
}

// PlanClient is how well this program can measure here.
type PlanClient struct {
	// SameMachine is nil when it is not known whether the server runs on this machine.
	SameMachine *bool
	// StampErrorP99 is the self-check's, 0 before it ran; TokensPerSecond is the rate it reached.
	StampErrorP99   time.Duration
	TokensPerSecond float64
}

// PlanVerdict is what the plan says of a cell.
type PlanVerdict int

// The verdicts.
const (
	PlanRuns    PlanVerdict = iota // it fits
	PlanTried                      // it may not fit, and is tried
	PlanRefused                    // it does not run; Status and Reason say why
)

// PlanCell is one planned cell.
type PlanCell struct {
	Phase       speedmatrix.Phase
	Context     int
	Concurrency int
	Verdict     PlanVerdict
	Status      speedmatrix.Status
	Reason      string
}

// marks stand for the verdicts in the plan's matrix.
var marks = map[PlanVerdict]piece{PlanRuns: {"•", plain}, PlanTried: {"~", amber}, PlanRefused: {"–", faint}}

// planIndent is where the text of a start screen's lines begins.
const planIndent = 9

// Plan writes the start screen of a run: what will be measured, which cells, what does
// not run and why, and how long it takes. It fails only if w does.
func Plan(w io.Writer, v PlanView) error {
	s := newScreen(w, v.Terminal)
	s.planFacts(v)
	s.line()
	s.entry(piece{"Plan", faint}, planIndent, piece{planSummary(v), plain})
	s.planMatrix(v)
	s.planLegend(v)
	return s.flush()
}

func (s *screen) planFacts(v PlanView) {
	server := serverLine(v)
	found := Clean(v.Found)
	if room := s.width - planIndent - displayWidth(server) - displayWidth(found); found != "" && room >= 2 {
		s.line(piece{padRight("Server", planIndent), faint}, piece{server, plain}, piece{strings.Repeat(" ", room) + found, faint})
	} else {
		s.entry(piece{"Server", faint}, planIndent, piece{joinFacts(", ", server, found), plain})
	}
	var machine []string
	for _, part := range v.Machine {
		machine = append(machine, Clean(part))
	}
	for _, line := range []struct{ label, text string }{
		{"Model", modelLine(v)},
		{"Memory", memoryLine(v)},
		{"Machine", joinFacts(" · ", machine...)},
		{"Client", clientLine(v.Client)},
	} {
		if line.text != "" {
			s.entry(piece{line.label, faint}, planIndent, piece{line.text, plain})
		}
	}
}

func serverLine(v PlanView) string {
	name := joinFacts(" ", Clean(v.Engine), Clean(v.Version))
	if name == "" {
		name = "LLM server"
	}
	if url := Clean(v.URL); url != "" {
		return name + " at " + url
	}
	return name
}

func modelLine(v PlanView) string {
	name, served := Clean(v.Model), Clean(v.ServedName)
	switch {
	case name == "":
		name = served
	case served != "" && served != name:
		name = fmt.Sprintf("%s (served as %q)", name, served)
	}
	length := ""
	if v.MaxLength > 0 {
		length = "up to " + plural(v.MaxLength, "token")
	}
	return joinFacts(", ", name, Clean(v.Quantization), length)
}

func memoryLine(v PlanView) string {
	var parts []string
	if v.KVTokens > 0 {
		parts = append(parts, plural(v.KVTokens, "token")+" of KV cache")
	}
	if v.PrefixCaching != nil {
		parts = append(parts, "prefix caching "+map[bool]string{true: "on", false: "off"}[*v.PrefixCaching])
	}
	if v.RunningLimit > 0 {
		parts = append(parts, plural(v.RunningLimit, "request")+" at once")
	}
	return strings.Join(parts, ", ")
}

func clientLine(c PlanClient) string {
	place, quality := "", ""
	if c.SameMachine != nil {
		place = map[bool]string{true: "same machine as the server", false: "another machine than the server's"}[*c.SameMachine]
	}
	if c.StampErrorP99 > 0 {
		quality = "times right to ±" + unit.Fine(c.StampErrorP99)
		if c.TokensPerSecond > 0 {
			quality += ", up to " + number(&c.TokensPerSecond, count) + " tok/s"
		}
	}
	return joinFacts("; ", place, quality)
}

func planSummary(v PlanView) string {
	decode, decodeRuns := tally(v.Cells, speedmatrix.PhaseDecode)
	sizes, sizesRun := tally(v.Cells, speedmatrix.PhasePrefill)
	text := fmt.Sprintf("%s of %s", unit.Count(decodeRuns), plural(decode, "cell"))
	switch {
	case sizes > 0 && sizesRun == sizes:
		text += " + " + plural(sizes, "prefill size")
	case sizes > 0:
		text += fmt.Sprintf(" + %s of %s", unit.Count(sizesRun), plural(sizes, "prefill size"))
	}
	if v.Expected > 0 {
		text += ", about " + unit.Duration(v.Expected)
	}
	if v.PromptTokens > 0 {
		text += ", " + unit.Many(v.PromptTokens) + " prompt tokens"
	}
	return text
}

func tally(cells []PlanCell, phase speedmatrix.Phase) (all, run int) {
	for _, c := range cells {
		if c.Phase == phase {
			all++
			if c.Verdict != PlanRefused {
				run++
			}
		}
	}
	return all, run
}

func (s *screen) planMatrix(v PlanView) {
	if len(v.Contexts) == 0 || len(v.Concurrency) == 0 {
		return
	}
	at := map[place]PlanVerdict{}
	for _, c := range v.Cells {
		at[place{c.Phase, c.Context, c.Concurrency}] = c.Verdict
	}
	g := grid{keys: 1, columns: []gridColumn{{}}}
	for _, c := range v.Concurrency {
		g.columns = append(g.columns, gridColumn{head: []string{padLeft(unit.Count(c), 3)}})
	}
	for _, context := range v.Contexts {
		row := gridRow{cells: [][]piece{{{padLeft(unit.FormatTokens(context), 5), faint}}}}
		for _, c := range v.Concurrency {
			mark := piece{}
			if verdict, there := at[place{speedmatrix.PhaseDecode, context, c}]; there {
				mark = marks[verdict]
			}
			row.cells = append(row.cells, []piece{mark})
		}
		g.rows = append(g.rows, row)
	}
	s.line()
	g.write(s)
}

// planMarks explains the marks of the cells that run.
func (s *screen) planMarks(v PlanView) {
	var legend []string
	if hasVerdict(v.Cells, PlanRuns) {
		legend = append(legend, "• runs")
	}
	if hasVerdict(v.Cells, PlanTried) {
		legend = append(legend, "~ may not fit, will be tried")
	}
	if len(legend) > 0 {
		s.line()
		s.line(piece{"  " + strings.Join(legend, "   "), plain})
	}
}

// planLegend explains the marks that occur: one line for each kind of refusal.
func (s *screen) planLegend(v PlanView) {
	s.planMarks(v)
	for _, status := range speedmatrix.Statuses() {
		var cells []PlanCell
		for _, c := range v.Cells {
			if c.Verdict == PlanRefused && c.Status == status {
				cells = append(cells, c)
			}
		}
		if len(cells) > 0 {
			s.entry(piece{"  –", faint}, 4, piece{refusal(status, cells), plain})
		}
	}
}

func hasVerdict(cells []PlanCell, verdict PlanVerdict) bool {
	return slices.ContainsFunc(cells, func(c PlanCell) bool {
		return c.Verdict == verdict && c.Phase == speedmatrix.PhaseDecode
	})
}

// refusal names the status, the reason of the first cell and how many more there are like it.
func refusal(status speedmatrix.Status, cells []PlanCell) string {
	text := string(status)
	if reason := Clean(cells[0].Reason); reason != "" {
		text += ": " + reason
	}
	if len(cells) == 1 {
		return text + " (" + planCellName(cells[0]) + ")"
	}
	return text + fmt.Sprintf(" (%s, and %s more)", planCellName(cells[0]), unit.Count(len(cells)-1))
}

func planCellName(c PlanCell) string {
	return cellName(&speedmatrix.Cell{Phase: c.Phase, Context: c.Context, Concurrency: c.Concurrency})
}
