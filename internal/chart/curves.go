package chart

import (
	"math"

	"speedmatrix/internal/unit"
)

// Curve is a number against a quantity, under a name.
type Curve struct {
	Name   string
	Points []Point
	// Warn draws the curve in the colour of what is worse the more there is.
	Warn bool
}

// Curves is numbers against a quantity, both on log scales. Values have to be above 0.
type Curves struct {
	Label          string
	XTitle, YTitle string
	// Ticks are the places on the x axis, with their labels.
	Ticks  []Point
	Curves []Curve
	// Value writes the numbers at the ends of a curve, Axis those of the y axis.
	Value, Axis func(float64) string
	// Limit is a dashed line across, 0 for none.
	Limit float64
	// Span is the least ratio between the ends of the y axis.
	Span float64
}

// The room around the axes of curves.
const (
	curveLeft   = 58
	curveRight  = 20
	curveTop    = 30
	curveBottom = 44
)

// Draw draws the chart; without points it is empty.
func (v Curves) Draw(s Size) Drawing {
	c := &canvas{}
	x, y, ok := v.scales(s)
	if !ok {
		return c.drawing(s, v.Label)
	}
	v.axes(c, s, x, y)
	labels := &placed{}
	at := func(p Point) point { return point{x.at(p.X), y.at(p.Y)} }
	for _, curve := range v.Curves {
		drawCurve(c, curve, at)
	}
	for _, curve := range v.Curves {
		if len(curve.Points) > 0 {
			v.ends(c, labels, curve, at)
		}
	}
	for _, curve := range v.Curves {
		nameCurve(c, labels, curve, at)
	}
	return c.drawing(s, v.Label)
}

func (v Curves) scales(s Size) (x, y scale, ok bool) {
	var xs, ys []float64
	for _, curve := range v.Curves {
		for _, p := range curve.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	for _, tick := range v.Ticks {
		xs = append(xs, tick.X)
	}
	lo, hi, ok := bounds(ys)
	if !ok {
		return x, y, false
	}
	if v.Limit > 0 {
		lo, hi = min(lo, v.Limit), max(hi, v.Limit)
	}
	hi *= 1.6
	room := 30 / float64(s.Height-curveTop-curveBottom)
	lo /= math.Pow(hi/lo, room/(1-room))
	if span := max(v.Span, 1.1); hi/lo < span {
		widen := math.Sqrt(span / (hi / lo))
		lo, hi = lo/widen, hi*widen
	}
	left, right, _ := bounds(xs)
	x = scale{lo: left, hi: right, from: curveLeft + 14, to: float64(s.Width - curveRight), log: true}
	y = scale{lo: lo, hi: hi, from: float64(s.Height - curveBottom), to: curveTop, log: true}
	return x, y, true
}

func (v Curves) axes(c *canvas, s Size, x, y scale) {
	bottom := float64(s.Height - curveBottom)
	for _, t := range logTicks(y.lo, y.hi, 6) {
		c.line(point{curveLeft, y.at(t)}, point{x.to, y.at(t)}, "g")
		c.text(point{curveLeft - 8, y.at(t) + 4}, v.Axis(t), look{anchor: end})
	}
	labels := &placed{}
	for _, t := range v.Ticks {
		at := point{x.at(t.X), bottom + 19}
		left := point{at.x - textWidth(t.Label)/2 - 4, at.y}
		if !labels.free(left, t.Label, 8) {
			continue
		}
		c.line(point{at.x, bottom}, point{at.x, bottom + 4}, "ax")
		c.text(at, t.Label, look{anchor: middle})
	}
	c.line(point{curveLeft, bottom}, point{x.to, bottom}, "ax")
	c.text(point{0, 12}, v.YTitle, look{})
	c.text(point{x.to, float64(s.Height) - 4}, v.XTitle, look{anchor: end})
	if v.Limit > 0 {
		c.line(point{curveLeft, y.at(v.Limit)}, point{x.to, y.at(v.Limit)}, "fll")
	}
}

func drawCurve(c *canvas, curve Curve, at func(Point) point) {
	colour := "var(--accent)"
	if curve.Warn {
		colour = "var(--dn)"
	}
	var points []point
	for _, p := range curve.Points {
		points = append(points, at(p))
	}
	c.path(points, "stroke:"+colour)
	for i, p := range curve.Points {
		c.dot(points[i], 3.5, dotStyle(colour, p.Hollow), p.Title)
	}
}

// nameCurve writes a curve's name beside one of its points, near the middle, where there is room.
func nameCurve(c *canvas, labels *placed, curve Curve, at func(Point) point) {
	n := len(curve.Points)
	if n == 0 || curve.Name == "" {
		return
	}
	width := textWidth(curve.Name) * 1.1
	for _, k := range []int{n / 2, (n + 1) / 2, n - 1, n / 3, 0} {
		p := at(curve.Points[min(k, n-1)])
		for _, below := range []float64{-9, 20} {
			place := point{max(p.x-10-width, curveLeft+4), p.y + below}
			if labels.free(place, curve.Name, 8) {
				c.text(place, curve.Name, look{class: "b hal"})
				return
			}
		}
	}
}

// ends writes the first and the last number beside their points, where the line is not.
func (v Curves) ends(c *canvas, labels *placed, curve Curve, at func(Point) point) {
	first, last := curve.Points[0], curve.Points[len(curve.Points)-1]
	rising := last.Y > first.Y
	below := 20.0
	if !rising {
		below = -11
	}
	place := point{at(first).x + 1, at(first).y + below}
	labels.free(place, v.Value(first.Y), 0)
	c.text(place, v.Value(first.Y), look{class: "hal"})
	if len(curve.Points) == 1 {
		return
	}
	place = at(last)
	limit := at(Point{X: last.X, Y: v.Limit}).y
	if rising && (v.Limit <= 0 || math.Abs(place.y-15-limit) >= 10) {
		place.y -= 11
	} else {
		place.y += 20
	}
	text := v.Value(last.Y)
	place.x += 6
	labels.free(point{place.x - textWidth(text), place.y}, text, 0)
	c.text(place, text, look{class: "hal", anchor: end})
}

// Thousands writes an axis value in short: "500", "5,000", "20K".
func Thousands(v float64) string {
	if v >= 1000 {
		return unit.Short(v)
	}
	return round(v)
}

// Milliseconds writes an axis value given in milliseconds: "100 ms", "10 s".
func Milliseconds(v float64) string {
	if v < 1000 {
		return round(v) + " ms"
	}
	return unit.Fixed(v/1000, 0) + " s"
}
