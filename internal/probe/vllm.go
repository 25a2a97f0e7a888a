package probe

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/metricstext"
)

const (
	cacheInfo     = "vllm:cache_config_info"
	sourceModels  = "GET /v1/models"
	sourceMetrics = "GET /metrics"
	sourceVersion = "GET /version"
	sourceConfig  = "GET /server_info"
)

// vllm's own account lies in the labels of a metric, and, in its developer mode, in
// /server_info. Its list of models names it, so that a server that hides the rest is known.
func vllm() engine {
	return engine{
		kind: KindVLLM, routes: []string{"/version"}, ping: "/version", ignoresEOS: true, metrics: vllmMetrics,
		is: func(w *sight) bool {
			return w.owned("vllm") || hasVersion(w.get("/version")) && w.metrics.Has("vllm:")
		},
		read: func(ctx context.Context, s *Server, w *sight) { s.readVLLM(ctx, w) },
		tokenizers: func(s *Server) []tokenCounter {
			return []tokenCounter{s.vllmTokenizer()}
		},
	}
}

var vllmMetrics = metricNames{
	running: "vllm:num_requests_running", waiting: "vllm:num_requests_waiting",
	kvUsage: "vllm:kv_cache_usage_perc", preemptions: "vllm:num_preemptions_total",
	generated: "vllm:generation_tokens_total", prompted: "vllm:prompt_tokens_total",
	hits: "vllm:prefix_cache_hits_total", queries: "vllm:prefix_cache_queries_total",
	drafts: "vllm:spec_decode_num_drafts_total", accepted: "vllm:spec_decode_num_accepted_tokens_total",
	live: true,
}

// readVLLM takes the version, the KV cache from the labels of vllm:cache_config_info,
// and, in vLLM's developer mode, the configuration.
func (s *Server) readVLLM(ctx context.Context, w *sight) {
	named := sourceVersion
	if !hasVersion(w.get("/version")) {
		named = sourceModels
	}
	s.nameEngine(KindVLLM, "github.com/vllm-project/vllm", named)
	s.readVLLMVersion(w.get("/version"))
	s.setModelName(s.Model.Root, sourceModels)
	s.readCacheConfig(w.metrics)
	s.readServerInfo(ctx, len(w.metrics.Labels(cacheInfo, "engine")))
	engine := s.Facts.Engine
	if ranks := distinct(w.metrics.Labels(vllmMetrics.running, "engine")); ranks > 1 {
		engine.Set(speedmatrix.EngineDataParallel, ranks, sourceMetrics)
	}
	if _, on := w.metrics.Sum(vllmMetrics.drafts); on {
		if _, known := engine[speedmatrix.EngineSpeculative]; !known {
			engine.Set(speedmatrix.EngineSpeculative, "on", sourceMetrics)
		}
	}
}

// readVLLMVersion also finds out whether the server is a simulation.
func (s *Server) readVLLMVersion(a *answer) {
	var v struct {
		Version   string `json:"version"`
		Simulated *struct {
			Profile string  `json:"profile"`
			Speed   float64 `json:"clock_speed"`
		} `json:"simulated"`
	}
	if !a.decode(&v) {
		return
	}
	engine := s.Facts.Engine
	s.setVersion(v.Version, sourceVersion)
	if v.Simulated != nil {
		engine.Set(speedmatrix.EngineSimulated, v.Simulated.Profile, sourceVersion)
		engine.Set(speedmatrix.EngineClockSpeed, v.Simulated.Speed, sourceVersion)
		clock := ""
		if v.Simulated.Speed != 1 {
			clock = fmt.Sprintf(", on a clock that runs %g times as fast as time", v.Simulated.Speed)
		}
		s.warn("simulated", "the server is a simulation of profile %s%s", v.Simulated.Profile, clock)
	}
}

// setModelName names the model by what was loaded: a repository's name, or the last
// part of a path.
func (s *Server) setModelName(loaded, source string) {
	if loaded == "" {
		return
	}
	if strings.HasPrefix(loaded, "/") || strings.HasPrefix(loaded, ".") || strings.Contains(loaded, `\`) {
		loaded = path.Base(strings.ReplaceAll(loaded, `\`, "/"))
	}
	s.Facts.Model.Set(speedmatrix.ModelName, loaded, source)
}

// readCacheConfig: several engines behind one server (data parallel) each have their own
// cache, so sizes are summed.
func (s *Server) readCacheConfig(seen metricstext.Families) {
	engine := s.Facts.Engine
	s.readCacheSize(seen)
	if text, ok := seen.Label(cacheInfo, "enable_prefix_caching"); ok {
		if on, err := strconv.ParseBool(text); err == nil {
			engine.Set(speedmatrix.EnginePrefixCaching, on, sourceMetrics)
		}
	}
	// "auto" is the model's own type, which is not said here.
	if kind, ok := seen.Label(cacheInfo, "cache_dtype"); ok && kind != "auto" && kind != "None" {
		engine.Set(speedmatrix.EngineKVType, kind, sourceMetrics)
	}
}

// readCacheSize: kv_cache_size_tokens is what vLLM itself says. Without it blocks × block
// size is the most that it can be, except for models whose layers keep different things in
// their blocks: there it is off by factors, and unknown.
func (s *Server) readCacheSize(seen metricstext.Families) {
	engine := s.Facts.Engine
	blocks, tokens := sumNumbers(seen, "num_gpu_blocks"), sumNumbers(seen, "kv_cache_size_tokens")
	block := firstNumber(seen, "block_size")
	effective := firstNumber(seen, "effective_attention_block_size")
	mixed := mixedLayers(seen)
	if mixed == "" && blocks*block < s.Model.MaxLength {
		mixed = "less than one request may have"
	}
	longest := s.tokensByRequests(seen)
	switch {
	case tokens > 0:
		engine.Set(speedmatrix.EngineKVTokens, tokens, sourceMetrics)
	case longest > 0:
		engine.Set(speedmatrix.EngineKVTokens, longest, sourceMetrics)
	case blocks > 0 && block > 0:
		plain := mixed == "" && (effective == 0 || effective == block)
		s.takeBlocks(blocks, block, plain, orText(mixed, "blocks of different sizes"))
	}
	if blocks > 0 {
		engine.Set(speedmatrix.EngineKVBlocks, blocks, sourceMetrics)
	}
	switch {
	case effective > 0:
		engine.Set(speedmatrix.EngineKVBlockTokens, effective, sourceMetrics)
	case block > 0 && (tokens == 0 && mixed == "" || tokens == blocks*block):
		engine.Set(speedmatrix.EngineKVBlockTokens, block, sourceMetrics)
	}
}

// takeBlocks takes blocks × block size for the size of the KV cache where the layers are plain, all alike; else why says
// what speaks against it.
func (s *Server) takeBlocks(blocks, block int, plain bool, why string) {
	const unsaid = "the server does not say how many tokens its KV cache holds"
	if !plain {
		s.warn("kv_unknown", unsaid+", and its %d blocks of %d do not tell either (%s); its log does: say --state engine.%s=N",
			blocks, block, why, speedmatrix.EngineKVTokens)
		return
	}
	s.Facts.Engine.Set(speedmatrix.EngineKVTokens, blocks*block, sourceMetrics)
	s.warn("kv_from_blocks", unsaid+"; %d blocks × %d = %d is the most it can be", blocks, block, blocks*block)
}

// tokensByRequests is the KV cache's size from the number of requests of the maximum length that vLLM says it holds; 0
// where it does not.
func (s *Server) tokensByRequests(seen metricstext.Families) int {
	requests := 0.0
	for _, text := range seen.Labels(cacheInfo, "kv_cache_max_concurrency") {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x > 0) {
			return 0
		}
		requests += x
	}
	return int(requests * float64(s.Model.MaxLength))
}

// mixedLayers says what in the labels tells of layers that do not all keep every token.
func mixedLayers(seen metricstext.Families) string {
	for _, label := range []string{"mamba_block_size", "sliding_window"} {
		if text, ok := seen.Label(cacheInfo, label); ok && text != "None" && text != "" {
			return label + " " + text
		}
	}
	if text, _ := seen.Label(cacheInfo, "is_attention_free"); text == "True" {
		return "attention free"
	}
	if text, _ := seen.Label(cacheInfo, "_block_size_resolved"); text == "False" {
		return "block size not resolved"
	}
	return ""
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func distinct(values []string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(values))))
}

func firstNumber(seen metricstext.Families, label string) int {
	text, _ := seen.Label(cacheInfo, label)
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostSize {
		return 0
	}
	return n
}

// sumNumbers is 0 when any of the engines does not say: a part is not the sum.
func sumNumbers(seen metricstext.Families, label string) int {
	sum := 0
	for _, text := range seen.Labels(cacheInfo, label) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostSize {
			return 0
		}
		sum += n
	}
	return sum
}

// vllmConfig is the part of vLLM's configuration that is used. The answer also carries
// the server's environment, which is nobody's business and is not read.
type vllmConfig struct {
	Config struct {
		Scheduler struct {
			Running       *int    `json:"max_num_seqs"`
			Queued        *int    `json:"max_num_queued_reqs"`
			StepTokens    *int    `json:"max_num_batched_tokens"`
			Chunked       *bool   `json:"enable_chunked_prefill"`
			Policy        *string `json:"policy"`
			Async         *bool   `json:"async_scheduling"`
			EventInterval *int    `json:"stream_interval"`
		} `json:"scheduler_config"`
		Model struct {
			Quantization *string `json:"quantization"`
			Revision     *string `json:"revision"`
			MaxLength    *int    `json:"max_model_len"`
			DType        *string `json:"dtype"`
		} `json:"model_config"`
		Cache struct {
			Tokens *int    `json:"kv_cache_size_tokens"`
			Block  *int    `json:"block_size"`
			Type   *string `json:"cache_dtype"`
			Prefix *bool   `json:"enable_prefix_caching"`
		} `json:"cache_config"`
		Parallel struct {
			Tensor   *int  `json:"tensor_parallel_size"`
			Pipeline *int  `json:"pipeline_parallel_size"`
			Data     *int  `json:"data_parallel_size"`
			Expert   *bool `json:"enable_expert_parallel"`
		} `json:"parallel_config"`
		Attention struct {
			Backend any `json:"backend"`
		} `json:"attention_config"`
		Speculative optional[vllmSpeculation] `json:"speculative_config"`
	} `json:"vllm_config"`
}

type vllmSpeculation struct {
	Method string `json:"method"`
	Tokens int    `json:"num_speculative_tokens"`
}

// configLimit: vLLM collects the state of its machine for this answer, which takes seconds.
const configLimit = 30 * time.Second

// readServerInfo asks the route that exists in developer mode alone. The running limit and
// the cache are those of one engine; engines is how many the server has, as far as is known.
func (s *Server) readServerInfo(ctx context.Context, engines int) {
	a, err := s.http.do(ctx, call{route: "/server_info?config_format=json", limit: configLimit})
	var info vllmConfig
	if err != nil || !a.decode(&info) {
		return
	}
	c := &info.Config
	engine, model := s.Facts.Engine, s.Facts.Model
	if c.Parallel.Data != nil {
		engines = max(engines, *c.Parallel.Data)
	}
	if c.Scheduler.Running != nil {
		engine.Set(speedmatrix.EngineRunningLimit, *c.Scheduler.Running*max(engines, 1), sourceConfig)
	}
	setKnown(engine, speedmatrix.EngineQueueLimit, c.Scheduler.Queued, sourceConfig)
	setKnown(engine, speedmatrix.EngineStepTokens, c.Scheduler.StepTokens, sourceConfig)
	setKnown(engine, speedmatrix.EngineChunkedPrefill, c.Scheduler.Chunked, sourceConfig)
	setKnown(engine, speedmatrix.EngineSchedulingPolicy, c.Scheduler.Policy, sourceConfig)
	setKnown(engine, speedmatrix.EngineAsyncScheduling, c.Scheduler.Async, sourceConfig)
	setKnown(engine, speedmatrix.EngineStreamInterval, c.Scheduler.EventInterval, sourceConfig)
	setKnown(model, speedmatrix.ModelQuantization, c.Model.Quantization, sourceConfig)
	setKnown(model, speedmatrix.ModelRevision, c.Model.Revision, sourceConfig)
	setKnown(model, speedmatrix.ModelMaxLength, c.Model.MaxLength, sourceConfig)
	if c.Model.DType != nil {
		model.Set(speedmatrix.ModelDType, strings.TrimPrefix(*c.Model.DType, "torch."), sourceConfig)
	}
	s.readCacheInfo(c.Cache.Tokens, c.Cache.Block, engines)
	setKnown(engine, speedmatrix.EnginePrefixCaching, c.Cache.Prefix, sourceConfig)
	if c.Cache.Type != nil && *c.Cache.Type != "auto" {
		engine.Set(speedmatrix.EngineKVType, *c.Cache.Type, sourceConfig)
	}
	s.readParallel(&info)
}

// readCacheInfo takes the cache of /server_info for what the metrics leave open: the
// process that answers may know less of it than the one that holds it.
func (s *Server) readCacheInfo(tokens, block *int, engines int) {
	engine := s.Facts.Engine
	if tokens != nil && *tokens > 0 {
		engine.Set(speedmatrix.EngineKVTokens, *tokens*max(engines, 1), sourceConfig)
	}
	if _, known := engine.Int(speedmatrix.EngineKVBlocks); !known {
		setKnown(engine, speedmatrix.EngineKVBlockTokens, block, sourceConfig)
	}
}

func (s *Server) readParallel(info *vllmConfig) {
	c, engine := &info.Config, s.Facts.Engine
	setKnown(engine, speedmatrix.EngineTensorParallel, c.Parallel.Tensor, sourceConfig)
	setKnown(engine, speedmatrix.EnginePipelineParallel, c.Parallel.Pipeline, sourceConfig)
	setKnown(engine, speedmatrix.EngineDataParallel, c.Parallel.Data, sourceConfig)
	setKnown(engine, speedmatrix.EngineExpertParallel, c.Parallel.Expert, sourceConfig)
	if backend, ok := c.Attention.Backend.(string); ok && backend != "" {
		engine.Set(speedmatrix.EngineAttention, backend, sourceConfig)
	}
	switch spec := c.Speculative; {
	case !spec.there: // the configuration does not speak of it
	case spec.value == nil:
		engine.Set(speedmatrix.EngineSpeculative, "off", sourceConfig)
	default:
		engine.Set(speedmatrix.EngineSpeculative, speculation(spec.value.Method, spec.value.Tokens), sourceConfig)
	}
}

// speculation words a method of speculative decoding.
func speculation(method string, tokens int) string {
	method = strings.ToLower(orText(method, "on"))
	if tokens <= 0 {
		return method
	}
	return fmt.Sprintf("%s, %d tokens", method, tokens)
}

// setKnown records a value that the server gave.
func setKnown[T any](facts speedmatrix.Facts, key string, value *T, source string) {
	if value != nil {
		facts.Set(key, *value, source)
	}
}

// setAll records the values that are neither 0 nor "".
func setAll(facts speedmatrix.Facts, source string, values map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if value := values[key]; value != 0 && value != "" && value != nil {
			facts.Set(key, value, source)
		}
	}
}
