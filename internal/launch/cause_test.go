package launch_test

import (
	"strings"
	"testing"

	"speedmatrix/internal/launch"
)

// What engines and runtimes say when they do not start, and what a reader should learn from it.
func TestCausesOfFailedStarts(t *testing.T) {
	tests := []struct {
		said string
		exit launch.Exit
		want string
	}{
		{"OSError: [Errno 98] Address already in use", launch.Exit{Code: 1}, "its port is in use"},
		{"[Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use", launch.Exit{Code: 1}, "its port is in use"},
		{"0.00 E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080", launch.Exit{Code: 1}, "its port is in use"},
		{"docker: Error response from daemon: driver failed: Bind for 0.0.0.0:8000 failed: port is already allocated.", launch.Exit{Code: 125}, "its port is in use"},
		{"Error: listen tcp 127.0.0.1:11434: bind: address already in use", launch.Exit{Code: 1}, "its port is in use"},
		{"vllm: error: unrecognized arguments: --fast", launch.Exit{Code: 2}, "does not know an option"},
		{"error: invalid argument: --fast", launch.Exit{Code: 1}, "does not know an option"},
		{"Error: unknown flag: --fast", launch.Exit{Code: 1}, "does not know an option"},
		{"api_server.py: error: argument --max-num-seqs: invalid int value: 'x'", launch.Exit{Code: 2}, "does not know an option"},
		{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 0 has", launch.Exit{Code: 1}, "the GPU's memory is too small"},
		{"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9.1 MiB on device 0: cudaMalloc failed: out of memory", launch.Exit{Code: 1}, "the GPU's memory is too small"},
		{"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", launch.Exit{Code: 1}, "the KV cache does not fit"},
		{"ValueError: To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory", launch.Exit{Code: 1}, "the KV cache does not fit"},
		{"ValueError: Free memory on device (3.1/23.6 GiB) on startup is less than desired GPU memory utilization (0.9, 21.2 GiB).", launch.Exit{Code: 1}, "another program holds"},
		{"huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name'", launch.Exit{Code: 1}, "cannot load the model"},
		{"OSError: nobody/nothing is not a local folder and is not a valid model identifier listed on the hub", launch.Exit{Code: 1}, "cannot load the model"},
		{"E srv load_model: failed to load model, 'x.gguf'", launch.Exit{Code: 1}, "cannot load the model"},
		{"OSError: You are trying to access a gated repo.\n401 Client Error.", launch.Exit{Code: 1}, "wants a permission"},
		{"RuntimeError: No CUDA GPUs are available", launch.Exit{Code: 1}, "finds no GPU"},
		{"RuntimeError: Failed to infer device type, please set the environment variable", launch.Exit{Code: 1}, "finds no GPU"},
		{`docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].`, launch.Exit{Code: 125}, "finds no GPU"},
		{"llama-server: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory", launch.Exit{Code: 127}, "a library that it needs is missing"},
		{"ModuleNotFoundError: No module named 'vllm'", launch.Exit{Code: 1}, "a library that it needs is missing"},
		{"PermissionError: [Errno 13] Permission denied: '/models'", launch.Exit{Code: 1}, "may not read or use something"},
		{"docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", launch.Exit{Code: 125}, "the container runtime does not answer"},
		{"docker: Error response from daemon: pull access denied for nope", launch.Exit{Code: 125}, "no such image"},
		{"KeyError: x\nValueError: The checkpoint has model type `new` but Transformers does not recognize this architecture", launch.Exit{Code: 1}, "does not know the model's architecture"},
		{"ValueError: User-specified max_model_len (20000) is greater than the derived max_model_len", launch.Exit{Code: 1}, "more than the model's"},
		{"OSError: [Errno 28] No space left on device", launch.Exit{Code: 1}, "the disk is full"},
		{"", launch.Exit{Code: -1, Signal: "killed"}, "it was killed"},
		{"", launch.Exit{Code: 137}, "it was killed"},
		{"", launch.Exit{Code: -1, Signal: "illegal instruction"}, "another processor"},
		{"", launch.Exit{Code: -1, Signal: "segmentation fault"}, "it crashed"},
		{"sh: 1: vlm: not found", launch.Exit{Code: 127}, "no such program"},
		{"all is well\nbye", launch.Exit{Code: 3}, ""},
	}
	for _, tt := range tests {
		c := launch.CauseOf(append([]string{"INFO starting"}, strings.Split(tt.said, "\n")...), tt.exit)
		if !strings.Contains(c.What, tt.want) || (tt.want == "") != (c.What == "") || c.What != "" && !strings.HasSuffix(c.Next, ".") {
			t.Errorf("%s (%s)\nis taken for %q, %q; want %q", tt.said, tt.exit, c.What, c.Next, tt.want)
		}
	}
}

func TestPhasesOfAStart(t *testing.T) {
	for line, want := range map[string]string{
		"Loading safetensors checkpoint shards:  50% Completed | 2/4":    "loading weights 50 %",
		"INFO [gpu_model_runner.py] Starting to load model m...":         "loading weights",
		"Capturing CUDA graphs (mixed prefill-decode): 100%|###| 67/67":  "capturing CUDA graphs 100 %",
		"INFO Dynamo bytecode transform time: 4.2 s":                     "compiling",
		"WARNING Enforce eager set, disabling torch.compile, CUDAGraphs": "",
		"main: warming up the model with an empty run - please wait":     "warming up",
		"GPU KV cache size: 459,360 tokens":                              "making the KV cache",
		"INFO:     Application startup complete.":                        "opening its port",
		"hello": "",
	} {
		if got := launch.PhaseOf(line); got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}
