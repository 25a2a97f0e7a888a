package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
)

// siteWorld is a whole results site with accounts, over a database and files of its own.
type siteWorld struct {
	t       *testing.T
	r       *results
	handler http.Handler
	visits  map[string]func(*http.Request)
}

const siteBase = "https://speed.example.org"

func newSiteWorld(t *testing.T, change ...func(*serveOptions)) *siteWorld {
	t.Helper()
	env := &Env{Getenv: func(string) string { return "" }, Stdout: io.Discard, Stderr: io.Discard, Examine: ingest.Examine}
	env.shown = env.redactor()
	o := &serveOptions{addr: "127.0.0.1:0", base: siteBase, name: "test", issuer: "https://id.example.org", oidcClient: "x", maxUpload: 64 << 20}
	o.data = t.TempDir()
	for _, c := range change {
		c(o)
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if err := o.folder(); err != nil {
		t.Fatal(err)
	}
	r, err := o.open(context.Background(), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &siteWorld{t: t, r: r, handler: r.handler(), visits: map[string]func(*http.Request){"nobody": func(*http.Request) {}}}
	w.people()
	return w
}

// people makes the visitors of the matrix.
func (w *siteWorld) people() {
	ctx, now := context.Background(), time.Now()
	put := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for name, role := range map[string]account.Role{"owner": account.Member, "stranger": account.Member, "moderator": account.Moderator, "administrator": account.Administrator, "blocked": account.Blocked} {
		put(w.r.store.PutAccount(ctx, account.Account{ID: "id-" + name, Provider: "p", Subject: name, Name: name, Role: role, CreatedAt: now}))
		session := sha256.Sum256([]byte("session-" + name))
		put(w.r.store.PutSession(ctx, account.Session{Hash: session, Account: "id-" + name, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}))
		w.visits[name] = func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "__Host-session", Value: "session-" + name}) }
	}
	token := func(visitor, who string, expires time.Time, scopes ...account.Scope) {
		secret := "smx_" + strings.Repeat(fmt.Sprintf("%02x", len(w.visits)), 32)
		put(w.r.store.PutToken(ctx, account.Token{ID: visitor, Name: visitor, Hash: sha256.Sum256([]byte(secret)), Account: "id-" + who, Scopes: scopes, CreatedAt: now, ExpiresAt: expires}))
		w.visits[visitor] = func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
	}
	for _, s := range []account.Scope{account.ReadOwn, account.Submit, account.Manage, account.Moderate} {
		token("owner's "+string(s)+" token", "owner", time.Time{}, s)
	}
	token("moderator's token", "moderator", time.Time{}, account.Moderate)
	token("expired token", "owner", now.Add(-time.Second), account.ReadOwn, account.Submit, account.Manage)
	w.visits["wrong token"] = func(r *http.Request) { r.Header.Set("Authorization", "Bearer smx_"+strings.Repeat("00", 32)) }
}

// as asks for something as a visitor of the matrix; a browser sends the proof of its session with a form.
func (w *siteWorld) as(visitor, method, path, kind string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, siteBase+path, bytes.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w.visits[visitor](r)
	if kind == formKind {
		web := &account.Web{Base: siteBase}
		r = httptest.NewRequest(method, siteBase+path, strings.NewReader(string(body)+"&csrf="+web.Proof(r)))
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		w.visits[visitor](r)
	}
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	return out
}

const (
	formKind = "application/x-www-form-urlencoded"
	jsonKind = "application/json"
	gzipKind = "application/gzip"
)

// archive is that of the run in a folder of test data, under another name.
func archiveOf(t *testing.T, id string) []byte {
	t.Helper()
	dir := filepath.Join("..", "ingest", "testdata", "small")
	data, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run map[string]any
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	run["id"] = id
	if data, err = json.Marshal(run); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := ingest.Pack(&out, os.DirFS(dir), map[string][]byte{"run.json": data}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// draft uploads a run of the owner's and gives its ID.
func (w *siteWorld) draft(id string) string {
	w.t.Helper()
	receipt, err := w.r.runs.Receive(context.Background(), w.owner(), bytes.NewReader(archiveOf(w.t, id)))
	if err != nil {
		w.t.Fatal(err)
	}
	return receipt.ID
}

// published is a draft that was made public.
func (w *siteWorld) published(id string) string {
	w.t.Helper()
	run := w.draft(id)
	if _, err := w.r.runs.SetVisibility(context.Background(), w.owner(), run, ingest.Wish{Visibility: catalog.Public}); err != nil {
		w.t.Fatal(err)
	}
	return run
}

// owner is the visitor whose runs the matrix is about.
func (w *siteWorld) owner() account.Visitor {
	return account.Visitor{Account: account.Account{ID: "id-owner", Name: "owner", Role: account.Member}}
}

// refused says whether an answer says no: sign in, not you, or that nothing is there.
func refused(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound || status == http.StatusGone
}

// guarded is a route and those who may. Each request gets what it needs afresh.
type guardedRoute struct {
	method, path, kind, body string
	// run is "draft", "public", "withdrawn" or "": what {id} in the path stands for.
	run string
	may []string
}

const everyone = "everyone"

var (
	readers  = []string{everyone}
	signedIn = []string{"owner", "stranger", "moderator", "administrator"}
	ownersGo = []string{"owner", "moderator", "administrator"}
)

func with(list []string, more ...string) []string { return append(slices.Clone(list), more...) }

func guardedRoutes() []guardedRoute {
	sees := with(ownersGo, "owner's read token", "moderator's token")
	list := []guardedRoute{
		{"POST", "/api/v1/runs:check", gzipKind, "archive", "", with(signedIn, "owner's submit token")},
		{"POST", "/api/v1/runs", gzipKind, "archive", "", with(signedIn, "owner's submit token")},
		{"POST", "/api/v1/uploads", jsonKind, `{"size":10,"sha256":"` + strings.Repeat("a", 64) + `"}`, "", with(signedIn, "owner's submit token")},
		{"PATCH", "/api/v1/runs/{id}", jsonKind, `{"visibility":"public"}`, "draft", with(ownersGo, "owner's submit token", "moderator's token")},
		{"PATCH", "/api/v1/runs/{id}", jsonKind, `{"visibility":"withdrawn","why":"wrong cable"}`, "public", with(ownersGo, "owner's manage token", "moderator's token")},
		{"DELETE", "/api/v1/runs/{id}", "", "", "draft", with(ownersGo, "owner's manage token", "moderator's token")},
		{"GET", "/api/v1/me/runs", "", "", "", with(signedIn, "owner's read token")},
		{"GET", "/api/v1/me/tokens", "", "", "", signedIn},
		{"POST", "/api/v1/me/tokens", jsonKind, `{"name":"x","scopes":["read"]}`, "", signedIn},
		{"POST", "/upload/{id}/visibility", formKind, "visibility=unlisted", "draft", with(ownersGo, "owner's submit token", "moderator's token")},
		{"POST", "/upload/{id}/delete", formKind, "sure=yes", "draft", with(ownersGo, "owner's manage token", "moderator's token")},
		{"GET", "/me", "", "", "", with(signedIn, "owner's read token")},
		{"GET", "/me/tokens", "", "", "", signedIn},
		{"GET", "/moderate", "", "", "", []string{"moderator", "administrator", "moderator's token"}},
		{"POST", "/moderate/person", formKind, "id=id-stranger&role=member", "", []string{"administrator"}},
	}
	for _, page := range []string{"/runs/{id}", "/runs/{id}/checks", "/runs/{id}/history", "/runs/{id}/v/1", "/runs/{id}/card.png", "/runs/{id}/badge.svg", "/runs/{id}/heatmap.svg",
		"/runs/{id}/files/run.json", "/runs/{id}.json", "/runs/{id}.csv", "/runs/{id}.md", "/upload/{id}", "/api/v1/runs/{id}", "/api/v1/runs/{id}/document", "/api/v1/runs/{id}/checks", "/api/v1/runs/{id}/history"} {
		if page == "/upload/{id}" { // what can be done with a draft
			list = append(list, guardedRoute{"GET", page, "", "", "draft", with(ownersGo, "moderator's token")})
			continue
		}
		list = append(list, guardedRoute{"GET", page, "", "", "draft", sees})
		list = append(list, guardedRoute{"GET", page, "", "", "public", readers})
	}
	for _, page := range []string{"/", "/runs", "/runs.json", "/runs.csv", "/runs.atom", "/runs.jsonl", "/boards", "/boards.json", "/boards.csv", "/models", "/hardware", "/engines", "/models.json", "/compare?run={id}&run={id}",
		"/upload", "/signin", "/sitemap.xml", "/robots.txt", "/llms.txt", "/healthz", "/search.json?q=a", "/users/owner", "/users/owner.json", "/users/owner.atom", "/api/v1/runs", "/api/v1/facets", "/api/v1/models", "/api/v1/hardware",
		"/api/v1/engines", "/api/v1/search?q=a", "/api/v1/me", "/api/v1/boards?model={model}", "/api/v1/openapi.json", "/api/v1/docs", "/api/v1/compare?run={id}&run={id}"} {
		list = append(list, guardedRoute{"GET", page, "", "", "public", readers})
	}
	return list
}

// path is a route's path for a run and its model.
func (w *siteWorld) path(route, run string) string {
	e, ok := w.r.index.Get(run)
	if !ok {
		w.t.Fatalf("no run %s", run)
	}
	return strings.NewReplacer("{id}", run, "{model}", e.ModelKey).Replace(route)
}

func TestEveryRouteForEveryVisitor(t *testing.T) {
	w := newSiteWorld(t)
	public, draft := w.published("run-public"), w.draft("run-draft")
	for i, g := range guardedRoutes() {
		for visitor := range w.visits {
			broken := visitor == "wrong token" || visitor == "expired token"
			may := !broken && (slices.Contains(g.may, everyone) || slices.Contains(g.may, visitor))
			run, body := public, g.body
			switch fresh := fmt.Sprintf("run-%d-%s", i, visitor); {
			case g.run == "draft" && g.method == http.MethodGet:
				run = draft
			case g.run == "draft":
				run = w.draft(fresh)
			case g.method != http.MethodGet && g.run != "":
				run = w.published(fresh)
			}
			if body == "archive" {
				body = string(archiveOf(t, fmt.Sprintf("run-%d-%s", i, visitor)))
			}
			path := w.path(g.path, run)
			before := w.r.index.Sequence()
			out := w.as(visitor, g.method, path, g.kind, []byte(body))
			signIn := out.Code == http.StatusSeeOther && strings.HasPrefix(out.Header().Get("Location"), "/signin")
			if no := refused(out.Code) || signIn; no == may || out.Code >= 500 {
				t.Errorf("%s %s (%s) as %s: %d, may %v: %.120s", g.method, g.path, g.run, visitor, out.Code, may, out.Body)
			}
			if !may && w.r.index.Sequence() != before {
				t.Errorf("%s %s as %s changed something", g.method, g.path, visitor)
			}
		}
	}
}

// routePattern is a route as the site's code registers it.
var routePattern = regexp.MustCompile(`"((?:GET|POST|PATCH|DELETE) /[^"]*)"`)

// otherwise are the routes of which the matrix cannot tell who may: those of a sign-in, those that take a form with a file
// or a secret, files of the site itself, and those whose rights other tests hold.
var otherwise = []string{"GET /auth/{provider}", "GET /auth/{provider}/callback", "POST /signout", "GET /static/", "GET /device", "POST /device", "POST /upload", "POST /upload/{id}/cells",
	"POST /upload/{id}/claim", "POST /me/tokens", "POST /me/tokens/revoke", "POST /moderate/run", "GET /metrics", "GET /version", "GET /sitemap/{part}", "GET /boards/{cell}", "GET /runs/{id}/rows/{drawing}",
	"GET /compare.csv", "GET /compare.json", "GET /compare.md"}

func TestNoRouteIsForgotten(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../site/*.go", "../account/*.go", "siterun.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	var held []string
	for _, g := range guardedRoutes() {
		path, _, _ := strings.Cut(g.path, "?")
		held = append(held, g.method+" "+path)
	}
	n := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range routePattern.FindAllStringSubmatch(string(text), -1) {
			route := strings.NewReplacer("/v/{n}", "/v/1", "/files/{name...}", "/files/run.json", "/users/{name}", "/users/owner", "{$}", "").Replace(m[1])
			n++
			if route != "GET /" && !slices.Contains(held, route) && !slices.Contains(otherwise, route) {
				t.Errorf("%s: %s is in no table of rights", name, m[1])
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d routes were found in the code", n)
	}
}

func TestAReadOnlySiteTakesNoChange(t *testing.T) {
	w := newSiteWorld(t)
	run := w.published("run-1")
	w.r.rules.ReadOnly = true
	if err := w.r.services(); err != nil {
		t.Fatal(err)
	}
	w.handler = w.r.handler()
	before := w.r.index.Sequence()
	for _, g := range guardedRoutes() {
		if g.method == http.MethodGet || strings.HasSuffix(g.path, ":check") {
			continue
		}
		body := g.body
		if body == "archive" {
			body = string(archiveOf(t, "run-2"))
		}
		out := w.as("administrator", g.method, w.path(g.path, run), g.kind, []byte(body))
		if out.Code != http.StatusForbidden {
			t.Errorf("%s %s: %d %.100s", g.method, g.path, out.Code, out.Body)
		}
	}
	if w.r.index.Sequence() != before {
		t.Error("something changed")
	}
	if out := w.as("nobody", http.MethodGet, "/runs/"+run, "", nil); out.Code != http.StatusOK {
		t.Errorf("reading: %d", out.Code)
	}
}
