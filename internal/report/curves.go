package report

import (
	"cmp"
	"fmt"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// firstTokenLimit is the unit.Wait that the chart of TTFT marks, in ms.
const firstTokenLimit = 1000

// ttftCurves is TTFT against context; cold and warm never share a line.
func ttftCurves(d *Document) (chart.Curves, bool) {
	c := chart.Curves{
		Label: "TTFT against context", YTitle: "TTFT, log scale", XTitle: "context in tokens, log scale",
		Value: unit.Wait, Axis: chart.Milliseconds, Limit: firstTokenLimit, Span: 10,
	}
	cold := chart.Curve{Name: "cold: new prompt", Warn: true}
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		cold.Points = appendPoint(cold.Points, m, median(m.Cell.TTFT), m.TTFT+" TTFT, cold")
	}
	for _, curve := range append([]chart.Curve{cold}, ttftKinds(d, len(cold.Points) > 0)...) {
		if len(curve.Points) > 0 {
			c.Curves = append(c.Curves, curve)
		}
	}
	c.Ticks = ticks(c.Curves)
	return c, len(c.Curves) > 0
}

// ttftKinds is TTFT of one request at a time in decode, a curve for each kind; the cold kind
// only where there is no prefill that says the same.
func ttftKinds(d *Document, cold bool) []chart.Curve {
	names := map[speedmatrix.TTFTKind]string{
		speedmatrix.TTFTWarm: "warm: cached prompt", speedmatrix.TTFTCold: "cold: new prompt",
		speedmatrix.TTFTUnknown: "cached or new: not known",
	}
	var curves []chart.Curve
	for _, kind := range []speedmatrix.TTFTKind{speedmatrix.TTFTWarm, speedmatrix.TTFTUnknown, speedmatrix.TTFTCold} {
		if kind == speedmatrix.TTFTCold && cold {
			continue
		}
		curve := chart.Curve{Name: names[kind], Warn: kind == speedmatrix.TTFTCold}
		for _, m := range shown(d, speedmatrix.PhaseDecode) {
			if m.Cell.Concurrency == 1 && ttftKind(d.Run, m.Cell) == kind {
				curve.Points = appendPoint(curve.Points, m, median(m.Cell.TTFT), m.TTFT+" TTFT, "+string(kind))
			}
		}
		curves = append(curves, curve)
	}
	return curves
}

// appendPoint adds a measurement to a curve; a log scale has no place for context 0.
func appendPoint(points []chart.Point, m *Measurement, v *float64, says string) []chart.Point {
	if m.Cell.Context <= 0 || v == nil || *v <= 0 {
		return points
	}
	return append(points, chart.Point{X: float64(m.Cell.Context), Y: *v, Label: m.Context, Hollow: !m.valid(), Title: m.Context + " context: " + says})
}

// ticks are the contexts of all curves, each once.
func ticks(curves []chart.Curve) []chart.Point {
	var list []chart.Point
	for _, curve := range curves {
		list = append(list, curve.Points...)
	}
	slices.SortStableFunc(list, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	return slices.CompactFunc(list, func(a, b chart.Point) bool { return a.X == b.X })
}

// prefillCurve is prompt tok/s against context.
func prefillCurve(d *Document) (chart.Curves, bool) {
	c := chart.Curves{
		Label: "Prefill tok/s against context", YTitle: "Prefill tok/s, log scale", XTitle: "context in tokens, log scale",
		Value: unit.Short, Axis: chart.Thousands, Span: 12,
	}
	var curve chart.Curve
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		curve.Points = appendPoint(curve.Points, m, m.Cell.PromptTokensPerSecond, m.Total+" tok/s")
	}
	c.Curves = []chart.Curve{curve}
	c.Ticks = ticks(c.Curves)
	return c, len(curve.Points) > 0
}

// Sentences below charts, each computed from the numbers and "" where they say nothing.

// tradeoffSays is what more requests at once bring and cost in the first row.
func tradeoffSays(d *Document) string {
	for _, row := range d.Matrix.Rows {
		var single, top *Measurement
		for _, m := range row.Cells {
			if !m.ShowsSpeed || value(m.Cell.TotalTokensPerSecond) <= 0 || value(m.Cell.PerRequestTokensPerSecond) <= 0 {
				continue
			}
			if m.Cell.Concurrency == 1 {
				single = m
			}
			if top == nil || *m.Cell.TotalTokensPerSecond > *top.Cell.TotalTokensPerSecond {
				top = m
			}
		}
		if single == nil {
			continue
		}
		if top == single {
			return fmt.Sprintf("At %s context, no number of requests at once makes more than one does.", row.Label)
		}
		return fmt.Sprintf("At %s context, %s at once make %s times the total of one, and each keeps %s of its speed.", row.Label,
			plural(top.Cell.Concurrency, "request"), unit.Fixed(*top.Cell.TotalTokensPerSecond / *single.Cell.TotalTokensPerSecond, 1),
			unit.Percent(*top.Cell.PerRequestTokensPerSecond / *single.Cell.PerRequestTokensPerSecond))
	}
	return ""
}

// ttftSays is the unit.Wait at the longest prompt that was read.
func ttftSays(d *Document) string {
	var far *Measurement
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		if median(m.Cell.TTFT) != nil {
			far = m
		}
	}
	if far == nil {
		return ""
	}
	text := fmt.Sprintf("At %s the first token takes %s when the prompt is new", far.Context, unit.Wait(*median(far.Cell.TTFT)))
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		if m.Cell.Context == far.Cell.Context && m.Cell.Concurrency == 1 && ttftKind(d.Run, m.Cell) == speedmatrix.TTFTWarm && median(m.Cell.TTFT) != nil {
			return text + fmt.Sprintf(" and %s when it is cached.", unit.Wait(*median(m.Cell.TTFT)))
		}
	}
	return text + "."
}

// prefillSays is what prefill keeps of its speed from the shortest to the longest prompt.
func prefillSays(d *Document) string {
	var first, last *Measurement
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		if value(m.Cell.PromptTokensPerSecond) <= 0 || m.Cell.Context <= 0 {
			continue
		}
		if first == nil {
			first = m
		}
		last = m
	}
	if first == nil || first == last {
		return ""
	}
	return fmt.Sprintf("From %s to %s the prompt grows %s times and prefill keeps %s of its speed.", first.Context, last.Context,
		unit.Fixed(float64(last.Cell.Context)/float64(first.Cell.Context), 0), unit.Percent(*last.Cell.PromptTokensPerSecond / *first.Cell.PromptTokensPerSecond))
}
