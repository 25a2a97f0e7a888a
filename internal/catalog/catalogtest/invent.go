package catalogtest

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/catalog"
)

// card is an invented machine: what it is called, and its speed against the slowest.
type card struct {
	name  string
	speed float64
}

var (
	cards = []card{{"RTX 3090 24GB", 1}, {"RTX 4090 24GB", 1.2}, {"RTX 5090 32GB", 1.9}, {"L40S 48GB", 1.1}, {"A100 80GB", 2.1}, {"H100 80GB", 3.3},
		{"H200 141GB", 4.1}, {"MI300X 192GB", 3.6}, {"RX 7900 XTX 24GB", 0.9}, {"RTX PRO 6000 96GB", 1.9}, {"2 × RTX 3090 24GB", 1.6}, {"GB10 128GB", 0.4}, {"M4 Max 128GB", 0.5}, {"Arc Pro B60 24GB", 0.45}}
	modelsOf = []struct {
		name, quantization string
		speed              float64
	}{{"Agents-A1-4B", "FP8", 1}, {"Qwen3-Coder-30B-A3B-Instruct", "AWQ 4-bit", 0.8}, {"gpt-oss-20b", "MXFP4", 1.1}, {"gpt-oss-120b", "MXFP4", 0.6},
		{"Llama-3.3-70B-Instruct", "AWQ 4-bit", 0.25}, {"Qwen3-8B", "FP8", 0.7}, {"Qwen3-32B", "AWQ 4-bit", 0.4}, {"gemma-3-27b-it-qat", "Q4_0", 0.45},
		{"Mistral-Small-3.2-24B", "AWQ 4-bit", 0.5}, {"GLM-4.5-Air", "AWQ 4-bit", 0.5}, {"Llama-3.1-8B-Instruct", "FP8", 0.75}}
	enginesOf = []struct {
		name     string
		versions []string
	}{{"vllm", []string{"0.30.0", "0.31.1", "0.32.0"}}, {"sglang", []string{"0.6.2", "0.6.3"}}, {"llama.cpp", []string{"b8102", "b8140"}}}
	contextsOf = []int{0, 16384, 32768, 65536, 131072, 253952}
	labelsOf   = []string{"0", "16K", "32K", "64K", "128K", "248K"}
)

// Invent gives n invented runs, always the same for a seed: plausible speeds, every status, repeats, some of other methods
// and of changed hardware.
func Invent(n int, seed uint64) iter.Seq[catalog.Entry] {
	return func(yield func(catalog.Entry) bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		begin := time.Date(2026, 6, 21, 8, 0, 0, 0, time.UTC)
		for i := range n {
			if !yield(invent(rng, i, begin.Add(time.Duration(float64(i)/float64(n)*162*24)*time.Hour))) {
				return
			}
		}
	}
}

// Entries are all runs of Invent.
func Entries(n int, seed uint64) []catalog.Entry {
	return slices.AppendSeq(make([]catalog.Entry, 0, n), Invent(n, seed))
}

func invent(rng *rand.Rand, i int, at time.Time) catalog.Entry {
	c, m, en := cards[rng.IntN(len(cards))], modelsOf[rng.IntN(len(modelsOf))], enginesOf[min(rng.IntN(5), 2)%3]
	version := en.versions[rng.IntN(len(en.versions))]
	e := catalog.Entry{ID: fmt.Sprintf("01k%023d", i), Version: 1, Sequence: int64(i + 1), RunID: fmt.Sprintf("run-%d", i),
		EventsHash: fmt.Sprintf("%064x", i), DocumentHash: fmt.Sprintf("%064x", i+1<<40), Visibility: catalog.Public,
		Owner: fmt.Sprintf("owner%03d", rng.IntN(200)), Level: catalog.Recomputed + catalog.Level(rng.IntN(3)),
		Origin: "measured", Method: "standard/1", Model: m.name, Weights: fmt.Sprintf("%040x", len(m.name)), Quantization: m.quantization,
		Hardware: c.name, Engine: en.name, EngineVersion: version, Repeats: []int{1, 3, 5}[rng.IntN(3)],
		MeasuredAt: at, ReceivedAt: at.Add(time.Hour), PublishedAt: at.Add(2 * time.Hour)}
	e.OwnerName, e.ModelKey, e.HardwareKey = "user-"+e.Owner[5:], catalog.Key(m.name), catalog.Key(c.name)
	if e.Level == catalog.Reproduced {
		e.Reproductions = 1 + rng.IntN(3)
	}
	e.Flags = []string{"--max-model-len " + labelsOf[rng.IntN(len(labelsOf))], "--gpu-memory-utilization 0." + fmt.Sprint(80+rng.IntN(18))}
	if rng.IntN(3) == 0 {
		e.Flags = append(e.Flags, "--kv-cache-dtype fp8")
	}
	switch rng.IntN(20) {
	case 0:
		e.Method = "quick/1"
	case 1:
		e.Modified = "modified card, unlocked"
	case 2:
		e.Speculative = "eagle 3"
	case 3:
		e.Level, e.Origin, e.Source, e.EventsHash, e.Repeats = catalog.Stated, "imported", "llm-inference-bench 0.8.0", "", 1
	}
	single := 90 * c.speed * m.speed * (1 + 0.04*rng.NormFloat64())
	budget := 160000 * c.speed * m.speed
	for j, context := range contextsOf {
		slow := 1 + float64(context)/60000
		e.Prefill = append(e.Prefill, catalog.Prefill{Context: context, Label: labelsOf[j], TokensPerSecond: float32(9000 * c.speed * m.speed / slow)})
		for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128} {
			e.Cells = append(e.Cells, inventCell(rng, cellPlan{context, labelsOf[j], n, budget, e.Repeats}, single/slow))
		}
	}
	return e
}

type cellPlan struct {
	context     int
	label       string
	concurrency int
	budget      float64
	repeats     int
}

func inventCell(rng *rand.Rand, p cellPlan, single float64) catalog.Cell {
	none := float32(math.NaN())
	cell := catalog.Cell{Context: p.context, Label: p.label, Concurrency: p.concurrency, Status: speedmatrix.StatusValid, Total: none, Half: none, PerRequest: none, TTFT: none, Between: none}
	n := float64(p.concurrency)
	switch {
	case n*(float64(p.context)+200) > p.budget:
		cell.Status = speedmatrix.StatusOverCapacity
		return cell
	case rng.IntN(300) == 0:
		cell.Status = speedmatrix.StatusLooped
		return cell
	case rng.IntN(100) == 0:
		cell.Status = speedmatrix.StatusRequestsQueued
	}
	per := single / (1 + 0.035*n)
	cell.PerRequest, cell.Total = float32(per), float32(per*n)
	cell.TTFT, cell.Between = float32(80+float64(p.context)/9*n/16), float32(1000/per)
	if p.repeats > 1 {
		cell.Half = cell.Total * float32(0.005+0.01*rng.Float64())
	}
	return cell
}

// Fill puts entries into a store as records with a short document each.
func Fill(put func(catalog.Record) error, entries []catalog.Entry) error {
	for _, e := range entries {
		r := catalog.Record{Entry: e, Document: []byte(`{"schema":"speedmatrix.run/1","id":"` + strings.ReplaceAll(e.RunID, `"`, "") + `"}`), Checks: []byte(`{"level":1,"checks":[],"to_reach":""}`)}
		if err := put(r); err != nil {
			return err
		}
	}
	return nil
}
