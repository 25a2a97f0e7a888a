package speedmatrix

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Fact is something known about a set-up and where it was learned. Where two
// sources disagree, Others keeps what the less trusted ones said.
type Fact struct {
	// Value is a string, a number (float64 after decoding) or a bool.
	Value any `json:"value"`
	// Source is an endpoint ("GET /version"), "process", "log", "machine", "profile" or SourceUser.
	Source string `json:"source"`
	Others []Fact `json:"others,omitempty"`
}

// SourceUser marks a fact stated by the user: pages mark it as stated.
const SourceUser = "user"

// Facts are facts by key; the keys that have a meaning are constants.
type Facts map[string]Fact

// The keys of model facts.
const (
	// ModelName is what was loaded, ModelServedName the name that requests give.
	ModelName       = "name"
	ModelServedName = "served_name"
	// ModelBase is the model that an adapter was made for, or that was quantized or tuned.
	ModelBase = "base_model"
	// ModelRevision is a commit, or the digest of the weights.
	ModelRevision     = "revision"
	ModelQuantization = "quantization"
	ModelDType        = "dtype"
	ModelFormat       = "format"
	ModelArchitecture = "architecture"
	ModelParameters   = "parameters"
	// ModelMaxLength is the greatest prompt + output that the server takes, ModelTrainedLength what the model was made for.
	ModelMaxLength     = "max_length_tokens"
	ModelTrainedLength = "trained_length_tokens"
	// ModelMaxPrompt is the greatest prompt, where that is less than the length.
	ModelMaxPrompt = "max_prompt_tokens"
)

// The keys of engine facts: what it is and what stands before it.
const (
	EngineName       = "name"
	EngineVersion    = "version"
	EngineBackend    = "backend"
	EngineRepository = "repository"
	EngineBuild      = "build"
	// EngineProxy is what answers in front of the engine, EngineProxyUpstream what it says of the server behind it.
	EngineProxy         = "proxy"
	EngineProxyVersion  = "proxy_version"
	EngineProxyUpstream = "proxy_upstream"
	// EngineService is the host of a hosted service, EngineRateLimit what it allows.
	EngineService   = "service"
	EngineRateLimit = "rate_limit"
	// EngineSimulated is the profile of a simulated engine, EngineClockSpeed how many times as fast as time its clock runs.
	EngineSimulated  = "simulated_profile"
	EngineClockSpeed = "clock_speed"
)

// The keys of engine facts: how much it holds and how it computes.
const (
	EngineRunningLimit  = "running_limit_requests"
	EngineQueueLimit    = "queue_limit_requests"
	EngineContextPerSeq = "context_per_request_tokens"
	EngineKVTokens      = "kv_cache_tokens"
	EngineKVBlocks      = "kv_cache_blocks"
	EngineKVBlockTokens = "kv_block_tokens"
	EngineKVType        = "kv_dtype"
	EnginePrefixCaching = "prefix_caching"
	// EngineSpeculative is "off", "on", or the method and the number of tokens drafted.
	EngineSpeculative      = "speculative_decoding"
	EngineStepTokens       = "step_tokens"
	EngineChunkedPrefill   = "chunked_prefill"
	EngineSchedulingPolicy = "scheduling_policy"
	EngineAsyncScheduling  = "async_scheduling"
	EngineStreamInterval   = "stream_interval"
	EngineAttention        = "attention_backend"
	// The sizes of the parallel groups: devices, or engines for data parallel.
	EngineTensorParallel   = "tensor_parallel"
	EnginePipelineParallel = "pipeline_parallel"
	EngineDataParallel     = "data_parallel"
	EngineExpertParallel   = "expert_parallel"
)

// The keys of engine facts that command lines give.
const (
	// EngineLaunched says that this program started the server, EngineReadySeconds how long that took from the start of
	// the command.
	EngineLaunched     = "launched"
	EngineReadySeconds = "ready_seconds"
	// EngineEnvironment are the variables that change an engine's speed, as NAME=VALUE words.
	EngineEnvironment = "environment"
	// EngineEager says that every kernel of a step is started anew.
	EngineEager        = "enforce_eager"
	EngineCompilation  = "compilation_config"
	EngineTorchCompile = "torch_compile"
	// EngineMemoryShare is the share of the GPU's memory that the engine takes, EngineOffload what it moves to the
	// machine's memory, in GB.
	EngineMemoryShare    = "gpu_memory_utilization"
	EngineOffload        = "cpu_offload_gb"
	EngineContext        = "context_tokens"
	EngineThreads        = "threads"
	EnginePhysicalTokens = "physical_batch_tokens"
	EngineGPULayers      = "gpu_layers"
	EngineCPUMoELayers   = "cpu_moe_layers"
	EngineFlashAttention = "flash_attention"
	EngineTensorSplit    = "tensor_split"
	EngineSplitMode      = "split_mode"
	EngineKVUnified      = "kv_unified"
)

// The keys of engine facts: what it answers and how it is handled.
const (
	// EngineAPIs lists the completion endpoints by the names of their dialects.
	EngineAPIs      = "apis"
	EngineMetrics   = "metrics"
	EngineTokenizer = "tokenizer"
	// EngineAbort says how a request is ended early, EngineAbortRoute the route that does it by id.
	EngineAbort      = "abort"
	EngineAbortRoute = "abort_route"
	// EngineDrain says how it is seen that nothing runs any more, EngineCacheReset the route that empties the prefix cache.
	EngineDrain      = "drain"
	EngineCacheReset = "cache_reset"
)

// The keys of hardware facts.
const (
	HardwareType     = "type"
	HardwareGPU      = "gpu"
	HardwareGPUCount = "gpu_count"
	HardwareVRAM     = "vram"
	HardwareCPU      = "cpu"
	HardwareCPUCores = "cpu_cores"
	HardwareRAM      = "ram"
	HardwareOS       = "os"
	HardwareKernel   = "kernel"
	HardwareDriver   = "driver"
	HardwareBoard    = "board"
	// HardwareGPUPCIe is the link as it was at the start, when the GPU may have slept.
	HardwareGPUPCIe           = "gpu_pcie"
	HardwareGPUPCIeMax        = "gpu_pcie_max"
	HardwareGPUPowerLimit     = "gpu_power_limit_watts"
	HardwareGPUPowerDefault   = "gpu_power_default_watts"
	HardwareGPUPowerMax       = "gpu_power_max_watts"
	HardwareGPUClockMax       = "gpu_clock_max_mhz"
	HardwareGPUMemoryClockMax = "gpu_memory_clock_max_mhz"
	HardwareGPUCores          = "gpu_cores"
	HardwareGPUVBIOS          = "gpu_vbios"
	HardwareGPUECC            = "gpu_ecc"
	HardwareGPUPersistence    = "gpu_persistence"
	HardwareGPUMIG            = "gpu_mig"

	// What one token costs and what the hardware gives, from which the share of the hardware's limits follows: bytes,
	// operations and seconds. ModelReadBytes is what one token reads of the weights, ModelKVBytes what it reads of the
	// KV cache for each token of context; ModelFLOP is the work of one token, ModelPairFLOP that of one query and key.
	ModelReadBytes = "read_bytes_per_token"
	ModelKVBytes   = "kv_bytes_per_token"
	ModelFLOP      = "flop_per_token"
	ModelPairFLOP  = "flop_per_attention_pair"
	// HardwareBandwidth and HardwareCompute overrule the data sheets, for all GPUs together.
	HardwareBandwidth = "memory_bytes_per_second"
	HardwareCompute   = "compute_flop_per_second"
)

// Set records a fact unless a value from the user stands there already; a
// different value from another source is kept in Others.
func (f Facts) Set(key string, value any, source string) {
	old, there := f[key]
	switch {
	case !there:
		f[key] = Fact{Value: value, Source: source}
	case fmt.Sprint(old.Value) == fmt.Sprint(value):
	case source == SourceUser:
		f[key] = Fact{Value: value, Source: source, Others: append(old.Others, Fact{Value: old.Value, Source: old.Source})}
	default:
		old.Others = append(old.Others, Fact{Value: value, Source: source})
		f[key] = old
	}
}

// Text gives a fact as text, "" when unknown.
func (f Facts) Text(key string) string {
	fact, ok := f[key]
	if !ok || fact.Value == nil {
		return ""
	}
	if x, ok := fact.Value.(float64); ok {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(fact.Value)
}

// Int gives a fact as a whole number; ok is false when it is unknown or no number.
func (f Facts) Int(key string) (n int, ok bool) {
	fact, there := f[key]
	if !there {
		return 0, false
	}
	switch v := fact.Value.(type) {
	case int:
		return v, true
	case float64:
		return int(v), true
	case json.Number:
		i, err := v.Int64()
		return int(i), err == nil
	case string:
		i, err := strconv.Atoi(v)
		return i, err == nil
	}
	return 0, false
}

// Positive gives a fact as a number above zero and below 10¹⁸; ok is false when it is unknown or no such number.
func (f Facts) Positive(key string) (v float64, ok bool) {
	switch x := f[key].Value.(type) {
	case float64:
		v = x
	case int:
		v = float64(x)
	}
	return v, v > 0 && v < 1e18
}

// Bool gives a fact as a truth value; ok is false when it is unknown.
func (f Facts) Bool(key string) (value, ok bool) {
	switch v := f[key].Value.(type) {
	case bool:
		return v, true
	case string:
		b, err := strconv.ParseBool(v)
		return b, err == nil
	}
	return false, false
}
