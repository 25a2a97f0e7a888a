package profile

import (
	"fmt"
	"math"
	"strconv"
)

// Estimate is what data sheets say of a card and a model: enough to estimate a profile.
type Estimate struct {
	// BandwidthGBs is the memory bandwidth, TFLOPS the dense 16-bit tensor rate with 32-bit sums.
	BandwidthGBs float64 `yaml:"bandwidth_gb_s"`
	TFLOPS       float64 `yaml:"tflops"`
	// ParametersB and ActiveB are the parameters in all and per token, in 10⁹; WeightBits is what one takes in memory.
	ParametersB float64 `yaml:"parameters_b"`
	ActiveB     float64 `yaml:"active_b"`
	WeightBits  float64 `yaml:"weight_bits"`
	// ExpertB are the parameters of one expert over all layers, in 10⁹; Experts and ExpertsPerToken how many there
	// are in a layer and how many a token uses. All 0 for a dense model.
	ExpertB         float64 `yaml:"expert_b,omitempty"`
	Experts         int     `yaml:"experts,omitempty"`
	ExpertsPerToken int     `yaml:"experts_per_token,omitempty"`
	// The shape of the attention, and the bytes of a value in the KV cache.
	Layers   int     `yaml:"layers"`
	Heads    int     `yaml:"heads"`
	KVHeads  int     `yaml:"kv_heads"`
	HeadDim  int     `yaml:"head_dim"`
	KVBytes  float64 `yaml:"kv_bytes"`
	MemShare float64 `yaml:"memory_share,omitempty"`
}

// What is assumed of every card. The per-layer time, the share of the tensor rate and the ratios of the KV reads are
// those of the calibrated 3090, rounded.
const (
	assumedBandwidthShare  = 0.85
	assumedFLOPSShare      = 0.6
	assumedAttentionShare  = 0.4
	assumedLayerMS         = 0.06
	assumedSequenceMS      = 0.02
	assumedTotalKVRatio    = 0.62
	assumedFloorPairs      = 328
	assumedMemoryShare     = 0.92
	assumedWorkspaceGiB    = 1.5
	assumedBlockTokens     = 16
	assumedSerialMS        = 3.633
	assumedSerialTokenUS   = 0.6586
	assumedDelayMS         = 0.9362
	assumedDelayTokenUS    = 0.9178
	bytesPerGiB            = 1 << 30
	giga                   = 1e9
	millisPerSecond, micro = 1e3, 1e6
)

// assumptions says in words what fill assumes.
func assumptions() []string {
	return []string{
		fmt.Sprintf("Weights and KV cache are read at %g of the memory bandwidth; each layer costs %g µs of launches and latency beside that.",
			assumedBandwidthShare, assumedLayerMS*1000),
		fmt.Sprintf("Prefill reaches %g of the 16-bit tensor rate in matrices and %g in attention; a step with prefill reads all weights once.",
			assumedFLOPSShare, assumedAttentionShare),
		"Tokens of a mixture of experts choose their experts at random.",
		fmt.Sprintf("KV blocks: %g of the memory, less the weights and %g GiB of workspace.", assumedMemoryShare, assumedWorkspaceGiB),
		"The front end costs what it cost on the machine of the calibrated profiles (a Ryzen 9 7900X).",
		"The step's token budget and the number of requests at once are vLLM's defaults for that class of card.",
	}
}

// fill computes what the profile does not give.
func (p *Profile) fill() {
	e := p.Estimate
	if e == nil {
		return
	}
	weights := e.ParametersB * giga * e.WeightBits / 8
	if p.Model.WeightsGiB == 0 {
		p.Model.WeightsGiB = round(weights / bytesPerGiB)
	}
	if p.KV.BlockTokens == 0 {
		p.KV.BlockTokens = assumedBlockTokens
	}
	if p.KV.BytesPerToken == 0 {
		p.KV.BytesPerToken = 2 * float64(e.Layers*e.KVHeads*e.HeadDim) * e.KVBytes
	}
	if p.KV.Blocks == 0 {
		p.KV.Blocks = e.blocks(p)
	}
	if p.StepTime == (StepTime{}) {
		p.StepTime = e.stepTime(weights, p.KV.BytesPerToken)
	}
	if p.FrontEnd == (FrontEnd{}) {
		p.FrontEnd = FrontEnd{SerialMS: assumedSerialMS, SerialTokenUS: assumedSerialTokenUS, DelayMS: assumedDelayMS, DelayTokenUS: assumedDelayTokenUS}
	}
	if len(p.Assumptions) == 0 {
		p.Assumptions = assumptions()
	}
}

func (e *Estimate) blocks(p *Profile) int {
	share := e.MemShare
	if share == 0 {
		share = assumedMemoryShare
	}
	left := (p.Hardware.VRAMGiB*share - p.Model.WeightsGiB - assumedWorkspaceGiB) * bytesPerGiB
	return max(int(left/p.KV.BytesPerToken)/p.KV.BlockTokens, 0)
}

func (e *Estimate) stepTime(weights, kvBytes float64) StepTime {
	read := e.BandwidthGBs * giga * assumedBandwidthShare
	expert := e.ExpertB * giga * e.WeightBits / 8
	dense := weights - expert*float64(e.Experts)
	layers := float64(e.Layers) * assumedLayerMS
	unique := kvBytes / read * micro
	pair := 4 * float64(e.Layers*e.Heads*e.HeadDim) / (e.TFLOPS * assumedAttentionShare * 1e12) * giga
	return StepTime{
		BaseMS: round(layers + dense/read*millisPerSecond), PerSequenceMS: assumedSequenceMS,
		PerExpertMS: round(expert / read * millisPerSecond), Experts: float64(e.Experts), ExpertsPerToken: float64(e.ExpertsPerToken),
		KVUniqueUS: round(unique), KVTotalUS: round(unique * assumedTotalKVRatio), KVWaveFactor: 2, KVNorm: 3,
		PrefillBaseMS:   round(layers + weights/read*millisPerSecond),
		PrefillTokenUS:  round(2 * e.ActiveB * giga / (e.TFLOPS * assumedFLOPSShare * 1e12) * micro),
		AttentionPairNS: round(pair), AttentionFloorUS: round(pair * assumedFloorPairs / 1e3), Attention: AttentionPerSequence,
	}
}

// round keeps four digits: more would pretend to know them.
func round(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return y
}

func gib(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) + " GB" }
