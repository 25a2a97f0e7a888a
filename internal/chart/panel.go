package chart

import (
	"strconv"
	"strings"
)

// Panel is a small trade-off without words: x linear from 0, y on a log scale, a line for each context in their order.
// Several stand beside each other on the axes that they share. A site's policy forbids styles in elements, so the colours
// are attributes. Values have to be above 0.
type Panel struct {
	Label string
	Lines []Line
	// Right, Low and High are the ends of the axes: see PanelAxes.
	Right, Low, High float64
	// Floor shades what lies left of it; 0 is none.
	Floor float64
}

// PanelAxes gives panels the axes that hold all of them.
func PanelAxes(panels []Panel) {
	var xs, ys []float64
	for _, p := range panels {
		xs = append(xs, p.Floor*1.25)
		for _, line := range p.Lines {
			for _, at := range line.Points {
				xs, ys = append(xs, at.X), append(ys, at.Y)
			}
		}
	}
	_, right, _ := bounds(xs)
	low, high, _ := bounds(ys)
	for i := range panels {
		panels[i].Right, panels[i].Low, panels[i].High = right*1.04, low*0.7, high*1.6
	}
}

// The room around the axes of a panel.
const (
	panelLeft   = 40
	panelRight  = 8
	panelTop    = 8
	panelBottom = 22
)

// Draw draws the panel; without axes it is empty.
func (t Panel) Draw(s Size) Drawing {
	c := &canvas{}
	if !(t.Right > 0) || !(t.Low > 0) || !(t.High > t.Low) {
		return c.drawing(s, t.Label)
	}
	x := scale{lo: 0, hi: t.Right, from: panelLeft, to: float64(s.Width - panelRight)}
	y := scale{lo: t.Low, hi: t.High, from: float64(s.Height - panelBottom), to: panelTop, log: true}
	if t.Floor > 0 {
		c.rect(box{panelLeft, panelTop, x.at(t.Floor) - panelLeft, y.from - panelTop}, `class="fl"`)
	}
	for _, v := range logTicks(y.lo, y.hi, max(3, s.Height/20)) {
		c.line(point{panelLeft, y.at(v)}, point{x.to, y.at(v)}, "g")
		c.text(point{panelLeft - 7, y.at(v) + 4}, Thousands(v), look{anchor: end})
	}
	for _, v := range evenTicks(0, x.hi, max(2, (s.Width-panelLeft-panelRight)/48)) {
		c.text(point{x.at(v), float64(s.Height) - 4}, round(v), look{anchor: middle})
	}
	c.line(point{panelLeft, y.from}, point{x.to, y.from}, "ax")
	if t.Floor > 0 {
		c.line(point{x.at(t.Floor), panelTop}, point{x.at(t.Floor), y.from}, "fll")
	}
	t.lines(c, x, y)
	return c.drawing(s, t.Label)
}

// lines draws the lines and the label at the end of the first, which lies on top.
func (t Panel) lines(c *canvas, x, y scale) {
	for i, line := range t.Lines {
		colour := lineColour(i, len(t.Lines))
		var path strings.Builder
		for k, p := range line.Points {
			path.WriteString([]string{"M", "L"}[min(k, 1)] + pair(point{x.at(p.X), y.at(p.Y)}))
		}
		if len(line.Points) > 1 {
			c.b.WriteString(`<path class="ln" stroke="` + colour + `" d="` + path.String() + `"/>`)
		}
		for _, p := range line.Points {
			c.disc(point{x.at(p.X), y.at(p.Y)}, 2.5, colour)
		}
	}
	if len(t.Lines) > 0 && len(t.Lines[0].Points) > 0 {
		last := t.Lines[0].Points[len(t.Lines[0].Points)-1]
		c.text(point{x.at(last.X) + 7, y.at(last.Y) + 1}, last.Label, look{class: "hal b"})
	}
}

// disc is a dot whose colour is an attribute.
func (c *canvas) disc(at point, r float64, colour string) {
	c.b.WriteString(`<circle cx="` + short(at.x) + `" cy="` + short(at.y) + `" r="` + strconv.FormatFloat(r, 'g', -1, 64) + `" fill="` + colour + `"/>`)
}
