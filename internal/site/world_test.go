package site

import (
	"bytes"
	"context"
	"crypto/rand"
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
	"testing/fstest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/blob"
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
	service *ingest.Service
	people  *fakePeople
	files   *blob.Memory
	visitor account.Visitor
	handler http.Handler
	site    *pages
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
	w := &world{t: t, store: catalogtest.NewMemory(), index: catalog.NewIndex(), people: &fakePeople{}, files: &blob.Memory{}}
	rules := account.Rules{Anonymous: true}
	var err error
	w.service, err = ingest.New(ingest.Options{Store: w.store, Blobs: w.files, Index: w.index, Rules: rules, Limits: ingest.DefaultLimits(), Folder: t.TempDir(),
		Now: func() time.Time { return noon }, Entropy: rand.Reader, AtOnce: 4, Patience: time.Minute, KeepUploads: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Base: "https://speed.example.org", Name: "speedmatrix", Version: "0.1.0", Index: w.index, Store: w.store, Files: w.files, Runs: w.service,
		Accounts: w.people, Tokens: w.people, MaxUpload: 64 << 20, Rows: w.rows, Rules: rules, CSRF: func(*http.Request) string { return "proof" }, Now: func() time.Time { return noon }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	w.site = s.pages
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
	e.Visibility, e.Owner, e.OwnerName, e.Level = catalog.Public, owner.Account.ID, owner.Account.Name, catalog.Stated
	e.ReceivedAt, e.PublishedAt = noon.Add(-time.Duration(w.n)*time.Hour), noon.Add(-time.Duration(w.n)*time.Hour)
	rec.Blobs = []catalog.Blob{w.keep("run.json", rec.Document)}
	found := trust.Evaluate(trust.Input{Run: run, Entry: e})
	e.Level = found.Level
	var err error
	if rec.Checks, err = json.Marshal(found); err != nil {
		w.t.Fatal(err)
	}
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

// keep puts a file among the site's files.
func (w *world) keep(name string, data []byte) catalog.Blob {
	w.t.Helper()
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	if err := w.files.Put(context.Background(), hash, int64(len(data)), bytes.NewReader(data)); err != nil {
		w.t.Fatal(err)
	}
	return catalog.Blob{Name: name, Hash: hash, Size: int64(len(data))}
}

// archive packs a run as its upload.
func archive(t testing.TB, run *speedmatrix.Run) []byte {
	t.Helper()
	var doc, out bytes.Buffer
	if err := runfile.Encode(&doc, run); err != nil {
		t.Fatal(err)
	}
	if err := ingest.Pack(&out, fstest.MapFS{"run.json": {Data: doc.Bytes()}}, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// receive uploads a run as somebody and gives the receipt.
func (w *world) receive(run *speedmatrix.Run, by account.Visitor) *ingest.Receipt {
	w.t.Helper()
	receipt, err := w.service.Receive(context.Background(), by, bytes.NewReader(archive(w.t, run)))
	if err != nil {
		w.t.Fatal(err)
	}
	return receipt
}

// publish makes a draft public.
func (w *world) publish(id string, by account.Visitor) {
	w.t.Helper()
	if _, err := w.service.SetVisibility(context.Background(), by, id, ingest.Wish{Visibility: catalog.Public}); err != nil {
		w.t.Fatal(err)
	}
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

// The real services are what the pages ask.
var (
	_ Index    = (*catalog.Index)(nil)
	_ Runs     = (*ingest.Service)(nil)
	_ Accounts = (*account.Service)(nil)
	_ Tokens   = (*account.Service)(nil)
	_ Files    = blob.Store(nil)
)
