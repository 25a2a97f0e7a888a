package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A curve of three numbers is found again from its values, however far off the start.
func TestSolveFindsTheNumbersOfACurve(t *testing.T) {
	want := []float64{3, 0.02, 7}
	curve := func(x []float64, at float64) float64 { return x[0] + x[1]*at*at + x[2]*math.Exp(-at/10) }
	p := problem{scale: []float64{1, 0.01, 1}, residuals: func(x []float64) []float64 {
		r := make([]float64, 20)
		for i := range r {
			r[i] = curve(x, float64(i)) - curve(want, float64(i))
		}
		return r
	}}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		from := []float64{20 * random.Float64(), random.Float64(), 20 * random.Float64()}
		got, sum := p.solve(from)
		for i := range want {
			if math.Abs(got[i]/want[i]-1) > 1e-3 {
				t.Errorf("from %v: %v (sum %g), want %v", from, got, sum, want)
				break
			}
		}
	}
}

// What would have to be negative stays at zero, and the others make the best of it.
func TestSolveStopsAtZero(t *testing.T) {
	p := problem{scale: []float64{1, 1}, residuals: func(x []float64) []float64 {
		return []float64{x[0] + x[1] - 1, x[1] + 2}
	}}
	got, sum := p.solve([]float64{5, 5})
	if math.Abs(got[0]-1) > 1e-4 || got[1] != 0 || math.Abs(sum-4) > 1e-6 {
		t.Errorf("%v with a sum of %g, want 1 and 0 with 4", got, sum)
	}
}

// Where nothing depends on a number, or the model refuses a place, the search goes on without.
func TestSolveLivesWithHoles(t *testing.T) {
	p := problem{scale: []float64{1, 1}, residuals: func(x []float64) []float64 {
		if x[0] > 3 {
			return nil
		}
		return []float64{x[0] - 2.9}
	}}
	if got, sum := p.solve([]float64{0.5, 1}); math.Abs(got[0]-2.9) > 1e-4 || got[1] != 1 {
		t.Errorf("%v with a sum of %g", got, sum)
	}
	if _, sum := p.solve([]float64{4, 1}); !math.IsInf(sum, 1) {
		t.Errorf("a start that is refused has a sum of %g", sum)
	}
}

func TestCholeskySolvesAndRefuses(t *testing.T) {
	x := cholesky([][]float64{{4, 2}, {2, 3}}, []float64{8, 8})
	if math.Abs(x[0]-1) > 1e-12 || math.Abs(x[1]-2) > 1e-12 {
		t.Errorf("%v, want 1 and 2", x)
	}
	if cholesky([][]float64{{1, 2}, {2, 1}}, []float64{1, 1}) != nil {
		t.Error("a matrix that is not positive has a solution")
	}
}
