package trust

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// serverLimits are what the server runs at most; 0 is not known.
type serverLimits struct{ length, running, budget float64 }

// limits are the server's own, or those that its launch command set.
func (j *judge) limits() (l serverLimits) {
	var ok bool
	if l.length, ok = j.Run.Model.Positive(speedmatrix.ModelMaxLength); !ok {
		l.length = j.flag("--max-model-len", "--context-length")
	}
	if l.running, ok = j.Run.Engine.Positive(speedmatrix.EngineRunningLimit); !ok {
		l.running = j.flag("--max-num-seqs", "--max-running-requests")
	}
	l.budget, _ = j.Run.Engine.Positive(speedmatrix.EngineKVTokens)
	return l
}

// flag is the number behind one of the launch command's flags, 0 without one.
func (j *judge) flag(names ...string) float64 {
	for _, f := range j.Entry.Flags {
		name, value, _ := strings.Cut(strings.Replace(f, "=", " ", 1), " ")
		for _, n := range names {
			if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); name == n && err == nil && v > 0 {
				return v
			}
		}
	}
	return 0
}

// fits holds cells with a number against the model's length, the server's limit of running requests and its KV budget.
func (j *judge) fits() {
	const code, what = "fits", "Within the server's length, limit and KV cache"
	l := j.limits()
	if l == (serverLimits{}) {
		j.add(unknown(catalog.SelfConsistent, code, what, "none of them is known"))
		return
	}
	var beyond []string
	for i := range j.Run.Cells {
		if c := &j.Run.Cells[i]; c.Status.ShowsSpeed() && !j.fit(c, l) {
			beyond = append(beyond, c.Key())
		}
	}
	c := about(catalog.SelfConsistent, code, what).held(len(beyond) == 0, "every cell with a number fits "+l.words())
	if len(beyond) > 0 {
		c.Detail, c.Cells = many(len(beyond), "cell has", "cells have")+" a number and cannot have fitted "+l.words(), beyond
	}
	j.add(c)
}

// words names the limits that are known.
func (l serverLimits) words() string {
	var words []string
	for _, x := range []struct {
		v    float64
		what string
	}{{l.length, "tokens of length"}, {l.running, "requests at once"}, {l.budget, "tokens of KV cache"}} {
		if x.v > 0 {
			words = append(words, unit.Count(int64(x.v))+" "+x.what)
		}
	}
	return "(" + strings.Join(words, ", ") + ")"
}

// fit says whether a cell with a number can have run within the limits.
func (j *judge) fit(c *speedmatrix.Cell, l serverLimits) bool {
	need := float64(c.Context)
	if c.ContextTokens != nil {
		need = max(need, c.ContextTokens.Start)
	}
	if l.length > 0 && float64(c.Context) > l.length {
		return false
	}
	if c.Phase != speedmatrix.PhaseDecode || c.Status != speedmatrix.StatusValid {
		return true
	}
	if l.running > 0 && float64(c.Concurrency) > l.running {
		return false
	}
	return l.budget <= 0 || j.Run.Method.Prompts != "distinct" || need*float64(c.Concurrency) <= l.budget*1.01
}

// budget looks for one KV budget by which every cell that was not run had to be left out, and every cell that ran had room.
func (j *judge) budget() {
	const code, what = "budget", "One KV budget explains every Over capacity"
	reserved := j.Run.Method.KVPlan == "reserve"
	if !reserved && j.Run.Method.Prompts != "distinct" {
		j.add(unknown(catalog.SelfConsistent, code, what, "the rule by which cells were left out is not recorded"))
		return
	}
	ran, refused, refusals := 0.0, math.Inf(1), 0
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if c.Phase != speedmatrix.PhaseDecode {
			continue
		}
		n, context, output := float64(c.Concurrency), float64(c.Context), float64(j.Run.Method.MaxOutput)
		switch {
		case c.Status == speedmatrix.StatusOverCapacity:
			refusals++
			refused = min(refused, n*(context+output))
		case c.Status.ShowsSpeed() && reserved:
			ran = max(ran, n*(context+output))
		case c.Status.ShowsSpeed():
			ran = max(ran, n*context)
		}
	}
	switch {
	case refusals == 0:
		j.add(about(catalog.SelfConsistent, code, what).noted(true, "no cell is Over capacity"))
	case ran >= refused:
		j.add(about(catalog.SelfConsistent, code, what).noted(false, fmt.Sprintf("a cell that ran needed %s tokens, and one that needed %s was left out",
			unit.Count(int64(ran)), unit.Count(int64(refused)))))
	default:
		j.add(about(catalog.SelfConsistent, code, what).noted(true, fmt.Sprintf("between %s and %s tokens, in %s", unit.Count(int64(ran)), unit.Count(int64(refused)), many(refusals, "cell", "cells"))))
	}
}
