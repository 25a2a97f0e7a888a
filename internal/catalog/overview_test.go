package catalog_test

import (
	"math"
	"slices"
	"testing"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
)

// What one walk finds is what looking at every run by itself finds.
func TestOverviewIsOfAllComparableRuns(t *testing.T) {
	entries := catalogtest.Entries(600, 5)
	x := indexOf(entries)
	spot := catalog.Spot{Context: 16384, Concurrency: 8}
	for of, about := range map[catalog.Subject]struct{ own, beside func(*catalog.Entry) string }{
		catalog.OfModels:   {func(e *catalog.Entry) string { return e.ModelKey }, func(e *catalog.Entry) string { return e.HardwareKey }},
		catalog.OfHardware: {func(e *catalog.Entry) string { return e.HardwareKey }, func(e *catalog.Entry) string { return e.ModelKey }},
		catalog.OfEngines:  {func(e *catalog.Entry) string { return catalog.Key(e.Engine) }, func(e *catalog.Entry) string { return e.EngineVersion }},
	} {
		list, total := x.Overview(of, 1000, spot)
		if len(list) != total || total == 0 {
			t.Fatalf("%d: %d of %d groups", of, len(list), total)
		}
		reached := 0
		for _, g := range list {
			want := reckon(entries, spot, func(e *catalog.Entry) bool { return about.own(e) == g.Key }, about.beside)
			if g.Beside != want.beside || !same(g.Reach[0].Least, want.least) || !same(g.Reach[0].Most, want.most) {
				t.Errorf("%d %s: %d beside, %v; want %+v", of, g.Key, g.Beside, g.Reach[0], want)
			}
			if (g.Latest == nil) != (want.latest == nil) || g.Latest != nil && g.Latest.ID != want.latest.ID {
				t.Errorf("%d %s: the latest is %v", of, g.Key, g.Latest)
			}
			if !math.IsNaN(want.most) {
				reached++
			}
		}
		if reached == 0 {
			t.Errorf("%d: no group has a speed", of)
		}
		if first, all := x.Overview(of, 1); len(first) != 1 || all != total || first[0].Key != list[0].Key {
			t.Errorf("%d: the first alone: %v of %d", of, first, all)
		}
	}
}

type reckoned struct {
	beside      int
	least, most float64
	latest      *catalog.Entry
}

func reckon(entries []catalog.Entry, at catalog.Spot, own func(*catalog.Entry) bool, beside func(*catalog.Entry) string) reckoned {
	r := reckoned{least: math.NaN(), most: math.NaN()}
	var others []string
	for i := range entries {
		e := &entries[i]
		if e.Visibility != catalog.Public || !own(e) || e.Incomparable() != "" {
			continue
		}
		if b := beside(e); b != "" && !slices.Contains(others, b) {
			others = append(others, b)
		}
		if r.latest == nil || e.MeasuredAt.After(r.latest.MeasuredAt) {
			r.latest = e
		}
		for _, c := range e.Cells {
			if c.Context != at.Context || c.Concurrency != at.Concurrency || !c.Status.ShowsSpeed() || math.IsNaN(float64(c.Total)) {
				continue
			}
			v := float64(c.Total)
			if math.IsNaN(r.least) {
				r.least, r.most = v, v
			}
			r.least, r.most = min(r.least, v), max(r.most, v)
		}
	}
	r.beside = len(others)
	return r
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
