package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// tQuantile is a quantile of Student's t; its sign times +Inf without degrees of freedom.
func tQuantile(p, df float64) float64 {
	if !(df > 0) {
		return math.Copysign(math.Inf(1), p-0.5)
	}
	return distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(p)
}

// tTwoSided is the probability that |t| of Student's t is at least |t|.
func tTwoSided(t, df float64) float64 {
	if math.IsInf(t, 0) {
		return 0
	}
	return min(1, 2*distuv.StudentsT{Sigma: 1, Nu: df}.CDF(-math.Abs(t)))
}
