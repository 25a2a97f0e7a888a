package compare

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/stats"
)

// total is the difference in total tok/s of the first cell.
func total(c *Comparison) *Difference { return c.Pairs[0].Cells[0].Differences[Total] }

func TestRepeatsAreComparedByWelchOnLogarithms(t *testing.T) {
	c := ofRuns(t, Options{}, runOf("a", 100, 102, 98), runOf("b", 110, 111, 109))
	d := total(c)
	log := func(values ...float64) (logs []float64) {
		for _, v := range values {
			logs = append(logs, math.Log(v))
		}
		return logs
	}
	e, _ := stats.Welch(log(100, 102, 98), log(110, 111, 109))
	low, high := e.Interval95()
	if d.Basis != BasisRepeats || !near(d.Change, math.Expm1(e.Value)) || !near(*d.Low, math.Expm1(low)) || !near(*d.High, math.Expm1(high)) || !near(*d.P, e.P(0)) {
		t.Errorf("%+v", d)
	}
	if d.NFrom != 3 || d.NTo != 3 || d.Judgement != Faster || !d.Significant() {
		t.Errorf("%+v", d)
	}
	if !near(d.From, math.Cbrt(100*102*98)) {
		t.Errorf("the mean of A is %v", d.From)
	}
}

func TestSeveralRunsOfASideAreItsRepeats(t *testing.T) {
	inputs := []Input{{Runs: []*speedmatrix.Run{runOf("a1", 100), runOf("a2", 102), runOf("a3", 98)}}, {Runs: []*speedmatrix.Run{runOf("b", 110, 111, 109)}}}
	c, err := New(inputs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := total(ofRuns(t, Options{}, runOf("a", 100, 102, 98), runOf("b", 110, 111, 109))); *total(c).P != *want.P || total(c).Basis != BasisRepeats {
		t.Errorf("%+v, want %+v", total(c), want)
	}
	if c.Sides[0].Measurements != 3 || len(c.Sides[0].IDs) != 3 {
		t.Errorf("%+v", c.Sides[0])
	}
}

func TestTheBasisIsTheBestThereIs(t *testing.T) {
	once := runOf("once", 110)
	inside := runOf("inside", 100)
	inside.Cells[0].Interval95 = &speedmatrix.Interval{Low: 98.04, High: 101.96}
	more := runOf("more", 104)
	more.Cells[0].Interval95 = &speedmatrix.Interval{Low: 102.96, High: 105.04}
	thrice := runOf("thrice", 100, 101, 102)
	for _, c := range []struct {
		name   string
		a, b   *speedmatrix.Run
		o      Options
		basis  Basis
		judged Judgement
		tested bool
	}{
		{"once each", runOf("x", 100), once, Options{}, BasisNone, Faster, false},
		{"once each, near", runOf("x", 109), once, Options{}, BasisNone, Same, false},
		{"windows", inside, more, Options{}, BasisWindows, Faster, false},
		{"one window alone", inside, once, Options{}, BasisNone, Faster, false},
		{"stated noise", inside, more, Options{Noise: 0.02}, BasisStated, Same, true},
		{"little stated noise", inside, more, Options{Noise: 0.001}, BasisStated, Faster, true},
		{"one side's repeats", thrice, runOf("x", 120), Options{}, BasisOneSide, Faster, true},
		{"the other side's", runOf("x", 120), thrice, Options{}, BasisOneSide, Slower, true},
		{"pairs", runOf("a", 100, 80, 120), runOf("b", 101, 80.9, 121.1), Options{Paired: true}, BasisPairs, Faster, true},
		{"the same unpaired", runOf("a", 100, 80, 120), runOf("b", 101, 80.9, 121.1), Options{}, BasisRepeats, Same, true},
	} {
		d := total(ofRuns(t, c.o, c.a, c.b))
		if d.Basis != c.basis || d.Judgement != c.judged || d.Basis.Tested() != c.tested {
			t.Errorf("%s: %s, %s, tested %v; want %s, %s, %v", c.name, d.Basis, d.Judgement, d.Basis.Tested(), c.basis, c.judged, c.tested)
		}
		if (d.Low == nil) != (c.basis == BasisNone) {
			t.Errorf("%s: interval from %v", c.name, d.Low)
		}
	}
}

func TestRunsMeasuredInAlternationArePairedByRound(t *testing.T) {
	a, b := runOf("a", 100, 80, 120), runOf("b", 101, 80.9, 121.1)
	a.Interleaved, b.Interleaved = &speedmatrix.Interleaved{With: "b", Side: "A"}, &speedmatrix.Interleaved{With: "a", Side: "B"}
	if c := ofRuns(t, Options{}, a, b); !c.Pairs[0].Paired || total(c).Basis != BasisPairs {
		t.Errorf("%+v", total(c))
	}
	b.Repeats[0].Cells[0].Status = speedmatrix.StatusFailed
	if d := total(ofRuns(t, Options{}, a, b)); d.NFrom != 2 || d.NTo != 2 {
		t.Errorf("a round that one side lacks is not left out: %+v", d)
	}
	b.Interleaved.With = "another"
	if c := ofRuns(t, Options{}, a, b); c.Pairs[0].Paired {
		t.Error("runs that were not measured together are paired")
	}
}

func TestLessTimeIsFaster(t *testing.T) {
	a, b := runOf("a", 100, 100.1), runOf("b", 120, 120.1)
	p := &ofRuns(t, Options{}, a, b).Pairs[0]
	between := p.Cells[0].Differences[TimeBetweenTokens]
	if between.Change >= 0 || between.Judgement != Faster || the(t, p, TimeBetweenTokens).Faster != 1 {
		t.Errorf("%+v", between)
	}
}

func TestKindsOfTTFTAreNotCompared(t *testing.T) {
	a, b := runOf("a", 100), runOf("b", 100)
	b.Cells[0].TTFTKind = speedmatrix.TTFTWarm
	cell := ofRuns(t, Options{}, a, b).Pairs[0].Cells[0]
	if cell.Differences[TTFT] != nil || len(cell.Notes) != 1 || !strings.Contains(cell.Notes[0], "cold on one side and warm") {
		t.Errorf("%+v", cell)
	}
}

func TestACellWithoutASpeedHasNoDifference(t *testing.T) {
	a, b := runOf("a", 100), runOf("b", 100)
	b.Cells[0].Status, b.Cells[0].Reason = speedmatrix.StatusLooped, "again and again"
	b.Cells = append(b.Cells, decode(0, 2, 180))
	p := ofRuns(t, Options{}, a, b).Pairs[0]
	if len(p.Cells) != 2 || len(p.Cells[0].Differences) != 0 || len(p.Verdicts) != 0 {
		t.Fatalf("%+v", p)
	}
	if s := p.Cells[0].To; s.Status != speedmatrix.StatusLooped || s.Reason != "again and again" || s.Shown != 0 || s.Measured != 1 {
		t.Errorf("%+v", s)
	}
	if s := p.Cells[1].From; s.Status != "" || s.Measured != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBackwardsIsTheInverse: B against A says the opposite of A against B.
func TestBackwardsIsTheInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(50, 200), 1, 5)
		a, b := runOf("a", values.Draw(t, "a")...), runOf("b", values.Draw(t, "b")...)
		there, back := both(t, a, b), both(t, b, a)
		if !near((1+there.Change)*(1+back.Change), 1) || there.Basis != back.Basis {
			t.Fatalf("%+v and %+v", there, back)
		}
		if there.Low != nil && (!near((1+*there.Low)*(1+*back.High), 1) || !near(*there.P, *back.P)) {
			t.Fatalf("%+v and %+v", there, back)
		}
		if (there.Judgement == Same) != (back.Judgement == Same) && there.Basis != BasisNone || there.Judgement == back.Judgement && there.Judgement != Same {
			t.Fatalf("%s and %s", there.Judgement, back.Judgement)
		}
	})
}

func both(t *rapid.T, a, b *speedmatrix.Run) *Difference {
	c, err := New([]Input{{Runs: []*speedmatrix.Run{a}}, {Runs: []*speedmatrix.Run{b}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return total(c)
}

func TestTheCorrectionIsOverTheCellsAndTheirMean(t *testing.T) {
	a, b := document("a"), document("b")
	for i := range 3 {
		var x, y []speedmatrix.Cell
		for n := range 10 {
			x = append(x, decode(0, 1+n, 100+float64(i)))
			y = append(y, decode(0, 1+n, 100+float64(i)))
		}
		*y[0].TotalTokensPerSecond += 4 // a difference that one cell alone would show
		if i == 0 {
			a.Cells, b.Cells = x, y
			continue
		}
		a.Repeats = append(a.Repeats, speedmatrix.Repeat{Index: i + 1, Cells: x})
		b.Repeats = append(b.Repeats, speedmatrix.Repeat{Index: i + 1, Cells: y})
	}
	p := ofRuns(t, Options{}, a, b).Pairs[0]
	d := p.Cells[0].Differences[Total]
	if *d.P >= Level || !near(*d.Adjusted, min(1, *d.P*20)) || d.Judgement != Same {
		t.Errorf("p %v, corrected %v, %s", *d.P, *d.Adjusted, d.Judgement)
	}
	v := the(t, &p, Total)
	if v.Cells != 10 || v.Same != 10 || v.Overall.Basis != BasisRepeats || v.Detectable == nil {
		t.Errorf("%+v", v)
	}
}
