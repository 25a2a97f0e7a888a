package probe

import (
	"context"
	"slices"
)

// Kind is the kind of server behind an endpoint.
type Kind string

// The kinds that are told apart; every other server with OpenAI's routes is KindOpenAI.
const (
	KindVLLM      Kind = "vLLM"
	KindLlamaCpp  Kind = "llama.cpp"
	KindSGLang    Kind = "SGLang"
	KindOllama    Kind = "Ollama"
	KindTGI       Kind = "TGI"
	KindTRTLLM    Kind = "TensorRT-LLM"
	KindLMStudio  Kind = "LM Studio"
	KindMLX       Kind = "MLX"
	KindAnthropic Kind = "Anthropic"
	KindOpenAI    Kind = "OpenAI-compatible"
	// The kinds that are proxies: an engine stands behind them.
	KindLiteLLM    Kind = "LiteLLM"
	KindVLLMRouter Kind = "vLLM router"
	KindLlamaSwap  Kind = "llama-swap"
)

// engine is one row of the table of detectors: how a kind of server is told apart, and
// where its facts are.
type engine struct {
	kind Kind
	// routes are asked with GET before the kind is known.
	routes []string
	// is says whether the answers are those of this kind.
	is func(w *sight) bool
	// read takes the facts from the answers, and asks for those that need more.
	read func(ctx context.Context, s *Server, w *sight)
	// loaded takes the facts that are there only once the trials have had the model loaded.
	loaded func(ctx context.Context, s *Server)
	// models lists the models where GET /v1/models does not.
	models func(w *sight) []Model
	// inUse names the models that are loaded, of servers that list others too.
	inUse   func(ctx context.Context, s *Server) []string
	metrics metricNames
	// metricsBy says what switches the metrics on; "" if they are always there, or never.
	metricsBy string
	// ping is a small route for the round trip; "" is /v1/models.
	ping string
	// tokenizers are the ways to count tokens, the most exact first.
	tokenizers func(s *Server) []tokenCounter
	// ignoresEOS says that it takes ignore_eos, whatever a trial looks like.
	ignoresEOS bool
	// open says that it may serve models that it does not list.
	open bool
	// proxy says that an engine stands behind it.
	proxy bool
}

// engines is the table, in the order in which it is asked: proxies before the engines whose
// answers they pass on, and engines before those whose routes they imitate.
func engines() []engine {
	return []engine{
		liteLLM(), llamaSwap(), vllmRouter(),
		sglang(), llamaCpp(), lmStudio(), ollama(), tgi(), trtLLM(), vllm(), mlx(), anthropic(), openAI(),
	}
}

// engineOf gives the row of a kind.
func engineOf(kind Kind) engine {
	all := engines()
	i := slices.IndexFunc(all, func(e engine) bool { return e.kind == kind })
	if i < 0 {
		i = len(all) - 1
	}
	return all[i]
}
