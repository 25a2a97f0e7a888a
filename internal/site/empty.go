package site

import (
	"maps"
	"slices"
	"strings"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// emptyView stands in place of a list without a run: what was asked, the nearest questions that have an answer, and how to
// answer this one.
type emptyView struct {
	Title   string
	Near    []nearQuestion
	Command string
}

// nearQuestion is a question with fewer conditions and how many runs it finds.
type nearQuestion struct{ Text, Link, N string }

// condition is one that a list has, in words.
type condition struct {
	params []string
	// says is what it asks for, without the words of the question that drops it.
	says, without string
}

// mostNear is how many other questions an empty list offers.
const mostNear = 2

// conditions are those of a question, in the order in which they are said.
func (q *question) conditions(names *catalog.Facets) (list []condition) {
	add := func(value string, c condition) {
		if value != "" {
			c.says = clip(c.says, 80)
			list = append(list, c)
		}
	}
	add(q.Model, condition{[]string{"model"}, nameOf(names.Models, q.Model), "of any model"})
	add(q.Quantization, condition{[]string{"quant"}, "in " + q.Quantization, "in any quantization"})
	add(q.Hardware, condition{[]string{"gpu"}, "on " + nameOf(names.Hardware, q.Hardware), "on other hardware"})
	if q.Engine != "" || q.EngineVersion != "" {
		add("engine", condition{[]string{"engine", "version"}, "with " + joined(" ", nameOf(names.Engines, q.Engine), q.EngineVersion), "with any engine"})
	}
	add(q.Method, condition{[]string{"method"}, "by method " + q.Method, "by any method"})
	add(q.Owner, condition{[]string{"uploader"}, "by " + q.Owner, "by anyone"})
	add(q.Modified, condition{[]string{"mod"}, "on " + q.Modified + " hardware", "on stock or modified hardware"})
	if q.Level > 0 {
		add("trust", condition{[]string{"trust"}, "that is " + strings.ToLower(q.Level.String()), "of any level of trust"})
	}
	if q.since != "" || !q.Before.IsZero() {
		add("since", condition{[]string{"since", "until"}, "in that time", "of any time"})
	}
	if q.HasCell {
		add("cell", condition{[]string{"cell"}, "with a speed at " + q.cell.String(), "with any cells"})
	}
	add(q.Text, condition{[]string{"q"}, "for “" + clip(q.Text, 60) + "”", "for any words"})
	return list
}

// nameOf is a name as people write it, where any run has its key; else the key.
func nameOf(list []catalog.Facet, key string) string {
	for _, f := range list {
		if f.Key == catalog.Key(key) {
			return f.Name
		}
	}
	return key
}

// empty says that no run answers a question.
func (p *pages) empty(q *question) *emptyView {
	v := &emptyView{Title: "No run yet", Command: "speedmatrix submit RUN --to " + p.Base}
	names := p.Index.Facets(catalog.Query{})
	conditions := q.conditions(&names)
	if len(conditions) == 0 {
		return v
	}
	v.Title = "No run" + say(conditions, -1) + " yet"
	type near struct {
		nearQuestion
		runs int
	}
	var list []near
	for i, c := range conditions {
		other := question{params: map[string][]string{}}
		maps.Copy(other.params, q.params)
		for _, name := range append(c.params, "cursor", "facet") {
			other.params.Del(name)
		}
		read, err := readQuestion(other.params, p.Now())
		if err != nil {
			continue
		}
		if n := p.Index.Facets(read.Query).Total; n > 0 {
			list = append(list, near{nearQuestion{strings.TrimSpace("Runs" + say(conditions, i)), other.with(), plural(n, "run", "runs")}, n})
		}
	}
	if len(list) == 0 {
		list = append(list, near{nearQuestion{"All runs", "/runs", unit.Count(names.Total) + " runs"}, names.Total})
	}
	slices.SortStableFunc(list, func(a, b near) int { return b.runs - a.runs })
	for _, n := range list[:min(len(list), mostNear)] {
		v.Near = append(v.Near, n.nearQuestion)
	}
	return v
}

// say is a question in words; the condition at a place is dropped.
func say(conditions []condition, dropped int) string {
	var text strings.Builder
	for i, c := range conditions {
		says := c.says
		if i == dropped {
			says = c.without
		} else if c.params[0] == "model" {
			says = "of " + says
		}
		text.WriteString(" " + says)
	}
	return text.String()
}
