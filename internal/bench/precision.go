package bench

import (
	"math"
	"time"

	"speedmatrix/internal/stats"
)

// estimate keeps the running rate and, for --precision, the interval so far.
func (w *watcher) estimate(now int64, o Observation) {
	total := 0.0
	for i := range o.Streams {
		total += o.Streams[i].Tokens
	}
	precise := w.spec.Rules.Window.Precision > 0 && w.p.Step() == StepWindow
	if precise {
		if len(w.times) > 0 {
			w.tokens = append(w.tokens, total-w.sofar)
			w.times = append(w.times, now)
		} else {
			w.times, w.tokens = []int64{now}, []float64{0}
		}
		w.sofar = total
	}
	if now-w.lastTotalNS < int64(time.Second) {
		return
	}
	if w.lastTotalNS > 0 {
		w.rate = (total - w.lastTotal) / (float64(now-w.lastTotalNS) / 1e9)
	}
	w.lastTotal, w.lastTotalNS = total, now
	if precise {
		w.interval, w.drift = w.precision(now)
	}
}

// precisionParts is the number of points that the line through the speed goes by.
const precisionParts = 16

// precision gives the half width of the interval so far, as a share, and the share by which a line through the
// speed predicts it to change over the rest of the window.
func (w *watcher) precision(now int64) (interval, drift float64) {
	start := w.times[0]
	low, high, ok := stats.BatchMeans(w.times, w.tokens, start, now)
	if !ok || high+low <= 0 {
		return -1, -1
	}
	x, y := make([]float64, precisionParts), make([]float64, precisionParts)
	width := float64(now-start) / precisionParts
	for i, at := range w.times {
		y[min(int(float64(at-start)/width), precisionParts-1)] += w.tokens[i]
	}
	for i := range x {
		x[i] = (float64(i) + 0.5) * width
	}
	slope, _, ok := stats.Line(x, y)
	if !ok {
		return -1, -1
	}
	mean := (w.sofar - w.tokens[0]) / precisionParts
	rest := max(float64(w.spec.Rules.Window.Duration)-float64(now-start), 0)
	return (high - low) / (high + low), math.Abs(slope*rest/2) / max(mean, 1e-9)
}
