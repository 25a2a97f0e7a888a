//go:build !race

package main

import (
	"strings"
	"testing"
)

// between demands that a share lies between two bounds.
func between(t *testing.T, what string, n, of int, bounds [2]float64) {
	t.Helper()
	if got := float64(n) / float64(of); got < bounds[0] || got > bounds[1] {
		t.Errorf("%s: %s, want %.1f to %.1f %%", what, share(n, of), 100*bounds[0], 100*bounds[1])
	}
}

func TestIntervalsOfWindowsHoldTheirRunsSpeed(t *testing.T) {
	for _, correlation := range []float64{0, 0.5, 0.9} {
		m := usual
		m.correlation = correlation
		between(t, "intervals that hold the speed", insideWindows(random(1), m, 60), 60*len(shapes()), [2]float64{0.90, 0.98})
	}
}

func TestIntervalsAcrossRepeatsHoldTheTruth(t *testing.T) {
	// Cells of one run share most of its noise, so that 120 runs are few: two standard errors are 4 %.
	between(t, "intervals that hold the truth", acrossRepeats(random(2), usual, 120), 120*len(shapes()), [2]float64{0.91, 0.985})
}

func TestEqualSetUpsAreSeldomCalledDifferent(t *testing.T) {
	f := findings(random(3), usual, 1, 60)
	between(t, "equal set-ups called different", f.any, 60, [2]float64{0, 0.05})
}

func TestAChangeOfTwoPercentIsFound(t *testing.T) {
	f := findings(random(5), usual, 1.02, 30)
	between(t, "comparisons that find it", f.any, 30, [2]float64{0.9, 1})
	between(t, "cells that show it", f.slower, 30*len(shapes()), [2]float64{0.9, 1})
	if f.faster > 0 {
		t.Errorf("%d cells are called faster", f.faster)
	}
}

func TestACellThatIsEqualAmongOthersThatAreNotIsSeldomCalledDifferent(t *testing.T) {
	found, called := allButOne(random(6), usual, 1.02, 60)
	between(t, "the equal cell called different", called, 60, [2]float64{0, 0.05})
	between(t, "cells that show it", found, 60*(len(shapes())-1), [2]float64{0.85, 1})
}

func TestAlternationFindsWhatADriftHides(t *testing.T) {
	const runs = 20
	apart, alternated := withDrift(random(4), runs)
	between(t, "one after the other: not the right answer", apart.wrong+apart.missed, runs, [2]float64{0.2, 1})
	between(t, "in alternation: the right answer", alternated.right, runs, [2]float64{0.95, 1})
}

func TestEverythingIsPrinted(t *testing.T) {
	var out strings.Builder
	print(&out, 1)
	if got := strings.Count(out.String(), "\n"); got != 12 {
		t.Errorf("%d lines:\n%s", got, &out)
	}
}
