package chart

import (
	"math"
	"strconv"
)

// Differences is the number of colours of a difference: the middle one says that two values
// are the same.
const Differences = 9

// differenceSteps are the ratios at which a difference takes the next colour.
var differenceSteps = []float64{1.02, 1.15, 1.4, 2}

// DifferenceStep is the colour of a ratio, second ÷ first, of numbers of which more is better:
// below the middle where it is under 1. A ratio nearer to 1 than the first step gets the
// colour beside the middle; 1 and what is no ratio gets the middle.
func DifferenceStep(ratio float64) int {
	const middle = Differences / 2
	if !(ratio > 0) || math.IsInf(ratio, 0) || ratio == 1 {
		return middle
	}
	size, steps := max(ratio, 1/ratio), 1
	for _, limit := range differenceSteps[1:] {
		if size >= limit {
			steps++
		}
	}
	if ratio < 1 {
		return middle - steps
	}
	return middle + steps
}

// Duel is two set-ups on the same axes, small: what one user gets across, linear from 0, what
// the server makes upward, on a log scale. Values have to be above 0.
type Duel struct {
	Label string
	// A is drawn round and solid, B square and dashed; the label of each's last point stands at it.
	A, B []Point
	// Right, Low and High are the ends of the axes, which several duels share.
	Right, Low, High float64
	// Floor shades what lies left of it; 0 is none.
	Floor float64
}

// The room around the axes of a duel.
const (
	duelLeft   = 38
	duelRight  = 10
	duelTop    = 18
	duelBottom = 26
)

// Draw draws the chart; without axes it is empty.
func (d Duel) Draw(s Size) Drawing {
	c := &canvas{}
	if !(d.Right > 0) || !(d.Low > 0) || !(d.High > 0) {
		return c.drawing(s, d.Label)
	}
	ticks := max(2, (s.Width-duelLeft-duelRight)/52)
	step := evenStep(max(d.Right, d.Floor*1.25), ticks)
	x := scale{lo: 0, hi: max(d.Right*1.06, d.Floor*1.25, step), from: duelLeft, to: float64(s.Width - duelRight)}
	y := scale{lo: d.Low * 0.7, hi: d.High * 1.4, from: float64(s.Height - duelBottom), to: duelTop, log: true}
	bottom := y.from
	if d.Floor > 0 {
		c.rect(box{duelLeft, duelTop, x.at(d.Floor) - duelLeft, bottom - duelTop}, `class="fl"`)
	}
	for _, v := range logTicks(y.lo, y.hi, max(3, s.Height/28)) {
		c.line(point{duelLeft, y.at(v)}, point{x.to, y.at(v)}, "g")
		c.text(point{duelLeft - 6, y.at(v) + 4}, Thousands(v), look{anchor: end})
	}
	for _, v := range evenTicks(0, x.hi, ticks) {
		c.text(point{x.at(v), bottom + 18}, round(v), look{anchor: middle})
	}
	c.line(point{duelLeft, bottom}, point{x.to, bottom}, "ax")
	if d.Floor > 0 {
		c.line(point{x.at(d.Floor), duelTop}, point{x.at(d.Floor), bottom}, "fll")
	}
	p := &duelPainter{c: c, x: x, y: y}
	p.side(d.A, "a")
	p.side(d.B, "b")
	return c.drawing(s, d.Label)
}

// duelPainter draws the sides of a duel on its axes.
type duelPainter struct {
	c      *canvas
	x, y   scale
	labels placed
}

// side draws the points of one set-up in their order, and the last one's label beside it.
func (d *duelPainter) side(list []Point, name string) {
	var points []point
	for _, p := range list {
		points = append(points, point{d.x.at(p.X), d.y.at(p.Y)})
	}
	style := "stroke:var(--l" + name + ")"
	if name == "b" {
		style += ";stroke-dasharray:4 3"
	}
	d.c.path(points, style)
	for i, p := range list {
		if name == "b" {
			d.c.square(points[i], 3.5, dotStyle("var(--lb)", p.Hollow), p.Title)
			continue
		}
		d.c.dot(points[i], 3.5, dotStyle("var(--la)", p.Hollow), p.Title)
	}
	if len(list) > 0 {
		d.label(list[len(list)-1].Label, points[len(points)-1])
	}
}

// label writes the name of a side's last point beside it, where there is room.
func (d *duelPainter) label(text string, at point) {
	for _, dy := range []float64{-2, -14, 14, 26} {
		place, l := point{at.x - 8, at.y + dy}, look{class: "hal b", anchor: end}
		left := point{place.x - textWidth(text), place.y}
		if left.x < duelLeft {
			left.x = place.x + 16
			place, l.anchor = left, ""
		}
		if d.labels.free(left, text, 1) {
			d.c.text(place, text, l)
			return
		}
	}
}

// square draws a filled square around a point; title is what a pointer over it shows.
func (c *canvas) square(at point, half float64, style, title string) {
	attributes := `style="` + style + `"`
	c.b.WriteString(`<rect x="` + short(at.x-half) + `" y="` + short(at.y-half) + `" width="` + strconv.FormatFloat(2*half, 'g', -1, 64) +
		`" height="` + strconv.FormatFloat(2*half, 'g', -1, 64) + `" ` + attributes)
	if title == "" {
		c.b.WriteString("/>")
		return
	}
	c.b.WriteString("><title>" + escaper.Replace(title) + "</title></rect>")
}
