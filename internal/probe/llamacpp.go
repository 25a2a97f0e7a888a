package probe

import (
	"context"
	"fmt"
	"strings"

	"speedmatrix"
)

// llamaProps is llama.cpp's /props as far as it is used.
type llamaProps struct {
	Defaults struct {
		ContextPerSlot int `json:"n_ctx"`
	} `json:"default_generation_settings"`
	Slots     int     `json:"total_slots"`
	ModelPath string  `json:"model_path"`
	FileType  *string `json:"model_ftype"`
	Build     string  `json:"build_info"`
}

// readLlamaCpp: the context in /props is that of one slot, which is the most that one
// request may have; the slots are how many run at once.
func (s *Server) readLlamaCpp(ctx context.Context, w *sight, models *answer) {
	const source = "GET /props"
	engine, model := s.Facts.Engine, s.Facts.Model
	engine.Set(speedmatrix.EngineName, string(KindLlamaCpp), source)
	engine.Set(speedmatrix.EngineRepository, "github.com/ggml-org/llama.cpp", source)
	var p llamaProps
	if w.props.decode(&p) {
		// Builds outside of the project's own do not know their number.
		if p.Build != "" && !strings.HasPrefix(p.Build, "b0-") {
			engine.Set(speedmatrix.EngineVersion, p.Build, source)
		}
		if p.Slots > 0 {
			engine.Set(speedmatrix.EngineRunningLimit, p.Slots, source)
		}
		if n := p.Defaults.ContextPerSlot; n > 0 {
			engine.Set(speedmatrix.EngineContextPerSeq, n, source)
			model.Set(speedmatrix.ModelMaxLength, n, source)
		}
		if p.ModelPath != "" {
			s.setModelName("/"+strings.ReplaceAll(p.ModelPath, `\`, "/"), source)
		}
		setKnown(model, speedmatrix.ModelQuantization, p.FileType, source)
	}
	s.readModelSize(models)
	if slots, err := s.readSlots(ctx); err == nil {
		s.slots.start()
		if p.Slots == 0 && len(slots) > 0 {
			engine.Set(speedmatrix.EngineRunningLimit, len(slots), "GET /slots")
		}
	}
}

// readModelSize takes the number of parameters that llama.cpp lists with the model.
func (s *Server) readModelSize(models *answer) {
	listed, _ := listedModels(models)
	for _, m := range listed {
		if m.ID == s.Model.Name && m.Meta.Parameters > 0 {
			s.Facts.Model.Set(speedmatrix.ModelParameters, fmt.Sprintf("%.0f", m.Meta.Parameters), "GET /v1/models")
		}
	}
}

// limitSlots settles the KV cache of llama.cpp. With a unified cache every slot reports
// the whole context, so slots × context says too much, and nothing tells which it is. It
// is right for one slot, and where it stays below what the user states.
func (s *Server) limitSlots() {
	perSlot, _ := s.Facts.Engine.Int(speedmatrix.EngineContextPerSeq)
	product := perSlot * s.RunningLimit
	switch {
	case product == 0:
	case s.RunningLimit == 1 && s.KVTokens == 0:
		s.KVTokens = product
		s.Facts.Engine.Set(speedmatrix.EngineKVTokens, product, "GET /props")
	case product <= s.KVTokens:
		s.KVTokens = product
	case s.KVTokens == 0:
		s.warn("kv_unknown", "llama.cpp does not say whether its %d slots share one KV cache of %d tokens or have one each; "+
			"say --state engine.%s=N to plan with it", s.RunningLimit, perSlot, speedmatrix.EngineKVTokens)
	}
}
