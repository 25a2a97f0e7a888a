package trust

import (
	"fmt"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/catalog"
)

// complete checks whether what is needed to measure the run again is there.
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
		j.add(about(catalog.Complete, "facts", facts).held(true, j.present()))
	} else {
		j.add(about(catalog.Complete, "facts", facts).held(false, "missing: "+strings.Join(missing, ", ")+". Nobody can measure it again without them"))
	}
	j.reasons()
	j.planned()
	j.revision()
	switch j.Entry.Modified {
	case "":
		j.add(about(catalog.Complete, "stock", "Stock hardware").noted(true, "nothing says that it was changed"))
	case catalog.SimulatedEngine:
		j.add(about(catalog.Complete, "stock", "Engine is simulated").noted(false, "no hardware did this work: the numbers are those of a profile. The run is kept apart from hardware on every board"))
	default:
		j.add(about(catalog.Complete, "stock", "Card is modified").noted(false, j.Entry.Modified+". The run is kept apart from stock hardware on every board"))
	}
	j.throttling()
}

// present says what was read of the launch command, and whether the build that ran is known.
func (j *judge) present() string {
	build := j.Run.Engine.Text(speedmatrix.EngineBuild)
	if build == "" {
		build = "no image or build is named"
	}
	return "all present; " + many(len(j.Entry.Flags), "flag", "flags") + " read from the command; " + build
}

func launchCommand(run *speedmatrix.Run) string {
	if run.LaunchCommand == nil {
		return ""
	}
	text, _ := run.LaunchCommand.Value.(string)
	return text
}

// reasons wants every cell to have its number or to say why not.
func (j *judge) reasons() {
	const what = "Cells without a number have a reason"
	var silent, empty []string
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		switch {
		case c.Status.ShowsSpeed():
			if _, ok := speedOf(c); !ok && !slices.Contains(j.Corrected, c.Key()) {
				empty = append(empty, c.Key())
			}
		case c.Reason == "" && j.Run.Origin != speedmatrix.OriginImported:
			silent = append(silent, c.Key())
		}
	}
	c := about(catalog.Complete, "reasons", what).held(len(silent)+len(empty) == 0, j.statuses())
	switch {
	case len(empty) > 0:
		c.Detail, c.Cells = many(len(empty), "cell is", "cells are")+" said to have a number and has none", empty
	case len(silent) > 0:
		c.Detail, c.Cells = "no reason in "+many(len(silent), "cell", "cells"), silent
	}
	j.add(c)
}

// speedOf is the number that a cell is measured for.
func speedOf(c *speedmatrix.Cell) (float64, bool) {
	if c.Phase == speedmatrix.PhasePrefill {
		return finite(c.PromptTokensPerSecond)
	}
	return finite(c.TotalTokensPerSecond)
}

// statuses counts the cells without a number by their status.
func (j *judge) statuses() string {
	var words []string
	for _, s := range speedmatrix.Statuses() {
		if n := j.count(s); n > 0 && !s.ShowsSpeed() {
			words = append(words, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(words) == 0 {
		return "every cell has its number"
	}
	return strings.Join(words, ", ")
}

// place is one of a matrix.
type place struct {
	phase                speedmatrix.Phase
	context, concurrency int
}

// planned looks for cells and repeats that were planned and are not there: what was measured and left out may have been left
// out for its number.
func (j *judge) planned() {
	p := j.Run.Plan
	const what = "Everything planned is published"
	planned := placesOf(p)
	if len(planned) == 0 {
		j.add(unknown(catalog.Complete, "planned", what, "the plan was not recorded by the source"))
		return
	}
	extra := 0
	var thin []int
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		at := place{c.Phase, c.Context, c.Concurrency}
		if !planned[at] {
			extra++
		}
		delete(planned, at)
	}
	for i := range j.Run.Repeats {
		if j.lacks(&j.Run.Repeats[i]) {
			thin = append(thin, j.Run.Repeats[i].Index)
		}
	}
	unpublished := max(0, j.Run.Method.Repeat-1-len(j.Run.Repeats))
	c := about(catalog.Complete, "planned", what)
	switch {
	case len(planned)+extra > 0 && j.Run.Origin == speedmatrix.OriginImported:
		c = unknown(catalog.Complete, "planned", what, "the source does not say what it had planned")
	case len(planned) > 0:
		c = c.held(false, many(len(planned), "planned cell is", "planned cells are")+" not among those published")
	case extra > 0:
		c = c.held(false, many(extra, "cell was", "cells were")+" not planned")
	case unpublished > 0 && j.Run.Ended == "":
		c = c.held(false, many(unpublished, "planned repeat is", "planned repeats are")+" not published")
	case len(thin) > 0 && j.Run.Origin == speedmatrix.OriginMeasured:
		c = c.held(false, many(len(thin), "repeat lacks", "repeats lack")+" cells that have a number elsewhere")
	default:
		c = c.held(true, many(len(j.Run.Cells), "cell", "cells")+", "+many(1+len(j.Run.Repeats), "measurement", "measurements")+" of each with a number")
	}
	j.add(c)
}

// placesOf are those that a plan names.
func placesOf(p speedmatrix.Plan) map[place]bool {
	all := map[place]bool{}
	for _, context := range p.Prefill {
		all[place{speedmatrix.PhasePrefill, context, 1}] = true
	}
	for _, context := range p.Contexts {
		for _, n := range p.Concurrency {
			all[place{speedmatrix.PhaseDecode, context, n}] = true
		}
	}
	return all
}

// lacks says whether a repeat leaves out a decode cell that has a number in the matrix: a repeat measures all of them.
func (j *judge) lacks(r *speedmatrix.Repeat) bool {
	there := map[place]bool{}
	for i := range r.Cells {
		c := &r.Cells[i]
		there[place{c.Phase, c.Context, c.Concurrency}] = true
	}
	for i := range j.Run.Cells {
		c := &j.Run.Cells[i]
		if c.Phase == speedmatrix.PhaseDecode && c.Status.ShowsSpeed() && !there[place{c.Phase, c.Context, c.Concurrency}] {
			return true
		}
	}
	return false
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
