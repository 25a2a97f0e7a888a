package launch

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
)

// Source is the source of facts that a command line or a process gave.
const Source = "process"

// facts collects what a command line says.
type facts struct {
	model, engine speedmatrix.Facts
	v             *view
}

// Facts gives what the command tells its engine, about the model and about the engine, each with Source. What is left
// to the engine is left out.
func (c *Command) Facts() (model, engine speedmatrix.Facts) {
	v := c.see()
	f := &facts{model: speedmatrix.Facts{}, engine: speedmatrix.Facts{}, v: &v}
	if v.engine != nil && v.engine.read != nil {
		v.engine.read(&v, f)
	}
	return f.model, f.engine
}

func (f *facts) text(into speedmatrix.Facts, key string, names ...string) {
	if value, ok := f.v.option(names...); ok && value != "" && value != "auto" {
		into.Set(key, value, Source)
	}
}

func (f *facts) whole(into speedmatrix.Facts, key string, names ...string) {
	if value, ok := f.v.option(names...); ok {
		if n, ok := humanInt(value); ok {
			into.Set(key, n, Source)
		}
	}
}

func (f *facts) number(key string, names ...string) {
	if value, ok := f.v.option(names...); ok {
		if x, err := strconv.ParseFloat(value, 64); err == nil {
			f.engine.Set(key, x, Source)
		}
	}
}

// flag reads an option that stands alone; the ones that begin with no- turn it off.
func (f *facts) flag(key string, on bool, names ...string) {
	value, ok := f.v.option(names...)
	if !ok {
		return
	}
	switch strings.ToLower(value) {
	case "false", "0", "off":
		on = !on
	}
	f.engine.Set(key, on, Source)
}

// switched reads an option and its opposite.
func (f *facts) switched(key, name string) {
	f.flag(key, true, "--"+name)
	f.flag(key, false, "--no-"+name)
}

// modelName is a repository's name, or the last part of a path.
func (f *facts) modelName(loaded string) {
	if loaded == "" {
		return
	}
	if strings.HasPrefix(loaded, "/") || strings.HasPrefix(loaded, ".") || strings.HasPrefix(loaded, "~") || strings.Contains(loaded, `\`) || strings.Count(loaded, "/") > 1 {
		loaded = path.Base(strings.ReplaceAll(loaded, `\`, "/"))
	}
	f.model.Set(speedmatrix.ModelName, loaded, Source)
}

// humanInt reads 4096, 32k (thousands) and 32K (of 1,024), as vLLM does.
func humanInt(text string) (int, bool) {
	units := map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	scale := 1.0
	if text != "" && units[text[len(text)-1]] != 0 {
		scale, text = units[text[len(text)-1]], text[:len(text)-1]
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x < 0 || x*scale > 1<<53 {
		return 0, false
	}
	return int(x * scale), true
}

// speculation reads vLLM's configuration of it, JSON.
func (f *facts) speculation(names ...string) {
	text, ok := f.v.option(names...)
	if !ok {
		return
	}
	var config struct {
		Method string `json:"method"`
		Tokens int    `json:"num_speculative_tokens"`
	}
	if json.Unmarshal([]byte(text), &config) != nil {
		f.engine.Set(speedmatrix.EngineSpeculative, "on", Source)
		return
	}
	f.engine.Set(speedmatrix.EngineSpeculative, drafted(config.Method, config.Tokens), Source)
}

// drafted words speculative decoding as the probe does.
func drafted(method string, tokens int) string {
	method = strings.ToLower(or(method, "on"))
	if tokens <= 0 {
		return method
	}
	return fmt.Sprintf("%s, %d tokens", method, tokens)
}

func readVLLM(v *view, f *facts) {
	loaded, ok := v.option("--model")
	if !ok && len(v.words) > 0 {
		loaded = v.words[0]
	}
	f.modelName(loaded)
	f.text(f.model, speedmatrix.ModelQuantization, "--quantization", "-q")
	f.whole(f.model, speedmatrix.ModelMaxLength, "--max-model-len")
	f.text(f.model, speedmatrix.ModelRevision, "--revision")
	parallel := 1
	if text, ok := v.option("--data-parallel-size", "-dp"); ok {
		parallel = parsed(text, 1)
	}
	if text, ok := v.option("--max-num-seqs"); ok {
		if n, ok := humanInt(text); ok {
			f.engine.Set(speedmatrix.EngineRunningLimit, n*parallel, Source)
		}
	}
	f.whole(f.engine, speedmatrix.EngineStepTokens, "--max-num-batched-tokens")
	f.whole(f.engine, speedmatrix.EngineKVBlockTokens, "--block-size")
	f.text(f.engine, speedmatrix.EngineKVType, "--kv-cache-dtype")
	f.switched(speedmatrix.EnginePrefixCaching, "enable-prefix-caching")
	f.switched(speedmatrix.EngineChunkedPrefill, "enable-chunked-prefill")
	f.switched(speedmatrix.EngineAsyncScheduling, "async-scheduling")
	f.flag(speedmatrix.EngineEager, true, "--enforce-eager")
	f.number(speedmatrix.EngineMemoryShare, "--gpu-memory-utilization")
	f.whole(f.engine, speedmatrix.EngineTensorParallel, "--tensor-parallel-size", "-tp")
	f.whole(f.engine, speedmatrix.EnginePipelineParallel, "--pipeline-parallel-size", "-pp")
	f.whole(f.engine, speedmatrix.EngineDataParallel, "--data-parallel-size", "-dp")
	f.flag(speedmatrix.EngineExpertParallel, true, "--enable-expert-parallel")
	f.speculation("--speculative-config", "-sc")
	f.text(f.engine, speedmatrix.EngineCompilation, "--compilation-config", "-O")
	f.text(f.engine, speedmatrix.EngineAttention, "--attention-backend")
	if backend := v.env["VLLM_ATTENTION_BACKEND"]; backend != "" {
		f.engine.Set(speedmatrix.EngineAttention, backend, Source)
	}
	f.text(f.model, speedmatrix.ModelDType, "--dtype")
	f.number(speedmatrix.EngineOffload, "--cpu-offload-gb")
	f.text(f.engine, speedmatrix.EngineSchedulingPolicy, "--scheduling-policy")
}

func readSGLang(v *view, f *facts) {
	loaded, _ := v.option("--model-path", "--model")
	f.modelName(loaded)
	f.text(f.model, speedmatrix.ModelQuantization, "--quantization")
	f.whole(f.model, speedmatrix.ModelMaxLength, "--context-length")
	f.text(f.model, speedmatrix.ModelRevision, "--revision")
	f.whole(f.engine, speedmatrix.EngineRunningLimit, "--max-running-requests")
	f.whole(f.engine, speedmatrix.EngineStepTokens, "--chunked-prefill-size")
	f.whole(f.engine, speedmatrix.EngineKVBlockTokens, "--page-size")
	f.text(f.engine, speedmatrix.EngineKVType, "--kv-cache-dtype")
	f.flag(speedmatrix.EnginePrefixCaching, false, "--disable-radix-cache")
	f.flag(speedmatrix.EngineEager, true, "--disable-cuda-graph")
	f.number(speedmatrix.EngineMemoryShare, "--mem-fraction-static")
	f.whole(f.engine, speedmatrix.EngineTensorParallel, "--tensor-parallel-size", "--tp-size", "--tp")
	f.whole(f.engine, speedmatrix.EngineDataParallel, "--data-parallel-size", "--dp-size", "--dp")
	f.whole(f.engine, speedmatrix.EnginePipelineParallel, "--pipeline-parallel-size", "--pp-size", "--pp")
	f.text(f.engine, speedmatrix.EngineAttention, "--attention-backend")
	f.text(f.model, speedmatrix.ModelDType, "--dtype")
	f.text(f.engine, speedmatrix.EngineSchedulingPolicy, "--schedule-policy")
	f.flag(speedmatrix.EngineTorchCompile, true, "--enable-torch-compile")
	if method, ok := v.option("--speculative-algorithm", "--speculative-algo"); ok {
		tokens, _ := v.option("--speculative-num-draft-tokens")
		f.engine.Set(speedmatrix.EngineSpeculative, drafted(method, parsed(tokens, 0)), Source)
	}
}

func readLlamaCpp(v *view, f *facts) {
	loaded, _ := v.option("-m", "--model", "-hf", "-hfr", "--hf-repo")
	f.modelName(loaded)
	f.whole(f.engine, speedmatrix.EngineContext, "-c", "--ctx-size")
	f.whole(f.engine, speedmatrix.EngineRunningLimit, "-np", "--parallel")
	f.whole(f.engine, speedmatrix.EngineStepTokens, "-b", "--batch-size")
	f.whole(f.engine, speedmatrix.EnginePhysicalTokens, "-ub", "--ubatch-size")
	keys, _ := v.option("-ctk", "--cache-type-k")
	values, _ := v.option("-ctv", "--cache-type-v")
	if keys != "" || values != "" {
		if keys == "" {
			keys = "f16"
		}
		if values == "" {
			values = "f16"
		}
		kind := keys
		if keys != values {
			kind = keys + " keys, " + values + " values"
		}
		f.engine.Set(speedmatrix.EngineKVType, kind, Source)
	}
	f.text(f.engine, speedmatrix.EngineGPULayers, "-ngl", "--n-gpu-layers", "--gpu-layers")
	f.whole(f.engine, speedmatrix.EngineCPUMoELayers, "--n-cpu-moe", "-ncmoe")
	if value, ok := v.option("-fa", "--flash-attn"); ok && value != "auto" {
		f.engine.Set(speedmatrix.EngineFlashAttention, !slices.Contains([]string{"off", "0", "false"}, value), Source)
	}
	f.whole(f.engine, speedmatrix.EngineThreads, "-t", "--threads")
	if _, ok := v.option("-md", "--model-draft"); ok {
		f.engine.Set(speedmatrix.EngineSpeculative, "on", Source)
	}
	f.text(f.engine, speedmatrix.EngineTensorSplit, "-ts", "--tensor-split")
	f.text(f.engine, speedmatrix.EngineSplitMode, "-sm", "--split-mode")
	f.flag(speedmatrix.EngineKVUnified, true, "-kvu", "--kv-unified")
}

func readOllama(v *view, f *facts) {
	set := func(key, name string, read func(string) (any, bool)) {
		if text := v.env[name]; text != "" {
			if value, ok := read(text); ok {
				f.engine.Set(key, value, Source)
			}
		}
	}
	whole := func(text string) (any, bool) { n, err := strconv.Atoi(text); return n, err == nil && n > 0 }
	truth := func(text string) (any, bool) { b, err := strconv.ParseBool(text); return b, err == nil }
	set(speedmatrix.EngineRunningLimit, "OLLAMA_NUM_PARALLEL", whole)
	set(speedmatrix.EngineContext, "OLLAMA_CONTEXT_LENGTH", whole)
	set(speedmatrix.EngineFlashAttention, "OLLAMA_FLASH_ATTENTION", truth)
	set(speedmatrix.EngineKVType, "OLLAMA_KV_CACHE_TYPE", func(text string) (any, bool) { return text, true })
}
