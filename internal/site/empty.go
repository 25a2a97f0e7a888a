package site

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"speedmatrix/internal/catalog"
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
	add(q.Quantization, condition{[]string{"quant"}, "in " + nameOf(names.Quantizations, q.Quantization), "in any quantization"})
	add(q.Hardware, condition{[]string{"gpu"}, "on " + nameOf(names.Hardware, q.Hardware), "on other hardware"})
	if q.Engine != "" || q.EngineVersion != "" {
		add("engine", condition{[]string{"engine", "version"}, "with " + joined(" ", nameOf(names.Engines, q.Engine), q.EngineVersion), "with any engine"})
	}
	add(q.Method, condition{[]string{"method"}, "by method " + q.Method, "by any method"})
	add(q.Owner, condition{[]string{"uploader"}, "by " + q.Owner, "by anyone"})
	add(q.Modified, condition{[]string{"mod"}, "on " + q.Modified + " hardware", "on stock or modified hardware"})
	if q.Level > 0 {
		add("trust", condition{[]string{"trust"}, "at " + strings.ToLower(q.Level.String()) + " or better", "of any level of trust"})
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
		if f.Key == catalog.Key(key) || f.Key == strings.ToLower(key) {
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
	v.Near = p.dropped(q, conditions)
	if len(v.Near) < mostNear && len(conditions) > 2 {
		v.Near = append(v.Near, p.keptOne(q, conditions)...)
	}
	if len(v.Near) == 0 {
		v.Near = []nearQuestion{{"All runs", "/runs", plural(names.Total, "run", "runs")}}
	}
	v.Near = v.Near[:min(len(v.Near), mostNear)]
	return v
}

// dropped are the questions without one of the conditions that find runs, the most first.
func (p *pages) dropped(q *question, conditions []condition) []nearQuestion {
	var list []countedQuestion
	for i, c := range conditions {
		params := maps.Clone(q.params)
		for _, name := range c.params {
			params.Del(name)
		}
		list = p.counted(list, "Runs"+say(conditions, i), params)
	}
	return mostFirst(list)
}

// keptOne are the questions with one of the conditions alone that find runs, the most first.
func (p *pages) keptOne(q *question, conditions []condition) []nearQuestion {
	var list []countedQuestion
	for i, c := range conditions {
		params := url.Values{}
		for _, name := range c.params {
			if q.params.Has(name) {
				params.Set(name, q.params.Get(name))
			}
		}
		list = p.counted(list, "Runs"+say(conditions[i:i+1], -1), params)
	}
	return mostFirst(list)
}

// countedQuestion is a near question and the number of runs that it finds.
type countedQuestion struct {
	nearQuestion
	runs int
}

// counted adds a question to a list, if it finds a run.
func (p *pages) counted(list []countedQuestion, text string, params url.Values) []countedQuestion {
	params.Del("cursor")
	params.Del("facet")
	read, err := readQuestion(params, p.Now())
	if err != nil {
		return list
	}
	if n := p.Index.Facets(read.Query).Total; n > 0 {
		list = append(list, countedQuestion{nearQuestion{text, read.with(), plural(n, "run", "runs")}, n})
	}
	return list
}

func mostFirst(list []countedQuestion) (near []nearQuestion) {
	slices.SortStableFunc(list, func(a, b countedQuestion) int { return b.runs - a.runs })
	for _, q := range list {
		near = append(near, q.nearQuestion)
	}
	return near
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
