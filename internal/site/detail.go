package site

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"speedmatrix"
	"speedmatrix/internal/capacity"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// kind is what a detail page is about: a model, a machine or an engine. The three pages are one, with the parts swapped.
type kind struct {
	// Path is the first part of its address, Title heads the list of all, One is its word, many that of several.
	Path, Title, One, many string
	// field is the name of its key in queries.
	field string
	// Measured heads its table, Rows the column of names there; ByVersion orders the table by version.
	Measured, Rows string
	ByVersion      bool
	// Other counts what its comparable runs are of in the list of all, Mixed says what they differ in.
	Other, Mixed string
	subject      catalog.Subject
	name         func(*catalog.Entry) string
	ask          func(*catalog.Query, string)
	// row is what tells rows apart; the newest comparable run of each stands there. head names it, sub says what it is of.
	row       func(*catalog.Entry) string
	head, sub func(*catalog.Entry) string
}

var kinds = []kind{
	{Path: "models", Title: "Models", One: "Model", many: "models", field: "model", Measured: "Machines it was measured on", Rows: "Machine, newest comparable run",
		Other: "Machines", Mixed: "machines and engines", subject: catalog.OfModels,
		name: func(e *catalog.Entry) string { return e.Model }, ask: func(q *catalog.Query, k string) { q.Model = k },
		row: func(e *catalog.Entry) string { return e.HardwareKey + " " + e.Engine }, head: func(e *catalog.Entry) string { return e.Hardware }, sub: quantizedOn},
	{Path: "hardware", Title: "Hardware", One: "Hardware", many: "machines", field: "gpu", Measured: "Models measured on it", Rows: "Model, newest comparable run",
		Other: "Models", Mixed: "models and engines", subject: catalog.OfHardware,
		name: func(e *catalog.Entry) string { return e.Hardware }, ask: func(q *catalog.Query, k string) { q.Hardware = k },
		row: func(e *catalog.Entry) string { return e.ModelKey + " " + e.Engine }, head: func(e *catalog.Entry) string { return e.Model }, sub: quantizedOn},
	{Path: "engines", Title: "Engines", One: "Engine", many: "engines", field: "engine", Measured: "Versions of it that were measured", Rows: "Version, newest comparable run", ByVersion: true,
		Other: "Versions", Mixed: "models and machines", subject: catalog.OfEngines,
		name: func(e *catalog.Entry) string { return e.Engine }, ask: func(q *catalog.Query, k string) { q.Engine = k },
		row: func(e *catalog.Entry) string { return e.EngineVersion }, head: func(e *catalog.Entry) string { return cmp.Or(e.EngineVersion, "version not known") },
		sub: func(e *catalog.Entry) string { return joined(" · ", e.Model+" on "+e.Hardware, e.Quantization) }},
}

// quantizedOn is a run's quantization and engine: "AWQ 4-bit · vllm 0.32.0".
func quantizedOn(e *catalog.Entry) string {
	engine := e.Engine
	if e.EngineVersion != "" {
		engine += " " + e.EngineVersion
	}
	return joined(" · ", e.Quantization, engine)
}

func joined(sep string, parts ...string) string {
	out := ""
	for _, p := range parts {
		switch {
		case p == "":
		case out == "":
			out = p
		default:
			out += sep + p
		}
	}
	return out
}

// The cells that the table of a detail page shows.
var (
	oneUser   = place{0, 1}
	usualLoad = place{16 << 10, 8}
)

const usersContext = 32 << 10

// detailView is a page about a model, a machine or an engine.
type detailView struct {
	Kind      kind
	Key, Name string
	// Says is the sentence below the name, Facts what is known of it.
	Says  string
	Facts []string
	// All is the address of all its runs, N their number.
	All, AllSay, Self string
	N                 int
	Rows              []detailRow
	// RowsSay says that there are more rows, "" where these are all.
	RowsSay string
	Panels  []panelView
	Trends  []trendView
	Ramp    template.HTML
}

// detailRow is the newest comparable run of a kind.
type detailRow struct {
	Entry                              *catalog.Entry
	Thumb                              template.HTML
	Title, Sub, Link                   string
	One, OneState, Total, TotalState   string
	Users, Prefill, Trust, Date, Count string
}

// subject is what a detail page is asked about: a kind's key, the form of the answer ("" is the page), and the cell of its
// trends, nil for the usual one.
type subject struct {
	kind
	key, form string
	at        *place
}

// ofKind are the listed runs of a kind: the newest, those of them that are comparable, and how many there are in all.
type ofKind struct {
	newest, comparable []*catalog.Entry
	total              int
}

// newDetail makes the page of a kind from its runs.
func newDetail(of subject, runs ofKind) *detailView {
	k, key, all, comparable := of.kind, of.key, runs.newest, runs.comparable
	v := &detailView{Kind: k, Key: key, N: runs.total, All: "/runs?" + k.field + "=" + url.QueryEscape(key) + "&all=1"}
	v.Name, v.Self = clip(k.name(all[0]), 200), "/"+k.Path+"/"+url.PathEscape(key)
	v.AllSay = "all " + plural(runs.total, "run", "runs")
	v.Says = span(k, all)
	if runs.total > len(all) {
		v.Says = plural(runs.total, "run", "runs") + ". This page is of the newest: " + v.Says
	}
	newest, counts := map[string]*catalog.Entry{}, map[string]int{}
	for _, e := range all {
		counts[k.row(e)]++
	}
	for _, e := range comparable {
		if old := newest[k.row(e)]; old == nil || newer(e, old) {
			newest[k.row(e)] = e
		}
	}
	var rows []*catalog.Entry
	for _, e := range newest {
		rows = append(rows, e)
	}
	slices.SortFunc(rows, func(a, b *catalog.Entry) int {
		if k.ByVersion {
			return compareVersions(b.EngineVersion, a.EngineVersion)
		}
		x, _, _ := totalAt(a, oneUser)
		y, _, _ := totalAt(b, oneUser)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(a.ID, b.ID))
	})
	shown := rows
	if of.form == "" && len(rows) > mostRows {
		shown = rows[:mostRows]
		v.RowsSay = fmt.Sprintf("The first %d of %s; the files below have all.", mostRows, unit.Count(len(rows)))
	}
	for _, e := range shown {
		v.Rows = append(v.Rows, newDetailRow(k, e, counts[k.row(e)]))
	}
	v.Panels = panels(rows[:min(len(rows), mostPanels)], func(e *catalog.Entry) (string, string) {
		if k.ByVersion {
			return k.head(e), k.sub(e)
		}
		return k.head(e), joined(" ", e.Engine, e.EngineVersion)
	})
	v.Trends = trendsOf(k, comparable, of.at)
	return v
}

// A detail page has at most so many rows, small trade-offs and trends.
const (
	mostRows   = 60
	mostPanels = 20
	mostTrends = 4
)

// newer says whether a run was measured after another.
func newer(a, b *catalog.Entry) bool {
	if !a.MeasuredAt.Equal(b.MeasuredAt) {
		return a.MeasuredAt.After(b.MeasuredAt)
	}
	return a.ID > b.ID
}

func newDetailRow(k kind, e *catalog.Entry, runs int) detailRow {
	r := detailRow{Entry: e, Thumb: thumb(e, inTables, nil), Title: clip(k.head(e), 120), Sub: clip(k.sub(e), 160), Link: "/runs/" + e.ID, Trust: levelWord(e.Level, e.Reproductions), Date: date(e.MeasuredAt), Count: unit.Count(runs)}
	r.One, r.OneState = speedOrState(e, oneUser)
	r.Total, r.TotalState = speedOrState(e, usualLoad)
	r.Users = usersText(e, usersContext, readingSpeed)
	r.Prefill = unit.Dash
	for _, p := range e.Prefill {
		if p.Context == usualLoad.context && known(p.TokensPerSecond) {
			r.Prefill = unit.Short(float64(p.TokensPerSecond))
		}
	}
	return r
}

// speedOrState is a cell's total tok/s, or the word of its status.
func speedOrState(e *catalog.Entry, at place) (speed, state string) {
	if total, _, ok := totalAt(e, at); ok {
		return whole(total), ""
	}
	if c := cellAt(e, at); c != nil && c.Status != "" && c.Status != speedmatrix.StatusValid {
		return "", string(c.Status)
	}
	return "", unit.Dash
}

// usersText is the most requests at once that, with all smaller numbers, each keep a speed at a context, as measured: "8",
// "≥ 128" where nothing larger was planned, "none".
func usersText(e *catalog.Entry, context int, floor float32) string {
	var cells []catalog.Cell
	for _, c := range e.Cells {
		if c.Context == context {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return unit.Dash
	}
	slices.SortFunc(cells, func(a, b catalog.Cell) int { return cmp.Compare(a.Concurrency, b.Concurrency) })
	most := 0
	for _, c := range cells {
		if !c.Status.ShowsSpeed() || !known(c.PerRequest) || c.PerRequest < floor {
			break
		}
		most = c.Concurrency
	}
	switch most {
	case 0:
		return "none"
	case cells[len(cells)-1].Concurrency:
		return "≥ " + strconv.Itoa(most)
	}
	return strconv.Itoa(most)
}

// span says how many runs of what there are, by how many people, and when: "17 runs of 7 models by 6 people, 21 Jun 2026 to
// 30 Nov 2026."
func span(k kind, all []*catalog.Entry) string {
	models, machines, people := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var first, last time.Time
	for _, e := range all {
		models[e.ModelKey], machines[e.HardwareKey] = true, true
		if e.Owner != "" {
			people[e.Owner] = true
		}
		if e.MeasuredAt.IsZero() {
			continue
		}
		if first.IsZero() || e.MeasuredAt.Before(first) {
			first = e.MeasuredAt
		}
		if e.MeasuredAt.After(last) {
			last = e.MeasuredAt
		}
	}
	says := plural(len(all), "run", "runs")
	if k.Path != "models" {
		says += " of " + plural(len(models), "model", "models")
	}
	if k.Path != "hardware" {
		says += " on " + plural(len(machines), "machine", "machines")
	}
	if len(people) > 0 {
		says += " by " + plural(len(people), "person", "people")
	}
	switch {
	case first.IsZero():
	case date(first) == date(last):
		says += ", " + date(first)
	default:
		says += ", " + date(first) + " to " + date(last)
	}
	return says + "."
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return unit.Count(n) + " " + many
}

// trendsOf are the set-ups with the most versions, one cell of each over them.
func trendsOf(k kind, runs []*catalog.Entry, asked *place) []trendView {
	groups := map[string][]*catalog.Entry{}
	for _, e := range runs {
		name := e.ModelKey + " " + e.HardwareKey + " " + e.Engine + " " + e.Quantization
		groups[name] = append(groups[name], e)
	}
	var list [][]*catalog.Entry
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b []*catalog.Entry) int {
		return cmp.Or(cmp.Compare(versionsIn(b), versionsIn(a)), cmp.Compare(len(b), len(a)), cmp.Compare(a[0].ModelKey+a[0].HardwareKey, b[0].ModelKey+b[0].HardwareKey))
	})
	var trends []trendView
	for _, g := range list {
		if len(trends) == mostTrends || versionsIn(g) < 2 {
			break
		}
		title := g[0].Model
		switch k.Path {
		case "models":
			title = g[0].Hardware
		case "engines":
			title = g[0].Model + " on " + g[0].Hardware
		}
		if t, ok := trendOf(title, g[0].Engine, g, asked); ok {
			trends = append(trends, t)
		}
	}
	return trends
}

func versionsIn(runs []*catalog.Entry) int {
	seen := map[string]bool{}
	for _, e := range runs {
		if e.EngineVersion != "" {
			seen[e.EngineVersion] = true
		}
	}
	return len(seen)
}

// facts are what is known of a kind, from the document of one of its runs and the entries of all.
func (k kind) facts(run *speedmatrix.Run, all []*catalog.Entry) (facts []string) {
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	switch k.Path {
	case "hardware":
		if vram := clip(run.Hardware.Text(speedmatrix.HardwareVRAM), 40); vram != "" {
			add("%s", vram)
		}
		if h := capacity.HardwareOf(run.Hardware); h.Bandwidth > 0 && h.Compute > 0 {
			add("%s GB/s and %s TFLOP/s (%s)", unit.Fixed(h.Bandwidth/1e9, 0), unit.Fixed(h.Compute/1e12, 0), h.Source)
		}
		if watts, ok := run.Hardware.Positive(speedmatrix.HardwareGPUPowerDefault); ok {
			add("%s W stock limit", unit.Fixed(watts, 0))
		}
		modified := 0
		for _, e := range all {
			if e.Modified != "" {
				modified++
			}
		}
		add("%s on stock hardware, %d on modified", plural(len(all)-modified, "run", "runs"), modified)
	case "models":
		for _, key := range []string{speedmatrix.ModelArchitecture, speedmatrix.ModelParameters, speedmatrix.ModelBase} {
			if text := clip(run.Model.Text(key), 60); text != "" {
				add("%s", text)
			}
		}
		if n, ok := run.Model.Positive(speedmatrix.ModelTrainedLength); ok {
			add("made for %s tokens", unit.Fixed(n, 0))
		}
		if bytes, ok := run.Model.Positive(speedmatrix.ModelReadBytes); ok && bytes < math.MaxInt64 {
			add("%s of weights read for each token", unit.Bytes(int64(bytes)))
		}
		add("%s", quantizations(all))
	case "engines":
		add("%s", plural(versionsIn(all), "version", "versions"))
	}
	return facts
}

// quantizations counts runs by quantization: "12 runs FP8, 3 AWQ 4-bit".
func quantizations(all []*catalog.Entry) string {
	counts := map[string]int{}
	for _, e := range all {
		counts[cmp.Or(e.Quantization, "of unknown quantization")]++
	}
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	text := ""
	for i, name := range names[:min(len(names), 4)] {
		if i == 0 {
			text = plural(counts[name], "run", "runs") + " " + clip(name, 40)
			continue
		}
		text += ", " + unit.Count(counts[name]) + " " + clip(name, 40)
	}
	return text
}
