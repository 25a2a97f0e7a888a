package findings

import (
	"fmt"
	"strconv"
	"strings"

	"speedmatrix"
)

// option is a flag or a variable of a launch command that is known to cost speed.
type option struct {
	// names are the ways to write it: "--cpu-offload-gb", "NCCL_P2P_DISABLE=".
	names []string
	// hurts says whether this value of it does; nil is any.
	hurts    func(value string) bool
	why, fix string
}

// eagerNames switch the replay of recorded steps off.
var eagerNames = []string{"--enforce-eager", "--disable-cuda-graph"}

// options are known to cost speed, each with its reason.
var options = []option{
	{[]string{"--cpu-offload-gb"}, above(0), "part of the weights crosses the PCIe link in every step", "Leave it out if the model fits without, or take a smaller quantization."},
	{[]string{"--device"}, is("cpu"), "the model runs on the CPU", "Leave it out where there is a GPU."},
	{[]string{"-ngl", "--gpu-layers", "--n-gpu-layers"}, is("0"), "no layer of the model runs on the GPU", "Give -ngl 99 where there is a GPU."},
	{[]string{"-nkvo", "--no-kv-offload"}, nil, "the KV cache stays in the machine's memory", "Leave it out if the cache fits beside the model."},
	{[]string{"-fa", "--flash-attn"}, is("off", "0"), "attention runs without its fast kernel", "Leave it out."},
	{[]string{"--disable-overlap-schedule"}, nil, "the CPU plans a step only when the GPU has finished the last one", "Leave it out."},
	{[]string{"--no-async-scheduling"}, nil, "the CPU plans a step only when the GPU has finished the last one", "Leave it out."},
	{[]string{"--no-enable-chunked-prefill"}, nil, "a long prompt stops everybody's generation while it is read", "Leave it out."},
	{[]string{"--disable-custom-all-reduce"}, nil, "GPUs that share the model exchange by a slower way", "Leave it out if the server starts without it."},
	{[]string{"CUDA_LAUNCH_BLOCKING="}, is("1"), "the CPU waits for every single kernel", "It is for debugging: leave it out."},
	{[]string{"NCCL_P2P_DISABLE="}, is("1"), "GPUs exchange through the machine's memory", "Leave it out if the server starts without it."},
	{[]string{"TORCHDYNAMO_DISABLE=", "TORCH_COMPILE_DISABLE="}, is("1"), "the model is not compiled", "It is for debugging: leave it out."},
	{[]string{"VLLM_LOGGING_LEVEL="}, is("DEBUG"), "the server writes a log of every step", "Leave it out."},
}

func is(values ...string) func(string) bool {
	return func(v string) bool {
		for _, value := range values {
			if strings.EqualFold(v, value) {
				return true
			}
		}
		return false
	}
}

func above(limit float64) func(string) bool {
	return func(v string) bool {
		x, err := strconv.ParseFloat(v, 64)
		return err == nil && x > limit
	}
}

// words are the arguments of the launch command, as far as blanks part them.
func (l *look) words() []string {
	if l.run.LaunchCommand == nil {
		return nil
	}
	command, _ := l.run.LaunchCommand.Value.(string)
	var words []string
	for line := range strings.Lines(command) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if word != `\` {
				words = append(words, strings.Trim(word, `"'`))
			}
		}
	}
	return words
}

// uses finds an option among the words, written with its value as people would.
func uses(words []string, o option) (written string, ok bool) {
	for i, word := range words {
		for _, name := range o.names {
			value, follows := "", false
			switch {
			case strings.HasSuffix(name, "=") && strings.HasPrefix(word, name):
				value, written = word[len(name):], word
			case strings.HasPrefix(word, name+"="):
				value, written = word[len(name)+1:], word
			case word == name:
				if follows = i+1 < len(words) && o.hurts != nil; follows {
					value = words[i+1]
				}
				written = strings.TrimSpace(name + " " + value)
			default:
				continue
			}
			if o.hurts == nil && !strings.EqualFold(value, "false") || o.hurts != nil && o.hurts(value) {
				return written, true
			}
		}
	}
	return "", false
}

func slowOptions(l *look) []speedmatrix.Finding {
	var list []speedmatrix.Finding
	words := l.words()
	for _, o := range options {
		if written, ok := uses(words, o); ok {
			list = append(list, speedmatrix.Finding{
				Message: fmt.Sprintf("The server was started with %s: %s", written, o.why), Evidence: "launch command", Fix: o.fix,
			})
		}
	}
	return list
}

// eagerMode finds an engine that starts every kernel of a step one by one.
func eagerMode(l *look) []speedmatrix.Finding {
	written, ok := uses(l.words(), option{names: eagerNames})
	if !ok {
		return nil
	}
	return one(speedmatrix.Finding{
		Message:  "The engine runs in eager mode: it starts every kernel of a step anew, which slows small numbers of requests down most",
		Evidence: written + " in the launch command",
		Fix:      "Leave it out; it saves start-up time and some memory only.",
	})
}

func prefixCachingOff(l *look) []speedmatrix.Finding {
	fact := l.run.Engine[speedmatrix.EnginePrefixCaching]
	if on, known := l.run.Engine.Bool(speedmatrix.EnginePrefixCaching); !known || on {
		return nil
	}
	fix := "Switch it on to measure what users with a common or a growing prompt get."
	switch l.run.Engine.Text(speedmatrix.EngineName) {
	case "vLLM":
		fix = "Switch it on with --enable-prefix-caching (vLLM's default for most models) to measure what users with a common or a growing prompt get."
	case "SGLang":
		fix = "Leave --disable-radix-cache out to measure what users with a common or a growing prompt get."
	}
	return one(speedmatrix.Finding{
		Message:  "The engine does not keep prompts that it has read, so every request reads its whole prompt again and launches at long contexts are cold",
		Evidence: "prefix caching off, by " + fact.Source,
		Fix:      fix,
	})
}

// metricsOf says how an engine is made to tell its metrics.
var metricsOf = map[string]string{
	"vLLM":      "vLLM tells them at /metrics unless --disable-log-stats is given or a proxy hides them.",
	"SGLang":    "Start SGLang with --enable-metrics.",
	"llama.cpp": "Start llama-server with --metrics.",
}

func noMetrics(l *look) []speedmatrix.Finding {
	engine := l.run.Engine.Text(speedmatrix.EngineName)
	fix, can := metricsOf[engine]
	if !can || l.run.Engine.Text(speedmatrix.EngineMetrics) != "" {
		return nil
	}
	if proxy := l.run.Engine.Text(speedmatrix.EngineProxy); proxy != "" {
		return one(speedmatrix.Finding{
			Message:  "The proxy does not pass on what the engine tells of itself, so queues, preemptions and the engine's own count of tokens are not known",
			Evidence: proxy + " in front of " + engine + ", nothing at GET /metrics",
			Fix:      "Measure the engine without the proxy to have them; the difference of the two runs is what the proxy costs.",
		})
	}
	return one(speedmatrix.Finding{
		Message:  "The server tells no metrics, so queues, preemptions and the engine's own count of tokens are not known",
		Evidence: engine + ", nothing at GET /metrics",
		Fix:      fix,
	})
}
