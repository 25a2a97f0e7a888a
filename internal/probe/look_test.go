package probe

import (
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

func TestVLLMIsFoundWithItsLimitsAndHabits(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		s := found(t, n, vllmFake(), nil)
		if s.Kind != KindVLLM || s.Model.Name != "smollm2" || s.MaxLength != 8192 || s.KVTokens != 46592 || s.KVBlockTokens != 128 {
			t.Errorf("kind %s, model %+v, length %d, KV %d in blocks of %d", s.Kind, s.Model, s.MaxLength, s.KVTokens, s.KVBlockTokens)
		}
		if s.PrefixCaching == nil || !*s.PrefixCaching || s.RunningLimit != 0 {
			t.Errorf("prefix caching %v, running limit %d", s.PrefixCaching, s.RunningLimit)
		}
		h := s.Habits
		if !h.UsageEveryEvent || !h.FinalUsage || !h.CachedTokens || !h.IgnoresEOS || !h.Tokenizer || !h.KeepsConnections {
			t.Errorf("habits %+v", h)
		}
		if h.TokensPerEvent != 1 || h.TemplateTokens != 9 || h.CharsPerToken < 4 || h.CharsPerToken > 6 {
			t.Errorf("habits %+v", h)
		}
		p := s.Params
		if p.Model != "smollm2" || !p.IgnoreEOS || !p.IncludeUsage || !p.ContinuousUsage || !p.Stream || p.TimingsPerToken || p.Prompt != "" {
			t.Errorf("params %+v", p)
		}
		if !s.SameMachine || s.Hosted || s.Base.String() != serverURL || s.Dialect.Name() != "chat" || len(s.Warnings) != 0 {
			t.Errorf("same machine %v, hosted %v, base %s, %s, warnings %v", s.SameMachine, s.Hosted, s.Base, s.Dialect.Name(), s.Warnings)
		}
		for key, want := range map[string]string{
			speedmatrix.EngineName: "vLLM", speedmatrix.EngineVersion: "0.32.0", speedmatrix.EngineKVBlocks: "364",
			speedmatrix.EngineTokenizer: "POST /tokenize", speedmatrix.EngineKVType: "",
			speedmatrix.EngineMetrics: "running, queue, KV use, preemptions, prefix hits, tokens",
		} {
			if got := s.Facts.Engine.Text(key); got != want {
				t.Errorf("engine %s = %q, want %q", key, got, want)
			}
		}
		if got := s.Facts.Model.Text(speedmatrix.ModelName); got != "m1" {
			t.Errorf("model name %q", got)
		}
		if got := s.Facts.Engine[speedmatrix.EngineKVTokens].Source; got != "GET /metrics" {
			t.Errorf("source of the KV cache %q", got)
		}
	})
}

func TestVLLMsDeveloperModeTellsTheRunningLimit(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		f.get("/server_info", `{"vllm_config":{"cache_config":{"block_size":128,"kv_cache_size_tokens":46592,"cache_dtype":"fp8","enable_prefix_caching":true},
			"scheduler_config":{"max_num_seqs":8,"max_num_batched_tokens":2048,"enable_chunked_prefill":true,"policy":"fcfs","async_scheduling":false,"stream_interval":1},
			"parallel_config":{"tensor_parallel_size":4,"pipeline_parallel_size":2,"data_parallel_size":1,"enable_expert_parallel":true},
			"speculative_config":{"method":"eagle3","num_speculative_tokens":3},"attention_config":{"backend":"FLASHINFER"},
			"model_config":{"quantization":null,"revision":"main","max_model_len":4096,"dtype":"torch.bfloat16"}},"vllm_env":{"SECRET":"x"},"system_env":{}}`)
		s := found(t, n, f, nil)
		if s.Kind != KindVLLM || s.RunningLimit != 8 {
			t.Errorf("%s, running limit %d", s.Kind, s.RunningLimit)
		}
		if steps, _ := s.Facts.Engine.Int(speedmatrix.EngineStepTokens); steps != 2048 || s.Facts.Engine.Text(speedmatrix.EngineKVType) != "fp8" {
			t.Errorf("engine %v", s.Facts.Engine)
		}
		if _, there := s.Facts.Model[speedmatrix.ModelQuantization]; there {
			t.Error("an unknown quantization became a fact")
		}
		has(t, s.Facts.Engine, facts{speedmatrix.EngineTensorParallel: "4", speedmatrix.EnginePipelineParallel: "2", speedmatrix.EngineDataParallel: "1",
			speedmatrix.EngineExpertParallel: "true", speedmatrix.EngineSpeculative: "eagle3, 3 tokens", speedmatrix.EngineAttention: "FLASHINFER"})
		has(t, s.Facts.Model, facts{speedmatrix.ModelRevision: "main", speedmatrix.ModelDType: "bfloat16"})
		// Two routes that disagree are both kept.
		if f := s.Facts.Model[speedmatrix.ModelMaxLength]; f.Value != 4096 || len(f.Others) != 1 || f.Others[0].Value != 8192 || f.Others[0].Source != "GET /v1/models" {
			t.Errorf("length %+v", f)
		}
	})
}

func TestBlocksTimesBlockSizeIsTakenOnlyWithoutTheTokens(t *testing.T) {
	for name, c := range map[string]struct {
		labels        string
		tokens, block int
		warns         string
	}{
		"blocks alone":                {`block_size="16",num_gpu_blocks="1000"`, 16000, 16, "kv_from_blocks"},
		"tokens less than product":    {`block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="1200"`, 1200, 0, ""},
		"tokens as the product":       {`block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="1600"`, 1600, 16, ""},
		"blocks not yet known":        {`block_size="16",num_gpu_blocks="None"`, 0, 16, ""},
		"tokens said to be nothing":   {`block_size="16",num_gpu_blocks="1000",kv_cache_size_tokens="None"`, 16000, 16, "kv_from_blocks"},
		"Mamba, older vLLM":           {`block_size="528",num_gpu_blocks="870",mamba_block_size="528"`, 0, 0, "kv_unknown"},
		"sliding window, older vLLM":  {`block_size="16",num_gpu_blocks="100",sliding_window="4096"`, 0, 0, "kv_unknown"},
		"Mamba with its tokens":       {`block_size="528",num_gpu_blocks="870",mamba_block_size="528",kv_cache_size_tokens="459360"`, 459360, 528, ""},
		"the label misleads, by 64":   {`block_size="4",effective_attention_block_size="256",num_gpu_blocks="1000",kv_cache_size_tokens="256000"`, 256000, 256, ""},
		"the label misleads, no size": {`block_size="4",effective_attention_block_size="256",num_gpu_blocks="1000"`, 0, 256, "kv_unknown"},
		"numbers that are none":       {`block_size="-1",num_gpu_blocks="9999999999999999999999",kv_cache_size_tokens="-5"`, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := newFake().get("/version", `{"version":"0.9.0"}`).get("/v1/models", listVLLM)
				f.get("/metrics", "vllm:num_requests_running 0\nvllm:cache_config_info{"+c.labels+"} 1.0\n")
				s := found(t, n, f, nil)
				if s.KVTokens != c.tokens || s.KVBlockTokens != c.block || c.warns != "" && !s.warned(c.warns) || c.warns == "" && len(s.Warnings) > 0 {
					t.Errorf("KV %d tokens in blocks of %d, warnings %v; want %d, %d", s.KVTokens, s.KVBlockTokens, s.Warnings, c.tokens, c.block)
				}
			})
		})
	}
}

func TestSeveralEnginesAreSummed(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := newFake().get("/version", `{"version":"0.32.0"}`).get("/v1/models", listVLLM)
		f.get("/metrics", `vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="10",kv_cache_size_tokens="160"} 1.0
vllm:cache_config_info{engine="1",block_size="16",num_gpu_blocks="11",kv_cache_size_tokens="176"} 1.0
vllm:num_requests_running{engine="0"} 2
vllm:num_requests_running{engine="1"} 3
vllm:num_requests_waiting{engine="0"} 0
vllm:num_requests_waiting{engine="1"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
`)
		f.get("/server_info", `{"vllm_config":{"scheduler_config":{"max_num_seqs":8},"cache_config":{"kv_cache_size_tokens":160}}}`)
		s := found(t, n, f, nil)
		if s.KVTokens != 336 || s.RunningLimit != 16 {
			t.Errorf("KV %d, running limit %d", s.KVTokens, s.RunningLimit)
		}
		if running, waiting, known := s.Busy(t.Context()); running != 5 || waiting != 4 || !known {
			t.Errorf("busy %v, %v, %v", running, waiting, known)
		}
		if row := s.Scrape(t.Context()); row.KVUsage == nil || *row.KVUsage != 0.5 {
			t.Errorf("row %+v", row)
		}
	})
}

func TestAProxyThatAnswersVersionIsNotVLLM(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		s := found(t, n, newFake().get("/version", `{"version":"1.2.3"}`).get("/v1/models", listPlain), nil)
		if s.Kind != KindOpenAI || !s.warned("version_without_engine") || s.Facts.Engine.Text(speedmatrix.EngineVersion) != "" {
			t.Errorf("%s, warnings %v, engine %v", s.Kind, s.Warnings, s.Facts.Engine)
		}
	})
}

func TestTheListsOwnerIsEnoughForVLLM(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		s := found(t, n, newFake().get("/version", `{"version":"0.32.0"}`).get("/v1/models", listVLLM), nil)
		if s.Kind != KindVLLM || s.Gauges() || s.CounterName() != "" || s.LiveCounter() {
			t.Errorf("%s, gauges %v, counter %q", s.Kind, s.Gauges(), s.CounterName())
		}
	})
}

func TestRoutesThatAnswerEverythingAreNoEngine(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := newFake().get("/v1/models", listPlain).get("/", `<!doctype html><title>hello</title>`)
		if s := found(t, n, f, nil); s.Kind != KindOpenAI || len(s.Warnings) != 0 {
			t.Errorf("%s, warnings %v", s.Kind, s.Warnings)
		}
	})
	bubble(t, func(t *testing.T, n *memnet.Network) {
		if s := found(t, n, newFake().get("/v1/models", listPlain).get("/", `{}`), nil); s.Kind != KindOpenAI {
			t.Errorf("%s", s.Kind)
		}
	})
}

func TestSGLangIsFoundByItsInfo(t *testing.T) {
	const info = `{"version":"0.5.4","model_path":"/data/qwen","max_total_num_tokens":100000,"max_running_requests":64,"context_length":32768,
		"page_size":16,"kv_cache_dtype":"fp8_e5m2","disable_radix_cache":false,"dp_size":2,"tp_size":4,"chunked_prefill_size":8192,"quantization":null,
		"speculative_algorithm":"EAGLE","speculative_num_draft_tokens":4,"attention_backend":"flashinfer",
		"internal_states":[{"effective_max_running_requests_per_dp":30,"memory_usage":{"token_capacity":100000}},{"effective_max_running_requests_per_dp":30}]}`
	for _, route := range []string{"/get_server_info", "/server_info"} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := newFake().get(route, info).get("/v1/models", strings.Replace(listPlain, "someone", "sglang", 1)).get("/version", `{"version":"x"}`)
			f.honours = true
			f.get("/metrics", "sglang:num_running_reqs{tp_rank=\"0\"} 3\nsglang:num_running_reqs{tp_rank=\"1\"} 3\n"+
				"sglang:num_queue_reqs{tp_rank=\"0\"} 1\nsglang:generation_tokens_total 99\n")
			s := found(t, n, f, nil)
			if s.Kind != KindSGLang || s.KVTokens != 200000 || s.RunningLimit != 60 || s.MaxLength != 32768 || s.KVBlockTokens != 16 {
				t.Errorf("%s, KV %d, running %d, length %d, block %d", s.Kind, s.KVTokens, s.RunningLimit, s.MaxLength, s.KVBlockTokens)
			}
			if s.PrefixCaching == nil || !*s.PrefixCaching || !s.Habits.IgnoresEOS {
				t.Errorf("prefix caching %v, habits %+v", s.PrefixCaching, s.Habits)
			}
			has(t, s.Facts.Engine, map[string]string{
				speedmatrix.EngineTensorParallel: "4", speedmatrix.EngineDataParallel: "2", speedmatrix.EngineSpeculative: "eagle, 4 tokens",
				speedmatrix.EngineAttention: "flashinfer", speedmatrix.EngineStepTokens: "8192", speedmatrix.EngineKVType: "fp8_e5m2",
			})
			running, waiting, known := s.Busy(t.Context())
			if running != 3 || waiting != 1 || !known || s.LiveCounter() {
				t.Errorf("busy %v, %v, %v; live %v", running, waiting, known, s.LiveCounter())
			}
		})
	}
}

func ollamaFake(ps string) *fake {
	f := newFake().get("/api/version", `{"version":"0.0.0"}`).get("/v1/models", `{"object":"list","data":[{"id":"smollm2:latest","owned_by":"library"},{"id":"other:1b","owned_by":"library"}]}`)
	f.get("/api/tags", `{"models":[{"name":"smollm2:latest"},{"name":"other:1b"}]}`).get("/api/ps", ps)
	return f.post("/api/show", func(map[string]any) string {
		return `{"parameters":"stop  \"<|im_end|>\"\nnum_ctx                        4096","details":{"parameter_size":"134.52M","quantization_level":"Q4_1"},"model_info":{"llama.context_length":8192}}`
	})
}

func TestOllamaTellsItsContextOnlyOfALoadedModel(t *testing.T) {
	const loaded = `{"models":[{"name":"smollm2:latest","context_length":2048}]}`
	for _, c := range []struct {
		name, ps, model string
		length          int
	}{
		{"loaded, not named", loaded, "", 2048},
		{"loaded, named without its tag", loaded, "smollm2", 2048},
		{"named, not loaded: the parameter", `{"models":[]}`, "smollm2", 4096},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				s := found(t, n, ollamaFake(c.ps), func(o *Options) { o.Model = c.model })
				if s.Kind != KindOllama || s.Model.Name != "smollm2:latest" || s.MaxLength != c.length {
					t.Errorf("%s, model %q, length %d", s.Kind, s.Model.Name, s.MaxLength)
				}
				if s.Facts.Engine.Text(speedmatrix.EngineVersion) != "" || s.Gauges() || s.Habits.IgnoresEOS || s.Params.IgnoreEOS || s.Habits.Tokenizer {
					t.Errorf("engine %v, gauges %v, habits %+v", s.Facts.Engine, s.Gauges(), s.Habits)
				}
				if s.Facts.Model.Text(speedmatrix.ModelQuantization) != "Q4_1" {
					t.Errorf("model %v", s.Facts.Model)
				}
				if row := s.Scrape(t.Context()); row.Error == "" || row.Running != nil {
					t.Errorf("a scrape of nothing: %+v", row)
				}
			})
		})
	}
}

func TestStatedFactsOverruleTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		s := found(t, n, vllmFake(), func(o *Options) {
			o.Stated.Model = speedmatrix.Facts{speedmatrix.ModelMaxLength: {Value: "4096", Source: speedmatrix.SourceUser}}
			o.Stated.Engine = speedmatrix.Facts{speedmatrix.EngineKVTokens: {Value: 1000, Source: speedmatrix.SourceUser}}
		})
		if s.MaxLength != 4096 || s.KVTokens != 1000 {
			t.Errorf("length %d, KV %d", s.MaxLength, s.KVTokens)
		}
		if f := s.Facts.Engine[speedmatrix.EngineKVTokens]; f.Source != speedmatrix.SourceUser || len(f.Others) != 1 {
			t.Errorf("what the server says is lost: %+v", f)
		}
	})
}

func TestASimulationIsTakenForOne(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := newFake().get("/v1/models", listVLLM).get("/version", `{"version":"0.32.0","simulated":{"profile":"rtx3090-x","kind":"calibrated","clock_speed":10,"seed":0}}`)
		s := found(t, n, f, nil)
		if s.Facts.Engine.Text(speedmatrix.EngineSimulated) != "rtx3090-x" || s.Facts.Engine.Text(speedmatrix.EngineClockSpeed) != "10" || !s.warned("simulated") {
			t.Errorf("engine %v, warnings %v", s.Facts.Engine, s.Warnings)
		}
	})
}
