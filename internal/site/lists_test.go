package site

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

// listWorld is a site with both published runs and the runs of a small site.
func listWorld(t testing.TB) *world {
	w := newWorld(t)
	w.entries(catalogtest.Example())
	for i, name := range []string{agentsSeed, qwenSeed} {
		w.put(seed(t, name), ann, func(rec *catalog.Record) { rec.Entry.PublishedAt = noon.AddDate(0, 0, i-2) })
	}
	return w
}

var tags = regexp.MustCompile(`<[^>]*>`)

// words is what a page says, its elements apart by single blanks.
func words(page string) string {
	text := strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&amp;", "&", "&lt;", "<", "&gt;", ">", "<wbr>", "").Replace(page)
	return strings.Join(strings.Fields(tags.ReplaceAllString(text, " ")), " ")
}

func says(t *testing.T, page string, want ...string) {
	t.Helper()
	text := words(page)
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the page does not say %q:\n%s", w, text)
		}
	}
}

func TestHomeAnswersItsQuestionsFromTheRuns(t *testing.T) {
	w := listWorld(t)
	page := w.page("/")
	says(t, page, "Agents-A1-4B-FP8 with 8 users at 16K: 2,001 tok/s on H200 141GB, 187 on GB10 128GB.", "users at 32K. Only measured counts are given, nothing between them.",
		"vllm 0.31.1 to 0.32.0, Agents-A1-4B-FP8 on RTX 3090 24GB:", "at 16K for one user,", "RTX 3090 24GB: 17 runs of 7 models, vllm in 5 versions.", "All 56 runs", "speedmatrix submit RUN --to https://speed.example.org")
	if n := strings.Count(page, `class="pic"`); n != 12 {
		t.Errorf("%d newest runs", n)
	}
	newest := page[strings.Index(page, `id="new"`):]
	if i, j := strings.Index(newest, "Qwen3"), strings.Index(newest, "GLM"); i < 0 || j < i {
		t.Error("the newest run does not come first")
	}
	for _, m := range regexp.MustCompile(`href="(/runs\?q=[^"]*)"`).FindAllStringSubmatch(page, -1) {
		if strings.Contains(w.page(strings.ReplaceAll(m[1], "&amp;", "&")), "No run") {
			t.Errorf("the sample search %s finds nothing", m[1])
		}
	}
	says(t, newWorld(t).page("/"), "No run yet: add the first")
}

func TestAListOfRunsIsWhatItsAddressAsks(t *testing.T) {
	w := listWorld(t)
	page := w.page("/runs")
	says(t, page, "56 runs of 11 models on 14 machines, from 21 Jun 2026 to 29 Nov 2026.", "Sorted: comparable runs only. Method standard/1, stock hardware, no speculative decoding, recomputed or better. 6 others stand below the line:",
		"speculative decoding (1)", "6 runs that are not comparable , newest first.", "50 of 50 comparable runs", "Over capacity", "one sample", "Modified card, unlocked", "Power limit raised to 400 W", "Looped")
	if strings.Index(page, "H200 141GB<small>") > strings.Index(page, "GB10 128GB<small>") {
		t.Error("the fastest does not come first")
	}
	for query, want := range map[string][]string{
		"q=qwen3+coder+3090":                      {"runs of 1 model"},
		"q=--kv-cache-dtype":                      {"55 runs of"},
		"model=gpt-oss-20b&gpu=rtx-3090-24gb":     {"2 runs of 1 model on 1 machine", "Looped"},
		"sort=users&floor=50&ctx=64K":             {"50 tok/s, 64K", "users that fit"},
		"sort=users&ctx=0":                        {"≥ 128"},
		"sort=ttft":                               {"TTFT 16K × 8", " ms "},
		"sort=per-request&ctx=0&n=1":              {"Per request tok/s 0 × 1"},
		"sort=newest":                             {"Published"},
		"engine=vllm+0.31.1":                      {"5 runs of 3 models"},
		"all=1":                                   {"Sorted: all runs together,", "50 of 56 runs, 50 a page", "Next"},
		"trust=5":                                 {"10 of 10 comparable runs"},
		"mod=modified":                            {"3 runs that are not comparable"},
		"since=7d":                                {"7 runs of"},
		"since=2026-11-20&until=2026-11-22":       {"3 runs of"},
		"cell=1&ctx=64K&n=32":                     {"runs of"},
		"model=gemma-3-27b-it-qat&gpu=h200-141gb": {"No run of gemma-3-27b-it-qat on H200 141GB yet", "Runs of gemma-3-27b-it-qat on other hardware : 2 runs", "Runs of any model on H200 141GB : 2 runs", "speedmatrix submit RUN"},
		"q=nothing":                               {"No run for “nothing” yet", "Runs for any words : 56 runs"},
	} {
		t.Run(query, func(t *testing.T) { says(t, w.page("/runs?"+query), want...) })
	}
	for query, want := range map[string]string{"ctx=many": "It takes tokens of context", "n=0": "It takes a number of requests", "floor=-1": "It takes tok/s", "trust=9": "It takes a level", "since=today": "It takes a day",
		"sort=fast": `There is no order "fast".`, "mod=old": `Hardware is stock or modified, not "old".`, "cursor=x": "The cursor is not one of this site"} {
		if out := w.get("/runs?" + query); out.Code != http.StatusBadRequest || !strings.Contains(words(out.Body.String()), want) {
			t.Errorf("%s: %d %s", query, out.Code, words(out.Body.String()))
		}
	}
}

func TestEveryRunStandsOnOnePageOfTheList(t *testing.T) {
	w := newWorld(t)
	w.invented(400)
	links := regexp.MustCompile(`<tr role="row" id="r-([^"]*)"`)
	next, previous := regexp.MustCompile(`href="([^"]*)" rel="next"`), regexp.MustCompile(`href="([^"]*)" rel="prev"`)
	follow := func(page string, link *regexp.Regexp) string {
		m := link.FindStringSubmatch(page)
		if m == nil {
			return ""
		}
		return w.page(strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	var seen [][]string
	page := w.page("/runs?all=1&sort=prefill")
	last := ""
	for ; page != ""; page = follow(page, next) {
		var ids []string
		for _, m := range links.FindAllStringSubmatch(page, -1) {
			ids = append(ids, m[1])
		}
		seen, last = append(seen, ids), page
	}
	all := slices.Concat(seen...)
	slices.Sort(all)
	if len(all) != 400 || len(slices.Compact(all)) != 400 || len(seen) != 8 {
		t.Fatalf("%d runs on %d pages", len(all), len(seen))
	}
	if back := follow(last, previous); !strings.Contains(back, seen[6][0]) || !strings.Contains(back, seen[6][49]) {
		t.Error("the page before the last is another one on the way back")
	}
}

func TestOnlyPublicRunsStandInLists(t *testing.T) {
	w := newWorld(t)
	hidden := map[string]bool{}
	for _, v := range []catalog.Visibility{catalog.Draft, catalog.Quarantined, catalog.Unlisted, catalog.Withdrawn} {
		hidden[w.put(seed(t, agentsSeed), ann, func(rec *catalog.Record) {
			rec.Entry.Visibility, rec.Entry.Model, rec.Entry.ModelKey = v, "Hidden-model", "hidden-model"
		})] = true
	}
	w.put(seed(t, qwenSeed), ann, nil)
	w.visitor = ann // even where it is the visitor's own
	for _, path := range []string{"/", "/runs?all=1", "/runs.json?all=1", "/runs.csv?all=1", "/runs.atom", "/boards", "/boards.json", "/sitemap.xml", "/search.json?q=hidden", "/models.json"} {
		page := w.page(path)
		if strings.Contains(strings.ToLower(page), "hidden-model") {
			t.Errorf("%s names a run that is not public", path)
		}
		for id := range hidden {
			if strings.Contains(page, id) {
				t.Errorf("%s has the address of a run that is not public", path)
			}
		}
	}
	if out := w.get("/boards/16kx8?model=hidden-model"); out.Code != http.StatusNotFound {
		t.Errorf("a board of them: %d", out.Code)
	}
}

func TestListsAreFilesToo(t *testing.T) {
	w := listWorld(t)
	var list struct {
		Total int                 `json:"total"`
		Runs  []catalog.View      `json:"runs"`
		Next  string              `json:"next"`
		Apart []catalog.ApartView `json:"not_comparable"`
	}
	out := w.get("/runs.json?limit=20")
	if err := json.Unmarshal(out.Body.Bytes(), &list); err != nil || list.Total != 50 || len(list.Runs) != 20 || len(list.Apart) != 6 || list.Runs[0].Hardware.Name != "H200 141GB" {
		t.Fatalf("%v %d %d", err, list.Total, len(list.Runs))
	}
	if want := "<" + list.Next + `>; rel="next"`; out.Header().Get("Link") != want || !strings.HasPrefix(list.Next, "https://speed.example.org/runs.json?") {
		t.Errorf("the next page is %q, in the head %q", list.Next, out.Header().Get("Link"))
	}
	first := list.Runs[19].ID
	if err := json.Unmarshal([]byte(w.page(strings.TrimPrefix(list.Next, "https://speed.example.org"))), &list); err != nil || len(list.Runs) != 20 || list.Runs[0].ID == first {
		t.Errorf("the next page: %v %d", err, len(list.Runs))
	}
	rows, err := csv.NewReader(strings.NewReader(w.page("/runs.csv?model=gpt-oss-20b"))).ReadAll()
	if err != nil || len(rows) != 1+3*48 || rows[1][2] != "gpt-oss-20b" {
		t.Errorf("%v, %d rows", err, len(rows))
	}
	var feed atomFeed
	if err := xml.Unmarshal([]byte(w.page("/runs.atom")), &feed); err != nil || len(feed.Entries) != feedLength || feed.Entries[0].Title != "Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit on RTX 3090 24GB" {
		t.Errorf("%v %+v", err, feed)
	}
	var board struct {
		Rows []catalog.BoardRowView `json:"rows"`
		Rule string                 `json:"rule"`
	}
	if err := json.Unmarshal([]byte(w.page("/boards/16kx8.json?model=agents-a1-4b-fp8")), &board); err != nil || len(board.Rows) != 12 || *board.Rows[0].Rank != 1 || *board.Rows[0].Low >= *board.Rows[0].Value || board.Rule == "" {
		t.Errorf("%v %+v", err, board)
	}
	rows, err = csv.NewReader(strings.NewReader(w.page("/boards/16kx8.csv?model=agents-a1-4b-fp8"))).ReadAll()
	if err != nil || len(rows) != 1+12+3 || rows[13][17] == "" {
		t.Errorf("%v, %d rows", err, len(rows))
	}
	if err := xml.Unmarshal([]byte(w.page("/boards/16kx8.atom?model=agents-a1-4b-fp8")), &feed); err != nil {
		t.Error(err)
	}
	var boards []struct{ Boards []struct{ URL string } }
	if err := json.Unmarshal([]byte(w.page("/boards.json")), &boards); err != nil || len(boards) != 11 {
		t.Fatalf("%v, %d models", err, len(boards))
	}
	for _, b := range boards[0].Boards {
		w.page(strings.TrimPrefix(b.URL, "https://speed.example.org"))
	}
}

func TestBoardsPrintTheirRuleAndWhatTheyLeaveOut(t *testing.T) {
	w := listWorld(t)
	page := w.page("/boards/16kx8?model=agents-a1-4b-fp8")
	says(t, page, "Agents-A1-4B-FP8: total tok/s at 16K × 8, by hardware", "Eight users at once, each with 16K of context.", "The same weights (hash of the files), method standard/1", "at least three repeats",
		"3 of 21 runs:", "12 machines, 18 runs", "1 H200 141GB", "only run, 28 Nov 2026", "best of 2 runs", "2= H100 80GB", "Not compared, and why", "speculative decoding")
	says(t, w.page("/boards/32kx1?model=agents-a1-4b-fp8&by=users&floor=40"), "users at 40 tok/s each, 32K of context, by hardware", "Equal numbers share a rank")
	says(t, w.page("/boards/16kx1?model=agents-a1-4b-fp8&by=prefill"), "prefill at 16K, by hardware", "prompt tok/s, from 0")
	says(t, w.page("/boards/0x1?model=agents-a1-4b-fp8"), "One user with no context before the question.", "A machine that leads with one user can trail with eight")
	says(t, w.page("/boards/16kx8?model=qwen3-32b-awq"), "Over capacity: 8 requests at 16K exceed the KV cache")
	says(t, w.page("/boards/16kx8"), "Agents-A1-4B-FP8: total")
	says(t, w.page("/boards"), "Agents-A1-4B-FP8 H200 141GB 2,001", "no ranked run")
	for path, want := range map[string]string{"/boards?model=gpt-oss-20b&ctx=32K&n=4": "/boards/32kx4?model=gpt-oss-20b", "/boards?model=a&ctx=0&n=1&by=prefill": "/boards/0x1?by=prefill&model=a",
		"/hardware?gpu=rtx-3090-24gb": "/hardware/rtx-3090-24gb", "/hardware?gpu=rtx-3090-24gb&engine=vllm": "/hardware/rtx-3090-24gb#versions"} {
		if out := w.get(path); out.Code != http.StatusSeeOther || out.Header().Get("Location") != want {
			t.Errorf("%s leads to %d %s, want %s", path, out.Code, out.Header().Get("Location"), want)
		}
	}
	for path, status := range map[string]int{"/boards/16k": 404, "/boards/x8": 404, "/boards/16kx0": 404, "/boards/16kx8?model=none": 404, "/boards/16kx8?by=newest": 400, "/boards/16kx8?by=users&floor=x": 400, "/boards?ctx=x&n=1": 400} {
		if out := w.get(path); out.Code != status {
			t.Errorf("%s: %d, want %d", path, out.Code, status)
		}
	}
}

func TestNamesAreSuggestedAndLeadSomewhere(t *testing.T) {
	w := listWorld(t)
	for _, text := range []string{"qw", "3090", "vllm", "user-1", "--kv"} {
		var found []suggestion
		if err := json.Unmarshal([]byte(w.page("/search.json?q="+text)), &found); err != nil || len(found) == 0 {
			t.Errorf("%s: %v %v", text, found, err)
		}
		for _, s := range found {
			if s.Kind != "uploader" { // the invented runs' uploaders have no account
				w.page(s.URL)
			}
		}
	}
	if got := w.page("/search.json"); got != "[]" {
		t.Errorf("nothing typed: %s", got)
	}
}

func TestWalkersFindEveryRunInTheSitemap(t *testing.T) {
	w := listWorld(t)
	var urls siteURLs
	if err := xml.Unmarshal([]byte(w.page("/sitemap.xml")), &urls); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, u := range urls.URLs {
		if strings.Contains(u.Address, "/runs/") {
			runs++
		}
		w.page(strings.TrimPrefix(u.Address, "https://speed.example.org"))
	}
	if runs != 56 {
		t.Errorf("%d runs in the sitemap", runs)
	}
	for e := range catalogtest.Invent(11_000, 2) {
		e.ID, e.Sequence = "02"+e.ID, e.Sequence+1000
		w.index.Apply(e)
	}
	var index siteParts
	if err := xml.Unmarshal([]byte(w.page("/sitemap.xml")), &index); err != nil || len(index.Parts) != 4 {
		t.Fatalf("%v %d parts", err, len(index.Parts))
	}
	seen := map[string]bool{}
	for _, part := range index.Parts {
		var urls siteURLs
		if err := xml.Unmarshal([]byte(w.page(strings.TrimPrefix(part.Address, "https://speed.example.org"))), &urls); err != nil {
			t.Fatal(err)
		}
		for _, u := range urls.URLs {
			seen[u.Address] = true
		}
	}
	for i := range 11_000 {
		if id := fmt.Sprintf("https://speed.example.org/runs/0201k%023d", i); !seen[id] {
			t.Fatalf("%s is in no part of the sitemap", id)
		}
	}
	for _, path := range []string{"/sitemap/runs-4.xml", "/sitemap/runs-0.xml", "/sitemap/other.xml", "/sitemap/runs-1"} {
		if out := w.get(path); out.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, out.Code)
		}
	}
	says(t, w.page("/robots.txt"), "Sitemap: https://speed.example.org/sitemap.xml")
	for _, m := range regexp.MustCompile(`\((https://speed.example.org[^)]*)\)`).FindAllStringSubmatch(w.page("/llms.txt"), -1) {
		u, err := url.Parse(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(u.Path, "/api/") {
			w.page(u.RequestURI())
		}
	}
}

func TestPagesAreValidatedAndOtherMethodsRefused(t *testing.T) {
	w := listWorld(t)
	for _, path := range []string{"/", "/runs", "/runs.json", "/runs.csv", "/runs.atom", "/boards", "/boards.json", "/boards/16kx8", "/boards/16kx8.csv", "/sitemap.xml", "/search.json?q=qw"} {
		tag := w.get(path).Header().Get("ETag")
		again := httptest.NewRequest(http.MethodGet, path, nil)
		again.Header.Set("If-None-Match", tag)
		out := httptest.NewRecorder()
		w.handler.ServeHTTP(out, again)
		if tag == "" || out.Code != http.StatusNotModified || out.Body.Len() != 0 {
			t.Errorf("%s with its validator %q: %d and %d bytes", path, tag, out.Code, out.Body.Len())
		}
	}
	before := w.get("/runs").Header().Get("ETag")
	w.put(seed(t, qwenSeed), bob, nil)
	if w.get("/runs").Header().Get("ETag") == before {
		t.Error("a new run does not change the list's validator")
	}
	server := httptest.NewServer(w.handler)
	defer server.Close()
	head, err := http.Head(server.URL + "/runs")
	if err != nil || head.StatusCode != http.StatusOK || head.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("HEAD: %v %v", head, err)
	}
	if err == nil {
		_ = head.Body.Close()
	}
	for path, want := range map[string]int{"/nowhere": 404, "/runs/": 404, "/static/none.css": 404} {
		if out := w.get(path); out.Code != want {
			t.Errorf("%s: %d, want %d", path, out.Code, want)
		}
	}
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, httptest.NewRequest(http.MethodDelete, "/runs", nil))
	if out.Code != http.StatusMethodNotAllowed || out.Header().Get("Allow") != "GET, HEAD" || !strings.Contains(out.Body.String(), "This address does not take DELETE") {
		t.Errorf("DELETE /runs: %d, allowed %q", out.Code, out.Header().Get("Allow"))
	}
	static := w.get(regexp.MustCompile(`/static/site-[0-9a-f]+\.css`).FindString(w.page("/")))
	if static.Code != http.StatusOK || !strings.Contains(static.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("the style: %d %q", static.Code, static.Header().Get("Cache-Control"))
	}
	if strings.Contains(w.page("/runs")+w.page("/")+w.page("/boards/16kx8"), " style=") {
		t.Error("a page has a style of its own, which its policy forbids")
	}
}
