package verify

import (
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

// t975 is the 0.975 quantile of Student's t by degrees of freedom: those that 32, 16
// and 8 parts have.
var t975 = map[int]float64{31: 2.0395134463964077, 15: 2.131449545559323, 7: 2.364624251592785}

// interval95 by batch means: 32 equal parts of the window, merged by twos until their
// lag-1 autocorrelation is below 0.2 or 8 are left. halfWidth is t × standard error.
func (m *measurement) interval95() (interval *speedmatrix.Interval, halfWidth float64) {
	length := m.to - m.from
	parts := make([]float64, 32)
	var total float64
	for _, r := range m.streams {
		for _, e := range r.events {
			if m.in(e.at) {
				// A part is open at its start and closed at its end, like the window.
				parts[((e.at-m.from)*32-1)/length] += e.weight
				total += e.weight
			}
		}
	}
	if total == 0 {
		return nil, 0
	}
	for len(parts) > 8 && autocorrelation(parts) >= 0.2 {
		for i := range len(parts) / 2 {
			parts[i] = parts[2*i] + parts[2*i+1]
		}
		parts = parts[:len(parts)/2]
	}
	n := float64(len(parts))
	var squares float64
	for _, x := range parts {
		squares += (x - total/n) * (x - total/n)
	}
	perSecond := n * 1e9 / float64(length)
	halfWidth = t975[len(parts)-1] * math.Sqrt(squares/(n-1)/n) * perSecond
	rate := total / m.seconds()
	return &speedmatrix.Interval{Low: rate - halfWidth, High: rate + halfWidth}, halfWidth
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
