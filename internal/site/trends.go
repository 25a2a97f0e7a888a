package site

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// place is a decode cell of any run.
type place struct{ context, concurrency int }

func (p place) String() string {
	return unit.FormatTokens(p.context) + " × " + strconv.Itoa(p.concurrency)
}

// places are the cells that a trend prefers, best first: a usual load, then lighter ones.
var places = []place{{16 << 10, 8}, {16 << 10, 4}, {16 << 10, 2}, {16 << 10, 1}, {0, 8}, {0, 4}, {0, 1}, {32 << 10, 1}}

// cellAt gives a decode cell of a run, nil where it has none.
func cellAt(e *catalog.Entry, at place) *catalog.Cell {
	for i := range e.Cells {
		if c := &e.Cells[i]; c.Context == at.context && c.Concurrency == at.concurrency {
			return c
		}
	}
	return nil
}

// known says whether a number is there.
func known(v float32) bool { return v == v && v > 0 && !math.IsInf(float64(v), 0) }

// totalAt is a cell's total tok/s; ok is false where the run shows none.
func totalAt(e *catalog.Entry, at place) (total, half float64, ok bool) {
	c := cellAt(e, at)
	if c == nil || !c.Status.ShowsSpeed() || !known(c.Total) {
		return 0, 0, false
	}
	if known(c.Half) {
		half = float64(c.Half)
	}
	return float64(c.Total), half, true
}

// whole writes tok/s as lists do: "636", "93.2".
func whole(v float64) string {
	if v >= 99.95 {
		return unit.Fixed(v, 0)
	}
	return unit.Fixed(v, 1)
}

// trendView is one cell over engine versions.
type trendView struct {
	Title, Sub string
	Picture    template.HTML
	Rows       []trendRow
	// Says is the sentence on the greatest loss, or gain where nothing was lost; Compare the address that holds both against each other.
	Says, Compare string
}

// trendRow is a point of a trend in words.
type trendRow struct {
	Version string `json:"version"`
	ID      string `json:"run"`
	Date    string `json:"date"`
	// Total is tok/s, Half the half width of its interval, null for one sample; Change is against the version before,
	// null for the first, and Sure where the intervals do not meet.
	Total  float64  `json:"total_tokens_per_second"`
	Half   *float64 `json:"half_width_95"`
	Change *float64 `json:"change"`
	Sure   bool     `json:"outside_intervals"`
}

// trendOf draws a cell over the newest comparable run of each version; ok is false below two versions. asked is the cell that
// the address names, nil for the one that most versions have.
func trendOf(title, engine string, entries []*catalog.Entry, asked *place) (v trendView, ok bool) {
	byVersion := map[string]*catalog.Entry{}
	for _, e := range entries {
		if old := byVersion[e.EngineVersion]; e.EngineVersion != "" && (old == nil || e.MeasuredAt.After(old.MeasuredAt)) {
			byVersion[e.EngineVersion] = e
		}
	}
	at, there := mostCommon(byVersion)
	if asked != nil {
		at, there = *asked, true
	}
	if !there {
		return v, false
	}
	var points []*catalog.Entry
	for _, e := range byVersion {
		if _, _, has := totalAt(e, at); has {
			points = append(points, e)
		}
	}
	if len(points) < 2 {
		return v, false
	}
	slices.SortFunc(points, func(a, b *catalog.Entry) int { return compareVersions(a.EngineVersion, b.EngineVersion) })
	v.Title, v.Sub = clip(title, 160), clip(engine, 60)+", total tok/s at "+at.String()+"; the axis does not start at 0"
	v.draw(points, at)
	return v, true
}

// mostCommon is the preferred cell that most of the runs have.
func mostCommon(runs map[string]*catalog.Entry) (best place, ok bool) {
	most := 1
	for _, p := range places {
		n := 0
		for _, e := range runs {
			if _, _, has := totalAt(e, p); has {
				n++
			}
		}
		if n > most {
			best, most, ok = p, n, true
		}
	}
	return best, ok
}

// draw makes rows, picture and sentence of runs in the order of their versions.
func (v *trendView) draw(runs []*catalog.Entry, at place) {
	t := chart.Trend{Label: v.Title + ":"}
	worst := -1
	for i, e := range runs {
		total, half, _ := totalAt(e, at)
		row := trendRow{Version: clip(e.EngineVersion, 60), ID: e.ID, Date: date(e.MeasuredAt), Total: total}
		p := chart.TrendPoint{Name: clip(e.EngineVersion, 12), Sub: shortDate(e.MeasuredAt), Value: total, Half: half, Text: whole(total)}
		if half > 0 {
			row.Half = &half
		}
		if i > 0 {
			before := v.Rows[i-1]
			change := total/before.Total - 1
			row.Change = &change
			switch {
			case row.Half == nil || before.Half == nil:
				p.Change = "one sample"
			case math.Abs(total-before.Total) > half+*before.Half:
				row.Sure, p.Sure, p.Change = true, true, unit.Change(change)
			default:
				p.Change = "intervals meet"
			}
			if row.Sure && (worst < 0 || change < *v.Rows[worst].Change) {
				worst = i
			}
		}
		t.Label += " " + row.Version + " " + whole(total) + ","
		v.Rows, t.Points = append(v.Rows, row), append(t.Points, p)
	}
	t.Label = strings.TrimSuffix(t.Label, ",")
	v.Picture = twice(t.Draw, chart.Size{Width: 562, Height: 250}, chart.Size{Width: 358, Height: 230})
	if worst > 0 {
		from, to := v.Rows[worst-1], v.Rows[worst]
		v.Says = fmt.Sprintf("%s changed by %s from %s %s to %s, outside the intervals.", v.Title, strings.ReplaceAll(unit.Change(*to.Change), " ", "\u00a0"), clip(runs[0].Engine, 60), from.Version, to.Version)
		v.Compare = "/compare?run=" + url.QueryEscape(from.ID) + "&run=" + url.QueryEscape(to.ID)
	}
}

// twice is a drawing for a wide and for a narrow screen, of which the style sheet shows one.
func twice(draw func(chart.Size) chart.Drawing, wide, narrow chart.Size) template.HTML {
	return template.HTML(`<div class="only-w">` + draw(wide).Inline() + `</div><div class="only-n">` + draw(narrow).Inline() + `</div>`)
}

// panelView is a run's small trade-off.
type panelView struct {
	Title, Sub, Link string
	Picture          template.HTML
}

// readingSpeed is how fast text may come and still be read with ease, in tok/s.
const readingSpeed = 20

// panels draws runs beside each other on the same axes, those without a point left out.
func panels(runs []*catalog.Entry, title func(*catalog.Entry) (string, string)) []panelView {
	var list []chart.Panel
	var views []panelView
	for _, e := range runs {
		p := chart.Panel{Floor: readingSpeed, Lines: contextLines(e)}
		if len(p.Lines) == 0 {
			continue
		}
		best := 0.0
		for _, line := range p.Lines {
			for _, at := range line.Points {
				best = max(best, at.Y)
			}
		}
		v := panelView{Link: "/runs/" + e.ID}
		v.Title, v.Sub = title(e)
		v.Title, v.Sub = clip(v.Title, 120), clip(v.Sub, 160)
		p.Label = v.Title + ": up to " + whole(best) + " total tok/s, one line for each context"
		list, views = append(list, p), append(views, v)
	}
	chart.PanelAxes(list)
	for i := range list {
		views[i].Picture = twice(list[i].Draw, chart.Size{Width: 216, Height: 190}, chart.Size{Width: 171, Height: 165})
	}
	return views
}

// contextLines are a run's decode cells as lines, one for each context in order.
func contextLines(e *catalog.Entry) (lines []chart.Line) {
	cells := slices.SortedStableFunc(slices.Values(e.Cells), func(a, b catalog.Cell) int {
		return cmp.Or(cmp.Compare(a.Context, b.Context), cmp.Compare(a.Concurrency, b.Concurrency))
	})
	last := -1
	for _, c := range cells {
		if !c.Status.ShowsSpeed() || !known(c.Total) || !known(c.PerRequest) {
			continue
		}
		if len(lines) == 0 || c.Context != last {
			lines, last = append(lines, chart.Line{Name: c.Label}), c.Context
		}
		line := &lines[len(lines)-1]
		line.Points = append(line.Points, chart.Point{X: float64(c.PerRequest), Y: float64(c.Total), Label: strconv.Itoa(c.Concurrency)})
	}
	return lines
}

// compareVersions orders versions as people do: numbers in them by their value, "0.9.0" before "0.10.0".
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		x, y := versionPart(a), versionPart(b)
		a, b = a[len(x):], b[len(y):]
		n, errA := strconv.Atoi(x)
		m, errB := strconv.Atoi(y)
		order := cmp.Compare(x, y)
		if errA == nil && errB == nil {
			order = cmp.Compare(n, m)
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(a), len(b))
}

// versionPart is the run of digits, or of what are none, that a version begins with.
func versionPart(s string) string {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i]
}
