package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// Verdict is what the cells say about one metric together.
type Verdict struct {
	Metric Metric `json:"metric"`
	// Cells is how many have the number on both sides; Faster, Slower and Same sum to it.
	Cells  int `json:"cells"`
	Faster int `json:"faster"`
	Slower int `json:"slower"`
	Same   int `json:"same"`
	// Tested says that the noise from run to run is known, so that a difference found is no chance.
	Tested bool `json:"tested"`
	// Overall is the mean change over the cells; Low and High are null without an interval.
	Overall *Difference `json:"overall"`
	// Detectable is the change that this comparison finds in a usual cell in 9 of 10 cases, as a share; null
	// where it is not known.
	Detectable *float64 `json:"detectable"`
	// Sentence says it in words.
	Sentence string `json:"sentence"`

	most, least map[Judgement]float64
}

// verdict corrects the metric's probabilities over all its cells and their mean, and counts what is left.
func (j *judge) verdict(m Metric, cells []Cell) (v Verdict, ok bool) {
	var list []*Difference
	for i := range cells {
		if d := cells[i].Differences[m]; d != nil {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return Verdict{}, false
	}
	v = Verdict{Metric: m, Cells: len(list), most: map[Judgement]float64{}, least: map[Judgement]float64{}, Overall: j.overall(m, list)}
	correct(m, list, v.Overall)
	v.Tested = !slices.ContainsFunc(list, func(d *Difference) bool { return !d.Basis.Tested() })
	for _, d := range list {
		v.count(d)
	}
	v.setDetectable(list)
	return v, true
}

// correct judges differences after Hochberg's correction over all of them. Half of the level goes to the mean over the
// cells: it is the one question that most comparisons are about, and once it is answered the cells have the whole level,
// else the other half (a fallback, Wiens and Dmitrienko, Journal of Biopharmaceutical Statistics 2005).
func correct(m Metric, cells []*Difference, overall *Difference) {
	p := make([]float64, len(cells))
	for i, d := range cells {
		p[i] = math.NaN()
		if d.P != nil {
			p[i] = *d.P
		}
	}
	mean := 0.0 // takes nothing of the level where there is none
	if len(cells) > 1 && overall.P != nil {
		mean = min(1, 2**overall.P)
		overall.judge(m, mean)
	}
	for i, adjusted := range stats.Hochberg(p) {
		if cells[i].P != nil {
			cells[i].judge(m, min(1, 2*adjusted, max(mean, adjusted)))
		}
	}
}

// judge says what a difference is by its probability after the correction.
func (d *Difference) judge(m Metric, adjusted float64) {
	found := adjusted < Level
	if !d.Basis.Tested() {
		found = found && math.Abs(d.Change) > untestedSame
	}
	d.Adjusted, d.Judgement = new(adjusted), judgement(m, d.estimate.Value, found)
}

func (v *Verdict) count(d *Difference) {
	switch d.Judgement {
	case Faster:
		v.Faster++
	case Slower:
		v.Slower++
	default:
		v.Same++
	}
	size := math.Abs(d.Change)
	if least, there := v.least[d.Judgement]; !there || size < math.Abs(least) {
		v.least[d.Judgement] = d.Change
	}
	if size >= math.Abs(v.most[d.Judgement]) {
		v.most[d.Judgement] = d.Change
	}
}

func (v *Verdict) setDetectable(list []*Difference) {
	var sizes []float64
	for _, d := range list {
		if d.known && d.Basis.Tested() {
			sizes = append(sizes, math.Expm1(d.estimate.Detectable(len(list))))
		}
	}
	if len(sizes) > 0 && v.Tested {
		v.Detectable = new(stats.Median(sizes))
	}
}

// overall is the mean change over cells.
func (j *judge) overall(m Metric, list []*Difference) *Difference {
	if len(list) == 1 {
		return list[0]
	}
	e, known := sharedError(list)
	d := &Difference{Basis: BasisNone, estimate: e}
	if repeated, ok := j.overMeasurements(list); ok {
		e, known = repeated, true
	}
	if !known {
		d.Change, d.Judgement = math.Expm1(e.Value), judgement(m, e.Value, math.Abs(math.Expm1(e.Value)) > untestedSame)
		return d
	}
	basis := list[0].Basis
	for _, x := range list {
		if !x.Basis.Tested() {
			basis = x.Basis
		}
	}
	return d.set(e, basis)
}

// overMeasurements compares the means over the cells of one measurement of the matrix after the other, since cells
// measured at one time share some of their noise. ok is false where a cell lacks a measurement.
func (j *judge) overMeasurements(list []*Difference) (e stats.Estimate, ok bool) {
	var a, b []series
	for _, d := range list {
		if !slices.Equal(d.a.orders, list[0].a.orders) || !slices.Equal(d.b.orders, list[0].b.orders) {
			return e, false
		}
		a, b = append(a, d.a), append(b, d.b)
	}
	first, second := list[0].a, list[0].b
	first.logs, second.logs = meanOver(a, len(first.logs)), meanOver(b, len(second.logs))
	if j.paired {
		e, n := inPairs(first, second)
		return e, n > 1
	}
	return stats.Welch(first.logs, second.logs)
}

// sharedError is the mean change with the mean of the cells' errors: what it has if they share all their noise.
func sharedError(list []*Difference) (e stats.Estimate, known bool) {
	e.DF, known = math.Inf(1), true
	for _, x := range list {
		e.Value += x.estimate.Value / float64(len(list))
		e.Error += x.estimate.Error / float64(len(list))
		e.DF, known = min(e.DF, x.estimate.DF), known && x.known
	}
	return e, known
}

// found is in how many cells a side is faster or slower.
type found struct {
	n    int
	word Judgement
}

// sentence says a verdict in words.
func sentence(v Verdict, p Pair) string {
	var parts []string
	order := []found{{v.Faster, Faster}, {v.Slower, Slower}}
	if v.Slower > v.Faster {
		slices.Reverse(order)
	}
	for _, x := range order {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %s (%s)", x.word, ofCells(x.n, v.Cells, len(parts) == 0), span(v.least[x.word], v.most[x.word])))
		}
	}
	if len(parts) == 0 {
		parts = []string{"not found to differ in any of " + cells(v.Cells)}
		if v.Cells == 1 {
			parts = []string{"not found to differ in the one cell"}
		}
	} else if v.Same > 0 {
		parts = append(parts, "with no difference found in "+unit.Count(v.Same))
	}
	text := v.Metric.Name() + ": " + p.To + " is " + strings.Join(parts, ", ") + "."
	if v.Cells > 1 && v.Overall.Low != nil {
		text += fmt.Sprintf(" Over all of them %s (%s to %s).", unit.ChangeFine(v.Overall.Change), unit.ChangeFine(*v.Overall.Low), unit.ChangeFine(*v.Overall.High))
	} else if v.Cells > 1 {
		text += " Over all of them " + unit.Change(v.Overall.Change) + "."
	}
	return text + reach(v)
}

// reach is how small a change the verdict could have found, or that nothing was tested.
func reach(v Verdict) string {
	if !v.Tested {
		return " Not tested: measured once each."
	}
	if v.Detectable == nil || *v.Detectable <= 0 || *v.Detectable > 1 {
		return ""
	}
	return " A change of " + unit.PercentFine(*v.Detectable) + " in one cell would be found in 9 of 10 cases."
}

func cells(n int) string {
	if n == 1 {
		return "1 cell"
	}
	return unit.Count(n) + " cells"
}

// ofCells is "11 of 12 cells" at first, then "1".
func ofCells(n, of int, first bool) string {
	switch {
	case !first:
		return unit.Count(n)
	case of == 1:
		return "the one cell"
	case n == of && n == 2:
		return "both cells"
	case n == of:
		return "all " + cells(of)
	}
	return unit.Count(n) + " of " + cells(of)
}

// span is "−6.0 % to −75.0 %", or the one change there is.
func span(least, most float64) string {
	a, b := unit.Change(least), unit.Change(most)
	if a == b {
		return a
	}
	return a + " to " + b
}
