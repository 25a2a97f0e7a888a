package chart

import (
	"math"
	"slices"

	"speedmatrix/internal/unit"
)

// Sample is a value at a time, in seconds from the start of a timeline.
type Sample struct{ Seconds, Value float64 }

// Lane is one quantity over time.
type Lane struct {
	Name    string
	Samples []Sample
	// Last is what stands at the end of the lane: the last value, or the mean.
	Last string
	// Mean draws a dashed line, nil none.
	Mean *float64
	// Main gives the lane the accent colour and more room.
	Main bool
	// Step keeps a value until the next one.
	Step bool
	// Top is the least upper end of the scale; it begins at 0.
	Top float64
}

// Timeline is quantities over the same time, below each other.
type Timeline struct {
	Label string
	// Seconds is the length of the time.
	Seconds float64
	Lanes   []Lane
}

// The measures of a timeline.
const (
	laneHead  = 20
	laneMain  = 70
	laneOther = 34
	laneGap   = 10
	laneRight = 64
	timeFoot  = 22
)

// Draw draws the timeline at a width; its height follows from its lanes.
func (t Timeline) Draw(width int) Drawing {
	c := &canvas{}
	x := scale{lo: 0, hi: max(t.Seconds, 1e-9), from: 0, to: float64(width - laneRight)}
	top := 0.0
	for i, lane := range t.Lanes {
		if i > 0 {
			top += laneGap
		}
		height := float64(laneOther)
		if lane.Main {
			height = laneMain
		}
		drawLane(c, lane, x, box{0, top, x.to, laneHead + height})
		top += laneHead + height
	}
	for _, v := range evenTicks(0, t.Seconds, 4) {
		anchor := middle
		if v == 0 {
			anchor = ""
		}
		c.text(point{x.at(v), top + 17}, round(v)+" s", look{class: "m", anchor: anchor})
	}
	return c.drawing(Size{width, int(top) + timeFoot}, t.Label)
}

func drawLane(c *canvas, lane Lane, x scale, r box) {
	bottom := r.y + r.h
	c.line(point{0, bottom}, point{r.w, bottom}, "g")
	highest := lane.Top
	for _, s := range lane.Samples {
		highest = max(highest, s.Value)
	}
	y := scale{lo: 0, hi: max(highest*1.05, 1e-9), from: bottom, to: r.y + laneHead}
	var points []point
	for i, s := range lane.Samples {
		if lane.Step && i > 0 {
			points = append(points, point{x.at(s.Seconds), points[len(points)-1].y})
		}
		points = append(points, point{x.at(s.Seconds), y.at(s.Value)})
	}
	if lane.Mean != nil {
		c.line(point{0, y.at(*lane.Mean)}, point{r.w, y.at(*lane.Mean)}, "fll")
	}
	style := "stroke:var(--ink3);stroke-width:1.5"
	if lane.Main {
		style = "stroke:var(--accent);stroke-width:1.5"
	}
	c.path(points, style)
	c.text(point{0, r.y + 11}, lane.Name, look{class: "b"})
	if n := len(points); n > 0 {
		at := points[n-1].y
		if lane.Mean != nil {
			at = y.at(*lane.Mean)
		}
		c.text(point{r.w + 8, at + 4}, lane.Last, look{})
	}
}

// Quantile is a named value of a distribution: "p50".
type Quantile struct {
	Name  string
	Value float64
}

// Histogram is how often values came.
type Histogram struct {
	Label, Title string
	Values       []float64
	Marks        []Quantile
	// Format writes the values of marks.
	Format func(float64) string
	Unit   string
}

// The measures of a histogram.
const (
	histTop    = 40
	histBottom = 38
	histRight  = 12
	histBins   = 36
)

// Draw draws the histogram; the height of a bar is the square root of its count, so that rare
// values stay visible. What lies beyond the 99.9th hundredth stands in the last bar.
func (h Histogram) Draw(s Size) Drawing {
	c := &canvas{}
	if len(h.Values) == 0 {
		return c.drawing(s, h.Label)
	}
	sorted := slices.Sorted(slices.Values(h.Values))
	lo, hi := sorted[0], sorted[min(len(sorted)-1, len(sorted)*999/1000)]
	for _, m := range h.Marks {
		hi = max(hi, m.Value)
	}
	if hi-lo < 1e-9 {
		lo, hi = lo*0.9, hi*1.1+1e-9
	}
	counts := make([]int, histBins)
	for _, v := range sorted {
		counts[min(max(int((v-lo)/(hi-lo)*histBins), 0), histBins-1)]++
	}
	bottom := float64(s.Height - histBottom)
	x := scale{lo: lo, hi: hi, from: 0, to: float64(s.Width - histRight)}
	most := float64(slices.Max(counts))
	bin := x.to / histBins
	for i, n := range counts {
		if n == 0 {
			continue
		}
		tall := max((bottom-histTop)*math.Sqrt(float64(n)/most), 1)
		c.rect(box{float64(i)*bin + 0.5, bottom - tall, bin - 1, tall}, `class="ac"`)
	}
	c.line(point{0, bottom}, point{x.to, bottom}, "ax")
	h.marks(c, x, bottom)
	for _, v := range evenTicks(lo, hi, 4) {
		c.text(point{x.at(v), bottom + 17}, round(v), look{class: "m", anchor: middle})
	}
	c.text(point{0, 11}, h.Title, look{class: "b"})
	c.text(point{0, float64(s.Height) - 4}, h.Unit, look{class: "m"})
	c.text(point{x.to, float64(s.Height) - 4}, "height: square root of the count", look{class: "m", anchor: end})
	return c.drawing(s, h.Label)
}

func (h Histogram) marks(c *canvas, x scale, bottom float64) {
	labels := &placed{}
	for _, m := range h.Marks {
		at := point{x.at(m.Value), histTop - 4}
		c.line(point{at.x, histTop - 2}, point{at.x, bottom}, "fll")
		text, l := m.Name+" "+h.Format(m.Value), look{class: "hal"}
		place := point{at.x + 4, at.y}
		if place.x+textWidth(text) > x.to+histRight {
			place.x, l.anchor = at.x-4, end
		}
		left := place
		if l.anchor == end {
			left.x -= textWidth(text)
		}
		if labels.free(left, text, 2) {
			c.text(place, text, l)
		}
	}
}

// Strip is a few values on a line, each a dot.
type Strip struct {
	Label, Title string
	Values       []float64
	Marks        []Quantile
	Format       func(float64) string
	Unit         string
}

// StripHeight is the height of a strip in pixels.
const StripHeight = 92

// Draw draws the strip at a width.
func (p Strip) Draw(width int) Drawing {
	const line = 58
	c := &canvas{}
	size := Size{width, StripHeight}
	if len(p.Values) == 0 {
		return c.drawing(size, p.Label)
	}
	_, hi, _ := bounds(p.Values)
	step := evenStep(max(hi, 1e-9), 4)
	x := scale{lo: 0, hi: math.Ceil(hi/step) * step, from: 6, to: float64(width - histRight - 6)}
	c.line(point{0, line}, point{float64(width - histRight), line}, "ax")
	for _, v := range p.Values {
		c.dot(point{x.at(v), line - 13}, 4.5, "fill:var(--dn);fill-opacity:.6;stroke:var(--paper);stroke-width:1", "")
	}
	for i, v := range evenTicks(0, x.hi, 4) {
		l := look{class: "m", anchor: middle}
		if i == 0 {
			l.anchor = ""
		}
		c.text(point{x.at(v) - 6*float64(btoi(i == 0)), line + 17}, unit.Fixed(v, decimals(step)), l)
	}
	c.text(point{0, 11}, p.Title, look{class: "b"})
	c.text(point{0, StripHeight - 2}, p.Unit, look{class: "m"})
	for _, m := range p.Marks {
		at := x.at(m.Value)
		c.line(point{at, 28}, point{at, line}, "fll")
		l, dx := look{class: "hal"}, 4.0
		text := m.Name + " " + p.Format(m.Value)
		if at+textWidth(text) > float64(width) {
			l.anchor, dx = end, -4
		}
		c.text(point{at + dx, 29}, text, l)
	}
	return c.drawing(size, p.Label)
}

// decimals is how many a step of an axis needs.
func decimals(step float64) int {
	if step >= 1 {
		return 0
	}
	return min(6, int(math.Ceil(-math.Log10(step)-1e-9)))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
