// Package profile holds simulated machines as data: a model on a machine, the
// scheduler's limits, the KV cache, and the step times. Both machines whose
// numbers are calibrated to published measurements are embedded, with others
// that are estimated from data sheets; users bring their own as YAML files.
package profile

import "speedmatrix"

// Profile is one model served on one machine.
type Profile struct {
	// Name is what commands call it: lower case, digits, dots and hyphens.
	Name  string `yaml:"name"`
	Title string `yaml:"title"`
	// Kind is KindCalibrated, KindEstimated or KindFitted.
	Kind string `yaml:"kind"`
	// Source says where the numbers come from, Assumptions what was assumed where none were known.
	Source      string   `yaml:"source"`
	Assumptions []string `yaml:"assumptions,omitempty"`

	Model         Model    `yaml:"model"`
	Hardware      Hardware `yaml:"hardware"`
	Engine        Engine   `yaml:"engine"`
	LaunchCommand string   `yaml:"launch_command,omitempty"`

	Scheduler Scheduler `yaml:"scheduler"`
	KV        KV        `yaml:"kv"`
	StepTime  StepTime  `yaml:"step_time"`
	FrontEnd  FrontEnd  `yaml:"front_end"`
	Prompt    Prompt    `yaml:"prompt"`
	Matrix    Matrix    `yaml:"matrix,omitempty"`
	// Estimate, if there, gives the step times, the KV blocks and the front end that are not given, from data sheets.
	Estimate *Estimate `yaml:"estimate,omitempty"`
}

// The kinds of profile.
const (
	KindCalibrated = "calibrated" // fitted to published measurements; the source tells the error
	KindEstimated  = "estimated"  // computed from data sheets
	KindFitted     = "fitted"     // fitted to a run of one's own
)

// Model is what is served.
type Model struct {
	Name         string `yaml:"name"`
	ServedName   string `yaml:"served_name,omitempty"`
	Revision     string `yaml:"revision,omitempty"`
	Quantization string `yaml:"quantization,omitempty"`
	// MaxLengthTokens is the most prompt and output tokens of one request.
	MaxLengthTokens int `yaml:"max_length_tokens"`
	// WeightsGiB is what the weights take of the card's memory; 0 is unknown.
	WeightsGiB float64 `yaml:"weights_gib,omitempty"`
}

// Hardware is the machine.
type Hardware struct {
	Type string `yaml:"type,omitempty"`
	GPU  string `yaml:"gpu"`
	// VRAMGiB is the memory of all cards together; 0 is unknown.
	VRAMGiB float64 `yaml:"vram_gib,omitempty"`
	CPU     string  `yaml:"cpu,omitempty"`
	RAM     string  `yaml:"ram,omitempty"`
	OS      string  `yaml:"os,omitempty"`
}

// Engine is the program that the simulation stands for.
type Engine struct {
	Name       string `yaml:"name"`
	Version    string `yaml:"version"`
	Backend    string `yaml:"backend,omitempty"`
	Repository string `yaml:"repository,omitempty"`
	Build      string `yaml:"build,omitempty"`
	KVType     string `yaml:"kv_dtype,omitempty"`
}

// Scheduler holds the limits of a step.
type Scheduler struct {
	// StepTokens is the token budget of a step (max_num_batched_tokens), MaxRunning the most requests at once (max_num_seqs).
	StepTokens    int  `yaml:"step_tokens"`
	MaxRunning    int  `yaml:"max_running"`
	PrefixCaching bool `yaml:"prefix_caching"`
	// Hybrid: prefill chunks end on block boundaries and prefixes are found only where a chunk ended.
	Hybrid bool `yaml:"hybrid,omitempty"`
	// LongPrefillTokens is the most prompt tokens of one request in a step; 0 is the budget.
	LongPrefillTokens int `yaml:"long_prefill_tokens,omitempty"`
	// Watermark is the share (0–1) of blocks kept free when a request is admitted beside others.
	Watermark float64 `yaml:"watermark,omitempty"`
}

// KV is the KV cache. One of the blocks is the null block that no request gets.
type KV struct {
	BlockTokens int `yaml:"block_tokens"`
	Blocks      int `yaml:"blocks"`
	// BytesPerToken is what a token takes over all layers; 0 is unknown.
	BytesPerToken float64 `yaml:"bytes_per_token,omitempty"`
}

// Tokens is the KV budget as engines report it.
func (k *KV) Tokens() int { return k.Blocks * k.BlockTokens }

// StepTime holds the parameters of the duration of a step; engine.Timing has the formula.
type StepTime struct {
	BaseMS        float64 `yaml:"base_ms"`
	PerSequenceMS float64 `yaml:"per_sequence_ms,omitempty"`
	// PerExpertMS is per distinct expert over all layers; a token uses ExpertsPerToken of Experts.
	PerExpertMS     float64 `yaml:"per_expert_ms,omitempty"`
	Experts         float64 `yaml:"experts,omitempty"`
	ExpertsPerToken float64 `yaml:"experts_per_token,omitempty"`
	// KVLongestUS is per token of the longest sequence, KVUniqueUS per token of the KV cache read with shared blocks
	// counted once, KVTotalUS with them counted for each sequence. KVWaveFactor (at least 1) limits what sharing
	// saves, KVNorm (at least 1) joins the two.
	KVLongestUS  float64 `yaml:"kv_longest_us,omitempty"`
	KVUniqueUS   float64 `yaml:"kv_unique_us,omitempty"`
	KVTotalUS    float64 `yaml:"kv_total_us,omitempty"`
	KVWaveFactor float64 `yaml:"kv_wave_factor"`
	KVNorm       float64 `yaml:"kv_norm"`
	// PrefillBaseMS is for a step that contains prefill, PrefillTokenUS per token of it, PrefillSmallUS besides that
	// for the first PrefillSmallTokens.
	PrefillBaseMS      float64 `yaml:"prefill_base_ms"`
	PrefillTokenUS     float64 `yaml:"prefill_token_us"`
	PrefillSmallUS     float64 `yaml:"prefill_small_us,omitempty"`
	PrefillSmallTokens float64 `yaml:"prefill_small_tokens,omitempty"`
	// AttentionPairNS is per pair of query and key in a prefill, AttentionFloorUS the least time per token of context,
	// AttentionContention the share that each further sequence adds to that floor.
	AttentionPairNS     float64 `yaml:"attention_pair_ns"`
	AttentionFloorUS    float64 `yaml:"attention_floor_us,omitempty"`
	AttentionContention float64 `yaml:"attention_contention,omitempty"`
	// Attention is AttentionPerSequence or AttentionOneKernel.
	Attention string `yaml:"attention"`
}

// How a step with prefill reads the attention.
const (
	AttentionPerSequence = "per-sequence" // each chunk by itself, the decodes' KV beside it
	AttentionOneKernel   = "one-kernel"   // one kernel for all, as long as its longest sequence takes
)

// FrontEnd is what a request costs before the scheduler sees it: a serial part, one request after the other, and a
// delay that requests spend at the same time. Each is a constant and a part per prompt token.
type FrontEnd struct {
	SerialMS      float64 `yaml:"serial_ms"`
	SerialTokenUS float64 `yaml:"serial_token_us"`
	DelayMS       float64 `yaml:"delay_ms"`
	DelayTokenUS  float64 `yaml:"delay_token_us"`
}

// Prompt says how many tokens a prompt of a context label really has under method compat/llm-inference-bench:
// OffsetTokens + PerContextToken · context, ZeroContextTokens at context 0.
type Prompt struct {
	ZeroContextTokens int     `yaml:"zero_context_tokens,omitempty"`
	OffsetTokens      float64 `yaml:"offset_tokens,omitempty"`
	PerContextToken   float64 `yaml:"per_context_token,omitempty"`
}

// Tokens is the length of the prompt of a context.
func (p *Prompt) Tokens(context int) int {
	if context == 0 {
		return p.ZeroContextTokens
	}
	return int(p.OffsetTokens + p.PerContextToken*float64(context) + 0.5)
}

// Matrix is the matrix of the measurement that a profile was calibrated to.
type Matrix struct {
	Contexts    []int `yaml:"contexts,omitempty"`
	Concurrency []int `yaml:"concurrency,omitempty"`
	Prefill     []int `yaml:"prefill,omitempty"`
}

// Source marks what a run knows from a profile.
const Source = "profile"

// ModelFacts gives the profile's model as facts of a run.
func (p *Profile) ModelFacts() speedmatrix.Facts {
	f := speedmatrix.Facts{}
	set(f, speedmatrix.ModelName, p.Model.Name)
	set(f, speedmatrix.ModelServedName, p.Model.ServedName)
	set(f, speedmatrix.ModelRevision, p.Model.Revision)
	set(f, speedmatrix.ModelQuantization, p.Model.Quantization)
	f.Set(speedmatrix.ModelMaxLength, p.Model.MaxLengthTokens, Source)
	return f
}

// HardwareFacts gives the profile's machine as facts of a run.
func (p *Profile) HardwareFacts() speedmatrix.Facts {
	f := speedmatrix.Facts{}
	set(f, speedmatrix.HardwareType, p.Hardware.Type)
	set(f, speedmatrix.HardwareGPU, p.Hardware.GPU)
	if p.Hardware.VRAMGiB > 0 {
		set(f, speedmatrix.HardwareVRAM, gib(p.Hardware.VRAMGiB))
	}
	set(f, speedmatrix.HardwareCPU, p.Hardware.CPU)
	set(f, speedmatrix.HardwareRAM, p.Hardware.RAM)
	set(f, speedmatrix.HardwareOS, p.Hardware.OS)
	return f
}

// EngineFacts gives the profile's engine as facts of a run.
func (p *Profile) EngineFacts() speedmatrix.Facts {
	f := speedmatrix.Facts{}
	set(f, speedmatrix.EngineName, p.Engine.Name)
	set(f, speedmatrix.EngineVersion, p.Engine.Version)
	set(f, speedmatrix.EngineBackend, p.Engine.Backend)
	set(f, speedmatrix.EngineRepository, p.Engine.Repository)
	set(f, speedmatrix.EngineBuild, p.Engine.Build)
	set(f, speedmatrix.EngineKVType, p.Engine.KVType)
	f.Set(speedmatrix.EngineRunningLimit, p.Scheduler.MaxRunning, Source)
	f.Set(speedmatrix.EngineKVTokens, p.KV.Tokens(), Source)
	f.Set(speedmatrix.EngineKVBlocks, p.KV.Blocks, Source)
	f.Set(speedmatrix.EngineKVBlockTokens, p.KV.BlockTokens, Source)
	f.Set(speedmatrix.EnginePrefixCaching, p.Scheduler.PrefixCaching, Source)
	f.Set(speedmatrix.EngineStepTokens, p.Scheduler.StepTokens, Source)
	return f
}

func set(f speedmatrix.Facts, key, value string) {
	if value != "" {
		f.Set(key, value, Source)
	}
}
