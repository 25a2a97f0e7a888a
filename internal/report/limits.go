package report

import (
	"fmt"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Facts beyond those that every run has, from which the share of the hardware's limits follows.
// Numbers are in bytes, operations and seconds.
const (
	// ModelReadBytes is what one token reads of the weights; ModelKVBytes what it reads of
	// the KV cache for each token of context.
	ModelReadBytes = "read_bytes_per_token"
	ModelKVBytes   = "kv_bytes_per_token"
	// ModelFLOP is the work of one token, ModelPairFLOP that of one query and one key.
	ModelFLOP     = "flop_per_token"
	ModelPairFLOP = "flop_per_attention_pair"
	// HardwareBandwidth and HardwareCompute overrule the data sheets, for all GPUs together.
	HardwareBandwidth = "memory_bytes_per_second"
	HardwareCompute   = "compute_flop_per_second"
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

// dataSheet is the limits of one card: bytes per second, and operations per second of its
// matrix units with 16-bit numbers, 32-bit sums and no sparsity.
type dataSheet struct{ bandwidth, compute float64 }

// dataSheets are by words in lower case that a GPU's name, with its memory, contains; the
// longest key whose words are all there counts.
var dataSheets = map[string]dataSheet{
	"rtx 3060": {360e9, 25.3e12}, "rtx 3080": {760e9, 59.5e12}, "rtx 3090": {936e9, 71e12}, "rtx 3090 ti": {1008e9, 80e12},
	"rtx 4070": {504e9, 58.3e12}, "rtx 4080": {717e9, 97.5e12}, "rtx 4090": {1008e9, 165.2e12}, "rtx 5090": {1792e9, 209.5e12},
	"a10": {600e9, 125e12}, "a100": {1555e9, 312e12}, "a100 80gb": {2039e9, 312e12}, "rtx a6000": {768e9, 154.8e12}, "a40": {696e9, 149.7e12},
	"l4": {300e9, 121e12}, "l40s": {864e9, 362e12}, "h100": {3350e9, 989.4e12}, "h200": {4800e9, 989.4e12},
	"t4": {320e9, 65e12}, "v100": {900e9, 125e12}, "mi300x": {5300e9, 1307e12},
}

// hardwareLimits is what is known of the hardware's limits and from where.
type hardwareLimits struct {
	dataSheet
	device, source string
}

func limitsOf(facts speedmatrix.Facts) hardwareLimits {
	h := hardwareLimits{device: text(facts, speedmatrix.HardwareGPU), source: "data sheet"}
	name := strings.ToLower(h.device + " " + strings.ReplaceAll(text(facts, speedmatrix.HardwareVRAM), " ", ""))
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_", r) })
	longest := 0
	for key, sheet := range dataSheets {
		missing := func(word string) bool { return !slices.Contains(words, word) }
		if len(key) > longest && !slices.ContainsFunc(strings.Fields(key), missing) {
			h.dataSheet, longest = sheet, len(key)
		}
	}
	if n, ok := facts.Int(speedmatrix.HardwareGPUCount); ok && n > 1 {
		h.bandwidth, h.compute = h.bandwidth*float64(n), h.compute*float64(n)
		h.device = unit.Count(n) + "× " + h.device
	}
	if v, ok := factNumber(facts, HardwareBandwidth); ok {
		h.bandwidth, h.source = v, "as stated"
	}
	if v, ok := factNumber(facts, HardwareCompute); ok {
		h.compute, h.source = v, "as stated"
	}
	return h
}

// factNumber is a fact as a number above zero.
func factNumber(facts speedmatrix.Facts, key string) (float64, bool) {
	var v float64
	switch x := facts[key].Value.(type) {
	case float64:
		v = x
	case int:
		v = float64(x)
	default:
		return 0, false
	}
	return v, v > 0 && v < 1e18
}

// limits gives the share of the memory bandwidth that one request reaches, and of the
// compute limit that prefill reaches, as far as the run says what a token costs.
func limits(d *Document) []Limit {
	h := limitsOf(d.Run.Hardware)
	var list []Limit
	for _, limit := range []Limit{bandwidthLimit(d, h), computeLimit(d, h)} {
		if len(limit.Rows) > 0 {
			list = append(list, limit)
		}
	}
	return list
}

func bandwidthLimit(d *Document, h hardwareLimits) Limit {
	weights, ok := factNumber(d.Run.Model, ModelReadBytes)
	if !ok || h.bandwidth <= 0 {
		return Limit{}
	}
	kv, _ := factNumber(d.Run.Model, ModelKVBytes)
	l := Limit{
		Title: "Share of the memory bandwidth limit, one request", What: "Decode of one request", Name: "memory bandwidth limit", Device: h.device, Unit: "tok/s",
		Assumptions: fmt.Sprintf("Assumes %s of weights and %s bytes of KV per token of context, read once for every token, at %s GB/s (%s, %s).",
			unit.Bytes(int64(weights)), unit.Fixed(kv, 0), unit.Fixed(h.bandwidth/1e9, 0), h.device, h.source),
	}
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		v := m.Cell.TotalTokensPerSecond
		if m.Cell.Concurrency != 1 || v == nil {
			continue
		}
		most := h.bandwidth / (weights + float64(m.Cell.Context)*kv)
		l.Rows = append(l.Rows, limitRow(m.Context, *v/most, m.Total+" of "+unit.Fixed(most, 0)))
	}
	return l
}

func computeLimit(d *Document, h hardwareLimits) Limit {
	each, ok := factNumber(d.Run.Model, ModelFLOP)
	if !ok || h.compute <= 0 {
		return Limit{}
	}
	attention, _ := factNumber(d.Run.Model, ModelPairFLOP)
	most := unit.Fixed(h.compute/1e12, 0)
	l := Limit{
		Title: "Share of the compute limit, prefill", What: "Prefill", Name: "compute limit", Device: h.device, Unit: "TFLOP/s",
		Assumptions: fmt.Sprintf("Assumes %s GFLOP per token and %s FLOP per query and key; the mark is %s TFLOP/s (%s, 16-bit numbers, 32-bit sums, %s).",
			unit.Fixed(each/1e9, 2), unit.Fixed(attention, 0), most, h.device, h.source),
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
		l.Rows = append(l.Rows, limitRow(m.Context, rate/h.compute, unit.Fixed(rate/1e12, 0)+" of "+most))
	}
	return l
}

func limitRow(label string, share float64, text string) LimitRow {
	return LimitRow{Label: label, Share: share, Percent: unit.Percent(share), Value: text}
}
