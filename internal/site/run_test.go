package site

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
)

func TestARunsPageIsItsReportWithWhatTheSiteKnows(t *testing.T) {
	w := newWorld(t)
	id := w.put(seed(t, qwenSeed), ann, nil)
	other := w.put(seed(t, agentsSeed), bob, nil)
	page := w.page("/runs/" + id)
	for _, want := range []string{
		"<title>Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit on RTX 3090 24GB: speedmatrix</title>", `id="decode-16k-x4"`, "Requests queued",
		"<b>Complete.</b> What is needed to measure it again is there.", `href="/runs/` + id + `/checks"`,
		`by <a href="/users/ann">ann</a>, 1 Dec 2026, 11:00 UTC; version 1 of 1`, `href="/runs/` + id + `.json"`, `href="/runs/` + id + `.csv"`, `href="/runs/` + id + `.md"`,
		`href="/compare?run=` + id + `&amp;run=` + other + `"`, "speedmatrix submit RUN --to https://speed.example.org", "--contexts 0,16K,32K,64K,128K,136K",
		`property="og:image" content="https://speed.example.org/runs/` + id + `/card.png"`, `property="og:title" content="Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit on RTX 3090 24GB"`,
		`<a href="/models/qwen3-coder-30b-a3b-instruct-awq-4bit">`, `<a href="/hardware/rtx-3090-24gb">`, `href="/runs/` + id + `/files/run.json"`,
		"https://speed.example.org/runs/" + id + "#decode-0-x16",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, never := range []string{"<style", "Content-Security-Policy", "<!--"} {
		if strings.Contains(page, never) {
			t.Errorf("the page holds %q", never)
		}
	}
	if own := w.get("/runs/" + id).Header().Get("Content-Security-Policy"); !strings.Contains(own, "default-src 'none'") || strings.Contains(own, "script-src 'unsafe") {
		t.Errorf("policy %q", own)
	}
}

func TestARunIsThereForThoseWhoMaySeeIt(t *testing.T) {
	type want struct{ nobody, bob, owner, moderator int }
	everyone := want{200, 200, 200, 200}
	for visibility, page := range map[catalog.Visibility]want{
		catalog.Draft: {404, 404, 200, 200}, catalog.Unlisted: everyone, catalog.Public: everyone, catalog.Quarantined: everyone, catalog.Withdrawn: {410, 410, 200, 200},
	} {
		w := newWorld(t)
		id := w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Entry.Visibility = visibility })
		for _, x := range []struct {
			visitor account.Visitor
			want    int
		}{{nobodyAtAll, page.nobody}, {bob, page.bob}, {ann, page.owner}, {mod, page.moderator}} {
			w.visitor = x.visitor
			for _, path := range []string{"", "/v/1", ".json", ".csv", ".md", "/checks", "/files/run.json", "/card.png", "/badge.svg", "/heatmap.svg"} {
				if got := w.get("/runs/" + id + path).Code; got != x.want {
					t.Errorf("%s for %q: %s is %d, want %d", visibility, x.visitor.Account.Name, path, got, x.want)
				}
			}
			if got, want := w.get("/compare?run="+id+"&run="+id).Code, map[int]int{200: 200, 404: 404, 410: 404}[x.want]; got != want {
				t.Errorf("%s for %q: comparing it is %d, want %d", visibility, x.visitor.Account.Name, got, want)
			}
			unlisted := x.want == 200 && visibility != catalog.Public
			if got := strings.Contains(w.get("/runs/"+id).Body.String(), `name="robots" content="noindex"`); x.want == 200 && got != unlisted {
				t.Errorf("%s: kept out of searches %v", visibility, got)
			}
		}
	}
	w := newWorld(t)
	for _, path := range []string{"/runs/01knothing", "/runs/01knothing.json", "/runs/01knothing/history", "/runs/01knothing/v/0", "/runs/..%2f..%2fetc", "/upload/01knothing"} {
		if got := w.get(path).Code; got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
}

func TestAWithdrawnRunSaysWhoAndWhy(t *testing.T) {
	w, visits := fullWorld(t)
	out := w.get(visits["withdrawn"].path)
	for _, want := range []string{"This run was withdrawn by bob on 1 Dec 2026.", "“Measured beside another program.”"} {
		if !strings.Contains(out.Body.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(out.Body.String(), "1,376.6") {
		t.Error("the page still shows a number")
	}
	history := w.page(visits["history"].path)
	if !strings.Contains(history, "withdrawn") || !strings.Contains(history, "received") || strings.Contains(history, "/v/1") {
		t.Errorf("its history: %s", history)
	}
	if got := w.get(visits["withdrawn"].path + "/v/1").Code; got != http.StatusGone {
		t.Errorf("its version is %d", got)
	}
}

func TestVersionsStayAtTheirAddresses(t *testing.T) {
	w := newWorld(t)
	run := seed(t, qwenSeed)
	id := w.put(run, ann, nil)
	rec, err := w.store.Get(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	rec.Entry.Version = 2
	run.Cells[0].Status = speedmatrix.StatusSkipped
	var doc bytes.Buffer
	if err := runfile.Encode(&doc, run); err != nil {
		t.Fatal(err)
	}
	rec.Document = doc.Bytes()
	saved, err := w.store.Put(t.Context(), rec, catalog.Change{At: noon, By: ann.Account.ID, What: "edited", Why: "the first cell was wrong"})
	if err != nil {
		t.Fatal(err)
	}
	w.index.Apply(saved)
	if page := w.page("/runs/" + id + "/v/1"); !strings.Contains(page, "Version 1 of 2.") || strings.Contains(page, ">Skipped<") {
		t.Error("the first version is not at its address")
	}
	if page := w.page("/runs/" + id); strings.Contains(page, "Version 1 of 2.") || !strings.Contains(page, "version 2 of 2") || !strings.Contains(page, "Skipped") {
		t.Error("the address of the run is not that of its newest version")
	}
	if got := w.get("/runs/" + id + "/v/3").Code; got != http.StatusNotFound {
		t.Errorf("a version that is not there: %d", got)
	}
	if history := w.page("/runs/" + id + "/history"); !strings.Contains(history, "the first cell was wrong") || !strings.Contains(history, "/v/2") {
		t.Error("the history does not say what changed")
	}
}

func TestWhatDidNotChangeIsNotSentAgain(t *testing.T) {
	w := newWorld(t)
	id := w.put(seed(t, qwenSeed), ann, nil)
	for _, path := range []string{"/runs/" + id, "/runs/" + id + ".json", "/runs/" + id + "/card.png", "/runs/" + id + "/checks", "/hardware"} {
		first := w.get(path)
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("If-None-Match", first.Header().Get("ETag"))
		again := httptest.NewRecorder()
		w.handler.ServeHTTP(again, r)
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s: %d and %d bytes", path, again.Code, again.Body.Len())
		}
		w.visitor = ann
		if tag := w.get(path).Header().Get("ETag"); tag == first.Header().Get("ETag") {
			t.Errorf("%s: the same validator for another visitor", path)
		}
		w.visitor = nobodyAtAll
	}
}

func TestPicturesForOtherSites(t *testing.T) {
	w := newWorld(t)
	id := w.put(seed(t, agentsSeed), ann, nil)
	card, err := png.Decode(w.get("/runs/" + id + "/card.png").Body)
	if err != nil || card.Bounds().Dx() != 1200 || card.Bounds().Dy() != 630 {
		t.Errorf("the card: %v, %v", card.Bounds(), err)
	}
	heat, badge := w.page("/runs/"+id+"/heatmap.svg"), w.page("/runs/"+id+"/badge.svg")
	for _, svg := range []string{heat, badge} {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
	if !strings.HasPrefix(heat, `<svg xmlns="http://www.w3.org/2000/svg" width="337" height="157" viewBox="-44 -22 337 157"`) {
		t.Errorf("the heat map begins %.140s", heat)
	}
	if !strings.Contains(badge, "Agents-A1-4B-FP8 on RTX 3090 24GB") || !strings.Contains(badge, "636 tok/s at 16K × 8") {
		t.Errorf("the badge is %s", badge)
	}
	if badge := w.page("/runs/" + id + "/badge.svg?cell=decode-0-x32"); !strings.Contains(badge, "tok/s at 0 × 32") {
		t.Errorf("the badge of another cell is %s", badge)
	}
	if got := w.get("/runs/" + id + "/badge.svg?cell=decode-9-x9").Code; got != http.StatusNotFound {
		t.Errorf("the badge of no cell: %d", got)
	}
}

func TestFilesAreSentAsTheyCame(t *testing.T) {
	w := newWorld(t)
	page := []byte("<script>alert(1)</script>")
	id := w.put(seed(t, qwenSeed), ann, func(rec *catalog.Record) { rec.Blobs = append(rec.Blobs, w.keep("engine.log", page)) })
	out := w.get("/runs/" + id + "/files/engine.log")
	h := out.Header()
	if !bytes.Equal(out.Body.Bytes(), page) || h.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") ||
		h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%q %v", out.Body, h)
	}
	if got := w.get("/runs/" + id + "/files/../run.json").Code; got == http.StatusOK {
		t.Error("a path with dots is a file")
	}
	if got := w.get("/runs/" + id + "/files/other").Code; got != http.StatusNotFound {
		t.Errorf("a file that is not there: %d", got)
	}
	var document map[string]any
	if err := json.Unmarshal(w.get("/runs/"+id+".json").Body.Bytes(), &document); err != nil || document["schema"] != speedmatrix.Schema {
		t.Errorf("the document: %v, %v", document["schema"], err)
	}
}

func TestTheWindowsOfCellsAreDrawnFromTheRows(t *testing.T) {
	w := newWorld(t)
	const folder = "../../examples/cpu-smollm2-135m-vllm-0.32.0"
	run := seed(t, filepath.Base(folder))
	names, err := filepath.Glob(folder + "/cells/*.parquet")
	if err != nil || len(names) == 0 {
		t.Fatalf("the example has no rows: %v", err)
	}
	id := w.put(run, ann, func(rec *catalog.Record) {
		for _, name := range append(names, folder+"/machine.parquet", folder+"/server.parquet") {
			data, err := os.ReadFile(name)
			if err != nil {
				continue // the example need not have every file
			}
			inside, err := filepath.Rel(folder, name)
			if err != nil {
				t.Fatal(err)
			}
			rec.Blobs = append(rec.Blobs, w.keep(filepath.ToSlash(inside), data))
		}
	})
	page := w.page("/runs/" + id)
	found := 0
	for part := range strings.SplitSeq(page, `<img src="`) {
		source, _, _ := strings.Cut(part, `"`)
		if !strings.Contains(source, "/rows/") {
			continue
		}
		found++
		out := w.get(source)
		if out.Code != http.StatusOK || !strings.HasPrefix(out.Body.String(), "<svg") || out.Header().Get("Content-Type") != "image/svg+xml" {
			t.Errorf("%s: %d %.80s", source, out.Code, out.Body)
		}
	}
	if found == 0 {
		t.Error("the page shows no drawing of the rows")
	}
	for _, path := range []string{"/rows/decode-0-x1.nothing.svg", "/rows/decode-9-x9.window.svg", "/rows/machine.png", "/rows/..%2f.svg"} {
		if got := w.get("/runs/" + id + path).Code; got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
}

var _ report.Rows = (*runfile.Files)(nil)
