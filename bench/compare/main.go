// Command compare shows by simulation how far intervals and comparisons can be
// trusted: how often an interval holds the truth, how often two equal set-ups
// are called different, how often a real change is found, and what measuring in
// alternation is worth on a machine that drifts.
//
//	go run ./bench/compare [RUNS]
//
// Steps vary by 2 % within a run, each like the one before it (AR(1), 0.9), and
// by 0.5 % from run to run; the matrix has 19 cells.
package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/stats"
)

func main() {
	runs := 1000
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "compare: %q is no number of runs\n", os.Args[1])
			os.Exit(2)
		}
		runs = n
	}
	print(os.Stdout, runs)
}

// random is the source of experiment n.
func random(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 0x5eed)) }

func print(w io.Writer, runs int) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	say("intervals within one window hold that run's own speed (want 90–98 %%):\n")
	for _, correlation := range []float64{0, 0.5, 0.9, 0.95} {
		m := usual
		m.correlation = correlation
		say("  correlation %.2f: %s\n", correlation, share(insideWindows(random(1), m, runs), runs*len(shapes())))
	}
	say("intervals across 5 repeats hold the truth (want 93–97 %%): %s\n", share(acrossRepeats(random(2), usual, runs), runs*len(shapes())))
	for _, slower := range []float64{1, 1.02} {
		found := findings(random(3), usual, slower, runs)
		say("5 repeats against 5, B %.0f %% slower: a difference is called in %s, slower cells %s, faster cells %d\n",
			(slower-1)*100, share(found.any, runs), share(found.slower, runs*len(shapes())), found.faster)
	}
	found, called := allButOne(random(3), usual, 1.02, runs)
	say("B 2 %% slower in all cells but one: slower cells %s, the equal one is called different in %s (want ≤ 5 %%)\n",
		share(found, runs*(len(shapes())-1)), share(called, runs))
	say("B 1 %% slower on a machine that drifts by ±3 %%, 6 times each:\n")
	apart, alternated := withDrift(random(4), runs)
	say("  one after the other: right %s, wrong way %s, not found %s\n", share(apart.right, runs), share(apart.wrong, runs), share(apart.missed, runs))
	say("  in alternation:      right %s, wrong way %s, not found %s\n", share(alternated.right, runs), share(alternated.wrong, runs), share(alternated.missed, runs))
}

// share writes a part of a whole.
func share(n, of int) string {
	return fmt.Sprintf("%d of %d (%.1f %%)", n, of, 100*float64(n)/float64(of))
}

// insideWindows counts the intervals of windows that hold the speed without the noise inside the window.
func insideWindows(r *rand.Rand, m model, runs int) (held int) {
	for range runs {
		factor := m.factor(r)
		for _, s := range shapes() {
			_, interval := m.window(r, s.step*factor, s.cell.Concurrency)
			truth := float64(s.cell.Concurrency) / (s.step * factor)
			if interval != nil && interval.Low <= truth && truth <= interval.High {
				held++
			}
		}
	}
	return held
}

// acrossRepeats counts the cells whose interval over 5 repeats holds the speed without any noise.
func acrossRepeats(r *rand.Rand, m model, runs int) (held int) {
	for range runs {
		logs := make([][]float64, len(shapes()))
		for range 5 {
			factor := m.factor(r)
			for i, s := range shapes() {
				rate, _ := m.window(r, s.step*factor, s.cell.Concurrency)
				logs[i] = append(logs[i], math.Log(rate))
			}
		}
		for i, s := range shapes() {
			e, _ := stats.MeanOf(logs[i])
			low, high := e.Interval95()
			if truth := math.Log(float64(s.cell.Concurrency) / s.step); low <= truth && truth <= high {
				held++
			}
		}
	}
	return held
}

// found is what comparisons called different.
type found struct {
	// any is the comparisons that called any cell, or all of them together, different.
	any, faster, slower int
}

func findings(r *rand.Rand, m model, slower float64, runs int) (f found) {
	for range runs {
		v := verdict(m.run(r, "a", everywhere(1), 5), m.run(r, "b", everywhere(slower), 5))
		if v.Faster+v.Slower > 0 || v.Overall.Significant() {
			f.any++
		}
		f.faster, f.slower = f.faster+v.Faster, f.slower+v.Slower
	}
	return f
}

// allButOne counts the cells that are found to be slower where all are but the one in the middle, and how often that one
// is called different.
func allButOne(r *rand.Rand, m model, slower float64, runs int) (found, called int) {
	equal := len(shapes()) / 2
	change := func(cell int) float64 {
		if cell == equal {
			return 1
		}
		return slower
	}
	for range runs {
		cells := compared(m.run(r, "a", everywhere(1), 5), m.run(r, "b", change, 5)).Cells
		for i := range cells {
			switch d := cells[i].Differences[compare.Total]; {
			case i == equal && d.Significant():
				called++
			case d.Significant() && d.Judgement == compare.Slower:
				found++
			}
		}
	}
	return found, called
}

// everywhere changes all cells alike.
func everywhere(factor float64) func(cell int) float64 { return func(int) float64 { return factor } }

// compared is the comparison of two runs.
func compared(a, b *speedmatrix.Run) *compare.Pair {
	c, err := compare.New([]compare.Input{{Runs: []*speedmatrix.Run{a}}, {Runs: []*speedmatrix.Run{b}}}, compare.Options{})
	if err != nil {
		panic(err) // both runs were made alike
	}
	return &c.Pairs[0]
}

// verdict is that on total tok/s.
func verdict(a, b *speedmatrix.Run) compare.Verdict {
	for _, v := range compared(a, b).Verdicts {
		if v.Metric == compare.Total {
			return v
		}
	}
	panic("no verdict on total tok/s")
}

// answers are how a question was answered whose answer is known: right, the wrong way round, or not at all.
type answers struct{ right, wrong, missed int }

func (a *answers) count(v compare.Verdict) {
	switch {
	case !v.Overall.Significant():
		a.missed++
	case v.Overall.Judgement == compare.Slower:
		a.right++
	default:
		a.wrong++
	}
}

// withDrift asks whether B is 1 % slower on machines that become 3 % slower or faster over the experiment, as many of
// one kind as of the other.
func withDrift(r *rand.Rand, runs int) (apart, alternated answers) {
	for i := range runs {
		d := &drifting{model: usual, share: 0.03 - 0.06*float64(i%2)}
		apart.count(verdict(d.oneAfterTheOther(r, 1.01, 6)))
		alternated.count(verdict(d.alternating(r, 1.01, 6)))
	}
	return apart, alternated
}
