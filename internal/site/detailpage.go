package site

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/unit"
)

// detail serves the page about a model, a machine or an engine, or its numbers: /hardware/KEY, KEY.json, KEY.csv, KEY.atom.
func (p *pages) detail(w http.ResponseWriter, r *http.Request, k kind) error {
	of := subject{kind: k, key: r.PathValue("key"), at: cellAsked(r)}
	for _, ext := range []string{".json", ".csv", ".atom"} {
		if rest, ok := strings.CutSuffix(of.key, ext); ok {
			of.key, of.form = rest, ext
		}
	}
	name := fmt.Sprintf("%s %q %s %v %d", k.Path, of.key, of.form, of.at, p.Index.Sequence())
	tag := p.tag(r, name)
	parts, err := p.cache.get(name, func() ([][]byte, error) { return p.detailBytes(context.WithoutCancel(r.Context()), of) })
	if err != nil || fresh(w, r, tag) {
		return err
	}
	switch of.form {
	case ".json":
		return send(w, "application/json", parts[0])
	case ".csv":
		return send(w, "text/csv; charset=utf-8", parts[0])
	case ".atom":
		return send(w, "application/atom+xml; charset=utf-8", parts[0])
	}
	p.show(w, r, view{title: string(parts[1]), says: string(parts[2]), current: "/" + k.Path, name: "content", data: template.HTML(parts[0]),
		head: template.HTML(`<link rel="alternate" type="application/atom+xml" href="/` + k.Path + "/" + template.HTMLEscapeString(url.PathEscape(of.key)) + `.atom">`)})
	return nil
}

// cellAsked is the cell that ?ctx= and ?n= name for the trends, nil without.
func cellAsked(r *http.Request) *place {
	q := r.URL.Query()
	if q.Get("ctx") == "" || q.Get("n") == "" {
		return nil
	}
	context, err := unit.ParseTokens(q.Get("ctx"))
	n, err2 := strconv.Atoi(q.Get("n"))
	if err != nil || err2 != nil || n < 1 || n > math.MaxInt32 || context > math.MaxInt32 {
		return nil
	}
	return &place{context, n}
}

// detailBytes makes the page or a file of it; behind the page stand its title and its sentence.
func (p *pages) detailBytes(ctx context.Context, of subject) ([][]byte, error) {
	k := of.kind
	runs, err := p.runsOf(k, of.key)
	if err != nil {
		return nil, err
	}
	if runs.total == 0 {
		return nil, nothing(strings.ToLower(k.One))
	}
	v := newDetail(of, runs)
	newest := runs.newest[0]
	for _, e := range runs.newest {
		if newer(e, newest) {
			newest = e
		}
	}
	var out bytes.Buffer
	switch of.form {
	case ".json":
		err = v.json(&out, p.Base)
	case ".csv":
		err = v.csv(&out, p.Base)
	case ".atom":
		err = v.atom(&out, p.Base, runs.newest)
	default:
		rec, err := p.Store.Get(ctx, newest.ID, 0)
		if err != nil {
			return nil, err
		}
		run, _, err := runfile.Decode(rec.Document)
		if err != nil {
			return nil, fmt.Errorf("read the document of run %s: %w", newest.ID, err)
		}
		v.Facts, v.Ramp = k.facts(run, runs.newest), ramp()
		err = siteTemplate.ExecuteTemplate(&out, "detail", v)
		return [][]byte{out.Bytes(), []byte(v.Name), []byte(v.Says)}, err
	}
	return [][]byte{out.Bytes()}, err
}

// runsOf gives the listed runs of a kind.
func (p *pages) runsOf(k kind, key string) (runs ofKind, err error) {
	var q catalog.Query
	k.ask(&q, key)
	if runs.newest, runs.total, err = p.Index.Newest(q, mostDetailed); err != nil {
		return ofKind{}, err
	}
	for _, e := range runs.newest {
		if e.Incomparable() == "" {
			runs.comparable = append(runs.comparable, e)
		}
	}
	return runs, nil
}

// A detail page looks at the newest of so many runs; the index gives so many at a time.
const (
	mostDetailed = 1000
	pageOfIndex  = 200
)

// json writes the page's numbers for programs.
func (v *detailView) json(w *bytes.Buffer, base string) error {
	type row struct {
		Run  catalog.View `json:"run"`
		Runs string       `json:"runs"`
	}
	type trend struct {
		Title string     `json:"title"`
		Cell  string     `json:"cell"`
		Rows  []trendRow `json:"versions"`
	}
	doc := struct {
		Kind     string  `json:"kind"`
		Key      string  `json:"key"`
		Name     string  `json:"name"`
		Runs     int     `json:"runs"`
		Newest   []row   `json:"newest_comparable"`
		Versions []trend `json:"over_versions"`
	}{strings.ToLower(v.Kind.One), v.Key, v.Name, v.N, []row{}, []trend{}}
	for _, r := range v.Rows {
		doc.Newest = append(doc.Newest, row{r.Entry.View(base), r.Count})
	}
	for _, t := range v.Trends {
		doc.Versions = append(doc.Versions, trend{t.Title, t.Sub, t.Rows})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// csv writes the newest comparable runs, a row for each decode cell.
func (v *detailView) csv(w *bytes.Buffer, base string) error {
	var runs []*catalog.Entry
	for _, r := range v.Rows {
		runs = append(runs, r.Entry)
	}
	return writeRunsCSV(w, runs, base)
}

// atom writes a feed of the newest runs.
func (v *detailView) atom(w *bytes.Buffer, base string, all []*catalog.Entry) error {
	page := base + "/" + v.Kind.Path + "/" + url.PathEscape(v.Key)
	return writeAtom(w, feedOf{title: v.Name + ": newest runs", page: page, self: page + ".atom", base: base}, all)
}

// kindsView is the list of all models, machines or engines.
type kindsView struct {
	Kind               kind
	Title, Says, Other string
	Mixed, Self        string
	Rows               []kindRow
	Ramp               template.HTML
}

// kindRow is one of them.
type kindRow struct {
	Key        string        `json:"key"`
	Name       string        `json:"name"`
	Link       string        `json:"url"`
	Thumb      template.HTML `json:"-"`
	Others     string        `json:"-"`
	One        string        `json:"one_user_context_0_total_tokens_per_second"`
	Total      string        `json:"16k_x8_total_tokens_per_second"`
	OtherCount int           `json:"others"`
	Date       string        `json:"newest"`
	Runs       string        `json:"-"`
	N          int           `json:"runs"`
}

// kindList serves /models, /hardware and /engines, as a page or a file; ?gpu=KEY, from a form, leads to the page of one.
func (p *pages) kindList(w http.ResponseWriter, r *http.Request, k kind, form string) error {
	if key := r.URL.Query().Get(k.field); key != "" && form == "" {
		to := "/" + k.Path + "/" + url.PathEscape(catalog.Key(clip(key, mostAsked)))
		if r.URL.Query().Get("engine") != "" {
			to += "#versions"
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
	tag := p.tag(r, k.Path, form, p.Index.Sequence())
	parts, err := p.cache.get(fmt.Sprintf("%s list%s %d", k.Path, form, p.Index.Sequence()), func() ([][]byte, error) { return p.kindListBytes(k, form) })
	if err != nil || fresh(w, r, tag) {
		return err
	}
	switch form {
	case ".json":
		return send(w, "application/json", parts[0])
	case ".csv":
		return send(w, "text/csv; charset=utf-8", parts[0])
	}
	p.show(w, r, view{title: k.Title, current: "/" + k.Path, name: "content", data: template.HTML(parts[0])})
	return nil
}

// mostKinds bounds a list of models, machines or engines.
const mostKinds = 500

func (p *pages) kindListBytes(k kind, form string) ([][]byte, error) {
	groups, total := p.Index.Overview(k.subject, mostKinds, catalog.Spot{Context: oneUser.context, Concurrency: oneUser.concurrency}, catalog.Spot{Context: usualLoad.context, Concurrency: usualLoad.concurrency})
	v := kindsView{Kind: k, Title: k.Title, Other: k.Other, Mixed: k.Mixed, Self: "/" + k.Path, Ramp: ramp()}
	v.Says = plural(total, strings.ToLower(k.One), k.many) + ", those with most runs first."
	for _, g := range groups {
		v.Rows = append(v.Rows, newKindRow(k, &g))
	}
	var out bytes.Buffer
	var err error
	switch form {
	case ".json":
		e := json.NewEncoder(&out)
		e.SetIndent("", "  ")
		err = e.Encode(v.Rows)
	case ".csv":
		c := csv.NewWriter(&out)
		_ = c.Write([]string{"key", "name", "url", "runs", "newest"})
		for _, row := range v.Rows {
			_ = c.Write([]string{plainCSV(row.Key), plainCSV(row.Name), p.Base + row.Link, strconv.Itoa(row.N), row.Date})
		}
		c.Flush()
		err = c.Error()
	default:
		err = siteTemplate.ExecuteTemplate(&out, "kinds", v)
	}
	return [][]byte{out.Bytes()}, err
}

// newKindRow is a model, a machine or an engine with its comparable runs in short.
func newKindRow(k kind, g *catalog.Overview) kindRow {
	row := kindRow{Key: g.Key, Name: clip(g.Name, 200), Link: "/" + k.Path + "/" + url.PathEscape(g.Key), Date: date(g.Newest), N: g.N, Runs: unit.Count(g.N), One: unit.Dash, Total: unit.Dash, Others: unit.Dash}
	if g.Latest == nil {
		return row
	}
	row.Thumb = thumb(g.Latest, inTables, nil)
	row.One, row.Total = reachText(g.Reach[0]), reachText(g.Reach[1])
	row.OtherCount, row.Others = g.Beside, unit.Count(g.Beside)
	return row
}

// reachText is the least and the greatest total of runs: "31–512".
func reachText(r catalog.Reach) string {
	switch {
	case math.IsNaN(r.Most):
		return unit.Dash
	case whole(r.Least) == whole(r.Most):
		return whole(r.Most)
	}
	return whole(r.Least) + "–" + whole(r.Most)
}
