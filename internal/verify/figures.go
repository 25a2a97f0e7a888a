package verify

import (
	"cmp"
	"math"
	"slices"

	"speedmatrix"
)

// quantile of sorted samples: linear at position (n − 1) · p.
func quantile(sorted []float64, p float64) float64 {
	position := p * float64(len(sorted)-1)
	i := int(position)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (position-float64(i))*(sorted[i+1]-sorted[i])
}

// median of samples in any order, nil without one.
func median(samples []float64) *float64 {
	if len(samples) == 0 {
		return nil
	}
	return new(quantile(slices.Sorted(slices.Values(samples)), 0.5))
}

// distribution of samples, nil without one. of says what one sample is.
func distribution(samples []float64, of string) *speedmatrix.Distribution {
	n := len(samples)
	if n == 0 {
		return nil
	}
	slices.Sort(samples)
	var sum float64
	for _, x := range samples {
		sum += x
	}
	d := &speedmatrix.Distribution{
		P50: new(quantile(samples, 0.5)), Min: new(samples[0]), Max: new(samples[n-1]), Mean: new(sum / float64(n)), N: n, Of: of,
	}
	if n >= 10 {
		d.P90 = new(quantile(samples, 0.9))
	}
	if n >= 20 {
		d.P95 = new(quantile(samples, 0.95))
	}
	if n >= 100 {
		d.P99 = new(quantile(samples, 0.99))
	}
	return d
}

// t975 is the 0.975 quantile of Student's t by degrees of freedom.
var t975 = [...]float64{
	1: 12.706204736, 4.302652730, 3.182446305, 2.776445105, 2.570581836, 2.446911851, 2.364624252, 2.306004135, 2.262157163, 2.228138852,
	2.200985160, 2.178812830, 2.160368656, 2.144786688, 2.131449546, 2.119905299, 2.109815578, 2.100922040, 2.093024054, 2.085963447,
	2.079613845, 2.073873068, 2.068657610, 2.063898562, 2.059538553, 2.055529439, 2.051830516, 2.048407142, 2.045229642, 2.042272456,
}

// part is a piece of the window: what came after from, up to to.
type part struct {
	from, to int64
	weight   float64
}

// interval95 by batch means: 32 parts that end at the first arrival at or after an equal share of the window, what
// each holds beyond the mean rate and a line through all, merged by twos until the lag-1 autocorrelation of that is
// below 0.2 or 8 are left, and widened for what is left of it. halfWidth is t × standard error.
func (m *measurement) interval95() (interval *speedmatrix.Interval, halfWidth float64) {
	arrivals := m.inWindow()
	if len(arrivals) == 0 {
		return nil, 0
	}
	parts := m.parts(arrivals)
	rate := 0.0
	for _, p := range parts {
		rate += p.weight / m.seconds()
	}
	left := beyondLine(parts, rate)
	for len(parts) > 8 && autocorrelation(left) >= 0.2 {
		for i := range len(parts) / 2 {
			x, y := parts[2*i], parts[2*i+1]
			parts[i] = part{x.from, y.to, x.weight + y.weight}
		}
		parts = parts[:len(parts)/2]
		left = beyondLine(parts, rate)
	}
	n := float64(len(left))
	if rate == 0 || n < 3 {
		return nil, 0
	}
	var squares float64
	for _, x := range left {
		squares += x * x
	}
	r := autocorrelation(left)
	r = math.Min(math.Max(r+2/n+4*r/n, 0), 0.8)
	variance := squares / (n - 2) * n * (1 + r) / (1 - r)
	halfWidth = t975[len(left)-2] * math.Sqrt(variance) / m.seconds()
	return &speedmatrix.Interval{Low: rate - halfWidth, High: rate + halfWidth}, halfWidth
}

// inWindow are the events of the window in the order of time.
func (m *measurement) inWindow() []event {
	var list []event
	for _, r := range m.streams {
		for _, e := range r.events {
			if m.in(e.at) {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return list
}

// parts cuts the window, with its events in order, in 32.
func (m *measurement) parts(arrivals []event) []part {
	const n = 32
	parts := make([]part, n)
	from, edge, next := m.from, 0, 0
	for i := range parts {
		for edge < len(arrivals) && (arrivals[edge].at-m.from)*n/(m.to-m.from) <= int64(i) {
			edge++
		}
		to := m.to
		if edge < len(arrivals) && i < n-1 {
			to = arrivals[edge].at
		}
		parts[i] = part{from: from, to: to}
		for ; next < len(arrivals) && arrivals[next].at <= to; next++ {
			parts[i].weight += arrivals[next].weight
		}
		from = to
	}
	return parts
}

// beyondLine is what the parts that have a length hold beyond a rate, less its straight line over time.
func beyondLine(parts []part, rate float64) []float64 {
	var at, beyond []float64
	for _, p := range parts {
		if p.to > p.from {
			at = append(at, float64(p.from-parts[0].from)/2e9+float64(p.to-parts[0].from)/2e9)
			beyond = append(beyond, p.weight-rate*float64(p.to-p.from)/1e9)
		}
	}
	n := float64(len(at))
	var sumX, sumY, sumXX, sumXY float64
	for i := range at {
		sumX, sumY, sumXX, sumXY = sumX+at[i], sumY+beyond[i], sumXX+at[i]*at[i], sumXY+at[i]*beyond[i]
	}
	if determinant := n*sumXX - sumX*sumX; determinant > 0 {
		slope := (n*sumXY - sumX*sumY) / determinant
		for i := range at {
			beyond[i] -= slope*at[i] + (sumY-slope*sumX)/n
		}
	}
	return beyond
}

func autocorrelation(parts []float64) float64 {
	var mean, along, squares float64
	for _, x := range parts {
		mean += x / float64(len(parts))
	}
	for i, x := range parts {
		squares += (x - mean) * (x - mean)
		if i > 0 {
			along += (x - mean) * (parts[i-1] - mean)
		}
	}
	if squares == 0 {
		return 0
	}
	return along / squares
}
