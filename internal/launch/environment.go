package launch

import (
	"slices"
	"strings"
)

// The variables that can change what a server does or how fast: by name and by beginning. No other leaves the machine.
var (
	telling = strings.Fields("CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_DEVICE_MAX_CONNECTIONS " +
		"NVIDIA_VISIBLE_DEVICES NVIDIA_TF32_OVERRIDE HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HSA_OVERRIDE_GFX_VERSION " +
		"PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF TORCH_CUDA_ARCH_LIST TORCHDYNAMO_DISABLE " +
		"MKL_NUM_THREADS OPENBLAS_NUM_THREADS TOKENIZERS_PARALLELISM HF_HUB_OFFLINE LD_PRELOAD GOMAXPROCS")
	tellingBeginnings = strings.Fields("VLLM_ SGLANG_ SGL_ OLLAMA_ LLAMA_ARG_ GGML_ OMP_ KMP_ GOMP_ NCCL_ TORCHINDUCTOR_ TRITON_ FLASHINFER_ TRTLLM_")
)

// Allowed picks from an environment the variables that tell how a server runs, sorted.
func Allowed(env []string) []string {
	var list []string
	for _, line := range env {
		name, _, _ := strings.Cut(line, "=")
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.Contains(telling, name) || slices.ContainsFunc(tellingBeginnings, begins) {
			list = append(list, line)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
