package chart

import (
	"math"
	"strings"
)

// TrendPoint is a number at one step of a sequence, such as a version.
type TrendPoint struct {
	Name, Sub string
	// Value and the half width of its interval, 0 for none; Text is the value in words.
	Value, Half float64
	Text        string
	// Change is written between the point before it and this one; Sure in bold.
	Change string
	Sure   bool
}

// Trend is a number over a sequence, with whiskers. Its axis does not start at 0, so what shows it says so. Colours are
// classes and attributes, for a site's policy forbids styles in elements.
type Trend struct {
	Label  string
	Points []TrendPoint
}

// The room around the axes of a trend.
const (
	trendLeft   = 44
	trendRight  = 30
	trendTop    = 26
	trendBottom = 42
)

// Draw draws the trend; without points it is empty.
func (t Trend) Draw(s Size) Drawing {
	c := &canvas{}
	if len(t.Points) == 0 {
		return c.drawing(s, t.Label)
	}
	low, high := t.Points[0].Value, t.Points[0].Value
	for _, p := range t.Points {
		low, high = min(low, p.Value-p.Half), max(high, p.Value+p.Half)
	}
	step := evenStep(max(high-low, math.Abs(high)*0.02), 5)
	low, high = math.Floor(low/step-0.8)*step, math.Ceil(high/step+0.3)*step
	y := scale{lo: low, hi: high, from: float64(s.Height - trendBottom), to: trendTop}
	x := scale{lo: 0, hi: float64(len(t.Points) - 1), from: trendLeft + 24, to: float64(s.Width - trendRight - 16)}
	for i, v := range evenTicks(low, high, 9) {
		class := "g"
		if i == 0 {
			class = "ax"
		}
		c.line(point{trendLeft, y.at(v)}, point{float64(s.Width - trendRight), y.at(v)}, class)
		c.text(point{trendLeft - 8, y.at(v) + 4}, round(v), look{anchor: end})
	}
	t.points(c, s, x, y)
	return c.drawing(s, t.Label)
}

// crowdedTrend is the width below which a change that is not sure is left out.
const crowdedTrend = 100

func (t Trend) points(c *canvas, s Size, x, y scale) {
	var path strings.Builder
	for i, p := range t.Points {
		path.WriteString([]string{"M", "L"}[min(i, 1)] + pair(point{x.at(float64(i)), y.at(p.Value)}))
	}
	if len(t.Points) > 1 {
		c.b.WriteString(`<path class="ln" stroke="var(--accent)" d="` + path.String() + `"/>`)
	}
	bottom := float64(s.Height - trendBottom)
	apart := (x.to - x.from) / max(1, x.hi)
	every := int(math.Ceil(46 / apart))
	for i, p := range t.Points {
		at := point{x.at(float64(i)), y.at(p.Value)}
		top := at.y
		if p.Half > 0 {
			foot := y.at(p.Value - p.Half)
			top = y.at(p.Value + p.Half)
			c.b.WriteString(`<path class="iv" d="M` + pair(point{at.x, foot}) + "V" + short(top) + "M" + pair(point{at.x - 4, foot}) + "h8M" + pair(point{at.x - 4, top}) + `h8"/>`)
		}
		c.disc(at, 3.5, "var(--accent)")
		if (len(t.Points)-1-i)%every != 0 {
			continue
		}
		c.text(point{at.x, top - 9}, p.Text, look{class: "b hal", anchor: middle})
		c.text(point{at.x, bottom + 18}, p.Name, look{anchor: middle})
		c.text(point{at.x, bottom + 34}, p.Sub, look{class: "m", anchor: middle})
		if i > 0 && p.Change != "" && every == 1 && (p.Sure || apart > crowdedTrend) {
			class := "m hal"
			if p.Sure {
				class = "b hal"
			}
			c.text(point{at.x - apart/2, bottom - 10}, p.Change, look{class: class, anchor: middle})
		}
	}
}
