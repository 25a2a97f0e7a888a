package site

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/trust"
)

// checksView is the page of what was checked of a run.
type checksView struct {
	ID, Title, Page, Standing, Origin, OriginWord string
	Provenance                                    []string
	Ladder                                        []rung
	ToReach                                       template.HTML
	Doubts                                        []doubtView
	Reproducers                                   []nearView
}

// doubtView is a cell that cannot be true as it is written.
type doubtView struct {
	Key, Name, Link, Why        string
	Total, TTFT, Active, Status string
}

func (p *pages) checks(w http.ResponseWriter, r *http.Request) error {
	rec, err := p.whole(r, versionAsked(r))
	if err != nil || fresh(w, r, p.tag(r, rec.Entry.ID, rec.Entry.Sequence, "checks")) {
		return err
	}
	e, found := &rec.Entry, checksOf(&rec)
	v := checksView{ID: e.ID, Title: clip(e.Title(), 200), Page: "/runs/" + e.ID, Standing: standing(found), Origin: e.Origin, OriginWord: originWord(e),
		Provenance: originSays(e), Ladder: ladder(found, "/runs/"+e.ID), ToReach: withCommands(found.ToReach), Doubts: doubts(found, "/runs/"+e.ID)}
	for _, id := range found.Reproducers {
		if other, ok := p.Index.Get(id); ok && other.Visibility.Listed() {
			v.Reproducers = append(v.Reproducers, nearView{ID: id, Title: clip(joined(", ", other.Title(), other.OwnerName, date(other.MeasuredAt)), 200)})
		}
	}
	p.show(w, r, view{title: "What was checked: " + v.Title, current: "/runs", name: "checks", data: v, unlisted: !e.Visibility.Listed()})
	return nil
}

func doubts(found *trust.Report, page string) (list []doubtView) {
	for _, d := range found.Doubts {
		list = append(list, doubtView{Key: d.Cell, Name: cellName(clip(d.Cell, 80)), Link: page + "#" + url.PathEscape(d.Cell), Why: clip(d.Why, 600)})
	}
	return list
}

// originWord is how a run came to be, as a word.
func originWord(e *catalog.Entry) string {
	switch e.Origin {
	case "measured":
		return "Measured"
	case "predicted":
		return "Predicted"
	case "imported":
		return "Imported"
	}
	return "Written"
}

// originSays is what stands behind that word.
func originSays(e *catalog.Entry) []string {
	var parts []string
	if e.Source != "" {
		parts = append(parts, "from "+clip(e.Source, 80))
	}
	if e.Origin != "imported" && e.Method != "" {
		parts = append(parts, "method "+clip(e.Method, 60))
	}
	if e.OwnerName != "" {
		parts = append(parts, "uploaded by "+e.OwnerName)
	}
	if at := moment(e.ReceivedAt); at != "" {
		parts = append(parts, "received "+at)
	}
	return append(parts, "run "+short(e.DocumentHash))
}

// historyView is the page of a run's changes.
type historyView struct {
	Title, Says string
	Changes     []changedView
}

type changedView struct {
	When, What, By, Nobody, Link, Why string
	Version                           int
}

func (p *pages) history(w http.ResponseWriter, r *http.Request) error {
	rec, err := p.record(r, 0)
	if err != nil || fresh(w, r, p.tag(r, rec.Entry.ID, rec.Entry.Sequence, "history")) {
		return err
	}
	changes, err := p.Store.History(r.Context(), rec.Entry.ID)
	if err != nil {
		return err
	}
	e := &rec.Entry
	v := historyView{Title: clip(e.Title(), 200), Says: plural(len(changes), "change", "changes") + ", " + plural(e.Version, "version", "versions") + "."}
	open := p.shown(account.FromContext(r.Context()), e)
	for _, c := range changes {
		row := changedView{When: moment(c.At), What: c.What, By: p.nameOf(r, c.By, e), Nobody: nobody(c.By), Why: clip(c.Why, 500), Version: c.Version}
		if open && c.Version > 0 {
			row.Link = "/runs/" + e.ID + "/v/" + strconv.Itoa(c.Version)
		}
		v.Changes = append(v.Changes, row)
	}
	p.show(w, r, view{title: "History: " + v.Title, current: "/runs", name: "history", data: v, unlisted: true})
	return nil
}

// nobody says who a change without a name was made by.
func nobody(id string) string {
	if id == "" {
		return "the site, or nobody who signed in"
	}
	return "someone whose account is gone"
}
