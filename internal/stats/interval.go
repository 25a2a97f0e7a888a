package stats

import "math"

// The shape of the batch means: parts at the start, at least, and the lag-1
// autocorrelation of their rates under which they count as independent.
const (
	batchParts     = 32
	batchPartsLeft = 8
	batchCorrelate = 0.2
)

// BatchMeans gives the 95 % interval of a rate, in weight per second. times are
// nanoseconds in any order, weights what came at each of them; those with
// from < time ≤ to count. The window is cut into 32 equal parts (each open at its
// start, closed at its end like the window); neighbours are merged by twos until the
// lag-1 autocorrelation of the parts' rates is below 0.2 or 8 parts are left. The
// interval is the rate ± t(0.975, parts − 1) × the standard error of the parts' rates.
// ok is false without a window or without weight in it.
func BatchMeans(times []int64, weights []float64, from, to int64) (low, high float64, ok bool) {
	length := to - from
	if length <= 0 {
		return 0, 0, false
	}
	parts := make([]float64, batchParts)
	var total float64
	for i, t := range times {
		if t <= from || t > to {
			continue
		}
		parts[((t-from)*batchParts-1)/length] += weights[i]
		total += weights[i]
	}
	if total <= 0 {
		return 0, 0, false
	}
	for len(parts) > batchPartsLeft && Autocorrelation(parts) >= batchCorrelate {
		parts = mergeByTwos(parts)
	}
	n := float64(len(parts))
	perSecond := 1e9 / float64(length)
	half := TQuantile975(len(parts)-1) * Deviation(parts) * n * perSecond / math.Sqrt(n)
	rate := total * perSecond
	return rate - half, rate + half, true
}

func mergeByTwos(parts []float64) []float64 {
	merged := make([]float64, len(parts)/2)
	for i := range merged {
		merged[i] = parts[2*i] + parts[2*i+1]
	}
	return merged
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

// t975 is the 0.975 quantile of Student's t for 1 to 30 degrees of freedom.
var t975 = [...]float64{
	12.706204736, 4.302652730, 3.182446305, 2.776445105, 2.570581836, 2.446911851,
	2.364624252, 2.306004135, 2.262157163, 2.228138852, 2.200985160, 2.178812830,
	2.160368656, 2.144786688, 2.131449546, 2.119905299, 2.109815578, 2.100922040,
	2.093024054, 2.085963447, 2.079613845, 2.073873068, 2.068657610, 2.063898562,
	2.059538553, 2.055529439, 2.051830516, 2.048407142, 2.045229642, 2.042272456,
}

// TQuantile975 is the 0.975 quantile of Student's t with df degrees of freedom, right
// to 10⁻⁵: from a table up to 30, by the expansion around the normal quantile beyond.
// It is +Inf without a degree of freedom.
func TQuantile975(df int) float64 {
	if df < 1 {
		return math.Inf(1)
	}
	if df <= len(t975) {
		return t975[df-1]
	}
	const z = 1.959963984540054
	const z3, z5, z7 = z * z * z, z * z * z * z * z, z * z * z * z * z * z * z
	v := float64(df)
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}
