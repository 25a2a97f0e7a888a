package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestWelchByAKnownExample(t *testing.T) {
	// Worked out by hand: means 20 and 24, variances of the means 2.5 ÷ 5 and 10 ÷ 5.
	e, ok := Welch([]float64{18, 19, 20, 21, 22}, []float64{20, 22, 24, 26, 28})
	if !ok || e.Value != 4 || !near(e.Error, math.Sqrt(2.5)) || !near(e.DF, 6.25/(0.25/4+4.0/4)) {
		t.Fatalf("%+v %v", e, ok)
	}
	low, high := e.Interval95()
	half := e.quantile(0.975) * math.Sqrt(2.5)
	if !near(low, 4-half) || !near(high, 4+half) {
		t.Errorf("[%v, %v], want 4 ± %v", low, high, half)
	}
	if inside := inside(e.Value/e.Error, 6) - (1 - e.P(0)); math.Abs(inside) > 0.01 {
		t.Errorf("P is %v, %v off six degrees of freedom", e.P(0), inside)
	}
	if _, ok := Welch([]float64{1}, []float64{1, 2}); ok {
		t.Error("one value has a variance")
	}
}

func TestAnIntervalEndsWhereTheProbabilityIsOneInTwenty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Estimate{Value: rapid.Float64Range(-5, 5).Draw(t, "value"), Error: rapid.Float64Range(0.01, 3).Draw(t, "error"),
			DF: rapid.SampledFrom([]float64{1, 2.5, 8, 40, math.Inf(1)}).Draw(t, "df")}
		low, high := e.Interval95()
		if math.Abs(e.P(low)-0.05) > 1e-6 || math.Abs(e.P(high)-0.05) > 1e-6 {
			t.Fatalf("at the ends: %v and %v", e.P(low), e.P(high))
		}
	})
}

func TestWithoutNoiseEveryDifferenceIsOne(t *testing.T) {
	e, ok := Welch([]float64{2, 2}, []float64{3, 3})
	low, high := e.Interval95()
	if !ok || low != 1 || high != 1 || e.P(0) != 0 || e.P(1) != 1 || e.Detectable(5) != 0 {
		t.Errorf("%+v: [%v, %v], P %v and %v", e, low, high, e.P(0), e.P(1))
	}
}

func TestPairedAndOneMore(t *testing.T) {
	e, ok := MeanOf([]float64{1, 2, 3, 6})
	if !ok || e.Value != 3 || !near(e.Error, math.Sqrt(14.0/3/4)) || e.DF != 3 {
		t.Errorf("mean: %+v %v", e, ok)
	}
	e, ok = OneMore([]float64{1, 2, 3}, 5)
	if !ok || e.Value != 3 || !near(e.Error, math.Sqrt(4.0/3)) || e.DF != 2 {
		t.Errorf("one more: %+v %v", e, ok)
	}
	if _, ok := MeanOf([]float64{1}); ok {
		t.Error("one value has an error")
	}
	if _, ok := OneMore([]float64{1}, 2); ok {
		t.Error("one other has a variance")
	}
}

func TestSlope(t *testing.T) {
	e, ok := Slope([]float64{1, 3, 5, 7})
	if !ok || !near(e.Value, 2) || e.Error > 1e-9 || e.DF != 2 {
		t.Errorf("a straight line: %+v %v", e, ok)
	}
	// Residuals of 0, 3, 0 about 1 + 0·x: −1, 2, −1; Σ = 6, one degree of freedom, Σ(x − 1)² = 2.
	e, ok = Slope([]float64{0, 3, 0})
	if !ok || !near(e.Value, 0) || !near(e.Error, math.Sqrt(3)) || e.DF != 1 {
		t.Errorf("a tip: %+v %v", e, ok)
	}
	if _, ok := Slope([]float64{1, 2}); ok {
		t.Error("two values have a slope with an error")
	}
}

func TestHochbergByAKnownExample(t *testing.T) {
	got := Hochberg([]float64{0.01, 0.04, math.NaN(), 0.03, 0.005})
	want := []float64{0.03, 0.04, math.NaN(), 0.04, 0.02}
	for i := range want {
		if math.IsNaN(want[i]) != math.IsNaN(got[i]) || !math.IsNaN(want[i]) && !near(got[i], want[i]) {
			t.Errorf("%v, want %v", got, want)
			break
		}
	}
	if len(Hochberg(nil)) != 0 {
		t.Error("nothing becomes something")
	}
}

func TestHochbergKeepsTheOrderAndNeverLowers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "p")
		got := Hochberg(p)
		for i := range p {
			// Bonferroni bounds it from above, the largest probability of all, too.
			if got[i] < p[i] || got[i] > min(1, p[i]*float64(len(p)))+1e-12 || got[i] > slices.Max(p) {
				t.Fatalf("%v became %v", p[i], got[i])
			}
			for j := range p {
				if p[i] < p[j] && got[i] > got[j] {
					t.Fatalf("%v, %v became %v, %v", p[i], p[j], got[i], got[j])
				}
			}
		}
	})
}

func TestAnOutlierIsNamed(t *testing.T) {
	for _, c := range []struct {
		values []float64
		index  int
		ok     bool
	}{
		{[]float64{100, 101, 99, 100.5, 80, 100}, 4, true},
		{[]float64{100, 101, 99, 100.5, 102, 100}, 0, false},
		{[]float64{1, 1, 1, 1}, 0, false}, {[]float64{1, 9}, 0, false}, {nil, 0, false},
	} {
		if i, ok := Outlier(c.values, 0.05); ok != c.ok || ok && i != c.index {
			t.Errorf("%v: %d %v", c.values, i, ok)
		}
	}
}

func TestOutliersAreRareInPlainNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	named := 0
	for range 4000 {
		values := make([]float64, 5)
		for i := range values {
			values[i] = r.NormFloat64()
		}
		if _, ok := Outlier(values, 0.05); ok {
			named++
		}
	}
	// 200 ± 4 standard errors (√(4000 · 0.05 · 0.95) ≈ 14).
	if named < 144 || named > 256 {
		t.Errorf("an outlier in %d of 4000 samples of noise, want about 200", named)
	}
}

// TestWhatIsDetectableIsDetected: a difference of that size is found in about 9 of 10 cases.
func TestWhatIsDetectableIsDetected(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{3, 5, 10} {
		const tests, tries, noise = 19, 3000, 0.005
		difference := DetectableWith(n, tests, noise)
		found := 0
		for range tries {
			a, b := make([]float64, n), make([]float64, n)
			for i := range n {
				a[i], b[i] = noise*r.NormFloat64(), difference+noise*r.NormFloat64()
			}
			if e, ok := Welch(a, b); ok && e.P(0)*tests < 0.05 {
				found++
			}
		}
		if share := float64(found) / tries; share < 0.8 || share > 0.95 {
			t.Errorf("%d repeats: a difference of %.2f %% is found in %.0f %%", n, difference*100, share*100)
		}
	}
}

func TestMoreRepeatsShowSmallerDifferences(t *testing.T) {
	var sizes []float64
	for n := 2; n < 12; n++ {
		sizes = append(sizes, DetectableWith(n, 19, 0.005))
	}
	if !slices.IsSortedFunc(sizes, func(a, b float64) int { return -int(math.Copysign(1, a-b)) }) {
		t.Errorf("%v", sizes)
	}
	if pairs, groups := DetectableInPairs(6, 19, 0.005), DetectableWith(6, 19, 0.005); pairs <= groups {
		t.Errorf("pairs without common noise show %v, groups %v, although their error is known less well", pairs, groups)
	}
	if one := DetectableWith(1, 1, 0.01); !near(one, (1.959963984540054+1.2815515655446004)*0.01*math.Sqrt2) {
		t.Errorf("one run each, known noise: %v", one)
	}
}
