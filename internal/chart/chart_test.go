package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix/internal/golden"
	"speedmatrix/internal/unit"
)

var wide, narrow = Size{640, 430}, Size{358, 400}

func seconds(v float64) string { return unit.Fixed(v, 1) + " s" }

func tradeoffOf(lines ...Line) Tradeoff {
	return Tradeoff{Label: "trade-off", XTitle: "each", YTitle: "in all", Lines: lines, Floor: 20, FloorText: "20 each"}
}

func curvesOf(curves ...Curve) Curves {
	c := Curves{Label: "curves", XTitle: "context", YTitle: "TTFT", Curves: curves, Value: seconds, Axis: Milliseconds, Limit: 1000, Span: 10}
	for _, curve := range curves {
		c.Ticks = append(c.Ticks, curve.Points...)
	}
	return c
}

// courseOf is a run of four minutes with two GPUs, one of which was not sampled for a while.
func courseOf() Course {
	one, two := []Sample{}, []Sample{}
	for i := range 480 {
		at, dip := float64(i)/2, 0.0
		if i == 200 {
			dip = 400
		}
		one = append(one, Sample{at, 1890 - dip})
		if i < 100 || i > 200 {
			two = append(two, Sample{at, 1700 + float64(i%7)*10})
		}
	}
	return Course{
		Label: "run", Seconds: 240, Gap: 2,
		Bands: []Band{{5, 60, "0"}, {70, 120, "0"}, {130, 134, "a long name"}, {140, 235, "16K"}},
		Lanes: []CourseLane{
			{Name: "Clock", Series: [][]Sample{one, two}, Range: "1,490–1,890 MHz", Main: true},
			{Name: "Power", Series: [][]Sample{{{0, 30}, {1, 340}, {239, 350}}}, Range: "30–350 W", Limit: new(350.0), LimitName: "limit 350 W"},
		},
	}
}

func panelOf(lines ...Line) Panel {
	panels := []Panel{{Label: "panel", Lines: lines, Floor: 20}}
	PanelAxes(panels)
	return panels[0]
}

// trendOf has a change that is sure, one that is not, and a point without an interval.
func trendOf() Trend {
	return Trend{Label: "trend", Points: []TrendPoint{
		{Name: "0.30.0", Sub: "3 Sep", Value: 529, Half: 9, Text: "529"}, {Name: "0.31.1", Sub: "14 Oct", Value: 530, Half: 8, Text: "530", Change: "intervals meet"},
		{Name: "0.32.0", Sub: "18 Nov", Value: 480, Half: 11, Text: "480", Change: "−9.4 %", Sure: true}, {Name: "<0.33>", Value: 481, Text: "481", Change: "one sample"}}}
}

// samples are drawings of every kind.
func samples() map[string]Drawing {
	cold := Curve{Name: "cold", Warn: true, Points: []Point{{X: 8192, Y: 779, Label: "8K"}, {X: 131072, Y: 23154, Label: "128K", Title: "128K: 23.2 s"}}}
	flat := Curve{Name: "warm", Points: []Point{{X: 16384, Y: 53, Label: "16K"}, {X: 32768, Y: 50, Label: "32K", Hollow: true}}}
	two := tradeoffOf(
		Line{Name: "0 context", Points: []Point{{X: 117.5, Y: 117.3, Label: "1"}, {X: 66.7, Y: 2124.5, Label: "32", Title: "32 requests"}}},
		Line{Name: "empty"}, Line{Name: "128K", Points: []Point{{X: 18.5, Y: 18.4, Label: "1", Hollow: true}}})
	cells := [][]Cell{
		{{Text: "117.3", Sub: "54 ms TTFT", Heat: true, Step: 0}, {Text: "225.7", Sub: "71 ms TTFT", State: "Requests queued", Heat: true, Step: 7}},
		{{State: "Looped", Pattern: "loop"}, {State: "Skipped"}},
	}
	return map[string]Drawing{
		"tradeoff": two.Draw(wide), "tradeoff-narrow": two.Draw(narrow), "curves": curvesOf(cold, flat).Draw(narrow),
		"heat": HeatMap{Label: "heat", Title: "A <title>", Caption: "caption", Corner: "Context", Columns: []string{"1", "2"}, Rows: []string{"0", "16K"},
			Cells: cells, Low: "slowest 117.3", High: "fastest 225.7", Notes: []string{"Looped: the model kept repeating the same text."}}.Draw(),
		"difference": HeatMap{Label: "difference", Title: "B against A", Corner: "Context", Columns: []string{"1", "2"}, Rows: []string{"0", "16K"}, Cells: cells,
			Direction: Diverging, Low: "B slower", High: "B faster"}.Draw(),
		"duel":  Duel{Label: "duel", A: two.Lines[0].Points, B: two.Lines[2].Points, Right: 117.5, Low: 18.4, High: 2124.5, Floor: 20}.Draw(Size{216, 260}),
		"panel": panelOf(two.Lines...).Draw(Size{216, 190}), "panel-empty": panelOf().Draw(Size{216, 190}),
		"trend": trendOf().Draw(Size{562, 250}), "trend-narrow": trendOf().Draw(Size{358, 230}),
		"bars": Bars{Label: "bars", Title: "Prefill", Caption: "tok/s", Bars: []Bar{{"8K", "10.8K", "779 ms TTFT", 1}, {"16K", "10K", "1,639 ms TTFT", 0.9}}}.Draw(640),
		"dots": Dots{Label: "dots", Title: "Users", Caption: "that fit", Columns: []string{"1", "2", "4", "8"},
			Rows: []DotRow{{"0", "1", "2 requests: 18 tok/s", []Mark{MarkFits, MarkFails, MarkQuiet, MarkNone}}}, Key: "key"}.Draw(),
		"timeline": Timeline{Label: "window", Seconds: 3, Lanes: []Lane{
			{Name: "Total", Samples: []Sample{{0.5, 600}, {1.5, 640}, {2.5, 630}}, Last: "623", Mean: new(623.0), Main: true},
			{Name: "Running", Samples: []Sample{{0, 7}, {2, 8}}, Last: "8", Step: true, Top: 8}}}.Draw(358),
		"course": courseOf().Draw(358),
		"histogram": Histogram{Label: "gaps", Title: "Gaps", Values: []float64{8, 8.1, 8.2, 8.2, 12}, Format: unit.Millis, Unit: "ms",
			Marks: []Quantile{{"p50", 8.2}, {"p99", 12}}}.Draw(Size{358, 170}),
		"strip": Strip{Label: "TTFT", Title: "TTFT", Values: []float64{120, 180, 260}, Marks: []Quantile{{"p50", 180}}, Format: unit.TTFT, Unit: "ms"}.Draw(358),
	}
}

func TestDrawingsLookLikeTheirGoldenFiles(t *testing.T) {
	for name, d := range samples() {
		golden.Check(t, name+".svg", d.Padded(8).File())
	}
}

func TestADrawingIsWellFormedHoweverItIsUsed(t *testing.T) {
	for name, d := range samples() {
		for _, text := range []string{d.Inline(), string(d.File())} {
			checkXML(t, name, text)
		}
		if again := samples()[name].Inline(); again != d.Inline() {
			t.Errorf("%s: the same numbers give other bytes", name)
		}
	}
}

func checkXML(t rapid.TB, name, text string) {
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "e+", "%!"} {
		if strings.Contains(text, bad) {
			t.Fatalf("%s holds %q", name, bad)
		}
	}
}

func TestNoNumbersAndNoTextBreakADrawing(t *testing.T) {
	positive := rapid.Float64Range(1e-9, 1e15)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(`<b>&"'`), rapid.StringMatching(`[a-z0-9 ]{0,40}`)).Draw(t, "text")
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
			return Point{X: positive.Draw(t, "x"), Y: positive.Draw(t, "y"), Label: text, Title: text, Hollow: rapid.Bool().Draw(t, "hollow")}
		}), 0, 12).Draw(t, "points")
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e15), 0, 40).Draw(t, "values")
		lane := Lane{Name: text, Main: rapid.Bool().Draw(t, "main"), Step: true, Mean: new(1.0)}
		for i, v := range values {
			lane.Samples = append(lane.Samples, Sample{float64(i), v})
		}
		marks := []Quantile{{"p50", 5}, {"p99", 1e9}}
		for name, d := range map[string]Drawing{
			"tradeoff": tradeoffOf(Line{Name: text, Points: points}, Line{Name: text, Points: points[:len(points)/2]}).Draw(narrow),
			"curves":   curvesOf(Curve{Name: text, Points: points}).Draw(narrow),
			"timeline": Timeline{Label: text, Seconds: positive.Draw(t, "seconds"), Lanes: []Lane{lane}}.Draw(358),
			"course": Course{Label: text, Seconds: positive.Draw(t, "length"), Gap: 1, Bands: []Band{{0, 1e9, text}, {2, 1, text}}, Lanes: []CourseLane{
				{Name: text, Series: [][]Sample{lane.Samples, nil}, Range: text, Limit: new(1.0), LimitName: text, Main: lane.Main}}}.Draw(358),
			"histogram": Histogram{Label: text, Title: text, Values: values, Marks: marks, Format: unit.Millis}.Draw(narrow),
			"strip":     Strip{Label: text, Title: text, Values: values, Marks: marks, Format: unit.Millis}.Draw(358),
			"heat":      HeatMap{Label: text, Title: text, Columns: []string{text}, Rows: []string{text}, Cells: [][]Cell{{{Text: text, State: text, Heat: true}}}, Notes: []string{text}}.Draw(),
		} {
			checkXML(t, name, d.Inline())
		}
	})
}

func TestTextOnEveryStepCanBeRead(t *testing.T) {
	for name, p := range map[string]palette{"light": light, "dark": dark} {
		for _, colours := range [][]string{p.up, p.down, p.difference} {
			for i, c := range colours {
				if got := contrast(c, textOn(c)); got < 4.5 {
					t.Errorf("%s step %d (%s) has a contrast of %.2f", name, i, c, got)
				}
			}
		}
		for _, ink := range []string{"ink", "ink2", "ink3", "accent", "warn"} {
			for _, ground := range []string{"paper", "wash"} {
				if got := contrast(p.token(ink), p.token(ground)); got < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", name, ink, ground, got)
				}
			}
		}
	}
}

// Lightness alone orders a scale, so that it survives colour blindness and grey print.
func TestScalesAreOrderedByLightness(t *testing.T) {
	for name, scale := range map[string][]string{"up": light.up, "down": light.down, "up, dark": dark.up, "down, dark": dark.down} {
		for i := 1; i < len(scale); i++ {
			darker := luminance(scale[i]) < luminance(scale[i-1])
			if darker != !strings.Contains(name, "dark") {
				t.Errorf("%s: step %d is out of order", name, i)
			}
		}
	}
}

func TestStepsAreEqualRatios(t *testing.T) {
	for _, x := range []struct {
		v, lo, hi float64
		linear    bool
		want      int
	}{
		{56.2, 56.2, 2124.5, false, 0}, {2124.5, 56.2, 2124.5, false, 7}, {345.5, 56.2, 2124.5, false, 3}, {346.5, 56.2, 2124.5, false, 4},
		{0.5, 0, 1, true, 4}, {5, 5, 5, false, 4}, {0, 0, 10, false, 4},
	} {
		if got := Step(x.v, x.lo, x.hi, x.linear); got != x.want {
			t.Errorf("%v of %v…%v is step %d, want %d", x.v, x.lo, x.hi, got, x.want)
		}
	}
	if got := StepRatio(1, 256); math.Abs(got-2) > 1e-9 {
		t.Errorf("256 times in 8 steps is %v each", got)
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for _, x := range []struct {
		lo, hi float64
		most   int
		want   string
	}{{45, 2655, 9, "50 100 200 500 1,000 2,000"}, {30, 40000, 6, "100 1,000 10,000"}, {1, 1e30, 6, "1 100,000 10,000,000,000 1,000,000,000,000,000 100,000,000,000,000,000,000 10,000,000,000,000,000,000,000,000 1,000,000,000,000,000,000,000,000,000,000"}, {0, 5, 6, ""}} {
		var words []string
		for _, v := range logTicks(x.lo, x.hi, x.most) {
			words = append(words, round(v))
		}
		if got := strings.Join(words, " "); x.hi < 1e20 && got != x.want || len(words) > x.most {
			t.Errorf("%v…%v: %s, want %s", x.lo, x.hi, got, x.want)
		}
	}
	if got := evenTicks(0, 140, 7); len(got) != 8 || got[7] != 140 {
		t.Errorf("0…140: %v", got)
	}
}

func cardOf(rows, columns int) Card {
	c := Card{Eyebrow: "Speed test matrix", Brand: "speedmatrix", Title: strings.Repeat("Long model name ", 6), Subtitle: "RTX 3090 24GB",
		Figures: []Figure{{"Fastest single stream", "117.3", "tok/s"}, {"Highest total", "2,124.5", "tok/s"}, {"Longest context", "248K", "tokens"}, {"too many", "1", ""}}, Footer: "total tok/s"}
	for range columns {
		c.Columns = append(c.Columns, "128")
	}
	for i := range rows {
		c.Rows = append(c.Rows, "16K")
		var row []Cell
		for k := range columns {
			cell := Cell{Text: "1,377", Heat: (i+k)%3 > 0, Step: (i + k) % Steps}
			if !cell.Heat {
				cell.Pattern, cell.State = Patterns[(i+k)/3%len(Patterns)], "Client limited"
			}
			row = append(row, cell)
		}
		c.Cells = append(c.Cells, row)
	}
	return c
}

func TestACardHasItsSizeAndTheSameBytes(t *testing.T) {
	for _, x := range [][2]int{{0, 0}, {1, 1}, {6, 8}, {40, 40}} {
		var first, second bytes.Buffer
		if err := cardOf(x[0], x[1]).PNG(&first); err != nil {
			t.Fatal(err)
		}
		if err := cardOf(x[0], x[1]).PNG(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%v: other bytes for the same card (%v)", x, err)
		}
		img, err := png.Decode(&first)
		if err != nil {
			t.Fatal(err)
		}
		if b := img.Bounds(); b.Dx() != CardWidth || b.Dy() != CardHeight {
			t.Errorf("%v: %v", x, b)
		}
		if x[0] > 0 {
			checkMargins(t, img.At)
		}
	}
}

// checkMargins wants nothing drawn at the edge of a card.
func checkMargins[C interface{ RGBA() (r, g, b, a uint32) }](t *testing.T, at func(x, y int) C) {
	t.Helper()
	for y := range CardHeight {
		for _, x := range []int{0, 20, CardWidth - 20, CardWidth - 1} {
			if r, g, b, _ := at(x, y).RGBA(); r+g+b < 3*0xffff {
				t.Fatalf("something is drawn at %d, %d", x, y)
			}
		}
	}
}

func TestACourseKeepsDipsAndBreaksAtGaps(t *testing.T) {
	c := courseOf()
	x, y := scale{lo: 0, hi: 240, from: 0, to: 100}, scale{lo: 0, hi: 2000, from: 2000, to: 0}
	deepest := 0.0
	for _, p := range onScreen(c.Lanes[0].Series[0], x, y) {
		deepest = max(deepest, p.y)
	}
	if deepest != 2000-1490 {
		t.Errorf("the dip is drawn at %v, want 510", deepest)
	}
	if n := len(parted(c.Lanes[0].Series[1], 2)); n != 2 {
		t.Errorf("a series with a gap has %d parts", n)
	}
}
