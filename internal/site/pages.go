package site

import (
	"context"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/report"
)

// Index is what the pages ask about all runs.
type Index interface {
	Find(q catalog.Query) (catalog.Page, error)
	// Newest gives at most n runs that match, comparable or not.
	Newest(q catalog.Query, n int) (newest []*catalog.Entry, total int, err error)
	Facets(q catalog.Query, since ...time.Time) catalog.Facets
	Board(q catalog.BoardQuery) (catalog.Board, error)
	Suggest(text string, n int) []catalog.Suggestion
	// ListedRuns gives some of all listed runs by their IDs, and the number of all.
	ListedRuns(place, n int) (runs []catalog.Listed, total int)
	Get(id string) (*catalog.Entry, bool)
	// OwnedBy gives all runs of an account, WithVisibility all of a visibility, newest first.
	OwnedBy(owner string) []*catalog.Entry
	WithVisibility(v catalog.Visibility) []*catalog.Entry
	Models() []catalog.Group
	Hardware() []catalog.Group
	Engines() []catalog.Group
	// Overview lists models, machines or engines with what their comparable runs reach, and says how many there are.
	Overview(of catalog.Subject, most int, at ...catalog.Spot) (list []catalog.Overview, total int)
	// Sequence is that of the latest change it knows.
	Sequence() int64
}

// Runs is how a run enters the site and changes there. Refusals are *ingest.Problem.
type Runs interface {
	Receive(ctx context.Context, by account.Visitor, body io.Reader) (*ingest.Receipt, error)
	SetVisibility(ctx context.Context, by account.Visitor, id string, to ingest.Wish) (catalog.Entry, error)
	// Decide says what becomes of the cells of a run that cannot be true as they are written.
	Decide(ctx context.Context, by account.Visitor, id string, choice string) (catalog.Entry, error)
	Remove(ctx context.Context, by account.Visitor, id string) error
	// Claim makes a run that was uploaded without an account a draft of the visitor's, by the secret of its receipt.
	Claim(ctx context.Context, by account.Visitor, id, secret string) (catalog.Entry, error)
}

// Files gives the bytes of a run's files by their hashes.
type Files interface {
	Open(ctx context.Context, hash string) (io.ReadSeekCloser, error)
}

// Options are what the pages stand on.
type Options struct {
	// Base is the site's address without a slash at its end, Name what the site calls itself, Version the program's.
	Base, Name, Version string
	Index               Index
	Store               catalog.Store
	Files               Files
	// Rows reads the raw rows among a run's files; nil where they are not drawn.
	Rows func(ctx context.Context, files []catalog.Blob) (report.Rows, error)
	Runs Runs
	// Accounts is nil on a site for one user, Tokens where programs need none.
	Accounts Accounts
	Tokens   Tokens
	// Rules say what the site allows at all.
	Rules account.Rules
	// CSRF gives the proof that a form of the visitor's must carry, as the field "csrf", or in its address where it has a
	// file; nil where forms need none.
	CSRF func(r *http.Request) string
	// MaxUpload is the greatest archive in bytes.
	MaxUpload int64
	Now       func() time.Time
	Log       *slog.Logger
}

// pages are the pages of single runs, of comparisons, of models, hardware and engines, and of accounts.
type pages struct {
	Options
	cache    *cache
	pictures *cache
	// started is in every validator: what another program, or one over another store, made at this address is not this one's.
	started time.Time
}

// The bounds of what is kept finished, in bytes.
const (
	cachedPages    = 24 << 20
	cachedPictures = 8 << 20
)

func newPages(o Options) *pages {
	return &pages{Options: o, started: o.Now(), cache: newCache(cachedPages), pictures: newCache(cachedPictures)}
}

// register adds the pages to a mux.
func (p *pages) register(mux *http.ServeMux) {
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /runs/{id}": p.run, "GET /runs/{id}/v/{n}": p.runVersion, "GET /runs/{id}/history": p.history, "GET /runs/{id}/checks": p.checks,
		"GET /runs/{id}/files/{name...}": p.file, "GET /runs/{id}/rows/{drawing}": p.rowsDrawing, "GET /runs/{id}/card.png": p.card,
		"GET /runs/{id}/badge.svg": p.badge, "GET /runs/{id}/heatmap.svg": p.heatmap,
		"GET /compare": p.compare, "GET /compare.json": p.compareFile, "GET /compare.csv": p.compareFile, "GET /compare.md": p.compareFile,
		"GET /upload": p.upload, "POST /upload": p.receive, "GET /upload/{id}": p.review, "POST /upload/{id}/visibility": p.setVisibility,
		"POST /upload/{id}/cells": p.decide, "POST /upload/{id}/claim": p.claim, "POST /upload/{id}/delete": p.remove,
		"GET /me": p.me, "GET /users/{name}": p.user, "GET /me/tokens": p.tokens, "POST /me/tokens": p.makeToken, "POST /me/tokens/revoke": p.revokeToken,
		"GET /signin": p.signIn, "GET /device": p.device, "POST /device": p.answerDevice,
		"GET /moderate": p.moderate, "POST /moderate/run": p.moderateRun, "POST /moderate/person": p.moderatePerson,
	} {
		mux.HandleFunc(pattern, p.answer(handle))
	}
	for _, k := range kinds {
		mux.HandleFunc("GET /"+k.Path+"/{key}", p.answer(func(w http.ResponseWriter, r *http.Request) error { return p.detail(w, r, k) }))
		mux.HandleFunc("GET /"+k.Path, p.answer(func(w http.ResponseWriter, r *http.Request) error { return p.kindList(w, r, k, "") }))
		for _, form := range []string{".json", ".csv"} {
			mux.HandleFunc("GET /"+k.Path+form, p.answer(func(w http.ResponseWriter, r *http.Request) error { return p.kindList(w, r, k, form) }))
		}
	}
}

// failure is what a page says instead of its content.
type failure struct {
	status int
	// Title and Says are what happened and what to do; Link is where to go on, with its text.
	Title, Says, Link, LinkText string
	// Extra is the site's own HTML below.
	Extra template.HTML
}

func (f *failure) Error() string { return f.Title + ": " + f.Says }

// nothing is there, or not for this visitor: both look the same.
func nothing(what string) error {
	return &failure{status: http.StatusNotFound, Title: "There is no such " + what, Says: "It may have been deleted, or it is not for you to see.", Link: "/runs", LinkText: "All runs"}
}

// answer makes a handler of one that may fail.
func (p *pages) answer(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r); err != nil {
			p.fail(w, r, err)
		}
	}
}

func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	var f *failure
	var problem *ingest.Problem
	var denied *account.Denied
	switch {
	case errors.As(err, &f):
	case errors.As(err, &denied):
		f = &failure{status: denied.Status(), Title: "That is not allowed", Says: capital(denied.Error()) + "."}
		if denied.SignIn && p.Accounts != nil {
			f.Link, f.LinkText = "/signin?next="+url.QueryEscape(r.URL.RequestURI()), "Sign in"
		}
	case errors.As(err, &problem):
		f = &failure{status: problem.Status, Title: problem.Title, Says: problem.Detail, Link: "/upload", LinkText: "How to upload"}
		if problem.Pointer != "" {
			f.Says += " (" + problem.Pointer + ")"
		}
	case errors.Is(err, catalog.ErrNotFound), errors.Is(err, account.ErrNotFound):
		errors.As(nothing("page"), &f)
	case errors.Is(err, catalog.ErrConflict):
		f = &failure{status: http.StatusConflict, Title: "It changed meanwhile", Says: "Someone changed this run after you opened the page. Look at it again, then repeat what you did."}
	case errors.Is(err, context.Canceled):
		return // nobody waits for the answer
	default:
		p.Log.ErrorContext(r.Context(), "a page failed", "path", r.URL.Path, "error", err)
		f = &failure{status: http.StatusInternalServerError, Title: "This page could not be made", Says: "The fault is the site's; it is in its log. Try again in a moment."}
	}
	p.show(w, r, view{status: f.status, title: f.Title, name: "failure", data: f, unlisted: true})
}

// seen says whether a visitor may look at a run at all, whoever gave them its address.
func (p *pages) seen(v account.Visitor, e *catalog.Entry) bool { return ingest.MaySee(p.Rules, v, e) }

// shown says whether a visitor may see its numbers: those of a withdrawn run are for its owner and for moderators.
func (p *pages) shown(v account.Visitor, e *catalog.Entry) bool {
	return p.seen(v, e) && (e.Visibility != catalog.Withdrawn || p.Rules.May(v, account.See, e.Owner) == nil)
}

// decides says whether a visitor may change a run, or may as soon as the site takes changes again.
func (p *pages) decides(v account.Visitor, e *catalog.Entry) bool {
	return account.Rules{}.May(v, account.Edit, e.Owner) == nil
}

// moderates says whether a visitor sees what awaits a moderator.
func (p *pages) moderates(v account.Visitor) bool {
	return p.Rules.May(v, account.Moderating, "") == nil
}

// record reads a version of a run that the visitor may see, the latest for 0.
func (p *pages) record(r *http.Request, version int) (catalog.Record, error) {
	id := r.PathValue("id")
	rec, err := p.Store.Get(r.Context(), id, version)
	if errors.Is(err, catalog.ErrNotFound) {
		return rec, nothing("run")
	}
	if err != nil {
		return rec, err
	}
	if !p.seen(account.FromContext(r.Context()), &rec.Entry) {
		return rec, nothing("run")
	}
	return rec, nil
}
