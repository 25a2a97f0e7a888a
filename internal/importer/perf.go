package importer

import (
	"errors"
	"regexp"
	"strconv"

	"speedmatrix"
)

// isPerf: the summary of AIPerf, or of genai-perf, whose successor it is.
func isPerf(t tree) bool { return t.has("request_throughput", "input_config") }

// concurrencyFlag is the option that both tools have.
var concurrencyFlag = regexp.MustCompile(`--concurrency[ =]'?"?(\d+)`)

func readPerf(b *builder, t tree) error {
	name, version := "genai-perf", t.at("genai_perf_version").text()
	if v := t.at("aiperf_version").text(); v != "" {
		name, version = "AIPerf", v
	}
	if err := b.tool(name, version); err != nil {
		return err
	}
	config := t.at("input_config")
	if err := b.model(speedmatrix.ModelServedName, perfModel(config)); err != nil {
		return err
	}
	n, ok := perfConcurrency(t)
	if !ok {
		n = b.options.Concurrency
	}
	if n == 0 {
		return errors.New("it does not say how many requests ran at once; say so with --concurrency")
	}
	prompt := t.at("input_sequence_length", "avg").number()
	if prompt == nil {
		return errors.New("it does not say how many prompt tokens were sent")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, int(*prompt+0.5), n)
	if err != nil {
		return err
	}
	completed := t.at("request_count", "avg").number()
	requests := 0
	if completed != nil {
		requests = int(*completed)
	}
	c.PromptTokens = prompt
	c.CachedTokens = t.at("usage_prompt_cache_read_tokens", "p50").number()
	c.TotalTokensPerSecond = t.at("output_token_throughput", "avg").number()
	c.PerRequestTokensPerSecond = t.at("output_token_throughput_per_user", "p50").number()
	c.TTFT = t.at("time_to_first_token").distribution(averageNames, perfMillis(t.at("time_to_first_token")), requests)
	c.TimeBetweenTokens = t.at("inter_token_latency").distribution(averageNames, perfMillis(t.at("inter_token_latency")), requests)
	c.ActiveRequestsMean = t.at("effective_concurrency", "avg").number()
	c.OutputTokens, c.WindowSeconds = t.at("total_osl", "avg").number(), t.at("benchmark_duration", "avg").number()
	counts(c, completed, t.at("error_request_count", "avg").number())
	b.wholeRun()
	return b.add(c)
}

// perfMillis turns a metric's unit into milliseconds.
func perfMillis(metric tree) float64 {
	switch metric.at("unit").text() {
	case "s", "sec", "seconds":
		return 1000
	case "us", "µs":
		return 1e-3
	case "ns":
		return 1e-6
	}
	return 1
}

// perfModel is the model by either tool's configuration.
func perfModel(config tree) string {
	for _, m := range []tree{config.at("models", "items"), config.at("model_names"), config.at("endpoint", "model_names"), config.at("model")} {
		for _, item := range m.list() {
			if name := item.at("name").text(); name != "" {
				return name
			}
			if name := item.text(); name != "" {
				return name
			}
		}
	}
	return ""
}

// perfConcurrency is the number of simultaneous requests by the configuration, else by the command.
func perfConcurrency(t tree) (int, bool) {
	config := t.at("input_config")
	for _, at := range []tree{config.at("loadgen", "concurrency"), config.at("perf_analyzer", "stimulus", "concurrency"), config.at("concurrency")} {
		if n, ok := at.whole(); ok {
			return n, true
		}
	}
	for _, command := range []string{t.at("run_info", "cli_command").text(), config.at("cli_command").text()} {
		if found := concurrencyFlag.FindStringSubmatch(command); found != nil {
			n, err := strconv.Atoi(found[1])
			return n, err == nil
		}
	}
	return 0, false
}
