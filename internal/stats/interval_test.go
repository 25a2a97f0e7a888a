package stats

import (
	"math"
	"math/rand/v2"
	"slices"
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
	for df := 1; df < 40; df++ {
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
	const length = 32 * second
	even := func(yield func(int64) bool) {
		for i := int64(1); i < 32 && yield(i*second); i++ {
		}
	}
	for _, c := range []struct {
		more []int64
		want float64
	}{
		{nil, 31}, {[]int64{0, -5}, 31}, {[]int64{1}, 32}, {[]int64{length}, 32}, {[]int64{length + 1}, 31},
		{[]int64{-5, 0, 5, length, 40 * second}, 33},
	} {
		times := slices.AppendSeq(slices.Clone(c.more), even)
		low, high, ok := BatchMeans(times, slices.Repeat([]float64{1}, len(times)), 0, length)
		if got := (low + high) / 2 * 32; !ok || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("events at %v besides one a second count as %v, want %v", c.more, got, c.want)
		}
	}
	if _, _, ok := BatchMeans([]int64{1}, []float64{1}, 5, 5); ok {
		t.Error("an empty window has a rate")
	}
}

// TestPartsEndAtArrivals: steps that take the same time have no noise, wherever the parts of the window would end.
func TestPartsEndAtArrivals(t *testing.T) {
	for _, steps := range []int64{33, 64, 500, 1001} {
		var times []int64
		var weights []float64
		for k := range steps {
			for stream := range int64(3) {
				times, weights = append(times, (k+1)*20_000_000+stream*1000), append(weights, 1)
			}
		}
		// The window of a cell: from an arrival, excluded, to an arrival, included.
		from, to := int64(20_000_000), steps*20_000_000
		low, high, ok := BatchMeans(times, weights, from, to)
		if !ok || math.Abs(low-150) > 1e-9 || math.Abs(high-150) > 1e-9 {
			t.Errorf("%d steps: [%v, %v] %v, want 150 exactly", steps, low, high, ok)
		}
	}
}

// withoutLine is what a line through values by their places leaves of them.
func withoutLine(values []float64) []float64 {
	places := make([]float64, len(values))
	for i := range places {
		places[i] = float64(i)
	}
	slope, intercept, _ := Line(places, values)
	left := make([]float64, len(values))
	for i, v := range values {
		left[i] = v - intercept - slope*places[i]
	}
	return left
}

// everySecond gives weights that arrive one a second, and the interval of their rate.
func everySecond(weights ...float64) (low, high float64, ok bool) {
	times := make([]int64, len(weights))
	for i := range times {
		times[i] = int64(i+1) * second
	}
	return BatchMeans(times, weights, 0, int64(len(weights))*second)
}

func squaresOf(values []float64) (sum float64) {
	for _, v := range values {
		sum += v * v
	}
	return sum
}

func TestASteadyChangeIsNoNoise(t *testing.T) {
	var weights []float64
	for i := range 32 {
		weights = append(weights, 100-float64(i))
	}
	low, high, ok := everySecond(weights...)
	if !ok || math.Abs(low-84.5) > 1e-9 || math.Abs(high-84.5) > 1e-9 {
		t.Errorf("[%v, %v] %v, want 84.5 exactly", low, high, ok)
	}
}

func TestCorrelatedPartsAreMergedAndWhatIsLeftIsCorrectedFor(t *testing.T) {
	var weights, merged []float64
	for i := range 32 {
		weights = append(weights, float64(2+4*(i/8%2)))
		if i%4 == 0 {
			merged = append(merged, 4*float64(2+4*(i/8%2)))
		}
	}
	left := withoutLine(merged)
	r := Autocorrelation(left)
	r += (2 + 4*r) / 8
	if r < 0.1 || r > 0.8 {
		t.Fatalf("the example is none: r is %v", r)
	}
	half := 2.446911851 * math.Sqrt(squaresOf(left)*8/6*(1+r)/(1-r)) / 32
	low, high, ok := everySecond(weights...)
	if !ok || math.Abs(low-(4-half)) > 1e-8 || math.Abs(high-(4+half)) > 1e-8 {
		t.Errorf("[%v, %v] %v, want 4 ± %v", low, high, ok, half)
	}
}

func TestUncorrelatedPartsStay32(t *testing.T) {
	var weights []float64
	for i := range 32 {
		weights = append(weights, float64(1+i%2))
	}
	half := 2.042272456 * math.Sqrt(squaresOf(withoutLine(weights))*32/30) / 32
	low, high, _ := everySecond(weights...)
	if math.Abs((high-low)/2-half) > 1e-8 {
		t.Errorf("half width %v, want %v", (high-low)/2, half)
	}
}

func TestAPauseCountsAsOnePart(t *testing.T) {
	var times []int64
	var weights []float64
	for i := int64(1); i <= 320; i++ {
		if at := i * second / 10; at <= 10*second || at > 20*second {
			times, weights = append(times, at), append(weights, 1)
		}
	}
	low, high, ok := BatchMeans(times, weights, 0, 32*second)
	if !ok || low > 6 || high < 8 {
		t.Errorf("[%v, %v] %v: ten seconds without an arrival are no doubt about the rate of 6.9", low, high, ok)
	}
}

func TestFewerThanThreePartsHaveNoInterval(t *testing.T) {
	if _, _, ok := BatchMeans([]int64{5, 10}, []float64{1, 1}, 0, 10); ok {
		t.Error("two arrivals have an interval")
	}
	if _, _, ok := BatchMeans([]int64{3, 6, 10}, []float64{1, 1, 1}, 0, 10); !ok {
		t.Error("three arrivals have none")
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
		if ok && total == 0 {
			t.Fatal("an interval of nothing")
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
