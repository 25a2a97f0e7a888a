package report

import (
	"fmt"
	"math"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// identity is a relation between published numbers of a decode cell; ok is false where a
// number is missing. off is how far both sides are apart, as a share.
type identity struct {
	text      string
	tolerance float64
	off       func(c *speedmatrix.Cell) (off float64, ok bool)
}

var identities = []identity{
	{"tokens ÷ seconds = total", 0.005, func(c *speedmatrix.Cell) (float64, bool) {
		if value(c.OutputTokens) <= 0 || value(c.WindowSeconds) <= 0 || value(c.TotalTokensPerSecond) <= 0 {
			return 0, false
		}
		return *c.OutputTokens / *c.WindowSeconds / *c.TotalTokensPerSecond - 1, true
	}},
	{"1 ÷ time between tokens = per request", 0.01, func(c *speedmatrix.Cell) (float64, bool) {
		between, each := value(median(c.TimeBetweenTokens)), value(c.PerRequestTokensPerSecond)
		if between <= 0 || each <= 0 {
			return 0, false
		}
		return 1000/between/each - 1, true
	}},
}

// checkTrust says in how many cells the published numbers agree with each other.
func checkTrust(d *Document) Trust {
	cells := shown(d, speedmatrix.PhaseDecode)
	t := Trust{Label: "Checks"}
	var parts []string
	for _, identity := range identities {
		holds, checked := 0, 0
		for _, m := range cells {
			off, ok := identity.off(m.Cell)
			if !ok {
				continue
			}
			checked++
			// A number written with one decimal may be off by half of its last digit.
			if math.Abs(off) <= identity.tolerance+rounding(m.Cell) {
				holds++
			}
		}
		if checked > 0 {
			parts = append(parts, fmt.Sprintf("%s, within %s, in %s of %s", identity.text, unit.PercentFine(identity.tolerance), unit.Count(holds), plural(checked, "cell")))
			t.Doubt = t.Doubt || holds < checked
		}
	}
	t.Text = strings.Join(parts, "; ")
	return t
}

// rounding is what a time between tokens with one decimal leaves open, as a share.
func rounding(c *speedmatrix.Cell) float64 {
	between := value(median(c.TimeBetweenTokens))
	if between <= 0 || math.Abs(between*10-math.Round(between*10)) > 1e-6 {
		return 0
	}
	return 0.05 / between
}

// repeatTrust says how often a run without intervals measured.
func repeatTrust(run *speedmatrix.Run) Trust {
	if run.Origin != speedmatrix.OriginImported || len(run.Repeats) > 0 {
		return Trust{}
	}
	return Trust{Label: "Repeats", Text: "one window per cell, so no intervals"}
}

// missing says of an imported run what its source did not record.
func missing(run *speedmatrix.Run, list []Trust, label string) Trust {
	if run.Origin != speedmatrix.OriginImported {
		return Trust{}
	}
	for _, t := range list {
		if t.Label == label && t.Text != "" {
			return Trust{}
		}
	}
	return Trust{Label: label, Text: "not recorded by the source"}
}

// Budget is one source of error of the client and its limit.
type Budget struct{ Source, Worst, Limit, Share string }

// lateLimitMicros is how late a request may be sent before the cell counts as limited by the client.
const lateLimitMicros = 5000

// budget lists the client's errors over all windows: the worst cell of each.
func budget(d *Document) []Budget {
	if d.Run.Origin != speedmatrix.OriginMeasured {
		return nil
	}
	var lag, late, coalesced, bound, gap float64
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		if between := value(median(m.Cell.TimeBetweenTokens)); between > 0 && (gap == 0 || between < gap) {
			gap = between
		}
		if q := m.Cell.Client; q != nil {
			lag, late, coalesced = max(lag, value(q.ReaderLagP99Micros)), max(late, value(q.SendLateP99Micros)), max(coalesced, value(q.CoalescedShare))
			bound = max(bound, value(q.StampBoundP99Micros))
		}
	}
	share := func(us float64) string {
		if gap <= 0 {
			return unit.Dash
		}
		return unit.PercentFine(us / 1000 / gap)
	}
	var list []Budget
	if us := d.Run.Client.StampErrorP99Micros; us != nil {
		list = append(list, Budget{"Stamp, self-check", micros(*us), unit.Dash, share(*us)})
	}
	if bound > 0 {
		list = append(list, Budget{"Stamps that events share", "≤ " + micros(bound), unit.Dash, share(bound)})
	}
	if lag > 0 {
		list = append(list, Budget{"Reader after the stamp", micros(lag), "half a gap", share(lag)})
	}
	if late > 0 {
		list = append(list, Budget{"Requests sent late", micros(late), micros(lateLimitMicros), unit.Dash})
	}
	if len(list) > 0 {
		list = append(list, Budget{"Coalesced reads", unit.PercentFine(coalesced), "5 points over one request", unit.Dash})
		list = append(list, Budget{"Steps of the clock", unit.Count(d.Run.Client.ClockSteps), "0", unit.Dash})
	}
	return list
}
