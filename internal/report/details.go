package report

import (
	"fmt"
	"html/template"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// cellView is the details of one cell on a page.
type cellView struct {
	ID, Title, Status, Speed string
	Figures                  []pairView
	Quantiles                [][]string
	More                     []pairView
	Drawings                 []template.HTML
	Images                   []imageView
	// Trouble says why the raw rows are not drawn.
	Trouble string
}

// pairView is a label and a text.
type pairView struct{ Label, Text string }

// detail gives what is known of a cell beyond the tables; ok is false where that is nothing.
func detail(d *Document, m *Measurement) (v cellView, ok bool) {
	c := m.Cell
	v.Quantiles = quantileRows(c)
	v.More = moreOf(d, m)
	if len(v.Quantiles) == 0 && len(v.More) == 0 {
		return v, false
	}
	v.Status = statusWord(m.Status)
	v.Title = m.Context + " context, " + plural(c.Concurrency, "request") + " at once"
	if c.Phase == speedmatrix.PhasePrefill {
		v.Title = "Prefill, " + m.Context + " context"
	}
	if m.ShowsSpeed {
		v.Speed = m.Total + " tok/s"
	}
	v.Figures = keep([]pairView{
		{"Total", withUnit(m.Total, "tok/s")}, {"Per request", withUnit(m.PerRequest, "tok/s")}, {"TTFT", m.TTFT},
		{"Time between tokens", m.TimeBetween}, {"Requests running", m.Active}, {"Prompt, measured", withUnit(m.PromptTokens, "tokens")},
	})
	return v, true
}

// keep drops what is unknown.
func keep(list []pairView) []pairView {
	var kept []pairView
	for _, p := range list {
		if p.Text != "" && p.Text != unit.Dash {
			kept = append(kept, p)
		}
	}
	return kept
}

func withUnit(text, of string) string {
	if text == unit.Dash {
		return text
	}
	return text + " " + of
}

// quantileHeads are the columns of the table of distributions.
var quantileHeads = []string{"", "p50", "p90", "p95", "p99", "least", "most", "of"}

// quantileRows are the distributions of a cell that have more than a median.
func quantileRows(c *speedmatrix.Cell) [][]string {
	if !c.Status.ShowsSpeed() {
		return nil
	}
	var rows [][]string
	for _, x := range []struct {
		name   string
		d      *speedmatrix.Distribution
		format func(float64) string
	}{
		{"TTFT", c.TTFT, unit.TTFT}, {"Visible TTFT", differs(c.VisibleTTFT, c.TTFT), unit.TTFT},
		{"Time between tokens", c.TimeBetweenTokens, unit.Millis}, {"Time between events", c.EventGap, unit.Millis},
	} {
		if x.d == nil || x.d.Min == nil && x.d.Max == nil && x.d.P90 == nil {
			continue
		}
		row := []string{x.name}
		for _, v := range []*float64{x.d.P50, x.d.P90, x.d.P95, x.d.P99, x.d.Min, x.d.Max} {
			row = append(row, number(v, x.format))
		}
		rows = append(rows, append(row, strings.TrimSpace(unit.Count(x.d.N)+" "+clip(Clean(x.d.Of), 12))))
	}
	return rows
}

// differs is a distribution, unless its median is that of another.
func differs(d, other *speedmatrix.Distribution) *speedmatrix.Distribution {
	if a, b := median(d), median(other); a != nil && b != nil && *a == *b {
		return nil
	}
	return d
}

// moreOf is what else was recorded with a cell.
func moreOf(d *Document, m *Measurement) []pairView {
	c := m.Cell
	var list []pairView
	add := func(label, text string) { list = append(list, pairView{label, text}) }
	list = append(list, lengthsOf(d, m)...)
	list = append(list, countsOf(c)...)
	list = append(list, qualityOf(c)...)
	list = append(list, machineOf(m)...)
	if c.StepSeconds != nil {
		s := c.StepSeconds
		add("Steps", fmt.Sprintf("drain %s, fill %s, launch %s, ramp %s, window %s, stop %s", unit.Seconds(s.Drain), unit.Seconds(s.Fill),
			unit.Seconds(s.Launch), unit.Seconds(s.Ramp), unit.Seconds(s.Window), unit.Seconds(s.Stop)))
	}
	if samples := samplesOf(c); samples != "" {
		add("Samples", samples)
	}
	if r := c.Repeats; r != nil && r.TotalTokensPerSecond != nil && m.ShowsSpeed {
		add("Over all repeats", fmt.Sprintf("median %s tok/s, from %s to %s, %s", number(r.TotalTokensPerSecond.P50, unit.Rate),
			number(r.TotalTokensPerSecond.Min, unit.Rate), number(r.TotalTokensPerSecond.Max, unit.Rate), plural(r.TotalTokensPerSecond.N, "measurement")))
	}
	if len(list) > 0 && m.Reason != "" {
		list = append([]pairView{{"Reason", clip(m.Reason, 600)}}, list...)
	}
	add("First error", clip(Clean(c.FirstError), 600))
	add("What the model wrote", clip(Clean(c.TextSample), 300))
	for _, w := range c.Warnings {
		add("Warning", clip(Clean(w.Message), 600))
	}
	return keep(list)
}

// lengthsOf is the interval of a cell and what its requests held.
func lengthsOf(d *Document, m *Measurement) []pairView {
	c := m.Cell
	var list []pairView
	add := func(label, text string) { list = append(list, pairView{label, text}) }
	if m.ShowsSpeed && m.Interval != "" {
		add("95 % interval", m.Interval)
	}
	if c.ContextTokens != nil {
		add("Context in the window", m.ContextTokens+" tokens")
	}
	if c.CachedTokens != nil {
		add("Cached prompt tokens", m.CachedTokens)
	}
	if m.ShowsSpeed && c.TTFT != nil && d.Run.Origin != speedmatrix.OriginImported {
		add("TTFT is", m.TTFTKind)
	}
	return list
}

func countsOf(c *speedmatrix.Cell) []pairView {
	var list []pairView
	add := func(label, text string) { list = append(list, pairView{label, text}) }
	if c.TokenSource != "" && c.OutputTokens != nil {
		add("Tokens counted by", clip(Clean(string(c.TokenSource)), 60))
	}
	if c.TokensPerEvent != nil {
		add("Tokens per event", unit.Fixed(*c.TokensPerEvent, 2))
	}
	if c.AcceptedTokensPerStep != nil {
		add("Accepted tokens per step", unit.Fixed(*c.AcceptedTokensPerStep, 2))
	}
	if r := c.Requests; r != nil {
		add("Requests", fmt.Sprintf("%s sent, %s completed, %s cut at the end, %s failed", unit.Count(r.Sent), unit.Count(r.Completed), unit.Count(r.Cut), unit.Count(r.Failed)))
	}
	if c.QueuedShare != nil {
		add("Requests waited", unit.PercentFine(*c.QueuedShare)+" of the window")
	}
	if c.Preemptions != nil && *c.Preemptions > 0 {
		add("Preemptions", unit.Count(*c.Preemptions))
	}
	if c.Attempts > 1 {
		add("Attempts", unit.Count(c.Attempts))
	}
	for _, l := range c.Loops {
		add("Loop", fmt.Sprintf("stream %s repeated %s characters %s times: %s", unit.Count(l.Stream), unit.Count(l.PeriodChars), unit.Count(l.Cycles), clip(Clean(l.Excerpt), 120)))
	}
	return list
}

func qualityOf(c *speedmatrix.Cell) []pairView {
	var list []pairView
	if k := c.CounterCheck; k != nil && k.ServerTokens > 0 {
		list = append(list, pairView{"Engine's counter", unit.Change(k.ClientTokens/k.ServerTokens-1) + " against " + clip(Clean(k.Counter), 60)})
	}
	q := c.Client
	if q == nil {
		return list
	}
	var parts []string
	if q.ReaderLagP99Micros != nil {
		parts = append(parts, "reader lag p99 "+micros(*q.ReaderLagP99Micros))
	}
	if q.SendLateP99Micros != nil {
		parts = append(parts, "sent late p99 "+micros(*q.SendLateP99Micros))
	}
	if q.CoalescedShare != nil {
		parts = append(parts, unit.PercentFine(*q.CoalescedShare)+" coalesced reads")
	}
	if q.CPUShare != nil {
		parts = append(parts, unit.Percent(*q.CPUShare)+" of one core")
	}
	return append(list, pairView{"Client", strings.Join(parts, ", ")})
}

// samplesOf lists the single samples of a prefill cell.
func samplesOf(c *speedmatrix.Cell) string {
	if len(c.PrefillSamples) < 2 || !c.Status.ShowsSpeed() {
		return ""
	}
	var parts []string
	for _, s := range c.PrefillSamples[:min(len(c.PrefillSamples), 12)] {
		parts = append(parts, unit.TTFT(s.TTFTMillis)+" for "+count(s.PromptTokens)+" tokens")
	}
	return strings.Join(parts, "; ")
}
