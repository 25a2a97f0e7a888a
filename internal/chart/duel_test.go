package chart

import (
	"math"
	"strings"
	"testing"
)

func TestStepsOfADifference(t *testing.T) {
	for _, c := range []struct {
		ratio float64
		want  int
	}{
		{1, 4}, {1.001, 5}, {1.02, 5}, {1.149, 5}, {1.15, 6}, {1.4, 7}, {2, 8}, {1e9, 8},
		{0.999, 3}, {1 / 1.15, 2}, {1 / 1.4, 1}, {0.5, 0}, {1e-9, 0},
		{0, 4}, {-1, 4}, {math.NaN(), 4}, {math.Inf(1), 4},
	} {
		if got := DifferenceStep(c.ratio); got != c.want {
			t.Errorf("a ratio of %v has step %d, want %d", c.ratio, got, c.want)
		}
	}
}

func TestADuelTellsItsSidesApartWithoutColour(t *testing.T) {
	points := []Point{{X: 100, Y: 100}, {X: 60, Y: 500, Label: "16"}}
	d := Duel{A: points, B: points, Right: 100, Low: 100, High: 500, Floor: 20}.Draw(Size{216, 260})
	if strings.Count(d.body, "<circle") != 2 || strings.Count(d.body, "stroke-dasharray:4 3") != 1 || strings.Count(d.body, `width="7"`) != 2 {
		t.Errorf("%s", d.body)
	}
	if strings.Count(d.body, ">16</text>") != 2 {
		t.Errorf("two labels at one place: %s", d.body)
	}
	if empty := (Duel{}).Draw(Size{216, 260}); empty.body != "" {
		t.Errorf("without axes: %s", empty.body)
	}
}
