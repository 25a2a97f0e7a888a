package stats

import "math"

// Line fits y = slope·x + intercept by least squares. ok is false with fewer than
// two different x. x and y must be of one length.
func Line(x, y []float64) (slope, intercept float64, ok bool) {
	if len(x) < 2 {
		return 0, 0, false
	}
	meanX, meanY := Mean(x), Mean(y)
	var covariance, variance float64
	for i := range x {
		covariance += (x[i] - meanX) * (y[i] - meanY)
		variance += (x[i] - meanX) * (x[i] - meanX)
	}
	if variance == 0 {
		return 0, 0, false
	}
	slope = covariance / variance
	return slope, meanY - slope*meanX, true
}

// FitQuadratic fits y = a·x + b·x² through the origin with a, b ≥ 0, by least squares
// of y ÷ x, so that short and long ones weigh alike. Points without a positive x, and
// values that are not finite, are left out. Points of one x alone give b = 0. ok is
// false without a usable point or when nothing but 0 fits.
func FitQuadratic(x, y []float64) (a, b float64, ok bool) {
	var at, pace []float64
	for i := range x {
		if p := y[i] / x[i]; x[i] > 0 && !math.IsNaN(p) && !math.IsInf(p, 0) {
			at, pace = append(at, x[i]), append(pace, p)
		}
	}
	if len(at) == 0 {
		return 0, 0, false
	}
	b, a, lined := Line(at, pace)
	switch {
	case !lined || b < 0:
		a, b = max(Mean(pace), 0), 0
	case a < 0:
		a, b = 0, max(throughOrigin(at, pace), 0)
	}
	return a, b, a > 0 || b > 0
}

func throughOrigin(x, y []float64) float64 {
	var products, squares float64
	for i := range x {
		products += x[i] * y[i]
		squares += x[i] * x[i]
	}
	return products / squares
}
