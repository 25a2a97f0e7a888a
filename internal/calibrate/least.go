package calibrate

import "math"

// problem is a sum of squares to be made small over numbers that cannot be negative.
type problem struct {
	// residuals gives the residuals at x; nil where x cannot be evaluated. The slice is the caller's to keep.
	residuals func(x []float64) []float64
	// scale is the typical size of each number: what a small step is measured by.
	scale []float64
}

// The pace of the search: it ends after so many steps, or when a step gains less than this share of the sum.
const (
	mostSteps   = 60
	leastGain   = 1e-9
	smallStep   = 1e-4
	firstDamp   = 1e-3
	mostDamp    = 1e8
	exactEnough = 1e-14
)

// solve makes the sum of squares small from x on, by damped Gauss-Newton steps (Levenberg and Marquardt) that stop at
// zero, and gives the place and the sum there.
func (p *problem) solve(x []float64) ([]float64, float64) {
	r := p.residuals(x)
	if r == nil {
		return x, math.Inf(1)
	}
	sum, damp := squares(r), firstDamp
	for range mostSteps {
		if sum < exactEnough {
			break
		}
		next, nextR, nextSum, nextDamp := p.step(x, r, damp)
		if nextR == nil {
			break
		}
		gain := (sum - nextSum) / sum
		x, r, sum, damp = next, nextR, nextSum, nextDamp
		if gain < leastGain {
			break
		}
	}
	return x, sum
}

// step looks for a smaller sum, with more and more damping; nil residuals where there is none.
func (p *problem) step(x, r []float64, damp float64) (next, nextR []float64, sum, nextDamp float64) {
	j := p.jacobian(x, r)
	gradient, normal := normalEquations(j, r)
	before := squares(r)
	for ; damp < mostDamp; damp *= 5 {
		d := direction(x, gradient, normal, damp)
		if d == nil {
			continue
		}
		next = make([]float64, len(x))
		for i := range x {
			next[i] = max(x[i]+d[i]*p.scale[i], 0)
		}
		if nextR = p.residuals(next); nextR != nil {
			if sum = squares(nextR); sum < before {
				return next, nextR, sum, max(damp/10, 1e-12)
			}
		}
	}
	return x, nil, before, damp
}

// jacobian is the change of each residual with each number, in units of its scale, by columns.
func (p *problem) jacobian(x, r []float64) [][]float64 {
	j := make([][]float64, len(x))
	moved := make([]float64, len(x))
	for i := range x {
		copy(moved, x)
		h := smallStep * max(x[i]/p.scale[i], 1)
		moved[i] += h * p.scale[i]
		j[i] = make([]float64, len(r))
		at := p.residuals(moved)
		for k := range at {
			j[i][k] = (at[k] - r[k]) / h
		}
	}
	return j
}

// normalEquations gives Jᵀr and JᵀJ.
func normalEquations(j [][]float64, r []float64) (gradient []float64, normal [][]float64) {
	gradient, normal = make([]float64, len(j)), make([][]float64, len(j))
	for a := range j {
		gradient[a] = dot(j[a], r)
		normal[a] = make([]float64, len(j))
		for b := range j {
			normal[a][b] = dot(j[a], j[b])
		}
	}
	return gradient, normal
}

// direction solves (JᵀJ + damp·diag) d = −Jᵀr over the numbers that are not held at zero; nil if that has no solution.
func direction(x, gradient []float64, normal [][]float64, damp float64) []float64 {
	var free []int
	for i := range x {
		if x[i] > 0 || gradient[i] < 0 {
			free = append(free, i)
		}
	}
	n := len(free)
	m, v := make([][]float64, n), make([]float64, n)
	for a, i := range free {
		m[a] = make([]float64, n)
		for b, k := range free {
			m[a][b] = normal[i][k]
		}
		m[a][a] += damp*normal[i][i] + 1e-15
		v[a] = -gradient[i]
	}
	solution := cholesky(m, v)
	if solution == nil {
		return nil
	}
	d := make([]float64, len(x))
	for a, i := range free {
		d[i] = solution[a]
	}
	return d
}

// cholesky solves m·x = v for a symmetric positive m, which it overwrites; nil if m is not positive.
func cholesky(m [][]float64, v []float64) []float64 {
	n := len(v)
	for i := range n {
		for k := range i + 1 {
			s := m[i][k]
			for l := range k {
				s -= m[i][l] * m[k][l]
			}
			if i != k {
				m[i][k] = s / m[k][k]
				continue
			}
			if s <= 0 || math.IsNaN(s) {
				return nil
			}
			m[i][i] = math.Sqrt(s)
		}
	}
	x := make([]float64, n)
	for i := range n {
		x[i] = v[i]
		for l := range i {
			x[i] -= m[i][l] * x[l]
		}
		x[i] /= m[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for l := i + 1; l < n; l++ {
			x[i] -= m[l][i] * x[l]
		}
		x[i] /= m[i][i]
	}
	return x
}

func squares(r []float64) float64 { return dot(r, r) }

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
