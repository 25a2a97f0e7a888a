package site

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

func TestVersionsAreOrderedAsPeopleDo(t *testing.T) {
	want := []string{"", "0.9.0", "0.10.0", "0.10.0rc1", "0.32.0", "b8102", "b8140", "b10000"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareVersions)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringMatching(`[a-z0-9.]{0,12}`).Draw(t, "a"), rapid.StringMatching(`[a-z0-9.]{0,12}`).Draw(t, "b")
		if compareVersions(a, b) != -compareVersions(b, a) || compareVersions(a, a) != 0 {
			t.Fatalf("%q and %q have no order", a, b)
		}
	})
}

// versioned are runs of one set-up, one for each version, with these totals and half widths at 16K × 8.
func versioned(totals ...[2]float32) (list []*catalog.Entry) {
	for i, total := range totals {
		list = append(list, &catalog.Entry{ID: string(rune('a' + i)), Model: "M", Engine: "vllm", EngineVersion: "0." + string(rune('1'+i)), MeasuredAt: time.Date(2026, 1+time.Month(i), 1, 0, 0, 0, 0, time.UTC),
			Cells: []catalog.Cell{{Context: 16384, Label: "16K", Concurrency: 8, Status: speedmatrix.StatusValid, Total: total[0], Half: total[1], PerRequest: total[0] / 8}}})
	}
	return list
}

func TestATrendNamesOnlyChangesBeyondTheIntervals(t *testing.T) {
	nan := float32(math.NaN())
	v, ok := trendOf("M", "vllm", versioned([2]float32{500, 5}, [2]float32{505, 5}, [2]float32{450, 5}, [2]float32{460, nan}), nil)
	if !ok {
		t.Fatal("no trend of four versions")
	}
	var sure []bool
	for _, r := range v.Rows {
		sure = append(sure, r.Sure)
	}
	if !slices.Equal(sure, []bool{false, false, true, false}) {
		t.Errorf("sure: %v", sure)
	}
	if v.Says != "M changed by −10.9\u00a0% from vllm 0.2 to 0.3, outside the intervals." || v.Compare != "/compare?run=b&run=c" {
		t.Errorf("%q %q", v.Says, v.Compare)
	}
	for _, want := range []string{"intervals meet", "−10.9 %", "one sample", "0.4"} {
		if !strings.Contains(string(v.Picture), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if _, ok := trendOf("M", "vllm", versioned([2]float32{500, 5}), nil); ok {
		t.Error("a trend of one version")
	}
	if _, ok := trendOf("M", "vllm", versioned([2]float32{500, 5}, [2]float32{505, 5}), &place{0, 1}); ok {
		t.Error("a trend of a cell that no run has")
	}
}

func TestALongDetailPageShowsItsFirstRowsAndItsFilesAll(t *testing.T) {
	var list []*catalog.Entry
	for i := range 150 {
		e := versioned([2]float32{500, 5})[0]
		e.ID, e.EngineVersion = fmt.Sprintf("r%03d", i), fmt.Sprintf("0.%d.0", i)
		list = append(list, e)
	}
	engines := kinds[2]
	page := newDetail(subject{kind: engines, key: "vllm"}, ofKind{list, list, len(list)})
	if len(page.Rows) != mostRows || page.Rows[0].Title != "0.149.0" || page.RowsSay != "The first 60 of 150; the files below have all." {
		t.Errorf("%d rows from %s: %q", len(page.Rows), page.Rows[0].Title, page.RowsSay)
	}
	if v := newDetail(subject{kind: engines, key: "vllm", form: ".csv"}, ofKind{list, list, 7000}); len(v.Rows) != len(list) || !strings.HasPrefix(v.Says, "7,000 runs. This page is of the newest: 150 runs of ") {
		t.Errorf("%d rows in the file, of %d: %s", len(v.Rows), len(list), v.Says)
	}
}

func TestUsersAreMeasuredCounts(t *testing.T) {
	cell := func(n int, each float32, status speedmatrix.Status) catalog.Cell {
		return catalog.Cell{Context: 32768, Concurrency: n, Status: status, PerRequest: each}
	}
	none := float32(math.NaN())
	for want, cells := range map[string][]catalog.Cell{
		"8": {cell(4, 40, "Valid"), cell(8, 20, "Valid"), cell(16, 12, "Valid")}, "≥ 16": {cell(8, 40, "Valid"), cell(16, 20, "Requests queued")},
		"none": {cell(1, 19, "Valid"), cell(2, none, "Over capacity")}, "—": nil, "1": {cell(1, 30, "Valid"), cell(2, 12, "Valid"), cell(4, 25, "Valid")},
	} {
		if got := usersText(&catalog.Entry{Cells: cells}, 32768, 20); got != want {
			t.Errorf("%v: %q, want %q", cells, got, want)
		}
	}
}

func TestSmallHeatMapsShareOneScale(t *testing.T) {
	for total, want := range map[float32]int{0.5: 0, 31.9: 0, 32: 1, 63: 1, 64: 2, 128: 3, 1023: 5, 1024: 6, 2047: 6, 2048: 7, 99999: 7} {
		if got := thumbStep(total); got != want {
			t.Errorf("%v tok/s is step %d, want %d", total, got, want)
		}
	}
	e := catalog.Describe(seed(t, qwenSeed))
	if svg := string(thumb(&e, inTables, nil)); !strings.HasPrefix(svg, `<svg class="th" width="47" height="29"`) || len(svg) > 2500 || strings.Contains(svg, "style=") {
		t.Errorf("in tables: %d bytes, %.80s", len(svg), svg)
	}
	svg := string(thumb(&e, inReview, []string{"decode-128k-x1", "decode-136k-x1"}))
	if !strings.HasPrefix(svg, `<svg class="th" width="337" height="157" viewBox="-44 -22 337 157"`) || strings.Count(svg, `class="tr" d="M`) != 1 || !strings.Contains(svg, "Total tok/s from 17.4 to 934, 13 of 48 cells measured") {
		t.Errorf("in the review: %.200s", svg)
	}
}

func TestPagesAboutHardwareModelsAndEngines(t *testing.T) {
	w := newWorld(t)
	w.put(seed(t, agentsSeed), bob, nil)
	w.invented(300)
	for path, wants := range map[string][]string{
		"/hardware/rtx-3090-24gb": {"<h1>RTX 3090 24GB</h1>", "936 GB/s and 71 TFLOP/s (data sheet)", "Models measured on it", `id="tradeoff"`, `href="/runs?gpu=rtx-3090-24gb&amp;all=1"`},
		"/models/gpt-oss-20b":     {"<h1>gpt-oss-20b</h1>", "Machines it was measured on", "runs MXFP4"},
		"/engines/vllm":           {"<h1>vllm</h1>", "Versions of it that were measured", "0.32.0", `id="versions"`},
		"/hardware":               {"RTX 3090 24GB", `href="/hardware/rtx-3090-24gb"`}, "/models": {"gpt-oss-20b"}, "/engines": {"llama.cpp"},
	} {
		page := w.page(path)
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
		if strings.Contains(page, "style=") || strings.Contains(page, "<style") {
			t.Errorf("%s has a style that the policy forbids", path)
		}
		if strings.Contains(page, "Agents-A1-4B-FP8") && !strings.Contains(path, "s") {
			t.Errorf("%s shows a run that is not comparable", path)
		}
	}
	var doc struct {
		Key    string                       `json:"key"`
		Newest []struct{ Run catalog.View } `json:"newest_comparable"`
	}
	if err := json.Unmarshal(w.get("/hardware/rtx-3090-24gb.json").Body.Bytes(), &doc); err != nil || doc.Key != "rtx-3090-24gb" || len(doc.Newest) == 0 {
		t.Errorf("as JSON: %v %+v", err, doc)
	}
	for _, r := range doc.Newest {
		if r.Run.Method != "standard/1" || r.Run.Modified != "" || r.Run.Hardware.Key != "rtx-3090-24gb" || r.Run.Level < catalog.Recomputed {
			t.Errorf("%s is not comparable", r.Run.ID)
		}
	}
	for _, path := range []string{"/hardware/rtx-3090-24gb.csv", "/models.csv"} {
		if rows, err := csv.NewReader(w.get(path).Body).ReadAll(); err != nil || len(rows) < 5 {
			t.Errorf("%s: %d rows, %v", path, len(rows), err)
		}
	}
	var feed atomFeed
	if err := xml.Unmarshal(w.get("/engines/vllm.atom").Body.Bytes(), &feed); err != nil || len(feed.Entries) != feedLength || feed.ID != "https://speed.example.org/engines/vllm" {
		t.Errorf("the feed: %v, %d entries", err, len(feed.Entries))
	}
	for _, path := range []string{"/hardware/none", "/models/none.json", "/engines/%00"} {
		if got := w.get(path).Code; got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
}

func TestADetailPageShowsTheNewestComparableRunOfEach(t *testing.T) {
	var all, comparable []*catalog.Entry
	for _, e := range catalogtest.Entries(400, 3) {
		if e.HardwareKey != "h100-80gb" {
			continue
		}
		all = append(all, &e)
		if e.Method == "standard/1" {
			comparable = append(comparable, &e)
		}
	}
	v := newDetail(subject{kind: kinds[1], key: "h100-80gb"}, ofKind{all, comparable, len(all)})
	seen := map[string]bool{}
	for i, r := range v.Rows {
		name := r.Entry.ModelKey + r.Entry.Engine
		if seen[name] {
			t.Errorf("%s stands there twice", name)
		}
		seen[name] = true
		for _, e := range comparable {
			if e.ModelKey+e.Engine == name && newer(e, r.Entry) {
				t.Errorf("%s: %s is newer", name, e.ID)
			}
		}
		if i > 0 {
			before, _, _ := totalAt(v.Rows[i-1].Entry, oneUser)
			if total, _, _ := totalAt(r.Entry, oneUser); total > before {
				t.Errorf("row %d is faster than the one above", i)
			}
		}
	}
	if len(v.Rows) == 0 || len(v.Panels) != min(len(v.Rows), mostPanels) || v.N != len(all) {
		t.Errorf("%d rows, %d panels, %d runs", len(v.Rows), len(v.Panels), v.N)
	}
}
