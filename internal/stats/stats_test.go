package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func series(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64((i*7)%n + 1) // 1 … n, mixed up, for n no multiple of 7
	}
	return values
}

func TestPercentilesNeedEnoughSamples(t *testing.T) {
	for _, c := range []struct{ n, p50, p90, p95, p99 int }{
		{0, 0, 0, 0, 0}, {1, 1, 0, 0, 0}, {9, 1, 0, 0, 0}, {10, 1, 1, 0, 0}, {19, 1, 1, 0, 0},
		{20, 1, 1, 1, 0}, {99, 1, 1, 1, 0}, {100, 1, 1, 1, 1},
	} {
		s := Summarize(series(c.n))
		given := func(v *float64) int {
			if v == nil {
				return 0
			}
			return 1
		}
		got := struct{ n, p50, p90, p95, p99 int }{s.N, given(s.P50), given(s.P90), given(s.P95), given(s.P99)}
		if got != c {
			t.Errorf("given with %d samples: %+v, want %+v", c.n, got, c)
		}
		if given(s.Min) != c.p50 || given(s.Max) != c.p50 || given(s.Mean) != c.p50 {
			t.Errorf("min, max and mean of %d samples are not given as the median is", c.n)
		}
	}
}

func TestQuantilesAreLinearBetweenOrderStatistics(t *testing.T) {
	s := Summarize(series(101))
	for name, c := range map[string][2]float64{
		"p50": {*s.P50, 51}, "p90": {*s.P90, 91}, "p95": {*s.P95, 96}, "p99": {*s.P99, 100},
		"min": {*s.Min, 1}, "max": {*s.Max, 101}, "mean": {*s.Mean, 51},
		"even median":       {Median([]float64{4, 1, 3, 2}), 2.5},
		"between two":       {Quantile([]float64{10, 20}, 0.9), 19},
		"p of one":          {Quantile([]float64{7}, 0.99), 7},
		"p beyond the ends": {Quantile([]float64{1, 2}, 1.5), 2},
		"p below the ends":  {Quantile([]float64{1, 2}, -1), 1},
	} {
		if math.Abs(c[0]-c[1]) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, c[0], c[1])
		}
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(Quantile(nil, 0.5)) || !math.IsNaN(Mean(nil)) {
		t.Error("statistics of nothing are numbers")
	}
}

func TestSummariesHoldForAnySamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 150).Draw(t, "values")
		before := slices.Clone(values)
		s := Summarize(values)
		if !slices.Equal(before, values) {
			t.Fatal("the samples were changed")
		}
		last := *s.Min
		for _, p := range []*float64{s.P50, s.P90, s.P95, s.P99, s.Max} {
			if p != nil && *p < last {
				t.Fatalf("percentiles fall: %v after %v", *p, last)
			}
			if p != nil {
				last = *p
			}
		}
		if slack := 1e-6 + 1e-9*math.Abs(*s.Max); *s.Mean < *s.Min-slack || *s.Mean > *s.Max+slack {
			t.Fatalf("mean %v outside [%v, %v]", *s.Mean, *s.Min, *s.Max)
		}
	})
}

func TestEqualSamplesHaveThatMeanAndNoDeviation(t *testing.T) {
	values := slices.Repeat([]float64{0.1}, 7)
	if Mean(values) != 0.1 || Deviation(values) != 0 {
		t.Errorf("mean %v, deviation %v", Mean(values), Deviation(values))
	}
	if got := Deviation([]float64{1, 2, 3, 4}); math.Abs(got-math.Sqrt(5.0/3)) > 1e-12 {
		t.Errorf("deviation of 1 … 4 is %v", got)
	}
	if Deviation([]float64{5}) != 0 {
		t.Error("one sample deviates")
	}
}
