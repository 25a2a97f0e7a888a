package trust

import (
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
	// SameRows are the IDs of other runs with the same raw rows; SameNumbers of those that call themselves the same run and
	// have the same numbers, SameName of those that have others.
	SameRows, SameNumbers, SameName []string
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
	c := about(catalog.Stated, "new", "Not here already")
	switch {
	case len(j.SameName) > 0:
		c = c.noted(false, "this run is here as "+listed(j.SameName)+" with other numbers: one of the two was edited")
	case len(j.SameRows) > 0:
		c = c.noted(false, "the same raw rows are here as "+listed(j.SameRows))
	case len(j.SameNumbers) > 0:
		c = c.noted(false, "the same run is here as "+listed(j.SameNumbers))
	default:
		c = c.held(true, "nothing here has its name or its rows; "+many(len(j.Neighbours), "other run", "other runs")+" of this model on this hardware")
	}
	j.add(c)
}

// mostListed is how many runs a sentence names.
const mostListed = 3

func listed(ids []string) string {
	words := strings.Join(ids[:min(len(ids), mostListed)], ", ")
	if n := len(ids) - mostListed; n > 0 {
		words += " and " + unit.Count(n) + " more"
	}
	return words
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
