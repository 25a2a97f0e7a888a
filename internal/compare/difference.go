package compare

import (
	"fmt"
	"math"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/stats"
)

// Basis says where a difference's interval comes from.
type Basis string

// The bases of intervals, best first.
const (
	BasisPairs   Basis = "pairs"            // measurements made in alternation, one by one
	BasisRepeats Basis = "repeats"          // both sides measured more than once: Welch
	BasisOneSide Basis = "one side repeats" // one side measured once, and taken to be as noisy as the other
	BasisStated  Basis = "stated noise"     // both measured once, noise from run to run stated by the user
	BasisWindows Basis = "windows"          // both measured once: noise inside the windows only
	BasisNone    Basis = "none"             // both measured once, and no interval
)

// Tested says whether the noise from run to run is in the interval, so that a difference beyond it means something.
func (b Basis) Tested() bool { return b != BasisWindows && b != BasisNone }

// Judgement is what a difference says about the second side.
type Judgement string

// The judgements.
const (
	Faster Judgement = "faster"
	Slower Judgement = "slower"
	Same   Judgement = "same" // no difference was found
)

// untestedSame is the change up to which two numbers count as the same where nothing is known of the noise.
const untestedSame = 0.02

// Difference is one number of a cell on both sides.
type Difference struct {
	// From and To are the means over the measurements, NFrom and NTo how many they are over.
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	NFrom int     `json:"n_from"`
	NTo   int     `json:"n_to"`
	// Change is To ÷ From − 1, Low to High its 95 % interval, null without one.
	Change float64  `json:"change"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Basis  Basis    `json:"basis"`
	// P is the probability of such a difference between equals, Adjusted the same after Hochberg's correction over
	// all cells of the metric; null without an interval.
	P        *float64 `json:"p"`
	Adjusted *float64 `json:"p_adjusted"`
	// Judgement follows from Adjusted, and without an interval from Change alone.
	Judgement Judgement `json:"judgement"`

	estimate stats.Estimate
	known    bool
	// a and b are the measurements of both sides, nil for a mean over cells.
	a, b series
}

// Significant says whether the difference stands after Hochberg's correction, on a basis that knows the noise from run to run.
func (d *Difference) Significant() bool {
	return d.Basis.Tested() && d.Adjusted != nil && *d.Adjusted < Level
}

// judge compares the cells of two sides.
type judge struct {
	paired bool
	noise  float64
}

func (j *judge) cell(p place, a, b []measurement) Cell {
	c := Cell{Phase: p.phase, Context: p.context, Concurrency: p.concurrency, From: standing(a), To: standing(b), Differences: map[Metric]*Difference{}}
	first := append(slices.Clone(a), b...)[0].cell
	c.Key, c.ContextLabel = first.Key(), first.ContextLabel
	for _, m := range Metrics() {
		x, y := newSeries(a, m), newSeries(b, m)
		if len(x.values) == 0 || len(y.values) == 0 {
			continue
		}
		if kindA, kindB := ttftKind(x), ttftKind(y); m == TTFT && kindA != kindB {
			c.Notes = append(c.Notes, fmt.Sprintf("TTFT is %s on one side and %s on the other, so it is not compared", kindA, kindB))
			continue
		}
		c.Differences[m] = j.difference(m, x, y)
	}
	return c
}

// ttftKind is the kind of all measurements, "mixed" where they differ.
func ttftKind(s series) speedmatrix.TTFTKind {
	kind := s.from[0].cell.TTFTKind
	for _, x := range s.from {
		if x.cell.TTFTKind != kind {
			return speedmatrix.TTFTMixed
		}
	}
	return kind
}

func (j *judge) difference(m Metric, a, b series) *Difference {
	d := &Difference{From: a.mean(), To: b.mean(), NFrom: len(a.values), NTo: len(b.values), Basis: BasisNone, a: a, b: b}
	d.estimate = stats.Estimate{Value: math.Log(d.To) - math.Log(d.From)}
	if j.paired {
		if e, n := inPairs(a, b); n > 1 {
			d.set(e, BasisPairs)
			d.NFrom, d.NTo = n, n
			return d
		}
	}
	if e, ok := stats.Welch(a.logs, b.logs); ok {
		return d.set(e, BasisRepeats)
	}
	if e, ok := stats.OneMore(a.logs, b.logs[0]); ok {
		return d.set(e, BasisOneSide)
	}
	if e, ok := stats.OneMore(b.logs, a.logs[0]); ok {
		e.Value = -e.Value
		return d.set(e, BasisOneSide)
	}
	return j.once(m, d, a, b)
}

// once is the difference of two numbers measured once each.
func (j *judge) once(m Metric, d *Difference, a, b series) *Difference {
	e, basis := d.estimate, BasisNone
	e.DF = math.Inf(1)
	inA, okA := insideWindow(m, a)
	inB, okB := insideWindow(m, b)
	switch {
	case j.noise > 0:
		basis, e.Error = BasisStated, math.Sqrt(2*j.noise*j.noise+inA*inA+inB*inB)
	case okA && okB:
		basis, e.Error = BasisWindows, math.Hypot(inA, inB)
	default:
		d.Change, d.Judgement = math.Expm1(e.Value), judgement(m, e.Value, math.Abs(math.Expm1(e.Value)) > untestedSame)
		return d
	}
	return d.set(e, basis)
}

// insideWindow is the relative standard error of a single measurement from the noise inside its window. The
// interval's half width is taken as 1.96 of them, which is a little too many.
func insideWindow(m Metric, s series) (share float64, ok bool) {
	c := s.from[0].cell
	if m != Total || c.Interval95 == nil {
		return 0, false
	}
	return (c.Interval95.High - c.Interval95.Low) / 2 / 1.96 / s.values[0], true
}

// inPairs is the mean of the differences of measurements of the same round, and how many there are.
func inPairs(a, b series) (e stats.Estimate, n int) {
	var differences []float64
	for i, order := range a.orders {
		if k := slices.Index(b.orders, order); k >= 0 {
			differences = append(differences, b.logs[k]-a.logs[i])
		}
	}
	e, _ = stats.MeanOf(differences)
	return e, len(differences)
}

// set takes an estimate with an error.
func (d *Difference) set(e stats.Estimate, basis Basis) *Difference {
	r := relative(e)
	d.estimate, d.known, d.Basis = e, true, basis
	d.Change, d.Low, d.High, d.P = r.Change, &r.Low, &r.High, new(e.P(0))
	return d
}

// judgement words a difference of logarithms.
func judgement(m Metric, difference float64, found bool) Judgement {
	switch {
	case !found || difference == 0:
		return Same
	case (difference > 0) == m.MoreIsBetter():
		return Faster
	}
	return Slower
}
