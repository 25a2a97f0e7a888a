package capacity

import (
	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Limit is what of the server stops more users.
type Limit string

// The limits.
const (
	LimitNone    Limit = ""                     // nothing larger was planned
	LimitKV      Limit = "KV cache"             // the contexts of more requests do not fit, or were preempted
	LimitQueue   Limit = "queue"                // the server runs no more at once
	LimitLength  Limit = "model length"         // prompt and output exceed the model's length
	LimitPrefill Limit = "prefill"              // prompts are read too slowly for the first token
	LimitMemory  Limit = "memory bandwidth"     // a step's time is that of reading weights and KV cache
	LimitCompute Limit = "compute"              // a step's time is that of computing
	LimitSpeed   Limit = "bandwidth or compute" // a step takes longer, and the run does not tell by which
	LimitUnknown Limit = "not measured"         // the next larger number has no speed for a reason that is not the server's
)

// limitOf says what stops at the next larger number of requests.
func limitOf(run *speedmatrix.Run, row Row, q Demand) Limit {
	next := row.Next
	if next == nil {
		return LimitNone
	}
	if next.Concurrency == 1 && next.Status.ShowsSpeed() {
		return slowed(run, next, q) // one request waits for nobody
	}
	switch next.Status {
	case speedmatrix.StatusOverCapacity:
		return LimitKV
	case speedmatrix.StatusExceedsModelLength:
		return LimitLength
	case speedmatrix.StatusRequestsQueued:
		if next.Preemptions != nil && *next.Preemptions > 0 {
			return LimitKV
		}
		return LimitQueue
	case speedmatrix.StatusValid:
		return slowed(run, next, q)
	}
	return LimitUnknown
}

// slowed says why a cell that ran without a queue does not keep the demand.
func slowed(run *speedmatrix.Run, c *speedmatrix.Cell, q Demand) Limit {
	if each := c.PerRequestTokensPerSecond; each == nil || *each >= q.Floor {
		return LimitPrefill
	}
	memory, compute, ok := StepBounds(run, c)
	switch {
	case !ok:
		return LimitSpeed
	case memory > compute:
		return LimitMemory
	}
	return LimitCompute
}

// StepBounds gives the least time, in seconds, that one step of a decode cell takes by the memory bandwidth and by
// the compute of the run's hardware: (weights + C × context × KV bytes) ÷ bandwidth and C × (work of a token +
// context × work of a query and key) ÷ compute. ok is false where the run does not say what a token costs or what
// the hardware gives. Experts of a mixture are counted as one token reads them, so the first is a lower bound.
func StepBounds(run *speedmatrix.Run, c *speedmatrix.Cell) (memory, compute float64, ok bool) {
	h := HardwareOf(run.Hardware)
	weights, known := run.Model.Positive(speedmatrix.ModelReadBytes)
	work, worked := run.Model.Positive(speedmatrix.ModelFLOP)
	if !known || !worked || h.Bandwidth <= 0 || h.Compute <= 0 {
		return 0, 0, false
	}
	kv, _ := run.Model.Positive(speedmatrix.ModelKVBytes)
	pair, _ := run.Model.Positive(speedmatrix.ModelPairFLOP)
	context, n := float64(c.Context), float64(c.Concurrency)
	if c.ContextTokens != nil {
		context = c.ContextTokens.Mean
	}
	return (weights + n*context*kv) / h.Bandwidth, n * (work + context*pair) / h.Compute, true
}

// Price is what the server costs: either may be 0, not given.
type Price struct {
	// PerHour is the price of the whole server for an hour, PerKWh that of electricity, in Currency.
	PerHour, PerKWh float64
	Currency        string
	// Watts is the power of the server under load; 0 takes what was measured of its GPUs in the cell.
	Watts float64
}

// Cost is what a million output tokens take at one cell; 0 is not known.
type Cost struct {
	// Money is in the currency of the price, KilowattHours the energy, JoulesPerToken the energy of one token.
	Money, KilowattHours, JoulesPerToken float64
	// Measured says that the power was measured, of the GPUs alone.
	Measured bool
}

// At gives the cost of a million output tokens at a cell's total tok/s. ok is false without a speed or a price.
func (p Price) At(c *speedmatrix.Cell) (cost Cost, ok bool) {
	if c == nil || c.TotalTokensPerSecond == nil || *c.TotalTokensPerSecond <= 0 {
		return Cost{}, false
	}
	if p.Watts <= 0 && c.GPUPower != nil {
		p.Watts, cost.Measured = *c.GPUPower, true
	}
	if p.PerHour <= 0 && p.Watts <= 0 {
		return Cost{}, false
	}
	seconds := 1e6 / *c.TotalTokensPerSecond
	cost.JoulesPerToken = p.Watts * seconds / 1e6
	cost.KilowattHours = p.Watts * seconds / 3.6e6
	cost.Money = p.PerHour*seconds/3600 + p.PerKWh*cost.KilowattHours
	return cost, true
}

// Text is the cost in words: "0.42 EUR and 1.2 kWh per million output tokens, 4.3 J a token".
func (c Cost) Text(currency string) string {
	var parts string
	if c.Money > 0 {
		parts = unit.Amount(c.Money, currency)
	}
	if c.KilowattHours > 0 {
		if parts != "" {
			parts += " and "
		}
		parts += unit.Amount(c.KilowattHours, "kWh")
	}
	parts += " per million output tokens"
	if c.JoulesPerToken > 0 {
		parts += ", " + unit.Energy(c.JoulesPerToken) + " a token"
		if c.Measured {
			parts += " (GPU power as measured)"
		}
	}
	return parts
}
