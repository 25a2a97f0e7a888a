package trust

import (
	"fmt"
	"math"
	"slices"

	"speedmatrix/internal/catalog"
)

// What it takes for one run to reproduce another: so many cells with an interval in both, and the share of them that agree. Of
// 95 % intervals one cell in twenty misses by chance.
const (
	leastCells  = 4
	leastAgreed = 0.9
	// widest is the greatest half-width, as a share of the speed, of an interval that says anything.
	widest = 0.1
	// equivalent is the difference between two machines of one kind that is none (two one-sided tests).
	equivalent = 0.02
)

// Reproduces says whether two runs, of different uploaders, of one set-up on stock hardware, agree within their intervals. A
// cell agrees where the difference d of the totals is within the interval of a difference, d ≤ √(a² + b²) of the half-widths,
// or where that whole interval lies within 2 % of the larger total, d + √(a² + b²) ≤ 0.02 × total.
func Reproduces(a, b *catalog.Entry) bool {
	if !apart(a, b) || !sameSetUp(a, b) {
		return false
	}
	compared, agreed := agreement95(a, b)
	return compared >= leastCells && float64(agreed) >= leastAgreed*float64(compared)
}

// agreement95 counts the cells that two runs can be compared by, and those that agree.
func agreement95(a, b *catalog.Entry) (compared, agreed int) {
	for _, c := range a.Cells {
		o, ok := cellAt(b, c.Context, c.Concurrency)
		if !ok || !tells(c) || !tells(o) {
			continue
		}
		compared++
		d, interval := math.Abs(float64(c.Total-o.Total)), math.Hypot(float64(c.Half), float64(o.Half))
		if d <= interval || d+interval <= equivalent*float64(max(c.Total, o.Total)) {
			agreed++
		}
	}
	return compared, agreed
}

// tells says whether a cell has an interval that is narrow enough to be met or missed.
func tells(c catalog.Cell) bool {
	return c.Status.ShowsSpeed() && c.Total > 0 && c.Half > 0 && c.Half <= widest*c.Total
}

// apart says whether two runs are measurements of two people, and not one measurement uploaded twice.
func apart(a, b *catalog.Entry) bool {
	return a.HasOwner() && b.HasOwner() && a.Owner != b.Owner && a.Origin == "measured" && b.Origin == "measured" &&
		a.RunID != b.RunID && (a.EventsHash == "" || a.EventsHash != b.EventsHash)
}

// sameSetUp says whether two runs are of the same weights, stock hardware, engine and method. No two modified cards are alike.
func sameSetUp(a, b *catalog.Entry) bool {
	if a.Weights != "" && b.Weights != "" && a.Weights != b.Weights || a.Modified != "" || b.Modified != "" {
		return false
	}
	of := func(e *catalog.Entry) [7]string {
		return [7]string{e.Model, e.Quantization, e.Hardware, e.Engine, e.EngineVersion, e.Method, e.Speculative}
	}
	return of(a) == of(b)
}

func (j *judge) reproduced() {
	const code, what = "reproduced", "Someone else measured the same within the intervals"
	var owners []string
	cells := 0
	for _, e := range j.Neighbours {
		// One of each: who uploads twice is still one other.
		if e.Level < catalog.SelfConsistent || slices.Contains(owners, e.Owner) || !Reproduces(j.Entry, e) {
			continue
		}
		j.report.Reproducers, owners = append(j.report.Reproducers, e.ID), append(owners, e.Owner)
		_, agreed := agreement95(j.Entry, e)
		cells = max(cells, agreed)
	}
	if len(owners) > 0 {
		j.add(about(catalog.Reproduced, code, what).held(true, fmt.Sprintf("by %s, in up to %s", many(len(owners), "other uploader", "other uploaders"), many(cells, "cell", "cells"))))
		return
	}
	c := unknown(catalog.Reproduced, code, what, j.whyNotReproduced())
	c.Bars = true
	j.add(c)
}

func (j *judge) whyNotReproduced() string {
	intervals := slices.ContainsFunc(j.Entry.Cells, func(c catalog.Cell) bool { return c.Half > 0 })
	others := slices.DeleteFunc(slices.Clone(j.Neighbours), func(e *catalog.Entry) bool { return e.Owner == j.Entry.Owner })
	stock := slices.ContainsFunc(others, func(e *catalog.Entry) bool { return e.Modified == "" })
	switch {
	case !intervals:
		return "one sample for each cell, so there is no interval to meet"
	case !j.Entry.HasOwner():
		return "nobody signed in for it, so nobody can be someone else"
	case j.Entry.Modified != "" && stock:
		return "the nearest run by another uploader is on stock hardware, so it does not count even if the numbers meet"
	case j.Entry.Modified != "":
		return "the hardware is modified, and no two are modified alike"
	case len(others) == 0:
		return "nobody else has published this model on this hardware"
	case !stock:
		return "the runs of other uploaders are on modified hardware"
	}
	return "no run of another uploader has the same set-up and meets the intervals"
}
