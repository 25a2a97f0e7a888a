package probe

import (
	"context"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

const sourceProps = "GET /props"

// llamaCpp tells itself by /props, or where that is switched off by its list of models.
func llamaCpp() engine {
	return engine{
		kind: KindLlamaCpp, routes: []string{"/props"}, ping: "/health", ignoresEOS: true,
		metrics: llamaMetrics, metricsBy: "--metrics",
		is:   func(w *sight) bool { return isLlamaCpp(w.get("/props")) || w.owned("llamacpp") },
		read: func(ctx context.Context, s *Server, w *sight) { s.readLlamaCpp(ctx, w) },
		tokenizers: func(s *Server) []tokenCounter {
			return s.llamaTokenizers()
		},
	}
}

// llamaMetrics: the requests that run, and the tokens so far, come live from /slots.
var llamaMetrics = metricNames{
	running: "llamacpp:requests_processing", waiting: "llamacpp:requests_deferred",
	generated: "llamacpp:tokens_predicted_total", prompted: "llamacpp:prompt_tokens_total",
	drafts: "llamacpp:spec_decode_num_drafts_total", accepted: "llamacpp:spec_decode_num_accepted_tokens_total",
}

func isLlamaCpp(a *answer) bool {
	var props struct {
		Slots *int    `json:"total_slots"`
		Build *string `json:"build_info"`
	}
	return a.decode(&props) && (props.Slots != nil || props.Build != nil)
}

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
func (s *Server) readLlamaCpp(ctx context.Context, w *sight) {
	engine, model := s.Facts.Engine, s.Facts.Model
	var p llamaProps
	if w.get("/props").decode(&p) {
		s.nameEngine(KindLlamaCpp, "github.com/ggml-org/llama.cpp", sourceProps)
		s.setVersion(llamaVersion(p.Build), sourceProps)
		if p.Slots > 0 {
			engine.Set(speedmatrix.EngineRunningLimit, p.Slots, sourceProps)
		}
		if n := p.Defaults.ContextPerSlot; n > 0 {
			engine.Set(speedmatrix.EngineContextPerSeq, n, sourceProps)
			model.Set(speedmatrix.ModelMaxLength, n, sourceProps)
		}
		if p.ModelPath != "" {
			s.setModelName("/"+strings.ReplaceAll(p.ModelPath, `\`, "/"), sourceProps)
		}
		setKnown(model, speedmatrix.ModelQuantization, p.FileType, sourceProps)
	} else {
		s.nameEngine(KindLlamaCpp, "github.com/ggml-org/llama.cpp", sourceModels)
	}
	if strings.HasSuffix(strings.ToLower(p.ModelPath), ".gguf") {
		model.Set(speedmatrix.ModelFormat, "GGUF", sourceProps)
	}
	s.readModelMeta(w.listing)
	s.readSlotFacts(ctx, p.Slots)
}

// llamaVersion is a build's number and commit. A build's number is its count of commits: 0 where it was made without
// the history, 1 where with the newest commit alone; then the commit says which it is, if it is known.
func llamaVersion(build string) string {
	number, commit, _ := strings.Cut(build, "-")
	switch {
	case number != "b0" && number != "b1":
		return build
	case commit == "unknown":
		return ""
	}
	return commit
}

// readSlotFacts counts on from the slots where the server shows them.
func (s *Server) readSlotFacts(ctx context.Context, listed int) {
	slots, err := s.readSlots(ctx)
	if err != nil {
		return
	}
	s.slots.start()
	if listed == 0 && len(slots) > 0 {
		s.Facts.Engine.Set(speedmatrix.EngineRunningLimit, len(slots), "GET /slots")
	}
	if len(slots) > 0 && slots[0].Speculative != nil {
		s.Facts.Engine.Set(speedmatrix.EngineSpeculative, map[bool]string{true: "on", false: "off"}[*slots[0].Speculative], "GET /slots")
	}
}

// readModelMeta takes what llama.cpp lists with the model.
func (s *Server) readModelMeta(models *answer) {
	listed, _ := listedModels(models)
	for _, m := range listed {
		if m.ID != s.Model.Name {
			continue
		}
		if m.Meta.Parameters > 0 {
			s.Facts.Model.Set(speedmatrix.ModelParameters, m.Meta.Parameters, sourceModels)
		}
		setAll(s.Facts.Model, sourceModels, map[string]any{
			speedmatrix.ModelTrainedLength: m.Meta.Trained, speedmatrix.ModelQuantization: m.Meta.FileType,
		})
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
		s.Facts.Engine.Set(speedmatrix.EngineKVTokens, product, sourceProps)
	case product <= s.KVTokens:
		s.KVTokens = product
	case s.KVTokens == 0:
		s.warn("kv_unknown", "llama.cpp does not say whether its %d slots share one KV cache of %s tokens or have one each; "+
			"say --state engine.%s=N to plan with it", s.RunningLimit, unit.Count(perSlot), speedmatrix.EngineKVTokens)
	}
}
