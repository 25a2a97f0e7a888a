package trust

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
	"speedmatrix/internal/verify"
)

// Input is what a run is judged by.
type Input struct {
	Run *speedmatrix.Run
	// Recomputed is what the raw rows gave, nil without any.
	Recomputed *verify.Report
	// Entry is the run as the site would list it, with its owner.
	Entry *catalog.Entry
	// Neighbours are listed runs of the same model on the same hardware.
	Neighbours []*catalog.Entry
	// SameRows are the IDs of other runs with the same raw rows, SameName of those that call themselves the same run.
	SameRows, SameName []string
	// Corrected are the keys of cells whose doubtful label the uploader corrected or took back.
	Corrected []string
}

// judge collects the checks of a run.
type judge struct {
	Input
	report Report
}

// Evaluate makes all checks.
func Evaluate(in Input) Report {
	j := &judge{Input: in}
	j.stated()
	j.complete()
	j.recomputed()
	j.consistent()
	j.reproduced()
	j.report.conclude()
	return j.report
}

// conclude gives the level that the checks leave, and what the next one would take.
func (r *Report) conclude() {
	r.Level = catalog.Reproduced
	for _, c := range r.Checks {
		if c.Bars {
			r.Level = min(r.Level, c.Level-1)
		}
	}
	r.Level = max(r.Level, catalog.Stated)
	r.ToReach = r.toReach()
}

// Reproduce looks again by whom a run was reproduced, when others came or went.
func (r *Report) Reproduce(e *catalog.Entry, neighbours []*catalog.Entry) {
	r.Checks = slices.DeleteFunc(r.Checks, func(c Check) bool { return c.Level == catalog.Reproduced })
	r.Reproducers = nil
	j := &judge{Input: Input{Entry: e, Neighbours: neighbours}, report: *r}
	j.reproduced()
	j.report.conclude()
	*r = j.report
}

func (j *judge) add(c Check) { j.report.Checks = append(j.report.Checks, c) }

// about begins a check.
func about(level catalog.Level, code, what string) Check {
	return Check{Level: level, Code: code, What: what}
}

// held gives the check as passed, or as having found something that keeps the run from its level.
func (c Check) held(ok bool, detail string) Check {
	c = c.noted(ok, detail)
	c.Bars = !ok
	return c
}

// noted gives the check as passed, or as having found something that costs nothing but its mention.
func (c Check) noted(ok bool, detail string) Check {
	c.Outcome, c.Detail = Passed, detail
	if !ok {
		c.Outcome = Found
	}
	return c
}

func unknown(level catalog.Level, code, what, why string) Check {
	return Check{Level: level, Code: code, What: what, Outcome: Unknown, Detail: why}
}

func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return unit.Count(n) + " " + more
}

func (j *judge) stated() {
	what := "Read as " + j.Run.Schema
	if j.Entry.Source != "" {
		what = "Read as results of " + j.Entry.Source
	}
	j.add(about(catalog.Stated, "read", what).held(true, many(len(j.Run.Cells), "cell", "cells")+", 0 fields unknown, 0 fields dropped"))
	switch {
	case len(j.SameRows) > 0:
		j.add(about(catalog.Stated, "new", "Not here already").noted(false, "the same raw rows are here as "+strings.Join(j.SameRows, ", ")))
	case len(j.SameName) > 0:
		j.add(about(catalog.Stated, "new", "Not here already").noted(false, "this run is here as "+strings.Join(j.SameName, ", ")+" with other numbers: one of the two was edited"))
	default:
		j.add(about(catalog.Stated, "new", "Not here already").held(true, "its rows are new; "+many(len(j.Neighbours), "other run", "other runs")+" of this model on this hardware"))
	}
}

func (j *judge) complete() {
	var missing []string
	for _, f := range []struct{ name, value string }{
		{"model", j.Run.Model.Text(speedmatrix.ModelName) + j.Run.Model.Text(speedmatrix.ModelServedName)},
		{"hardware", j.Run.Hardware.Text(speedmatrix.HardwareGPU) + j.Run.Hardware.Text(speedmatrix.HardwareCPU)},
		{"engine", j.Run.Engine.Text(speedmatrix.EngineName)}, {"version", j.Entry.EngineVersion}, {"launch command", launchCommand(j.Run)},
	} {
		if f.value == "" {
			missing = append(missing, f.name)
		}
	}
	const facts = "Model, hardware, engine, version, launch command"
	if len(missing) == 0 {
		j.add(about(catalog.Complete, "facts", facts).held(true, "all present"))
	} else {
		j.add(about(catalog.Complete, "facts", facts).held(false, "missing: "+strings.Join(missing, ", ")+". Nobody can measure it again without them"))
	}
	j.reasons()
	j.planned()
	j.revision()
	if j.Entry.Modified == "" {
		j.add(about(catalog.Complete, "stock", "Stock hardware").noted(true, "nothing says that it was changed"))
	} else {
		j.add(about(catalog.Complete, "stock", "Card is modified").noted(false, j.Entry.Modified+". The run is kept apart from stock hardware on every board"))
	}
	j.throttling()
}

func launchCommand(run *speedmatrix.Run) string {
	if run.LaunchCommand == nil {
		return ""
	}
	text, _ := run.LaunchCommand.Value.(string)
	return text
}

func (j *judge) reasons() {
	count := map[speedmatrix.Status]int{}
	var silent []string
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if c.Status.ShowsSpeed() {
			continue
		}
		count[c.Status]++
		if c.Reason == "" && c.Status != speedmatrix.StatusLooped && j.Run.Origin == speedmatrix.OriginMeasured {
			silent = append(silent, c.Key())
		}
	}
	var words []string
	for _, s := range speedmatrix.Statuses() {
		if count[s] > 0 {
			words = append(words, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	detail := strings.Join(words, ", ")
	if detail == "" {
		detail = "every cell has its number"
	}
	const what = "Cells without a number have a reason"
	c := about(catalog.Complete, "reasons", what).held(len(silent) == 0, detail)
	if len(silent) > 0 {
		c.Detail, c.Cells = "no reason in "+many(len(silent), "cell", "cells"), silent
	}
	j.add(c)
}

// planned looks for cells and repeats that were planned and are not there.
func (j *judge) planned() {
	p := j.Run.Plan
	const what = "Everything planned is published"
	if len(p.Contexts) == 0 || len(p.Concurrency) == 0 {
		j.add(unknown(catalog.Complete, "planned", what, "the plan was not recorded by the source"))
		return
	}
	have := map[[2]int]bool{}
	for _, c := range j.Entry.Cells {
		have[[2]int{c.Context, c.Concurrency}] = true
	}
	missing := 0
	for _, context := range p.Contexts {
		for _, n := range p.Concurrency {
			if !have[[2]int{context, n}] {
				missing++
			}
		}
	}
	unpublished := max(0, j.Run.Method.Repeat-1-len(j.Run.Repeats))
	switch {
	case missing > 0:
		j.add(about(catalog.Complete, "planned", what).held(false, many(missing, "planned cell is", "planned cells are")+" not among those published"))
	case unpublished > 0 && j.Run.Ended == "":
		j.add(about(catalog.Complete, "planned", what).held(false, many(unpublished, "planned repeat is", "planned repeats are")+" not published"))
	default:
		j.add(about(catalog.Complete, "planned", what).held(true, many(len(p.Contexts)*len(p.Concurrency), "cell", "cells")+", "+many(1+len(j.Run.Repeats), "measurement", "measurements")+" of each"))
	}
}

func (j *judge) revision() {
	revision := j.Run.Model.Text(speedmatrix.ModelRevision)
	switch {
	case j.Entry.Weights != "":
		j.add(about(catalog.Complete, "revision", "Weights are named by a hash").noted(true, j.Entry.Weights))
	case revision == "":
		j.add(unknown(catalog.Complete, "revision", "Weights are named by a hash", "no revision is known"))
	default:
		j.add(about(catalog.Complete, "revision", "Revision is a moving name").noted(false, revision+" can point to other weights tomorrow. Give the commit, or a hash of the files"))
	}
}

func (j *judge) throttling() {
	const what = "Clocks and throttling"
	if j.Run.Telemetry == nil {
		j.add(unknown(catalog.Complete, "throttling", what, "not recorded"))
		return
	}
	var slowed []string
	known := false
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if c.Throttle == nil {
			continue
		}
		known = true
		if c.Throttle.Verdict == speedmatrix.ThrottleHardware || c.Throttle.Verdict == speedmatrix.ThrottleThermal {
			slowed = append(slowed, c.Key())
		}
	}
	switch {
	case !known:
		j.add(unknown(catalog.Complete, "throttling", what, "not measured on this hardware"))
	case len(slowed) > 0:
		c := about(catalog.Complete, "throttling", what).noted(false, "the card was slowed down in "+many(len(slowed), "cell", "cells"))
		c.Cells = slowed
		j.add(c)
	default:
		j.add(about(catalog.Complete, "throttling", what).noted(true, "sampled, and nothing slowed the card down"))
	}
}

func (j *judge) recomputed() {
	const what, client = "Every published number", "Error of the measuring client"
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
	if e := j.Run.Client.StampErrorP99Micros; e != nil {
		detail := "times are right to " + unit.Fixed(*e, 0) + " µs at p99, measured against its own ground truth"
		if n := j.count(speedmatrix.StatusClientLimited); n > 0 {
			detail += "; " + many(n, "cell is", "cells are") + " Client limited and without a number"
		}
		j.add(about(catalog.Recomputed, "client", client).noted(true, detail))
	} else {
		j.add(unknown(catalog.Recomputed, "client", client, "not recorded"))
	}
}

func recomputedCheck(what string, r *verify.Report) Check {
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

func (j *judge) count(s speedmatrix.Status) (n int) {
	for i := range j.Run.Cells {
		if j.Run.Cells[i].Status == s {
			n++
		}
	}
	return n
}

// toReach says what the first thing is that keeps the run from the next level.
func (r *Report) toReach() string {
	for _, c := range r.Checks {
		if !c.Bars || c.Level != r.Level+1 {
			continue
		}
		switch c.Code {
		case "recomputed":
			if c.Outcome == Unknown {
				return "To reach Recomputed, measure once with raw events: speedmatrix run --method standard/1."
			}
			return "To reach Recomputed, publish the numbers that the rows give: speedmatrix verify names those that differ."
		case "reproduced":
			return "To be called Reproduced, someone else has to measure the same model, engine and version on the same hardware, with repeats."
		}
		return "To reach " + c.Level.String() + ": " + c.Detail + "."
	}
	return ""
}

func finite(v *float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return 0, false
	}
	return *v, true
}
