package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func TestLineFindsTheLine(t *testing.T) {
	slope, intercept, ok := Line([]float64{1, 2, 4}, []float64{5, 7, 11})
	if !ok || !near(slope, 2) || !near(intercept, 3) {
		t.Errorf("%v·x + %v, %v", slope, intercept, ok)
	}
	slope, intercept, ok = Line([]float64{0, 1, 2}, []float64{0, 2, 1})
	if !ok || !near(slope, 0.5) || !near(intercept, 0.5) {
		t.Errorf("least squares: %v·x + %v, %v", slope, intercept, ok)
	}
	for _, x := range [][]float64{nil, {1}, {3, 3, 3}} {
		if _, _, ok := Line(x, make([]float64, len(x))); ok {
			t.Errorf("a line through %v", x)
		}
	}
}

func TestQuadraticIsFoundAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(1e-6, 1e-2).Draw(t, "a")
		b := rapid.Float64Range(1e-12, 1e-6).Draw(t, "b")
		var x, y []float64
		for _, n := range []float64{2048, 8192, 16384, 131072} {
			x, y = append(x, n), append(y, a*n+b*n*n)
		}
		gotA, gotB, ok := FitQuadratic(x, y)
		if !ok || math.Abs(gotA-a) > 1e-6*a+1e-12 || math.Abs(gotB-b) > 1e-6*b+1e-15 {
			t.Fatalf("%v·x + %v·x² (%v), want %v and %v", gotA, gotB, ok, a, b)
		}
	})
}

func TestQuadraticIsNeverNegative(t *testing.T) {
	for _, c := range []struct {
		name string
		x, y []float64
		a, b float64
		ok   bool
	}{
		{"nothing", nil, nil, 0, 0, false},
		{"one point", []float64{100}, []float64{5}, 0.05, 0, true},
		{"one length twice", []float64{100, 100}, []float64{4, 6}, 0.05, 0, true},
		{"slower for short ones", []float64{10, 100}, []float64{10, 50}, 0.75, 0, true},
		{"more than quadratic", []float64{1, 2}, []float64{0, 8}, 0, 1.6, true},
		{"all zero", []float64{1, 2}, []float64{0, 0}, 0, 0, false},
		{"useless points", []float64{0, -5, 10, 20, 30}, []float64{1, 1, math.NaN(), math.Inf(1), 3}, 0.1, 0, true},
	} {
		a, b, ok := FitQuadratic(c.x, c.y)
		if !near(a, c.a) || !near(b, c.b) || ok != c.ok {
			t.Errorf("%s: %v·x + %v·x² (%v), want %v and %v (%v)", c.name, a, b, ok, c.a, c.b, c.ok)
		}
	}
}
