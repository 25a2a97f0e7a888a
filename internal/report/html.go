package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// HTMLOptions says what a page may show beyond the document.
type HTMLOptions struct {
	// Rows are the run's raw rows: with them every measured cell has its window over time and
	// its distributions. Nil leaves them out.
	Rows Rows
	// Drawing, in place of Rows, gives the address of a drawing of a cell's rows, or of the machine for the cell "": the
	// page loads it when it is seen. "" is none.
	Drawing func(cell, drawing string) string
	// Frame is the site's around the page; nil is a page on its own.
	Frame *Frame
}

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/*.html"))

// HTML writes the document as one page: no other file, no request to anywhere, all of it there
// to read without a script, in light, dark and print. The same run gives the same bytes. It
// fails only if w does: rows that cannot be read are named on the page.
func HTML(w io.Writer, d *Document, o HTMLOptions) error {
	view, err := newPage(d, o)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&out, "page", view); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// pageView is what the template shows.
type pageView struct {
	Doc                 *Document
	Frame               *Frame
	Policy, Description string
	CSS                 template.CSS
	Script              template.JS
	Eyebrow             string
	Nav                 []pairView
	OriginClass         string
	Provenance          []string
	Glance              []glanceView
	Sections            []sectionView
	Key                 string
	Command             []commandLine
	PrefillCaption      string
	Bars                []barView
	Matrix              matrixView
	Notes, StatusNotes  notesView
	Tradeoff            template.HTML
	TradeoffSays        string
	Users               usersView
	Curves              []curveView
	Findings            []findingView
	Machine             machineView
	Trust               []Trust
	Budget              []Budget
	Limits              []limitView
	MeasurementsCaption string
	Heads               []string
	Rows                []rowView
	Cells               []cellView
	Drawn               bool
	QuantileHeads       []string
	Reproduce           []string
	Versions, Data      []string
}

type notesView struct {
	List []Note
	TTFT string
}

func newPage(d *Document, o HTMLOptions) (*pageView, error) {
	css, err := pageStyle()
	if err != nil {
		return nil, err
	}
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		return nil, fmt.Errorf("read the page's script: %w", err)
	}
	v := &pageView{
		Doc: d, Frame: o.Frame, CSS: css, Script: template.JS(script), Policy: policy(script), Description: description(d), Eyebrow: Eyebrow,
		OriginClass: strings.ToLower(d.Origin), Provenance: provenanceParts(d), Sections: sectionViews(d), Key: statedKey(d),
		Command: commandLines(d.LaunchCommand.Value), PrefillCaption: PrefillCaption, MeasurementsCaption: MeasurementsCaption,
		Notes: notesView{d.Notes, d.TTFTNote}, StatusNotes: notesView{List: d.Notes}, Budget: budget(d), Limits: limitViews(d),
		Heads: measurementHeads, QuantileHeads: quantileHeads, Reproduce: reproduce(d), Versions: versions(d), Data: dataLines(d),
	}
	anchors := newAnchors(d)
	v.setCells(d, o, anchors)
	v.Glance, v.Bars, v.Matrix, v.Rows = glanceViews(d, anchors), barViews(d, anchors), newMatrixView(d, anchors), rowViews(d)
	v.Findings = findingViews(d, anchors)
	for _, t := range d.Trust {
		t.Text = glue(t.Text)
		v.Trust = append(v.Trust, t)
	}
	v.setCharts(d)
	v.setMachine(d, o)
	v.Nav = v.nav()
	return v, nil
}

// policy lets the page run its own script and nothing else, and load nothing.
func policy(script []byte) string {
	sum := sha256.Sum256(script)
	return "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// pageStyle is the style sheet: colours, drawings, the page, and what the switches change.
func pageStyle() (template.CSS, error) {
	static, err := pageFiles.ReadFile("page/page.css")
	if err != nil {
		return "", fmt.Errorf("read the page's style: %w", err)
	}
	return template.CSS(chart.Variables() + chart.Rules() + string(static) + switchRules()), nil
}

// switchRules are the rules that show one variant of a cell and its colour: of the matrix's
// numbers, and of the demands on users.
func switchRules() string {
	var b strings.Builder
	for _, m := range metrics {
		on, letter := "", "u"
		if m.direction == chart.MoreIsWorse {
			letter = "d"
		}
		if m.key != metrics[0].key {
			on = ".mxw:has(#m-" + m.key + ":checked) "
			fmt.Fprintf(&b, "%[1]s.on-t{display:none}%[1]s.on-%[2]s{display:var(--dsp,block)}%[1]s.un-t{display:block}", on, m.key)
		}
		for i := range chart.Steps {
			fmt.Fprintf(&b, "%s.%s%d{--bg:var(--%s%d);--fg:var(--%sf%d)}", on, m.key, i, letter, i, letter, i)
		}
		fmt.Fprintf(&b, "%s.%sx{--bg:transparent;--fg:var(--ink)}", on, m.key)
	}
	for i := range demands {
		if key := demandKey(i); i > 0 {
			b.WriteString(demandRules(key))
		}
	}
	b.WriteString(demandRules("x"))
	return b.String()
}

// demandKey is the letter of a demand in classes: a, b, c.
func demandKey(i int) string { return string(rune('a' + i)) }

func demandRules(key string) string {
	on := ".cap:has(#c-" + key + ":checked) "
	return on + ".on-a{display:none}" + on + ".on-" + key + "{display:var(--dsp,block)}" +
		on + ".dot.r{background:none;border-color:var(--ink3)}" + on + ".dot." + key + "y{background:var(--accent);border-color:var(--accent)}"
}

func description(d *Document) string {
	var parts []string
	for _, f := range d.Glance {
		parts = append(parts, f.Label+": "+f.Value+" "+f.Unit)
	}
	return joinFacts(". ", d.Subtitle, strings.Join(parts, ", "))
}

// nav links to the sections that there are.
func (v *pageView) nav() []pairView {
	var list []pairView
	for _, x := range []struct {
		id, text string
		there    bool
	}{
		{"matrix", "Matrix", len(v.Matrix.Rows) > 0}, {"prefill", "Prefill", len(v.Bars) > 0}, {"tradeoff", "Trade-off", v.Tradeoff != ""},
		{"users", "Users", v.Tradeoff != ""}, {"trust", "Trust", true}, {"machine", "Machine", v.Machine.Shown()}, {"all", "All measurements", len(v.Rows) > 0}, {"cells", "Cells", len(v.Cells) > 0},
	} {
		if x.there {
			list = append(list, pairView{x.id, x.text})
		}
	}
	return list
}

// setCells gives the details of every cell that has any.
func (v *pageView) setCells(d *Document, o HTMLOptions, a *anchors) {
	var server []speedmatrix.ServerRow
	var trouble string
	if o.Rows != nil {
		var err error
		if server, err = o.Rows.Server(); err != nil {
			trouble = "The server's metrics could not be read: " + clip(Clean(err.Error()), 300)
		}
	}
	for _, m := range d.Measurements {
		cell, ok := detail(d, m)
		if !ok {
			continue
		}
		cell.ID = a.link(m)
		cell.Trouble = trouble
		cell.Images = images(m, o.Drawing)
		v.Drawn = v.Drawn || len(cell.Images) > 0
		drawn, err := drawCell(m, o.Rows, server)
		if err != nil {
			cell.Trouble = "The raw rows could not be read: " + clip(Clean(err.Error()), 300)
		}
		for _, p := range []struct {
			drawing chart.Drawing
			there   bool
		}{{drawn.Time, drawn.HasTime}, {drawn.Gaps, drawn.HasGaps}, {drawn.First, drawn.HasFirst}} {
			if p.there {
				cell.Drawings = append(cell.Drawings, template.HTML(p.drawing.Inline()))
				v.Drawn = true
			}
		}
		v.Cells = append(v.Cells, cell)
	}
}

// anchors names the elements of cells: each name once, safe in a link whatever the labels are.
type anchors struct {
	id     map[*Measurement]string
	byKey  map[string]string
	detail map[*Measurement]bool
}

func newAnchors(d *Document) *anchors {
	a := &anchors{id: map[*Measurement]string{}, byKey: map[string]string{}, detail: map[*Measurement]bool{}}
	used := map[string]bool{}
	name := func(m *Measurement) {
		if a.id[m] != "" {
			return
		}
		id := anchor(m.Key)
		for n := 2; used[id]; n++ {
			id = anchor(m.Key) + "-" + unit.Fixed(float64(n), 0)
		}
		used[id], a.id[m] = true, id
		if a.byKey[m.Key] == "" {
			a.byKey[m.Key] = id
		}
		_, a.detail[m] = detail(d, m)
	}
	for _, m := range d.Measurements {
		name(m)
	}
	for _, row := range d.Matrix.Rows {
		for _, m := range row.Cells {
			name(m)
		}
	}
	return a
}

// anchor is a key with nothing but letters, digits, dots and dashes.
func anchor(key string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(key))
	return name[:min(len(name), 60)]
}

// link is the name of a cell's details, "" where it has none.
func (a *anchors) link(m *Measurement) string {
	if !a.detail[m] {
		return ""
	}
	return "cell-" + a.id[m]
}
