package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Section is a titled list of facts.
type Section struct {
	Title string
	Facts []Fact
}

// Fact is one thing known about the set-up.
type Fact struct {
	Label, Value string
	// Source says where it was learned; Stated marks what the user said and nobody measured.
	Source string
	Stated bool
	// Detail marks facts beyond the few that every document of this kind begins with.
	Detail bool
	// Others is what less trusted sources said instead: "process: 0.31.0".
	Others []string
}

// label names a fact's key; detail as in Fact.
type label struct {
	key, name string
	detail    bool
}

var hardwareLabels = []label{
	{speedmatrix.HardwareType, "Type", false},
	{speedmatrix.HardwareGPU, "GPU", false},
	{speedmatrix.HardwareGPUCount, "GPUs", true},
	{speedmatrix.HardwareVRAM, "VRAM", false},
	{speedmatrix.HardwareCPU, "CPU", false},
	{speedmatrix.HardwareCPUCores, "CPU cores", true},
	{speedmatrix.HardwareRAM, "RAM", false},
	{speedmatrix.HardwareOS, "OS", false},
	{speedmatrix.HardwareKernel, "Kernel", true},
	{speedmatrix.HardwareDriver, "Driver", true},
	{speedmatrix.HardwareBoard, "Board", true},
	{speedmatrix.HardwareGPUPowerLimit, "Power limit, W", true},
	{speedmatrix.HardwareGPUPowerDefault, "Default limit, W", true},
	{speedmatrix.HardwareGPUPowerMax, "Highest limit, W", true},
	{speedmatrix.HardwareGPUClockMax, "Highest clock, MHz", true},
	{speedmatrix.HardwareGPUMemoryClockMax, "Memory clock, MHz", true},
	{speedmatrix.HardwareGPUCores, "GPU cores", true},
	{speedmatrix.HardwareGPUPCIeMax, "PCIe, highest", true},
	{speedmatrix.HardwareGPUPCIe, "PCIe at the start", true},
	{speedmatrix.HardwareGPUVBIOS, "VBIOS", true},
	{speedmatrix.HardwareGPUECC, "ECC", true},
	{speedmatrix.HardwareGPUPersistence, "Persistence", true},
	{speedmatrix.HardwareGPUMIG, "MIG", true},
	{speedmatrix.HardwareBandwidth, "Memory bandwidth, B/s", true},
	{speedmatrix.HardwareCompute, "Compute, FLOP/s", true},
}

var engineLabels = []label{
	{speedmatrix.EngineName, "Engine", false},
	{speedmatrix.EngineVersion, "Version", false},
	{speedmatrix.EngineBackend, "Backend", false},
	{speedmatrix.EngineRepository, "Repository", false},
	{speedmatrix.EngineBuild, "Build", false},
	{speedmatrix.EngineProxy, "Proxy", false},
	{speedmatrix.EngineProxyVersion, "Proxy version", true},
	{speedmatrix.EngineProxyUpstream, "Behind the proxy", true},
	{speedmatrix.EngineService, "Service", false},
	{speedmatrix.EngineRunningLimit, "Requests at once", true},
	{speedmatrix.EngineKVTokens, "KV cache tokens", true},
	{speedmatrix.EngineKVBlocks, "KV cache blocks", true},
	{speedmatrix.EngineKVBlockTokens, "KV block tokens", true},
	{speedmatrix.EngineKVType, "KV cache type", true},
	{speedmatrix.EnginePrefixCaching, "Prefix caching", true},
	{speedmatrix.EngineStepTokens, "Tokens per step", true},
	{speedmatrix.EngineContextPerSeq, "Context per request", true},
	{speedmatrix.EngineMetrics, "Metrics", true},
	{speedmatrix.EngineTokenizer, "Tokenizer", true},
	{speedmatrix.EngineAbort, "Abort", true},
	{speedmatrix.EngineAbortRoute, "Abort by id", true},
	{speedmatrix.EngineDrain, "Drained when", true},
	{speedmatrix.EngineCacheReset, "Cache reset", true},
	{speedmatrix.EngineAPIs, "APIs", true},
	{speedmatrix.EngineSpeculative, "Speculative decoding", true},
	{speedmatrix.EngineTensorParallel, "Tensor parallel", true},
	{speedmatrix.EnginePipelineParallel, "Pipeline parallel", true},
	{speedmatrix.EngineDataParallel, "Data parallel", true},
	{speedmatrix.EngineExpertParallel, "Expert parallel", true},
	{speedmatrix.EngineQueueLimit, "Queue limit", true},
	{speedmatrix.EngineRateLimit, "Rate limit", true},
	{speedmatrix.EngineChunkedPrefill, "Chunked prefill", true},
	{speedmatrix.EngineSchedulingPolicy, "Scheduling policy", true},
	{speedmatrix.EngineAsyncScheduling, "Async scheduling", true},
	{speedmatrix.EngineStreamInterval, "Stream interval", true},
	{speedmatrix.EngineAttention, "Attention backend", true},
	{speedmatrix.EngineContext, "Context in all", true},
	{speedmatrix.EnginePhysicalTokens, "Tokens per physical batch", true},
	{speedmatrix.EngineThreads, "Threads", true},
	{speedmatrix.EngineGPULayers, "Layers on the GPU", true},
	{speedmatrix.EngineCPUMoELayers, "Expert layers on the CPU", true},
	{speedmatrix.EngineFlashAttention, "Flash attention", true},
	{speedmatrix.EngineTensorSplit, "Split over the GPUs", true},
	{speedmatrix.EngineSplitMode, "Split by", true},
	{speedmatrix.EngineKVUnified, "One KV cache for all slots", true},
	{speedmatrix.EngineEager, "Eager mode", true},
	{speedmatrix.EngineCompilation, "Compilation", true},
	{speedmatrix.EngineTorchCompile, "torch.compile", true},
	{speedmatrix.EngineMemoryShare, "Share of GPU memory", true},
	{speedmatrix.EngineOffload, "Offloaded to the CPU, GB", true},
	{speedmatrix.EngineLaunched, "Started by this run", true},
	{speedmatrix.EngineReadySeconds, "Ready after, s", true},
	{speedmatrix.EngineEnvironment, "Environment", true},
	{speedmatrix.EngineSimulated, "Simulation of", true},
	{speedmatrix.EngineClockSpeed, "Clock speed", true},
}

var modelLabels = []label{
	{speedmatrix.ModelServedName, "Served model", false},
	{speedmatrix.ModelRevision, "Revision", false},
	{speedmatrix.ModelMaxLength, "Model length", true},
	{speedmatrix.ModelMaxPrompt, "Longest prompt", true},
	{speedmatrix.ModelTrainedLength, "Trained length", true},
	{speedmatrix.ModelParameters, "Parameters", true},
	{speedmatrix.ModelArchitecture, "Architecture", true},
	{speedmatrix.ModelFormat, "Format", true},
	{speedmatrix.ModelDType, "Type of weights", true},
	{speedmatrix.ModelBase, "Base model", true},
	{speedmatrix.ModelReadBytes, "Bytes read per token", true},
	{speedmatrix.ModelKVBytes, "KV bytes per token", true},
	{speedmatrix.ModelFLOP, "FLOP per token", true},
	{speedmatrix.ModelPairFLOP, "FLOP per attention pair", true},
}

// sections gives Hardware, Engine and Run; a section without a fact is left out.
func sections(run *speedmatrix.Run) []Section {
	engine := factList(run.Engine, engineLabels)
	if fact, ok := run.Model[speedmatrix.ModelQuantization]; ok {
		at := slices.IndexFunc(engine, func(f Fact) bool { return f.Label != "Engine" && f.Label != "Version" })
		if at < 0 {
			at = len(engine)
		}
		engine = slices.Insert(engine, at, newFact(label{name: "Quantization"}, fact))
	}
	model := factList(run.Model, modelLabels, speedmatrix.ModelName, speedmatrix.ModelQuantization)
	at := slices.IndexFunc(model, func(f Fact) bool { return f.Detail })
	if at < 0 {
		at = len(model)
	}
	list := []Section{
		{"Hardware", factList(run.Hardware, hardwareLabels)},
		{"Engine", engine},
		{"Run", slices.Concat(model[:at], methodFacts(run), model[at:], methodDetails(run))},
	}
	return slices.DeleteFunc(list, func(s Section) bool { return len(s.Facts) == 0 })
}

// factList gives the facts of the labels in their order, then the rest by key, except skip.
func factList(facts speedmatrix.Facts, labels []label, skip ...string) []Fact {
	var list []Fact
	known := map[string]bool{}
	for _, key := range skip {
		known[key] = true
	}
	for _, l := range labels {
		known[l.key] = true
		if fact, ok := facts[l.key]; ok {
			list = append(list, newFact(l, fact))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		if !known[key] {
			list = append(list, newFact(label{name: clip(Clean(key), 40), detail: true}, facts[key]))
		}
	}
	return slices.DeleteFunc(list, func(f Fact) bool { return f.Value == "" })
}

func newFact(l label, f speedmatrix.Fact) Fact {
	fact := Fact{Label: l.name, Value: factValue(f.Value), Source: Clean(f.Source), Detail: l.detail}
	fact.Stated = f.Source == speedmatrix.SourceUser
	for _, other := range f.Others {
		fact.Others = append(fact.Others, Clean(other.Source)+": "+factValue(other.Value))
	}
	return fact
}

// factValue writes a fact for people: whole numbers with thousands, truth as yes or no.
func factValue(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return Clean(v)
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case int:
		return unit.Count(v)
	case float64:
		if v == float64(int64(v)) && v < 1e12 && v > -1e12 {
			return unit.Count(int64(v))
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return Clean(fmt.Sprint(value))
	}
	return Clean(string(data))
}

func text(facts speedmatrix.Facts, key string) string { return Clean(facts.Text(key)) }

func launchCommand(f *speedmatrix.Fact) Fact {
	if f == nil || f.Value == nil {
		return Fact{Label: "Launch command"}
	}
	fact := newFact(label{name: "Launch command"}, *f)
	if command, ok := f.Value.(string); ok {
		fact.Value = CleanLines(command)
	}
	return fact
}

// Labels of facts that a document says in its provenance line too.
const (
	toolLabel   = "Benchmark tool"
	methodLabel = "Method"
)

// methodFacts is how the run was measured, in the words of every such document.
func methodFacts(run *speedmatrix.Run) []Fact {
	m := run.Method
	compat := m.Name == speedmatrix.MethodCompat
	list := []Fact{{Label: toolLabel, Value: tool(run.Tool)}}
	if m.DurationSeconds > 0 {
		duration := plainNumber(m.DurationSeconds) + " s"
		test, time := "Fixed duration", duration
		if !compat && m.WindowTokens > 0 {
			test = fmt.Sprintf("Ends at %s or %s tokens of the slowest stream", duration, unit.Count(m.WindowTokens))
			time = "At most " + duration
		}
		list = append(list, Fact{Label: "Decode test", Value: test})
		list = append(list, Fact{Label: "Prefill mode", Value: prefillMode(run, compat)})
		list = append(list, Fact{Label: "Time per measurement", Value: time})
	}
	if m.MaxOutput > 0 {
		list = append(list, Fact{Label: "Max output", Value: plural(m.MaxOutput, "token")})
	}
	return list
}

func prefillMode(run *speedmatrix.Run, compat bool) string {
	prefills := slices.ContainsFunc(run.Cells, func(c speedmatrix.Cell) bool { return c.Phase == speedmatrix.PhasePrefill })
	switch {
	case len(run.Plan.Prefill) == 0 && !prefills:
		return "Not measured"
	case compat:
		return "Measured during decode warm-up"
	}
	return "Cold, one request at a time"
}

// methodDetails is every other setting that can change a number.
func methodDetails(run *speedmatrix.Run) []Fact {
	m := run.Method
	var list []Fact
	add := func(name, value string) {
		if value != "" {
			list = append(list, Fact{Label: name, Value: value, Detail: true})
		}
	}
	add(methodLabel, Clean(m.Name))
	add("Prompts", Clean(m.Prompts))
	add("Text", Clean(m.Text))
	add("Temperature", Clean(m.Temperature))
	add("API", Clean(m.API))
	add("KV plan", Clean(m.KVPlan))
	if m.Precision > 0 {
		add("Ends early at", unit.PlusMinus(m.Precision))
	}
	if m.Repeat > 1 {
		add("Repeats", unit.Count(m.Repeat))
	}
	if m.SharedServer {
		add("Shared server", "yes: others' requests may have run beside ours")
	}
	if len(m.Body) > 0 {
		add("Request fields", factValue(m.Body))
	}
	add("Server", joinFacts(", ", strings.TrimSpace(Clean(run.Server.URL)), roundTrip(run)))
	return list
}

// roundTrip is how far away the server is: a part of every time to first token.
func roundTrip(run *speedmatrix.Run) string {
	if run.Server.RoundTripMillis == nil {
		return ""
	}
	return unit.Latency(*run.Server.RoundTripMillis) + " there and back"
}

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
