package probe

import (
	"context"
	"path"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/metricstext"
)

const (
	cacheInfo    = "vllm:cache_config_info"
	sourceCache  = "GET /metrics"
	sourceConfig = "GET /server_info"
)

// readVLLM takes the version, the KV cache from the labels of vllm:cache_config_info,
// and, in vLLM's developer mode, the scheduler's settings.
func (s *Server) readVLLM(ctx context.Context, w *sight) {
	engine := s.Facts.Engine
	engine.Set(speedmatrix.EngineName, string(KindVLLM), "GET /version")
	engine.Set(speedmatrix.EngineRepository, "github.com/vllm-project/vllm", "GET /version")
	var v struct {
		Version   string `json:"version"`
		Simulated *struct {
			Profile string  `json:"profile"`
			Speed   float64 `json:"clock_speed"`
		} `json:"simulated"`
	}
	if w.version.decode(&v) {
		engine.Set(speedmatrix.EngineVersion, v.Version, "GET /version")
	}
	if v.Simulated != nil {
		engine.Set(speedmatrix.EngineSimulated, v.Simulated.Profile, "GET /version")
		engine.Set(speedmatrix.EngineClockSpeed, v.Simulated.Speed, "GET /version")
		s.warn("simulated", "the server is a simulation of profile %s, on a clock that runs %g times as fast as time", v.Simulated.Profile, v.Simulated.Speed)
	}
	s.setModelName(s.Model.Root, "GET /v1/models")
	s.readCacheConfig(w.metrics)
	s.readServerInfo(ctx, len(w.metrics.Labels(cacheInfo, "block_size")))
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

// readCacheConfig: kv_cache_size_tokens is what vLLM itself says; blocks × block size is
// too much for models whose layers share the blocks. Several engines behind one server
// (data parallel) each have their own cache: the sizes are summed.
func (s *Server) readCacheConfig(seen metricstext.Families) {
	engine := s.Facts.Engine
	block := firstNumber(seen, "block_size")
	if attention := firstNumber(seen, "effective_attention_block_size"); attention > 0 {
		block = attention // what block_size says may be that of another group of layers
	}
	blocks := sumNumbers(seen, "num_gpu_blocks")
	if tokens := sumNumbers(seen, "kv_cache_size_tokens"); tokens > 0 {
		engine.Set(speedmatrix.EngineKVTokens, tokens, sourceCache)
	} else if tokens := s.tokensByRequests(seen); tokens > 0 {
		engine.Set(speedmatrix.EngineKVTokens, tokens, sourceCache)
	} else if blocks > 0 && block > 0 {
		s.takeBlocks(seen, blocks, block)
	}
	if blocks > 0 {
		engine.Set(speedmatrix.EngineKVBlocks, blocks, sourceCache)
	}
	if block > 0 {
		engine.Set(speedmatrix.EngineKVBlockTokens, block, sourceCache)
	}
	if text, ok := seen.Label(cacheInfo, "enable_prefix_caching"); ok {
		if on, err := strconv.ParseBool(text); err == nil {
			engine.Set(speedmatrix.EnginePrefixCaching, on, sourceCache)
		}
	}
	// "auto" is the model's own type, which is not said here.
	if kind, ok := seen.Label(cacheInfo, "cache_dtype"); ok && kind != "auto" && kind != "None" {
		engine.Set(speedmatrix.EngineKVType, kind, sourceCache)
	}
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

// takeBlocks takes blocks × block size for the KV cache's size where nothing contradicts it. Models with several kinds of
// layers share the blocks among them, and block_size is that of one kind: there the product is off to either side.
func (s *Server) takeBlocks(seen metricstext.Families, blocks, block int) {
	product := blocks * block
	const unsaid = "the server does not say how many tokens its KV cache holds; "
	switch layers := otherLayers(seen); {
	case layers != "":
		s.warn("kv_unknown", unsaid+"%d blocks × %d say nothing of a model with %s layers: cells are tried without a budget", blocks, block, layers)
	case product < s.Model.MaxLength:
		s.warn("kv_unknown", unsaid+"%d blocks × %d = %d cannot be, as one request may have %d: cells are tried without a budget",
			blocks, block, product, s.Model.MaxLength)
	default:
		s.Facts.Engine.Set(speedmatrix.EngineKVTokens, product, sourceCache)
		s.warn("kv_from_blocks", unsaid+"%d blocks × %d = %d is the most it can be", blocks, block, product)
	}
}

// otherLayers names layers beside those of full attention, by the labels that only models with such have.
func otherLayers(seen metricstext.Families) string {
	for label, layers := range map[string]string{"mamba_block_size": "Mamba", "sliding_window": "sliding-window"} {
		if text, ok := seen.Label(cacheInfo, label); ok && text != "None" && text != "" {
			return layers
		}
	}
	return ""
}

func firstNumber(seen metricstext.Families, label string) int {
	text, _ := seen.Label(cacheInfo, label)
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// sumNumbers is 0 when any of the engines does not say: a part is not the sum.
func sumNumbers(seen metricstext.Families, label string) int {
	sum := 0
	for _, text := range seen.Labels(cacheInfo, label) {
		n, err := strconv.Atoi(text)
		if err != nil {
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
		} `json:"model_config"`
		Cache struct {
			Tokens *int    `json:"kv_cache_size_tokens"`
			Block  *int    `json:"block_size"`
			Type   *string `json:"cache_dtype"`
			Prefix *bool   `json:"enable_prefix_caching"`
		} `json:"cache_config"`
	} `json:"vllm_config"`
}

// readServerInfo asks the route that exists in developer mode alone. The running limit
// is that of one engine; engines is how many the server has, as far as is known.
func (s *Server) readServerInfo(ctx context.Context, engines int) {
	a, err := s.http.get(ctx, "/server_info?config_format=json")
	var info vllmConfig
	if err != nil || !a.decode(&info) {
		return
	}
	scheduler, model, cache := info.Config.Scheduler, info.Config.Model, info.Config.Cache
	engine := s.Facts.Engine
	if scheduler.Running != nil {
		engine.Set(speedmatrix.EngineRunningLimit, *scheduler.Running*max(engines, 1), sourceConfig)
	}
	setKnown(engine, speedmatrix.EngineStepTokens, scheduler.StepTokens, sourceConfig)
	setKnown(engine, "chunked_prefill", scheduler.Chunked, sourceConfig)
	setKnown(engine, "scheduling_policy", scheduler.Policy, sourceConfig)
	setKnown(engine, "async_scheduling", scheduler.Async, sourceConfig)
	setKnown(engine, "stream_interval", scheduler.EventInterval, sourceConfig)
	setKnown(s.Facts.Model, speedmatrix.ModelQuantization, model.Quantization, sourceConfig)
	setKnown(s.Facts.Model, speedmatrix.ModelRevision, model.Revision, sourceConfig)
	setKnown(s.Facts.Model, speedmatrix.ModelMaxLength, model.MaxLength, sourceConfig)
	if engines <= 1 {
		setKnown(engine, speedmatrix.EngineKVTokens, cache.Tokens, sourceConfig)
	}
	setKnown(engine, speedmatrix.EngineKVBlockTokens, cache.Block, sourceConfig)
	setKnown(engine, speedmatrix.EnginePrefixCaching, cache.Prefix, sourceConfig)
	if cache.Type != nil && *cache.Type != "auto" {
		setKnown(engine, speedmatrix.EngineKVType, cache.Type, sourceConfig)
	}
}

// setKnown records a value that the server gave.
func setKnown[T any](facts speedmatrix.Facts, key string, value *T, source string) {
	if value != nil {
		facts.Set(key, *value, source)
	}
}
