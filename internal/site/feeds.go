package site

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix/internal/catalog"
)

// runsList is a list of runs as a file: the question, the address of its page, the form (".json") and what a feed calls it.
type runsList struct {
	*question
	page, form, title string
}

// runsFile serves the list of runs as JSON, CSV or an Atom feed, under the parameters of the page.
func (p *pages) runsFile(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuestion(r.URL.Query(), p.Now())
	if err != nil {
		return err
	}
	return p.sendRuns(w, r, runsList{q, "/runs", strings.TrimPrefix(r.URL.Path, "/runs"), p.Name + ": newest runs"})
}

// sendRuns sends a list of runs; the visitor may say how many.
func (p *pages) sendRuns(w http.ResponseWriter, r *http.Request, of runsList) (err error) {
	q := of.question
	if s := r.URL.Query().Get("limit"); s != "" {
		if q.Limit, err = strconv.Atoi(s); err != nil || q.Limit < 1 || q.Limit > longestLimit {
			return unreadable("limit", s, "a number of runs from 1 to 200")
		}
		q.params.Set("limit", s)
	}
	if of.form == ".atom" {
		q.Sort, q.All, q.Cursor, q.Limit = catalog.ByNewest, true, "", feedLength
	}
	key := fmt.Sprintf("%q%s %s %d %d", of.page, of.form, q.params.Encode(), p.Index.Sequence(), midnight(p.Now()).Unix())
	if fresh(w, r, p.tag(r, key)) {
		return nil
	}
	parts, err := p.cache.get(key, func() ([][]byte, error) { return p.runsListBytes(of) })
	if err != nil {
		return err
	}
	if next := string(parts[1]); next != "" {
		w.Header().Set("Link", "<"+next+`>; rel="next"`)
	}
	return send(w, listKinds[of.form], parts[0])
}

// listKinds are the media types of lists by the ends of their addresses.
var listKinds = map[string]string{".json": "application/json", ".csv": "text/csv; charset=utf-8", ".atom": "application/atom+xml; charset=utf-8"}

// runsListBytes makes a file of a list, and the address of the next.
func (p *pages) runsListBytes(of runsList) ([][]byte, error) {
	q := of.question
	page, err := p.Index.Find(q.Query)
	if err != nil {
		return nil, refusedQuestion(err)
	}
	next := ""
	if page.Next != "" && of.form != ".atom" {
		next = p.Base + q.address(of.page+of.form, "cursor", page.Next)
	}
	var out bytes.Buffer
	switch of.form {
	case ".csv":
		err = writeRunsCSV(&out, page.Entries, p.Base)
	case ".atom":
		err = writeAtom(&out, feedOf{title: of.title, page: p.Base + q.address(of.page), self: p.Base + q.address(of.page+".atom"), base: p.Base}, page.Entries)
	default:
		err = p.writeRunsJSON(&out, &page, next)
	}
	return [][]byte{out.Bytes(), []byte(next)}, err
}

func (p *pages) writeRunsJSON(w *bytes.Buffer, page *catalog.Page, next string) error {
	type reason struct {
		Reason string `json:"reason"`
		Runs   int    `json:"runs"`
	}
	doc := struct {
		Total      int                 `json:"total"`
		Runs       []catalog.View      `json:"runs"`
		ApartTotal []reason            `json:"not_comparable_total"`
		Apart      []catalog.ApartView `json:"not_comparable"`
		Next       string              `json:"next"`
	}{Total: page.Total, Runs: make([]catalog.View, 0, len(page.Entries)), ApartTotal: make([]reason, 0, len(page.ApartTotal)), Apart: catalog.ApartViews(page.Apart, p.Base), Next: next}
	for _, e := range page.Entries {
		doc.Runs = append(doc.Runs, e.View(p.Base))
	}
	for _, f := range page.ApartTotal {
		doc.ApartTotal = append(doc.ApartTotal, reason{f.Name, f.N})
	}
	return json.NewEncoder(w).Encode(doc)
}

// writeRunsCSV writes runs, a row for each decode cell.
func writeRunsCSV(w *bytes.Buffer, runs []*catalog.Entry, base string) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"run", "url", "model", "hardware", "quantization", "engine", "engine_version", "method", "trust", "measured_at", "context_label", "context", "concurrency",
		"status", "total_tokens_per_second", "half_width_95", "per_request_tokens_per_second", "ttft_ms_p50", "time_between_tokens_ms_p50"})
	for _, e := range runs {
		measured := ""
		if !e.MeasuredAt.IsZero() {
			measured = e.MeasuredAt.UTC().Format(time.RFC3339)
		}
		for _, c := range e.Cells {
			_ = out.Write([]string{e.ID, base + "/runs/" + e.ID, plainCSV(e.Model), plainCSV(e.Hardware), plainCSV(e.Quantization), plainCSV(e.Engine), plainCSV(e.EngineVersion), plainCSV(e.Method),
				levelWord(e.Level, e.Reproductions), measured, plainCSV(c.Label), strconv.Itoa(c.Context), strconv.Itoa(c.Concurrency), string(c.Status),
				numberCSV(c.Total), numberCSV(c.Half), numberCSV(c.PerRequest), numberCSV(c.TTFT), numberCSV(c.Between)})
		}
	}
	out.Flush()
	return out.Error()
}

// plainCSV is text that no spreadsheet computes.
func plainCSV(s string) string {
	s = clip(s, 300)
	if first := strings.TrimLeft(s, " '\""); first != "" && strings.ContainsRune("=+-@＝＋－＠|%", []rune(first)[0]) {
		return "'" + s
	}
	return s
}

func numberCSV(v float32) string {
	if v != v {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'f', -1, 32)
}

// The elements of an Atom feed.
type (
	atomFeed struct {
		XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string      `xml:"id"`
		Title   string      `xml:"title"`
		Updated string      `xml:"updated"`
		Links   []atomLink  `xml:"link"`
		Entries []atomEntry `xml:"entry"`
	}
	atomLink struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	}
	atomEntry struct {
		ID      string   `xml:"id"`
		Title   string   `xml:"title"`
		Updated string   `xml:"updated"`
		Link    atomLink `xml:"link"`
		Author  string   `xml:"author>name"`
		Summary string   `xml:"summary"`
	}
)

// feedLength is how many runs a feed has.
const feedLength = 30

// feedOf is what a feed says of itself.
type feedOf struct{ title, page, self, base string }

// writeAtom writes a feed of runs, the newest first.
func writeAtom(w *bytes.Buffer, of feedOf, runs []*catalog.Entry) error {
	newest := slices.SortedStableFunc(slices.Values(runs), func(a, b *catalog.Entry) int { return b.PublishedAt.Compare(a.PublishedAt) })
	feed := atomFeed{ID: of.page, Title: clip(of.title, 200), Updated: time.Unix(0, 0).UTC().Format(time.RFC3339), Links: []atomLink{{"self", of.self}, {"alternate", of.page}}}
	if len(newest) > 0 {
		feed.Updated = newest[0].PublishedAt.UTC().Format(time.RFC3339)
	}
	for _, e := range newest[:min(len(newest), feedLength)] {
		says := joined(" · ", clip(quantizedOn(e), 80), levelWord(e.Level, e.Reproductions))
		if best := bestCell(e); best != nil {
			says = joined(" · ", whole(float64(best.Total))+" total tok/s at "+clip(best.Label, 8)+" × "+strconv.Itoa(best.Concurrency), says)
		}
		author := e.OwnerName
		if author == "" {
			author = "without an account"
		}
		feed.Entries = append(feed.Entries, atomEntry{of.base + "/runs/" + e.ID, clip(e.Title(), 200), e.PublishedAt.UTC().Format(time.RFC3339), atomLink{"alternate", of.base + "/runs/" + e.ID}, author, says})
	}
	w.WriteString(xml.Header)
	return xml.NewEncoder(w).Encode(feed)
}
