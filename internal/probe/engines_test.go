package probe

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

// facts are what a test expects of model and engine; "" is a fact that must not be there.
type facts map[string]string

// served is a server by its answers, and what it must be taken for.
type served struct {
	name   string
	routes map[string]string
	// header is on every answer, sign in every event.
	header       map[string]string
	sign         string
	model        string // asked for
	kind         Kind
	title        string
	modelFacts   facts
	engineFacts  facts
	warns        []string
	length, atOn int
	kv           int
	// elsewhere: the engine may work on another machine than this, on which the server answers.
	elsewhere bool
}

const (
	infoTGI = `{"model_id":"teknium/OpenHermes","model_sha":"abc123","model_dtype":"torch.float16","model_device_type":"cuda","model_pipeline_tag":"text-generation",
		"max_concurrent_requests":128,"max_best_of":2,"max_stop_sequences":4,"max_input_tokens":4095,"max_total_tokens":4096,"waiting_served_ratio":0.3,
		"max_batch_total_tokens":65536,"max_waiting_tokens":20,"max_batch_size":null,"validation_workers":2,"router":"text-generation-router",
		"version":"2.4.1","sha":"deadbeef","docker_label":"sha-deadbeef"}`
	infoTGI3 = `{"model_id":"/data/models/qwen","model_sha":null,"max_concurrent_requests":64,"max_input_tokens":31999,"max_total_tokens":32000,"router":"text-generation-router","version":"3.3.5","sha":null}`
	infoTEI  = `{"model_id":"BAAI/bge","model_sha":"x","model_dtype":"float16","model_type":{"embedding":{"pooling":"cls"}},"max_concurrent_requests":512,"max_input_length":512,"max_batch_tokens":16384,"version":"1.7.0"}`
	stepsTRT = `[{"iter":1,"maxNumActiveRequests":64,"kvCacheStats":{"maxNumBlocks":10,"tokensPerBlock":32}},
		{"iter":154,"numActiveRequests":1,"maxNumActiveRequests":64,"maxNumTokensRuntime":8192,"kvCacheStats":{"maxNumBlocks":101256,"freeNumBlocks":101253,"usedNumBlocks":3,"tokensPerBlock":32},"specDecodingStats":null}]`
	lmStudioNewList = `{"models":[{"type":"llm","publisher":"qwen","key":"qwen/qwen3-4b","display_name":"Qwen3 4B","architecture":"qwen3","quantization":{"name":"Q4_K_M","bits_per_weight":4},
		"size_bytes":1,"params_string":"4B","loaded_instances":[{"id":"qwen/qwen3-4b","config":{"context_length":4096,"eval_batch_size":512,"parallel":4,"flash_attention":true}}],
		"max_context_length":40960,"format":"gguf"},{"type":"llm","key":"other","loaded_instances":[],"max_context_length":8192}]}`
	lmStudioOldList = `{"object":"list","data":[{"id":"qwen/qwen3-4b","object":"model","type":"llm","publisher":"qwen","arch":"qwen3","compatibility_type":"mlx","quantization":"4bit",
		"state":"loaded","max_context_length":40960,"loaded_context_length":8192},{"id":"other","object":"model","type":"llm","state":"not-loaded","max_context_length":8192}]}`
	lmStudioModelsList = `{"object":"list","data":[{"id":"qwen/qwen3-4b","object":"model","owned_by":"organization_owner"},{"id":"other","object":"model","owned_by":"organization_owner"}]}`
	routerMetrics      = "vllm:num_requests_running{server=\"http://10.0.0.1:8000\"} 1\nvllm:num_requests_running{server=\"http://10.0.0.2:8000\"} 2\n" +
		"vllm:num_requests_waiting{server=\"http://10.0.0.1:8000\"} 0\nvllm:healthy_pods_total{server=\"http://10.0.0.1:8000\"} 1\n"
)

func owned(by string) string { return strings.Replace(listPlain, "someone", by, 1) }

// The answers are those of the engines' own documentation and source, or recorded from real
// servers: docs/engines.md says which.
var engineTable = []served{
	{name: "TGI 2", routes: map[string]string{"/info": infoTGI, "/v1/models": owned("teknium/OpenHermes"), "/metrics": "tgi_queue_size 1\ntgi_batch_current_size 3\n"},
		kind: KindTGI, title: "TGI 2.4.1", length: 4096, kv: 65536,
		modelFacts:  facts{"name": "teknium/OpenHermes", "revision": "abc123", "dtype": "float16", "max_prompt_tokens": "4095"},
		engineFacts: facts{"queue_limit_requests": "128", "running_limit_requests": "", "backend": "cuda", "build": "deadbeef", "metrics": "running, queue"}},
	{name: "TGI 3, its own routes alone", routes: map[string]string{"/info": infoTGI3},
		kind: KindTGI, title: "TGI 3.3.5", length: 32000, warns: []string{"no_metrics"},
		modelFacts:  facts{"name": "qwen", "served_name": "/data/models/qwen", "revision": ""},
		engineFacts: facts{"kv_cache_tokens": "", "build": ""}},
	{name: "a server of embeddings is not TGI", routes: map[string]string{"/info": infoTEI, "/v1/models": listPlain}, kind: KindOpenAI, title: "OpenAI-compatible"},
	{name: "TensorRT-LLM answers /version as vLLM does", routes: map[string]string{"/version": `{"version":"1.2.0"}`, "/v1/models": owned("tensorrt_llm"), "/metrics": stepsTRT,
		"/prometheus/metrics": "trtllm_num_requests_running{model_name=\"m\"} 0\ntrtllm_num_requests_waiting{model_name=\"m\"} 0\ntrtllm_kv_cache_utilization{model_name=\"m\"} 0.1\n"},
		kind: KindTRTLLM, title: "TensorRT-LLM 1.2.0", kv: 101256 * 32, atOn: 64,
		engineFacts: facts{"kv_cache_blocks": "101256", "kv_block_tokens": "32", "step_tokens": "8192", "speculative_decoding": "", "metrics": "running, queue, KV use"}},
	{name: "TensorRT-LLM before a step", routes: map[string]string{"/version": `{"version":"0.20.0"}`, "/v1/models": owned("tensorrt_llm"), "/metrics": `[]`},
		kind: KindTRTLLM, title: "TensorRT-LLM 0.20.0", warns: []string{"no_metrics"}, engineFacts: facts{"kv_cache_tokens": ""}},
	{name: "LM Studio", routes: map[string]string{"/v1/models": lmStudioModelsList, "/api/v1/models": lmStudioNewList, "/api/v0/models": lmStudioOldList},
		kind: KindLMStudio, title: "LM Studio", length: 4096, atOn: 4,
		modelFacts: facts{"name": "qwen/qwen3-4b", "quantization": "Q4_K_M", "format": "GGUF", "architecture": "qwen3", "parameters": "4B", "trained_length_tokens": "40960"}},
	{name: "LM Studio before 0.4", routes: map[string]string{"/v1/models": lmStudioModelsList, "/api/v0/models": lmStudioOldList, "/api/v1/models": `{"error":"Unexpected endpoint or method. (GET /api/v1/models)"}`},
		kind: KindLMStudio, title: "LM Studio", length: 8192, modelFacts: facts{"quantization": "4bit", "format": "MLX"}, engineFacts: facts{"running_limit_requests": ""}},
	{name: "MLX", routes: map[string]string{"/v1/models": `{"object":"list","data":[{"id":"mlx-community/Qwen3-4B-4bit","object":"model","created":1}]}`, "/health": `{"status": "ok"}`},
		header: map[string]string{"Server": "BaseHTTP/0.6 Python/3.12.8"}, sign: "0.28.3-0.29.2-macOS-15.5-arm64-arm-64bit-Mach-O-applegpu_g16s",
		kind: KindMLX, title: "MLX 0.28.3", modelFacts: facts{"name": "mlx-community/Qwen3-4B-4bit"}},
	{name: "another Python server is not MLX", routes: map[string]string{"/v1/models": owned("me"), "/health": `{"status": "ok"}`},
		header: map[string]string{"Server": "BaseHTTP/0.6 Python/3.12.8"}, kind: KindOpenAI, title: "OpenAI-compatible"},
	{name: "LiteLLM in front of llama.cpp", routes: map[string]string{"/v1/models": owned("openai"), "/health/liveliness": `"I'm alive!"`,
		"/model/info": `{"data":[{"model_name":"m","litellm_params":{"api_base":"http://10.1.2.3:8080/v1","model":"openai/smollm2"},"model_info":{"max_input_tokens":null}}]}`},
		header: map[string]string{"X-Litellm-Version": "1.106.12", "Llm_provider-Server": "llama.cpp"}, sign: "b1-7e4c0a9",
		kind: KindLiteLLM, title: "LiteLLM 1.106.12 in front of llama.cpp 7e4c0a9", elsewhere: true, engineFacts: facts{"proxy_upstream": "openai/smollm2"}},
	{name: "LiteLLM in front of vLLM", routes: map[string]string{"/v1/models": owned("openai"), "/health/liveliness": `"I'm alive!"`,
		"/model/info": `{"data":[{"model_name":"m","litellm_params":{"api_base":"http://127.0.0.1:8080/v1","model":"openai/m"}},{"model_name":"n","litellm_params":{"api_base":"http://gpu:1/v1"}}]}`}, sign: "vllm-0.32.0-c460cfa7",
		kind: KindLiteLLM, title: "LiteLLM in front of vLLM 0.32.0"},
	{name: "LiteLLM in front of several, none known", routes: map[string]string{"/v1/models": owned("openai"), "/health/liveliness": `"I'm alive!"`,
		"/model/info": `{"data":[{"model_name":"m","litellm_params":{"model":"openai/a"}},{"model_name":"m","litellm_params":{"model":"openai/b"}}]}`},
		kind: KindLiteLLM, title: "LiteLLM in front of an engine that it does not name", elsewhere: true, warns: []string{"replicas"}},
	{name: "llama-swap", routes: map[string]string{"/v1/models": owned("llama-swap")}, sign: "b10434-7e4c0a9", kind: KindLlamaSwap, title: "llama-swap in front of llama.cpp b10434-7e4c0a9"},
	{name: "vLLM's router", routes: map[string]string{"/v1/models": listVLLM, "/version": `{"version":"0.1.7"}`, "/metrics": routerMetrics},
		kind: KindVLLMRouter, title: "vLLM router 0.1.7 in front of vLLM", elsewhere: true, length: 8192, warns: []string{"replicas"}, engineFacts: facts{"version": ""}},
	{name: "nginx in front of vLLM", routes: map[string]string{"/v1/models": listVLLM, "/version": `{"version":"0.32.0"}`, "/metrics": metricsVLLM},
		header: map[string]string{"Server": "nginx/1.25.3"}, kind: KindVLLM, title: "nginx 1.25.3 in front of vLLM 0.32.0", elsewhere: true, length: 8192, kv: 46592},
	{name: "Caddy in front of a server that hides /version", routes: map[string]string{"/v1/models": listVLLM}, header: map[string]string{"Via": "1.1 Caddy", "Server": "uvicorn"},
		kind: KindVLLM, title: "Caddy in front of vLLM", elsewhere: true, length: 8192, warns: []string{"no_metrics"}},
	{name: "one engine's routes, another's signature", routes: map[string]string{"/v1/models": listVLLM, "/version": `{"version":"0.32.0"}`, "/metrics": metricsVLLM}, sign: "fp_ollama",
		kind: KindVLLM, title: "vLLM 0.32.0", length: 8192, kv: 46592, warns: []string{"engines_disagree"}},
	{name: "an adapter", routes: map[string]string{"/v1/models": `{"data":[{"id":"base","owned_by":"vllm","root":"org/base","max_model_len":4096},{"id":"tuned","owned_by":"vllm","root":"/lora/t","parent":"base"}]}`},
		model: "tuned", kind: KindVLLM, title: "vLLM", warns: []string{"no_metrics"}, modelFacts: facts{"base_model": "base", "name": "t", "served_name": "tuned"}},
	{name: "Anthropic's list", routes: map[string]string{"/v1/models": `{"data":[{"type":"model","id":"claude-x","display_name":"Claude X","created_at":"2026-01-01T00:00:00Z","max_input_tokens":200000}],"has_more":false,"first_id":"claude-x","last_id":"claude-x"}`},
		kind: KindAnthropic, title: "Anthropic", length: 200000},
	{name: "Ollama by its own routes alone", routes: map[string]string{"/api/version": `{"version":"0.17.4"}`, "/api/tags": `{"models":[{"name":"m:latest","digest":"d9e1","details":{"parent_model":"/models/x","format":"gguf","family":"llama","parameter_size":"134.52M","quantization_level":"Q4_1"}}]}`,
		"/api/ps": `{"models":[{"name":"m:latest","context_length":2048}]}`},
		kind: KindOllama, title: "Ollama 0.17.4", length: 2048, modelFacts: facts{"revision": "d9e1", "format": "GGUF", "parameters": "134.52M", "quantization": "Q4_1", "base_model": ""}},
}

func TestEachKindOfServerIsTakenForWhatItIs(t *testing.T) {
	for _, c := range engineTable {
		t.Run(c.name, func(t *testing.T) { bubble(t, c.test) })
	}
}

func (c served) test(t *testing.T, n *memnet.Network) {
	f := newFake()
	f.sign = c.sign
	for route, body := range c.routes {
		f.get(route, body)
	}
	with := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range c.header {
			w.Header().Set(name, value)
		}
		f.ServeHTTP(w, r)
	})
	s := found(t, n, with, func(o *Options) { o.Model = c.model })
	if s.Kind != c.kind || s.Title() != c.title {
		t.Errorf("%s, title %q; want %s, %q", s.Kind, s.Title(), c.kind, c.title)
	}
	if s.MaxLength != c.length || s.KVTokens != c.kv || s.RunningLimit != c.atOn {
		t.Errorf("length %d, KV %d, at once %d; want %d, %d, %d", s.MaxLength, s.KVTokens, s.RunningLimit, c.length, c.kv, c.atOn)
	}
	if !s.SameMachine || s.EngineHere == c.elsewhere {
		t.Errorf("the server is here: %v, the engine: %v", s.SameMachine, s.EngineHere)
	}
	has(t, s.Facts.Model, c.modelFacts)
	has(t, s.Facts.Engine, c.engineFacts)
	for _, code := range c.warns {
		if !s.warned(code) {
			t.Errorf("no warning %s in %v", code, s.Warnings)
		}
	}
	if len(s.Warnings) != len(c.warns) {
		t.Errorf("warnings %v, want %v", s.Warnings, c.warns)
	}
	for _, section := range []speedmatrix.Facts{s.Facts.Model, s.Facts.Engine} {
		for key, fact := range section {
			if fact.Source == "" {
				t.Errorf("%s = %v has no source", key, fact.Value)
			}
		}
	}
}

func TestEndpointsAreFoundWithoutRunningAnything(t *testing.T) {
	for _, c := range []struct {
		name   string
		serve  func(f *fake)
		want   string
		source string
	}{
		{"asked one by one", func(f *fake) { f.post("/v1/messages", func(map[string]any) string { return "{}" }) }, "chat, completions, anthropic", "tried"},
		{"by the server's list", func(f *fake) {
			f.get("/openapi.json", `{"paths":{"/v1/chat/completions":{"post":{}},"/v1/responses":{"post":{}},"/reset_prefix_cache":{"post":{}},"/abort_requests":{"post":{}}}}`)
		}, "chat, responses", "GET /openapi.json"},
		{"LM Studio answers everything with 200", func(f *fake) {
			f.mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `{"error":"Unexpected endpoint or method. (POST %s)"}`, r.URL.Path)
			})
		}, "chat, completions", "tried"},
		{"a server that refuses whatever it is asked", func(f *fake) {
			f.mux.HandleFunc("POST /", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad request", 400) })
		}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := newFake().get("/v1/models", listPlain)
				c.serve(f)
				s := found(t, n, f, nil)
				got := s.Facts.Engine[speedmatrix.EngineAPIs]
				if text := s.Facts.Engine.Text(speedmatrix.EngineAPIs); text != c.want || got.Source != c.source || strings.Join(s.APIs, ", ") != c.want {
					t.Errorf("%q by %q, want %q by %q", text, got.Source, c.want, c.source)
				}
				if c.source == "GET /openapi.json" {
					has(t, s.Facts.Engine, facts{"cache_reset": "POST /reset_prefix_cache", "abort_route": "POST /abort_requests"})
				}
			})
		})
	}
}

func TestServersThatAnswerInTurnHaveNoFiguresTogether(t *testing.T) {
	for _, servers := range []int32{1, 2} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := newFake().get("/v1/models", listVLLM).get("/version", `{"version":"0.32.0"}`)
			var turn atomic.Int32
			f.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "process_start_time_seconds %d\n%s", 1000+turn.Add(1)%servers, metricsVLLM)
			})
			s := found(t, n, f, nil)
			if s.Gauges() != (servers == 1) || s.warned("replicas") != (servers == 2) {
				t.Errorf("%d servers: gauges %v, warnings %v", servers, s.Gauges(), s.Warnings)
			}
		})
	}
}
