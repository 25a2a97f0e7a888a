package stats

import (
	"math"
	"slices"
)

// The shape of the batch means: parts at the start and at least, the lag-1
// autocorrelation under which they are merged no further, and the largest one that is
// corrected for.
const (
	batchParts     = 32
	batchPartsLeft = 8
	batchCorrelate = 0.2
	mostCorrelated = 0.8
)

// BatchMeans gives the 95 % interval of a rate, in weight per second. times are
// nanoseconds in any order, weights what came at each of them; those with
// from < time ≤ to count.
//
// The window is cut into 32 parts. The edge between two is the first arrival at or after
// an equal share of the window, so that a part holds whole steps as the window does;
// parts of no length are left out. A part's residual is its weight less the window's rate
// times its length, less a straight line through the residuals: a rate that changes
// steadily over the window is no noise of its mean. Neighbours are merged by twos until
// the residuals' lag-1 autocorrelation is below 0.2 or 8 parts are left.
//
// With r that autocorrelation, its bias of (2 + 4r) ÷ n added (for a series less its line:
// Tjøstheim and Paulsen, Biometrika 1983), between 0 and 0.8, the interval is the rate
// ± t(0.975, n − 2) × √(Σ residual² · n ÷ (n − 2) · (1 + r) ÷ (1 − r)) ÷ the window's length.
// ok is false without weight in the window or with fewer than three parts.
func BatchMeans(times []int64, weights []float64, from, to int64) (low, high float64, ok bool) {
	if to <= from {
		return 0, 0, false
	}
	edges := partEdges(times, from, to)
	parts := make([]float64, batchParts)
	var total float64
	for i, t := range times {
		if t > from && t <= to {
			after, _ := slices.BinarySearch(edges, t)
			parts[after-1] += weights[i]
			total += weights[i]
		}
	}
	if total <= 0 {
		return 0, 0, false
	}
	residuals := partResiduals(edges, parts)
	for len(parts) > batchPartsLeft && Autocorrelation(residuals) >= batchCorrelate {
		edges, parts = mergeByTwos(edges, parts)
		residuals = partResiduals(edges, parts)
	}
	n := float64(len(residuals))
	if n < 3 {
		return 0, 0, false
	}
	var squares float64
	for _, r := range residuals {
		squares += r * r
	}
	r := Autocorrelation(residuals)
	r = min(max(r+(2+4*r)/n, 0), mostCorrelated)
	seconds := float64(to-from) / 1e9
	half := TQuantile975(len(residuals)-2) * math.Sqrt(squares*n/(n-2)*(1+r)/(1-r)) / seconds
	rate := total / seconds
	return rate - half, rate + half, true
}

// partEdges are the edges of the parts of a window, its own included.
func partEdges(times []int64, from, to int64) []int64 {
	edges := make([]int64, batchParts+1)
	for i := range edges {
		edges[i] = to
	}
	edges[0] = from
	for _, t := range times {
		if t > from && t <= to {
			if share := (t - from) * batchParts / (to - from); share > 0 {
				edges[share] = min(edges[share], t)
			}
		}
	}
	for i := batchParts - 1; i > 0; i-- {
		edges[i] = min(edges[i], edges[i+1])
	}
	return edges
}

func mergeByTwos(edges []int64, parts []float64) ([]int64, []float64) {
	n := len(parts) / 2
	mergedEdges, merged := make([]int64, n+1), make([]float64, n)
	for i := range merged {
		mergedEdges[i], merged[i] = edges[2*i], parts[2*i]+parts[2*i+1]
	}
	mergedEdges[n] = edges[2*n]
	return mergedEdges, merged
}

// partResiduals are what the parts that have a length hold beyond the mean rate and a line.
func partResiduals(edges []int64, parts []float64) []float64 {
	var total float64
	for _, weight := range parts {
		total += weight
	}
	first, last := edges[0], edges[len(edges)-1]
	perNano := total / float64(last-first)
	var middles, residuals []float64
	for i, weight := range parts {
		if length := edges[i+1] - edges[i]; length > 0 {
			middles = append(middles, float64(edges[i]-first)+float64(length)/2)
			residuals = append(residuals, weight-perNano*float64(length))
		}
	}
	slope, intercept, _ := Line(middles, residuals)
	for i := range residuals {
		residuals[i] -= intercept + slope*middles[i]
	}
	return residuals
}

// Autocorrelation is the lag-1 autocorrelation of a series:
// Σ (xᵢ − m)(xᵢ₊₁ − m) ÷ Σ (xᵢ − m)²; 0 for a constant one.
func Autocorrelation(series []float64) float64 {
	mean := Mean(series)
	var lagged, squares float64
	for i, x := range series {
		squares += (x - mean) * (x - mean)
		if i > 0 {
			lagged += (x - mean) * (series[i-1] - mean)
		}
	}
	if squares == 0 {
		return 0
	}
	return lagged / squares
}

// MeanInterval gives the mean of independent samples and its 95 % interval by
// Student's t. ok is false under two samples; mean, low and high are then the one
// sample, or NaN.
func MeanInterval(values []float64) (mean, low, high float64, ok bool) {
	mean = Mean(values)
	n := len(values)
	if n < 2 {
		return mean, mean, mean, false
	}
	half := TQuantile975(n-1) * Deviation(values) / math.Sqrt(float64(n))
	return mean, mean - half, mean + half, true
}

// TQuantile975 is the 0.975 quantile of Student's t with df degrees of freedom, which
// need not be whole; +Inf without any.
func TQuantile975(df int) float64 { return tQuantile(0.975, float64(df)) }
