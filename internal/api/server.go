// Package api is a results site for programs: an HTTP interface under /api/v1,
// described by an OpenAPI 3.1 contract that it serves itself. Every error is a
// problem of RFC 9457, every list has cursors and an ETag, every answer says how
// much of its limit is left. It renders nothing and decides nothing about runs:
// package ingest does, for the pages as well.
package api

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
)

// Prefix is where the API stands on the site.
const Prefix = "/api/v1"

// Index answers questions about all runs.
type Index interface {
	Find(q catalog.Query) (catalog.Page, error)
	Board(q catalog.BoardQuery) (catalog.Board, error)
	OwnedBy(owner string) []*catalog.Entry
	Suggest(text string, n int) []catalog.Suggestion
	Models() []catalog.Group
	Hardware() []catalog.Group
	Engines() []catalog.Group
	Facets(q catalog.Query, since ...time.Time) catalog.Facets
	// Sequence is that of the latest change it knows.
	Sequence() int64
}

// Runs is how a run enters the site and changes there. Refusals are *ingest.Problem and *account.Denied.
type Runs interface {
	Check(ctx context.Context, by account.Visitor, body io.Reader) (*ingest.Receipt, error)
	Receive(ctx context.Context, by account.Visitor, body io.Reader) (*ingest.Receipt, error)
	Begin(ctx context.Context, by account.Visitor, size int64, sha256 string) (catalog.Upload, error)
	Upload(ctx context.Context, by account.Visitor, id string) (catalog.Upload, error)
	Append(ctx context.Context, by account.Visitor, id string, offset int64, body io.Reader) (catalog.Upload, error)
	Finish(ctx context.Context, by account.Visitor, id string) (*ingest.Receipt, error)
	SetVisibility(ctx context.Context, by account.Visitor, id string, wish ingest.Wish) (catalog.Entry, error)
	Remove(ctx context.Context, by account.Visitor, id string) error
	Claim(ctx context.Context, by account.Visitor, id, secret string) (catalog.Entry, error)
}

// Accounts are the people of the site, their tokens and the logins of their command lines.
type Accounts interface {
	Tokens(ctx context.Context, by account.Visitor) ([]account.Token, error)
	MakeToken(ctx context.Context, by account.Visitor, wish account.TokenWish) (secret string, t account.Token, err error)
	DropToken(ctx context.Context, by account.Visitor, id string) error
	BeginDevice(ctx context.Context, scopes []account.Scope) (account.DeviceLogin, error)
	DeviceToken(ctx context.Context, code string) (secret string, err error)
}

// Options are what the API stands on.
type Options struct {
	// Base is the site's address without a slash at its end, Name what the site calls itself, Version the program's.
	Base, Name, Version string
	Store               catalog.Store
	Index               Index
	Runs                Runs
	// Accounts is nil on a site for one user.
	Accounts Accounts
	Rules    account.Rules
	Limits   Limits
	Now      func() time.Time
	Log      *slog.Logger
	// Page writes the contract's page for people in the frame of the site.
	Page func(w http.ResponseWriter, r *http.Request, title string, content template.HTML)
}

// Server is the API.
type Server struct {
	o       Options
	api     huma.API
	limiter *limiter
	// started is in the validators of lists: another store's at this address are not this one's.
	started int64
}

// New adds the API to a mux.
func New(mux *http.ServeMux, o Options) *Server {
	s := &Server{o: o, limiter: newLimiter(o.Limits, o.Now), started: o.Now().UnixNano()}
	config := huma.DefaultConfig(o.Name, o.Version)
	config.DocsPath, config.SchemasPath, config.OpenAPIPath = "", "", "/openapi"
	config.CreateHooks = nil
	config.RejectUnknownQueryParameters = true
	config.Info.Description = description
	config.Servers = []*huma.Server{{URL: o.Base + Prefix}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "A token of /me/tokens, or of a device login."},
	}
	s.api = humago.NewWithPrefix(mux, Prefix, config)
	s.registerRuns()
	s.registerUploads()
	s.registerChanges()
	s.registerLists()
	s.registerMe()
	mux.HandleFunc("GET "+Prefix+"/docs", s.docs)
	for _, near := range []string{"/api", "/api/{$}", Prefix, Prefix + "/{$}"} {
		mux.Handle("GET "+near, http.RedirectHandler(Prefix+"/docs", http.StatusFound))
	}
	return s
}

const description = `Runs of the speed test matrix: read, check, upload, compare.

Reading needs no token. Lists give at most 200 entries and a cursor; an ETag spares what did not change. ` +
	`Every answer says in RateLimit (of RateLimit-Policy) what is left. Errors are problem+json with a code for programs ` +
	`and a sentence for people.`

// operation is what all operations share; its route is such as "GET /runs".
func (s *Server) operation(id, route, summary string, k kind) huma.Operation {
	method, path, _ := strings.Cut(route, " ")
	return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Middlewares: s.limited(k), Tags: []string{strings.Split(strings.TrimPrefix(path, "/"), "/")[0]}}
}

// protected is an operation that needs a right, with a token or in a browser.
func protected(op huma.Operation) huma.Operation {
	op.Security = []map[string][]string{{"token": {}}, {}}
	return op
}

// writeProblem answers outside of an operation's handler.
func writeProblem(api huma.API, ctx huma.Context, p *Problem) {
	ctx.SetHeader("Content-Type", p.ContentType(""))
	ctx.SetStatus(p.Status)
	// The visitor is gone when this fails.
	_ = api.Marshal(ctx.BodyWriter(), "application/problem+json", p)
}

// etag is the validator of an answer that changes when any of its parts does.
func etag(parts ...any) string { return fmt.Sprintf("%q", strings.Trim(fmt.Sprint(parts...), "[]")) }

// unchanged says whether the visitor has what would be sent.
func unchanged(ifNoneMatch, tag string) bool {
	for m := range strings.SplitSeq(ifNoneMatch, ",") {
		if m = strings.TrimPrefix(strings.TrimSpace(m), "W/"); m == tag || m == "*" {
			return true
		}
	}
	return false
}
