package report

import (
	"fmt"

	"speedmatrix"
	"speedmatrix/internal/capacity"
	"speedmatrix/internal/unit"
)

// Limit is a physical limit of the hardware and how much of it the run reached.
type Limit struct {
	// Title heads the table, What begins a sentence about it, Name says which limit.
	Title, What, Name string
	// Device is the hardware, Unit the unit of the values.
	Device, Unit string
	Rows         []LimitRow
	// Assumptions is what the limit rests on.
	Assumptions string
}

// LimitRow is the share of a limit at one context.
type LimitRow struct {
	Label string
	Share float64
	// Percent is the share for people, Value "109.1 of 174".
	Percent, Value string
}

// limits gives the share of the memory bandwidth that one request reaches, and of the
// compute limit that prefill reaches, as far as the run says what a token costs.
func limits(d *Document) []Limit {
	h := capacity.HardwareOf(d.Run.Hardware)
	h.Device = Clean(h.Device)
	var list []Limit
	for _, limit := range []Limit{bandwidthLimit(d, h), computeLimit(d, h)} {
		if len(limit.Rows) > 0 {
			list = append(list, limit)
		}
	}
	return list
}

func bandwidthLimit(d *Document, h capacity.Hardware) Limit {
	weights, ok := d.Run.Model.Positive(speedmatrix.ModelReadBytes)
	if !ok || h.Bandwidth <= 0 {
		return Limit{}
	}
	kv, _ := d.Run.Model.Positive(speedmatrix.ModelKVBytes)
	l := Limit{
		Title: "Share of the memory bandwidth limit, one request", What: "Decode of one request", Name: "memory bandwidth limit", Device: h.Device, Unit: "tok/s",
		Assumptions: fmt.Sprintf("Assumes %s of weights and %s bytes of KV per token of context, read once for every token, at %s GB/s (%s, %s).",
			unit.Bytes(int64(weights)), unit.Fixed(kv, 0), unit.Fixed(h.Bandwidth/1e9, 0), h.Device, h.Source),
	}
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		v := m.Cell.TotalTokensPerSecond
		if m.Cell.Concurrency != 1 || v == nil {
			continue
		}
		most := h.Bandwidth / (weights + float64(m.Cell.Context)*kv)
		l.Rows = append(l.Rows, limitRow(m.Context, *v/most, m.Total+" of "+unit.Fixed(most, 0)))
	}
	return l
}

func computeLimit(d *Document, h capacity.Hardware) Limit {
	each, ok := d.Run.Model.Positive(speedmatrix.ModelFLOP)
	if !ok || h.Compute <= 0 {
		return Limit{}
	}
	attention, _ := d.Run.Model.Positive(speedmatrix.ModelPairFLOP)
	most := unit.Fixed(h.Compute/1e12, 0)
	l := Limit{
		Title: "Share of the compute limit, prefill", What: "Prefill", Name: "compute limit", Device: h.Device, Unit: "TFLOP/s",
		Assumptions: fmt.Sprintf("Assumes %s GFLOP per token and %s FLOP per query and key; the mark is %s TFLOP/s (%s, 16-bit numbers, 32-bit sums, %s).",
			unit.Fixed(each/1e9, 2), unit.Fixed(attention, 0), most, h.Device, h.Source),
	}
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		tokens, ok := derivedLength(m.Cell)
		if m.Cell.PromptTokens != nil {
			tokens, ok = *m.Cell.PromptTokens, true
		}
		if !ok || m.Cell.PromptTokensPerSecond == nil {
			continue
		}
		rate := *m.Cell.PromptTokensPerSecond * (each + attention*tokens/2)
		l.Rows = append(l.Rows, limitRow(m.Context, rate/h.Compute, unit.Fixed(rate/1e12, 0)+" of "+most))
	}
	return l
}

func limitRow(label string, share float64, text string) LimitRow {
	return LimitRow{Label: label, Share: share, Percent: unit.Percent(share), Value: text}
}
