package trust

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/capacity"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// What physics leaves room for.
const (
	ceilingTolerance = 0.02 // data sheets round
	// mostDraft is how many tokens a step is taken to give with speculative decoding whose length is not known.
	mostDraft = 16.0
)

// ceilings holds decode against the least time of a step by memory bandwidth and compute, and prefill against compute. Experts
// of a mixture are counted as one token reads them; with speculative decoding a step gives as many tokens as were accepted.
func (j *judge) ceilings() {
	const code, what = "ceiling", "Under the limits of the hardware"
	most, worst := 0.0, ""
	var beyond []string
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		share, ok := j.shareOfLimit(c)
		if !ok {
			continue
		}
		if share > most {
			most, worst = share, c.Key()
		}
		if share > 1+ceilingTolerance {
			beyond = append(beyond, c.Key())
		}
	}
	if worst == "" {
		j.add(unknown(catalog.SelfConsistent, code, what, "what a token costs, or what the hardware gives, is not known"))
		return
	}
	detail := fmt.Sprintf("at most %s of memory bandwidth or compute, at %s, counting the active experts only", unit.Percent(most), worst)
	c := about(catalog.SelfConsistent, code, what).held(len(beyond) == 0, detail)
	if len(beyond) > 0 && j.Entry.Modified != "" {
		c = c.noted(false, detail+"; the card is modified, so its data sheet does not hold")
		c.Bars = false
	}
	c.Cells = beyond
	j.add(c)
}

// shareOfLimit is a cell's speed as a share of what the hardware can give, and whether that can be said.
func (j *judge) shareOfLimit(c *speedmatrix.Cell) (share float64, ok bool) {
	if !c.Status.ShowsSpeed() {
		return 0, false
	}
	if c.Phase == speedmatrix.PhasePrefill {
		rate, ok := finite(c.PromptTokensPerSecond)
		hardware := capacity.HardwareOf(j.Run.Hardware)
		work, known := j.Run.Model.Positive(speedmatrix.ModelFLOP)
		return rate * work / (hardware.Compute * j.narrower()), ok && known && hardware.Compute > 0
	}
	per, ok := finite(c.PerRequestTokensPerSecond)
	memory, compute, known := capacity.StepBounds(j.Run, c)
	return per / j.perStep(c) * max(memory, compute/j.narrower()), ok && known
}

// narrower is how many times as fast as with 16-bit numbers, of which data sheets speak, a card may compute with the numbers
// of the run's weights: twice with 8 bits, four times with 4.
func (j *judge) narrower() float64 {
	q := strings.ToLower(j.Entry.Quantization)
	switch {
	case strings.Contains(q, "4"):
		return 4
	case strings.Contains(q, "8"):
		return 2
	}
	return 1
}

// perStep is how many tokens of a request one step of a cell gave at most.
func (j *judge) perStep(c *speedmatrix.Cell) float64 {
	if j.Entry.Speculative == "" {
		return 1
	}
	most := mostDraft
	if n, ok := drafted(j.Entry.Speculative); ok {
		most = float64(n) + 1
	}
	if accepted, ok := finite(c.AcceptedTokensPerStep); ok && accepted >= 1 {
		return min(accepted, most)
	}
	return most
}

// ofTokens ends the words for a method of speculative decoding: "eagle3, 5 tokens".
var ofTokens = regexp.MustCompile(`([0-9]{1,4}) tokens?$`)

// drafted is how many tokens are drafted for a step.
func drafted(speculative string) (n int, ok bool) {
	m := ofTokens.FindStringSubmatch(speculative)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// drafts holds the accepted tokens of a step against those that were drafted: no step gives more than all of them and one of
// its own, and without drafts it gives one.
func (j *judge) drafts() {
	const code, what = "drafts", "Accepted tokens were drafted"
	var beyond []string
	n, most := 0, 1.0
	if j.Entry.Speculative != "" {
		most = mostDraft
		if drafts, ok := drafted(j.Entry.Speculative); ok {
			most = float64(drafts) + 1
		}
	}
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		accepted, ok := finite(c.AcceptedTokensPerStep)
		if !ok || !c.Status.ShowsSpeed() {
			continue
		}
		n++
		if accepted > most*1.01 {
			beyond = append(beyond, c.Key())
		}
	}
	switch {
	case n == 0 && j.Entry.Speculative == "":
		j.add(about(catalog.SelfConsistent, code, what).noted(true, "no speculative decoding, and nothing says otherwise"))
	case n == 0:
		j.add(unknown(catalog.SelfConsistent, code, what, "how many were accepted is not recorded ("+j.Entry.Speculative+")"))
	default:
		c := about(catalog.SelfConsistent, code, what).held(len(beyond) == 0, fmt.Sprintf("at most %s of a step in %s", unit.Fixed(most, 0), many(n, "cell", "cells")))
		if len(beyond) > 0 {
			c.Detail, c.Cells = fmt.Sprintf("more than the %s that a step can give in %s", unit.Fixed(most, 0), many(len(beyond), "cell", "cells")), beyond
		}
		j.add(c)
	}
}
