package trust

import (
	"fmt"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// queues finds cells that say that requests waited although all of them ran.
func (j *judge) queues() {
	const code, what = "queued", "Requests queued where that can be"
	n := 0
	var doubtful []string
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if c.Status != speedmatrix.StatusRequestsQueued {
			continue
		}
		n++
		active, ok := finite(c.ActiveRequestsMean)
		if waited, known := finite(c.QueuedShare); !ok || known && waited > 0 || active < 0.995*float64(c.Concurrency) {
			continue
		}
		why := fmt.Sprintf("“Requests queued” says that some requests had to wait; %s sent and %s ran on average, so none can have waited",
			map[bool]string{true: "one request was", false: unit.Count(c.Concurrency) + " requests were"}[c.Concurrency == 1], unit.Fixed(active, 1))
		doubtful = append(doubtful, c.Key())
		j.report.Doubts = append(j.report.Doubts, Doubt{Cell: c.Key(), Why: why})
	}
	switch {
	case len(doubtful) > 0:
		c := about(catalog.SelfConsistent, code, "Requests queued in "+many(len(doubtful), "cell", "cells")).held(false, "cannot be true as written")
		c.Cells = doubtful
		j.add(c)
	case n == 0:
		j.add(about(catalog.SelfConsistent, code, what).noted(true, "no cell says that requests waited"))
	default:
		j.add(about(catalog.SelfConsistent, code, what).noted(true, many(n, "cell", "cells")+", in each fewer ran than were sent, or the wait was seen"))
	}
	if len(j.Corrected) > 0 {
		c := about(catalog.SelfConsistent, "corrected", "Labels are those of the source").noted(false, "label corrected by the uploader in "+many(len(j.Corrected), "cell", "cells")+"; the first one stays in the history")
		c.Cells = j.Corrected
		j.add(c)
	}
}

// prompts says what prompts were sent, and whether what is called cold was.
func (j *judge) prompts() {
	const code, what = "prompts", "Distinct prompts"
	switch j.Run.Method.Prompts {
	case "distinct":
		j.add(about(catalog.SelfConsistent, code, what).noted(true, "every stream has a text of its own that the server had not seen"))
	case "":
		j.add(unknown(catalog.SelfConsistent, code, what, "not recorded by the source"))
	default:
		j.add(unknown(catalog.SelfConsistent, code, what, "requests at once shared a prompt ("+j.Run.Method.Prompts+"); what the cache saved is not known"))
	}
}

// cold checks that a prefill that is called cold was: that nothing of its prompt came from a cache.
func (j *judge) cold() {
	const code, what = "cold", "Prefill was cold"
	var warm []string
	n := 0
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if c.Phase != speedmatrix.PhasePrefill || !c.Status.ShowsSpeed() {
			continue
		}
		cached, ok := finite(c.CachedTokens)
		if ok {
			n++
		}
		if ok && cached > 0.05*float64(c.Context)+512 || c.TTFTKind == speedmatrix.TTFTWarm || c.TTFTKind == speedmatrix.TTFTMixed {
			warm = append(warm, c.Key())
		}
	}
	if n == 0 && len(warm) == 0 {
		j.add(unknown(catalog.SelfConsistent, code, what, "the server did not say what it had cached"))
		return
	}
	c := about(catalog.SelfConsistent, code, what).held(len(warm) == 0, "the server had nothing of the prompts cached, at "+many(n, "context", "contexts"))
	if len(warm) > 0 {
		c.Detail, c.Cells = "part of the prompt was cached at "+many(len(warm), "context", "contexts"), warm
	}
	j.add(c)
}

// loops looks for cells in which so many streams repeated themselves that they are Looped, and that show a speed all the same.
func (j *judge) loops() {
	const code, what = "loops", "No text that repeats itself"
	var looping []string
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		streams := map[int]bool{}
		for _, l := range c.Loops {
			streams[l.Stream] = true
		}
		if c.Status.ShowsSpeed() && len(streams) >= max(1, c.Concurrency/4) && len(streams) > 0 {
			looping = append(looping, c.Key())
		}
	}
	looped := j.count(speedmatrix.StatusLooped)
	switch {
	case len(looping) > 0:
		c := about(catalog.SelfConsistent, code, what).held(false, "a quarter of the streams or more looped in "+many(len(looping), "cell", "cells")+" with a number: those are Looped")
		c.Cells = looping
		j.add(c)
	case looped > 0:
		j.add(about(catalog.SelfConsistent, code, what).noted(true, many(looped, "cell is", "cells are")+" Looped and without a number"))
	case j.Run.Origin == speedmatrix.OriginImported:
		j.add(unknown(catalog.SelfConsistent, code, what, "the source does not say whether it looked"))
	default:
		j.add(about(catalog.SelfConsistent, code, what).noted(true, "looked for in every stream"))
	}
}

// tokens says how output was counted where that is not by the server's own count.
func (j *judge) tokens() {
	const code, what = "tokens", "Tokens were counted"
	var events []string
	n := 0
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if c.Phase != speedmatrix.PhaseDecode || !c.Status.ShowsSpeed() || c.TokenSource == "" {
			continue
		}
		n++
		if c.TokenSource == speedmatrix.TokensEvents {
			events = append(events, c.Key())
		}
	}
	if n == 0 {
		j.add(unknown(catalog.SelfConsistent, code, what, "how is not recorded by the source"))
		return
	}
	c := about(catalog.SelfConsistent, code, what).noted(len(events) == 0, "by the server or its tokenizer in "+many(n, "cell", "cells"))
	if len(events) > 0 {
		c.Detail, c.Cells = "only events were counted in "+many(len(events), "cell", "cells")+": their speeds are lower bounds", events
	}
	j.add(c)
}
