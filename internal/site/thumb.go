package site

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// thumbSize is how large the cells of a small heat map are, in CSS pixels.
type thumbSize struct {
	w, h, gap int
	// named adds the contexts and the requests at once beside the cells.
	named bool
}

var (
	inTables = thumbSize{w: 5, h: 4, gap: 1}
	inNewest = thumbSize{w: 28, h: 14, gap: 2}
	inReview = thumbSize{w: 34, h: 20, gap: 3, named: true}
)

// The room of the names beside a heat map.
const (
	thumbLeft = 44
	thumbTop  = 22
)

// columnsOfThumb are the requests at once that every small heat map has room for.
var columnsOfThumb = []int{1, 2, 4, 8, 16, 32, 64, 128}

// mostThumbRows bounds the contexts of a small heat map, mostThumbColumns the requests at once of a run that has others.
const (
	mostThumbRows    = 8
	mostThumbColumns = 12
)

// thumbStep is the colour of total tok/s on the one scale of the whole site: each step doubles, from 32 to 2,048.
func thumbStep(total float32) int {
	step := 0
	for edge := float32(32); step < chart.Steps-1 && total >= edge; edge *= 2 {
		step++
	}
	return step
}

// thumb is a small heat map of a run; ringed are cells with a line around them.
func thumb(e *catalog.Entry, s thumbSize, ringed []string) template.HTML {
	body, width, height := thumbBody(e, s, ringed)
	x, y := 0, 0
	if s.named {
		x, y = thumbLeft, thumbTop
	}
	return template.HTML(fmt.Sprintf(`<svg class="th" width="%d" height="%d" viewBox="%d %d %d %d" role="img" aria-label="%s">%s</svg>`,
		width+x, height+y, -x, -y, width+x, height+y, template.HTMLEscapeString(thumbSays(e)), body))
}

// thumbSays is a small heat map in words.
func thumbSays(e *catalog.Entry) string {
	least, most, n := float32(0), float32(0), 0
	for _, c := range e.Cells {
		if !c.Status.ShowsSpeed() || !known(c.Total) {
			continue
		}
		if n == 0 || c.Total < least {
			least = c.Total
		}
		most = max(most, c.Total)
		n++
	}
	if n == 0 {
		return "No cell has a speed"
	}
	return fmt.Sprintf("Total tok/s from %s to %s, %d of %d cells measured", whole(float64(least)), whole(float64(most)), n, len(e.Cells))
}

// thumbAxes are the columns and rows of a run's small heat map.
func thumbAxes(e *catalog.Entry) (columns, rows []int, labels map[int]string) {
	columns, labels = columnsOfThumb, map[int]string{}
	var own []int
	for _, c := range e.Cells {
		if !slices.Contains(own, c.Concurrency) {
			own = append(own, c.Concurrency)
		}
		if _, there := labels[c.Context]; !there {
			labels[c.Context] = clip(c.Label, 6)
			rows = append(rows, c.Context)
		}
	}
	if slices.ContainsFunc(own, func(n int) bool { return !slices.Contains(columnsOfThumb, n) }) {
		slices.Sort(own)
		columns = own[:min(len(own), mostThumbColumns)]
	}
	slices.Sort(rows)
	if len(rows) > mostThumbRows {
		rows = append(rows[:mostThumbRows-1:mostThumbRows-1], rows[len(rows)-1])
	}
	return columns, rows, labels
}

// thumbBody draws the cells: a path for each step, and one for each kind of mark.
func thumbBody(e *catalog.Entry, s thumbSize, ringed []string) (body string, width, height int) {
	columns, rows, labels := thumbAxes(e)
	d := &thumbPaths{s: s}
	for i := range e.Cells {
		c := &e.Cells[i]
		column, row := slices.Index(columns, c.Concurrency), slices.Index(rows, c.Context)
		if column < 0 || row < 0 {
			continue
		}
		x, y := column*(s.w+s.gap), row*(s.h+s.gap)
		d.cell(c, x, y)
		if slices.Contains(ringed, speedmatrix.CellKey(speedmatrix.PhaseDecode, c.Label, c.Concurrency)) {
			fmt.Fprintf(&d.rings, "M%s %sh%dv%dh-%dz", half(2*x-3), half(2*y-3), s.w+3, s.h+3, s.w+3)
		}
	}
	var b strings.Builder
	for step := range d.heat {
		if d.heat[step].Len() > 0 {
			fmt.Fprintf(&b, `<path class="h%d" d="%s"/>`, step, d.heat[step].String())
		}
	}
	dot := 2
	if s.w < 8 {
		dot = 1
	}
	for _, p := range []struct {
		class string
		path  *strings.Builder
		width int
	}{{"td", &d.dots, dot}, {"tm", &d.crosses, 0}, {"tq", &d.queues, 0}, {"tr", &d.rings, 0}} {
		switch {
		case p.path.Len() == 0:
		case p.width > 0:
			fmt.Fprintf(&b, `<path class="%s" stroke-width="%d" d="%s"/>`, p.class, p.width, p.path.String())
		default:
			fmt.Fprintf(&b, `<path class="%s" d="%s"/>`, p.class, p.path.String())
		}
	}
	if s.named {
		for i, context := range rows {
			fmt.Fprintf(&b, `<text x="-10" y="%d" text-anchor="end" class="b">%s</text>`, i*(s.h+s.gap)+s.h/2+4, template.HTMLEscapeString(labels[context]))
		}
		for i, n := range columns {
			fmt.Fprintf(&b, `<text x="%d" y="-8" text-anchor="middle">%s</text>`, i*(s.w+s.gap)+s.w/2, unit.Count(n))
		}
	}
	return b.String(), max(1, len(columns)*(s.w+s.gap)-s.gap), max(1, len(rows)*(s.h+s.gap)-s.gap)
}

// thumbPaths collect the marks of a small heat map.
type thumbPaths struct {
	s                            thumbSize
	heat                         [chart.Steps]strings.Builder
	dots, crosses, queues, rings strings.Builder
}

func (d *thumbPaths) cell(c *catalog.Cell, x, y int) {
	w, h := d.s.w, d.s.h
	switch {
	case c.Status.ShowsSpeed() && known(c.Total):
		step := thumbStep(c.Total)
		if step == 0 {
			fmt.Fprintf(&d.heat[0], "M%d.4 %d.4h%d.2v%d.2h-%d.2z", x, y, w-1, h-1, w-1)
		} else {
			fmt.Fprintf(&d.heat[step], "M%d %dh%dv%dh-%dz", x, y, w, h, w)
		}
		if c.Status == speedmatrix.StatusRequestsQueued {
			foot := 2*(y+h) - 5
			if h < 8 {
				foot = 2*(y+h) - 2
			}
			fmt.Fprintf(&d.queues, "M%d %sh%d", x+1, half(foot), w-2)
		}
	case c.Status == speedmatrix.StatusOverCapacity:
		dot := 2
		if w < 8 {
			dot = 1
		}
		fmt.Fprintf(&d.dots, "M%s %dh%d", half(2*x+w-dot), y+h/2, dot)
	case c.Status != "":
		arm := float64(min(w, h)) * 0.28
		mx, my := float64(x)+float64(w)/2, float64(y)+float64(h)/2
		fmt.Fprintf(&d.crosses, "M%.4g %.4gL%.4g %.4gM%.4g %.4gL%.4g %.4g", mx-arm, my-arm, mx+arm, my+arm, mx-arm, my+arm, mx+arm, my-arm)
	}
}

// half writes n halves of a pixel.
func half(n int) string { return strconv.FormatFloat(float64(n)/2, 'g', -1, 64) }

// ramp is the scale of all small heat maps, shown once on a page.
func ramp() template.HTML {
	var b strings.Builder
	b.WriteString(`<p class="legend"><span>total tok/s: under 32</span><span class="ramp" aria-hidden="true">`)
	for i := range chart.Steps {
		fmt.Fprintf(&b, `<i class="r%d"></i>`, i)
	}
	b.WriteString(`</span><span>2,048 and more</span><span class="k3">each step doubles, the same on every picture of this site</span></p>`)
	return template.HTML(b.String())
}
