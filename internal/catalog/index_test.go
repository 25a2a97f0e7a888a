package catalog_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

var unknownsAreEqual = cmpopts.EquateNaNs()

func indexOf(entries []catalog.Entry) *catalog.Index {
	x := catalog.NewIndex()
	for _, e := range entries {
		x.Apply(e)
	}
	return x
}

// numberOf is what a query sorts an entry by, computed from the entry alone; greater is earlier.
func numberOf(e *catalog.Entry, q *catalog.Query) float64 {
	switch q.Sort {
	case catalog.ByPrefill:
		for _, p := range e.Prefill {
			if p.Context == q.Context {
				return float64(p.TokensPerSecond)
			}
		}
		return math.NaN()
	case catalog.ByUsers:
		cells := slices.DeleteFunc(slices.Clone(e.Cells), func(c catalog.Cell) bool { return c.Context != q.Context })
		slices.SortFunc(cells, func(a, b catalog.Cell) int { return a.Concurrency - b.Concurrency })
		if len(cells) == 0 {
			return math.NaN()
		}
		most := 0
		for _, c := range cells {
			if !(float64(c.PerRequest) >= cmp.Or(q.Floor, 20)) {
				break
			}
			most = c.Concurrency
		}
		return float64(most)
	case catalog.ByTotal, catalog.ByPerRequest, catalog.ByTTFT:
		for _, c := range e.Cells {
			if c.Context == q.Context && c.Concurrency == q.Concurrency {
				return map[catalog.Sort]float64{catalog.ByTotal: float64(c.Total), catalog.ByPerRequest: float64(c.PerRequest), catalog.ByTTFT: -float64(c.TTFT)}[q.Sort]
			}
		}
		return math.NaN()
	}
	return float64(e.PublishedAt.UnixMicro())
}

func matches(e *catalog.Entry, q *catalog.Query) bool {
	names := strings.ToLower(strings.Join([]string{e.Model, e.Hardware, e.Engine, e.EngineVersion, e.Quantization, e.OwnerName, e.Modified, e.Speculative}, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(q.Text)) {
		in := names
		if word[0] == '-' {
			in = strings.Join(e.Flags, "\n")
		}
		if !strings.Contains(in, word) {
			return false
		}
	}
	total := numberOf(e, &catalog.Query{Sort: catalog.ByTotal, Context: q.Context, Concurrency: q.Concurrency})
	return e.Visibility == catalog.Public && (q.Model == "" || q.Model == e.ModelKey) && (q.Hardware == "" || q.Hardware == e.HardwareKey) &&
		(q.Engine == "" || q.Engine == e.Engine) && (q.EngineVersion == "" || q.EngineVersion == e.EngineVersion) && (q.Method == "" || q.Method == e.Method) &&
		e.Level >= q.Level && (q.Modified == "" || (q.Modified == "stock") == (e.Modified == "")) && (q.After.IsZero() || !e.MeasuredAt.Before(q.After)) &&
		(q.Before.IsZero() || e.MeasuredAt.Before(q.Before)) && (!q.HasCell || !math.IsNaN(total))
}

// expected are the IDs that a query finds, in order, and how many stand apart.
func expected(entries []catalog.Entry, q *catalog.Query) (ids []string, apart int) {
	var found []*catalog.Entry
	for i := range entries {
		if e := &entries[i]; matches(e, q) {
			if e.Incomparable() != "" && !q.All {
				apart++
				continue
			}
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *catalog.Entry) int {
		x, y := numberOf(a, q), numberOf(b, q)
		switch {
		case math.IsNaN(x) != math.IsNaN(y):
			if math.IsNaN(x) {
				return 1
			}
			return -1
		case !math.IsNaN(x) && x != y:
			return cmp.Compare(y, x)
		}
		return cmp.Or(b.PublishedAt.Compare(a.PublishedAt), cmp.Compare(b.ID, a.ID))
	})
	for _, e := range found {
		ids = append(ids, e.ID)
	}
	return ids, apart
}

func drawQuery(t *rapid.T) catalog.Query {
	pick := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	q := catalog.Query{Text: pick("text", "", "", "qwen 3090", "VLLM 0.32", "--kv-cache-dtype", "user-01"), Model: pick("model", "", "", "qwen3-8b", "gpt-oss-20b", "none"),
		Hardware: pick("gpu", "", "", "rtx-3090-24gb", "h200-141gb"), Engine: pick("engine", "", "vllm", "llama.cpp"), EngineVersion: pick("version", "", "", "0.32.0"),
		Method: pick("method", "", "", "", "standard/1", "quick/1"), Modified: pick("mod", "", "", "stock", "modified"), Level: catalog.Level(rapid.IntRange(0, 5).Draw(t, "level")),
		Context: rapid.SampledFrom([]int{0, 16384, 131072, 7}).Draw(t, "ctx"), Concurrency: rapid.SampledFrom([]int{1, 8, 128, 3}).Draw(t, "n"), HasCell: rapid.IntRange(0, 4).Draw(t, "cell") == 0,
		Floor: rapid.SampledFrom([]float64{0, 50}).Draw(t, "floor"), All: rapid.Bool().Draw(t, "all"), Limit: rapid.IntRange(1, 60).Draw(t, "limit"),
		Sort: rapid.SampledFrom([]catalog.Sort{"", catalog.ByTotal, catalog.ByPerRequest, catalog.ByTTFT, catalog.ByUsers, catalog.ByPrefill, catalog.ByNewest}).Draw(t, "sort")}
	if rapid.IntRange(0, 3).Draw(t, "dated") == 0 {
		q.After, q.Before = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	}
	return q
}

func TestPagesOfAQueryAreWhatASimpleSearchFinds(t *testing.T) {
	entries := catalogtest.Entries(400, 3)
	for i := range entries {
		if i%17 == 0 {
			entries[i].Visibility = catalog.Unlisted
		}
	}
	x := indexOf(entries)
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuery(t)
		want, apart := expected(entries, &q)
		var got, back []string
		var pages []catalog.Page
		for {
			page, err := x.Find(q)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, f := range page.ApartTotal {
				n += f.N
			}
			if page.Total != len(want) || n != apart {
				t.Fatalf("%d found and %d apart, want %d and %d", page.Total, n, len(want), apart)
			}
			pages = append(pages, page)
			for _, e := range page.Entries {
				got = append(got, e.ID)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for q.Cursor = pages[len(pages)-1].Previous; q.Cursor != ""; {
			page, err := x.Find(q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range slices.Backward(page.Entries) {
				back = append(back, e.ID)
			}
			q.Cursor = page.Previous
		}
		slices.Reverse(back)
		if last := len(pages[len(pages)-1].Entries); !slices.Equal(back, want[:len(want)-last]) {
			t.Fatalf("backwards %v, want %v", back, want[:len(want)-last])
		}
	})
}

func TestFacetsCountUnderTheRestOfAQuery(t *testing.T) {
	entries := catalogtest.Entries(300, 4)
	x := indexOf(entries)
	since := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	count := func(q catalog.Query) (n int) {
		for i := range entries {
			if matches(&entries[i], &q) {
				n++
			}
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuery(t)
		f := x.Facets(q, since)
		if want := count(q); f.Total != want {
			t.Fatalf("%d match, want %d", f.Total, want)
		}
		for _, of := range []struct {
			list []catalog.Facet
			set  func(*catalog.Query, string)
		}{
			{f.Models, func(q *catalog.Query, key string) { q.Model = key }}, {f.Hardware, func(q *catalog.Query, key string) { q.Hardware = key }},
			{f.Engines, func(q *catalog.Query, key string) { q.Engine = key }}, {f.Versions, func(q *catalog.Query, key string) { q.EngineVersion = key }},
			{f.Methods, func(q *catalog.Query, key string) { q.Method = key }}, {f.Modified, func(q *catalog.Query, key string) { q.Modified = key }},
			{f.Levels, func(q *catalog.Query, key string) { q.Level = catalog.Level(key[0] - '0') }},
			{[]catalog.Facet{{N: f.Since[0]}}, func(q *catalog.Query, _ string) { q.After, q.Before = since, time.Time{} }},
		} {
			for _, facet := range of.list {
				other := q
				of.set(&other, facet.Key)
				if want := count(other); facet.N != want {
					t.Fatalf("%+v of %+v: want %d", facet, q, want)
				}
			}
		}
	})
}

func TestAQuantizationIsOneInAnyLetters(t *testing.T) {
	var entries []catalog.Entry
	for i, q := range []string{"fp8", "FP8", "FP8", "AWQ"} {
		e := catalogtest.Entries(1, 6)[0]
		e.ID, e.Quantization, e.Sequence = "01k0000000000000000000000"+string(rune('0'+i)), q, int64(i+1)
		entries = append(entries, e)
	}
	x := indexOf(entries)
	if got := x.Facets(catalog.Query{}).Quantizations; len(got) != 2 || got[0] != (catalog.Facet{Key: "fp8", Name: "FP8", N: 3}) {
		t.Errorf("%+v", got)
	}
	page, err := x.Find(catalog.Query{Quantization: "Fp8", All: true})
	if err != nil || page.Total != 3 {
		t.Errorf("%d runs, %v", page.Total, err)
	}
}

func TestACursorStandsWhereItStoodWhenRunsComeBetween(t *testing.T) {
	entries := catalogtest.Entries(200, 5)
	x := indexOf(entries[:150])
	for _, by := range []catalog.Sort{catalog.ByNewest, catalog.ByTotal, catalog.ByUsers} {
		q := catalog.Query{All: true, Sort: by, Context: 16384, Concurrency: 8, Limit: 20}
		first, err := x.Find(q)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := expected(entries[:150], &q)
		for _, e := range entries[150:] {
			x.Apply(e)
		}
		last := first.Entries[len(first.Entries)-1].ID
		x.Apply(catalog.Entry{ID: last, Sequence: x.Sequence() + 1})
		seen := map[string]bool{}
		for q.Cursor = first.Next; q.Cursor != ""; {
			page, err := x.Find(q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				if seen[e.ID] {
					t.Errorf("%s by %s twice", e.ID, by)
				}
				seen[e.ID] = true
			}
			q.Cursor = page.Next
		}
		for i, id := range want {
			if i < 20 == seen[id] {
				t.Errorf("by %s: run %d of the first list seen on later pages: %v", by, i, seen[id])
			}
		}
		x = indexOf(entries[:150])
	}
}

func TestAnIndexGivesEntriesAsTheyWereAndFollowsChanges(t *testing.T) {
	entries := catalogtest.Entries(60, 6)
	entries[3].EventsHash, entries[4].EventsHash, entries[5].DocumentHash = "", strings.Repeat("z", 32), strings.Repeat("A", 64)
	entries[6].Cells, entries[6].Prefill, entries[6].MeasuredAt = nil, nil, time.Time{}
	entries[7].Cells = append(entries[7].Cells, catalog.Cell{Label: "x y", Context: 16384, Concurrency: 8, Status: speedmatrix.StatusFailed, Total: float32(math.NaN()), Half: float32(math.NaN()), PerRequest: float32(math.NaN()), TTFT: 5, Between: float32(math.NaN())})
	x := indexOf(entries)
	same := func(want catalog.Entry) {
		t.Helper()
		got, ok := x.Get(want.ID)
		if !ok {
			t.Fatalf("%s is not there", want.ID)
		}
		if diff := gocmp.Diff(&want, got, unknownsAreEqual, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", want.ID, diff)
		}
	}
	for _, e := range entries {
		same(e)
	}
	if _, err := x.Find(catalog.Query{Sort: catalog.ByTotal, Context: 16384, Concurrency: 8}); err != nil {
		t.Fatal(err) // keeps the order, which the changes below must keep right
	}
	changed, old := entries[10], entries[11]
	changed.Model, changed.ModelKey, changed.Sequence, changed.Version, changed.Cells = "New model", "new-model", 1000, 2, changed.Cells[:8]
	x.Apply(changed)
	same(changed)
	old.Sequence, old.Model = 1, "Older news"
	x.Apply(old)
	same(entries[11])
	x.Apply(catalog.Entry{ID: entries[0].ID, Sequence: 1001})
	x.Apply(catalog.Entry{ID: "never known", Sequence: 1002})
	if _, ok := x.Get(entries[0].ID); ok || x.Len() != 59 || x.Sequence() != 1002 {
		t.Errorf("after a removal: there %v, %d runs, sequence %d", ok, x.Len(), x.Sequence())
	}
	now := slices.Clone(entries[1:])
	now[9] = changed
	for _, q := range []catalog.Query{{All: true, Limit: 100}, {All: true, Limit: 100, Sort: catalog.ByTotal, Context: 16384, Concurrency: 8}} {
		page, err := x.Find(q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.Entries {
			got = append(got, e.ID)
		}
		if want, _ := expected(now, &q); !slices.Equal(got, want) {
			t.Errorf("by %q: got %v, want %v", q.Sort, got, want)
		}
	}
	runs, total := x.ListedRuns(57, 10)
	if total != 59 || len(runs) != 2 || runs[1].ID != entries[59].ID || !runs[1].PublishedAt.Equal(entries[59].PublishedAt) {
		t.Errorf("listed from place 57: %v of %d", runs, total)
	}
}

func TestAnIndexIsReadWhileItIsWritten(t *testing.T) {
	x := indexOf(catalogtest.Entries(500, 7))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 60 {
				q := catalog.Query{Sort: []catalog.Sort{catalog.ByTotal, catalog.ByUsers, catalog.ByPrefill, catalog.ByTTFT}[i], Context: []int{0, 16384, 32768}[j%3], Concurrency: 1 + j}
				if _, err := x.Find(q); err != nil {
					t.Error(err)
				}
				x.Facets(q)
				x.Suggest("qw", 5)
				x.ListedRuns(0, 10)
				if _, err := x.Board(catalog.BoardQuery{Model: "qwen3-8b", Context: 16384, Concurrency: 8}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i, e := range catalogtest.Entries(600, 8) {
		e.Sequence += 1000
		if i%5 == 0 {
			e = catalog.Entry{ID: e.ID, Sequence: e.Sequence}
		}
		x.Apply(e)
	}
	wg.Wait()
	if x.Len() != 480 {
		t.Errorf("%d runs", x.Len())
	}
}

func TestAnIndexFollowsAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, x := catalogtest.NewMemory(), catalog.NewIndex()
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			x.Follow(ctx, store, time.Second, func(err error) { t.Error(err) })
		})
		put := func(r catalog.Record) error {
			_, err := store.Put(ctx, r, catalog.Change{})
			return err
		}
		if err := catalogtest.Fill(put, catalogtest.Entries(20, 9)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		if x.Len() != 20 || x.Sequence() != 20 {
			t.Errorf("after a tick: %d runs, sequence %d", x.Len(), x.Sequence())
		}
		if err := store.Remove(ctx, fmt.Sprintf("01k%023d", 3)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if x.Len() != 19 {
			t.Errorf("after a removal: %d runs", x.Len())
		}
		cancel()
		wg.Wait()
	})
}

func TestAQuestionThatCannotBeAnsweredIsRefused(t *testing.T) {
	x := indexOf(catalogtest.Entries(100, 10))
	page, err := x.Find(catalog.Query{Limit: 10, All: true})
	if err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]catalog.Query{
		"an order by a cell needs its number of requests at once": {Sort: catalog.ByTotal}, `there is no order "fast"`: {Sort: "fast"}, `hardware is stock or modified, not "new"`: {Modified: "new"},
		"a page has 1 to 200 runs": {Limit: 201}, "the cursor is not one of this site's": {Cursor: "!"}, "a cell needs its number of requests at once": {HasCell: true},
		"the cursor is that of a list in another order: begin at the first page": {Sort: catalog.ByPrefill, Cursor: page.Next},
	} {
		if _, err := x.Find(q); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", q, err, want)
		}
	}
}
