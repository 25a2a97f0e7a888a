package site

import (
	"slices"
	"strconv"
	"strings"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// facetView is a property in the column beside the list.
type facetView struct {
	Title string
	Items []facetItem
	// More is a link below: all values, or none chosen.
	More []linkView
}

type facetItem struct {
	Text, Link, N string
	On, Inner     bool
}

// selectView is a property in the form of narrow screens.
type selectView struct {
	ID, Label string
	Options   []option
}

// shortFacet is how many values a property shows, longFacet when all are asked for.
const (
	shortFacet    = 6
	longFacet     = 200
	shortVersions = 3
	longVersions  = 12
)

// setFacets gives what narrows the list, as links and as selects.
func (v *browseView) setFacets(f *catalog.Facets) {
	q := v.q
	engines := v.engineFacet(f)
	v.Facets = []facetView{
		v.facet("Model", "model", q.Model, f.Models), v.facet("GPU", "gpu", q.Hardware, f.Hardware), engines,
		v.facet("Quantization", "quant", q.Quantization, f.Quantizations), v.trustFacet(f.Levels), v.facet("Method", "method", q.Method, f.Methods),
		v.dateFacet(f), v.facet("Hardware changed", "mod", q.Modified, f.Modified),
	}
	v.Selects = []selectView{
		{"model", "Model", v.named("model", q.Model, f.Models)}, {"gpu", "GPU", v.named("gpu", q.Hardware, f.Hardware)},
		{"engine", "Engine", engineOptions(&engines, q)}, {"quant", "Quantization", v.named("quant", q.Quantization, f.Quantizations)},
		{"trust", "Trust", facetOptions(trustOffers(f.Levels), levelKey(q.Level), strings.ToLower)}, {"method", "Method", facetOptions(f.Methods, q.Method, nil)},
		{"since", "Date", v.dateOptions()},
	}
}

// facet is a property whose values stand in columns.
func (v *browseView) facet(title, param, chosen string, values []catalog.Facet) facetView {
	out := facetView{Title: title}
	show := shortFacet
	if v.q.facet == param {
		show = longFacet
	}
	for i, f := range values {
		if on := chosen != "" && f.Key == facetKey(param, chosen); i < show || on {
			out.Items = append(out.Items, v.item(param, f, on))
		}
	}
	if chosen != "" {
		if !slices.ContainsFunc(out.Items, func(i facetItem) bool { return i.On }) {
			out.Items = append(out.Items, facetItem{Text: clip(v.name(param, chosen), 60), Link: v.q.with(param, ""), N: "0", On: true})
		}
		out.More = append(out.More, linkView{Text: "any", Link: v.q.with(param, "")})
	}
	switch {
	case len(values) > shortFacet && v.q.facet != param:
		out.More = append(out.More, linkView{Text: "all " + unit.Count(len(values)), Link: v.q.with("facet", param)})
	case len(values) > shortFacet:
		out.More = append(out.More, linkView{Text: "fewer", Link: v.q.with("facet", "")})
	}
	return out
}

// facetKey is a chosen value as facets have it: models and machines go by keys, quantizations in any letters.
func facetKey(param, chosen string) string {
	switch {
	case chosen == "":
		return ""
	case param == "model" || param == "gpu":
		return catalog.Key(chosen)
	case param == "quant":
		return strings.ToLower(chosen)
	}
	return chosen
}

// name is what a key stands for that no matching run has.
func (v *browseView) name(param, key string) string {
	groups := map[string]func() []catalog.Group{"model": v.index.Models, "gpu": v.index.Hardware, "engine": v.index.Engines}[param]
	if groups != nil {
		for _, g := range groups() {
			if g.Key == catalog.Key(key) {
				return g.Name
			}
		}
	}
	return key
}

func (v *browseView) item(param string, f catalog.Facet, on bool) facetItem {
	item := facetItem{Text: clip(f.Name, 80), N: unit.Count(f.N), On: on, Link: v.q.with(param, f.Key, "facet", "")}
	if on {
		item.Link = v.q.with(param, "", "facet", "")
	}
	return item
}

// engineFacet is the engines, with the versions of the one that is chosen, else of the one with most runs.
func (v *browseView) engineFacet(f *catalog.Facets) facetView {
	q := v.q
	out := facetView{Title: "Engine and version"}
	open := catalog.Key(q.Engine)
	if q.Engine == "" && len(f.Engines) > 0 {
		open = f.Engines[0].Key
	}
	for i, e := range f.Engines {
		on := q.Engine != "" && e.Key == open
		if i >= shortFacet && !on && q.facet != "engine" {
			continue
		}
		item := v.item("engine", e, on)
		item.Link = q.with("engine", e.Key, "version", "", "facet", "")
		if on && q.EngineVersion == "" {
			item.Link = q.with("engine", "", "facet", "")
		}
		out.Items = append(out.Items, item)
		if e.Key == open {
			out.Items = append(out.Items, v.versionItems(f, open)...)
		}
	}
	if q.Engine != "" {
		if !slices.ContainsFunc(out.Items, func(i facetItem) bool { return i.On }) {
			out.Items = append(out.Items, facetItem{Text: clip(joined(" ", v.name("engine", q.Engine), q.EngineVersion), 60), Link: q.with("engine", "", "version", ""), N: "0", On: true})
		}
		out.More = append(out.More, linkView{Text: "any", Link: q.with("engine", "", "version", "")})
	}
	if len(f.Engines) > shortFacet && q.facet != "engine" {
		out.More = append(out.More, linkView{Text: "all " + unit.Count(len(f.Engines)), Link: q.with("facet", "engine")})
	}
	return out
}

// versionItems are the versions of an engine, the newest first: a few of one that is not chosen.
func (v *browseView) versionItems(f *catalog.Facets, engine string) (items []facetItem) {
	q, show, versions := v.q, longVersions, f.Versions
	if q.Engine == "" {
		of := q.Query
		of.Engine = engine
		show, versions = shortVersions, v.index.Facets(of).Versions
	}
	slices.SortStableFunc(versions, func(a, b catalog.Facet) int { return compareVersions(b.Name, a.Name) })
	for i, version := range versions {
		chosen := version.Key == q.EngineVersion
		if i >= show && !chosen {
			continue
		}
		item := v.item("version", version, chosen)
		item.Inner = true
		if !chosen {
			item.Link = q.with("engine", engine, "version", version.Key, "facet", "")
		}
		items = append(items, item)
	}
	return items
}

// levelKey is a level as a parameter, "" for any.
func levelKey(l catalog.Level) string {
	if l == 0 {
		return ""
	}
	return strconv.Itoa(int(l))
}

// trustOffers are the levels that a list can begin at.
func trustOffers(levels []catalog.Facet) (list []catalog.Facet) {
	for _, f := range levels {
		switch f.Key {
		case levelKey(catalog.Reproduced):
			f.Name = levelWord(catalog.Reproduced, 1)
		case levelKey(catalog.SelfConsistent), levelKey(catalog.Recomputed):
			f.Name += " and up"
		default:
			continue
		}
		list = append(list, f)
	}
	return list
}

func (v *browseView) trustFacet(levels []catalog.Facet) facetView {
	out := facetView{Title: "Trust"}
	chosen := levelKey(v.q.Level)
	for _, f := range trustOffers(levels) {
		out.Items = append(out.Items, v.item("trust", f, f.Key == chosen))
	}
	n := 0
	for _, f := range levels {
		n = max(n, f.N)
	}
	out.Items = append(out.Items, facetItem{Text: "Any", Link: v.q.with("trust", ""), N: unit.Count(n), On: v.q.Level == 0})
	return out
}

func (v *browseView) dateFacet(f *catalog.Facets) facetView {
	out := facetView{Title: "Date"}
	for i, ago := range daysAgo {
		out.Items = append(out.Items, v.item("since", catalog.Facet{Key: ago.key, Name: ago.name, N: f.Since[i]}, v.q.since == ago.key))
	}
	if v.q.since != "" && !slices.ContainsFunc(out.Items, func(i facetItem) bool { return i.On }) {
		out.Items = append(out.Items, facetItem{Text: "Since " + date(v.q.After), Link: v.q.with("since", ""), N: unit.Count(f.Total), On: true})
	}
	out.Items = append(out.Items, facetItem{Text: "Any time", Link: v.q.with("since", ""), N: unit.Count(f.Since[len(daysAgo)]), On: v.q.since == ""})
	return out
}

func (v *browseView) dateOptions() []option {
	list := []option{{Value: "", Text: "any time"}}
	for _, ago := range daysAgo {
		list = append(list, option{Value: ago.key, Text: strings.ToLower(ago.name)})
	}
	return options(list, v.q.since)
}

// facetOptions are the values of a property in a select, by name.
func facetOptions(values []catalog.Facet, chosen string, word func(string) string) []option {
	list := []option{{Value: "", Text: "any"}}
	for _, f := range values[:min(len(values), longFacet)] {
		o := option{Value: f.Key, Text: clip(f.Name, 80)}
		if word != nil {
			o.Text = word(o.Text)
		}
		list = append(list, o)
	}
	return options(list, chosen)
}

// named are the models or machines in a select; the chosen one has its name even where no run matches.
func (v *browseView) named(param, chosen string, values []catalog.Facet) []option {
	list := facetOptions(values, facetKey(param, chosen), nil)
	if last := &list[len(list)-1]; chosen != "" && last.On {
		last.Text = clip(v.name(param, chosen), 80)
	}
	return list
}

// engineOptions are the engines and versions that the column offers, a version behind its engine.
func engineOptions(f *facetView, q *question) []option {
	list := []option{{Value: "", Text: "any"}}
	engine := ""
	for _, i := range f.Items {
		if i.Inner {
			list = append(list, option{Value: engine + " " + i.Text, Text: engine + " " + i.Text})
			continue
		}
		engine = i.Text
		list = append(list, option{Value: engine, Text: engine})
	}
	return options(list, joined(" ", q.Engine, q.EngineVersion))
}
