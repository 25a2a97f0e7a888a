package trust

import (
	"math"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/stats"
)

// neighbours flags cells far from those of others with the same set-up.
func (j *judge) neighbours() {
	const code, what = "neighbours", "Near others' runs of this set-up"
	others := slices.DeleteFunc(slices.Clone(j.Neighbours), func(e *catalog.Entry) bool {
		return e.Owner == j.Entry.Owner || e.Engine != j.Entry.Engine || e.Method != j.Entry.Method || e.Quantization != j.Entry.Quantization ||
			e.Modified != j.Entry.Modified || e.Speculative != j.Entry.Speculative
	})
	if len(others) < leastPeers {
		j.add(unknown(catalog.SelfConsistent, code, what, many(len(others), "run", "runs")+" by others, too few to say"))
		return
	}
	var far []string
	compared := 0
	for _, c := range j.Entry.Cells {
		z, ok := robustScore(c, others)
		if !ok {
			continue
		}
		compared++
		if z > robustLimit {
			far = append(far, speedmatrix.CellKey(speedmatrix.PhaseDecode, c.Label, c.Concurrency))
		}
	}
	c := about(catalog.SelfConsistent, code, what).noted(len(far) == 0, many(compared, "cell", "cells")+" against "+many(len(others), "run", "runs"))
	if len(far) > 0 {
		c.Detail, c.Cells = many(len(far), "cell lies", "cells lie")+" outside: something differs that the facts do not say", far
	}
	j.add(c)
}

// robustScore says how far a cell's total lies from those of others, in robust standard deviations of their logarithms; ok
// is false where too few have it.
func robustScore(c catalog.Cell, others []*catalog.Entry) (z float64, ok bool) {
	var values []float64
	for _, e := range others {
		if o, ok := cellAt(e, c.Context, c.Concurrency); ok && o.Total > 0 {
			values = append(values, math.Log(float64(o.Total)))
		}
	}
	if len(values) < leastPeers || !(c.Total > 0) {
		return 0, false
	}
	middle := stats.Median(values)
	for i := range values {
		values[i] = math.Abs(values[i] - middle)
	}
	spread := max(stats.Median(values)/madOfStandard, 0.01)
	return math.Abs(math.Log(float64(c.Total))-middle) / spread, true
}

func cellAt(e *catalog.Entry, context, concurrency int) (catalog.Cell, bool) {
	for _, c := range e.Cells {
		if c.Context == context && c.Concurrency == concurrency {
			return c, true
		}
	}
	return catalog.Cell{}, false
}
