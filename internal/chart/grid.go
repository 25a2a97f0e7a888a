package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Cell is one place of a heat map.
type Cell struct {
	// Text is the number, Sub what stands below it, State the word of a state, if any.
	Text, Sub, State string
	// Heat says whether the cell has the colour of Step.
	Heat bool
	Step int
	// Pattern is the name of the state's pattern, "" for plain paper: see Patterns.
	Pattern string
}

// Patterns are the names of the patterns of states, the quietest first.
var Patterns = []string{"over", "long", "wait", "client", "loop", "fail"}

// HeatMap is a table of numbers in colours.
type HeatMap struct {
	Label, Title, Caption string
	// Corner is the head of the first column; Columns and Rows name the others.
	Corner        string
	Columns, Rows []string
	// Cells are row by row.
	Cells     [][]Cell
	Direction Direction
	// Low and High say what the ends of the scale are.
	Low, High string
	// Notes stand below, a line each.
	Notes []string
}

// The measures of a heat map.
const (
	heatFirst  = 76
	heatCell   = 106
	heatHeight = 54
	heatHead   = 108
	heatGap    = 2
)

// Draw draws the heat map; its size follows from its cells.
func (h HeatMap) Draw() Drawing {
	c := &canvas{}
	c.b.WriteString(patternDefs())
	width := max(heatFirst+len(h.Columns)*(heatCell+heatGap), 480)
	c.text(point{0, 18}, h.Title, look{class: "t"})
	c.text(point{0, 40}, h.Caption, look{class: "m"})
	h.legend(c)
	for i, column := range h.Columns {
		c.text(point{float64(heatFirst+i*(heatCell+heatGap)+heatCell) - 9, heatHead - 8}, column, look{anchor: end})
	}
	c.text(point{0, heatHead - 8}, h.Corner, look{})
	for i, row := range h.Rows {
		top := float64(heatHead + i*(heatHeight+heatGap))
		c.text(point{0, top + heatHeight/2 + 4}, row, look{class: "b"})
		for k, cell := range h.Cells[i] {
			h.cell(c, cell, box{float64(heatFirst + k*(heatCell+heatGap)), top, heatCell, heatHeight})
		}
	}
	height := heatHead + len(h.Rows)*(heatHeight+heatGap) + 8
	for _, note := range h.Notes {
		for _, line := range wrap(note, float64(width)) {
			height += 18
			c.text(point{0, float64(height) - 6}, line, look{class: "m"})
		}
	}
	return c.drawing(Size{width, height}, h.Label)
}

func (h HeatMap) letter() string {
	switch h.Direction {
	case MoreIsWorse:
		return "d"
	case Diverging:
		return "v"
	}
	return "u"
}

// steps is how many colours the scale has.
func (h HeatMap) steps() int {
	if h.Direction == Diverging {
		return Differences
	}
	return Steps
}

func (h HeatMap) legend(c *canvas) {
	if h.Low == "" {
		return
	}
	c.text(point{0, 66}, h.Low, look{})
	x := textWidth(h.Low) + 12
	for i := range h.steps() {
		c.rect(box{x + float64(i*23), 57, 22, 10}, fmt.Sprintf(`style="fill:var(--%s%d)"`, h.letter(), i))
	}
	c.text(point{x + float64(h.steps()*23) + 10, 66}, h.High, look{})
}

func (h HeatMap) cell(c *canvas, cell Cell, r box) {
	right := point{r.x + r.w - 9, r.y}
	switch {
	case cell.Heat:
		step := strconv.Itoa(cell.Step)
		c.rect(r, `rx="3" style="fill:var(--`+h.letter()+step+`)"`)
		c.b.WriteString(`<g style="--ink2:var(--` + h.letter() + "f" + step + `)">`)
		c.text(point{right.x, r.y + 24}, cell.Text, look{class: "v", anchor: end})
		below := cell.Sub
		if cell.State != "" {
			below = cell.State
			c.rect(box{r.x + 2, r.y + r.h - 5, r.w - 4, 2}, `style="fill:url(#dash);color:var(--`+h.letter()+"f"+step+`)"`)
		}
		c.text(point{right.x, r.y + 41}, below, look{class: "w", anchor: end})
		c.b.WriteString("</g>")
	case cell.Pattern != "":
		c.rect(r, `rx="3" fill="url(#`+cell.Pattern+`)"`)
		c.text(point{right.x, r.y + r.h/2 + 4}, cell.State, look{class: "w hal", anchor: end})
	default:
		c.text(point{right.x, r.y + r.h/2 + 4}, cell.State, look{class: "w", anchor: end})
	}
}

// patternDefs are the patterns of the states: told apart without colour.
func patternDefs() string {
	line := func(id string, size int, d, colour string) string {
		return fmt.Sprintf(`<pattern id="%s" width="%d" height="%d" patternUnits="userSpaceOnUse"><path d="%s" style="stroke:var(--%s);fill:none"/></pattern>`,
			id, size, size, d, colour)
	}
	return "<defs>" +
		line("over", 10, "M-1 1L1 -1M0 10L10 0M9 11L11 9", "hatch") +
		line("long", 7, "M.5 0V7", "hatch") +
		line("wait", 7, "M0 .5H7", "hatch") +
		line("client", 8, "M.5 0V8M0 .5H8", "hatch") +
		line("fail", 10, "M0 0L10 10M0 10L10 0", "rule2") +
		`<pattern id="loop" width="8" height="8" patternUnits="userSpaceOnUse"><circle cx="4" cy="4" r="1.2" style="fill:var(--rule2)"/></pattern>` +
		`<pattern id="dash" width="9" height="2" patternUnits="userSpaceOnUse"><rect width="5" height="2" fill="currentColor"/></pattern>` +
		"</defs>"
}

// wrap breaks a sentence into lines of about a width.
func wrap(s string, width float64) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && textWidth(line)+textWidth(word)+4 > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Bar is a quantity that a reader compares by its length.
type Bar struct {
	Name, Value, Also string
	// Share of the longest, 0–1.
	Share float64
}

// Bars is quantities below each other, from 0.
type Bars struct {
	Label, Title, Caption string
	Bars                  []Bar
}

// Draw draws the bars at a width; its height follows from their number.
func (v Bars) Draw(width int) Drawing {
	const head, row = 56, 26
	c := &canvas{}
	c.text(point{0, 18}, v.Title, look{class: "t"})
	c.text(point{0, 40}, v.Caption, look{class: "m"})
	names, values, also := 0.0, 0.0, 0.0
	for _, b := range v.Bars {
		names, values, also = max(names, textWidth(b.Name)), max(values, textWidth(b.Value)), max(also, textWidth(b.Also))
	}
	left := names + 16
	full := float64(width) - left - values - also - 44
	for i, b := range v.Bars {
		y := float64(head + i*row)
		c.text(point{0, y + 17}, b.Name, look{class: "b"})
		c.rect(box{left, y + 8, max(2, full*min(max(b.Share, 0), 1)), 10}, `class="ac" rx="2"`)
		c.text(point{float64(width) - also - 24, y + 17}, b.Value, look{class: "b", anchor: end})
		c.text(point{float64(width), y + 17}, b.Also, look{anchor: end})
	}
	return c.drawing(Size{width, head + len(v.Bars)*row + 8}, v.Label)
}

// Mark is how one place of a dot row came out.
type Mark int

// The marks.
const (
	MarkNone  Mark = iota // not run
	MarkFits              // keeps the limits
	MarkFails             // ran, does not keep them
	MarkQuiet             // ran, published no speed
)

// DotRow is one row of marks.
type DotRow struct {
	Name, Value, Why string
	Marks            []Mark
}

// Dots is a table of marks: what keeps a limit and what stops there.
type Dots struct {
	Label, Title, Caption string
	Columns               []string
	Rows                  []DotRow
	// Key explains the marks that occur.
	Key string
}

// Draw draws the table; its size follows from its marks.
func (v Dots) Draw() Drawing {
	const head, row, left, step = 84, 46, 132, 40
	c := &canvas{}
	c.text(point{0, 18}, v.Title, look{class: "t"})
	c.text(point{0, 40}, v.Caption, look{class: "m"})
	for i, name := range v.Columns {
		c.text(point{float64(left + i*step), head - 12}, name, look{})
	}
	width := max(left+len(v.Columns)*step, 420)
	for i, r := range v.Rows {
		y := float64(head + i*row)
		c.line(point{0, y}, point{float64(width), y}, "g")
		c.text(point{0, y + 19}, r.Name, look{class: "b"})
		c.text(point{left - 28, y + 20}, r.Value, look{class: "t", anchor: end})
		for k, m := range r.Marks {
			drawMark(c, point{float64(left+k*step) + 5, y + 15}, m)
		}
		c.text(point{left, y + 37}, r.Why, look{class: "m"})
	}
	height := head + len(v.Rows)*row + 22
	c.text(point{0, float64(height) - 6}, v.Key, look{class: "m"})
	return c.drawing(Size{width, height}, v.Label)
}

func drawMark(c *canvas, at point, m Mark) {
	switch m {
	case MarkFits:
		c.dot(at, 5, "fill:var(--accent)", "")
	case MarkFails:
		c.dot(at, 4.3, "fill:none;stroke:var(--ink3);stroke-width:1.5", "")
	case MarkQuiet:
		c.dot(at, 4.3, "fill:none;stroke:var(--ink3);stroke-width:1.5;stroke-dasharray:1.5 2", "")
	default:
		c.rect(box{math.Round(at.x) - 4, at.y - 0.8, 8, 1.5}, `style="fill:var(--rule2)"`)
	}
}
