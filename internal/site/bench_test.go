package site

import (
	"fmt"
	"net/http"
	"testing"

	"speedmatrix/internal/catalog/catalogtest"
)

// BenchmarkRunPage is a run's page that nobody asked for before, and the same again.
func BenchmarkRunPage(b *testing.B) {
	w := newWorld(b)
	id := w.put(seed(b, agentsSeed), ann, nil)
	for name, most := range map[string]int{"first": 0, "again": cachedPages} {
		b.Run(name, func(b *testing.B) {
			w.site.cache = newCache(most)
			for b.Loop() {
				if out := w.get("/runs/" + id); out.Code != http.StatusOK {
					b.Fatal(out.Code)
				}
			}
		})
	}
}

// BenchmarkPagesOfAHundredThousandRuns are pages about a machine, a model and an engine, each made anew.
func BenchmarkPagesOfAHundredThousandRuns(b *testing.B) {
	w := newWorld(b)
	w.invented(1)
	for i, e := range catalogtest.Entries(100_000, 1) {
		e.ID, e.Sequence = fmt.Sprintf("01k%023d", i%1000+1), int64(i+10)
		if i >= 1000 {
			e.ID = fmt.Sprintf("01m%023d", i)
		}
		w.index.Apply(e)
	}
	for _, path := range []string{"/hardware/rtx-3090-24gb", "/models/gpt-oss-20b", "/engines/vllm", "/hardware",
		"/", "/runs", "/runs?model=qwen3-8b&engine=vllm&sort=users&ctx=32K", "/runs?q=qwen+3090", "/runs.json", "/runs.csv", "/runs.atom", "/boards", "/boards/16kx8?model=qwen3-8b", "/search.json?q=qw", "/sitemap.xml", "/sitemap/runs-3.xml"} {
		b.Run(path[1:], func(b *testing.B) {
			for b.Loop() {
				w.site.cache = newCache(0)
				if out := w.get(path); out.Code != http.StatusOK && out.Code != http.StatusNotFound {
					b.Fatal(out.Code)
				}
			}
		})
	}
}
