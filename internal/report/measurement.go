package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Measurement is one cell with its numbers written out; unit.Dash stands for
// what is unknown, and for every speed and time of a cell whose status shows none.
type Measurement struct {
	// Cell holds the raw numbers; its text is not cleaned.
	Cell *speedmatrix.Cell
	// Key names the cell in files and links.
	Key string
	// Phase is "Prefill" or "Sustained decode"; Name is "decode 16K × 8".
	Phase    string
	Name     string
	Context  string
	Requests string
	// Status is "" for a planned cell that the run lacks.
	Status speedmatrix.Status
	Reason string
	// ShowsSpeed says whether the speeds below may be shown, drawn and ranked.
	ShowsSpeed bool

	// Total is total tok/s of a decode cell, prompt tok/s of a prefill cell, with Interval ("±0.4 %").
	Total         string
	Interval      string
	PerRequest    string
	TTFT          string
	TTFTKind      string
	TimeBetween   string
	Active        string
	Completed     string
	OutputTokens  string
	Window        string
	PromptTokens  string
	CachedTokens  string
	ContextTokens string
	TokenSource   string
	// Efficiency is total tok/s as a share of what so many single requests would make, and
	// Scaling that share, nil where the row has no single request; only in a matrix.
	Efficiency string
	Scaling    *float64
}

// measurements gives every cell of the run and every planned one that it lacks.
func measurements(run *speedmatrix.Run) []*Measurement {
	list := make([]*Measurement, 0, len(run.Cells))
	there := map[place]bool{}
	for i := range run.Cells {
		c := &run.Cells[i]
		list = append(list, newMeasurement(c))
		there[placeOf(c)] = true
	}
	for _, p := range planned(run.Plan) {
		if !there[p] {
			list = append(list, newMeasurement(&speedmatrix.Cell{
				Phase: p.phase, Context: p.context, Concurrency: p.concurrency, ContextLabel: unit.FormatTokens(p.context),
			}))
		}
	}
	slices.SortStableFunc(list, func(a, b *Measurement) int {
		return cmp.Or(cmp.Compare(phaseOrder(a.Cell.Phase), phaseOrder(b.Cell.Phase)),
			cmp.Compare(a.Cell.Context, b.Cell.Context), cmp.Compare(a.Cell.Concurrency, b.Cell.Concurrency))
	})
	return list
}

// place is where a cell stands in a run.
type place struct {
	phase                speedmatrix.Phase
	context, concurrency int
}

func placeOf(c *speedmatrix.Cell) place {
	if c.Phase == speedmatrix.PhasePrefill {
		return place{c.Phase, c.Context, 1}
	}
	return place{c.Phase, c.Context, c.Concurrency}
}

func planned(p speedmatrix.Plan) []place {
	var list []place
	for _, context := range p.Prefill {
		list = append(list, place{speedmatrix.PhasePrefill, context, 1})
	}
	for _, context := range p.Contexts {
		for _, concurrency := range p.Concurrency {
			list = append(list, place{speedmatrix.PhaseDecode, context, concurrency})
		}
	}
	slices.SortFunc(list, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.context, b.context), cmp.Compare(a.concurrency, b.concurrency))
	})
	return slices.Compact(list)
}

func phaseOrder(p speedmatrix.Phase) int {
	switch p {
	case speedmatrix.PhasePrefill:
		return 0
	case speedmatrix.PhaseDecode:
		return 1
	}
	return 2
}

func newMeasurement(c *speedmatrix.Cell) *Measurement {
	m := &Measurement{
		Cell:         c,
		Key:          Clean(c.Key()),
		Phase:        phaseName(c.Phase),
		Context:      contextLabel(c),
		Requests:     unit.Count(c.Concurrency),
		Status:       speedmatrix.Status(clip(Clean(string(c.Status)), 24)),
		Reason:       Clean(c.Reason),
		ShowsSpeed:   c.Status.ShowsSpeed(),
		Active:       unit.Dash,
		Completed:    unit.MaybeCount(c.CompletedRequests),
		OutputTokens: number(c.OutputTokens, count),
		Window:       unit.Dash,
		TokenSource:  Clean(string(c.TokenSource)),
	}
	m.Name = cellName(c)
	m.setSpeeds(c)
	m.setLengths(c)
	return m
}

// valid says whether the cell needs no word beside its number.
func (m *Measurement) valid() bool { return m.Status == speedmatrix.StatusValid }

// setSpeeds writes what only a cell that shows its speed may show.
func (m *Measurement) setSpeeds(c *speedmatrix.Cell) {
	m.Total, m.PerRequest, m.TTFT, m.TimeBetween = unit.Dash, unit.Dash, unit.Dash, unit.Dash
	if !m.ShowsSpeed {
		return
	}
	m.Total = number(speed(c), unit.Rate)
	m.PerRequest = number(c.PerRequestTokensPerSecond, unit.Rate)
	m.TTFT = number(median(c.TTFT), unit.TTFT)
	m.TTFTKind = clip(Clean(string(c.TTFTKind)), 12)
	m.TimeBetween = number(median(c.TimeBetweenTokens), unit.Millis)
	m.Active = number(c.ActiveRequestsMean, oneDecimal)
	m.Window = number(c.WindowSeconds, unit.Seconds)
	if half, ok := halfWidth(c); ok {
		m.Interval = unit.PlusMinus(half)
	}
}

func (m *Measurement) setLengths(c *speedmatrix.Cell) {
	m.PromptTokens = number(c.PromptTokens, count)
	m.CachedTokens = number(c.CachedTokens, count)
	m.ContextTokens = unit.Dash
	if t := c.ContextTokens; t != nil {
		m.ContextTokens = span(count(t.Start), count(t.End))
	}
}

// speed is the number that a cell of this phase is about.
func speed(c *speedmatrix.Cell) *float64 {
	if c.Phase == speedmatrix.PhasePrefill {
		return c.PromptTokensPerSecond
	}
	return c.TotalTokensPerSecond
}

func median(d *speedmatrix.Distribution) *float64 {
	if d == nil {
		return nil
	}
	return d.P50
}

// halfWidth is half of the 95 % interval as a share of total tok/s.
func halfWidth(c *speedmatrix.Cell) (share float64, ok bool) {
	if c.Interval95 == nil || c.TotalTokensPerSecond == nil || *c.TotalTokensPerSecond <= 0 {
		return 0, false
	}
	return (c.Interval95.High - c.Interval95.Low) / 2 / *c.TotalTokensPerSecond, true
}

func phaseName(p speedmatrix.Phase) string {
	switch p {
	case speedmatrix.PhasePrefill:
		return "Prefill"
	case speedmatrix.PhaseDecode:
		return "Sustained decode"
	}
	return clip(Clean(string(p)), 24)
}

func contextLabel(c *speedmatrix.Cell) string {
	if label := Clean(c.ContextLabel); label != "" {
		return clip(label, 12)
	}
	return unit.FormatTokens(c.Context)
}

// cellName names a cell in sentences: "decode 16K × 8", "prefill 16K".
func cellName(c *speedmatrix.Cell) string {
	name := clip(Clean(string(c.Phase)), 24) + " " + contextLabel(c)
	if c.Phase == speedmatrix.PhasePrefill {
		return name
	}
	return name + " × " + unit.Count(c.Concurrency)
}

// number writes *v by a rule of package unit. A number without sense (1e300) is
// written in short, because no column could hold it.
func number(v *float64, format func(float64) string) string {
	if v == nil {
		return unit.Dash
	}
	if math.Abs(*v) >= 1e12 && !math.IsInf(*v, 0) {
		return strconv.FormatFloat(*v, 'e', 2, 64)
	}
	return format(*v)
}

func oneDecimal(v float64) string { return unit.Fixed(v, 1) }

func count(v float64) string { return unit.Fixed(v, 0) }
