package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
)

// A comparison has at most so many sides, and so many runs in all of them.
const (
	mostSides    = 6
	mostCompared = 12
)

// asked is what the address of a comparison asks for.
type asked struct {
	// sides are the runs' IDs; several of a side are repeats.
	sides [][]string
	allow []string
	query string
}

// readComparison reads ?run=ID&run=ID,ID&allow=method. A run may be named by its address.
func readComparison(r *http.Request) (asked, error) {
	var a asked
	n := 0
	for _, text := range r.URL.Query()["run"] {
		var side []string
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				side = append(side, runID(word))
			}
		}
		if n += len(side); len(side) > 0 {
			a.sides = append(a.sides, side)
		}
	}
	a.allow = r.URL.Query()["allow"]
	if len(a.sides) < 2 || len(a.sides) > mostSides || n > mostCompared || len(a.allow) > 20 {
		return a, &failure{status: http.StatusBadRequest, Title: "Which runs?", Says: fmt.Sprintf("A comparison needs 2 to %d runs. Choose them in a list of runs, or begin at the page of one.", mostSides), Link: "/runs", LinkText: "All runs"}
	}
	q := url.Values{}
	for _, side := range a.sides {
		q.Add("run", strings.Join(side, ","))
	}
	a.query = q.Encode()
	return a, nil
}

// runID takes a run's ID out of its address.
func runID(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	rest, found := strings.CutPrefix(u.Path, "/runs/")
	if !found {
		return text
	}
	id, _, _ := strings.Cut(rest, "/")
	id, _, _ = strings.Cut(id, ".")
	return id
}

// compared reads the runs of a comparison and compares them.
func (p *pages) compared(r *http.Request, a asked) (*report.Comparison, [][]*catalog.Entry, error) {
	var inputs []compare.Input
	var entries [][]*catalog.Entry
	visitor := account.FromContext(r.Context())
	for _, side := range a.sides {
		var in compare.Input
		var of []*catalog.Entry
		for _, id := range side {
			rec, err := p.Store.Get(r.Context(), id, 0)
			switch {
			case errors.Is(err, catalog.ErrNotFound):
				return nil, nil, noRun(id)
			case err != nil:
				return nil, nil, err
			}
			e := rec.Entry
			if !p.shown(visitor, &e) {
				return nil, nil, noRun(id)
			}
			run, _, err := runfile.Decode(rec.Document)
			if err != nil {
				return nil, nil, fmt.Errorf("read the document of run %s: %w", id, err)
			}
			in.Runs, of = append(in.Runs, run), append(of, &e)
		}
		inputs, entries = append(inputs, in), append(entries, of)
	}
	c, err := compare.New(inputs, compare.Options{Allow: a.allow})
	if err != nil {
		return nil, nil, refusedComparison(err, a, entries)
	}
	return report.BuildComparison(c), entries, nil
}

func noRun(id string) error {
	return &failure{status: http.StatusNotFound, Title: "There is no run “" + clip(id, 60) + "” here", Says: "It may have been deleted or withdrawn, or it is not for you to see. A run is named by the 26 letters of its address.", Link: "/runs", LinkText: "All runs"}
}

// refusedComparison says in words why runs do not compare, and offers to let the settings differ by their names.
func refusedComparison(err error, a asked, entries [][]*catalog.Entry) error {
	var refused *speedmatrix.Error
	if !errors.As(err, &refused) || refused.Kind != speedmatrix.KindUsage {
		return err
	}
	f := &failure{status: http.StatusUnprocessableEntity, Title: "These runs do not compare", Says: capital(clip(refused.What, 800)) + "."}
	v := refusalView{}
	for i, side := range entries {
		v.Sides = append(v.Sides, nearView{side[0].ID, compare.SideName(i) + ": " + clip(side[0].Title(), 160), "method " + clip(side[0].Method, 60)})
	}
	for word := range strings.FieldsSeq(refused.Next) {
		if strings.HasPrefix(word, "method.") {
			v.Settings = append(v.Settings, strings.TrimRight(word, ".,;"))
		}
	}
	v.Settings = slices.Compact(v.Settings)
	var q strings.Builder
	q.WriteString("/compare?" + a.query)
	for _, s := range v.Settings {
		q.WriteString("&allow=" + url.QueryEscape(s))
	}
	if v.Link = q.String(); len(v.Settings) == 0 {
		v.Link = q.String() + "&allow=method"
	}
	var partErr error
	if f.Extra, partErr = part("refusal", v); partErr != nil {
		return partErr
	}
	return f
}

// refusalView names what makes runs incomparable.
type refusalView struct {
	Sides    []nearView
	Settings []string
	Link     string
}

// compare writes a comparison as a page.
func (p *pages) compare(w http.ResponseWriter, r *http.Request) error {
	a, err := readComparison(r)
	if err != nil {
		return err
	}
	c, entries, err := p.compared(r, a)
	if err != nil {
		return err
	}
	frame, err := p.comparisonFrame(r, c, entries, a)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := report.ComparisonHTML(&out, c, frame); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policyOf(true))
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Cookie")
	_, _ = w.Write(out.Bytes()) // nobody is there to be told
	return nil
}

// comparedSide is a side of a comparison as the site knows it.
type comparedSide struct {
	Name, Class string
	Runs        []comparedRun
}

type comparedRun struct{ Link, Title, Sub string }

func (p *pages) comparisonFrame(r *http.Request, c *report.Comparison, entries [][]*catalog.Entry, a asked) (*report.Frame, error) {
	files, err := siteAssets()
	if err != nil {
		return nil, err
	}
	var query strings.Builder
	query.WriteString(a.query)
	for _, name := range a.allow {
		query.WriteString("&allow=" + url.QueryEscape(name))
	}
	var sides []comparedSide
	for i, side := range entries {
		s := comparedSide{Name: compare.SideName(i), Class: []string{"sa", "sb"}[min(i, 1)]}
		for _, e := range side {
			s.Runs = append(s.Runs, comparedRun{"/runs/" + e.ID, "run " + e.ID, joined(" · ", levelWord(e.Level, e.Reproductions), by(e), date(e.MeasuredAt))})
		}
		sides = append(sides, s)
	}
	frame := &report.Frame{}
	view := p.frameOf(r, c.Title, "/runs")
	for _, x := range []struct {
		to   *template.HTML
		name string
		data any
	}{
		{&frame.Head, "compare-head", headView{Title: c.Title, Site: p.Name, Description: c.Description(), Absolute: p.Base + "/compare?" + query.String(), CSS: files.compare.path}},
		{&frame.Top, "top", view}, {&frame.Footer, "foot", view},
		{&frame.Below, "compare-below", map[string]any{"Sides": sides, "Query": template.URL(query.String())}},
	} {
		if *x.to, err = part(x.name, x.data); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

// compareFile writes a comparison for programs.
func (p *pages) compareFile(w http.ResponseWriter, r *http.Request) error {
	a, err := readComparison(r)
	if err != nil {
		return err
	}
	c, _, err := p.compared(r, a)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	form := path.Ext(r.URL.Path)
	write := map[string]func(io.Writer, *report.Comparison) error{".csv": report.ComparisonCSV, ".md": report.ComparisonMarkdown, ".json": func(w io.Writer, c *report.Comparison) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(c.Data)
	}}[form]
	if err := write(&out, c); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	return send(w, map[string]string{".csv": "text/csv; charset=utf-8", ".md": "text/markdown; charset=utf-8", ".json": "application/json"}[form], out.Bytes())
}

// by says who uploaded a run.
func by(e *catalog.Entry) string {
	if e.OwnerName == "" {
		return ""
	}
	return "by " + clip(e.OwnerName, 40)
}
