package site

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// boardAsked is a board as its address has it.
type boardAsked struct {
	boardCell
	model, weights, engine, form string
}

// readBoard reads /boards/16kx8.csv?model=KEY&by=users.
func readBoard(r *http.Request) (boardAsked, error) {
	a := boardAsked{boardCell: boardCell{by: catalog.ByTotal, floor: usualFloor}}
	name := r.PathValue("cell")
	for _, form := range []string{".json", ".csv", ".atom"} {
		if rest, ok := strings.CutSuffix(name, form); ok {
			name, a.form = rest, form
		}
	}
	context, concurrency, ok := cutLast(strings.ToLower(name), "x")
	n, err := strconv.Atoi(concurrency)
	if !ok || err != nil || n < 1 || n > 1<<20 {
		return a, nothing("board")
	}
	a.at.concurrency = n
	if a.at.context, err = contextOf(context); err != nil {
		return a, nothing("board")
	}
	q := r.URL.Query()
	a.model, a.weights, a.engine = clip(q.Get("model"), mostAsked), clip(q.Get("weights"), mostAsked), clip(q.Get("engine"), mostAsked)
	if by := q.Get("by"); by != "" {
		a.by = catalog.Sort(by)
	}
	if s := q.Get("floor"); s != "" {
		if a.floor, err = strconv.ParseFloat(s, 64); err != nil || !(a.floor > 0 && a.floor <= 100000) {
			return a, unreadable("floor", s, "tok/s for each user, such as 20")
		}
	}
	return a, nil
}

// boardView is a board's page.
type boardView struct {
	Model, Title, Says       string
	Compared, Ordered, Apart string
	ApartLink                bool
	Count, Sub, Unit         string
	Tabs                     []linkView
	Rows                     []boardRowView
	Left                     []apartView
	Value, Other             string
	OtherLink                linkView
	Models                   []option
	Variants                 []option
	Kept                     []pair
	Self                     string
	Forms                    []linkView
	Empty                    *emptyView
}

type boardRowView struct {
	Rank, Hardware, Link, Sub, State string
	Value, Interval                  string
	// Width, Low and High are shares of the widest row in per cent.
	Width, Low, High string
	Bar, Whisker     bool
	Trust, Also      string
}

type apartView struct{ Text, Link, Number, Why string }

// board serves a board, or its numbers.
func (p *pages) board(w http.ResponseWriter, r *http.Request) error {
	a, err := readBoard(r)
	if err != nil {
		return err
	}
	if a.model == "" {
		models := p.Index.Models()
		if len(models) == 0 {
			return &failure{status: http.StatusNotFound, Title: "No run yet", Says: "A board needs runs of a model.", Link: "/upload", LinkText: "Upload the first one"}
		}
		a.model = models[0].Key
	}
	key := fmt.Sprintf("board %s%s %q %q %q %s %v %d", a.path(), a.form, a.model, a.weights, a.engine, a.by, a.floor, p.Index.Sequence())
	if fresh(w, r, p.tag(r, key)) {
		return nil
	}
	parts, err := p.cache.get(key, func() ([][]byte, error) { return p.boardBytes(&a) })
	if err != nil {
		return err
	}
	switch a.form {
	case ".json":
		return send(w, "application/json", parts[0])
	case ".csv":
		return send(w, "text/csv; charset=utf-8", parts[0])
	case ".atom":
		return send(w, "application/atom+xml; charset=utf-8", parts[0])
	}
	p.show(w, r, view{title: string(parts[1]), says: string(parts[2]), current: "/boards", name: "content", data: template.HTML(parts[0])})
	return nil
}

func (p *pages) boardBytes(a *boardAsked) ([][]byte, error) {
	asked := catalog.BoardQuery{Model: a.model, Weights: a.weights, Engine: a.engine, By: a.by, Context: a.at.context, Concurrency: a.at.concurrency, Floor: a.floor}
	b, err := p.Index.Board(asked)
	if err != nil {
		return nil, refusedQuestion(err)
	}
	if b.Of == 0 {
		return nil, nothing("model here")
	}
	var out bytes.Buffer
	v := p.boardView(a, &b)
	switch a.form {
	case ".json":
		err = boardJSON(&out, b.View(asked, p.Base))
	case ".csv":
		err = boardCSV(&out, b.View(asked, p.Base))
	case ".atom":
		var runs []*catalog.Entry
		for _, row := range b.Rows {
			runs = append(runs, row.Entry)
		}
		err = writeAtom(&out, feedOf{title: v.Title + ": the runs on the board", page: p.Base + a.link(nil, a.model, a.weights), self: p.Base + v.Forms[2].Link, base: p.Base}, runs)
	default:
		err = siteTemplate.ExecuteTemplate(&out, "board", v)
	}
	return [][]byte{out.Bytes(), []byte(v.Title), []byte(v.Says)}, err
}

// boardView writes a board for people.
func (p *pages) boardView(a *boardAsked, b *catalog.Board) *boardView {
	v := &boardView{Model: clip(b.Model.Name, 120), Says: a.says(), Unit: a.unit(), Sub: a.unit() + ", from 0"}
	v.Title = v.Model + ": " + a.title()
	v.Value = capital(a.unit())
	v.Compared = "The same weights (hash of the files), method standard/1, unmodified hardware at its stock power limit, no speculative decoding, at least three repeats, numbers recomputed here from raw events. Any engine, any flags."
	if a.engine != "" {
		v.Compared = strings.Replace(v.Compared, "Any engine", "Engine "+clip(a.engine, 40), 1)
	}
	v.Ordered = "One row for each machine: its best run, by the median of its repeats. "
	if a.by == catalog.ByTotal {
		v.Ordered += "Marks show the 95 % interval. Where a row’s interval reaches the row above, both share a rank, written with =."
		v.Sub += "; median and 95 % interval"
	} else {
		v.Ordered += "Equal numbers share a rank, written with =."
	}
	left := sum(b.ApartTotal)
	v.Apart = "All " + plural(b.Of, "run of this model is", "runs of this model are") + " compared."
	if left > 0 {
		v.Apart, v.ApartLink = unit.Count(left)+" of "+plural(b.Of, "run", "runs")+": "+reasonsText(b.ApartTotal)+".", true
	}
	v.Count = plural(len(b.Rows), "machine", "machines") + ", " + plural(b.Compared, "run", "runs")
	v.setTabs(a, b)
	v.setRows(a, b)
	for _, x := range b.Apart {
		number, _, state := boardNumber(x.Entry, a)
		if number == "" {
			number = state
		}
		v.Left = append(v.Left, apartView{clip(x.Entry.Hardware, 60) + ", " + clip(joined(" ", x.Entry.Engine, x.Entry.EngineVersion), 60), "/runs/" + x.Entry.ID, number, clip(x.Reason, 80)})
	}
	v.Other = "A rank is about this number only. A machine that leads here can trail with one user: see "
	v.OtherLink = linkView{Text: "one user, context 0", Link: boardTabs[0].link(a.keep(), a.model, a.weights)}
	if a.boardCell == boardTabs[0] {
		v.Other = "A rank is about this number only. A machine that leads with one user can trail with eight: see "
		v.OtherLink = linkView{Text: "total, 16K × 8", Link: boardTabs[2].link(a.keep(), a.model, a.weights)}
	}
	v.Models = groupOptions(p.Index.Models(), b.Model.Key)
	if len(b.Rows) == 0 {
		v.Empty = &emptyView{Title: "No run of " + v.Model + " is ranked here yet", Command: "speedmatrix run --repeat 3 && speedmatrix submit RUN --to " + p.Base}
	}
	return v
}

// keep are the parameters that a board's links keep.
func (a *boardAsked) keep() url.Values {
	v := url.Values{}
	if a.engine != "" {
		v.Set("engine", a.engine)
	}
	return v
}

func (v *boardView) setTabs(a *boardAsked, b *catalog.Board) {
	found := false
	for _, t := range boardTabs {
		on := t == a.boardCell
		found = found || on
		v.Tabs = append(v.Tabs, linkView{t.name(), t.link(a.keep(), a.model, a.weights), on})
	}
	if !found {
		v.Tabs = append(v.Tabs, linkView{a.name(), a.link(a.keep(), a.model, a.weights), true})
	}
	for _, w := range b.Variants {
		if w.Key != "" {
			v.Variants = append(v.Variants, option{w.Key, short(clip(w.Key, 64)) + ", " + plural(w.N, "run", "runs"), w.Key == b.Weights})
		}
	}
	if len(v.Variants) == 1 {
		v.Variants = nil
	}
	if a.engine != "" {
		v.Kept = append(v.Kept, pair{"engine", a.engine})
	}
	if a.by != catalog.ByTotal {
		v.Kept = append(v.Kept, pair{"by", string(a.by)})
	}
	if a.floor != usualFloor {
		v.Kept = append(v.Kept, pair{"floor", floorText(a.floor)})
	}
	v.Self = "/boards/" + a.path()
	query := strings.TrimPrefix(a.link(a.keep(), a.model, a.weights), v.Self)
	for _, f := range []pair{{"CSV", ".csv"}, {"JSON", ".json"}, {"Atom", ".atom"}} {
		v.Forms = append(v.Forms, linkView{Text: f.Name, Link: v.Self + f.Value + query})
	}
}

func (v *boardView) setRows(a *boardAsked, b *catalog.Board) {
	most := 0.0
	for _, row := range b.Rows {
		if !math.IsNaN(row.Value) {
			most = math.Max(most, math.Max(row.High, row.Value))
		}
	}
	share := func(x float64) string { return strconv.FormatFloat(math.Max(0, 100*x/most), 'f', 1, 64) }
	for _, row := range b.Rows {
		e := row.Entry
		r := boardRowView{Rank: unit.Dash, Hardware: clip(e.Hardware, 80), Link: "/runs/" + e.ID, Sub: clip(joined(" ", e.Engine, e.EngineVersion), 60) + " · " + plural(e.Repeats, "repeat", "repeats"),
			Trust: levelWord(e.Level, e.Reproductions), Also: "only run, " + date(e.MeasuredAt), Value: unit.Dash}
		if row.Runs > 1 {
			r.Also = "best of " + unit.Count(row.Runs) + " runs, " + date(e.MeasuredAt)
		}
		number, interval, state := boardNumber(e, a)
		if math.IsNaN(row.Value) || row.Rank == 0 {
			r.State = missingText(state, a)
			v.Rows = append(v.Rows, r)
			continue
		}
		r.Rank = strconv.Itoa(row.Rank)
		if row.Shared {
			r.Rank += "="
		}
		r.Value, r.Interval = number, interval
		if most > 0 {
			r.Bar, r.Width = true, share(row.Value)
			r.Whisker, r.Low, r.High = row.High > row.Low, share(row.Low), share(row.High)
		}
		v.Rows = append(v.Rows, r)
	}
}

// missingText says why a run has no number.
func missingText(state string, a *boardAsked) string {
	if state == "Over capacity" {
		return "Over capacity: " + plural(a.at.concurrency, "request", "requests") + " at " + contextLabel(a.at.context) + " exceed the KV cache"
	}
	if state == unit.Dash {
		return "not measured"
	}
	return state
}

// boardNumber is what a board ranks of a run, with its interval, or the word for why it is missing.
func boardNumber(e *catalog.Entry, a *boardAsked) (number, interval, state string) {
	switch a.by {
	case catalog.ByUsers:
		if n := usersText(e, a.at.context, float32(a.floor)); n != unit.Dash {
			return n, "", ""
		}
		return "", "", unit.Dash
	case catalog.ByPrefill:
		if n := prefillText(e, a.at.context); n != unit.Dash {
			return n, "", ""
		}
		return "", "", unit.Dash
	case catalog.ByPerRequest, catalog.ByTTFT:
		number, _, state = numberAt(e, a.at, a.by)
		return number, "", state
	}
	total, half, ok := totalAt(e, a.at)
	if !ok {
		_, state = speedOrState(e, a.at)
		return "", "", state
	}
	if half > 0 {
		interval = unit.Fixed(total-half, 0) + " to " + unit.Fixed(total+half, 0)
	}
	return unit.Fixed(total, 1), interval, ""
}
