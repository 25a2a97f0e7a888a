package verify

import (
	"errors"
	"fmt"
	"math"

	"speedmatrix"
)

// Check recomputes the run's published numbers and tests its invariants. Rows that
// cannot be read are a disagreement of their cell. The error says that the check
// itself could not be made.
func Check(run *speedmatrix.Run, rows Rows) (*Report, error) {
	if run == nil || rows == nil {
		return nil, errors.New("verify: a run and its rows are needed")
	}
	server, err := rows.Server()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	machine, err := rows.Machine()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	c := &checker{run: run, rows: rows, server: server, machine: machine, report: &Report{}}
	c.fills = c.findFills()
	c.checkPlan()
	c.checkTime()
	c.checkMachine()
	for i := range run.Cells {
		c.checkCell("", &run.Cells[i])
	}
	c.checkDrift()
	c.checkRepeats()
	return c.report, nil
}

// checker goes through a run and collects what does not agree.
type checker struct {
	run    *speedmatrix.Run
	rows   Rows
	server []speedmatrix.ServerRow
	// machine are the samples of the machine.
	machine []speedmatrix.MachineRow
	fills   map[int]*fills
	report  *Report
}

func (c *checker) disagree(cell, field string, published, recomputed any) {
	c.report.Disagreements = append(c.report.Disagreements, Disagreement{
		Cell: cell, Field: field, Published: fmt.Sprint(published), Recomputed: fmt.Sprint(recomputed),
	})
}

// checkCell checks one cell, whose rows stand under its key behind the prefix.
func (c *checker) checkCell(prefix string, cell *speedmatrix.Cell) {
	key := prefix + cell.Key()
	c.checkSanity(key, cell)
	if awaited(cell) {
		return
	}
	if !c.rows.HasCell(key) {
		if publishes(cell) {
			c.report.Unchecked = append(c.report.Unchecked, key+": "+c.whyNoRows())
		}
		return
	}
	m, err := c.load(key, cell)
	if err != nil {
		c.disagree(key, "rows", "readable", err)
		return
	}
	c.report.Cells++
	c.checkInvariants(m)
	var got *speedmatrix.Cell
	if cell.Phase == speedmatrix.PhasePrefill {
		got = c.prefill(m)
	} else {
		got = c.decode(m)
	}
	c.compare(m, got)
}

func (c *checker) whyNoRows() string {
	switch c.run.Origin {
	case speedmatrix.OriginImported:
		return "imported from another tool's results, which have no raw events"
	case speedmatrix.OriginPredicted:
		return "predicted, not measured: there are no raw events"
	}
	return "its raw events are not in the run directory"
}

// checkPlan wants every planned cell exactly once, and no other.
func (c *checker) checkPlan() {
	plan := c.run.Plan
	if len(plan.Prefill)+len(plan.Contexts)+len(plan.Concurrency) == 0 {
		return
	}
	type place struct {
		phase                speedmatrix.Phase
		context, concurrency int
	}
	have := map[place]int{}
	for i := range c.run.Cells {
		cell := &c.run.Cells[i]
		have[place{cell.Phase, cell.Context, cell.Concurrency}]++
	}
	expect := func(p place) {
		if n := have[p]; n != 1 {
			c.disagree("", fmt.Sprintf("cells (%s, context %d, concurrency %d)", p.phase, p.context, p.concurrency),
				fmt.Sprintf("%d times", n), "planned once")
		}
		delete(have, p)
	}
	for _, context := range plan.Prefill {
		expect(place{speedmatrix.PhasePrefill, context, 1})
	}
	for _, context := range plan.Contexts {
		for _, concurrency := range plan.Concurrency {
			expect(place{speedmatrix.PhaseDecode, context, concurrency})
		}
	}
	for i := range c.run.Cells {
		cell := &c.run.Cells[i]
		if have[place{cell.Phase, cell.Context, cell.Concurrency}] > 0 {
			c.disagree(cell.Key(), "plan", "the cell is there", "not planned")
		}
	}
}

// leastDrift is the change from which a drift counts.
const leastDrift = 0.01

func (c *checker) checkDrift() {
	drift := c.run.Drift
	if drift == nil {
		return
	}
	c.checkCell("drift-", &drift.Cell)
	key := "drift-" + drift.Cell.Key()
	first := c.run.FindCell(drift.Cell.Phase, drift.Cell.Context, drift.Cell.Concurrency)
	if first == nil {
		c.disagree(key, "drift.cell", "measured again", "not a cell of the run")
		return
	}
	before, again := first.TotalTokensPerSecond, drift.Cell.TotalTokensPerSecond
	var change *float64
	if before != nil && again != nil && *before != 0 {
		change = new((*again - *before) / *before)
	}
	if drift.Change != nil || drift.Cell.Status == speedmatrix.StatusValid {
		// A change is a small difference of large numbers: it is as exact as they are.
		c.compareValue(field{key, "drift.change", true}, drift.Change, change, exactly)
	}
	if drift.Change == nil {
		change = nil
	}
	// Where a rounding decides, either answer is right.
	beyond := func(slack float64) bool {
		return change != nil && math.Abs(*change) >= leastDrift+slack && apart(first, &drift.Cell, slack)
	}
	least, most := beyond(exactly), beyond(-exactly)
	if drift.Significant != least && drift.Significant != most {
		c.disagree(key, "drift.significant", drift.Significant, most)
	}
}

// apart says whether the intervals of two rates do not meet, by a share of the rates. A
// rate without an interval stands for itself.
func apart(a, b *speedmatrix.Cell, slack float64) bool {
	x, y := a.Interval95, b.Interval95
	if x == nil {
		x = &speedmatrix.Interval{Low: *a.TotalTokensPerSecond, High: *a.TotalTokensPerSecond}
	}
	if y == nil {
		y = &speedmatrix.Interval{Low: *b.TotalTokensPerSecond, High: *b.TotalTokensPerSecond}
	}
	slack *= *a.TotalTokensPerSecond
	return x.Low > y.High+slack || y.Low > x.High+slack
}

// within says whether a rate lies in an interval that is made wider by a share of the rate.
func within(x float64, i *speedmatrix.Interval, slack float64) bool {
	return x >= i.Low-slack*x && x <= i.High+slack*x
}

func (c *checker) checkRepeats() {
	seen := map[string]bool{}
	for i := range c.run.Repeats {
		repeat := &c.run.Repeats[i]
		prefix := fmt.Sprintf("repeat-%d-", repeat.Index)
		for j := range repeat.Cells {
			cell := &repeat.Cells[j]
			key := prefix + cell.Key()
			if seen[key] {
				c.disagree(key, "repeats", "the cell is there twice", "once in a repeat")
			}
			seen[key] = true
			if c.run.FindCell(cell.Phase, cell.Context, cell.Concurrency) == nil {
				c.disagree(key, "repeats", "measured again", "not a cell of the run")
			}
			c.checkCell(prefix, cell)
		}
	}
}

// publishes says whether a cell holds any measured number.
func publishes(cell *speedmatrix.Cell) bool { return len(published(cell)) > 0 }

// awaited says whether the run has not come to a cell. A program that was killed after it wrote the cell's rows and
// before it wrote the document leaves rows there that nothing was published from.
func awaited(cell *speedmatrix.Cell) bool {
	return cell.Status == speedmatrix.StatusInterrupted && cell.Attempts == 0 && cell.Requests == nil && !publishes(cell)
}

// published lists the fields of a cell that hold measured numbers.
func published(cell *speedmatrix.Cell) []string {
	var names []string
	for _, f := range []struct {
		name  string
		there bool
	}{
		{"context_tokens", cell.ContextTokens != nil},
		{"prompt_tokens", cell.PromptTokens != nil},
		{"cached_tokens", cell.CachedTokens != nil},
		{"total_tokens_per_second", cell.TotalTokensPerSecond != nil},
		{"interval_95", cell.Interval95 != nil},
		{"per_request_tokens_per_second", cell.PerRequestTokensPerSecond != nil},
		{"prompt_tokens_per_second", cell.PromptTokensPerSecond != nil},
		{"ttft_ms", samples(cell.TTFT)},
		{"visible_ttft_ms", samples(cell.VisibleTTFT)},
		{"time_between_tokens_ms", samples(cell.TimeBetweenTokens)},
		{"event_gap_ms", samples(cell.EventGap)},
		{"active_requests_mean", cell.ActiveRequestsMean != nil},
		{"requests", cell.Requests != nil && cell.Requests.Sent > 0},
		{"output_tokens", cell.OutputTokens != nil},
		{"window_started_at", cell.WindowStartedAt != nil},
		{"window_seconds", cell.WindowSeconds != nil},
		{"queued_share", cell.QueuedShare != nil},
		{"tokens_per_event", cell.TokensPerEvent != nil},
		{"accepted_tokens_per_step", cell.AcceptedTokensPerStep != nil},
		{"energy_joules_per_output_token", cell.EnergyPerOutputToken != nil},
		{"energy_joules_per_prompt_token", cell.EnergyPerPromptToken != nil},
		{"gpu_power_watts_mean", cell.GPUPower != nil},
		{"gpu_clock_mhz", cell.GPUClock != nil},
		{"throttle", cell.Throttle != nil},
		{"send_ms", samples(cell.Send)},
		{"connect_ms", samples(cell.Connect)},
		{"prefill_samples", len(cell.PrefillSamples) > 0},
		{"counter_check", cell.CounterCheck != nil},
	} {
		if f.there {
			names = append(names, f.name)
		}
	}
	return names
}

func samples(d *speedmatrix.Distribution) bool { return d != nil && d.N > 0 }
