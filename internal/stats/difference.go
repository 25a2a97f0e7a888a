package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a number that was estimated from samples, with what is known of its error.
type Estimate struct {
	Value float64
	// Error is the standard error; DF the degrees of freedom of Student's t that it goes
	// with, +Inf where the error is known and not estimated.
	Error, DF float64
}

// Interval95 is the 95 % interval of the estimate.
func (e Estimate) Interval95() (low, high float64) {
	half := 0.0
	if e.Error > 0 {
		half = e.quantile(0.975) * e.Error
	}
	return e.Value - half, e.Value + half
}

// P is the two-sided probability of an estimate at least so far from a value if that is the truth.
func (e Estimate) P(truth float64) float64 {
	switch {
	case e.Value == truth:
		return 1
	case e.Error == 0:
		return 0
	case math.IsInf(e.DF, 1):
		return min(1, 2*distuv.UnitNormal.CDF(-math.Abs(e.Value-truth)/e.Error))
	}
	return tTwoSided((e.Value-truth)/e.Error, e.DF)
}

func (e Estimate) quantile(p float64) float64 {
	if math.IsInf(e.DF, 1) {
		return distuv.UnitNormal.Quantile(p)
	}
	return tQuantile(p, e.DF)
}

// found is how often a difference of the least detectable size is found.
const found = 0.9

// Detectable is the least distance from 0 that is found in 9 of 10 cases by an estimate with
// this error, among so many tests corrected by Hochberg in which all others find nothing: with
// t = t(1 − 0.025 ÷ tests), (t · (1 − 1 ÷ 4 DF) + z(0.9) · √(1 + t² ÷ 2 DF)) × the error, by the
// normal approximation of the noncentral t distribution.
func (e Estimate) Detectable(tests int) float64 {
	if e.Error == 0 {
		return 0
	}
	t := e.quantile(1 - 0.025/float64(max(tests, 1)))
	return (t*(1-1/(4*e.DF)) + distuv.UnitNormal.Quantile(found)*math.Sqrt(1+t*t/(2*e.DF))) * e.Error
}

// Welch estimates the mean of b less the mean of a, whose variances may differ, with the
// degrees of freedom of Welch and Satterthwaite. ok is false where one of them has fewer
// than two values.
func Welch(a, b []float64) (e Estimate, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return Estimate{}, false
	}
	na, nb := float64(len(a)), float64(len(b))
	va, vb := Deviation(a)*Deviation(a)/na, Deviation(b)*Deviation(b)/nb
	e = Estimate{Value: Mean(b) - Mean(a), Error: math.Sqrt(va + vb), DF: na + nb - 2}
	if va+vb > 0 {
		e.DF = (va + vb) * (va + vb) / (va*va/(na-1) + vb*vb/(nb-1))
	}
	return e, true
}

// MeanOf estimates the mean of values; ok is false under two.
func MeanOf(values []float64) (e Estimate, ok bool) {
	n := float64(len(values))
	if n < 2 {
		return Estimate{}, false
	}
	return Estimate{Value: Mean(values), Error: Deviation(values) / math.Sqrt(n), DF: n - 1}, true
}

// OneMore estimates how far one further value lies from the mean of others, if it has their
// variance. ok is false under two others.
func OneMore(others []float64, value float64) (e Estimate, ok bool) {
	n := float64(len(others))
	if n < 2 {
		return Estimate{}, false
	}
	return Estimate{Value: value - Mean(others), Error: Deviation(others) * math.Sqrt(1+1/n), DF: n - 1}, true
}

// Slope estimates by how much values change from one to the next, by least squares; ok is
// false under three.
func Slope(values []float64) (e Estimate, ok bool) {
	n := float64(len(values))
	if n < 3 {
		return Estimate{}, false
	}
	places := make([]float64, len(values))
	for i := range places {
		places[i] = float64(i)
	}
	slope, intercept, _ := Line(places, values)
	var squares float64
	for i, v := range values {
		r := v - intercept - slope*places[i]
		squares += r * r
	}
	spread := n * (n*n - 1) / 12 // Σ (place − mean place)²
	return Estimate{Value: slope, Error: math.Sqrt(squares / (n - 2) / spread), DF: n - 2}, true
}

// Hochberg gives the probabilities of several tests corrected so that the chance of calling any difference that is none
// stays below the level of one test: with k tests of a probability at least as large, k times it, and never more than
// what a larger one becomes (Hochberg, Biometrika 1988). It holds where tests do not depend on each other or depend
// positively (Sarkar, Annals of Statistics 1998), as cells do that share the noise of their runs. NaN is no test and
// stays.
func Hochberg(p []float64) []float64 {
	var order []int
	for i, x := range p {
		if !math.IsNaN(x) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[j], p[i]) })
	adjusted := slices.Clone(p)
	least := 1.0
	for larger, i := range order {
		least = min(least, p[i]*float64(larger+1))
		adjusted[i] = least
	}
	return adjusted
}

// Outlier names the value that does not belong to the others, by Grubbs' test at a level
// such as 0.05: the one farthest from the mean, if that is farther than chance makes it with
// normal noise. ok is false where there is none, and under three values.
func Outlier(values []float64, level float64) (index int, ok bool) {
	n := float64(len(values))
	deviation := Deviation(values)
	if n < 3 || deviation == 0 {
		return 0, false
	}
	mean := Mean(values)
	for i, v := range values {
		if math.Abs(v-mean) > math.Abs(values[index]-mean) {
			index = i
		}
	}
	t := tQuantile(1-level/(2*n), n-2)
	limit := (n - 1) / math.Sqrt(n) * math.Sqrt(t*t/(n-2+t*t))
	return index, math.Abs(values[index]-mean)/deviation > limit
}

// DetectableWith is the least difference between two set-ups that a comparison will find in 9
// of 10 cases, among so many tests, if each is measured n times with this noise from one
// measurement to the next (a standard deviation). With n = 1 the noise is taken as known.
func DetectableWith(n, tests int, noise float64) float64 {
	e := Estimate{Error: noise * math.Sqrt(2/float64(max(n, 1))), DF: math.Inf(1)}
	if m := float64(n); n > 1 {
		// What Welch's degrees of freedom are on average where both variances are equal.
		e.DF = 2 * (m - 1) * m / (m + 1)
	}
	return e.Detectable(tests)
}

// DetectableInPairs is DetectableWith for n > 1 measurements of both that are compared one by one.
func DetectableInPairs(n, tests int, noise float64) float64 {
	return Estimate{Error: noise * math.Sqrt(2/float64(n)), DF: float64(n - 1)}.Detectable(tests)
}
