package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// inside integrates Student's density from −x to x by Simpson's rule.
func inside(x float64, df int) float64 {
	v := float64(df)
	above, _ := math.Lgamma((v + 1) / 2)
	below, _ := math.Lgamma(v / 2)
	scale := math.Exp(above-below) / math.Sqrt(v*math.Pi)
	density := func(t float64) float64 { return scale * math.Pow(1+t*t/v, -(v+1)/2) }
	const steps = 20000
	h := x / steps
	sum := density(0) + density(x)
	for i := 1; i < steps; i++ {
		sum += density(float64(i)*h) * float64(2+2*(i%2))
	}
	return 2 * sum * h / 3
}

func TestTheTQuantileEncloses95Percent(t *testing.T) {
	for _, df := range []int{1, 2, 3, 5, 7, 10, 15, 20, 25, 29, 30, 31, 32, 40, 63, 100, 1000} {
		if got := inside(TQuantile975(df), df); math.Abs(got-0.95) > 1e-6 {
			t.Errorf("%d degrees of freedom: ±%v encloses %.8f", df, TQuantile975(df), got)
		}
	}
	for df := 1; df < 200; df++ {
		if TQuantile975(df+1) >= TQuantile975(df) {
			t.Errorf("the quantile does not fall from %d to %d degrees of freedom", df, df+1)
		}
	}
	if !math.IsInf(TQuantile975(0), 1) {
		t.Error("no degree of freedom gives a finite quantile")
	}
}

const second = int64(1e9)

func TestASteadyRateHasNoWidth(t *testing.T) {
	var times []int64
	var weights []float64
	for i := int64(1); i <= 320; i++ {
		times, weights = append(times, 1000+i*second/10), append(weights, 3)
	}
	low, high, ok := BatchMeans(times, weights, 1000, 1000+32*second)
	if !ok || math.Abs(low-30) > 1e-9 || math.Abs(high-30) > 1e-9 {
		t.Errorf("[%v, %v] %v, want 30 exactly", low, high, ok)
	}
}

func TestTheWindowIsOpenAtItsStartAndClosedAtItsEnd(t *testing.T) {
	mid := func(times ...int64) float64 {
		weights := make([]float64, len(times))
		for i := range weights {
			weights[i] = 1
		}
		low, high, ok := BatchMeans(times, weights, 0, 32*second)
		if !ok {
			return 0
		}
		return (low + high) / 2 * 32
	}
	for _, c := range []struct {
		times []int64
		want  float64
	}{
		{[]int64{0}, 0}, {[]int64{1}, 1}, {[]int64{32 * second}, 1}, {[]int64{32*second + 1}, 0},
		{[]int64{-5, 0, 5, second, 32 * second, 40 * second}, 3},
	} {
		if got := mid(c.times...); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("events at %v count as %v, want %v", c.times, got, c.want)
		}
	}
	if _, _, ok := BatchMeans([]int64{1}, []float64{1}, 5, 5); ok {
		t.Error("an empty window has a rate")
	}
}

// TestPartsAreHalfOpenToo: one event at each part's end gives 32 equal parts.
func TestPartsAreHalfOpenToo(t *testing.T) {
	const length = 32*second + 7 // no multiple of 32
	var times []int64
	var weights []float64
	for k := int64(1); k <= 32; k++ {
		times, weights = append(times, k*length/32), append(weights, 1)
	}
	low, high, ok := BatchMeans(times, weights, 0, length)
	if !ok || high-low > 1e-12 {
		t.Errorf("[%v, %v] %v: an event at a part's end fell into the next part", low, high, ok)
	}
}

// TestCorrelatedPartsAreMerged compares with the formula written out for a window whose
// first half is twice as fast: the parts stay correlated down to 8.
func TestCorrelatedPartsAreMerged(t *testing.T) {
	var times []int64
	var weights []float64
	for i := range int64(32) {
		weight := 2.0
		if i >= 16 {
			weight = 1
		}
		times, weights = append(times, i*second+second/2), append(weights, weight)
	}
	low, high, ok := BatchMeans(times, weights, 0, 32*second)
	// 8 parts with rates 2 2 2 2 1 1 1 1: mean 1.5, deviation √(8·0.25 ÷ 7).
	half := 2.364624252 * math.Sqrt(8*0.25/7) / math.Sqrt(8)
	if !ok || math.Abs(low-(1.5-half)) > 1e-9 || math.Abs(high-(1.5+half)) > 1e-9 {
		t.Errorf("[%v, %v] %v, want 1.5 ± %v", low, high, ok, half)
	}
}

func TestUncorrelatedPartsStay32(t *testing.T) {
	var times []int64
	var weights []float64
	for i := range int64(32) {
		times, weights = append(times, i*second+1), append(weights, float64(1+i%2))
	}
	low, high, _ := BatchMeans(times, weights, 0, 32*second)
	half := TQuantile975(31) * math.Sqrt(32*0.25/31) / math.Sqrt(32)
	if math.Abs((high-low)/2-half) > 1e-9 {
		t.Errorf("half width %v, want %v", (high-low)/2, half)
	}
}

func TestTheIntervalCoversTheTrueRateOfRandomArrivals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rate, windows = 50.0, 1000
	covered := 0
	for range windows {
		var times []int64
		var weights []float64
		for at := 0.0; at < 30; at += r.ExpFloat64() / rate {
			times, weights = append(times, int64(at*1e9)), append(weights, 1)
		}
		low, high, _ := BatchMeans(times, weights, 0, 30*second)
		if low <= rate && rate <= high {
			covered++
		}
	}
	// 950 ± 4 standard errors (√(1000·0.95·0.05) ≈ 7), a little less for the merging.
	if covered < 915 || covered > 980 {
		t.Errorf("%d of %d intervals cover the true rate", covered, windows)
	}
}

func TestTheIntervalStandsAroundTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(-second, 40*second), 1, 300).Draw(t, "times")
		length := rapid.Int64Range(1, 35*second).Draw(t, "length")
		weights := make([]float64, len(times))
		total := 0.0
		for i, at := range times {
			weights[i] = float64(1 + i%3)
			if at > 0 && at <= length {
				total += weights[i]
			}
		}
		low, high, ok := BatchMeans(times, weights, 0, length)
		if ok != (total > 0) {
			t.Fatalf("ok is %v with %v in the window", ok, total)
		}
		if rate := total / float64(length) * 1e9; ok && (math.Abs((low+high)/2-rate) > 1e-9*rate || low > high) {
			t.Fatalf("[%v, %v] is not around %v", low, high, rate)
		}
	})
}

func TestMeanInterval(t *testing.T) {
	mean, low, high, ok := MeanInterval([]float64{10, 12, 14})
	half := 4.302652730 * 2 / math.Sqrt(3)
	if !ok || mean != 12 || math.Abs(low-(12-half)) > 1e-9 || math.Abs(high-(12+half)) > 1e-9 {
		t.Errorf("%v [%v, %v] %v", mean, low, high, ok)
	}
	if mean, low, high, ok := MeanInterval([]float64{5}); ok || mean != 5 || low != 5 || high != 5 {
		t.Errorf("one sample: %v [%v, %v] %v", mean, low, high, ok)
	}
	if _, _, _, ok := MeanInterval(nil); ok {
		t.Error("no sample has an interval")
	}
}

func TestAutocorrelation(t *testing.T) {
	for _, c := range []struct {
		series []float64
		want   float64
	}{
		{[]float64{1, 1, 1}, 0}, {[]float64{1, -1, 1, -1}, -0.75}, {[]float64{1, 1, -1, -1}, 0.25},
	} {
		if got := Autocorrelation(c.series); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.series, got, c.want)
		}
	}
}
