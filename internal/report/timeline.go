package report

import (
	"cmp"
	"iter"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// Rows is the raw rows of a run, by the key of a cell; a run directory has them.
type Rows interface {
	HasCell(key string) bool
	Events(key string) iter.Seq2[speedmatrix.EventRow, error]
	Requests(key string) ([]speedmatrix.RequestRow, error)
	Server() ([]speedmatrix.ServerRow, error)
	Machine() ([]speedmatrix.MachineRow, error)
}

// cellWidth is the width of the drawings of a cell, which suits a phone and a third of a page.
const cellWidth = 358

// cellDrawings are the pictures of one cell: its window over time, the times between its
// events, and TTFT of its launch.
type cellDrawings struct {
	Time, Gaps, First chart.Drawing
	// HasTime, HasGaps and HasFirst say which there are.
	HasTime, HasGaps, HasFirst bool
}

// drawCell reads the rows of a cell once and draws them.
func drawCell(m *Measurement, rows Rows, server []speedmatrix.ServerRow) (cellDrawings, error) {
	var out cellDrawings
	key := m.Cell.Key()
	if rows == nil || !m.ShowsSpeed || !rows.HasCell(key) {
		return out, nil
	}
	requests, err := rows.Requests(key)
	if err != nil {
		return out, err
	}
	if values := firstTokens(requests); len(values) > 0 {
		out.First, out.HasFirst = chart.Strip{
			Label: "TTFT of each request of the launch", Title: "TTFT of " + plural(len(values), "request") + " at launch",
			Values: values, Marks: []chart.Quantile{{Name: "p50", Value: quantile(values, 0.5)}}, Format: unit.TTFT, Unit: "ms",
		}.Draw(cellWidth), true
	}
	if m.Cell.WindowStartedAt == nil || value(m.Cell.WindowSeconds) <= 0 {
		return out, nil
	}
	w := newWindow(m.Cell)
	for event, err := range rows.Events(key) {
		if err != nil {
			return out, err
		}
		w.add(event)
	}
	if out.HasTime = w.events > 0; out.HasTime {
		out.Time = w.timeline(m, server).Draw(cellWidth)
	}
	if out.HasGaps = len(w.gaps) > 1; out.HasGaps {
		slices.Sort(w.gaps)
		out.Gaps = chart.Histogram{
			Label: "Distribution of the time between events", Title: "Time between events", Values: w.gaps, Format: unit.Millis, Unit: "ms",
			Marks: []chart.Quantile{{Name: "p50", Value: quantile(w.gaps, 0.5)}, {Name: "p99", Value: quantile(w.gaps, 0.99)}},
		}.Draw(chart.Size{Width: cellWidth, Height: 170})
	}
	return out, nil
}

// firstTokens are the TTFTs of the launch in ms.
func firstTokens(requests []speedmatrix.RequestRow) []float64 {
	var values []float64
	for _, r := range requests {
		if (r.Purpose == "launch" || r.Purpose == "fill" && len(requests) == 1) && r.FirstNS != nil && r.WrittenNS != nil && *r.FirstNS >= *r.WrittenNS {
			values = append(values, float64(*r.FirstNS-*r.WrittenNS)/1e6)
		}
	}
	slices.Sort(values)
	return values
}

// quantile is the value at share p of sorted values, nearest rank.
func quantile(sorted []float64, p float64) float64 {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// window adds up what arrived in a cell's window.
type window struct {
	from, to       int64
	bucket         int64
	tokens, length []float64
	counted        bool
	gaps           []float64
	last           map[int32]lastEvent
	events         int
	total          float64
}

type lastEvent struct {
	at     int64
	tokens int32
}

// The parts into which a window is divided: so many that each has some tokens.
const (
	leastParts    = 10
	mostParts     = 60
	tokensPerPart = 20
)

func newWindow(c *speedmatrix.Cell) *window {
	from := c.WindowStartedAt.UnixNano()
	length := int64(*c.WindowSeconds * 1e9)
	parts := min(max(int(value(c.OutputTokens)/tokensPerPart), leastParts), mostParts)
	w := &window{from: from, to: from + length, bucket: max(1, length/int64(parts)), last: map[int32]lastEvent{}, total: value(c.OutputTokens)}
	w.tokens, w.length = make([]float64, parts), make([]float64, parts)
	return w
}

func (w *window) add(e speedmatrix.EventRow) {
	last, known := w.last[e.Request]
	tokens := last.tokens
	if e.Tokens != nil {
		tokens = *e.Tokens
	}
	inside := e.TimeNS > w.from && e.TimeNS <= w.to
	if inside {
		part := min(int((e.TimeNS-w.from)/w.bucket), len(w.tokens)-1)
		if e.Tokens != nil && tokens > last.tokens {
			w.tokens[part] += float64(tokens - last.tokens)
			w.counted = true
		}
		w.length[part] += float64(e.TextLength)
	}
	if e.TextLength > 0 && !e.Continued {
		if inside && known && last.at > w.from {
			w.gaps = append(w.gaps, float64(e.TimeNS-last.at)/1e6)
		}
		if inside {
			w.events++
		}
		last.at = e.TimeNS
	}
	last.tokens = tokens
	w.last[e.Request] = last
}

// rates is tok/s in each part of the window: by counted tokens, else by length of text.
func (w *window) rates() []chart.Sample {
	parts, factor := w.tokens, 1.0
	if !w.counted {
		sum := 0.0
		for _, n := range w.length {
			sum += n
		}
		if sum <= 0 {
			return nil
		}
		parts, factor = w.length, w.total/sum
	}
	var samples []chart.Sample
	for i, n := range parts {
		from := float64(int64(i)*w.bucket) / 1e9
		seconds := min(float64(w.bucket)/1e9, float64(w.to-w.from)/1e9-from)
		if seconds > 0 {
			samples = append(samples, chart.Sample{Seconds: from + seconds/2, Value: n * factor / seconds})
		}
	}
	return samples
}

func (w *window) timeline(m *Measurement, server []speedmatrix.ServerRow) chart.Timeline {
	t := chart.Timeline{Label: "The window of " + m.Name + " over time", Seconds: float64(w.to-w.from) / 1e9}
	t.Lanes = append(t.Lanes, chart.Lane{Name: "Total tok/s", Samples: w.rates(), Mean: m.Cell.TotalTokensPerSecond, Last: m.Total, Main: true})
	for _, lane := range []struct {
		name string
		of   func(*speedmatrix.ServerRow) *float64
		last func(float64) string
		top  float64
	}{
		{"Running", func(r *speedmatrix.ServerRow) *float64 { return r.Running }, count, float64(m.Cell.Concurrency)},
		{"Waiting", func(r *speedmatrix.ServerRow) *float64 { return r.Waiting }, count, float64(m.Cell.Concurrency)},
		{"KV cache in use", func(r *speedmatrix.ServerRow) *float64 { return r.KVUsage }, unit.Percent, 0},
	} {
		samples := w.scrapes(server, lane.of)
		if len(samples) < 2 {
			continue
		}
		t.Lanes = append(t.Lanes, chart.Lane{Name: lane.name, Samples: samples, Last: lane.last(samples[len(samples)-1].Value), Step: true, Top: lane.top})
	}
	return t
}

// mostScrapes bounds the points of a lane.
const mostScrapes = 120

// scrapes are the values of the server within the window.
func (w *window) scrapes(server []speedmatrix.ServerRow, of func(*speedmatrix.ServerRow) *float64) []chart.Sample {
	begin, _ := slices.BinarySearchFunc(server, w.from, func(r speedmatrix.ServerRow, at int64) int { return cmp.Compare(r.MiddleNS(), at) })
	var samples []chart.Sample
	for i := begin; i < len(server) && server[i].MiddleNS() <= w.to; i++ {
		if v := of(&server[i]); v != nil {
			samples = append(samples, chart.Sample{Seconds: float64(server[i].MiddleNS()-w.from) / 1e9, Value: *v})
		}
	}
	if n := (len(samples) + mostScrapes - 1) / mostScrapes; n > 1 {
		kept := samples[:0]
		for i := 0; i < len(samples); i += n {
			kept = append(kept, samples[i])
		}
		samples = kept
	}
	return samples
}
