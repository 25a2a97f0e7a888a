package site

import (
	"html/template"
	"net/http"
	"slices"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
)

// moderateView is the page of moderators.
type moderateView struct {
	Says, Notice string
	Groups       []moderateGroup
	People       []personRow
	CSRF         template.HTML
}

// moderateGroup is runs that ask for a moderator for the same reason.
type moderateGroup struct {
	ID, Title, Sub string
	First          bool
	Rows           []moderateRow
}

type moderateRow struct {
	ID, Title, Link, Trust, By, Received, Matter string
	Acts                                         []actView
}

type personRow struct {
	ID, Name, Since string
	Roles           []choiceView
}

// mostModerated bounds each list of a moderator.
const mostModerated = 100

// moderator gives the visitor if that is a moderator.
func (p *pages) moderator(r *http.Request) (account.Visitor, error) {
	v, err := p.signedIn(r)
	if err != nil {
		return v, err
	}
	if !p.moderates(v) {
		return v, nothing("page")
	}
	return v, nil
}

func (p *pages) moderate(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.moderator(r)
	if err != nil {
		return err
	}
	v := moderateView{Says: "What asks for someone to decide. Everything done here stands in the history of the run.", CSRF: p.csrf(r)}
	publish, unlist := actView{Value: string(catalog.Public), Text: "Publish"}, actView{Value: string(catalog.Unlisted), Text: "Unlist"}
	withdraw, remove := actView{Value: string(catalog.Withdrawn), Text: "Withdraw"}, actView{Value: removed, Text: "Delete"}
	v.Groups = []moderateGroup{
		{ID: "quarantined", First: true, Title: "Uploaded without an account", Sub: "no list shows them", Rows: p.moderated(r, catalog.Quarantined, []actView{publish, withdraw, remove})},
		{ID: "flagged", Title: "Public, with cells that cannot be true", Sub: "the newest runs with doubtful cells", Rows: p.flagged(r, []actView{unlist, withdraw, remove})},
		{ID: "withdrawn", Title: "Withdrawn", Sub: "their addresses say who withdrew them, and why", Rows: p.moderated(r, catalog.Withdrawn, []actView{{Value: string(catalog.Unlisted), Text: "Restore, unlisted"}, remove})},
	}
	if p.Accounts != nil {
		people, err := p.Accounts.People(r.Context(), visitor)
		if err != nil {
			return err
		}
		for _, a := range people {
			if a.ID != visitor.Account.ID {
				v.People = append(v.People, personRow{a.ID, a.Name, date(a.CreatedAt), rolesFor(visitor.Account.Role, a.Role)})
			}
		}
	}
	p.show(w, r, view{title: "Moderation", current: "/me", name: "moderate", data: v, unlisted: true})
	return nil
}

// removed asks for a run to be deleted.
const removed = "removed"

// rolesFor are the roles that one may give another: an administrator all, a moderator those of members.
func rolesFor(by, now account.Role) (list []choiceView) {
	all := []account.Role{account.Member, account.Blocked, account.Moderator, account.Administrator}
	if by != account.Administrator {
		all = all[:2]
		if !slices.Contains(all, now) {
			all = []account.Role{now}
		}
	}
	for _, role := range all {
		list = append(list, choiceView{Value: string(role), Head: string(role), Checked: role == now})
	}
	return list
}

// moderated are the newest runs of a visibility.
func (p *pages) moderated(r *http.Request, of catalog.Visibility, acts []actView) (rows []moderateRow) {
	runs := p.Index.WithVisibility(of)
	for _, e := range runs[:min(len(runs), mostModerated)] {
		rows = append(rows, moderatedRow(e, seenBy(e.Visibility), acts))
	}
	return rows
}

func moderatedRow(e *catalog.Entry, matter string, acts []actView) moderateRow {
	return moderateRow{ID: e.ID, Title: clip(e.Title(), 120), Link: "/runs/" + e.ID, Trust: levelWord(e.Level, e.Reproductions), By: e.OwnerName, Received: date(e.ReceivedAt), Matter: matter, Acts: acts}
}

// flagged are those of the newest public runs that hold doubtful cells.
func (p *pages) flagged(r *http.Request, acts []actView) (rows []moderateRow) {
	page, err := p.Index.Find(catalog.Query{All: true, Sort: catalog.ByNewest, Limit: mostModerated})
	if err != nil {
		return nil
	}
	for _, e := range page.Entries {
		rec, err := p.Store.Get(r.Context(), e.ID, 0)
		if err != nil {
			continue // it went meanwhile
		}
		if found := checksOf(&rec); len(found.Doubts) > 0 {
			rows = append(rows, moderatedRow(e, plural(len(found.Doubts), "doubtful cell", "doubtful cells")+": "+clip(found.Doubts[0].Why, 160), acts))
		}
	}
	return rows
}

func (p *pages) moderateRun(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.moderator(r)
	if err == nil {
		err = readForm(w, r)
	}
	if err != nil {
		return err
	}
	id, to, why := r.PostForm.Get("id"), r.PostForm.Get("to"), r.PostForm.Get("why")
	if to == removed {
		err = p.Runs.Remove(r.Context(), visitor, id)
	} else {
		_, err = p.Runs.SetVisibility(r.Context(), visitor, id, ingest.Wish{Visibility: catalog.Visibility(to), Why: why})
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/moderate", http.StatusSeeOther)
	return nil
}

func (p *pages) moderatePerson(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.moderator(r)
	if err == nil {
		err = readForm(w, r)
	}
	if err != nil {
		return err
	}
	if p.Accounts == nil {
		return nothing("page of people")
	}
	if err := p.Accounts.SetRole(r.Context(), visitor, r.PostForm.Get("id"), account.Role(r.PostForm.Get("role"))); err != nil {
		return err
	}
	http.Redirect(w, r, "/moderate#people", http.StatusSeeOther)
	return nil
}
