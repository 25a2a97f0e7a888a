package site

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
)

// runsOfLines are the IDs in lines of documents, in their order, each held against its own document.
func runsOfLines(t *testing.T, w *world, lines *bufio.Scanner) (ids []string) {
	t.Helper()
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var line publishedRun
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v in %.200s", err, lines.Text())
		}
		var got, want any
		if json.Unmarshal(line.Document, &got) != nil || json.Unmarshal(w.get("/runs/"+line.Run.ID+".json").Body.Bytes(), &want) != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the line of run %s holds another document", line.Run.ID)
		}
		ids = append(ids, line.Run.ID)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// answerTo is the answer to a request with a header.
func answerTo(w *world, path, header, value string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set(header, value)
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	return out
}

func TestEveryPublishedDocumentIsALine(t *testing.T) {
	w := newWorld(t)
	w.invented(450) // three pages
	hidden := w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Entry.Visibility = catalog.Unlisted })
	out := w.get("/runs.jsonl")
	ids := runsOfLines(t, w, bufio.NewScanner(out.Body))
	want := map[string]bool{}
	for i := 1; i <= 450; i++ {
		want[fmt.Sprintf("01k%023d", i)] = true
	}
	page, err := w.index.Find(catalog.Query{All: true})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	if unique := slices.Compact(slices.Clone(ids)); len(unique) != len(ids) || len(ids) != page.Total || slices.Contains(ids, hidden) {
		t.Errorf("%d lines, %d of them different, of %d listed runs", len(ids), len(unique), page.Total)
	}
	for _, id := range ids {
		if !want[id] {
			t.Errorf("run %s is in the lines", id)
		}
	}
	tag := out.Header().Get("ETag")
	if again := answerTo(w, "/runs.jsonl", "If-None-Match", tag); tag == "" || again.Code != http.StatusNotModified {
		t.Errorf("the same lines again: %d", again.Code)
	}
	zipped := answerTo(w, "/runs.jsonl?q=qwen3&since=2000-01-01", "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	some := runsOfLines(t, w, bufio.NewScanner(z))
	if page, err = w.index.Find(catalog.Query{All: true, Text: "qwen3"}); err != nil || len(some) != page.Total || len(some) == 0 {
		t.Errorf("%d lines, want %d: %v", len(some), page.Total, err)
	}
	if bad := w.get("/runs.jsonl?trust=9"); bad.Code != http.StatusBadRequest {
		t.Errorf("a question without a meaning: %d", bad.Code)
	}
}

// A reader must not take the beginning of the lines for all of them.
func TestLinesThatBreakOffAreCutOff(t *testing.T) {
	w := newWorld(t)
	w.invented(3)
	w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Document = []byte("{") })
	defer func() {
		if fault := recover(); fault != http.ErrAbortHandler { //nolint:errorlint // net/http wants this very value
			t.Errorf("the answer ended with %v", fault)
		}
	}()
	w.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/runs.jsonl", nil))
}

func TestTheRunsOfAnUploaderAreFilesToo(t *testing.T) {
	w := newWorld(t)
	w.put(seed(t, agentsSeed), ann, nil)
	newest := w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Entry.PublishedAt = noon })
	w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Entry.Visibility = catalog.Draft })
	w.put(seed(t, qwenSeed), bob, nil)
	page := w.page("/users/ann")
	for _, link := range []string{"/users/ann.json", "/users/ann.csv", "/users/ann.atom", "/runs?uploader=ann&amp;all=1"} {
		if !strings.Contains(page, `href="`+link+`"`) {
			t.Errorf("the page has no link to %s", link)
		}
	}
	says(t, w.page("/runs?uploader=ann&all=1"), "2 of 2 runs")
	var list struct {
		Total int            `json:"total"`
		Runs  []catalog.View `json:"runs"`
	}
	if err := json.Unmarshal(w.get("/users/ann.json").Body.Bytes(), &list); err != nil || list.Total != 2 || len(list.Runs) != 2 || list.Runs[0].ID != newest || list.Runs[1].Uploader != "ann" {
		t.Errorf("%+v, %v", list, err)
	}
	var feed atomFeed
	if err := xml.Unmarshal(w.get("/users/ann.atom").Body.Bytes(), &feed); err != nil || len(feed.Entries) != 2 || feed.ID != "https://speed.example.org/users/ann" || feed.Links[0].Href != "https://speed.example.org/users/ann.atom" {
		t.Errorf("%+v, %v", feed, err)
	}
	if rows := strings.Count(w.get("/users/ann.csv").Body.String(), newest); rows == 0 {
		t.Error("the table has no row of the newest run")
	}
	if out := w.get("/users/nobody.json"); out.Code != http.StatusNotFound {
		t.Errorf("of nobody: %d", out.Code)
	}
}

// Browsers take over the headers of a 304: one that carries the policy of all other answers would take a report its styles.
func TestWhatDidNotChangeKeepsItsPolicies(t *testing.T) {
	w := newWorld(t)
	id := w.put(seed(t, qwenSeed), ann, nil)
	w.handler = account.Headers(true, w.handler)
	for _, path := range []string{"/runs/" + id, "/", "/runs", "/runs/" + id + "/badge.svg"} {
		first := answerTo(w, path, "If-None-Match", "")
		again := answerTo(w, path, "If-None-Match", first.Header().Get("ETag"))
		if again.Code != http.StatusNotModified {
			t.Fatalf("%s: %d", path, again.Code)
		}
		merged := maps.Clone(first.Header())
		maps.Copy(merged, again.Header())
		for _, name := range []string{"Content-Security-Policy", "Cross-Origin-Resource-Policy"} {
			if was, is := first.Header().Get(name), merged.Get(name); is != was {
				t.Errorf("%s: %s was %q, and is %q from the second look on", path, name, was, is)
			}
		}
	}
}

func TestListsAreNamedByWhatTheyAsk(t *testing.T) {
	w := listWorld(t)
	for path, want := range map[string]string{
		"/runs": "Runs", "/runs?model=gpt-oss-20b&gpu=rtx-3090-24gb": "Runs of gpt-oss-20b on RTX 3090 24GB", "/runs?quant=fp8": "Runs in FP8",
		"/runs?model=gemma-3-27b-it-qat&gpu=h200-141gb": "No run of gemma-3-27b-it-qat on H200 141GB yet",
	} {
		if page := w.page(path); !strings.Contains(page, "<title>"+want+": speedmatrix</title>") || !strings.Contains(page, `<meta property="og:title" content="`+want+`">`) {
			t.Errorf("%s is not named %q: %.400s", path, want, page)
		}
	}
	says(t, w.page("/runs?model=gemma-3-27b-it-qat&gpu=tpu&engine=vllm&quant=q4_0"), "No run of gemma-3-27b-it-qat in Q4_0 on tpu with vllm yet")
	says(t, w.page("/runs?model=gpt-oss-20b&gpu=tpu&engine=none"), "Runs of gpt-oss-20b :", "Engine and version none 0 any")
}

// A site that begins anew, over another store, may come to the same sequence numbers.
func TestWhatAnotherSiteMadeAtTheAddressIsNotFresh(t *testing.T) {
	w := newWorld(t)
	w.invented(3)
	tag := w.get("/runs").Header().Get("ETag")
	w.site.started = w.site.started.Add(1)
	if out := answerTo(w, "/runs", "If-None-Match", tag); out.Code != http.StatusOK {
		t.Errorf("the page of another site is taken for this one's: %d", out.Code)
	}
}
