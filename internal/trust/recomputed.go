package trust

import (
	"fmt"
	"math"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
	"speedmatrix/internal/verify"
)

// recomputed checks whether the raw rows give the published numbers.
func (j *judge) recomputed() {
	const what = "Every published number"
	if j.Run.Origin != speedmatrix.OriginMeasured || j.Recomputed == nil {
		why := "no raw events were uploaded"
		switch j.Run.Origin {
		case speedmatrix.OriginImported:
			why = "cannot be recomputed from another tool's table"
		case speedmatrix.OriginPredicted:
			why = "predicted, not measured"
		}
		c := unknown(catalog.Recomputed, "recomputed", what, why)
		c.Bars = true
		j.add(c)
	} else {
		j.add(recomputedCheck(what, j.Recomputed))
	}
	j.client()
}

// largestStampError is the self-check's error in µs beyond which times between tokens are in doubt: a tenth of the 10 ms at
// which a fast server's tokens come.
const largestStampError = 1000

// client checks how well the times were taken.
func (j *judge) client() {
	const what = "Error of the measuring client"
	c := about(catalog.Recomputed, "client", what)
	e, ok := finite(j.Run.Client.StampErrorP99Micros)
	if !ok {
		j.add(unknown(catalog.Recomputed, "client", what, "not recorded"))
		return
	}
	detail := "times are right to " + unit.Fixed(e, 0) + " µs at p99, measured against its own ground truth"
	var limited []string
	for i := range j.Run.Cells {
		if j.Run.Cells[i].Status == speedmatrix.StatusClientLimited {
			limited = append(limited, j.Run.Cells[i].Key())
		}
	}
	if len(limited) > 0 {
		detail += "; " + many(len(limited), "cell is", "cells are") + " Client limited and without a number"
	}
	if n := j.Run.Client.ClockSteps; n > 0 {
		detail += "; the clock stepped " + many(n, "time", "times")
	}
	c = c.noted(math.Abs(e) <= largestStampError && len(limited) == 0 && j.Run.Client.ClockSteps == 0, detail)
	c.Cells = limited
	j.add(c)
}

func recomputedCheck(what string, r *verify.Report) Check {
	if r.Cells == 0 || r.Numbers == 0 {
		c := unknown(catalog.Recomputed, "recomputed", what, "no cell with a number has raw events")
		c.Bars = true
		return c
	}
	if len(r.Disagreements) == 0 && len(r.Unchecked) == 0 {
		return about(catalog.Recomputed, "recomputed", what).held(true, fmt.Sprintf("%s in %s, again from the raw events", many(r.Numbers, "number", "numbers"), many(r.Cells, "cell", "cells")))
	}
	c := about(catalog.Recomputed, "recomputed", what).held(false, "")
	var words []string
	for _, d := range r.Disagreements {
		if d.Cell != "" && (len(c.Cells) == 0 || c.Cells[len(c.Cells)-1] != d.Cell) {
			c.Cells = append(c.Cells, d.Cell)
		}
		if len(words) < 3 {
			words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s is published as %s, the rows give %s", d.Cell, d.Field, d.Published, d.Recomputed)))
		}
	}
	if n := len(r.Disagreements); n > len(words) {
		words = append(words, many(n-len(words), "more", "more"))
	}
	if n := len(r.Unchecked); n > 0 {
		words = append(words, many(n, "cell has", "cells have")+" numbers and no rows")
	}
	c.Detail = strings.Join(words, "; ")
	return c
}
