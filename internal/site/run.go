package site

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/trust"
	"speedmatrix/internal/unit"
)

// run serves a run's page, or its document as a file: /runs/ID, /runs/ID.json, .csv, .md.
func (p *pages) run(w http.ResponseWriter, r *http.Request) error {
	id, form, isFile := strings.Cut(r.PathValue("id"), ".")
	if isFile {
		r.SetPathValue("id", id)
		return p.runFile(w, r, form)
	}
	return p.runPage(w, r, 0)
}

func (p *pages) runVersion(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 1 {
		return nothing("version")
	}
	return p.runPage(w, r, n)
}

// runPage writes a version of a run, the latest for 0. What all visitors see of it is made once and kept.
func (p *pages) runPage(w http.ResponseWriter, r *http.Request, version int) error {
	rec, err := p.record(r, version)
	if err != nil {
		return err
	}
	e := &rec.Entry
	if !p.shown(account.FromContext(r.Context()), e) {
		return p.withdrawn(w, r, e)
	}
	latest := e
	if version > 0 {
		newest, err := p.Store.Get(r.Context(), e.ID, 0)
		if err != nil {
			return err
		}
		latest = &newest.Entry
	}
	tag := p.tag(r, e.ID, e.Version, latest.Sequence, latest.Visibility)
	if fresh(w, r, tag) {
		return nil
	}
	parts, err := p.cache.get(fmt.Sprintf("run %s %d %d", e.ID, e.Version, latest.Sequence), func() ([][]byte, error) { return p.runParts(&rec, latest) })
	if err != nil {
		return err
	}
	top, err := part("top", p.frameOf(r, e.Title(), "/runs"))
	if err != nil {
		return err
	}
	notice, err := part("notice", p.notice(r, e, latest))
	if err != nil {
		return err
	}
	foot, err := part("foot", p.frameOf(r, e.Title(), "/runs"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policyOf(true))
	for i, data := range parts {
		_, _ = w.Write(data) // nobody is there to be told
		if i < 3 {
			_, _ = io.WriteString(w, string([]template.HTML{top, notice, foot}[i]))
		}
	}
	return nil
}

// tag is the validator of a page: it changes with the run, and with who looks.
func (p *pages) tag(r *http.Request, parts ...any) string {
	v := account.FromContext(r.Context())
	sum := sha256.Sum256(fmt.Appendf(nil, "%v %s %s %s %d", parts, v.Account.ID, v.Account.Role, p.Version, p.started.UnixNano()))
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// fresh sends a validator, and says whether the visitor has what it stands for.
func fresh(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Add("Vary", "Cookie")
	if r.Header.Get("If-None-Match") != tag {
		return false
	}
	// A browser takes over the headers of a 304: what it has keeps the policies that it came with.
	w.Header().Del("Content-Security-Policy")
	w.Header().Del("Cross-Origin-Resource-Policy")
	w.WriteHeader(http.StatusNotModified)
	return true
}

// Marks divide a finished page where a visitor's own parts stand. A run's own text cannot hold them: it is escaped.
const (
	markTop    = template.HTML("<!--top-->")
	markNotice = template.HTML("<!--notice-->")
	markFoot   = template.HTML("<!--foot-->")
)

// runParts makes a run's page, divided at its marks.
func (p *pages) runParts(rec *catalog.Record, latest *catalog.Entry) ([][]byte, error) {
	run, _, err := runfile.Decode(rec.Document)
	if err != nil {
		return nil, fmt.Errorf("read the document of run %s: %w", rec.Entry.ID, err)
	}
	d := report.Build(run)
	v := p.runView(rec, d, latest)
	frame := &report.Frame{Top: markTop, Footer: markFoot}
	if frame.Head, err = p.runHead(d, &rec.Entry); err != nil {
		return nil, err
	}
	below, err := part("run-below", v)
	if err != nil {
		return nil, err
	}
	frame.Below = markNotice + below
	if frame.End, err = part("run-end", v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := report.HTML(&out, d, report.HTMLOptions{Frame: frame, Drawing: p.drawings(rec)}); err != nil {
		return nil, err
	}
	return divide(out.Bytes(), markTop, markNotice, markFoot)
}

// divide cuts a page at marks, each of which stands in it once.
func divide(page []byte, marks ...template.HTML) ([][]byte, error) {
	var parts [][]byte
	for _, m := range marks {
		before, after, found := bytes.Cut(page, []byte(m))
		if !found {
			return nil, fmt.Errorf("the page has no place %s", m)
		}
		parts, page = append(parts, bytes.Clone(before)), after
	}
	return append(parts, bytes.Clone(page)), nil
}

// headView is the head of a run's page.
type headView struct {
	Title, Site, Description, Absolute, Base string
	CSS, Script                              string
	Unlisted                                 bool
}

func (p *pages) runHead(d *report.Document, e *catalog.Entry) (template.HTML, error) {
	a, err := siteAssets()
	if err != nil {
		return "", err
	}
	return part("run-head", headView{Title: d.Title, Site: p.Name, Description: d.Description(), Absolute: p.Base + "/runs/" + e.ID, Base: p.Base,
		CSS: a.report.path, Script: a.script.path, Unlisted: !e.Visibility.Listed()})
}

// drawings gives the addresses of drawings of a version's raw rows, for the cells that have them.
func (p *pages) drawings(rec *catalog.Record) func(cell, drawing string) string {
	if p.Rows == nil {
		return nil
	}
	names := map[string]bool{}
	for _, b := range rec.Blobs {
		names[b.Name] = true
	}
	page := "/runs/" + rec.Entry.ID + "/rows/"
	return func(cell, drawing string) string {
		switch {
		case cell == "" && names["machine.parquet"]:
			return page + drawing + ".svg?v=" + strconv.Itoa(rec.Entry.Version)
		case cell != "" && names["cells/"+cell+".parquet"] && names["cells/requests-"+cell+".parquet"]:
			return page + url.PathEscape(cell) + "." + drawing + ".svg?v=" + strconv.Itoa(rec.Entry.Version)
		}
		return ""
	}
}

// runView is what a site adds to a run's page.
type runView struct {
	ID, Page, Absolute                                        string
	Trust, TrustSays, Tally                                   string
	Uploader, Received, DocumentHash, EventsHash              string
	Version, Versions                                         int
	FilesSay                                                  string
	Files                                                     []fileView
	Model, ModelKey, Hardware, HardwareKey, Engine, EngineKey string
	Method                                                    string
	Near                                                      []nearView
	Commands                                                  []string
	Cell, BadgeCode, BadgeSays, HeatCode, HeatSays            string
}

type fileView struct{ Name, Link, Size, Hash string }

type nearView struct{ ID, Title, Sub string }

func (p *pages) runView(rec *catalog.Record, d *report.Document, latest *catalog.Entry) runView {
	e := &rec.Entry
	checks := checksOf(rec)
	v := runView{ID: e.ID, Page: "/runs/" + e.ID, Absolute: p.Base + "/runs/" + e.ID, Trust: levelWord(latest.Level, latest.Reproductions), TrustSays: levelSentence(latest.Level),
		Tally: tally(checks), Uploader: e.OwnerName, Received: moment(e.ReceivedAt), DocumentHash: short(e.DocumentHash), EventsHash: short(e.EventsHash),
		Version: e.Version, Versions: latest.Version, Model: clip(e.Model, 80), ModelKey: e.ModelKey, Hardware: clip(e.Hardware, 80), HardwareKey: e.HardwareKey,
		Engine: clip(e.Engine, 60), EngineKey: catalog.Key(e.Engine), Method: clip(e.Method, 60), Near: p.near(e)}
	var size int64
	for _, b := range rec.Blobs {
		size += b.Size
		v.Files = append(v.Files, fileView{clip(b.Name, 120), v.Page + "/files/" + pathOf(b.Name), unit.Bytes(b.Size), short(b.Hash)})
	}
	v.FilesSay = plural(len(rec.Blobs), "file", "files") + ", " + unit.Bytes(size)
	v.Commands = []string{reproducing(d), "speedmatrix submit RUN --to " + p.Base}
	best := bestCell(e)
	if best != nil {
		if key := speedmatrix.CellKey(speedmatrix.PhaseDecode, best.Label, best.Concurrency); plainName(key) == key {
			v.Cell = key
		}
	}
	v.BadgeSays, v.HeatSays = badgeSays(e), "Total tok/s by context and requests at once: "+clip(e.Title(), 200)
	v.BadgeCode = fmt.Sprintf("[![%s](%s/badge.svg)](%s)", markdownSafe(v.BadgeSays), v.Absolute, v.Absolute)
	v.HeatCode = fmt.Sprintf(`<a href="%s"><img src="%s/heatmap.svg" alt="%s" width="337" height="157"></a>`, v.Absolute, v.Absolute, template.HTMLEscapeString(v.HeatSays))
	return v
}

// reproducing is the command that measures a run again, as its page says it.
func reproducing(d *report.Document) string {
	if again := d.Reproduce(); again != "" {
		return again
	}
	return "speedmatrix run --method standard/1"
}

// checksOf reads what was checked of a run; what cannot be read is nothing.
func checksOf(rec *catalog.Record) *trust.Report {
	r := &trust.Report{}
	if json.Unmarshal(rec.Checks, r) != nil {
		r = &trust.Report{}
	}
	r.Level = rec.Entry.Level
	return r
}

// short is the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// pathOf is a file's name in an address.
func pathOf(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// nearRuns bounds the runs that a page offers to compare with.
const nearRuns = 5

// near are the newest runs by the same method of the same model, those on the same hardware first; then others on the hardware.
func (p *pages) near(e *catalog.Entry) (list []nearView) {
	seen := map[string]bool{e.ID: true}
	for _, q := range []catalog.Query{
		{Model: e.ModelKey, Hardware: e.HardwareKey, All: true, Limit: nearRuns + 1}, {Model: e.ModelKey, All: true, Limit: nearRuns + 1}, {Hardware: e.HardwareKey, All: true, Limit: nearRuns + 1},
	} {
		q.Method = e.Method
		page, err := p.Index.Find(q)
		if err != nil {
			return list
		}
		for _, other := range page.Entries {
			if seen[other.ID] || len(list) == nearRuns {
				continue
			}
			seen[other.ID] = true
			list = append(list, nearView{other.ID, clip(other.Title(), 120), joined(" · ", clip(quantizedOn(other), 80), levelWord(other.Level, other.Reproductions), date(other.MeasuredAt))})
		}
	}
	return list
}

// bestCell is the decode cell with the greatest total, nil without one.
func bestCell(e *catalog.Entry) *catalog.Cell {
	var best *catalog.Cell
	for i := range e.Cells {
		if c := &e.Cells[i]; c.Status.ShowsSpeed() && known(c.Total) && (best == nil || c.Total > best.Total) {
			best = c
		}
	}
	return best
}

// noticeView is the line that only some visitors, or some versions, have above the run.
type noticeView struct{ Notice, NoticeLink, NoticeText string }

func (p *pages) notice(r *http.Request, e, latest *catalog.Entry) noticeView {
	v := account.FromContext(r.Context())
	own := p.decides(v, e)
	review := "/upload/" + e.ID
	switch {
	case latest.Visibility == catalog.Draft:
		return noticeView{"A draft, seen by you alone.", review, "Look at what was found, then publish it"}
	case latest.Visibility == catalog.Withdrawn:
		return noticeView{"Withdrawn: others see only that it was, and why.", review, "Change that"}
	case latest.Visibility == catalog.Quarantined:
		return noticeView{"Uploaded without an account: no list shows it.", "/upload/" + e.ID, "It is mine"}
	case e.Version < latest.Version:
		return noticeView{fmt.Sprintf("Version %d of %d.", e.Version, latest.Version), "/runs/" + e.ID, "The newest version"}
	case latest.Visibility == catalog.Unlisted && own:
		return noticeView{"Unlisted: seen by those who have the address.", review, "Change that"}
	case own:
		return noticeView{"Your run.", review, "Edit or withdraw it"}
	}
	return noticeView{}
}

// withdrawnView is what is left of a withdrawn run.
type withdrawnView struct{ Title, Says, Why, Page, All string }

func (p *pages) withdrawn(w http.ResponseWriter, r *http.Request, e *catalog.Entry) error {
	history, err := p.Store.History(r.Context(), e.ID)
	if err != nil {
		return err
	}
	v := withdrawnView{Title: clip(e.Title(), 200), Says: "This run was withdrawn.", Page: "/runs/" + e.ID,
		All: "/runs?model=" + url.QueryEscape(e.ModelKey) + "&gpu=" + url.QueryEscape(e.HardwareKey) + "&all=1"}
	for _, c := range slices.Backward(history) {
		if c.What != "withdrawn" {
			continue
		}
		v.Says = "This run was withdrawn by " + cmp.Or(p.nameOf(r, c.By, e), "the site") + " on " + date(c.At) + "."
		v.Why = clip(c.Why, 500)
		break
	}
	p.show(w, r, view{status: http.StatusGone, title: v.Title, current: "/runs", name: "withdrawn", data: v, unlisted: true})
	return nil
}

// nameOf is what an account calls itself; "" for nobody and for one that is gone.
func (p *pages) nameOf(r *http.Request, id string, e *catalog.Entry) string {
	switch {
	case id == "":
		return ""
	case id == e.Owner && e.OwnerName != "":
		return e.OwnerName
	case p.Accounts == nil:
		return account.FromContext(r.Context()).Account.Name
	}
	a, err := p.Accounts.Account(r.Context(), id)
	if err != nil {
		return ""
	}
	return a.Name
}
