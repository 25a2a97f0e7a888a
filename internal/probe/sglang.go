package probe

import "speedmatrix"

// sglangConfig is SGLang's /get_server_info (newer: /server_info): its arguments with
// what came of them.
type sglangConfig struct {
	Version      *string  `json:"version"`
	ModelPath    *string  `json:"model_path"`
	Quantization *string  `json:"quantization"`
	Revision     *string  `json:"revision"`
	Length       *int     `json:"context_length"`
	Tokens       *float64 `json:"max_total_num_tokens"`
	Running      *int     `json:"max_running_requests"`
	Page         *int     `json:"page_size"`
	KVType       *string  `json:"kv_cache_dtype"`
	NoRadix      *bool    `json:"disable_radix_cache"`
	Chunk        *int     `json:"chunked_prefill_size"`
	Attention    *string  `json:"attention_backend"`
	DataParallel *int     `json:"dp_size"`
}

// readSGLang takes the engine's own account. Tokens and running limit are those of one
// data-parallel rank and are summed over the ranks.
func (s *Server) readSGLang(w *sight) {
	const source = "GET /get_server_info"
	var c sglangConfig
	if !w.sglang.decode(&c) {
		return
	}
	engine, model := s.Facts.Engine, s.Facts.Model
	engine.Set(speedmatrix.EngineName, string(KindSGLang), source)
	engine.Set(speedmatrix.EngineRepository, "github.com/sgl-project/sglang", source)
	setKnown(engine, speedmatrix.EngineVersion, c.Version, source)
	ranks := 1
	if c.DataParallel != nil {
		ranks = max(*c.DataParallel, 1)
	}
	if c.Tokens != nil && *c.Tokens > 0 {
		engine.Set(speedmatrix.EngineKVTokens, int(*c.Tokens)*ranks, source)
	}
	if c.Running != nil && *c.Running > 0 {
		engine.Set(speedmatrix.EngineRunningLimit, *c.Running*ranks, source)
	}
	setKnown(engine, speedmatrix.EngineKVBlockTokens, c.Page, source)
	if c.KVType != nil && *c.KVType != "auto" {
		engine.Set(speedmatrix.EngineKVType, *c.KVType, source)
	}
	if c.NoRadix != nil {
		engine.Set(speedmatrix.EnginePrefixCaching, !*c.NoRadix, source)
	}
	if c.Chunk != nil && *c.Chunk > 0 {
		engine.Set(speedmatrix.EngineStepTokens, *c.Chunk, source)
	}
	setKnown(engine, "attention_backend", c.Attention, source)
	if c.ModelPath != nil {
		s.setModelName(*c.ModelPath, source)
	}
	setKnown(model, speedmatrix.ModelQuantization, c.Quantization, source)
	setKnown(model, speedmatrix.ModelRevision, c.Revision, source)
	if s.Model.MaxLength == 0 {
		setKnown(model, speedmatrix.ModelMaxLength, c.Length, source)
	}
}
