// Package compare holds runs against each other: which settings differ, and cell
// by cell how much a number differs and what that difference is worth. It works
// on documents alone and writes no text for people but sentences.
//
// Differences are relative. They are computed on logarithms, so that a
// difference from A to B is the inverse of that from B to A, and a mean over
// several measurements is their geometric one.
package compare

import (
	"cmp"
	"fmt"
	"slices"

	"speedmatrix"
)

// Schema names the version of the comparison's document.
const Schema = "speedmatrix.comparison/1"

// Level is the probability below which a difference counts as found.
const Level = 0.05

// Input is one side of a comparison: one run of a set-up, or several as repeats.
type Input struct{ Runs []*speedmatrix.Run }

// Options are the user's choices.
type Options struct {
	// Allow names the method's settings that may differ, such as "method.duration_seconds"; "method" allows all.
	Allow []string
	// Paired takes the first measurement of a side with the first of the other, and so on. Runs that were
	// measured in alternation are paired without it.
	Paired bool
	// Noise is what two runs of the same set-up differ by, as a relative standard deviation that the user
	// states; it is used where the runs do not show it. 0 is unknown.
	Noise float64
}

// Comparison is runs against each other: the document of compare --json.
type Comparison struct {
	Schema string `json:"schema"`
	// Sides are in the order in which they were given; every other one is compared with the first.
	Sides []Side `json:"sides"`
	// Settings are those that differ, then those that do not, each by how much they matter.
	Settings []Setting `json:"settings"`
	Pairs    []Pair    `json:"pairs"`
	// StatedNoise is Options.Noise, null where none was stated.
	StatedNoise *float64 `json:"stated_noise"`
}

// Side is one side and what its own measurements say about it.
type Side struct {
	// Name is "A", "B", …
	Name string             `json:"name"`
	Runs []*speedmatrix.Run `json:"-"`
	IDs  []string           `json:"runs"`
	// Measurements is how often the decode matrix was measured, in all runs.
	Measurements int `json:"measurements"`
	// Noise is the relative standard deviation of total tok/s from one measurement to the next, over all
	// cells; null under two measurements.
	Noise *float64 `json:"noise"`
	// Trend is by how much total tok/s changed from one measurement to the next over the time of the side's
	// measurements, null where that is not more than chance.
	Trend *Interval `json:"trend"`
	// Drift is by how much the first cell had changed at the end of the side's first run, as a share; null
	// where it was not measured again.
	Drift *float64 `json:"drift"`
	// Outliers are measurements far from the others of their cell. They are not left out.
	Outliers []Outlier `json:"outliers"`
}

// Interval is a relative change and its 95 % interval.
type Interval struct {
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Outlier is a measurement that does not belong to the others of its cell.
type Outlier struct {
	Cell string `json:"cell"`
	// Run is the run's id, Repeat the number of the measurement within it, from 1.
	Run    string `json:"run"`
	Repeat int    `json:"repeat"`
	// Value is its total tok/s, Median that of all of the cell.
	Value  float64 `json:"value"`
	Median float64 `json:"median"`
}

// Pair is a side compared with the first.
type Pair struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Paired says that measurements were compared one by one and not as two groups.
	Paired   bool      `json:"paired"`
	Cells    []Cell    `json:"cells"`
	Verdicts []Verdict `json:"verdicts"`
}

// Cell is one cell of the matrices.
type Cell struct {
	Key          string            `json:"key"`
	Phase        speedmatrix.Phase `json:"phase"`
	ContextLabel string            `json:"context_label"`
	Context      int               `json:"context"`
	Concurrency  int               `json:"concurrency"`
	From         Standing          `json:"from"`
	To           Standing          `json:"to"`
	// Differences are of the numbers that both sides have.
	Differences map[Metric]*Difference `json:"differences"`
	// Notes say why numbers were not compared.
	Notes []string `json:"notes,omitempty"`
}

// Standing is how a cell ended on one side.
type Standing struct {
	// Status is that of most measurements; "" where the side has no such cell.
	Status speedmatrix.Status `json:"status"`
	Reason string             `json:"reason"`
	// Shown of Measured measurements showed a speed.
	Shown    int `json:"shown"`
	Measured int `json:"measured"`
	// Values are the numbers: means over the measurements that showed a speed.
	Values map[Metric]float64 `json:"values"`
}

// New compares sides. Fewer than two, a method that differs and was not allowed to, and an allowance that
// names no setting are errors of kind KindUsage.
func New(inputs []Input, o Options) (*Comparison, error) {
	if len(inputs) < 2 || slices.ContainsFunc(inputs, func(i Input) bool { return len(i.Runs) == 0 }) {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "a comparison needs two sides with a run each",
			Next: "Name them: speedmatrix compare A B"}
	}
	c := &Comparison{Schema: Schema}
	if o.Noise > 0 {
		c.StatedNoise = &o.Noise
	}
	var all []*samples
	for i, in := range inputs {
		s := newSamples(in.Runs)
		all = append(all, s)
		c.Sides = append(c.Sides, newSide(SideName(i), in.Runs, s))
	}
	var err error
	if c.Settings, err = settings(c.Sides, o.Allow); err != nil {
		return nil, err
	}
	for i := range all[1:] {
		c.Pairs = append(c.Pairs, newPair(c.Sides, i+1, all, o))
	}
	return c, nil
}

// SideName is "A" for the first side, "B" for the second; beyond "Z" it is "27", "28", …
func SideName(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return fmt.Sprint(i + 1)
}

// newPair compares side to with the first.
func newPair(sides []Side, to int, all []*samples, o Options) Pair {
	a, b := all[0], all[to]
	p := Pair{From: sides[0].Name, To: sides[to].Name, Paired: o.Paired || interleaved(sides[0], sides[to])}
	j := &judge{paired: p.Paired, noise: o.Noise}
	for _, place := range places(a, b) {
		p.Cells = append(p.Cells, j.cell(place, a.at[place], b.at[place]))
	}
	for _, m := range Metrics() {
		if v, ok := j.verdict(m, p.Cells); ok {
			v.Sentence = sentence(v, p)
			p.Verdicts = append(p.Verdicts, v)
		}
	}
	return p
}

// interleaved says whether two single runs were measured in alternation.
func interleaved(a, b Side) bool {
	if len(a.Runs) != 1 || len(b.Runs) != 1 {
		return false
	}
	x, y := a.Runs[0].Interleaved, b.Runs[0].Interleaved
	return x != nil && y != nil && x.With == b.Runs[0].ID && y.With == a.Runs[0].ID
}

// places are the cells of two sides: prefill first, then decode by context and concurrency.
func places(a, b *samples) []place {
	var list []place
	for _, s := range []*samples{a, b} {
		for p := range s.at {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(x, y place) int {
		return cmp.Or(-cmp.Compare(x.phase, y.phase), cmp.Compare(x.context, y.context), cmp.Compare(x.concurrency, y.concurrency))
	})
	return slices.Compact(list)
}
