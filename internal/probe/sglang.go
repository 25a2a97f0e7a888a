package probe

import (
	"context"

	"speedmatrix"
	"speedmatrix/internal/metricstext"
)

// sglang answers with all of its arguments and what came of them. The newer name of the route
// is asked only once the kind is known: it is vLLM's too, which collects for seconds what it
// answers there, and answers nothing else meanwhile.
func sglang() engine {
	return engine{
		kind: KindSGLang, routes: []string{sglangOld}, ignoresEOS: true,
		metrics: sglangMetrics, metricsBy: "--enable-metrics",
		is: func(w *sight) bool {
			return isSGLang(w.get(sglangOld)) || w.owned("sglang") || w.metrics.Has("sglang:")
		},
		read: func(ctx context.Context, s *Server, w *sight) { s.readSGLang(ctx, w) },
		tokenizers: func(s *Server) []tokenCounter {
			return []tokenCounter{s.plainTokenizer()}
		},
	}
}

// The names of SGLang's own account.
const (
	sglangOld = "/get_server_info"
	sglangNew = "/server_info"
)

// sglangMetrics: SGLang counts the tokens of a request when it ends. Every process of a
// tensor-parallel group repeats the figures.
var sglangMetrics = metricNames{
	running: "sglang:num_running_reqs", waiting: "sglang:num_queue_reqs", kvUsage: "sglang:token_usage",
	generated: "sglang:generation_tokens_total", prompted: "sglang:prompt_tokens_total",
	once: metricstext.Label{Name: "tp_rank", Value: "0"},
}

// sglangConfig is SGLang's /get_server_info (newer: /server_info): its arguments with
// what came of them.
type sglangConfig struct {
	Version      *string  `json:"version"`
	ModelPath    *string  `json:"model_path"`
	Quantization *string  `json:"quantization"`
	Revision     *string  `json:"revision"`
	DType        *string  `json:"dtype"`
	Length       *int     `json:"context_length"`
	MaxPrompt    *int     `json:"max_req_input_len"`
	Tokens       *float64 `json:"max_total_num_tokens"`
	Running      *int     `json:"max_running_requests"`
	Queued       *int     `json:"max_queued_requests"`
	Page         *int     `json:"page_size"`
	KVType       *string  `json:"kv_cache_dtype"`
	NoRadix      *bool    `json:"disable_radix_cache"`
	Chunk        *int     `json:"chunked_prefill_size"`
	Attention    *string  `json:"attention_backend"`
	Policy       *string  `json:"schedule_policy"`
	Interval     *int     `json:"stream_interval"`
	NoOverlap    *bool    `json:"disable_overlap_schedule"`
	DataParallel *int     `json:"dp_size"`
	// AttentionRanks: the data-parallel ranks share one engine.
	AttentionRanks bool `json:"enable_dp_attention"`
	Tensor         *int `json:"tp_size"`
	Pipeline       *int `json:"pp_size"`
	Expert         *int `json:"ep_size"`

	Speculative       optional[string] `json:"speculative_algorithm"`
	SpeculativeTokens int              `json:"speculative_num_draft_tokens"`

	// States are one for each data-parallel rank.
	States []struct {
		Running *int `json:"effective_max_running_requests_per_dp"`
		Memory  struct {
			Tokens *float64 `json:"token_capacity"`
		} `json:"memory_usage"`
	} `json:"internal_states"`
}

func isSGLang(a *answer) bool {
	var info struct {
		Tokens *float64 `json:"max_total_num_tokens"`
	}
	return a.decode(&info) && info.Tokens != nil
}

// readSGLang takes the engine's own account.
func (s *Server) readSGLang(ctx context.Context, w *sight) {
	const repository = "github.com/sgl-project/sglang"
	a, source := w.get(sglangOld), "GET "+sglangOld
	if !isSGLang(a) {
		a, _ = s.http.get(ctx, sglangNew)
		source = "GET " + sglangNew
	}
	var c sglangConfig
	if !a.decode(&c) {
		s.nameEngine(KindSGLang, repository, sourceModels)
		s.setModelName(s.Model.Root, sourceModels)
		return
	}
	engine, model := s.Facts.Engine, s.Facts.Model
	s.nameEngine(KindSGLang, repository, source)
	if c.Version != nil {
		s.setVersion(*c.Version, source)
	}
	s.readSGLangLimits(&c, source)
	if c.KVType != nil && *c.KVType != "auto" {
		engine.Set(speedmatrix.EngineKVType, *c.KVType, source)
	}
	if c.NoRadix != nil {
		engine.Set(speedmatrix.EnginePrefixCaching, !*c.NoRadix, source)
	}
	if c.NoOverlap != nil {
		engine.Set(speedmatrix.EngineAsyncScheduling, !*c.NoOverlap, source)
	}
	setKnown(engine, speedmatrix.EngineAttention, c.Attention, source)
	setKnown(engine, speedmatrix.EngineSchedulingPolicy, c.Policy, source)
	setKnown(engine, speedmatrix.EngineStreamInterval, c.Interval, source)
	setKnown(engine, speedmatrix.EngineTensorParallel, c.Tensor, source)
	setKnown(engine, speedmatrix.EnginePipelineParallel, c.Pipeline, source)
	setKnown(engine, speedmatrix.EngineDataParallel, c.DataParallel, source)
	setKnown(engine, speedmatrix.EngineExpertParallel, c.Expert, source)
	switch spec := c.Speculative; {
	case spec.value != nil && *spec.value != "":
		engine.Set(speedmatrix.EngineSpeculative, speculation(*spec.value, c.SpeculativeTokens), source)
	case spec.there:
		engine.Set(speedmatrix.EngineSpeculative, "off", source)
	}
	if c.ModelPath != nil {
		s.setModelName(*c.ModelPath, source)
	}
	setKnown(model, speedmatrix.ModelQuantization, c.Quantization, source)
	setKnown(model, speedmatrix.ModelRevision, c.Revision, source)
	if c.DType != nil && *c.DType != "auto" {
		model.Set(speedmatrix.ModelDType, *c.DType, source)
	}
}

// readSGLangLimits: the cache is that of one data-parallel rank, and the same in each.
func (s *Server) readSGLangLimits(c *sglangConfig, source string) {
	engine, model := s.Facts.Engine, s.Facts.Model
	ranks := 1
	if c.DataParallel != nil {
		ranks = max(*c.DataParallel, 1)
	}
	if c.Tokens != nil && *c.Tokens > 0 {
		engine.Set(speedmatrix.EngineKVTokens, int(*c.Tokens)*ranks, source)
	}
	s.readSGLangStates(c, ranks, source)
	setKnown(engine, speedmatrix.EngineQueueLimit, c.Queued, source)
	setKnown(engine, speedmatrix.EngineKVBlockTokens, c.Page, source)
	if c.Chunk != nil {
		engine.Set(speedmatrix.EngineChunkedPrefill, *c.Chunk > 0, source)
		if *c.Chunk > 0 {
			engine.Set(speedmatrix.EngineStepTokens, *c.Chunk, source)
		}
	}
	setKnown(model, speedmatrix.ModelMaxPrompt, c.MaxPrompt, source)
	if s.Model.MaxLength == 0 {
		setKnown(model, speedmatrix.ModelMaxLength, c.Length, source)
	}
}

// readSGLangStates: the running limit in the states is that of one rank. The argument of that
// name is a wish, of which less may have come, and with several ranks it means one of them or
// all, depending on the version.
func (s *Server) readSGLangStates(c *sglangConfig, ranks int, source string) {
	engine := s.Facts.Engine
	if len(c.States) > 0 {
		first, source := c.States[0], source+" internal_states"
		if tokens := first.Memory.Tokens; tokens != nil && *tokens > 0 {
			engine.Set(speedmatrix.EngineKVTokens, int(*tokens)*ranks, source)
		}
		if first.Running != nil && *first.Running > 0 {
			engine.Set(speedmatrix.EngineRunningLimit, *first.Running*ranks, source)
		}
	}
	if c.Running != nil && *c.Running > 0 && (ranks == 1 || c.AttentionRanks) {
		engine.Set(speedmatrix.EngineRunningLimit, *c.Running, source)
	}
}
