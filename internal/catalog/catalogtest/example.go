package catalogtest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/catalog"
)

// machine is an invented card or several: memory in GB, bandwidth in GB/s, prefill against an RTX 3090, cards, and the share
// of the bandwidth that is reached against CUDA cards.
type machine struct {
	memory, bandwidth, prefill, cards, reach float64
}

var exampleMachines = map[string]machine{
	"RTX 3090 24GB": {24, 936, 1, 1, 1}, "RTX 4090 24GB": {24, 1008, 2.1, 1, 1}, "RTX 5090 32GB": {32, 1792, 2.9, 1, 1},
	"RTX PRO 6000 96GB": {96, 1792, 3.3, 1, 1}, "2 × RTX 3090 24GB": {48, 1560, 1.6, 2, 1}, "L40S 48GB": {48, 864, 2.3, 1, 1},
	"A100 80GB": {80, 2039, 3, 1, 1}, "H100 80GB": {80, 3350, 7.4, 1, 1}, "H200 141GB": {141, 4800, 7.6, 1, 1},
	"RX 7900 XTX 24GB": {24, 960, .7, 1, .82}, "MI300X 192GB": {192, 5300, 6.9, 1, .74}, "GB10 128GB": {128, 273, 1.1, 1, 1},
	"M4 Max 128GB": {128, 546, .28, 1, 1}, "Arc Pro B60 24GB": {24, 456, .6, 1, .8}}

// weights are an invented model: GB, the share that one request reads, bytes of KV cache a token, prefill in prompt tok/s at
// 8K on an RTX 3090, the longest context in K, ms of a step beside the reading, and times the cost of the KV cache.
type weights struct {
	quantization                                   string
	size, share, kv, prefill, longest, step, times float64
}

var exampleModels = map[string]weights{
	"Agents-A1-4B-FP8":                      {"FP8", 4.84, 1, 32768, 10800, 248, 0, 1},
	"Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit": {"AWQ 4-bit", 16.6, .135, 26112, 3531, 136, 3.4, 5},
	"Qwen3-8B-FP8":                          {"FP8", 8.6, 1, 73728, 6100, 120, 0, 1},
	"Qwen3-32B-AWQ":                         {"AWQ 4-bit", 18.9, 1, 131072, 1480, 120, 0, 1},
	"Llama-3.1-8B-Instruct-FP8":             {"FP8", 8.5, 1, 65536, 6400, 120, 0, 1},
	"Llama-3.3-70B-Instruct-AWQ":            {"AWQ 4-bit", 39.8, 1, 163840, 690, 120, 0, 1},
	"gpt-oss-20b":                           {"MXFP4", 12.8, .28, 24576, 6900, 120, 1.6, 1.4},
	"gpt-oss-120b":                          {"MXFP4", 61, .09, 36864, 3600, 120, 2.6, 1.4},
	"gemma-3-27b-it-qat":                    {"Q4_0", 17.2, 1, 63488, 1750, 120, 0, 1},
	"Mistral-Small-3.2-24B-FP8":             {"FP8", 24.6, 1, 81920, 2150, 120, 0, 1},
	"GLM-4.5-Air-AWQ":                       {"AWQ 4-bit", 58, .12, 94208, 2300, 120, 3, 1.2}}

// exampleEngines are the share of the bandwidth that an engine reaches, and what a further request costs it.
var exampleEngines = map[string][2]float64{"vllm": {.75, 1}, "sglang": {.77, .95}, "llama.cpp": {.66, 2.4}, "mlx-lm": {.68, 2}}

// exampleRuns are the runs of Example: model, hardware, engine, day, level, and what is special in the words of special.
const exampleRuns = `
agents | H200 141GB | vllm 0.32.0 | 11-28 | 5 | by 2
agents | H100 80GB | sglang 0.6.3 | 11-16 | 4
agents | H100 80GB | vllm 0.32.0 | 11-10 | 5 | by 1
agents | MI300X 192GB | vllm 0.32.0 | 11-19 | 4
agents | RTX PRO 6000 96GB | vllm 0.32.0 | 11-17 | 5 | by 1
agents | RTX 5090 32GB | vllm 0.32.0 | 11-14 | 5 | by 3
agents | RTX 5090 32GB | sglang 0.6.3 | 11-22 | 3
agents | A100 80GB | vllm 0.31.1 | 11-02 | 4
agents | RTX 4090 24GB | vllm 0.32.0 | 11-23 | 5 | by 1
agents | L40S 48GB | vllm 0.32.0 | 11-21 | 4
agents | RTX 3090 24GB | vllm 0.32.0 | 11-18 | 5 | by 2
agents | RX 7900 XTX 24GB | vllm 0.32.0 | 11-12 | 3
agents | GB10 128GB | vllm 0.32.0 | 11-15 | 4
agents | Arc Pro B60 24GB | vllm 0.31.1 | 10-30 | 3
agents | RTX 3090 24GB | vllm 0.28.0 | 06-21 | 4 | gain 90
agents | RTX 3090 24GB | vllm 0.29.2 | 07-30 | 4 | gain 91
agents | RTX 3090 24GB | vllm 0.30.0 | 09-03 | 5 | by 1, gain 95
agents | RTX 3090 24GB | vllm 0.31.1 | 10-14 | 4 | gain 99
qwen3-coder | RTX 3090 24GB | vllm 0.29.2 | 08-02 | 4 | gain 93
qwen3-coder | RTX 3090 24GB | vllm 0.30.0 | 09-05 | 4
qwen3-coder | RTX 3090 24GB | vllm 0.31.1 | 10-15 | 4 | gain 91
qwen3-coder | RTX 3090 24GB | vllm 0.32.0 | 11-17 | 5 | by 1, gain 102
qwen3-8b | RTX 3090 24GB | vllm 0.32.0 | 11-16 | 4
llama-3.1 | RTX 3090 24GB | vllm 0.32.0 | 11-14 | 5 | by 1
gpt-oss-20b | RTX 3090 24GB | vllm 0.32.0 | 11-13 | 4 | looped 16x8
gpt-oss-20b | RTX 3090 24GB | llama.cpp b8140 | 11-11 | 3
gemma | RTX 3090 24GB | llama.cpp b8140 | 11-10 | 4
qwen3-32b | RTX 3090 24GB | vllm 0.32.0 | 11-08 | 3
qwen3-coder | RTX 5090 32GB | vllm 0.32.0 | 11-27 | 4
qwen3-coder | RTX 4090 24GB | vllm 0.32.0 | 11-24 | 3 | repeats 3
qwen3-coder | H100 80GB | sglang 0.6.3 | 11-20 | 4
qwen3-coder | 2 × RTX 3090 24GB | vllm 0.32.0 | 11-19 | 4
gpt-oss-120b | RTX PRO 6000 96GB | vllm 0.32.0 | 11-28 | 4
gpt-oss-120b | H100 80GB | vllm 0.32.0 | 11-26 | 5 | by 1
gpt-oss-120b | GB10 128GB | llama.cpp b8140 | 11-22 | 3 | repeats 3
gpt-oss-120b | M4 Max 128GB | mlx-lm 0.31.0 | 11-09 | 3 | repeats 3
gpt-oss-20b | RTX 5090 32GB | vllm 0.32.0 | 11-25 | 4
llama-3.3 | 2 × RTX 3090 24GB | vllm 0.32.0 | 11-07 | 4 | failed 0x16
llama-3.3 | H100 80GB | vllm 0.32.0 | 11-05 | 4
llama-3.3 | RTX PRO 6000 96GB | sglang 0.6.2 | 10-28 | 3
qwen3-32b | RTX 5090 32GB | vllm 0.32.0 | 11-23 | 4
qwen3-32b | L40S 48GB | vllm 0.32.0 | 11-03 | 3
mistral | RTX 5090 32GB | vllm 0.32.0 | 11-21 | 4
mistral | A100 80GB | vllm 0.31.1 | 10-25 | 4
glm | RTX PRO 6000 96GB | vllm 0.32.0 | 11-29 | 4 | looped 64x4
glm | H200 141GB | sglang 0.6.3 | 11-18 | 4 | queued 32x16
gemma | M4 Max 128GB | llama.cpp b8102 | 10-20 | 3 | repeats 3
llama-3.1 | RTX 4090 24GB | vllm 0.32.0 | 11-06 | 4
qwen3-8b | RX 7900 XTX 24GB | llama.cpp b8140 | 11-04 | 3
qwen3-8b | L40S 48GB | sglang 0.6.2 | 10-22 | 4
agents | RTX 5090 32GB | vllm 0.32.0 | 11-23 | 3 | speculative
agents | RTX 4090 24GB | vllm 0.32.0 | 11-13 | 2 | quick, repeats 1
qwen3-coder | RTX 4090 24GB | vllm 0.32.0 | 10-02 | 1 | compat, repeats 1
qwen3-8b | L40S 48GB | vllm 0.32.0 | 11-01 | 3 | repeats 1, raised`

// Example invents the runs of a small site, newest last: closed form by bandwidth, batch and room for the KV cache.
func Example() []catalog.Entry {
	rng := rand.New(rand.NewPCG(20261130, 1))
	var list []catalog.Entry
	for line := range strings.SplitSeq(strings.TrimSpace(exampleRuns), "\n") {
		list = append(list, exampleRun(rng, strings.Split(line, " | ")))
	}
	slices.SortStableFunc(list, func(a, b catalog.Entry) int { return a.MeasuredAt.Compare(b.MeasuredAt) })
	for i := range list {
		list[i].ID, list[i].Sequence, list[i].RunID = fmt.Sprintf("01kb%022d", i), int64(i+1), fmt.Sprintf("example-%d", i)
		list[i].EventsHash, list[i].DocumentHash = hashOf("events", i), hashOf("document", i)
	}
	return list
}

func hashOf(what string, i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", what, i))
	return hex.EncodeToString(sum[:])
}

func exampleRun(rng *rand.Rand, f []string) catalog.Entry {
	name := ""
	for model := range exampleModels {
		if strings.HasPrefix(catalog.Key(model), f[0]) {
			name = model
		}
	}
	at, err := time.Parse("2006-01-02 15:04", "2026-"+f[3]+" 14:20")
	if err != nil {
		panic(err)
	}
	engine, version, _ := strings.Cut(f[2], " ")
	owner := rng.IntN(24)
	e := catalog.Entry{Version: 1, Visibility: catalog.Public, Owner: fmt.Sprintf("owner%d", owner), OwnerName: fmt.Sprintf("user-%d", owner), Level: catalog.Level(f[4][0] - '0'),
		Origin: "measured", Method: speedmatrix.MethodStandard, Model: name, ModelKey: catalog.Key(name), Weights: hashOf(name, 0)[:40], Quantization: exampleModels[name].quantization,
		Hardware: f[1], HardwareKey: catalog.Key(f[1]), Engine: engine, EngineVersion: version, Repeats: 5, MeasuredAt: at, ReceivedAt: at.Add(time.Hour), PublishedAt: at.Add(2 * time.Hour),
		Flags: []string{"--max-model-len 131072", "--gpu-memory-utilization 0.94", "--kv-cache-dtype fp8"}}
	gain, hurt := 1.0, map[string]speedmatrix.Status{}
	if len(f) > 5 {
		for word := range strings.SplitSeq(f[5], ", ") {
			gain = cmp.Or(special(&e, word, hurt), gain)
		}
	}
	simulate(rng, &e, gain, hurt)
	return e
}

// special changes a run by a word of exampleRuns; it gives the gain, 0 for none.
func special(e *catalog.Entry, word string, hurt map[string]speedmatrix.Status) float64 {
	what, value, _ := strings.Cut(word, " ")
	number := 0
	_, _ = fmt.Sscan(value, &number)
	switch what {
	case "by":
		e.Reproductions = number
	case "gain":
		return float64(number) / 100
	case "repeats":
		e.Repeats = number
	case "looped":
		hurt[value] = speedmatrix.StatusLooped
	case "failed":
		hurt[value] = speedmatrix.StatusFailed
	case "queued":
		hurt[value] = speedmatrix.StatusRequestsQueued
	case "speculative":
		e.Speculative = "eagle 3"
		return 1.55
	case "quick":
		e.Method = speedmatrix.MethodQuick
	case "compat":
		e.Method, e.Origin, e.Source, e.EventsHash = speedmatrix.MethodCompat, "imported", "llm-inference-bench 0.8.0", ""
	case "raised":
		e.Modified = "power limit raised to 400 W"
	}
	return 0
}

// simulate fills the cells of a run.
func simulate(rng *rand.Rand, e *catalog.Entry, gain float64, hurt map[string]speedmatrix.Status) {
	m, w, en := exampleMachines[e.Hardware], exampleModels[e.Model], exampleEngines[e.Engine]
	wobble := func(s float64) float64 { return math.Exp(rng.NormFloat64() * s) }
	gain *= wobble(.02)
	room := max(0, m.memory*m.cards/max(1, m.cards)*.987-w.size*1.02-1.6) * 1e9 / w.kv * .82
	if e.Engine == "llama.cpp" || e.Engine == "mlx-lm" {
		room = min(room, 16*34000)
	}
	spread := float32(.006 + .014*rng.Float64())
	fourth := 96.0
	if w.longest > 128 {
		fourth = 128
	}
	none := float32(math.NaN())
	for _, k := range []float64{0, 16, 32, 64, fourth, w.longest} {
		for _, n := range []float64{1, 2, 4, 8, 16, 32, 64, 128} {
			context := k * 1024
			c := catalog.Cell{Context: int(context), Label: fmt.Sprintf("%gK", k), Concurrency: int(n), Status: speedmatrix.StatusValid, Total: none, Half: none, PerRequest: none, TTFT: none, Between: none}
			if k == 0 {
				c.Label = "0"
			}
			hurting := hurt[fmt.Sprintf("%gx%g", k, n)]
			switch {
			case n*(context+8192) > room:
				c.Status = speedmatrix.StatusOverCapacity
			case hurting != "" && !hurting.ShowsSpeed():
				c.Status = hurting
			default:
				c.Status = cmp.Or(hurting, c.Status)
				read := w.size
				if w.share < 1 {
					read *= 1 - math.Pow(1-w.share, 1+.55*(n-1))
				}
				ms := (1.5+w.step)/min(1.4, math.Pow(m.bandwidth/936, .2)) + (read+n*context*w.kv/1e9*.8*w.times)/(m.bandwidth*en[0]*m.reach)*1000 + n*.2*en[1]/math.Pow(m.prefill, .7)
				total := 1000 / (ms / gain) * n * wobble(.008)
				c.Total, c.PerRequest, c.Between = float32(total), float32(total/n), float32(1000*n/total)
				c.TTFT = float32((context + 200) / (w.prefill * m.prefill) * 1000 * (n + 1) / 2)
				if e.Repeats > 1 {
					c.Half = c.Total * spread
				}
			}
			e.Cells = append(e.Cells, c)
		}
	}
	for _, k := range []float64{8, 16, 32, 64, 128} {
		if k <= w.longest && k*1024+8192 <= room {
			e.Prefill = append(e.Prefill, catalog.Prefill{Context: int(k * 1024), Label: fmt.Sprintf("%gK", k), TokensPerSecond: float32(w.prefill * m.prefill / (1 + (k-8)*.0095) * wobble(.015))})
		}
	}
}
