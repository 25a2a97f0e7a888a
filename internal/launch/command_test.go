package launch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/launch"
)

// slash keeps the paths of nobody's machine out of this file.
const slash = "/"

func getenv(name string) string {
	return map[string]string{"HOME": slash + "home/ann", "MODELS": "/models"}[name]
}

func parse(t *testing.T, text string) *launch.Command {
	t.Helper()
	c, err := launch.Parse(text, getenv)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestACommandIsReadAsAShellReadsIt(t *testing.T) {
	tests := []struct {
		text      string
		env, args []string
	}{
		{"vllm serve m", nil, []string{"vllm", "serve", "m"}},
		{"  vllm\tserve \\\n  m # the model\n", nil, []string{"vllm", "serve", "m"}},
		{"A=1 B='x y' vllm serve m", []string{"A=1", "B=x y"}, []string{"vllm", "serve", "m"}},
		{`s ~/m $MODELS/x "$MODELS/y z" '$MODELS' $NONE`, nil, []string{"s", slash + "home/ann/m", "/models/x", "/models/y z", "$MODELS"}},
		{`s --json '{"a": 1}' --x=y\ z ""`, nil, []string{"s", "--json", `{"a": 1}`, "--x=y z", ""}},
		{"s *.gguf", nil, []string{"s", "*.gguf"}},
	}
	for _, tt := range tests {
		c := parse(t, tt.text)
		if !slices.Equal(c.Env, tt.env) || !slices.Equal(c.Args, tt.args) {
			t.Errorf("%q gives %q and %q", tt.text, c.Env, c.Args)
		}
	}
}

func TestWhatNeedsAShellIsRefused(t *testing.T) {
	for _, text := range []string{"a | b", "a > log", "a && b", "a; b", "a &", "a $(b)", "a `b`", `a "b`, "", "A=1"} {
		_, err := launch.Parse(text, getenv)
		if speedmatrix.KindOf(err) != speedmatrix.KindUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestQuotedWordsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z0-9 =/"'$\\{}«»~*|-]{1,12}`), 1, 5).Draw(t, "words")
		words[0] = "x"
		c, err := launch.Parse(launch.Quote(words), getenv)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.Args, words) {
			t.Fatalf("%q become %q by %s", words, c.Args, launch.Quote(words))
		}
	})
}

func TestTheCommandSaysWhereItsServerListens(t *testing.T) {
	tests := map[string]string{
		"vllm serve m": "http://127.0.0.1:8000",
		"vllm serve m --port 9000 --host 0.0.0.0":                            "http://127.0.0.1:9000",
		"vllm serve m --port=9000 --host=10.0.0.5":                           "http://10.0.0.5:9000",
		"vllm serve m --ssl-keyfile k --ssl-certfile c":                      "https://127.0.0.1:8000",
		"python -m vllm.entrypoints.openai.api_server --model m --port 1234": "http://127.0.0.1:1234",
		"numactl -N 0 /opt/venv/bin/python /opt/venv/bin/vllm serve m":       "http://127.0.0.1:8000",
		"uv run vllm serve m --port 8001":                                    "http://127.0.0.1:8001",
		"python3 -m sglang.launch_server --model-path m":                     "http://127.0.0.1:30000",
		"llama-server -m x.gguf":                                             "http://127.0.0.1:8080",
		"LLAMA_ARG_PORT=81 LLAMA_ARG_HOST=:: llama-server -m x.gguf":         "http://127.0.0.1:81",
		"./build/bin/llama-server -m x.gguf --host ::1 --port 9":             "http://[::1]:9",
		"ollama serve":                                                        "http://127.0.0.1:11434",
		"OLLAMA_HOST=0.0.0.0:11500 ollama serve":                              "http://127.0.0.1:11500",
		"OLLAMA_HOST=http://127.0.0.2:80 ollama serve":                        "http://127.0.0.2:80",
		"OLLAMA_HOST=10.1.1.1 ollama serve":                                   "http://10.1.1.1:11434",
		"speedmatrix sim x --port 18000":                                      "http://127.0.0.1:18000",
		"trtllm-serve m":                                                      "http://127.0.0.1:8000",
		"mlx_lm.server --model m":                                             "http://127.0.0.1:8080",
		"text-generation-launcher --model-id m -p 3001":                       "http://127.0.0.1:3001",
		"docker run --gpus all -p 8001:8000 vllm/vllm-openai:v0.32 --model m": "http://127.0.0.1:8001",
		"docker run -it --rm -p 127.0.0.2:8001:9000/tcp --name x vllm/vllm-openai --model m --port 9000": "http://127.0.0.2:8001",
		"sudo podman run -p8001:8000 -v a:b vllm/vllm-openai m":                                          "http://127.0.0.1:8001",
		"docker run --network host vllm/vllm-openai m --port 7":                                          "http://127.0.0.1:7",
		"docker run -p 8080:80 ghcr.io/huggingface/text-generation-inference --model-id m":               "http://127.0.0.1:8080",
		"docker run -p 30001:30000 lmsysorg/sglang python3 -m sglang.launch_server --model-path m":       "http://127.0.0.1:30001",
		"docker run -p 9:9 my/image":                           "http://127.0.0.1:9",
		"docker run -e OLLAMA_HOST=x -p 8:11434 ollama/ollama": "http://127.0.0.1:8",
		"sh -c 'exec vllm serve m --port 8002'":                "http://127.0.0.1:8002",
		"bash -lc 'X=1 llama-server -m m --port 8003'":         "http://127.0.0.1:8003",
		"myserver --port 8004":                                 "http://127.0.0.1:8004",
		"myserver":                                             "",
		"docker run vllm/vllm-openai m":                        "",
		"vllm bench serve":                                     "",
		"vllm serve m --port many":                             "",
	}
	for text, want := range tests {
		if got, _ := parse(t, text).Address(); got != want {
			t.Errorf("%s\nlistens at %q, want %q", text, got, want)
		}
	}
}

func TestTheKeyOfTheServerIsKnown(t *testing.T) {
	for text, want := range map[string]string{
		"vllm serve m --api-key abc": "abc", "VLLM_API_KEY=def vllm serve m": "def", "llama-server --api-key=ghi": "ghi",
		"docker run -e VLLM_API_KEY=jkl -p 1:8000 vllm/vllm-openai m": "jkl", "vllm serve m": "",
	} {
		if got := parse(t, text).APIKey(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// facts gives facts as text.
func texts(facts speedmatrix.Facts) map[string]string {
	m := map[string]string{}
	for key, f := range facts {
		m[key] = facts.Text(key)
		if f.Source != launch.Source {
			m[key] += " from " + f.Source
		}
	}
	return m
}

func TestCommandLinesTellFacts(t *testing.T) {
	tests := []struct {
		text          string
		model, engine map[string]string
	}{
		{"vllm serve Qwen/Qwen3-8B-AWQ -q awq_marlin --max-model-len 32k --max-num-seqs 64 -dp 2 --gpu-memory-utilization 0.95 -tp 2 --enforce-eager " +
			"--no-enable-prefix-caching --kv-cache-dtype fp8_e4m3 --max_num_batched_tokens 8192 --speculative-config '{\"method\":\"eagle3\",\"num_speculative_tokens\":3}' --attention-backend FLASHINFER --block-size=32 --dtype auto",
			map[string]string{"name": "Qwen/Qwen3-8B-AWQ", "quantization": "awq_marlin", "max_length_tokens": "32000"},
			map[string]string{"running_limit_requests": "128", "gpu_memory_utilization": "0.95", "tensor_parallel": "2", "data_parallel": "2",
				"enforce_eager": "true", "prefix_caching": "false", "kv_dtype": "fp8_e4m3", "step_tokens": "8192", "speculative_decoding": "eagle3, 3 tokens",
				"attention_backend": "FLASHINFER", "kv_block_tokens": "32"}},
		{"VLLM_ATTENTION_BACKEND=TRITON_ATTN python -m vllm.entrypoints.openai.api_server --model /models/a/Agents-4B --max-model-len 1M --enable-chunked-prefill --async-scheduling",
			map[string]string{"name": "Agents-4B", "max_length_tokens": "1048576"},
			map[string]string{"attention_backend": "TRITON_ATTN", "chunked_prefill": "true", "async_scheduling": "true"}},
		{"python -m sglang.launch_server --model-path m/n --quantization fp8 --context-length 4096 --mem-fraction-static 0.8 --tp 4 --kv-cache-dtype fp8_e5m2 " +
			"--disable-radix-cache --max-running-requests 32 --speculative-algorithm EAGLE --speculative-num-draft-tokens 4 --disable-cuda-graph --page-size 1",
			map[string]string{"name": "m/n", "quantization": "fp8", "max_length_tokens": "4096"},
			map[string]string{"gpu_memory_utilization": "0.8", "tensor_parallel": "4", "kv_dtype": "fp8_e5m2", "prefix_caching": "false",
				"running_limit_requests": "32", "speculative_decoding": "eagle, 4 tokens", "enforce_eager": "true", "kv_block_tokens": "1"}},
		{"llama-server -m ~/x/Qwen3-30B-Q4.gguf -c 65536 -np 4 -ngl 99 -fa on -ctk q8_0 -ctv q8_0 -b 2048 -ub 512 -t 8 --n-cpu-moe 10",
			map[string]string{"name": "Qwen3-30B-Q4.gguf"},
			map[string]string{"context_tokens": "65536", "running_limit_requests": "4", "gpu_layers": "99", "flash_attention": "true", "kv_dtype": "q8_0",
				"step_tokens": "2048", "physical_batch_tokens": "512", "threads": "8", "cpu_moe_layers": "10"}},
		{"llama-server -hf ggml-org/m -ctk q4_0", map[string]string{"name": "ggml-org/m"}, map[string]string{"kv_dtype": "q4_0 keys, f16 values"}},
		{"OLLAMA_NUM_PARALLEL=4 OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_CONTEXT_LENGTH=8192 ollama serve", map[string]string{},
			map[string]string{"running_limit_requests": "4", "flash_attention": "true", "kv_dtype": "q8_0", "context_tokens": "8192"}},
		{"docker run --gpus all -p 8000:8000 -e VLLM_ATTENTION_BACKEND=FLASH_ATTN vllm/vllm-openai --model q/m --max-num-seqs 8",
			map[string]string{"name": "q/m"}, map[string]string{"running_limit_requests": "8", "attention_backend": "FLASH_ATTN"}},
		{"myserver --max-num-seqs 8", map[string]string{}, map[string]string{}},
	}
	for _, tt := range tests {
		model, engine := parse(t, tt.text).Facts()
		if diff := cmp.Diff(tt.model, texts(model)); diff != "" {
			t.Errorf("%s\nmodel %s", tt.text, diff)
		}
		if diff := cmp.Diff(tt.engine, texts(engine)); diff != "" {
			t.Errorf("%s\nengine %s", tt.text, diff)
		}
	}
}

func TestDifferencesOfCommands(t *testing.T) {
	tests := []struct {
		old, now string
		want     []string
	}{
		{"vllm serve m --max-num-seqs 8", "vllm serve m --max-num-seqs 8", nil},
		{"vllm serve m --max-num-seqs 8 --port 8000", "/opt/python /opt/bin/vllm serve m --port 9000 --host 0.0.0.0 --max_num_seqs=8", nil},
		{"vllm serve m --max-num-seqs 8 --enforce-eager", "vllm serve n --max-num-seqs 16 -tp 2",
			[]string{"--enforce-eager → left out", "--max-num-seqs 8 → 16", "model m → n", "-tp 2 added"}},
		{"VLLM_X=1 vllm serve m", "VLLM_X=2 OTHER=1 vllm serve m", []string{"VLLM_X 1 → 2"}},
		{"docker run -p 1:8000 vllm/vllm-openai:a m", "docker run -p 2:8000 vllm/vllm-openai:b m", []string{"image vllm/vllm-openai:a → vllm/vllm-openai:b"}},
		{"vllm serve m --api-key «redacted: api key»", "vllm serve m", nil},
		{"a | b", "a | c", []string{"a | b → a | c"}},
	}
	for _, tt := range tests {
		got := launch.Differences(tt.old, tt.now)
		slices.Sort(got)
		want := slices.Clone(tt.want)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s\n%s\ndiffer by %q, want %q", tt.old, tt.now, got, want)
		}
	}
}

func TestOnlyTellingVariablesAreAllowed(t *testing.T) {
	got := launch.Allowed([]string{"OMP_NUM_THREADS=1", "HF_TOKEN=x", "USER=ann", "VLLM_USE_V1=1", "CUDA_VISIBLE_DEVICES=0", "AWS_KEY=1", "PATH=/bin", "OMP_NUM_THREADS=1"})
	if want := []string{"CUDA_VISIBLE_DEVICES=0", "OMP_NUM_THREADS=1", "VLLM_USE_V1=1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLogsTellFacts(t *testing.T) {
	facts := launch.ReadLog(strings.Split(`(EngineCore pid=1) INFO Using FLASH_ATTN attention backend out of potential backends
(EngineCore pid=1) INFO 11-30 [kv_cache_utils.py:2327] GPU KV cache size: 459,360 tokens, Maximum concurrency 1.75x
init: n_slots = 4, n_ctx_slot = 4096, kv_unified = 'true'`, "\n"))
	want := map[string]string{"attention_backend": "FLASH_ATTN from log", "kv_cache_tokens": "459360 from log", "kv_unified": "true from log"}
	if diff := cmp.Diff(want, texts(facts)); diff != "" {
		t.Error(diff)
	}
}
