package site

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// browseView is the list of runs.
type browseView struct {
	q     *question
	index Index
	// Says counts everything, Text is what was searched for.
	Says, Text string
	// Kept are the hidden fields of each form.
	KeptOfSearch, KeptOfSelects, KeptOfSort []pair
	Facets                                  []facetView
	Selects                                 []selectView
	Rule                                    ruleView
	Contexts, Requests                      []option
	// SortName and SortKey are what the form sorts by, in words and as a parameter.
	SortName, SortKey     string
	Orders                []linkView
	Heads                 []columnHead
	Rows, Apart           []runRow
	Cut                   string
	CutLink               string
	Count                 string
	First, Previous, Next string
	Forms                 []linkView
	Empty                 *emptyView
	Ramp                  template.HTML
}

type linkView struct {
	Text, Link string
	On         bool
}

// columnHead is a column's head; Link sorts by it.
type columnHead struct {
	Text, Second, Link string
	Left, Sorted       bool
	Hidden             bool
	Least              bool
}

// ruleView is the sentence on which runs are compared, above the list.
type ruleView struct {
	Head, Says, Link, LinkText string
}

// runRow is a run in a list.
type runRow struct {
	ID, Link, Quantization, Hardware, Engine string
	Model                                    template.HTML
	Thumb                                    template.HTML
	Number, Also, State                      string
	Users, Prefill, Trust, Date, Compare     string
	// UsersLabel and PrefillLabel stand before the numbers on narrow screens, where the heads are not shown.
	UsersLabel, PrefillLabel string
}

// searchForm is the search field; Kept are the hidden fields beside it.
type searchForm struct {
	Small bool
	Text  string
	Kept  []pair
}

func newSearchForm(small bool, text string, kept []pair) searchForm {
	return searchForm{small, text, kept}
}

// browse serves the list of runs.
func (p *pages) browse(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuestion(r.URL.Query(), p.Now())
	if err != nil {
		return err
	}
	key := fmt.Sprintf("runs %s %d %d", q.params.Encode(), p.Index.Sequence(), midnight(p.Now()).Unix())
	if fresh(w, r, p.tag(r, key)) {
		return nil
	}
	parts, err := p.cache.get(key, func() ([][]byte, error) { return p.browseBytes(q) })
	if err != nil {
		return err
	}
	head, err := p.listHead(q.address("/runs.atom"), q.Text != "" || q.Cursor != "")
	if err != nil {
		return err
	}
	p.show(w, r, view{title: string(parts[1]), says: string(parts[2]), current: "/runs", name: "content", data: template.HTML(parts[0]), head: head})
	return nil
}

// listHead is what the pages with a search field add to the head: the script and a feed. A search's pages are not for other
// searches.
func (p *pages) listHead(feed string, unlisted bool) (template.HTML, error) {
	a, err := siteAssets()
	if err != nil {
		return "", err
	}
	robots := ""
	if unlisted {
		robots = `<meta name="robots" content="noindex,follow">`
	}
	return template.HTML(`<link rel="alternate" type="application/atom+xml" title="Newest runs" href="` + template.HTMLEscapeString(feed) + `"><script src="` + a.search.path + `" defer></script>` + robots), nil
}

func (p *pages) browseBytes(q *question) ([][]byte, error) {
	page, err := p.Index.Find(q.Query)
	if err != nil {
		return nil, refusedQuestion(err)
	}
	v := &browseView{q: q, index: p.Index, Text: q.params.Get("q"), Ramp: ramp()}
	facets := p.Index.Facets(q.Query, p.since()...)
	v.Says = v.all(&facets)
	v.setFacets(&facets)
	v.setSort(&facets)
	v.setRows(&page)
	v.Rule = v.rule(&page)
	if page.Total == 0 && len(page.Apart) == 0 {
		v.Empty = p.empty(q)
	}
	for _, f := range []pair{{"CSV", ".csv"}, {"JSON", ".json"}, {"Atom", ".atom"}} {
		v.Forms = append(v.Forms, linkView{Text: f.Name, Link: q.address("/runs" + f.Value)})
	}
	v.KeptOfSearch, v.KeptOfSort = q.kept("q"), q.kept("ctx", "n", "sort", "floor")
	v.KeptOfSelects = q.kept("model", "gpu", "engine", "version", "quant", "trust", "method", "since", "facet")
	title := "Runs" + say(q.conditions(&facets), -1)
	if v.Empty != nil {
		title = v.Empty.Title
	}
	var out bytes.Buffer
	err = siteTemplate.ExecuteTemplate(&out, "browse", v)
	return [][]byte{out.Bytes(), []byte(clip(title, 200)), []byte(v.Says)}, err
}

// refusedQuestion is the index's word on a query that it cannot answer.
func refusedQuestion(err error) error {
	return &failure{status: http.StatusBadRequest, Title: "This list cannot be made", Says: capital(err.Error()) + ".", Link: "/runs", LinkText: "All runs"}
}

// all counts the runs that match: "55 runs of 11 models on 14 machines, from 21 Jun 2026 to 30 Nov 2026."
func (v *browseView) all(f *catalog.Facets) string {
	models, machines := len(f.Models), len(f.Hardware)
	if v.q.Model != "" {
		models = 1
	}
	if v.q.Hardware != "" {
		machines = 1
	}
	if f.Total == 0 {
		return "No run matches."
	}
	says := plural(f.Total, "run", "runs") + " of " + plural(models, "model", "models") + " on " + plural(machines, "machine", "machines")
	if from, to := date(f.Oldest), date(f.Newest); from != to {
		says += ", from " + from + " to " + to
	} else if from != "" {
		says += ", " + from
	}
	return says + "."
}

// since are the times that the column of dates counts from, and then none.
func (p *pages) since() (times []time.Time) {
	for _, ago := range daysAgo {
		times = append(times, midnight(p.Now()).AddDate(0, 0, -ago.days))
	}
	return append(times, time.Time{})
}

// rule is the sentence of comparability, and how many runs it leaves out.
func (v *browseView) rule(page *catalog.Page) ruleView {
	if v.q.All {
		return ruleView{Head: "Sorted: all runs together,", Says: "comparable or not. Methods, changed hardware and speculative decoding make numbers that mean different things.", Link: v.q.with("all", ""), LinkText: "Comparable runs only"}
	}
	r := ruleView{Head: "Sorted: comparable runs only.", Says: "Method standard/1, stock hardware, no speculative decoding, recomputed or better."}
	if n := sum(page.ApartTotal); n > 0 {
		stand := "others stand"
		if n == 1 {
			stand = "other stands"
		}
		below := " below the line: "
		if v.q.Cursor != "" {
			below = " below the line of the first page: "
		}
		r.Says += " " + unit.Count(n) + " " + stand + below + reasonsText(page.ApartTotal) + "."
		r.Link, r.LinkText = v.q.with("all", "1"), "Sort all together"
	}
	return r
}

func sum(list []catalog.Facet) (n int) {
	for _, f := range list {
		n += f.N
	}
	return n
}

// mostReasons is how many reasons a sentence names.
const mostReasons = 5

// reasonsText counts reasons: "speculative decoding (2); method quick/1 (1)".
func reasonsText(list []catalog.Facet) string {
	var parts []string
	rest := 0
	for i, f := range list {
		if i < mostReasons {
			parts = append(parts, clip(f.Name, 60)+" ("+unit.Count(f.N)+")")
		} else {
			rest += f.N
		}
	}
	if rest > 0 {
		parts = append(parts, "other reasons ("+unit.Count(rest)+")")
	}
	return strings.Join(parts, "; ")
}

func (v *browseView) setRows(page *catalog.Page) {
	q := v.q
	for _, e := range page.Entries {
		v.Rows = append(v.Rows, v.row(e, ""))
	}
	for _, a := range page.Apart {
		v.Apart = append(v.Apart, v.row(a.Entry, a.Reason))
	}
	if n := sum(page.ApartTotal); len(v.Apart) > 0 {
		v.Cut = plural(n, "run that is not comparable", "runs that are not comparable")
		if n > len(v.Apart) {
			v.Cut, v.CutLink = "The newest "+unit.Count(len(v.Apart))+" of "+unit.Count(n)+" runs that are not comparable", q.with("all", "1")
		}
	}
	kind := plural(page.Total, "comparable run", "comparable runs")
	if q.All {
		kind = plural(page.Total, "run", "runs")
	}
	v.Count = unit.Count(len(page.Entries)) + " of " + kind
	if page.Total == 0 {
		v.Count = "No " + strings.TrimPrefix(kind, "0 ")
	}
	if page.Total > len(page.Entries) {
		v.Count += ", 50 a page"
	}
	if q.Cursor != "" {
		v.First = q.with()
	}
	if page.Previous != "" {
		v.Previous = q.with("cursor", page.Previous)
	}
	if page.Next != "" {
		v.Next = q.with("cursor", page.Next)
	}
}

func floorText(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// row is a run as this list shows it; reason stands in place of its level where it is not comparable.
func (v *browseView) row(e *catalog.Entry, reason string) runRow {
	q := v.q
	r := runRow{ID: e.ID, Link: "/runs/" + e.ID, Thumb: thumb(e, inTables, nil), Model: soft(e.Model), Hardware: clip(e.Hardware, 80),
		Engine: clip(joined(" ", e.Engine, e.EngineVersion), 60), Users: usersText(e, q.users, float32(q.floor)), Prefill: prefillText(e, q.prefill),
		Trust: levelWord(e.Level, e.Reproductions), Date: date(e.MeasuredAt)}
	r.UsersLabel, r.PrefillLabel = "Users at "+floorText(q.floor)+" tok/s, "+contextLabel(q.users)+":", "Prefill "+contextLabel(q.prefill)+":"
	r.Quantization = clip(e.Quantization, 40)
	if e.Speculative != "" {
		r.Quantization = joined(" · ", r.Quantization, "speculative")
	}
	if q.Sort == catalog.ByNewest {
		r.Date = date(e.PublishedAt)
	}
	r.Date = cmp.Or(r.Date, unit.Dash)
	if reason != "" {
		r.Trust = capital(clip(reason, 80))
	}
	r.Compare = "Compare " + clip(e.Title(), 160) + ", " + r.Engine + ", " + r.Date
	r.Number, r.Also, r.State = numberAt(e, q.cell, q.Sort)
	return r
}

// numberAt is what a list shows of a cell: its number, what stands below it, or the word of its status.
func numberAt(e *catalog.Entry, at place, by catalog.Sort) (number, also, state string) {
	speed, state := speedOrState(e, at)
	c := cellAt(e, at)
	if state != "" || c == nil {
		return "", "", state
	}
	if c.Status != "Valid" {
		also = string(c.Status)
	}
	switch by {
	case catalog.ByPerRequest:
		if known(c.PerRequest) {
			return whole(float64(c.PerRequest)), also, ""
		}
		return "", "", unit.Dash
	case catalog.ByTTFT:
		if known(c.TTFT) {
			return unit.TTFT(float64(c.TTFT)), also, ""
		}
		return "", "", unit.Dash
	}
	if also == "" {
		also = "one sample"
		if known(c.Half) {
			also = "± " + halfText(float64(c.Half))
		}
	}
	return speed, also, ""
}

// halfText is the half width of an interval.
func halfText(v float64) string {
	if v < 0.05 {
		return "0.1"
	}
	return whole(v)
}

// prefillText is the prefill speed at a context.
func prefillText(e *catalog.Entry, context int) string {
	for _, p := range e.Prefill {
		if p.Context == context && known(p.TokensPerSecond) {
			return unit.Short(float64(p.TokensPerSecond))
		}
	}
	return unit.Dash
}

// soft is a name that may break behind - / _ and : although no blank stands there.
func soft(name string) template.HTML {
	return template.HTML(strings.NewReplacer("-", "-<wbr>", "/", "/<wbr>", "_", "_<wbr>", ":", ":<wbr>").Replace(template.HTMLEscapeString(clip(name, 120))))
}
