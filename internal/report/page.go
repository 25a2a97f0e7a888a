package report

import (
	"html"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"speedmatrix"
)

type glanceView struct {
	Figure
	Link, After string
}

func glanceViews(d *Document, a *anchors) []glanceView {
	var list []glanceView
	for _, f := range d.Glance {
		v := glanceView{Figure: f, Link: a.byKey[f.Key], After: glue(strings.TrimPrefix(f.At, f.Where))}
		v.At = glue(v.At)
		list = append(list, v)
	}
	return list
}

// provenanceParts are what the line below the title says after the origin.
func provenanceParts(d *Document) []string {
	run := d.Run
	by := "by "
	if run.Origin == speedmatrix.OriginImported {
		by = "from "
	}
	parts := []string{by + tool(run.Tool)}
	if run.Method.Name != "" && run.Origin != speedmatrix.OriginImported {
		parts = append(parts, "method "+clip(Clean(run.Method.Name), 60))
	}
	if n := len(run.Repeats); n > 0 {
		parts = append(parts, "measured "+plural(n+1, "time"))
	} else {
		parts = append(parts, "one run, no repeats")
	}
	if run.StartedAt.IsZero() {
		parts = append(parts, "date not recorded")
	} else {
		parts = append(parts, run.StartedAt.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if run.Ended != "" {
		parts = append(parts, "ended early: "+clip(Clean(run.Ended), 200))
	}
	return parts
}

type sectionView struct {
	Title       string
	Facts, More []factView
}

type factView struct {
	Fact
	Soft template.HTML
}

func sectionViews(d *Document) []sectionView {
	var list []sectionView
	for _, s := range d.Facts {
		v := sectionView{Title: s.Title}
		for _, f := range s.Facts {
			view := factView{Fact: f, Soft: soft(f.Value)}
			if f.Detail {
				v.More = append(v.More, view)
				continue
			}
			v.Facts = append(v.Facts, view)
		}
		for _, f := range s.Facts {
			for _, other := range f.Others {
				v.More = append(v.More, factView{Fact: Fact{Label: f.Label + ", by others"}, Soft: soft(other)})
			}
		}
		list = append(list, v)
	}
	return list
}

// soft is text that may break after / _ and : although no blank stands there.
func soft(s string) template.HTML {
	var b strings.Builder
	for part := range strings.SplitAfterSeq(s, "/") {
		b.WriteString(html.EscapeString(part))
		if strings.HasSuffix(part, "/") {
			b.WriteString("<wbr>")
		}
	}
	return template.HTML(strings.NewReplacer("_", "_<wbr>", ":", ":<wbr>").Replace(b.String()))
}

// numberAndUnit is a number before what must not stand on the next line.
var numberAndUnit = regexp.MustCompile(`(\d) (%|[mµ]?s\b|min\b|tok/s|[kMG]B\b|[GT]?FLOP|× )`)

// glue keeps numbers and their units on one line.
func glue(s string) string { return numberAndUnit.ReplaceAllString(s, "$1\u00a0$2") }

// statedKey explains the mark of stated facts, "" where there are none.
func statedKey(d *Document) string {
	for _, s := range d.Facts {
		for _, f := range s.Facts {
			if !f.Stated {
				continue
			}
			if d.Run.Origin == speedmatrix.OriginImported {
				return "Stated by the publisher, not measured. The rest was recorded by the tool."
			}
			return "Stated by the user, not found out by the tool."
		}
	}
	return ""
}

type barView struct {
	ID, Context, Speed, Also string
	Width                    template.CSS
}

func barViews(d *Document, a *anchors) []barView {
	var list []barView
	for _, p := range d.Prefill {
		bar := barView{ID: a.id[p.Measurement], Context: p.Context, Speed: p.Speed, Also: prefillAlso(p)}
		if p.Share > 0 {
			bar.Width = percentWidth(p.Share)
		}
		list = append(list, bar)
	}
	return list
}

func percentWidth(share float64) template.CSS {
	return template.CSS(strconv.FormatFloat(min(max(share, 0), 1)*100, 'f', 1, 64))
}

type findingView struct {
	Kind  Kind
	Text  string
	Links []pairView
}

// warningsOnPage bounds the warnings of one code.
const warningsOnPage = 6

// findingViews are warnings of the run and its cells, then findings, warnings first.
func findingViews(d *Document, a *anchors) []findingView {
	var warned, noted []findingView
	for _, f := range d.Findings {
		v := findingView{Kind: f.Kind, Text: glue(f.Text)}
		if f.Kind == KindWarning {
			warned = append(warned, v)
		} else {
			noted = append(noted, v)
		}
	}
	for _, w := range fewOfEach(d.Warnings, warningsOnPage) {
		v := findingView{Kind: KindWarning, Text: glue(w.Message)}
		if len(w.Cells) > 3 {
			v.Text = glue(w.Scope() + ": " + w.Message)
		} else {
			for i, name := range w.Cells {
				v.Links = append(v.Links, pairView{a.byKey[w.Keys[i]], name})
			}
		}
		warned = append(warned, v)
	}
	return append(warned, noted...)
}

type limitView struct {
	Limit
	Bars []limitBar
}

type limitBar struct {
	LimitRow
	Width, Mark template.CSS
}

// limitViews scale the bars of a limit to 100 %, or to half as much again where a value
// passes it, with a mark there.
func limitViews(d *Document) []limitView {
	var list []limitView
	for _, l := range d.Limits {
		most, mark := 1.0, template.CSS("")
		for _, row := range l.Rows {
			most = max(most, row.Share*1.2)
		}
		if most > 1.2 {
			mark = percentWidth(1 / most)
		} else {
			most = 1
		}
		l.Assumptions = glue(l.Assumptions)
		v := limitView{Limit: l}
		for _, row := range l.Rows {
			v.Bars = append(v.Bars, limitBar{LimitRow: row, Width: percentWidth(row.Share / most), Mark: mark})
		}
		list = append(list, v)
	}
	return list
}

type rowView struct {
	Class string
	Cells []string
}

// rowViews are the rows of the table of all measurements; a rule stands before each context.
func rowViews(d *Document) []rowView {
	var list []rowView
	group := func(i int) string {
		if i < 0 || i >= len(d.Measurements) {
			return ""
		}
		m := d.Measurements[i]
		if m.Cell.Phase == speedmatrix.PhasePrefill {
			return m.Phase
		}
		return m.Phase + "\x00" + m.Context
	}
	for i, m := range d.Measurements {
		var class []string
		if m.Cell.Phase == speedmatrix.PhasePrefill {
			class = append(class, "pf")
		}
		if group(i) != group(i-1) {
			class = append(class, "g")
		}
		if group(i) != group(i+1) {
			class = append(class, "z")
		}
		if !m.ShowsSpeed {
			class = append(class, "no")
		}
		list = append(list, rowView{Class: strings.Join(class, " "), Cells: measurementValues(m)})
	}
	return list
}

func versions(d *Document) []string {
	run := d.Run
	lines := []string{tool(run.Tool) + ", schema " + clip(Clean(run.Schema), 60)}
	if run.Method.Name != "" {
		lines = append(lines, "method "+clip(Clean(run.Method.Name), 60))
	}
	if engine := joinFacts(" ", text(run.Engine, speedmatrix.EngineName), text(run.Engine, speedmatrix.EngineVersion)); engine != "" {
		lines = append(lines, clip(engine, 120))
	}
	return lines
}

func dataLines(d *Document) []string {
	lines := []string{"Run " + clip(d.ID, 120)}
	if d.Run.Origin == speedmatrix.OriginImported {
		lines = append(lines, "Licence and publisher: not stated by the source.")
	}
	return append(lines, "This page loads nothing from the network.")
}
