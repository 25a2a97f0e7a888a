package main

import (
	"math"
	"math/rand/v2"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// model is a machine whose steps take a noisy time.
type model struct {
	// within is the standard deviation of a step's time as a share, correlation that of one step with the next
	// (AR(1)), between the standard deviation of all steps of one run together.
	within, correlation, between float64
}

// usual is the noise that the bars are about.
var usual = model{within: 0.02, correlation: 0.9, between: 0.005}

// shape is a cell of the matrix and how long a step takes there, in seconds.
type shape struct {
	cell speedmatrix.Cell
	step float64
}

// shapes are the 19 cells of the simulated matrix.
func shapes() (list []shape) {
	for _, row := range []struct {
		context, levels int
		step            float64
	}{{0, 6, 0.0085}, {16 << 10, 5, 0.0092}, {32 << 10, 4, 0.0102}, {64 << 10, 3, 0.0127}, {128 << 10, 1, 0.0178}} {
		for i := range row.levels {
			list = append(list, shape{step: row.step * (1 + 0.15*float64(i)), cell: speedmatrix.Cell{
				Phase: speedmatrix.PhaseDecode, Context: row.context, ContextLabel: unit.FormatTokens(row.context),
				Concurrency: 1 << i, Status: speedmatrix.StatusValid}})
		}
	}
	return list
}

// The window of the standard method: 30 s, or 1,024 tokens of a stream.
const (
	windowSeconds = 30.0
	windowSteps   = 1024
)

// window simulates the window of a cell in lockstep: its rate, and the interval by the formula of run.json.
func (m model) window(r *rand.Rand, step float64, streams int) (rate float64, interval *speedmatrix.Interval) {
	noise := r.NormFloat64() * m.within
	fresh := m.within * math.Sqrt(1-m.correlation*m.correlation)
	times, weights := make([]int64, 0, windowSteps), make([]float64, 0, windowSteps)
	at := 0.0
	for len(times) < windowSteps && at < windowSeconds {
		noise = m.correlation*noise + fresh*r.NormFloat64()
		at += step * (1 + noise)
		times, weights = append(times, int64(at*1e9)), append(weights, float64(streams))
	}
	end := times[len(times)-1]
	rate = float64(len(times)*streams) / (float64(end) / 1e9)
	if low, high, ok := stats.BatchMeans(times, weights, 0, end); ok {
		interval = &speedmatrix.Interval{Low: low, High: high}
	}
	return rate, interval
}

// measure simulates one cell on a machine whose steps take so many times as long.
func (m model) measure(r *rand.Rand, s shape, times float64) speedmatrix.Cell {
	c := s.cell
	rate, interval := m.window(r, s.step*times, c.Concurrency)
	c.TotalTokensPerSecond, c.Interval95 = &rate, interval
	return c
}

// factor is what a run's steps take beyond those of others.
func (m model) factor(r *rand.Rand) float64 { return 1 + m.between*r.NormFloat64() }

// document is a run without cells.
func document(name string) *speedmatrix.Run {
	return &speedmatrix.Run{Schema: speedmatrix.Schema, ID: name, Origin: speedmatrix.OriginMeasured,
		StartedAt: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		Method:    speedmatrix.Method{Name: speedmatrix.MethodStandard, DurationSeconds: windowSeconds, WindowTokens: windowSteps, Prompts: "distinct"}}
}

// keep puts one time through the matrix into a run: its cells, or a repeat.
func keep(run *speedmatrix.Run, cells []speedmatrix.Cell) {
	if run.Cells == nil {
		run.Cells = cells
		return
	}
	run.Repeats = append(run.Repeats, speedmatrix.Repeat{Index: len(run.Repeats) + 2, Cells: cells})
}

// run simulates one set-up whose matrix is measured so many times; slower is by how much a cell's steps take longer.
func (m model) run(r *rand.Rand, name string, slower func(cell int) float64, times int) *speedmatrix.Run {
	run := document(name)
	for range times {
		factor := m.factor(r)
		var cells []speedmatrix.Cell
		for i, s := range shapes() {
			cells = append(cells, m.measure(r, s, factor*slower(i)))
		}
		keep(run, cells)
	}
	return run
}

// drifting is a machine that becomes slower, or faster, by a share over a whole experiment, and on which every
// measurement of a cell varies for itself.
type drifting struct {
	model
	share float64
	// done of all measurements are over.
	done, all int
}

// step measures a cell, now.
func (d *drifting) step(r *rand.Rand, s shape, slower float64) speedmatrix.Cell {
	now := 1 + d.share*float64(d.done)/float64(d.all)
	d.done++
	return d.measure(r, s, d.factor(r)*slower*now)
}

// oneAfterTheOther measures A so often, then B.
func (d *drifting) oneAfterTheOther(r *rand.Rand, slower float64, times int) (a, b *speedmatrix.Run) {
	a, b = document("a"), document("b")
	list := shapes()
	d.done, d.all = 0, 2*times*len(list)
	for n := range 2 * times {
		run, factor := a, 1.0
		if n >= times {
			run, factor = b, slower
		}
		var cells []speedmatrix.Cell
		for _, s := range list {
			cells = append(cells, d.step(r, s, factor))
		}
		keep(run, cells)
	}
	return a, b
}

// alternating measures A and B cell by cell, in the order A B B A from cell to cell and from round to round.
func (d *drifting) alternating(r *rand.Rand, slower float64, rounds int) (a, b *speedmatrix.Run) {
	a, b = document("a"), document("b")
	a.Interleaved, b.Interleaved = &speedmatrix.Interleaved{With: "b", Side: "A"}, &speedmatrix.Interleaved{With: "a", Side: "B"}
	list := shapes()
	d.done, d.all = 0, 2*rounds*len(list)
	for round := range rounds {
		var cells [2][]speedmatrix.Cell
		for i, s := range list {
			for k := range 2 {
				side, factor := (k+i+round)%2, 1.0
				if side == 1 {
					factor = slower
				}
				cells[side] = append(cells[side], d.step(r, s, factor))
			}
		}
		keep(a, cells[0])
		keep(b, cells[1])
	}
	return a, b
}
