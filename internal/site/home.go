package site

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// homeSays is what the site is about, for other sites that link to it.
const homeSays = "Each run is one model on one machine: a matrix of context × simultaneous requests, with what was checked about it."

// homeView is the first page.
type homeView struct {
	// Try are searches that find something.
	Try  []linkView
	Asks []askView
	Runs []newestRun
	All  string
	Base string
	Ramp template.HTML
}

// askView is a question with one computed answer: a form of a sentence.
type askView struct {
	Title, Action string
	Hidden        []pair
	Fields        []askField
	Answer        string
}

type askField struct {
	ID, Name, Label string
	Options         []option
}

// newestRun is a run among the newest.
type newestRun struct {
	Link, Hardware, Engine, OriginClass string
	Model                               template.HTML
	Thumb                               template.HTML
	Numbers                             []pair
	Trust, Date                         string
}

// newestLength is how many runs the first page shows, mostChoices how many names a select has.
const (
	newestLength = 12
	mostChoices  = 60
)

// home serves the first page.
func (p *pages) home(w http.ResponseWriter, r *http.Request) error {
	key := fmt.Sprintf("home %d", p.Index.Sequence())
	if fresh(w, r, p.tag(r, key)) {
		return nil
	}
	parts, err := p.cache.get(key, p.homeBytes)
	if err != nil {
		return err
	}
	head, err := p.listHead("/runs.atom", false)
	if err != nil {
		return err
	}
	p.show(w, r, view{title: "Measured speeds of language model servers", says: homeSays, current: "/", name: "content", data: template.HTML(parts[0]), head: head})
	return nil
}

func (p *pages) homeBytes() ([][]byte, error) {
	v := homeView{Base: p.Base, Ramp: ramp()}
	page, err := p.Index.Find(catalog.Query{All: true, Sort: catalog.ByNewest, Limit: newestLength})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Entries {
		v.Runs = append(v.Runs, newNewestRun(e))
	}
	if page.Total > 0 {
		v.All = "All " + plural(page.Total, "run", "runs")
		if page.Total == 1 {
			v.All = "The list of runs"
		}
		if v.Asks, err = p.asks(); err != nil {
			return nil, err
		}
		v.Try = tries(page.Entries)
	}
	var out bytes.Buffer
	err = siteTemplate.ExecuteTemplate(&out, "home", v)
	return [][]byte{out.Bytes()}, err
}

// tries are searches after names of the newest runs: a model on a card, an engine and a quantization, a flag.
func tries(newest []*catalog.Entry) (list []linkView) {
	add := func(text string) {
		if text != "" && !slices.ContainsFunc(list, func(l linkView) bool { return l.Text == text }) {
			q := question{params: map[string][]string{"q": {text}}}
			list = append(list, linkView{Text: text, Link: q.with()})
		}
	}
	e := newest[0]
	add(clip(joined(" ", firstWords(e.ModelKey, 2), lastNumber(e.Hardware)), 40))
	for _, e := range newest {
		if e.EngineVersion != "" && e.Quantization != "" {
			add(clip(joined(" ", e.Engine, e.EngineVersion, firstWords(catalog.Key(e.Quantization), 1)), 40))
			break
		}
	}
	for _, e := range newest {
		if len(e.Flags) > 0 {
			name, _, _ := strings.Cut(e.Flags[len(e.Flags)-1], " ")
			name, _, _ = strings.Cut(name, "=")
			add(clip(name, 40))
			break
		}
	}
	return list
}

// firstWords are the first n parts of a key, as words.
func firstWords(key string, n int) string {
	text := ""
	for _, word := range splitKey(key) {
		if n--; n < 0 {
			break
		}
		text = joined(" ", text, word)
	}
	return text
}

// lastNumber is the word of a card's name that people call it by: "3090" of "RTX 3090 24GB".
func lastNumber(hardware string) string {
	found := ""
	for _, word := range splitKey(catalog.Key(hardware)) {
		digits := 0
		for _, c := range word {
			if c >= '0' && c <= '9' {
				digits++
			}
		}
		if digits >= 2 && found == "" {
			found = word
		}
	}
	return found
}

func splitKey(key string) []string {
	return strings.FieldsFunc(key, func(c rune) bool { return c == '-' })
}

func newNewestRun(e *catalog.Entry) newestRun {
	r := newestRun{Link: "/runs/" + e.ID, Model: soft(e.Model), Thumb: thumb(e, inNewest, nil), Hardware: clip(e.Hardware, 80), OriginClass: "measured",
		Trust: levelWord(e.Level, e.Reproductions), Date: shortDate(e.PublishedAt)}
	if e.Origin == string(speedmatrix.OriginImported) {
		r.OriginClass = "imported"
	}
	if e.Modified != "" {
		r.Hardware = joined(" · ", r.Hardware, clip(strings.TrimPrefix(e.Modified, "modified card, "), 40))
	}
	r.Engine = clip(joined(" · ", joined(" ", e.Engine, e.EngineVersion), e.Quantization), 80)
	if e.Speculative != "" {
		r.Engine = joined(" · ", r.Engine, "speculative")
	}
	one, _ := speedOrState(e, oneUser)
	total, _ := speedOrState(e, usualLoad)
	r.Numbers = []pair{{"one user, 0", cmp.Or(one, unit.Dash)}, {"total, 16K × 8", cmp.Or(total, unit.Dash)}, {"prefill, 16K", prefillText(e, usualLoad.context)}}
	return r
}

// asks are the questions that a visitor has, each with an answer from the runs.
func (p *pages) asks() ([]askView, error) {
	models, machines, engines := p.Index.Models(), p.Index.Hardware(), p.Index.Engines()
	a := answers{p: p}
	model := a.model(models)
	card, users := a.users(model)
	engine, machine, faster := a.faster(engines, machines)
	first := func(list []catalog.Group) string {
		if len(list) == 0 {
			return ""
		}
		return list[0].Key
	}
	contexts := axisOptions(p.Index.Facets(catalog.Query{}).Contexts, usualContexts, usersContext, contextLabel)
	asks := []askView{
		{Title: "Which card for this model?", Action: "/boards/16kx8", Fields: []askField{{"a-model", "model", "Model", groupOptions(models, model)}}, Answer: card},
		{Title: "How many users fit?", Action: "/runs", Hidden: []pair{{"sort", string(catalog.ByUsers)}}, Answer: users, Fields: []askField{
			{"a-floor", "floor", "Each gets", floorOptions(usualFloor)}, {"a-ctx", "ctx", "at context", contexts}}},
		{Title: "Did the new version get faster?", Action: "/hardware", Answer: faster, Fields: []askField{
			{"a-engine", "engine", "Engine", groupOptions(engines, cmp.Or(engine, first(engines)))}, {"a-on", "gpu", "on", groupOptions(machines, cmp.Or(machine, first(machines)))}}},
		{Title: "What does this card run?", Action: "/hardware", Fields: []askField{{"a-card", "gpu", "Card", groupOptions(machines, cmp.Or(machine, first(machines)))}}, Answer: a.runs(cmp.Or(machine, first(machines)))},
	}
	return asks, a.err
}

// floorOptions are speeds that each user gets.
func floorOptions(chosen float64) (list []option) {
	for _, v := range []float64{10, 20, 30, 50} {
		list = append(list, option{floorText(v), floorText(v) + " tok/s", v == chosen})
	}
	return list
}

// groupOptions are the names with the most runs, by name.
func groupOptions(groups []catalog.Group, chosen string) []option {
	var list []option
	for _, g := range groups[:min(len(groups), mostChoices)] {
		list = append(list, option{Value: g.Key, Text: clip(g.Name, 60)})
	}
	slices.SortFunc(list, func(a, b option) int { return cmp.Compare(a.Text, b.Text) })
	return options(list, chosen)
}

// answers computes what the first page says to its questions, and keeps the first error.
type answers struct {
	p   *pages
	err error
}

func (a *answers) find(q catalog.Query) (list []*catalog.Entry) {
	page, err := a.p.Index.Find(q)
	a.err = cmp.Or(a.err, err)
	return page.Entries
}

// model is the one with the most runs that has a number to tell, "" without any.
func (a *answers) model(models []catalog.Group) string {
	for _, m := range models[:min(len(models), 5)] {
		if runs := a.find(byTotal(m.Key)); len(runs) > 0 && measuredAt(runs[0], usualLoad) {
			return m.Key
		}
	}
	if len(models) > 0 {
		return models[0].Key
	}
	return ""
}

func byTotal(model string) catalog.Query {
	return catalog.Query{Model: model, Sort: catalog.ByTotal, Context: usualLoad.context, Concurrency: usualLoad.concurrency}
}

func measuredAt(e *catalog.Entry, at place) bool { _, _, ok := totalAt(e, at); return ok }

// users answers which card, and how many users fit, with a model's comparable runs.
func (a *answers) users(model string) (card, users string) {
	runs := slices.DeleteFunc(a.find(byTotal(model)), func(e *catalog.Entry) bool { return !measuredAt(e, usualLoad) })
	if model == "" || len(runs) == 0 {
		return "No comparable run has 8 users at 16K yet.", "No comparable run has users at 32K yet."
	}
	best, last := runs[0], runs[len(runs)-1]
	top, _, _ := totalAt(best, usualLoad)
	card = clip(best.Model, 60) + " with 8 users at 16K: " + whole(top) + " tok/s on " + clip(best.Hardware, 60)
	if low, _, ok := totalAt(last, usualLoad); ok && last.HardwareKey != best.HardwareKey {
		card += ", " + whole(low) + " on " + clip(last.Hardware, 60)
	}
	middle := runs[len(runs)/2]
	if fit := usersText(middle, usersContext, usualFloor); fit == unit.Dash {
		users = clip(middle.Model, 60) + " on " + clip(middle.Hardware, 60) + " was not measured at 32K."
	} else if fit == "none" {
		users = clip(middle.Model, 60) + " on " + clip(middle.Hardware, 60) + ": none at 32K gets 20 tok/s."
	} else {
		users = clip(middle.Model, 60) + " on " + clip(middle.Hardware, 60) + ": " + fit + " users at 32K."
	}
	return card + ".", users + " Only measured counts are given, nothing between them."
}

// faster answers whether an engine's last step in version was one in speed, where two versions of it were measured with one
// model on one machine.
func (a *answers) faster(engines, machines []catalog.Group) (engine, machine, says string) {
	for _, en := range engines[:min(len(engines), 3)] {
		for _, m := range machines[:min(len(machines), 5)] {
			runs := a.find(catalog.Query{Engine: en.Key, Hardware: m.Key, Sort: catalog.ByNewest, Limit: pageOfIndex})
			if says = step(runs); says != "" {
				return en.Key, m.Key, says
			}
		}
	}
	return "", "", "No engine was measured in two versions on one machine yet."
}

// stepCell is the cell that versions are compared at.
var stepCell = place{16 << 10, 1}

// step compares the two newest versions of the set-up that was measured in most versions; "" where there is none.
func step(runs []*catalog.Entry) string {
	best := mostVersions(runs)
	if len(best) < 2 {
		return ""
	}
	from, to := best[len(best)-2], best[len(best)-1]
	a, ha, _ := totalAt(from, stepCell)
	b, hb, _ := totalAt(to, stepCell)
	how := "within the intervals"
	switch {
	case ha == 0 || hb == 0:
		how = "without intervals to hold against it"
	case math.Abs(b-a) > ha+hb:
		how = "more than the intervals"
	}
	return clip(from.Engine, 40) + " " + clip(from.EngineVersion, 20) + " to " + clip(to.EngineVersion, 20) + ", " + clip(to.Model, 60) + " on " + clip(to.Hardware, 60) + ": " +
		unit.Change(b/a-1) + " at 16K for one user, " + how + "."
}

// mostVersions are the newest runs of each version of the set-up that was measured in most, by version.
func mostVersions(runs []*catalog.Entry) (best []*catalog.Entry) {
	setups := map[string]map[string]*catalog.Entry{}
	for _, e := range runs {
		if e.EngineVersion == "" || !measuredAt(e, stepCell) {
			continue
		}
		name := e.ModelKey + " " + e.Quantization + " " + e.Weights
		if setups[name] == nil {
			setups[name] = map[string]*catalog.Entry{}
		}
		if old := setups[name][e.EngineVersion]; old == nil || newer(e, old) {
			setups[name][e.EngineVersion] = e
		}
	}
	for _, versions := range setups {
		list := slices.SortedFunc(maps.Values(versions), func(a, b *catalog.Entry) int { return compareVersions(a.EngineVersion, b.EngineVersion) })
		if len(list) > len(best) || len(list) == len(best) && list[0].ID < best[0].ID {
			best = list
		}
	}
	return best
}

// runs answers what a card runs.
func (a *answers) runs(machine string) string {
	if machine == "" {
		return "No run yet."
	}
	f := a.p.Index.Facets(catalog.Query{Hardware: machine})
	name := machine
	for _, g := range f.Hardware {
		if g.Key == machine {
			name = g.Name
		}
	}
	says := clip(name, 60) + ": " + plural(f.Total, "run", "runs") + " of " + plural(len(f.Models), "model", "models")
	if len(f.Engines) > 0 {
		engine := f.Engines[0]
		versions := a.p.Index.Facets(catalog.Query{Hardware: machine, Engine: engine.Key}).Versions
		says += ", " + clip(engine.Name, 40)
		if len(versions) > 0 {
			says += " in " + plural(len(versions), "version", "versions")
		}
	}
	return says + "."
}
