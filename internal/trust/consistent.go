package trust

import (
	"fmt"
	"math"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// How far numbers that follow from each other may be apart, as a share of the published one.
const (
	totalTolerance      = 0.005 // output tokens ÷ seconds and total tok/s: rounding alone
	perRequestTolerance = 0.01  // 1 ÷ median time between tokens and median per request tok/s
	sumTolerance        = 0.02  // per request × requests and total: a median is not a mean
	sumBars             = 0.15  // beyond this the two cannot be of one cell
	prefillTolerance    = 0.03  // prompt tok/s × TTFT and the prompt's length
	riseTolerance       = 0.03  // a total may fall by this much with more requests
	// robustLimit is the robust z-score beyond which a cell lies outside its neighbours (Iglewicz and Hoaglin, 1993).
	robustLimit   = 3.5
	leastPeers    = 4
	madOfStandard = 0.6745
)

// consistent checks whether the numbers agree with each other and with physics.
func (j *judge) consistent() {
	j.identities()
	j.rises()
	j.ceilings()
	j.drafts()
	j.fits()
	j.budget()
	j.queues()
	j.loops()
	j.tokens()
	j.prompts()
	j.cold()
	j.neighbours()
}

// gap is how far two numbers are apart, as a share of the published one.
type gap struct {
	cell  string
	share float64
}

// agreement words how many of the gaps lie within a tolerance.
func agreement(gaps []gap, tolerance float64, places string) (ok bool, detail string, beyond []string) {
	within, worst := 0, gap{}
	for _, g := range gaps {
		if math.Abs(g.share) <= tolerance {
			within++
		} else {
			beyond = append(beyond, g.cell)
		}
		if math.Abs(g.share) > math.Abs(worst.share) {
			worst = g
		}
	}
	detail = fmt.Sprintf("within %s in %d of %d %s", unit.PercentFine(tolerance), within, len(gaps), places)
	if len(beyond) > 0 {
		detail += fmt.Sprintf(", up to %s off at %s", unit.PercentFine(math.Abs(worst.share)), worst.cell)
	}
	return len(beyond) == 0, detail, beyond
}

// identity is a check of two numbers that follow from each other.
func (j *judge) identity(code, what string, tolerance float64, gaps []gap) {
	if len(gaps) == 0 {
		j.add(unknown(catalog.SelfConsistent, code, what, "no cell has both"))
		return
	}
	places := "cells"
	if code == "identity-prefill" {
		places = "contexts"
	}
	ok, detail, beyond := agreement(gaps, tolerance, places)
	c := about(catalog.SelfConsistent, code, what).held(ok, detail)
	c.Cells = beyond
	j.add(c)
}

func (j *judge) identities() {
	var total, each, sum, prefill []gap
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if !c.Status.ShowsSpeed() {
			continue
		}
		if c.Phase == speedmatrix.PhasePrefill {
			prefill = append(prefill, prefillGap(c)...)
			continue
		}
		all, ok := finite(c.TotalTokensPerSecond)
		if !ok || all <= 0 {
			continue
		}
		if tokens, ok := finite(c.OutputTokens); ok && c.WindowSeconds != nil && *c.WindowSeconds > 0 {
			total = append(total, gap{c.Key(), tokens / *c.WindowSeconds / all - 1})
		}
		per, ok := finite(c.PerRequestTokensPerSecond)
		if !ok || per <= 0 {
			continue
		}
		sum = append(sum, gap{c.Key(), per*float64(c.Concurrency)/all - 1})
		if c.TimeBetweenTokens != nil {
			if between, ok := finite(c.TimeBetweenTokens.P50); ok && between > 0 {
				each = append(each, gap{c.Key(), 1000/between/per - 1})
			}
		}
	}
	j.identity("identity-total", "Tokens ÷ seconds = total", totalTolerance, total)
	j.identity("identity-per-request", "1 ÷ time between tokens = per request", perRequestTolerance, each)
	j.sums(sum)
	j.identity("identity-prefill", "Prefill rate × TTFT = prompt length", prefillTolerance, prefill)
}

// sums compares per request × requests with the total: a median of streams is no mean, and the two may cover other spans of
// time, so only what no such difference explains keeps the run from its level.
func (j *judge) sums(gaps []gap) {
	const code, what = "identity-sum", "Per request × requests = total"
	if len(gaps) == 0 {
		j.add(unknown(catalog.SelfConsistent, code, what, "no cell has both"))
		return
	}
	ok, detail, beyond := agreement(gaps, sumTolerance, "cells")
	if !ok {
		detail += ": the two columns are a median and a sum, and may cover different spans of time"
	}
	c := about(catalog.SelfConsistent, code, what).noted(ok, detail)
	c.Cells = beyond
	c.Bars = slices.ContainsFunc(gaps, func(g gap) bool { return math.Abs(g.share) > sumBars && !j.queued(g.cell) })
	j.add(c)
}

// queued says whether requests of a cell waited, so that not all of them produced at once.
func (j *judge) queued(key string) bool {
	for i := range j.Run.Cells {
		if j.Run.Cells[i].Key() == key {
			return j.Run.Cells[i].Status == speedmatrix.StatusRequestsQueued
		}
	}
	return false
}

func prefillGap(c *speedmatrix.Cell) []gap {
	rate, ok := finite(c.PromptTokensPerSecond)
	if !ok || c.TTFT == nil {
		return nil
	}
	ttft, ok := finite(c.TTFT.P50)
	if !ok {
		return nil
	}
	length := float64(c.Context)
	if tokens, ok := finite(c.PromptTokens); ok {
		length = tokens
	}
	if length < 1024 {
		return nil
	}
	return []gap{{c.Key(), rate*ttft/1000/length - 1}}
}

// rises looks at each context: more requests give more tokens in total, up to where the machine is full, and each gets
// fewer.
func (j *judge) rises() {
	const code, what = "rises", "Total rises with requests"
	cells := slices.Clone(j.Entry.Cells)
	slices.SortFunc(cells, func(a, b catalog.Cell) int {
		if a.Context != b.Context {
			return a.Context - b.Context
		}
		return a.Concurrency - b.Concurrency
	})
	var falls, faster []string
	pairs := 0
	for i := 1; i < len(cells); i++ {
		a, b := cells[i-1], cells[i]
		if a.Context != b.Context || math.IsNaN(float64(a.Total)) || math.IsNaN(float64(b.Total)) {
			continue
		}
		pairs++
		key := speedmatrix.CellKey(speedmatrix.PhaseDecode, b.Label, b.Concurrency)
		if b.Total < a.Total*(1-riseTolerance) {
			falls = append(falls, key)
		}
		if b.PerRequest > a.PerRequest*1.1 {
			faster = append(faster, key)
		}
	}
	switch {
	case pairs == 0:
		j.add(unknown(catalog.SelfConsistent, code, what, "no context has two cells with a number"))
	case len(faster) > 0:
		c := about(catalog.SelfConsistent, code, what).held(false, "each request is faster among more of them in "+many(len(faster), "cell", "cells"))
		c.Cells = faster
		j.add(c)
	case len(falls) > 0:
		c := about(catalog.SelfConsistent, code, what).noted(false, "it falls at "+many(len(falls), "cell", "cells")+": beyond the knee, or something else ran")
		c.Cells = falls
		j.add(c)
	default:
		j.add(about(catalog.SelfConsistent, code, what).noted(true, "at every context, up to the last cell that ran"))
	}
}
