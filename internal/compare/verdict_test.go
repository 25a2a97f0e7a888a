package compare

import (
	"strings"
	"testing"

	"speedmatrix"
)

// matrixOf is a run of cells at context 0 with these speeds.
func matrixOf(id string, totals ...float64) *speedmatrix.Run {
	run := document(id)
	for i, v := range totals {
		run.Cells = append(run.Cells, decode(0, i+1, v))
	}
	return run
}

func TestVerdictsInWords(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b *speedmatrix.Run
		o    Options
		want string
	}{
		{"none differs", matrixOf("a", 100, 200), matrixOf("b", 101, 199), Options{},
			"Total tok/s: B is not found to differ in any of 2 cells. Over all of them +0.2 %. Not tested: measured once each."},
		{"one cell", matrixOf("a", 100), matrixOf("b", 50), Options{}, "Total tok/s: B is slower in the one cell (−50.0 %). Not tested: measured once each."},
		{"both ways", matrixOf("a", 100, 100, 100, 100), matrixOf("b", 110, 90, 80, 100), Options{},
			"Total tok/s: B is slower in 2 of 4 cells (−10.0 % to −20.0 %), faster in 1 (+10.0 %), with no difference found in 1. Over all of them −5.7 %. Not tested: measured once each."},
		{"all", matrixOf("a", 100, 100), matrixOf("b", 110, 120), Options{},
			"Total tok/s: B is faster in both cells (+10.0 % to +20.0 %). Over all of them +14.9 %. Not tested: measured once each."},
		{"tested", matrixOf("a", 100, 100), matrixOf("b", 110, 120), Options{Noise: 0.01},
			"Total tok/s: B is faster in both cells (+10.0 % to +20.0 %). Over all of them +14.9 % (+11.8 % to +18.1 %). A change of 5.1 % in one cell would be found in 9 of 10 cases."},
		{"repeats of one cell", runOf("a", 100, 101, 100), runOf("b", 120, 121, 120), Options{},
			"Total tok/s: B is faster in the one cell (+19.9 %). A change of 1.9 % in one cell would be found in 9 of 10 cases."},
	} {
		p := ofRuns(t, c.o, c.a, c.b).Pairs[0]
		if got := the(t, &p, Total).Sentence; got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestEverySideIsComparedWithTheFirst(t *testing.T) {
	c := ofRuns(t, Options{}, matrixOf("a", 100), matrixOf("b", 110), matrixOf("c", 90))
	if len(c.Pairs) != 2 || c.Pairs[0].To != "B" || c.Pairs[1].From != "A" || c.Pairs[1].To != "C" {
		t.Fatalf("%+v", c.Pairs)
	}
	if got := c.Pairs[1].Cells[0].Differences[Total].Change; !near(got, -0.1) {
		t.Errorf("C against A: %v", got)
	}
	if SideName(25) != "Z" || SideName(26) != "27" {
		t.Error("names of many sides")
	}
}

func TestASideKnowsItsNoiseItsDriftAndItsOutliers(t *testing.T) {
	c := ofRuns(t, Options{}, runOf("a", 100, 101, 99.5, 100.5, 80, 100), runOf("b", 100, 98, 96, 94.1, 92))
	a, b := c.Sides[0], c.Sides[1]
	if len(a.Outliers) != 1 || a.Outliers[0].Repeat != 5 || a.Outliers[0].Value != 80 || a.Outliers[0].Median != 100 || a.Outliers[0].Run != "a" {
		t.Errorf("outliers of A: %+v", a.Outliers)
	}
	if a.Trend != nil || len(b.Outliers) != 0 {
		t.Errorf("A drifts by %+v, B has outliers %+v", a.Trend, b.Outliers)
	}
	if b.Trend == nil || b.Trend.Change > -0.018 || b.Trend.Change < -0.023 {
		t.Errorf("B drifts by %+v", b.Trend)
	}
	if a.Noise == nil || *a.Noise < 0.08 || *a.Noise > 0.1 {
		t.Errorf("noise of A: %v", *a.Noise)
	}
	if d := total(c); d.NFrom != 6 {
		t.Errorf("the outlier was left out: %+v", d)
	}
	if quiet := ofRuns(t, Options{}, runOf("a", 100), runOf("b", 100)); quiet.Sides[0].Noise != nil {
		t.Error("one measurement has a noise")
	}
	// An outlier in so little noise that nobody would care has no name.
	if c := ofRuns(t, Options{}, runOf("a", 100, 100, 100.001, 100, 100.3, 100), runOf("b", 1)); len(c.Sides[0].Outliers) != 0 {
		t.Errorf("%+v", c.Sides[0].Outliers)
	}
}

func TestTooFewSides(t *testing.T) {
	_, err := New([]Input{{Runs: []*speedmatrix.Run{document("a")}}}, Options{})
	refused(t, err)
	_, err = New([]Input{{Runs: []*speedmatrix.Run{document("a")}}, {}}, Options{})
	refused(t, err)
}

func TestDriftOfTheFirstCellIsTheRuns(t *testing.T) {
	a := matrixOf("a", 100)
	a.Drift = &speedmatrix.Drift{Change: new(-0.03)}
	if got := ofRuns(t, Options{}, a, matrixOf("b", 1)).Sides[0].Drift; got == nil || *got != -0.03 {
		t.Errorf("drift %v", got)
	}
}

func TestLimits(t *testing.T) {
	a, b := document("a"), document("b")
	for i, totals := range [][2]float64{{100, 96}, {200, 201}, {300, 300}} {
		x, y := decode(16<<10, 1<<i, totals[0]), decode(16<<10, 1<<i, totals[1])
		a.Cells, b.Cells = append(a.Cells, x), append(b.Cells, y)
	}
	for _, c := range []struct {
		limit string
		noise float64
		want  []string
	}{
		{"total < -2%", 0, []string{"total < -2%: decode 16K × 1 is −4.0 %, measured once each and without an interval"}},
		{"total < -5 %", 0, nil},
		{"total<-2% @16K x1", 0, []string{"total<-2% @16K x1: decode 16K × 1 is −4.0 %, measured once each and without an interval"}},
		{"total < -2% @16384 x2", 0, nil},
		{"total > 0.1%", 0, []string{"total > 0.1%: decode 16K × 2 is +0.5 %, measured once each and without an interval"}},
		{"total < −0.02", 0, []string{"total < −0.02: decode 16K × 1 is −4.0 %, measured once each and without an interval"}},
		{"total < -2%", 0.01, nil}, // −4.0 % ± 2.8 % is not all below −2 %
		{"total < -2%", 0.003, []string{"total < -2%: decode 16K × 1 is −4.0 % (−4.8 % to −3.2 %)"}},
		{"time-between-tokens > 3%", 0, []string{"time-between-tokens > 3%: decode 16K × 1 is +4.2 %, measured once each and without an interval"}},
		{"ttft > 5%", 0, nil},
	} {
		l, err := ParseLimit(c.limit)
		if err != nil {
			t.Errorf("%s: %v", c.limit, err)
			continue
		}
		found, err := ofRuns(t, Options{Noise: c.noise}, a, b).Check([]Limit{l})
		var got []string
		for _, x := range found {
			got = append(got, x.Sentence)
		}
		if err != nil || strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s with %v: %q, %v; want %q", c.limit, c.noise, got, err, c.want)
		}
	}
}

func TestALostCellBreaksALimit(t *testing.T) {
	limit, err := ParseLimit("total < -50%")
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[speedmatrix.Status]int{speedmatrix.StatusFailed: 1, speedmatrix.StatusOverCapacity: 1, speedmatrix.StatusSkipped: 0, speedmatrix.StatusInterrupted: 0} {
		a, b := matrixOf("a", 100, 200), matrixOf("b", 100, 200)
		b.Cells[1].Status = status
		found, err := ofRuns(t, Options{}, a, b).Check([]Limit{limit})
		if err != nil || len(found) != want {
			t.Errorf("%s: %+v, %v", status, found, err)
		}
	}
	nowhere, err := ParseLimit("total < -2% @64K")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ofRuns(t, Options{}, matrixOf("a", 1), matrixOf("b", 1)).Check([]Limit{nowhere})
	if e := refused(t, err); !strings.Contains(e.What, "no cell that it is about has total tok/s in both A and B") {
		t.Errorf("%s", e.What)
	}
}

func TestWhatIsNoLimit(t *testing.T) {
	for text, want := range map[string]string{
		"": "is no limit", "total": "is no limit", "total <": "is no limit", "total = 2%": "is no limit", "speed < -2%": `no number "speed"`,
		"total < 1.2.3%": "is no share", "total < -2% @x": "is no limit", "total < -100%": "nothing can fall", "total < -2% @16K x8 y": "is no limit",
	} {
		if _, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
