package catalog_test

import (
	"runtime"
	"sync"
	"testing"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

var hundredThousand = sync.OnceValue(func() *catalog.Index {
	x := catalog.NewIndex()
	for _, e := range catalogtest.Entries(100_000, 1) {
		x.Apply(e)
	}
	return x
})

func BenchmarkIndexOfHundredThousandRuns(b *testing.B) {
	x := hundredThousand()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for name, do := range map[string]func() error{
		"newest": func() error { _, err := x.Find(catalog.Query{}); return err },
		"cell": func() error {
			_, err := x.Find(catalog.Query{Sort: catalog.ByTotal, Context: 16384, Concurrency: 8})
			return err
		},
		"users": func() error { _, err := x.Find(catalog.Query{Sort: catalog.ByUsers, Context: 32768}); return err },
		"text": func() error {
			_, err := x.Find(catalog.Query{Text: "qwen 3090", Sort: catalog.ByPrefill, Context: 16384})
			return err
		},
		"facets":   func() error { x.Facets(catalog.Query{Model: "qwen3-8b"}); return nil },
		"suggest":  func() error { x.Suggest("qw", 10); return nil },
		"groups":   func() error { x.Models(); return nil },
		"everyone": func() error { _, err := x.Find(catalog.Query{All: true, Limit: 200}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB")
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
