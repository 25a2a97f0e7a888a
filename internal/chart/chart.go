// Package chart turns numbers into pictures: SVG drawings of a fixed width, and
// a PNG card for link previews. It knows scales, colours and labels, and nothing
// of what the numbers mean. The same numbers give the same bytes.
//
// A drawing is never scaled, so that no text in it becomes too small to read:
// its width is an argument, and a page draws a wide and a narrow one. Colours
// are CSS variables (see Variables), so that one drawing serves the light and the
// dark scheme.
package chart

import (
	"math"
	"strconv"
	"strings"

	"speedmatrix/internal/unit"
)

// Drawing is a finished SVG picture.
type Drawing struct {
	// Width and Height are in CSS pixels.
	Width, Height int
	// Label says what the picture shows, for those who do not see it.
	Label string
	body  string
}

// Size is the room that a drawing is given, in CSS pixels.
type Size struct{ Width, Height int }

// Inline gives the picture as an element of a page that has Variables and Rules
// in its style sheet.
func (d Drawing) Inline() string { return d.element("") }

// File gives the picture as a file of its own, with its styles.
func (d Drawing) File() []byte {
	style := "<style>" + Variables() + Rules() + "svg{background:var(--paper)}</style>"
	out := d.element(` xmlns="http://www.w3.org/2000/svg"`)
	head, rest, _ := strings.Cut(out, ">")
	return []byte(head + ">" + style + rest + "\n")
}

func (d Drawing) element(extra string) string {
	w, h := strconv.Itoa(d.Width), strconv.Itoa(d.Height)
	return "<svg" + extra + ` width="` + w + `" height="` + h + `" viewBox="0 0 ` + w + " " + h +
		`" role="img" aria-label="` + escaper.Replace(d.Label) + `">` + d.body + "</svg>"
}

// Padded is the drawing with free room around it, for a file of its own.
func (d Drawing) Padded(by int) Drawing {
	shift := strconv.Itoa(by)
	d.body = `<g transform="translate(` + shift + " " + shift + `)">` + d.body + "</g>"
	d.Width, d.Height = d.Width+2*by, d.Height+2*by
	return d
}

// escaper makes text safe in element content and in attributes.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// canvas collects the elements of a drawing.
type canvas struct{ b strings.Builder }

func (c *canvas) drawing(s Size, label string) Drawing {
	return Drawing{Width: s.Width, Height: s.Height, Label: label, body: c.b.String()}
}

// point is a place in a drawing, in pixels from its upper left corner.
type point struct{ x, y float64 }

// look is how text stands: its classes and, where it does not start there, its anchor.
type look struct{ class, anchor string }

// Anchors of text.
const (
	middle = "middle"
	end    = "end"
)

func (c *canvas) text(at point, s string, l look) {
	c.b.WriteString(`<text x="` + short(at.x) + `" y="` + short(at.y) + `"`)
	if l.anchor != "" {
		c.b.WriteString(` text-anchor="` + l.anchor + `"`)
	}
	if l.class != "" {
		c.b.WriteString(` class="` + l.class + `"`)
	}
	c.b.WriteString(">" + escaper.Replace(s) + "</text>")
}

func (c *canvas) line(from, to point, class string) {
	c.b.WriteString(`<path class="` + class + `" d="M` + pair(from) + "L" + pair(to) + `"/>`)
}

// path draws a line through points in a style.
func (c *canvas) path(points []point, style string) {
	if len(points) < 2 {
		return
	}
	c.b.WriteString(`<path class="ln" style="` + style + `" d="`)
	for i, p := range points {
		if i == 0 {
			c.b.WriteString("M" + pair(p))
			continue
		}
		c.b.WriteString("L" + pair(p))
	}
	c.b.WriteString(`"/>`)
}

// dot draws a disc; title is what a pointer over it shows, "" for nothing.
func (c *canvas) dot(at point, r float64, style, title string) {
	c.b.WriteString(`<circle cx="` + short(at.x) + `" cy="` + short(at.y) + `" r="` + short(r) + `" style="` + style + `"`)
	if title == "" {
		c.b.WriteString("/>")
		return
	}
	c.b.WriteString("><title>" + escaper.Replace(title) + "</title></circle>")
}

// box is a rectangle of a drawing.
type box struct{ x, y, w, h float64 }

func (c *canvas) rect(r box, attributes string) {
	c.b.WriteString(`<rect x="` + short(r.x) + `" y="` + short(r.y) + `" width="` + short(r.w) + `" height="` + short(r.h) + `" ` + attributes + "/>")
}

func pair(p point) string { return short(p.x) + " " + short(p.y) }

// short writes a coordinate to a tenth of a pixel.
func short(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	v = math.Round(v*10) / 10
	if v == 0 {
		return "0"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// textWidth estimates how wide text of 12 px is; sure enough to keep labels apart.
func textWidth(s string) float64 { return 6.7 * float64(len([]rune(s))) }

// round writes an axis value: "0.5", "20", "1,000".
func round(v float64) string {
	if v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return unit.Fixed(v, 0)
}
