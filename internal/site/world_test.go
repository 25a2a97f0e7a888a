package site

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/trust"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// world is a site with runs in memory.
type world struct {
	t       testing.TB
	store   *catalogtest.Memory
	index   *catalog.Index
	service *fakeService
	people  *fakePeople
	files   memoryFiles
	visitor account.Visitor
	handler http.Handler
	n       int
}

// The visitors of a world.
var (
	nobodyAtAll = account.Visitor{}
	ann         = account.Visitor{Account: account.Account{ID: "01ann", Name: "ann", Role: account.Member}}
	bob         = account.Visitor{Account: account.Account{ID: "01bob", Name: "bob", Role: account.Member}}
	mod         = account.Visitor{Account: account.Account{ID: "01mod", Name: "mod", Role: account.Moderator}}
)

func newWorld(t testing.TB) *world {
	w := &world{t: t, store: catalogtest.NewMemory(), index: catalog.NewIndex(), people: &fakePeople{}, files: memoryFiles{}}
	w.service = &fakeService{w}
	s := New(Options{Base: "https://speed.example.org", Name: "speedmatrix", Version: "0.1.0", Index: w.index, Store: w.store, Files: w.files, Runs: w.service,
		Accounts: w.people, Tokens: w.people, MaxUpload: 64 << 20, Rows: w.rows, Now: func() time.Time { return noon }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	mux := http.NewServeMux()
	s.Routes(mux)
	w.handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(out, r.WithContext(account.NewContext(r.Context(), w.visitor)))
	})
	return w
}

// put adds a run to the site.
func (w *world) put(run *speedmatrix.Run, owner account.Visitor, change func(*catalog.Record)) string {
	w.t.Helper()
	var doc bytes.Buffer
	if err := runfile.Encode(&doc, run); err != nil {
		w.t.Fatal(err)
	}
	w.n++
	rec := catalog.Record{Entry: catalog.Describe(run), Document: doc.Bytes()}
	sum := sha256.Sum256(rec.Document)
	e := &rec.Entry
	e.ID, e.Version, e.DocumentHash = fmt.Sprintf("01k%023d", w.n), 1, hex.EncodeToString(sum[:])
	e.Visibility, e.Owner, e.OwnerName, e.Level = catalog.Public, owner.Account.ID, owner.Account.Name, catalog.Complete
	e.ReceivedAt, e.PublishedAt = noon.Add(-time.Duration(w.n)*time.Hour), noon.Add(-time.Duration(w.n)*time.Hour)
	rec.Blobs = []catalog.Blob{w.files.put("run.json", rec.Document)}
	if change != nil {
		change(&rec)
	}
	saved, err := w.store.Put(context.Background(), rec, catalog.Change{At: e.ReceivedAt, By: e.Owner, What: "received"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.index.Apply(saved)
	return e.ID
}

// invented adds the first n of the runs of invented machines, and a document for each.
func (w *world) invented(n int) {
	w.t.Helper()
	w.entries(catalogtest.Entries(n, 1))
}

// entries adds runs by their entries, and a document for each.
func (w *world) entries(list []catalog.Entry) {
	w.t.Helper()
	for _, e := range list {
		run := &speedmatrix.Run{Schema: speedmatrix.Schema, ID: e.RunID, Origin: speedmatrix.OriginMeasured, StartedAt: e.MeasuredAt, Tool: speedmatrix.Tool{Name: "speedmatrix", Version: "0.1.0"},
			Method: speedmatrix.Method{Name: e.Method}, Model: speedmatrix.Facts{speedmatrix.ModelName: {Value: e.Model, Source: "user"}, speedmatrix.ModelQuantization: {Value: e.Quantization, Source: "user"}},
			Hardware: speedmatrix.Facts{speedmatrix.HardwareGPU: {Value: e.Hardware, Source: "machine"}}, Engine: speedmatrix.Facts{speedmatrix.EngineName: {Value: e.Engine, Source: "GET /version"}, speedmatrix.EngineVersion: {Value: e.EngineVersion, Source: "GET /version"}}}
		for _, c := range e.Cells {
			cell := speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Context: c.Context, ContextLabel: c.Label, Concurrency: c.Concurrency, Status: c.Status}
			if c.Status.ShowsSpeed() {
				cell.TotalTokensPerSecond, cell.PerRequestTokensPerSecond = new(float64(c.Total)), new(float64(c.PerRequest))
				if !math.IsNaN(float64(c.Half)) {
					cell.Interval95 = &speedmatrix.Interval{Low: float64(c.Total - c.Half), High: float64(c.Total + c.Half)}
				}
			}
			run.Cells = append(run.Cells, cell)
		}
		w.put(run, account.Visitor{Account: account.Account{ID: e.Owner, Name: e.OwnerName}}, func(rec *catalog.Record) {
			kept := rec.Entry
			rec.Entry = e
			rec.Entry.ID, rec.Entry.DocumentHash = kept.ID, kept.DocumentHash
		})
	}
}

// seed reads one of the published runs.
func seed(t testing.TB, name string) *speedmatrix.Run {
	t.Helper()
	data, err := os.ReadFile("../../examples/" + name + "/run.json")
	if err != nil {
		t.Fatal(err)
	}
	run, err := runfile.DecodeStrict(data)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

const (
	qwenSeed   = "rtx3090-qwen3-coder-30b-a3b-awq"
	agentsSeed = "rtx3090-agents-a1-4b-fp8"
)

// qwenChecks is what is found of the seed with the two false cells.
func qwenChecks(rec *catalog.Record) {
	why := "“Requests queued” says that some requests had to wait. One request was sent and 1.0 ran on average, so none can have waited. A first prompt that takes longer than the tool's warm-up gives the same label."
	checks := trust.Report{Level: catalog.Complete, ToReach: "To reach Recomputed, measure once with raw events: speedmatrix run --method standard/1.", Checks: []trust.Check{
		{Level: catalog.Stated, Code: "source", What: "Read as llm-inference-bench v0.8.0", Outcome: trust.Passed, Detail: "53 rows, 0 fields unknown"},
		{Level: catalog.Stated, Code: "new", What: "Not here already", Outcome: trust.Passed, Detail: "hash of the document is new"},
		{Level: catalog.Complete, Code: "facts", What: "Model, engine, version, launch command", Outcome: trust.Passed, Detail: "all present"},
		{Level: catalog.Complete, Code: "revision", What: "Revision is a moving name", Outcome: trust.Found, Detail: "main can point to other weights tomorrow. Give the commit."},
		{Level: catalog.Complete, Code: "clocks", What: "Clocks and throttling", Outcome: trust.Unknown, Detail: "not recorded by the source"},
		{Level: catalog.Recomputed, Code: "numbers", What: "Every published number", Outcome: trust.Unknown, Detail: "no raw events were uploaded", Bars: true},
		{Level: catalog.SelfConsistent, Code: "identity-total", What: "Tokens ÷ seconds = total", Outcome: trust.Passed, Detail: "within 0.5 % in 13 of 13 cells"},
		{Level: catalog.SelfConsistent, Code: "queued", What: "Requests queued in 2 cells", Outcome: trust.Found, Detail: "cannot be true as written", Cells: []string{"decode-128k-x1", "decode-136k-x1"}},
		{Level: catalog.Reproduced, Code: "others", What: "Nearest run by another uploader", Outcome: trust.Unknown, Detail: "one sample for each cell, so there is no interval to meet"},
	}, Doubts: []trust.Doubt{{Cell: "decode-128k-x1", Why: why}, {Cell: "decode-136k-x1", Why: why}}}
	rec.Checks, _ = json.Marshal(checks)
}

// memoryFiles are files by their hashes.
type memoryFiles map[string][]byte

func (m memoryFiles) put(name string, data []byte) catalog.Blob {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	m[hash] = data
	return catalog.Blob{Name: name, Hash: hash, Size: int64(len(data))}
}

type seekCloser struct{ *bytes.Reader }

func (seekCloser) Close() error { return nil }

func (m memoryFiles) Open(_ context.Context, hash string) (io.ReadSeekCloser, error) {
	data, there := m[hash]
	if !there {
		return nil, os.ErrNotExist
	}
	return seekCloser{bytes.NewReader(data)}, nil
}

// rows reads raw rows among files in memory.
func (w *world) rows(ctx context.Context, files []catalog.Blob) (report.Rows, error) {
	var names []string
	hashes := map[string]string{}
	for _, f := range files {
		names = append(names, f.Name)
		hashes[f.Name] = f.Hash
	}
	return runfile.ReadFiles(names, func(name string) (io.ReadSeekCloser, error) { return w.files.Open(ctx, hashes[name]) }), nil
}

// fakeService changes the world as the real service does, with its refusals for those who may not.
type fakeService struct{ w *world }

func refusal(status int, title string) error {
	return &ingest.Problem{Code: "test", Status: status, Title: title, Detail: "Do something else."}
}

func (s *fakeService) may(by account.Visitor, id string) (catalog.Record, error) {
	rec, err := s.w.store.Get(context.Background(), id, 0)
	if err != nil {
		return rec, err
	}
	return rec, account.Rules{}.May(by, account.Edit, rec.Entry.Owner)
}

func (s *fakeService) set(rec catalog.Record, c catalog.Change) (catalog.Entry, error) {
	c.At = noon
	e, err := s.w.store.Set(context.Background(), rec, c)
	if err == nil {
		s.w.index.Apply(e)
	}
	return e, err
}

func (s *fakeService) Receive(_ context.Context, by account.Visitor, body io.Reader) (*ingest.Receipt, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	run, err := runfile.DecodeStrict(data)
	if err != nil {
		return nil, refusal(http.StatusUnprocessableEntity, "Not a run")
	}
	r := &ingest.Receipt{Title: run.ID, Version: 1, Visibility: catalog.Draft}
	if !by.SignedIn() {
		r.Claim, r.Visibility = "claim-secret", catalog.Quarantined
	}
	r.ID = s.w.put(run, by, func(rec *catalog.Record) { rec.Entry.Visibility = r.Visibility })
	return r, nil
}

func (s *fakeService) SetVisibility(_ context.Context, by account.Visitor, id string, to catalog.Visibility, why string) (catalog.Entry, error) {
	rec, err := s.may(by, id)
	if err != nil {
		return rec.Entry, err
	}
	rec.Entry.Visibility = to
	what := map[catalog.Visibility]string{catalog.Public: "published", catalog.Unlisted: "unlisted", catalog.Withdrawn: "withdrawn"}[to]
	return s.set(rec, catalog.Change{By: by.Account.ID, What: cmp.Or(what, "edited"), Why: why})
}

func (s *fakeService) Decide(_ context.Context, by account.Visitor, id string, choice string) (catalog.Entry, error) {
	rec, err := s.may(by, id)
	if err != nil {
		return rec.Entry, err
	}
	if choice == ingest.ReadValid {
		rec.Checks = []byte(`{}`)
	}
	return s.set(rec, catalog.Change{By: by.Account.ID, What: "edited", Why: choice})
}

func (s *fakeService) Remove(ctx context.Context, by account.Visitor, id string) error {
	if _, err := s.may(by, id); err != nil {
		return err
	}
	if err := s.w.store.Remove(ctx, id); err != nil {
		return err
	}
	return s.w.index.Load(ctx, s.w.store)
}

func (s *fakeService) Claim(_ context.Context, by account.Visitor, id, secret string) (catalog.Entry, error) {
	rec, err := s.w.store.Get(context.Background(), id, 0)
	if err != nil || secret != "claim-secret" {
		return rec.Entry, cmp.Or(err, refusal(http.StatusForbidden, "Not its secret"))
	}
	rec.Entry.Visibility, rec.Entry.Owner, rec.Entry.OwnerName = catalog.Draft, by.Account.ID, by.Account.Name
	return s.set(rec, catalog.Change{By: by.Account.ID, What: "claimed"})
}

// fakePeople are the accounts of a world.
type fakePeople struct {
	tokens   []account.Token
	roles    map[string]account.Role
	answered string
}

func (f *fakePeople) all() []account.Account {
	return []account.Account{ann.Account, bob.Account, mod.Account}
}

func (f *fakePeople) find(pass func(account.Account) bool) (account.Account, error) {
	if i := slices.IndexFunc(f.all(), pass); i >= 0 {
		return f.all()[i], nil
	}
	return account.Account{}, account.ErrNotFound
}

func (f *fakePeople) Account(_ context.Context, id string) (account.Account, error) {
	return f.find(func(a account.Account) bool { return a.ID == id })
}

func (f *fakePeople) AccountByName(_ context.Context, name string) (account.Account, error) {
	return f.find(func(a account.Account) bool { return a.Name == name })
}

func (f *fakePeople) People(context.Context, account.Visitor) ([]account.Account, error) {
	return f.all(), nil
}

func (f *fakePeople) SetRole(_ context.Context, _ account.Visitor, id string, to account.Role) error {
	f.roles = map[string]account.Role{id: to}
	return nil
}

func (f *fakePeople) Ways() [][2]string { return [][2]string{{"github", "GitHub"}} }

func (f *fakePeople) Device(_ context.Context, code string) (account.Device, error) {
	if code != "WDJB-MJHT" {
		return account.Device{}, account.ErrNotFound
	}
	return account.Device{UserCode: code, Scopes: []account.Scope{account.Submit}}, nil
}

func (f *fakePeople) AnswerDevice(_ context.Context, _ account.Visitor, code string, allow bool) error {
	f.answered = fmt.Sprint(code, allow)
	return nil
}

func (f *fakePeople) Tokens(context.Context, account.Visitor) ([]account.Token, error) {
	return f.tokens, nil
}

func (f *fakePeople) MakeToken(_ context.Context, _ account.Visitor, wish account.TokenWish) (string, account.Token, error) {
	t := account.Token{ID: fmt.Sprint("t", len(f.tokens)), Name: wish.Name, Scopes: wish.Scopes, CreatedAt: noon, ExpiresAt: noon.Add(wish.For)}
	f.tokens = append(f.tokens, t)
	return "smt_secret", t, nil
}

func (f *fakePeople) DropToken(_ context.Context, _ account.Visitor, id string) error {
	f.tokens = slices.DeleteFunc(f.tokens, func(t account.Token) bool { return t.ID == id })
	return nil
}

// get asks for a page.
func (w *world) get(path string) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, httptest.NewRequest(http.MethodGet, path, nil))
	return out
}

// page asks for a page that must be there, and gives its text.
func (w *world) page(path string) string {
	w.t.Helper()
	out := w.get(path)
	if out.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", path, out.Code, out.Body)
	}
	return out.Body.String()
}

// post sends a form and gives where it leads.
func (w *world) post(path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	return out
}
