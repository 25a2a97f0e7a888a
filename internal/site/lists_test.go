package site

import (
	"testing"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

// listWorld is a site with both published runs and the runs of a small site.
func listWorld(t testing.TB) *world {
	w := newWorld(t)
	w.entries(catalogtest.Example())
	for i, name := range []string{agentsSeed, qwenSeed} {
		w.put(seed(t, name), ann, func(rec *catalog.Record) {
			rec.Entry.PublishedAt = noon.AddDate(0, 0, i-2)
			rec.Entry.Modified, rec.Entry.Level = "modified card, unlocked", catalog.Complete
		})
	}
	return w
}
