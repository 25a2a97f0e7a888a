package site

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// boardsView is the list of boards.
type boardsView struct {
	Models, Contexts, Requests []option
	Heads                      []string
	Rows                       []boardsRow
	All                        linkView
	Forms                      []linkView
}

// boardsRow is a model with its boards.
type boardsRow struct {
	Model, Link, Runs string
	Boards            []linkView
	// Leader is who leads at the usual load, Number its total there.
	Leader, LeaderLink, Number string
	Machines                   string
	key, leaderRun             string
	runs                       int
}

// mostBoards is how many models the list of boards has.
const mostBoards = 12

// boards serves the list of boards; with ?model= and a cell it leads to the board of them.
func (p *pages) boards(w http.ResponseWriter, r *http.Request) error {
	if q := r.URL.Query(); q.Get("ctx") != "" && q.Get("n") != "" {
		return p.toBoard(w, r, q)
	}
	form := strings.TrimPrefix(r.URL.Path, "/boards")
	key := fmt.Sprintf("boards%s %d", form, p.Index.Sequence())
	if fresh(w, r, p.tag(r, key)) {
		return nil
	}
	parts, err := p.cache.get(key, func() ([][]byte, error) { return p.boardsBytes(form) })
	if err != nil {
		return err
	}
	if form != "" {
		return send(w, listKinds[form], parts[0])
	}
	p.show(w, r, view{title: "Boards", current: "/boards", name: "content", data: template.HTML(parts[0])})
	return nil
}

// toBoard leads to the board that a form asks for.
func (p *pages) toBoard(w http.ResponseWriter, r *http.Request, q url.Values) error {
	context, err := contextOf(q.Get("ctx"))
	if err != nil {
		return unreadable("ctx", q.Get("ctx"), "tokens of context, such as 16K")
	}
	n, err := strconv.Atoi(q.Get("n"))
	if err != nil || n < 1 || n > 1<<20 {
		return unreadable("n", q.Get("n"), "a number of requests at once, such as 8")
	}
	b := boardCell{at: place{context, n}, by: catalog.ByTotal, floor: usualFloor}
	if by := q.Get("by"); by != "" {
		b.by = catalog.Sort(clip(by, 20))
	}
	keep := url.Values{}
	if engine := clip(q.Get("engine"), mostAsked); engine != "" {
		keep.Set("engine", engine)
	}
	http.Redirect(w, r, b.link(keep, clip(q.Get("model"), mostAsked), clip(q.Get("weights"), mostAsked)), http.StatusSeeOther)
	return nil
}

func (p *pages) boardsBytes(form string) ([][]byte, error) {
	models := p.Index.Models()
	f := p.Index.Facets(catalog.Query{})
	v := boardsView{Models: groupOptions(models, ""), Contexts: axisOptions(f.Contexts, usualContexts, usualLoad.context, contextLabel),
		Requests: axisOptions(f.Concurrencies, columnsOfThumb, usualLoad.concurrency, strconv.Itoa)}
	for _, b := range boardTabs {
		v.Heads = append(v.Heads, b.name())
	}
	for _, m := range models[:min(len(models), mostBoards)] {
		row, err := p.boardsRow(m)
		if err != nil {
			return nil, err
		}
		v.Rows = append(v.Rows, row)
	}
	if len(models) > mostBoards {
		v.All = linkView{Text: "all " + unit.Count(len(models)) + " models", Link: "/models"}
	}
	for _, f := range []pair{{"CSV", ".csv"}, {"JSON", ".json"}} {
		v.Forms = append(v.Forms, linkView{Text: f.Name, Link: "/boards" + f.Value})
	}
	var out bytes.Buffer
	var err error
	switch form {
	case ".json":
		err = v.json(&out, p.Base)
	case ".csv":
		err = v.csv(&out, p.Base)
	default:
		err = siteTemplate.ExecuteTemplate(&out, "boards", v)
	}
	return [][]byte{out.Bytes()}, err
}

func (p *pages) boardsRow(m catalog.Group) (boardsRow, error) {
	row := boardsRow{Model: clip(m.Name, 120), Link: "/models/" + url.PathEscape(m.Key), Runs: unit.Count(m.N), key: m.Key, runs: m.N, Number: unit.Dash, Leader: unit.Dash}
	for _, b := range boardTabs {
		row.Boards = append(row.Boards, linkView{Text: b.name(), Link: b.link(nil, m.Key, "")})
	}
	b, err := p.Index.Board(catalog.BoardQuery{Model: m.Key, By: catalog.ByTotal, Context: usualLoad.context, Concurrency: usualLoad.concurrency})
	if err != nil {
		return row, err
	}
	row.Machines = unit.Count(len(b.Rows))
	if len(b.Rows) > 0 && b.Rows[0].Rank > 0 {
		e := b.Rows[0].Entry
		row.Leader, row.LeaderLink, row.leaderRun = clip(e.Hardware, 80), "/runs/"+e.ID, e.ID
		row.Number = unit.Fixed(b.Rows[0].Value, 1)
	}
	return row, nil
}

func (v *boardsView) json(w *bytes.Buffer, base string) error {
	type board struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	type model struct {
		Model  catalog.Named `json:"model"`
		Runs   int           `json:"runs"`
		Boards []board       `json:"boards"`
		Leader string        `json:"leader_16k_x8"`
		Run    string        `json:"leader_run"`
	}
	list := []model{}
	for _, r := range v.Rows {
		m := model{Model: catalog.Named{Key: r.key, Name: r.Model}, Runs: r.runs, Run: r.leaderRun}
		if r.leaderRun != "" {
			m.Leader = r.Leader
		}
		for _, b := range r.Boards {
			m.Boards = append(m.Boards, board{b.Text, base + boardFile(b.Link, ".json")})
		}
		list = append(list, m)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(list)
}

// boardFile is the address of a board as a file.
func boardFile(link, form string) string {
	path, query, found := strings.Cut(link, "?")
	if !found {
		return path + form
	}
	return path + form + "?" + query
}

func (v *boardsView) csv(w *bytes.Buffer, base string) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"model", "key", "runs", "board", "url", "leader_16k_x8", "leader_run"})
	for _, r := range v.Rows {
		for _, b := range r.Boards {
			_ = out.Write([]string{plainCSV(r.Model), plainCSV(r.key), strconv.Itoa(r.runs), b.Text, base + boardFile(b.Link, ".csv"), plainCSV(r.Leader), r.leaderRun})
		}
	}
	out.Flush()
	return out.Error()
}
