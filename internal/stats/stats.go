// Package stats holds the few statistics that a run publishes: percentiles that
// refuse to claim what the samples cannot support, the 95 % interval of a rate by
// batch means, the two fits that predict times, and what a difference between samples is
// worth. It is pure: every function depends on its arguments alone and changes none of them.
package stats

import (
	"math"
	"slices"
)

// The least numbers of samples for a percentile to be given.
const (
	minForP90 = 10
	minForP95 = 20
	minForP99 = 100
)

// Summary describes samples in their own unit. A field is nil where the number of
// samples cannot support it: all of them without samples, P90 under 10, P95 under
// 20, P99 under 100.
type Summary struct {
	P50, P90, P95, P99 *float64
	Min, Max, Mean     *float64
	N                  int
}

// Summarize describes values, which must be finite and may come in any order.
func Summarize(values []float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(p float64, least int) *float64 {
		if n < least {
			return nil
		}
		return new(Quantile(sorted, p))
	}
	return Summary{
		P50: at(0.50, 1), P90: at(0.90, minForP90), P95: at(0.95, minForP95), P99: at(0.99, minForP99),
		Min: new(sorted[0]), Max: new(sorted[n-1]), Mean: new(Mean(values)), N: n,
	}
}

// Quantile gives the p-quantile (0 ≤ p ≤ 1) of values in rising order, linear between
// order statistics: position (n − 1)·p. It is NaN without values.
func Quantile(sorted []float64, p float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	position := float64(n-1) * min(max(p, 0), 1)
	below := min(int(position), n-1)
	above := min(below+1, n-1)
	share := position - float64(below)
	// A weighted sum keeps the result between its neighbours and exact where they are equal.
	if sorted[below] == sorted[above] {
		return sorted[below]
	}
	return sorted[below]*(1-share) + sorted[above]*share
}

// Median is the 0.5-quantile of values in any order; NaN without values.
func Median(values []float64) float64 {
	return Quantile(slices.Sorted(slices.Values(values)), 0.5)
}

// Mean is the arithmetic mean; NaN without values.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	// Relative to the first value, so that equal values give exactly that value.
	var sum float64
	for _, v := range values {
		sum += v - values[0]
	}
	return values[0] + sum/float64(len(values))
}

// Deviation is the sample standard deviation (n − 1); 0 under two values.
func Deviation(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	mean := Mean(values)
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(values)-1))
}
