package bench

import (
	"math"
	"time"

	"speedmatrix/internal/stats"
)

// Precision watches, for --precision, how exact the total tok/s of a window already is. The zero value watches one
// window.
type Precision struct {
	// times and tokens are the looks into the window and what came before each.
	times  []int64
	tokens []float64
	sofar  float64
	lastNS int64
	// interval and drift are those of the last estimate, if known.
	interval, drift float64
	known           bool
}

// Look notes what an observation of an open window at an instant in ns counts, estimates anew once a second, and puts
// the estimate into the observation.
func (p *Precision) Look(now int64, o *Observation, w *WindowRules) {
	o.Interval, o.Drift = -1, -1
	if w.Precision <= 0 {
		return
	}
	total := 0.0
	for i := range o.Streams {
		total += o.Streams[i].Tokens
	}
	if len(p.times) == 0 {
		p.sofar, p.lastNS = total, now
	}
	p.times, p.tokens = append(p.times, now), append(p.tokens, total-p.sofar)
	p.sofar = total
	if now-p.lastNS >= int64(time.Second) {
		p.lastNS = now
		p.interval, p.drift, p.known = p.estimate(now, w, len(o.Streams))
	}
	if p.known {
		o.Interval, o.Drift = p.interval, p.drift
	}
}

// precisionParts is the number of points that the line through the speed goes by.
const precisionParts = 16

// estimate gives the half width of the interval so far, as a share, and the share by which a line through the speed
// predicts the mean to change over the rest of the window.
func (p *Precision) estimate(now int64, w *WindowRules, streams int) (interval, drift float64, ok bool) {
	start := p.times[0]
	low, high, ok := stats.BatchMeans(p.times, p.tokens, start, now)
	if !ok || high+low <= 0 {
		return 0, 0, false
	}
	x, y := make([]float64, precisionParts), make([]float64, precisionParts)
	width := float64(now-start) / precisionParts
	for i, at := range p.times {
		y[min(int(float64(at-start)/width), precisionParts-1)] += p.tokens[i]
	}
	for i := range x {
		x[i] = (float64(i) + 0.5) * width
	}
	slope, _, ok := stats.Line(x, y)
	if !ok {
		return 0, 0, false
	}
	mean := stats.Mean(y)
	rest := p.rest(float64(now-start), w, streams)
	return (high - low) / (high + low), math.Abs(slope*rest/2) / max(mean, 1e-9), true
}

// rest is how long the window would still be open, in ns, by its duration and by the tokens of a stream.
func (p *Precision) rest(elapsed float64, w *WindowRules, streams int) float64 {
	rest := float64(w.Duration) - elapsed
	if came := stats.Mean(p.tokens) * float64(len(p.tokens)); w.Tokens > 0 && came > 0 {
		rest = min(rest, elapsed*(float64(w.Tokens*streams)/came-1))
	}
	return max(rest, 0)
}
