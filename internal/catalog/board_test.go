package catalog_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

// boardRun is a run with one cell.
func boardRun(i int, hardware string, total, half float64, change func(*catalog.Entry)) catalog.Entry {
	at := time.Date(2026, 11, 1+i, 0, 0, 0, 0, time.UTC)
	e := catalog.Entry{ID: fmt.Sprintf("run%02d", i), Version: 1, Sequence: int64(i + 1), Visibility: catalog.Public, Level: catalog.Recomputed, Origin: "measured", Method: speedmatrix.MethodStandard,
		Model: "Model-1", ModelKey: "model-1", Weights: "aaaa", Hardware: hardware, HardwareKey: catalog.Key(hardware), Engine: "vllm", Repeats: 3, MeasuredAt: at, PublishedAt: at,
		Cells: []catalog.Cell{{Context: 16384, Label: "16K", Concurrency: 8, Status: speedmatrix.StatusValid, Total: float32(total), Half: float32(half), PerRequest: float32(total / 8), TTFT: float32(90000 / total), Between: 1}}}
	if change != nil {
		change(&e)
	}
	return e
}

func TestABoardRanksComparableRunsOfTheSameWeights(t *testing.T) {
	over := func(e *catalog.Entry) {
		nan := float32(math.NaN())
		e.Cells[0] = catalog.Cell{Context: 16384, Label: "16K", Concurrency: 8, Status: speedmatrix.StatusOverCapacity, Total: nan, Half: nan, PerRequest: nan, TTFT: nan, Between: nan}
	}
	x := indexOf([]catalog.Entry{
		boardRun(0, "H200", 2000, 40, nil), boardRun(1, "MI300X", 1830, 12, nil), boardRun(2, "H100", 1690, 10, nil), boardRun(3, "H100", 1650, 90, nil),
		boardRun(4, "RTX 5090", 949, 11, nil), boardRun(5, "RTX PRO 6000", 938, 16, nil), boardRun(6, "L40S", 910, 12, nil), boardRun(7, "RTX 3090", 0, 0, over),
		boardRun(8, "B", 3000, 1, func(e *catalog.Entry) { e.Weights = "bbbb" }), boardRun(9, "C", 3000, 1, func(e *catalog.Entry) { e.Weights = "" }),
		boardRun(10, "D", 3000, 1, func(e *catalog.Entry) { e.Repeats = 1 }), boardRun(11, "E", 3000, 1, func(e *catalog.Entry) { e.Repeats = 2 }),
		boardRun(12, "F", 3000, 1, func(e *catalog.Entry) { e.Speculative = "eagle 3" }), boardRun(13, "G", 3000, 1, func(e *catalog.Entry) { e.Level = catalog.Complete }),
		boardRun(14, "H", 3000, 1, func(e *catalog.Entry) { e.Visibility = catalog.Unlisted }), boardRun(15, "I", 3000, 1, func(e *catalog.Entry) { e.Model = "Model-2" }),
	})
	b, err := x.Board(catalog.BoardQuery{Model: "model-1", Context: 16384, Concurrency: 8})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range b.Rows {
		shared := ""
		if r.Shared {
			shared = "="
		}
		got = append(got, fmt.Sprintf("%d%s %s %.0f (%.0f to %.0f) of %d", r.Rank, shared, r.Entry.Hardware, r.Value, r.Low, r.High, r.Runs))
	}
	// The L40S does not reach the RTX 5090, but the row above it.
	want := "1 H200 2000 (1960 to 2040) of 1|2 MI300X 1830 (1818 to 1842) of 1|3 H100 1690 (1680 to 1700) of 2|4 RTX 5090 949 (938 to 960) of 1|4= RTX PRO 6000 938 (922 to 954) of 1|4= L40S 910 (898 to 922) of 1|0 RTX 3090 NaN (NaN to NaN) of 1"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	var reasons strings.Builder
	for _, f := range b.ApartTotal {
		reasons.WriteString(fmt.Sprintf("%s %d|", f.Name, f.N))
	}
	if want := "hash of the weights not known 1|measured 2 times, fewer than 3 1|not recomputed: complete 1|one sample 1|other weights 1|speculative decoding 1|"; reasons.String() != want {
		t.Errorf("apart %s, want %s", reasons.String(), want)
	}
	if b.Weights != "aaaa" || b.Of != 14 || b.Compared != 8 || b.Model.Name != "Model-1" || b.Apart[0].Entry.Hardware != "G" {
		t.Errorf("weights %s, %d of %d, model %v, first apart %s", b.Weights, b.Compared, b.Of, b.Model, b.Apart[0].Entry.Hardware)
	}
	if b, err = x.Board(catalog.BoardQuery{Model: "model-1", Weights: "bbbb", Context: 16384, Concurrency: 8}); err != nil || len(b.Rows) != 1 || b.Rows[0].Entry.Hardware != "B" {
		t.Errorf("of other weights: %v %v", b.Rows, err)
	}
	b, err = x.Board(catalog.BoardQuery{Model: "model-1", By: catalog.ByTTFT, Context: 16384, Concurrency: 8})
	if err != nil || b.Rows[0].Entry.Hardware != "H200" || b.Rows[0].Value != 45 || b.Rows[0].Rank != 1 || b.Rows[5].Rank != 6 || b.Rows[6].Rank != 0 {
		t.Errorf("by TTFT: %+v %v", b.Rows, err)
	}
	for want, q := range map[string]catalog.BoardQuery{"a board needs a model": {}, "a board ranks by a number": {Model: "model-1", By: catalog.ByNewest},
		"an order by a cell needs its number of requests at once": {Model: "model-1"}} {
		if _, err := x.Board(q); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSuggestionsBeginWithWhatBegins(t *testing.T) {
	x := indexOf(catalogtest.Example())
	for text, want := range map[string]string{
		"qw":      "model Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit|model Qwen3-8B-FP8|model Qwen3-32B-AWQ",
		"30":      "hardware RTX 3090 24GB|model Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit|hardware 2 × RTX 3090 24GB|hardware MI300X 192GB",
		"3090 2":  "hardware RTX 3090 24GB|hardware 2 × RTX 3090 24GB",
		"VLLM":    "engine vllm",
		"--kv":    "flag --kv-cache-dtype fp8",
		"nothing": "", " ": "",
	} {
		var got []string
		for _, s := range x.Suggest(text, 4) {
			got = append(got, s.Kind+" "+s.Name)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q: %s, want %s", text, strings.Join(got, "|"), want)
		}
	}
}
