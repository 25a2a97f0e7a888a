package site

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
)

// send uploads an archive with the form.
func (w *world) send(data []byte) *httptest.ResponseRecorder {
	w.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("archive", "run.tar.gz")
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := part.Write(data); err != nil {
		w.t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		w.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/upload", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	return out
}

func TestFromTheUploadToThePublishedRun(t *testing.T) {
	w := newWorld(t)
	w.visitor = ann
	if page := w.page("/upload"); !strings.Contains(page, `action="/upload?csrf=proof"`) {
		t.Error("the form does not carry the visitor's proof in its address")
	}
	out := w.send(archive(t, seed(t, qwenSeed)))
	review := out.Header().Get("Location")
	if out.Code != http.StatusSeeOther || !strings.HasPrefix(review, "/upload/") {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	page := w.page(review)
	for _, want := range []string{"Your upload, seen only by you", "It stands at level 2 of 5: complete.", "Two cells to decide", "128K × 1", "136K × 1", "Requests queued in 2 cells", "cannot be true as written",
		"The page will say “Imported, complete”", `name="csrf" value="proof"`, "<code>speedmatrix run --method standard/1</code>", `class="tr"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the review does not say %q", want)
		}
	}
	id := strings.TrimPrefix(review, "/upload/")
	if out := w.post(review+"/cells", url.Values{"cells": {"valid"}}); out.Header().Get("Location") != review+"#cells" {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	if page := w.page(review); strings.Contains(page, "Two cells to decide") || !strings.Contains(w.page("/runs/"+id), "label corrected by the uploader") {
		t.Error("the cells are still doubtful")
	}
	if out := w.post(review+"/visibility", url.Values{"to": {"public"}}); out.Header().Get("Location") != "/runs/"+id {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	w.visitor = nobodyAtAll
	if page := w.page("/runs/" + id); strings.Contains(page, `class="notice"`) || !strings.Contains(page, "version 2 of 2") {
		t.Error("the published run has a notice for strangers, or no second version")
	}
	if history := w.page("/runs/" + id + "/history"); !strings.Contains(history, "label corrected by the uploader") || !strings.Contains(history, "published") {
		t.Error("the history does not say what was decided")
	}
}

func TestWhatCannotBeTakenIsRefusedInWords(t *testing.T) {
	w := newWorld(t)
	w.visitor = ann
	for _, data := range [][]byte{[]byte("no archive"), nil, archive(t, &speedmatrix.Run{Schema: "other/1"})} {
		if out := w.send(data); out.Code < 400 || out.Code >= 500 || !strings.Contains(out.Body.String(), "<h1>") {
			t.Errorf("%q: %d %.200s", data, out.Code, out.Body)
		}
	}
	if out := w.post("/upload", url.Values{"archive": {"x"}}); out.Code != http.StatusBadRequest {
		t.Errorf("a form without a file: %d", out.Code)
	}
	if w.store.Len() != 0 {
		t.Errorf("%d runs were kept", w.store.Len())
	}
}

func TestAnUploadWithoutAnAccountIsClaimedByItsSecret(t *testing.T) {
	w := newWorld(t)
	out := w.send(archive(t, seed(t, agentsSeed)))
	secret := regexp.MustCompile(`smc_[0-9a-f]+`).FindString(out.Body.String())
	page := regexp.MustCompile(`/runs/[0-9a-z]{26}`).FindString(out.Body.String())
	if out.Code != http.StatusOK || secret == "" || page == "" {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	review := strings.Replace(page, "/runs/", "/upload/", 1)
	if got := w.page(page); !strings.Contains(got, "Uploaded without an account") {
		t.Error("the run's page does not say that nobody signed in")
	}
	w.visitor = ann
	if out := w.post(review+"/claim", url.Values{"claim": {"smc_wrong"}}); out.Code != http.StatusForbidden {
		t.Errorf("claimed by another secret: %d", out.Code)
	}
	if out := w.post(review+"/claim", url.Values{"claim": {" " + secret}}); out.Header().Get("Location") != review {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	if got := w.page(review); !strings.Contains(got, "Your upload, seen only by you") {
		t.Error("the claimed run is no draft")
	}
}

func TestOnlyThoseWhoMayChangeARun(t *testing.T) {
	w := newWorld(t)
	draft := w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Entry.Visibility = catalog.Draft })
	public := w.put(seed(t, agentsSeed), ann, nil)
	for _, x := range []struct {
		visitor       account.Visitor
		draft, public int
	}{{nobodyAtAll, http.StatusNotFound, http.StatusUnauthorized}, {bob, http.StatusNotFound, http.StatusForbidden}} {
		w.visitor = x.visitor
		for id, want := range map[string]int{draft: x.draft, public: x.public} {
			for path, form := range map[string]url.Values{"/visibility": {"to": {"withdrawn"}, "why": {"x"}}, "/cells": {"cells": {"none"}}, "/delete": {}} {
				if got := w.post("/upload/"+id+path, form).Code; got != want {
					t.Errorf("%q %s%s: %d, want %d", x.visitor.Account.Name, id, path, got, want)
				}
			}
			if got := w.get("/upload/" + id).Code; got != http.StatusNotFound {
				t.Errorf("%q sees the review of %s: %d", x.visitor.Account.Name, id, got)
			}
		}
		for _, path := range []string{"/me", "/me/tokens", "/device", "/moderate"} {
			if got := w.get(path).Code; x.visitor.SignedIn() != (got != http.StatusUnauthorized) {
				t.Errorf("%q: %s is %d", x.visitor.Account.Name, path, got)
			}
		}
	}
	if got := w.get("/moderate").Code; got != http.StatusNotFound {
		t.Errorf("a member moderates: %d", got)
	}
	if got := w.post("/moderate/run", url.Values{"id": {public}, "to": {"withdrawn"}, "why": {"x"}}).Code; got != http.StatusNotFound {
		t.Errorf("a member's moderation: %d", got)
	}
	w.visitor = ann
	if got := w.post("/upload/"+public+"/delete", nil).Code; got != http.StatusConflict {
		t.Errorf("what was published is deleted: %d", got)
	}
	if out := w.post("/upload/"+draft+"/delete", nil); out.Header().Get("Location") != "/me" {
		t.Errorf("%d %s", out.Code, out.Body)
	}
	if got := w.get("/runs/" + draft).Code; got != http.StatusNotFound {
		t.Errorf("a deleted draft is %d", got)
	}
	if got := w.post("/upload/"+public+"/visibility", url.Values{"to": {"withdrawn"}}); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), "without a reason") {
		t.Errorf("withdrawn without a reason: %d", got.Code)
	}
}

func TestTokensAreShownOnce(t *testing.T) {
	w := newWorld(t)
	w.visitor = ann
	out := w.post("/me/tokens", url.Values{"name": {"laboratory 7"}, "scope": {"submit", "read"}, "days": {"90"}})
	if out.Code != http.StatusOK || !strings.Contains(out.Body.String(), "smt_secret") {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	page := w.page("/me/tokens")
	if strings.Contains(page, "smt_secret") || !strings.Contains(page, "laboratory 7") || !strings.Contains(page, "upload, read your own") || !strings.Contains(page, "1 Mar 2027") {
		t.Error("the list shows the secret, or not what the token may do")
	}
	for _, form := range []url.Values{{"name": {""}, "scope": {"read"}, "days": {"1"}}, {"name": {"x"}, "days": {"1"}}, {"name": {"x"}, "scope": {"read"}, "days": {"-1"}}} {
		if got := w.post("/me/tokens", form).Code; got != http.StatusBadRequest {
			t.Errorf("%v: %d", form, got)
		}
	}
	w.post("/me/tokens/revoke", url.Values{"id": {"t0"}})
	if page := w.page("/me/tokens"); strings.Contains(page, "laboratory 7") {
		t.Error("the revoked token is still there")
	}
}

func TestAProgramIsLetInByItsCode(t *testing.T) {
	w := newWorld(t)
	w.visitor = ann
	if page := w.page("/device?code=wdjb-mjht"); !strings.Contains(page, "WDJB-MJHT") || !strings.Contains(page, "upload, as ann") {
		t.Error("the page does not ask about the code")
	}
	if page := w.page("/device?code=AAAA-AAAA"); !strings.Contains(page, "There is no such code") || strings.Contains(page, `name="answer"`) {
		t.Error("a code that there is not is asked about")
	}
	if out := w.post("/device", url.Values{"code": {"WDJB-MJHT"}, "answer": {"yes"}}); !strings.Contains(out.Body.String(), "Done.") || w.people.answered != "WDJB-MJHTtrue" {
		t.Errorf("%s %s", w.people.answered, out.Body)
	}
	if w.post("/device", url.Values{"code": {"WDJB-MJHT"}, "answer": {"no"}}); w.people.answered != "WDJB-MJHTfalse" {
		t.Error(w.people.answered)
	}
}

func TestModerationListsAndDecides(t *testing.T) {
	w, _ := fullWorld(t)
	w.visitor = mod
	page := w.page("/moderate")
	for _, want := range []string{"Uploaded without an account", "2 doubtful cells", "Withdrawn", "Role of ann"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	quarantined := w.index.WithVisibility(catalog.Quarantined)[0].ID
	if out := w.post("/moderate/run", url.Values{"id": {quarantined}, "to": {"public"}, "why": {"looked at it"}}); out.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	if e, _ := w.index.Get(quarantined); e.Visibility != catalog.Public {
		t.Errorf("it is %s", e.Visibility)
	}
	withdrawn := w.index.WithVisibility(catalog.Withdrawn)[0].ID
	if out := w.post("/moderate/run", url.Values{"id": {withdrawn}, "to": {removed}, "why": {"asked for"}}); out.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	if _, there := w.index.Get(withdrawn); there {
		t.Error("the deleted run is still there")
	}
	if w.post("/moderate/person", url.Values{"id": {ann.Account.ID}, "role": {"blocked"}}); w.people.roles[ann.Account.ID] != account.Blocked {
		t.Error("the role was not set")
	}
}

func TestRunsThatDoNotCompareAreRefusedWithAWay(t *testing.T) {
	w := newWorld(t)
	a := w.put(seed(t, agentsSeed), bob, nil)
	w.invented(1)
	b := "01k00000000000000000000002"
	out := w.get("/compare?run=" + a + "&run=" + b)
	text := out.Body.String()
	if out.Code != http.StatusUnprocessableEntity || !strings.Contains(text, "measured by different methods") || !strings.Contains(text, "<code>method.name</code>") {
		t.Fatalf("%d %s", out.Code, text)
	}
	link := regexp.MustCompile(`href="(/compare\?[^"]*allow=method\.name[^"]*)"`).FindStringSubmatch(text)
	if link == nil {
		t.Fatalf("no link that allows it: %s", text)
	}
	if page := w.page(strings.ReplaceAll(link[1], "&amp;", "&")); !strings.Contains(page, "(allowed)") {
		t.Error("the comparison does not mark what was allowed")
	}
	both := "run=" + a + "&run=https://speed.example.org/runs/" + a + "/v/1"
	if page := w.page("/compare?" + both); !strings.Contains(page, "nothing can differ") || !strings.Contains(page, `href="/compare.csv?run=`+a) {
		t.Error("a run is not named by its address, or the files are not offered")
	}
	for path, kind := range map[string]string{"/compare.json?": "application/json", "/compare.csv?": "text/csv; charset=utf-8", "/compare.md?": "text/markdown; charset=utf-8"} {
		if out := w.get(path + both); out.Code != http.StatusOK || out.Header().Get("Content-Type") != kind || out.Body.Len() < 500 {
			t.Errorf("%s: %d %s, %d bytes", path, out.Code, out.Header().Get("Content-Type"), out.Body.Len())
		}
	}
	for _, query := range []string{"", "run=" + a, "run=" + strings.Repeat(a+",", 20) + "&run=" + a, strings.Repeat("run="+a+"&", 9)} {
		if got := w.get("/compare?" + query).Code; got != http.StatusBadRequest {
			t.Errorf("%s: %d", query, got)
		}
	}
	if got := w.get("/compare?run=" + a + "&run=<script>").Code; got != http.StatusNotFound {
		t.Errorf("a run that there is not: %d", got)
	}
}

// hostileText tries to leave its place.
const hostileText = "=cmd|'/c calc'!A1\x1b[2J\r\n| a | **b** <script>alert(1)</script><img src=x onerror=alert(2)> \"'><svg onload=alert(3)> </title></style> \u202eright javascript:alert(4) <!--foot--> ]](http://e)"

// poison sets all text below a value; phases, statuses, the origin and the schema stay.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "Schema" {
				poison(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Map:
		if facts, ok := v.Interface().(speedmatrix.Facts); ok {
			for key, fact := range facts {
				if _, text := fact.Value.(string); text {
					facts[key] = speedmatrix.Fact{Value: hostileText, Source: hostileText}
				}
			}
		}
	case reflect.String:
		switch v.Interface().(type) {
		case speedmatrix.Phase, speedmatrix.Status, speedmatrix.Origin:
		default:
			v.SetString(hostileText)
		}
	}
}

// hostileWorld is a site with a public run and a draft whose every text is hostile, and the pages that show them.
func hostileWorld(t testing.TB) (*world, []visit) {
	w := newWorld(t)
	run := seed(t, qwenSeed)
	poison(reflect.ValueOf(run))
	public := w.put(run, ann, func(rec *catalog.Record) {
		rec.Blobs = append(rec.Blobs, w.keep("cells/"+hostileText, []byte("x")))
		rec.Entry.Level, rec.Entry.Method, rec.Entry.Modified = catalog.Recomputed, "standard/1", ""
	})
	other := w.put(run, ann, func(rec *catalog.Record) {
		rec.Entry.Level, rec.Entry.Method, rec.Entry.Modified, rec.Entry.EngineVersion = catalog.Recomputed, "standard/1", "", "2"
	})
	draft := w.put(run, ann, func(rec *catalog.Record) {
		rec.Entry.Visibility = catalog.Draft
		rec.Checks = []byte(`{"level":1,"to_reach":"<script>alert(5)</script>","checks":[{"level":1,"code":"x","what":"<script>","outcome":"found","detail":"<script>","cells":["decode-<script>"]}],"doubts":[{"cell":"<script>","why":"<script>alert(6)</script>"}]}`)
	})
	e, _ := w.index.Get(public)
	if _, err := w.service.SetVisibility(context.Background(), ann, other, ingest.Wish{Visibility: catalog.Unlisted, Why: hostileText}); err != nil {
		t.Fatal(err)
	}
	w.publish(other, ann)
	visits := []visit{{"/me", ann}, {"/upload/" + draft, ann}, {"/runs/" + draft + "/checks", ann}, {"/moderate", mod}, {"/users/ann", nobodyAtAll}, {"/compare?run=" + public + "&run=" + other + "&allow=method", nobodyAtAll}}
	for _, path := range []string{"", "/checks", "/history", "/badge.svg", "/heatmap.svg", ".csv", ".md"} {
		visits = append(visits, visit{"/runs/" + public + path, nobodyAtAll}, visit{"/runs/" + other + path, nobodyAtAll})
	}
	for path, key := range map[string]string{"models": e.ModelKey, "hardware": e.HardwareKey, "engines": e.Engine} {
		for _, form := range []string{"", ".json", ".csv", ".atom"} {
			visits = append(visits, visit{"/" + path + "/" + url.PathEscape(key) + form, nobodyAtAll})
		}
		visits = append(visits, visit{"/" + path, nobodyAtAll}, visit{"/" + path + ".csv", nobodyAtAll})
	}
	for _, path := range []string{"/", "/runs", "/runs?all=1&sort=newest&facet=model", "/runs.csv?all=1", "/runs.json", "/runs.atom", "/runs?q=" + url.QueryEscape(hostileText), "/runs?model=" + url.QueryEscape(hostileText) + "&quant=%22%3E%3Cscript%3E",
		"/boards", "/boards.csv", "/boards/16kx8?model=" + e.ModelKey, "/boards/16kx8.csv?model=" + e.ModelKey, "/boards/16kx8.atom?model=" + e.ModelKey, "/boards/16kx8?engine=" + url.QueryEscape(hostileText) + "&model=" + e.ModelKey, "/search.json?q=cmd"} {
		visits = append(visits, visit{path, nobodyAtAll})
	}
	return w, visits
}

func TestHostileTextStaysText(t *testing.T) {
	w, visits := hostileWorld(t)
	markup := regexp.MustCompile(`<script>|<script [^s]|<img src=x|<svg onload|\x1b|\x{202e}|href="javascript:|onerror="|<!--`)
	for _, x := range visits {
		w.visitor = x.visitor
		out := w.get(x.path)
		if out.Code != http.StatusOK {
			t.Errorf("%s: %d %.300s", x.path, out.Code, out.Body)
			continue
		}
		kind := out.Header().Get("Content-Type")
		if found := markup.FindString(out.Body.String()); found != "" && (strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "image/") || strings.HasSuffix(x.path, ".atom")) {
			t.Errorf("%s holds %q", x.path, found)
		}
	}
}
