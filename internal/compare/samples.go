package compare

import (
	"fmt"
	"math"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/stats"
)

// Metric is a number that is compared.
type Metric string

// The metrics, by the names that --fail-if knows.
const (
	Total             Metric = "total"
	PerRequest        Metric = "per-request"
	TTFT              Metric = "ttft"
	TimeBetweenTokens Metric = "time-between-tokens"
	Prefill           Metric = "prefill"
)

// Metrics lists them in the order in which they are shown.
func Metrics() []Metric { return []Metric{Total, PerRequest, TTFT, TimeBetweenTokens, Prefill} }

// Name is the metric's name in tables and sentences.
func (m Metric) Name() string {
	switch m {
	case Total:
		return "Total tok/s"
	case PerRequest:
		return "Per request tok/s"
	case TTFT:
		return "TTFT"
	case TimeBetweenTokens:
		return "Time between tokens"
	case Prefill:
		return "Prefill tok/s"
	}
	return string(m)
}

// MoreIsBetter says whether a larger number is the faster one.
func (m Metric) MoreIsBetter() bool { return m == Total || m == PerRequest || m == Prefill }

// phase is the phase of the cells that have the metric.
func (m Metric) phase() speedmatrix.Phase {
	if m == Prefill {
		return speedmatrix.PhasePrefill
	}
	return speedmatrix.PhaseDecode
}

// value is a cell's number; ok is false where it has none above 0.
func (m Metric) value(c *speedmatrix.Cell) (v float64, ok bool) {
	if !c.Status.ShowsSpeed() || c.Phase != m.phase() {
		return 0, false
	}
	var p *float64
	switch m {
	case Total:
		p = c.TotalTokensPerSecond
	case PerRequest:
		p = c.PerRequestTokensPerSecond
	case TTFT:
		p = median(c.TTFT)
	case TimeBetweenTokens:
		p = median(c.TimeBetweenTokens)
	case Prefill:
		p = c.PromptTokensPerSecond
	}
	if p == nil || !(*p > 0) || math.IsInf(*p, 0) {
		return 0, false
	}
	return *p, true
}

func median(d *speedmatrix.Distribution) *float64 {
	if d == nil {
		return nil
	}
	return d.P50
}

// place is where a cell stands in a run.
type place struct {
	phase                speedmatrix.Phase
	context, concurrency int
}

// measurement is one measurement of a cell.
type measurement struct {
	// order counts the measurements of the matrix over all runs of the side, the same for all cells.
	order int
	run   string
	// repeat is its number within the run, from 1.
	repeat int
	cell   *speedmatrix.Cell
}

// samples are a side's measurements by cell, in their order.
type samples struct {
	at    map[place][]measurement
	times int
}

func newSamples(runs []*speedmatrix.Run) *samples {
	s := &samples{at: map[place][]measurement{}}
	for _, run := range runs {
		s.add(run.ID, 1, run.Cells)
		repeats := slices.Clone(run.Repeats)
		slices.SortStableFunc(repeats, func(a, b speedmatrix.Repeat) int { return a.Index - b.Index })
		for i := range repeats {
			s.add(run.ID, repeats[i].Index, repeats[i].Cells)
		}
	}
	return s
}

// add takes the cells of one time through the matrix.
func (s *samples) add(run string, repeat int, cells []speedmatrix.Cell) {
	for i := range cells {
		c := &cells[i]
		p := place{c.Phase, c.Context, c.Concurrency}
		if c.Phase == speedmatrix.PhasePrefill {
			p.concurrency = 1
		}
		s.at[p] = append(s.at[p], measurement{order: s.times, run: run, repeat: repeat, cell: c})
	}
	s.times++
}

// series is a metric's values over the measurements of a cell.
type series struct {
	orders []int
	values []float64
	// logs are the natural logarithms of the values.
	logs []float64
	from []measurement
}

func newSeries(list []measurement, m Metric) series {
	var s series
	for _, x := range list {
		if v, ok := m.value(x.cell); ok {
			s.orders, s.values, s.logs = append(s.orders, x.order), append(s.values, v), append(s.logs, math.Log(v))
			s.from = append(s.from, x)
		}
	}
	return s
}

// mean is the geometric mean; NaN without values.
func (s series) mean() float64 { return math.Exp(stats.Mean(s.logs)) }

// standing is how a cell ended on a side.
func standing(list []measurement) Standing {
	s := Standing{Measured: len(list), Values: map[Metric]float64{}}
	counts := map[speedmatrix.Status]int{}
	for _, x := range list {
		counts[x.cell.Status]++
		if x.cell.Status.ShowsSpeed() {
			s.Shown++
		}
	}
	for _, x := range list {
		if s.Status == "" || counts[x.cell.Status] > counts[s.Status] {
			s.Status, s.Reason = x.cell.Status, x.cell.Reason
		}
	}
	for _, m := range Metrics() {
		if series := newSeries(list, m); len(series.values) > 0 {
			s.Values[m] = series.mean()
		}
	}
	return s
}

// newSide looks at a side for itself.
func newSide(name string, runs []*speedmatrix.Run, s *samples) Side {
	side := Side{Name: name, Runs: runs, Measurements: s.times, Outliers: []Outlier{}}
	for _, run := range runs {
		side.IDs = append(side.IDs, run.ID)
	}
	if d := runs[0].Drift; d != nil {
		side.Drift = d.Change
	}
	side.setNoise(s)
	side.setTrend(s)
	return side
}

// decodePlaces are the decode cells of a side in order.
func decodePlaces(s *samples) []place {
	return slices.DeleteFunc(places(s, s), func(p place) bool { return p.phase != speedmatrix.PhaseDecode })
}

// leastOutlier is how far from the median a measurement is before it is worth a name, as a share.
const leastOutlier = 0.01

// setNoise pools the variances of all cells, and names the measurements that stand apart.
func (side *Side) setNoise(s *samples) {
	cells := decodePlaces(s)
	squares, free := 0.0, 0
	for _, p := range cells {
		x := newSeries(s.at[p], Total)
		if n := len(x.logs); n > 1 {
			squares += stats.Deviation(x.logs) * stats.Deviation(x.logs) * float64(n-1)
			free += n - 1
		}
		if i, ok := stats.Outlier(x.logs, Level/float64(len(cells))); ok && math.Abs(x.values[i]/stats.Median(x.values)-1) >= leastOutlier {
			side.Outliers = append(side.Outliers, Outlier{Cell: x.from[i].cell.Key(), Run: x.from[i].run, Repeat: x.from[i].repeat,
				Value: x.values[i], Median: stats.Median(x.values)})
		}
	}
	if free > 0 {
		noise := math.Sqrt(squares / float64(free))
		side.Noise = &noise
	}
}

// setTrend looks for a drift over the measurements: of each one's mean over the cells that all have.
func (side *Side) setTrend(s *samples) {
	var cells []series
	for _, p := range decodePlaces(s) {
		if x := newSeries(s.at[p], Total); len(x.logs) == s.times {
			cells = append(cells, x)
		}
	}
	if len(cells) == 0 {
		return
	}
	if e, ok := stats.Slope(meanOver(cells, s.times)); ok && e.P(0) < Level {
		side.Trend = new(relative(e))
	}
}

// meanOver is the mean over cells of each measurement's logarithms.
func meanOver(cells []series, times int) []float64 {
	means := make([]float64, times)
	for i := range means {
		for _, x := range cells {
			means[i] += x.logs[i] / float64(len(cells))
		}
	}
	return means
}

// relative turns an estimate of logarithms into a relative change.
func relative(e stats.Estimate) Interval {
	low, high := e.Interval95()
	return Interval{Change: math.Expm1(e.Value), Low: math.Expm1(low), High: math.Expm1(high)}
}

// cellName is "decode 16K × 8" or "prefill 16K".
func cellName(c *Cell) string {
	if c.Phase == speedmatrix.PhasePrefill {
		return fmt.Sprintf("%s %s", c.Phase, c.ContextLabel)
	}
	return fmt.Sprintf("%s %s × %d", c.Phase, c.ContextLabel, c.Concurrency)
}
