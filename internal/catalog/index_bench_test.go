package catalog_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

var hundredThousand = sync.OnceValue(func() *catalog.Index {
	x := catalog.NewIndex()
	for e := range catalogtest.Invent(100_000, 1) {
		x.Apply(e)
	}
	return x
})

// questions are what pages and programs ask, each as a page asks it.
func questions(x *catalog.Index) map[string]func() error {
	find := func(q catalog.Query) func() error {
		return func() error { _, err := x.Find(q); return err }
	}
	page, _ := x.Find(catalog.Query{Sort: catalog.ByTotal, Context: 16384, Concurrency: 8})
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	return map[string]func() error{
		"newest":   find(catalog.Query{}),
		"total":    find(catalog.Query{Sort: catalog.ByTotal, Context: 16384, Concurrency: 8}),
		"next":     find(catalog.Query{Sort: catalog.ByTotal, Context: 16384, Concurrency: 8, Cursor: page.Next}),
		"users":    find(catalog.Query{Sort: catalog.ByUsers, Context: 32768}),
		"text":     find(catalog.Query{Text: "qwen 3090 vllm", Sort: catalog.ByPrefill, Context: 16384}),
		"flag":     find(catalog.Query{Text: "--kv-cache-dtype"}),
		"has-cell": find(catalog.Query{Model: "qwen3-8b", HasCell: true, Context: 65536, Concurrency: 16, Sort: catalog.ByPerRequest}),
		"everyone": find(catalog.Query{All: true, Limit: 200}),
		"facets":   func() error { x.Facets(catalog.Query{}, now.AddDate(0, 0, -7), now.AddDate(0, 0, -30)); return nil },
		"facets-of": func() error {
			x.Facets(catalog.Query{Model: "qwen3-8b", Engine: "vllm"}, now.AddDate(0, 0, -7))
			return nil
		},
		"suggest":    func() error { x.Suggest("qw", 10); return nil },
		"models":     func() error { x.Models(); return nil },
		"neighbours": func() error { x.Neighbours(page.Entries[0]); return nil },
		"board": func() error {
			_, err := x.Board(catalog.BoardQuery{Model: "qwen3-8b", Context: 16384, Concurrency: 8})
			return err
		},
	}
}

func BenchmarkIndexOfHundredThousandRuns(b *testing.B) {
	x := hundredThousand()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for name, ask := range questions(x) {
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				if err := ask(); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
		})
	}
}

func BenchmarkApply(b *testing.B) {
	x := hundredThousand()
	for _, ask := range questions(x) {
		if err := ask(); err != nil {
			b.Fatal(err)
		}
	}
	var list []catalog.Entry
	for e := range catalogtest.Invent(1000, 2) {
		list = append(list, e)
	}
	i := int64(0)
	for b.Loop() {
		e := list[i%int64(len(list))]
		i++
		e.Sequence = 1_000_000 + i
		x.Apply(e)
	}
}
