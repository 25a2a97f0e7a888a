package chart

import (
	"math"
	"slices"
)

// scale maps values to pixels.
type scale struct {
	lo, hi   float64
	from, to float64
	log      bool
}

func (s scale) at(v float64) float64 {
	t := 0.5
	switch {
	case s.hi <= s.lo:
	case s.log:
		t = math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	default:
		t = (v - s.lo) / (s.hi - s.lo)
	}
	return s.from + (s.to-s.from)*t
}

// bounds are the least and the greatest of values; ok is false without any.
func bounds(values []float64) (lo, hi float64, ok bool) {
	if len(values) == 0 {
		return 0, 0, false
	}
	return slices.Min(values), slices.Max(values), true
}

// logTicks gives the numbers 1, 2, 5 × 10ⁿ from lo to hi, and only powers of ten where
// those would be more than most.
func logTicks(lo, hi float64, most int) []float64 {
	if lo <= 0 || hi < lo {
		return nil
	}
	for _, steps := range [][]float64{{1, 2, 5}, {1}} {
		var ticks []float64
		for e := math.Floor(math.Log10(lo)) - 1; e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range steps {
				if t := m * math.Pow(10, e); t >= lo*0.999 && t <= hi*1.001 {
					ticks = append(ticks, t)
				}
			}
		}
		if len(ticks) <= most || len(steps) == 1 {
			return thin(ticks, most)
		}
	}
	return nil
}

// thin keeps every nth tick so that no more than most remain.
func thin(ticks []float64, most int) []float64 {
	n := (len(ticks) + most - 1) / max(most, 1)
	if n <= 1 {
		return ticks
	}
	var kept []float64
	for i := 0; i < len(ticks); i += n {
		kept = append(kept, ticks[i])
	}
	return kept
}

// evenStep is a round step that divides a range into about n parts.
func evenStep(span float64, n int) float64 {
	if span <= 0 || n < 1 {
		return 1
	}
	raw := span / float64(n)
	base := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= raw*0.999 {
			return m * base
		}
	}
	return 10 * base
}

// evenTicks gives the multiples of a round step from lo to hi.
func evenTicks(lo, hi float64, n int) []float64 {
	step := evenStep(hi-lo, n)
	var ticks []float64
	first := math.Ceil(lo/step - 1e-9)
	for i := range 4 * n {
		t := (first + float64(i)) * step
		if t > hi+step*1e-9 {
			break
		}
		ticks = append(ticks, t)
	}
	return ticks
}
