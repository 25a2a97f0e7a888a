package probe

import (
	"context"
	"strings"

	"speedmatrix"
)

const sourceInfo = "GET /info"

// tgi gives its limits in /info; servers of embeddings have that route too, with other members.
func tgi() engine {
	return engine{
		kind: KindTGI, routes: []string{"/info"}, ping: "/health",
		metrics: metricNames{running: "tgi_batch_current_size", waiting: "tgi_queue_size", generated: "tgi_request_generated_tokens_sum"},
		is: func(w *sight) bool {
			var i tgiInfo
			return w.get("/info").decode(&i) && i.Model != "" && i.Total != nil && i.Concurrent != nil
		},
		read: func(_ context.Context, s *Server, w *sight) { s.readTGI(w.get("/info")) },
		models: func(w *sight) []Model {
			var i tgiInfo
			if !w.get("/info").decode(&i) {
				return nil
			}
			return []Model{{Name: i.Model, Root: i.Model}}
		},
		tokenizers: func(s *Server) []tokenCounter { return s.tgiTokenizers() },
	}
}

// tgiInfo is TGI's /info; some members came and went with its versions.
type tgiInfo struct {
	Model      string  `json:"model_id"`
	Revision   *string `json:"model_sha"`
	DType      string  `json:"model_dtype"`
	Device     string  `json:"model_device_type"`
	Version    string  `json:"version"`
	Build      *string `json:"sha"`
	Concurrent *int    `json:"max_concurrent_requests"`
	Total      *int    `json:"max_total_tokens"`
	Input      *int    `json:"max_input_tokens"`
	InputOld   *int    `json:"max_input_length"`
	BatchTotal *int    `json:"max_batch_total_tokens"`
	BatchSize  *int    `json:"max_batch_size"`
	Speculate  *int    `json:"speculate"`
}

// readTGI: max_concurrent_requests is how many are taken before more are refused; how many
// of them run at once is decided by tokens.
func (s *Server) readTGI(a *answer) {
	var i tgiInfo
	if !a.decode(&i) {
		return
	}
	engine, model := s.Facts.Engine, s.Facts.Model
	s.nameEngine(KindTGI, "github.com/huggingface/text-generation-inference", sourceInfo)
	s.setVersion(i.Version, sourceInfo)
	setKnown(engine, speedmatrix.EngineBuild, i.Build, sourceInfo)
	s.setModelName(i.Model, sourceInfo)
	setKnown(model, speedmatrix.ModelRevision, i.Revision, sourceInfo)
	setAll(model, sourceInfo, map[string]any{speedmatrix.ModelDType: strings.TrimPrefix(i.DType, "torch.")})
	setAll(engine, sourceInfo, map[string]any{speedmatrix.EngineBackend: i.Device})
	setKnown(model, speedmatrix.ModelMaxLength, i.Total, sourceInfo)
	setKnown(model, speedmatrix.ModelMaxPrompt, i.Input, sourceInfo)
	setKnown(model, speedmatrix.ModelMaxPrompt, i.InputOld, sourceInfo)
	setKnown(engine, speedmatrix.EngineKVTokens, i.BatchTotal, sourceInfo)
	setKnown(engine, speedmatrix.EngineRunningLimit, i.BatchSize, sourceInfo)
	setKnown(engine, speedmatrix.EngineQueueLimit, i.Concurrent, sourceInfo)
	switch {
	case i.Speculate == nil:
	case *i.Speculate > 0:
		engine.Set(speedmatrix.EngineSpeculative, speculation("", *i.Speculate), sourceInfo)
	default:
		engine.Set(speedmatrix.EngineSpeculative, "off", sourceInfo)
	}
}
