package chart

import (
	"math"
	"slices"
)

// Point is a place on a line of a chart.
type Point struct {
	X, Y float64
	// Label stands beside the point, Title is what a pointer over it shows.
	Label, Title string
	// Hollow marks a point that is not quite like the others.
	Hollow bool
}

// Line is points in order, under a name.
type Line struct {
	Name   string
	Points []Point
}

// Tradeoff is one number against another that is paid for it, a line for each
// set-up: x linear from 0, y on a log scale. Values have to be above 0.
type Tradeoff struct {
	Label          string
	XTitle, YTitle string
	Lines          []Line
	// Floor shades what lies left of it; FloorText says why. 0 is none.
	Floor     float64
	FloorText string
}

// The room around the axes of a trade-off.
const (
	tradeLeft   = 48
	tradeRight  = 14
	tradeTop    = 46
	tradeBottom = 44
)

// Draw draws the chart; without points it is empty.
func (t Tradeoff) Draw(s Size) Drawing {
	c := &canvas{}
	var xs, ys []float64
	for _, line := range t.Lines {
		for _, p := range line.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	lo, hi, ok := bounds(ys)
	if !ok {
		return c.drawing(s, t.Label)
	}
	_, right, _ := bounds(xs)
	right = max(right*1.04, t.Floor*1.25)
	step := evenStep(right, 7)
	x := scale{lo: 0, hi: math.Ceil(right/step) * step, from: tradeLeft, to: float64(s.Width - tradeRight)}
	y := scale{lo: lo * 0.8, hi: hi * 1.25, from: float64(s.Height - tradeBottom), to: tradeTop, log: true}
	t.axes(c, s, x, y)
	t.lines(c, x, y)
	return c.drawing(s, t.Label)
}

func (t Tradeoff) axes(c *canvas, s Size, x, y scale) {
	bottom := float64(s.Height - tradeBottom)
	if t.Floor > 0 {
		c.rect(box{tradeLeft, tradeTop, x.at(t.Floor) - tradeLeft, bottom - tradeTop}, `class="fl"`)
	}
	for _, v := range logTicks(y.lo, y.hi, 9) {
		c.line(point{tradeLeft, y.at(v)}, point{x.to, y.at(v)}, "g")
		c.text(point{tradeLeft - 8, y.at(v) + 4}, round(v), look{anchor: end})
	}
	for _, v := range evenTicks(0, x.hi, 7) {
		c.line(point{x.at(v), bottom}, point{x.at(v), bottom + 4}, "ax")
		c.text(point{x.at(v), bottom + 19}, round(v), look{anchor: middle})
	}
	c.line(point{tradeLeft, bottom}, point{x.to, bottom}, "ax")
	if t.Floor > 0 {
		c.line(point{x.at(t.Floor), tradeTop}, point{x.at(t.Floor), bottom}, "fll")
		c.text(point{x.at(t.Floor) - 1, tradeTop - 8}, t.FloorText, look{class: "m hal"})
	}
	c.text(point{0, 12}, t.YTitle, look{})
	c.text(point{x.to, float64(s.Height) - 4}, t.XTitle, look{anchor: end})
}

// crowded is the number of lines beyond which only the outermost have labels at their points.
const crowded = 6

// lines draws points and lines, then all labels above them: the names of the lines, the first
// and the last in any case, and as many of the points' labels as have room.
func (t Tradeoff) lines(c *canvas, x, y scale) {
	lines := slices.DeleteFunc(slices.Clone(t.Lines), func(l Line) bool { return len(l.Points) == 0 })
	at := func(p Point) point { return point{x.at(p.X), y.at(p.Y)} }
	for i, line := range lines {
		colour := lineColour(i, len(lines))
		var points []point
		for _, p := range line.Points {
			points = append(points, at(p))
		}
		c.path(points, "stroke:"+colour)
		for k, p := range line.Points {
			c.dot(points[k], 4, dotStyle(colour, p.Hollow), p.Title)
		}
	}
	labels := &placed{}
	nameLines(c, labels, lines, at)
	for i, line := range lines {
		if len(lines) > crowded && i > 0 && i < len(lines)-1 {
			continue
		}
		for _, p := range slices.Backward(line.Points) {
			place := point{at(p).x + 8, at(p).y + 1}
			if labels.free(place, p.Label, 6) {
				c.text(place, p.Label, look{class: "hal m"})
			}
		}
	}
}

// nameLines writes the names of lines at their ends, in their order: a little lower where
// another one stands, and not at all where that is not enough, except for the last line.
func nameLines(c *canvas, labels *placed, lines []Line, at func(Point) point) {
	for i, line := range lines {
		place, l := nameAt(line, at(line.Points[len(line.Points)-1]))
		for _, shift := range []float64{0, 7, 14} {
			left := point{place.x, place.y + shift}
			if l.anchor == end {
				left.x -= textWidth(line.Name)
			}
			if labels.free(left, line.Name, 2) || i == len(lines)-1 && shift == 14 {
				c.text(point{place.x, place.y + shift}, line.Name, l)
				break
			}
		}
	}
}

// nameAt is where a line's name stands: before its end, or after the end's own label where
// the axis leaves no room.
func nameAt(line Line, last point) (point, look) {
	if last.x-19-1.1*textWidth(line.Name) >= tradeLeft {
		return point{last.x - 9, last.y + 4}, look{class: "b hal", anchor: end}
	}
	return point{last.x + 14 + textWidth(line.Points[len(line.Points)-1].Label), last.y + 4}, look{class: "b hal"}
}

func dotStyle(colour string, hollow bool) string {
	if hollow {
		return "fill:var(--paper);stroke:" + colour + ";stroke-width:2"
	}
	return "fill:" + colour + ";stroke:var(--paper);stroke-width:1.5"
}

// placed remembers where labels stand.
type placed struct{ boxes []box }

// free says whether a label has room there, with a gap beside it, and keeps the room if so.
func (p *placed) free(at point, s string, gap float64) bool {
	b := box{at.x, at.y - 10, textWidth(s), 12}
	for _, o := range p.boxes {
		if b.x < o.x+o.w+gap && o.x < b.x+b.w+gap && b.y < o.y+o.h && o.y < b.y+b.h {
			return false
		}
	}
	p.boxes = append(p.boxes, b)
	return true
}
