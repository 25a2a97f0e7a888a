package api

import (
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
	"speedmatrix/internal/golden"
)

func TestMain(m *testing.M) {
	Configure()
	os.Exit(m.Run())
}

// world is the API over invented runs, on a clock of the test's.
type world struct {
	t   *testing.T
	now time.Time
	mux *http.ServeMux
	api *Server
}

func newWorld(t *testing.T, limits Limits) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC), mux: http.NewServeMux()}
	store, index := catalogtest.NewMemory(), catalog.NewIndex()
	err := catalogtest.Fill(func(r catalog.Record) error {
		e, err := store.Put(t.Context(), r, catalog.Change{At: w.now, What: "received"})
		index.Apply(e)
		return err
	}, catalogtest.Entries(120, 1))
	if err != nil {
		t.Fatal(err)
	}
	w.api = New(w.mux, Options{Base: "http://127.0.0.1:8090", Name: "speedmatrix", Version: "1", Store: store, Index: index,
		Accounts: &account.Service{}, Limits: limits, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler),
		Page: func(out http.ResponseWriter, _ *http.Request, title string, content template.HTML) {
			_, _ = out.Write([]byte(title + string(content)))
		}})
	return w
}

// get asks for something; header are names and values.
func (w *world) get(path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8090"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	w.mux.ServeHTTP(out, r)
	return out
}

func decoded[T any](t *testing.T, out *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(out.Body.Bytes(), &v); err != nil {
		t.Fatalf("%d %s: %v", out.Code, out.Body, err)
	}
	return v
}

// TestContract keeps the contract that the client is generated from.
func TestContract(t *testing.T) {
	text, err := newWorld(t, DefaultLimits()).api.api.OpenAPI().DowngradeYAML()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../../siteclient/openapi.yaml", text)
}

func TestTheContractIsServedWithItsPage(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	contract := decoded[struct {
		OpenAPI string                               `json:"openapi"`
		Paths   map[string]map[string]map[string]any `json:"paths"`
	}](t, w.get("/api/v1/openapi.json"))
	page := w.get("/api/v1/docs").Body.String()
	if !strings.HasPrefix(contract.OpenAPI, "3.1") || len(contract.Paths) < 15 {
		t.Errorf("OpenAPI %s with %d paths", contract.OpenAPI, len(contract.Paths))
	}
	for path, methods := range contract.Paths {
		for method, op := range methods {
			if !strings.Contains(page, strings.ToUpper(method)+" /api/v1"+path) || op["summary"] == "" {
				t.Errorf("%s %s is not on the page", method, path)
			}
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "https://") {
		t.Error("the page loads something")
	}
}

func TestListsGoOnWhereTheyStopped(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	seen, cursor, total := map[string]bool{}, "", -1
	for range 20 {
		out := w.get("/api/v1/runs?all=true&limit=50&sort=total&ctx=16384&n=8&cursor=" + cursor)
		page := decoded[runList](t, out)
		for _, r := range page.Runs {
			if seen[r.ID] {
				t.Fatalf("%s stands twice", r.ID)
			}
			seen[r.ID] = true
		}
		total, cursor = page.Total, page.Next
		if cursor == "" {
			break
		}
	}
	if len(seen) != total || total != 120 {
		t.Errorf("%d runs of %d", len(seen), total)
	}
}

func TestWhatDidNotChangeIsNotSentAgain(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	id := decoded[runList](t, w.get("/api/v1/runs?all=true")).Runs[0].ID
	for _, path := range []string{"/api/v1/runs", "/api/v1/facets", "/api/v1/models", "/api/v1/boards?model=qwen3-8b", "/api/v1/runs/" + id, "/api/v1/runs/" + id + "/document", "/api/v1/runs/" + id + "/checks"} {
		first := w.get(path)
		tag := first.Header().Get("ETag")
		if first.Code != http.StatusOK || tag == "" {
			t.Fatalf("%s: %d, ETag %q", path, first.Code, tag)
		}
		for _, sent := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			if again := w.get(path, "If-None-Match", sent); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
				t.Errorf("%s with %s: %d and %d bytes", path, sent, again.Code, again.Body.Len())
			}
		}
		if other := w.get(path, "If-None-Match", `"other"`); other.Code != http.StatusOK {
			t.Errorf("%s with another: %d", path, other.Code)
		}
	}
}

func TestABoardIsTheIndexesOwn(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	var ranked int
	for _, g := range w.api.o.Index.Models() {
		got := decoded[catalog.BoardView](t, w.get("/api/v1/boards?model="+g.Key+"&ctx=0&n=4"))
		want, err := w.api.o.Index.Board(catalog.BoardQuery{Model: g.Key, Concurrency: 4})
		if err != nil {
			t.Fatal(err)
		}
		if got.Model.Key != g.Key || got.By != catalog.ByTotal || got.Floor != 20 || got.Rule != catalog.BoardRule || len(got.Rows) != len(want.Rows) || len(got.Apart) != len(want.Apart) {
			t.Fatalf("%s: %d of %d rows, %d of %d apart", g.Key, len(got.Rows), len(want.Rows), len(got.Apart), len(want.Apart))
		}
		for i, row := range got.Rows {
			if row.Run.ID != want.Rows[i].Entry.ID || row.Rank != nil && *row.Rank != want.Rows[i].Rank {
				t.Errorf("%s, row %d: %s", g.Key, i, row.Run.ID)
			}
			if row.Rank != nil {
				ranked++
			}
		}
	}
	if ranked == 0 {
		t.Error("no machine has a rank")
	}
}

func TestProblemsHaveACodeAndASentence(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/api/v1/runs/" + strings.Repeat("0", 26): {404, "not-found"}, "/api/v1/runs/short": {422, "unprocessable-entity"}, "/api/v1/runs?sort=beauty": {422, "unprocessable-entity"},
		"/api/v1/runs?sort=total": {422, "bad-query"}, "/api/v1/runs?cursor=x": {422, "bad-query"}, "/api/v1/runs?since=yesterday": {422, "bad-day"}, "/api/v1/runs?limit=1000": {422, "unprocessable-entity"},
		"/api/v1/runs?colour=red": {422, "unprocessable-entity"}, "/api/v1/compare?run=a": {422, "unprocessable-entity"},
		"/api/v1/boards": {422, "unprocessable-entity"}, "/api/v1/boards?model=none-such": {404, "not-found"}, "/api/v1/boards?model=qwen3-8b&by=newest": {422, "unprocessable-entity"},
	} {
		out := w.get(path)
		p := decoded[Problem](t, out)
		if out.Code != want.status || p.Status != want.status || p.Code != want.code || p.Detail == "" || out.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s %+v", path, out.Code, out.Header().Get("Content-Type"), p)
		}
	}
}

func TestEveryAnswerSaysWhatIsLeft(t *testing.T) {
	w := newWorld(t, Limits{Reads: Rate{60}, Checks: Rate{1}, Uploads: Rate{1}, SignIns: Rate{1}})
	for i := range 60 {
		out := w.get("/api/v1/models")
		if out.Code != http.StatusOK || out.Header().Get("RateLimit-Policy") != `"reads";q=60;w=60` {
			t.Fatalf("%d: %d %v", i, out.Code, out.Header())
		}
		if i == 0 && out.Header().Get("RateLimit") != `"reads";r=59;t=1` {
			t.Errorf("the first leaves %s", out.Header().Get("RateLimit"))
		}
	}
	out := w.get("/api/v1/models")
	if out.Code != http.StatusTooManyRequests || out.Header().Get("Retry-After") != "1" || decoded[Problem](t, out).Code != "too-many-requests" {
		t.Errorf("%d %v %s", out.Code, out.Header(), out.Body)
	}
	w.now = w.now.Add(time.Second)
	if out := w.get("/api/v1/models"); out.Code != http.StatusOK {
		t.Errorf("a second later: %d", out.Code)
	}
	if out := w.get("/api/v1/models"); out.Code != http.StatusTooManyRequests {
		t.Errorf("and again: %d", out.Code)
	}
}
