package chart

import (
	"math"
	"slices"
)

// Course is quantities over a whole run, below each other, with the times at which something was measured shaded.
type Course struct {
	Label string
	// Seconds is the length of the time.
	Seconds float64
	Lanes   []CourseLane
	Bands   []Band
	// Gap is the longest time between two samples over which a line goes on, in seconds.
	Gap float64
}

// CourseLane is one quantity, of one or more things of a kind.
type CourseLane struct {
	Name string
	// Series are the samples of each thing, in order of time.
	Series [][]Sample
	// Range says between what the values go: "1,755–1,890 MHz".
	Range string
	// Limit draws a dashed line that LimitName names, nil none.
	Limit     *float64
	LimitName string
	Main      bool
}

// Band is a time that is shaded. Neighbours of one name share its label.
type Band struct {
	From, To float64
	Name     string
}

// The measures of a course.
const (
	courseHead = 16
	courseLane = 62
	courseGap  = 14
	courseFoot = 22
)

// Draw draws the course at a width; its height follows from its lanes.
func (t Course) Draw(width int) Drawing {
	c := &canvas{}
	x := scale{lo: 0, hi: max(t.Seconds, 1e-9), from: 0, to: float64(width)}
	bottom := courseHead + float64(len(t.Lanes))*(laneHead+courseLane+courseGap)
	t.bands(c, x, bottom)
	for i, lane := range t.Lanes {
		top := courseHead + courseGap + float64(i)*(laneHead+courseLane+courseGap)
		t.lane(c, lane, x, box{0, top, x.to, laneHead + courseLane})
	}
	step, unitName := 1.0, " s"
	if t.Seconds > 180 {
		step, unitName = 60, " min"
	}
	ticks := evenTicks(0, t.Seconds/step, max(2, width/110))
	for i, v := range ticks {
		l := look{class: "m", anchor: middle}
		switch at := x.at(v * step); {
		case i == 0:
			l.anchor = ""
		case at+textWidth(round(v)+unitName)/2 > x.to:
			l.anchor = end
		}
		c.text(point{x.at(v * step), bottom + 17}, round(v)+unitName, l)
	}
	return c.drawing(Size{width, int(bottom) + courseFoot}, t.Label)
}

// bands shades the times of the bands and names each group of neighbours where its name has room.
func (t Course) bands(c *canvas, x scale, bottom float64) {
	labels := &placed{}
	for i := 0; i < len(t.Bands); {
		n := i
		for n < len(t.Bands) && t.Bands[n].Name == t.Bands[i].Name {
			b := t.Bands[n]
			c.rect(box{x.at(b.From), courseHead, max(x.at(b.To)-x.at(b.From), 0.5), bottom - courseHead}, `class="fl"`)
			n++
		}
		from, to := x.at(t.Bands[i].From), x.at(t.Bands[n-1].To)
		at := point{from, courseHead - 5}
		if wide := textWidth(t.Bands[i].Name); wide <= to-from+8 && at.x+wide <= x.to+4 && labels.free(at, t.Bands[i].Name, 4) {
			c.text(at, t.Bands[i].Name, look{class: "m"})
			c.line(point{from, courseHead - 2}, point{to, courseHead - 2}, "ax")
		}
		i = n
	}
}

func (t Course) lane(c *canvas, lane CourseLane, x scale, r box) {
	bottom := r.y + r.h
	highest := 0.0
	for _, series := range lane.Series {
		for _, s := range series {
			highest = max(highest, s.Value)
		}
	}
	if lane.Limit != nil {
		highest = max(highest, *lane.Limit)
	}
	y := scale{lo: 0, hi: max(highest*1.04, 1e-9), from: bottom, to: r.y + laneHead}
	c.line(point{0, bottom}, point{r.w, bottom}, "ax")
	style := "stroke:var(--ink2);stroke-width:1.25"
	if lane.Main {
		style = "stroke:var(--accent);stroke-width:1.25"
	}
	for i, series := range lane.Series {
		if n := len(lane.Series); n > 1 && lane.Main {
			style = "stroke:" + lineColour(i, n) + ";stroke-width:1.25"
		}
		for _, part := range parted(series, t.Gap) {
			c.path(onScreen(part, x, y), style)
		}
	}
	if lane.Limit != nil {
		at := y.at(*lane.Limit)
		c.line(point{0, at}, point{r.w, at}, "fll")
		c.text(point{0, at + 14}, lane.LimitName, look{class: "m hal"})
	}
	c.text(point{0, r.y + 11}, lane.Name, look{class: "b"})
	c.text(point{r.w, r.y + 11}, lane.Range, look{class: "m", anchor: end})
}

// parted are the pieces of a series between its gaps.
func parted(series []Sample, gap float64) [][]Sample {
	var parts [][]Sample
	for i := 0; i < len(series); {
		n := i + 1
		for n < len(series) && (gap <= 0 || series[n].Seconds-series[n-1].Seconds <= gap) {
			n++
		}
		parts = append(parts, series[i:n])
		i = n
	}
	return parts
}

// onScreen are the points of a piece: of all samples that share a column of pixels the least and the greatest, so
// that no dip is lost.
func onScreen(part []Sample, x, y scale) []point {
	var points []point
	for i := 0; i < len(part); {
		column := math.Floor(x.at(part[i].Seconds))
		n := i + 1
		for n < len(part) && math.Floor(x.at(part[n].Seconds)) == column {
			n++
		}
		for _, s := range extremes(part[i:n]) {
			points = append(points, point{x.at(s.Seconds), y.at(s.Value)})
		}
		i = n
	}
	if len(points) == 1 {
		points = append(points, point{points[0].x + 1, points[0].y})
	}
	return points
}

// extremes are the least and the greatest of some samples, in order of time.
func extremes(samples []Sample) []Sample {
	if len(samples) <= 2 {
		return samples
	}
	value := func(a, b Sample) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	}
	least, greatest := slices.MinFunc(samples, value), slices.MaxFunc(samples, value)
	switch {
	case least == greatest:
		return []Sample{least}
	case least.Seconds < greatest.Seconds:
		return []Sample{least, greatest}
	}
	return []Sample{greatest, least}
}
