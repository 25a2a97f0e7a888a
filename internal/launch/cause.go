package launch

import (
	"fmt"
	"regexp"
	"slices"
)

// Cause is why a server probably failed, and what helps.
type Cause struct {
	// What completes "the server ended: …", Next is a whole sentence.
	What, Next string
	// Line is the line of the log that says so; "" where the exit code does.
	Line string
}

// causes are looked for in this order in the whole log; the first that any line shows counts.
var causes = []struct {
	line       *regexp.Regexp
	what, next string
}{
	{regexp.MustCompile(`(?i)address already in use|errno 98\b|couldn't bind (?:HTTP|to) |port \d+ is (?:already )?in use|port is already allocated|bind: .*in use`),
		"its port is in use", "Stop what listens there, or give the command another --port."},
	{regexp.MustCompile(`(?i)unrecognized arguments?|unknown (?:option|argument|flag)|invalid argument: -|no such option|there is no flag|unknown command|error: argument -|unknown shorthand flag|unexpected argument`),
		"it does not know an option, or not its value", "Correct the command: its words below name the option."},
	{regexp.MustCompile(`(?i)greater than the derived max_model_len|context_length .* is greater than`),
		"the maximum length asked for is more than the model's", "Lower --max-model-len (SGLang: --context-length)."},
	{regexp.MustCompile(`(?i)no available memory for the cache blocks|larger than the (?:maximum|available) (?:number of tokens|KV cache memory)|to serve at least one request with .*max seq|KV cache is needed, which is larger`),
		"the KV cache does not fit into the memory that is left", "Lower --max-model-len, or raise --gpu-memory-utilization."},
	{regexp.MustCompile(`(?i)free memory on device .* is less than desired`),
		"another program holds a part of the GPU's memory", "Stop it (nvidia-smi lists it), or lower --gpu-memory-utilization."},
	{regexp.MustCompile(`(?i)CUDA out of memory|OutOfMemoryError|cudaMalloc failed|CUDA error: out of memory|HIP out of memory|ErrorOutOfDeviceMemory|failed to allocate (?:CUDA|buffer)|unable to allocate .* buffer`),
		"the GPU's memory is too small for it", "Take a smaller model or a shorter --max-model-len, or stop what else uses the GPU."},
	{regexp.MustCompile(`(?i)gated repo|access to model .* is restricted|401 client error|cannot access gated`),
		"the model wants a permission that this machine does not have", "Accept the model's terms and give the server a token (HF_TOKEN)."},
	{regexp.MustCompile(`(?i)repository not found|is not a valid model identifier|invalid repository id|does not appear to have a file named|can't load the (?:configuration|model)|is not a local folder|no such model|failed to open GGUF|failed to load model|error loading model|model path does not exist|repo id must|is not a valid JSON file|cannot find any model weights`),
		"it cannot load the model", "Check the model's name or path: it must be a folder or file that exists, or a model's public name."},
	{regexp.MustCompile(`(?i)does not recognize this architecture|model architectures? .* (?:not|are not) supported|unknown model architecture|unsupported model`),
		"this version of the engine does not know the model's architecture", "Update the engine, or take another model."},
	{regexp.MustCompile(`(?i)no CUDA GPUs are available|found no NVIDIA driver|failed to infer device type|no CUDA-capable device|CUDA driver version is insufficient|could not select device driver|nvidia-container-cli: initialization error`),
		"it finds no GPU that it can use", "Check with nvidia-smi, and CUDA_VISIBLE_DEVICES; a container needs --gpus all."},
	{regexp.MustCompile(`(?i)cannot connect to the docker daemon|permission denied while trying to connect to the docker`),
		"the container runtime does not answer", "Start it, or ask for the right to use it."},
	{regexp.MustCompile(`(?i)unable to find image .* locally[\s\S]*(?:denied|not found)|pull access denied|manifest unknown|manifest for .* not found`),
		"there is no such image", "Check the image's name and tag."},
	{regexp.MustCompile(`(?i)container name .* is already in use`), "a container of that name exists already", "Remove it (docker rm NAME), or give another --name."},
	{regexp.MustCompile(`(?i)no space left on device`), "the disk is full", "Free some space."},
	{regexp.MustCompile(`(?i)error while loading shared libraries|cannot open shared object file|ModuleNotFoundError|ImportError|symbol lookup error|undefined symbol|PackageNotFoundError`),
		"a library that it needs is missing", "Repair its installation, or start it in the environment that has the library."},
	{regexp.MustCompile(`ValidationError: \d+ validation error`), "it does not take a value of one of its options", "Correct the command: its words below say which."},
	{regexp.MustCompile(`(?i)permission denied|PermissionError|operation not permitted`), "it may not read or use something", "Check the permissions of the file or port that its words name."},
	{regexp.MustCompile(`(?i)no such file or directory|FileNotFoundError|HFValidationError`), "a file that it needs is not there", "Check the paths in the command."},
}

// CauseOf gives the likely cause of a server's end, from its last lines and how it exited; the zero Cause where nothing
// is known.
func CauseOf(lines []string, exit Exit) Cause {
	for _, c := range causes {
		// The last line that shows it: what came before may have been a first try.
		for _, line := range slices.Backward(lines) {
			if c.line.MatchString(line) {
				return Cause{What: c.what, Next: c.next, Line: line}
			}
		}
	}
	switch {
	case exit.Signal == "killed" || exit.Code == 137:
		return Cause{What: "it was killed, as a system does when its memory runs out", Next: "Look at the system's log (dmesg), and at how much memory is free."}
	case exit.Signal == "illegal instruction" || exit.Code == 132:
		return Cause{What: "it was built for another processor", Next: "Install a build for this machine's processor."}
	case exit.Signal == "segmentation fault" || exit.Code == 139:
		return Cause{What: "it crashed", Next: "Update the engine or its driver, or report the crash to its makers."}
	case exit.Code == 127:
		return Cause{What: "the shell found no such program", Next: "Check the program's name, and whether its environment is active."}
	}
	return Cause{}
}

// Exit is how a process ended.
type Exit struct {
	Code int
	// Signal is the name of the signal that ended it: "killed"; "" without one.
	Signal string
}

// String completes "the server …".
func (e Exit) String() string {
	if e.Signal != "" {
		return fmt.Sprintf("was ended by a signal (%s)", e.Signal)
	}
	return fmt.Sprintf("ended with exit code %d", e.Code)
}

// phases are what a server does while it starts, as its log shows.
var phases = []struct {
	line *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`(?i)\bpulling (?:from|fs layer)|: Downloading|Downloading |Fetching \d+ files`), "downloading"},
	{regexp.MustCompile(`(?i)Starting to load model|Loading (?:safetensors|pt) checkpoint|Load weight begin|llama_model_load|load_model: loading model|Loading weights|load_tensors|Loading model`), "loading weights"},
	{regexp.MustCompile(`(?i)Dynamo bytecode|Compiling a graph|torch\.compile takes|compile cache`), "compiling"},
	{regexp.MustCompile(`(?i)Capturing CUDA graph|Capture cuda graph begin`), "capturing CUDA graphs"},
	{regexp.MustCompile(`(?i)KV cache (?:size|memory)|Memory profiling|llama_kv_cache`), "making the KV cache"},
	{regexp.MustCompile(`(?i)warming up|empty run`), "warming up"},
	{regexp.MustCompile(`(?i)Application startup complete|Starting vLLM (?:API )?server|server is listening|fired up and ready|Uvicorn running`), "opening its port"},
}

// percent is how far a progress bar says that it is.
var percent = regexp.MustCompile(`\b(\d{1,3})%`)

// PhaseOf names what a starting server does when it writes a line; "" where the line does not say.
func PhaseOf(line string) string {
	for _, p := range phases {
		if p.line.MatchString(line) {
			if m := percent.FindStringSubmatch(line); m != nil {
				return p.name + " " + m[1] + " %"
			}
			return p.name
		}
	}
	return ""
}
