package probe

import (
	"context"
	"encoding/json"
	"net/http"

	"speedmatrix"
)

// trtLLM is trtllm-serve. It answers /version as vLLM does; its list of models tells it
// apart. Its /metrics is no Prometheus text but a list of steps, each given once only, and
// there is none before the first request.
func trtLLM() engine {
	return engine{
		kind: KindTRTLLM, routes: []string{"/version"}, ping: "/version",
		metrics: metricNames{
			route:   "/prometheus/metrics",
			running: "trtllm_num_requests_running", waiting: "trtllm_num_requests_waiting", kvUsage: "trtllm_kv_cache_utilization",
		},
		metricsBy: "return_perf_metrics: true",
		is:        func(w *sight) bool { return w.owned("tensorrt_llm") },
		read: func(_ context.Context, s *Server, w *sight) {
			s.nameEngine(KindTRTLLM, "github.com/NVIDIA/TensorRT-LLM", sourceModels)
			var v struct {
				Version string `json:"version"`
			}
			if w.get("/version").decode(&v) {
				s.setVersion(v.Version, sourceVersion)
			}
			s.setModelName(s.Model.Name, sourceModels)
		},
		loaded: func(ctx context.Context, s *Server) { s.readTRTSteps(ctx) },
	}
}

// trtStep is the account of one step.
type trtStep struct {
	MaxRunning *int `json:"maxNumActiveRequests"`
	StepTokens *int `json:"maxNumTokensRuntime"`
	KV         *struct {
		Blocks *int `json:"maxNumBlocks"`
		Block  *int `json:"tokensPerBlock"`
	} `json:"kvCacheStats"`
	Speculative *struct{} `json:"specDecodingStats"`
}

// readTRTSteps takes the limits from the last step of the trials. Blocks × tokens per block
// is the engine's own measure of its capacity.
func (s *Server) readTRTSteps(ctx context.Context) {
	a, err := s.http.get(ctx, "/metrics")
	if err != nil || a.status != http.StatusOK {
		return
	}
	var steps []json.RawMessage
	if !a.decode(&steps) || len(steps) == 0 {
		return
	}
	var last trtStep
	if json.Unmarshal(steps[len(steps)-1], &last) != nil {
		return
	}
	engine := s.Facts.Engine
	setKnown(engine, speedmatrix.EngineRunningLimit, last.MaxRunning, sourceMetrics)
	setKnown(engine, speedmatrix.EngineStepTokens, last.StepTokens, sourceMetrics)
	if last.Speculative != nil {
		engine.Set(speedmatrix.EngineSpeculative, "on", sourceMetrics)
	}
	if last.KV == nil || last.KV.Blocks == nil || last.KV.Block == nil {
		return
	}
	engine.Set(speedmatrix.EngineKVBlocks, *last.KV.Blocks, sourceMetrics)
	engine.Set(speedmatrix.EngineKVBlockTokens, *last.KV.Block, sourceMetrics)
	engine.Set(speedmatrix.EngineKVTokens, *last.KV.Blocks**last.KV.Block, sourceMetrics)
}
