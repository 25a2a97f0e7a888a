package trust

import (
	"math"
	"slices"

	"speedmatrix/internal/catalog"
)

// What it takes for one run to reproduce another: so many cells with an interval in both, and the share of them in which the
// difference lies within the interval of the difference, √(a² + b²) of the half-widths. Of 95 % intervals one cell in twenty
// misses by chance.
const (
	leastCells  = 4
	leastAgreed = 0.9
)

// Reproduces says whether two runs, of different uploaders, of one set-up, agree within their intervals.
func Reproduces(a, b *catalog.Entry) bool {
	if !apart(a, b) || !sameSetUp(a, b) {
		return false
	}
	compared, agreed := 0, 0
	for _, c := range a.Cells {
		o, ok := cellAt(b, c.Context, c.Concurrency)
		if !ok || !(c.Half > 0) || !(o.Half > 0) {
			continue
		}
		compared++
		if math.Abs(float64(c.Total-o.Total)) <= math.Hypot(float64(c.Half), float64(o.Half)) {
			agreed++
		}
	}
	return compared >= leastCells && float64(agreed) >= leastAgreed*float64(compared)
}

// apart says whether two runs are measurements of two people, and not one measurement uploaded twice.
func apart(a, b *catalog.Entry) bool {
	return a.Owner != "" && b.Owner != "" && a.Owner != b.Owner && a.Origin == "measured" && b.Origin == "measured" &&
		a.RunID != b.RunID && (a.EventsHash == "" || a.EventsHash != b.EventsHash)
}

// sameSetUp says whether two runs are of the same weights, hardware, engine and method.
func sameSetUp(a, b *catalog.Entry) bool {
	if a.Weights != "" && b.Weights != "" && a.Weights != b.Weights {
		return false
	}
	of := func(e *catalog.Entry) [8]string {
		return [8]string{e.Model, e.Quantization, e.Hardware, e.Engine, e.EngineVersion, e.Method, e.Modified, e.Speculative}
	}
	return of(a) == of(b)
}

func (j *judge) reproduced() {
	const code, what = "reproduced", "Someone else measured the same within the intervals"
	var owners []string
	for _, e := range j.Neighbours {
		if e.Level >= catalog.SelfConsistent && Reproduces(j.Entry, e) {
			j.report.Reproducers = append(j.report.Reproducers, e.ID)
			if !slices.Contains(owners, e.Owner) {
				owners = append(owners, e.Owner)
			}
		}
	}
	if len(owners) > 0 {
		j.add(about(catalog.Reproduced, code, what).held(true, "by "+many(len(owners), "other uploader", "other uploaders")))
		return
	}
	c := unknown(catalog.Reproduced, code, what, j.whyNotReproduced())
	c.Bars = true
	j.add(c)
}

func (j *judge) whyNotReproduced() string {
	intervals := slices.ContainsFunc(j.Entry.Cells, func(c catalog.Cell) bool { return c.Half > 0 })
	others := slices.ContainsFunc(j.Neighbours, func(e *catalog.Entry) bool { return e.Owner != j.Entry.Owner })
	switch {
	case !intervals:
		return "one sample for each cell, so there is no interval to meet"
	case j.Entry.Owner == "":
		return "nobody signed in for it, so nobody can be someone else"
	case !others:
		return "nobody else has published this model on this hardware"
	}
	return "no run of another uploader has the same set-up and meets the intervals"
}
