package launch

import (
	"slices"
	"strings"
)

// engine is what is known of how one kind of server is started.
type engine struct {
	name string
	// port is where it listens unless told otherwise; of an image, inside its container.
	port, imagePort int
	// programs start it by themselves; verbs, if any, must come next. modules start it after python -m.
	programs, verbs, modules []string
	// images are parts of names of container images.
	images []string
	// portEnv and hostEnv are the variables that say where it listens; of Ollama's one says both.
	portEnv, hostEnv string
	read             func(v *view, f *facts)
}

// The names of engines, as the probe gives them.
const (
	nameVLLM     = "vLLM"
	nameSGLang   = "SGLang"
	nameLlamaCpp = "llama.cpp"
	nameOllama   = "Ollama"
)

// engines are looked for in this order.
var engines = []engine{
	{name: nameVLLM, port: 8000, programs: []string{"vllm"}, verbs: []string{"serve"}, images: []string{"vllm"},
		modules: []string{"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main"}, read: readVLLM},
	{name: nameSGLang, port: 30000, programs: []string{"sglang"}, verbs: []string{"serve"}, modules: []string{"sglang.launch_server"},
		images: []string{"sglang"}, read: readSGLang},
	{name: nameLlamaCpp, port: 8080, programs: []string{"llama-server", "llamafile"}, images: []string{"llama.cpp", "llama-server", "llamacpp"},
		portEnv: "LLAMA_ARG_PORT", hostEnv: "LLAMA_ARG_HOST", read: readLlamaCpp},
	{name: nameOllama, port: 11434, programs: []string{"ollama"}, verbs: []string{"serve", "start"}, images: []string{"ollama"}, hostEnv: "OLLAMA_HOST",
		read: readOllama},
	{name: "TGI", port: 3000, imagePort: 80, programs: []string{"text-generation-launcher", "text-generation-router"}, images: []string{"text-generation-inference"}, portEnv: "PORT"},
	{name: "TensorRT-LLM", port: 8000, programs: []string{"trtllm-serve"}, images: []string{"tensorrt-llm", "tensorrt_llm"}},
	{name: "llama-cpp-python", port: 8000, modules: []string{"llama_cpp.server"}, portEnv: "PORT", hostEnv: "HOST"},
	{name: "MLX", port: 8080, programs: []string{"mlx_lm.server"}, modules: []string{"mlx_lm.server", "mlx_lm"}},
	{name: "speedmatrix", port: 8000, programs: []string{"speedmatrix"}, verbs: []string{"sim"}},
}

// engineOf finds the engine that a command starts, and the words behind its program and verb.
func engineOf(args []string) (*engine, []string) {
	for at, word := range args {
		base := baseName(word)
		for i := range engines {
			e := &engines[i]
			if at > 0 && args[at-1] == "-m" && slices.Contains(e.modules, word) {
				return e, args[at+1:]
			}
			if !slices.Contains(e.programs, base) {
				continue
			}
			if len(e.verbs) == 0 {
				return e, args[at+1:]
			}
			if at+1 < len(args) && slices.Contains(e.verbs, args[at+1]) {
				return e, args[at+2:]
			}
		}
	}
	return nil, args
}

func engineOfImage(image string) *engine {
	for i := range engines {
		if slices.ContainsFunc(engines[i].images, func(part string) bool { return strings.Contains(strings.ToLower(image), part) }) {
			return &engines[i]
		}
	}
	return nil
}

// EngineName is the engine that the command starts, as the probe names it; "" for one that is not known.
func (c *Command) EngineName() string {
	if e := c.see().engine; e != nil {
		return e.name
	}
	return ""
}

// APIKey is the key that the server is told to ask for; "" without one.
func (c *Command) APIKey() string {
	v := c.see()
	if key, ok := v.option("--api-key"); ok {
		return key
	}
	for _, name := range []string{"VLLM_API_KEY", "LLAMA_API_KEY"} {
		if key := v.env[name]; key != "" {
			return key
		}
	}
	return ""
}
