package importer

import (
	"errors"
	"fmt"

	"speedmatrix"
)

func isBenchy(t tree) bool {
	list := t.at("benchmarks").list()
	return len(list) > 0 && list[0].has("tg_throughput", "pp_throughput", "context_size")
}

// readBenchy reads llama-benchy: waves of requests, repeated; its speed of generation counts events.
func readBenchy(b *builder, t tree) error {
	if err := b.tool("llama-benchy", t.at("version").text()); err != nil {
		return err
	}
	if err := b.model(speedmatrix.ModelServedName, t.at("model").text()); err != nil {
		return err
	}
	b.warn("imported definition", "llama-benchy sends one wave of requests and counts events, not tokens: an engine that sends several tokens an event looks slower than it is")
	for i, r := range t.at("benchmarks").list() {
		if err := b.benchy(r); err != nil {
			return fmt.Errorf("benchmarks[%d]: %w", i, err)
		}
	}
	return nil
}

func (b *builder) benchy(r tree) error {
	n, ok := r.at("concurrency").whole()
	context, there := r.at("context_size").whole()
	prompt, known := r.at("prompt_size").whole()
	if !ok || !there || !known {
		return errors.New("it has no concurrency, context or prompt size")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, context+prompt, n)
	if err != nil {
		return err
	}
	c.TotalTokensPerSecond = r.at("tg_throughput", "mean").number()
	c.PerRequestTokensPerSecond = r.at("tg_req_throughput", "mean").number()
	c.TTFT = ofValues(r.at("e2e_ttft", "values").numbers(), "requests")
	if d := ofValues(r.at("tg_throughput", "values").numbers(), "repeats"); d != nil && d.N > 1 {
		c.Repeats = &speedmatrix.RepeatSummary{TotalTokensPerSecond: d, PerRequestTokensPerSecond: ofValues(r.at("tg_req_throughput", "values").numbers(), "requests")}
	}
	if err := b.add(c); err != nil || n != 1 || context != 0 {
		return err
	}
	p, err := b.cell(speedmatrix.PhasePrefill, prompt, 1)
	if err != nil {
		return err
	}
	p.PromptTokensPerSecond, p.TTFT = r.at("pp_throughput", "mean").number(), c.TTFT
	return b.add(p)
}

func isInferencePerf(t tree) bool { return t.has("load_summary", "successes") }

func readInferencePerf(b *builder, t tree) error {
	if err := b.tool("inference-perf", ""); err != nil {
		return err
	}
	if b.options.Concurrency == 0 {
		return errors.New("its summary does not say how many requests ran at once; say so with --concurrency")
	}
	ok := t.at("successes")
	prompt := ok.at("prompt_tokens", "mean").number()
	if prompt == nil {
		prompt = ok.at("prompt_len", "mean").number()
	}
	if prompt == nil {
		return errors.New("it does not say how many prompt tokens were sent")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, int(*prompt+0.5), b.options.Concurrency)
	if err != nil {
		return err
	}
	completed := ok.at("count").number()
	requests := 0
	if completed != nil {
		requests = int(*completed)
	}
	latency := ok.at("latency")
	c.PromptTokens = prompt
	c.TotalTokensPerSecond = ok.at("throughput", "output_tokens_per_sec").number()
	c.TTFT = latency.at("time_to_first_token").distribution(medianNames, 1000, requests)
	c.TimeBetweenTokens = latency.at("time_per_output_token").distribution(medianNames, 1000, requests)
	c.EventGap = latency.at("inter_token_latency").distribution(medianNames, 1000, 0)
	if c.EventGap != nil {
		c.EventGap.Of = "events"
	}
	c.OutputTokens, c.WindowSeconds = ok.at("output_tokens", "total").number(), t.at("benchmark_time_seconds").number()
	counts(c, completed, t.at("failures", "count").number())
	b.wholeRun()
	return b.add(c)
}

func isEvalscope(t tree) bool { return t.has("Test Duration (s)", "Output Throughput (tok/s)") }

func isEvalscopePercentiles(t tree) bool {
	list := t.list()
	return len(list) > 0 && list[0].has("Percentiles", "TTFT (ms)")
}

// readEvalscopePercentiles keeps the percentiles for the summary that stands beside them.
func readEvalscopePercentiles(b *builder, t tree) error {
	if n := len(b.run.Cells); n > 0 && b.run.Tool.Name == "evalscope" && b.run.Cells[n-1].TTFT.P50 == nil {
		evalscopePercentiles(&b.run.Cells[n-1], t)
		return nil
	}
	b.percentiles = append(b.percentiles, t)
	return nil
}

func readEvalscope(b *builder, t tree) error {
	if err := b.tool("evalscope", ""); err != nil {
		return err
	}
	n, ok := t.at("Concurrency").whole()
	prompt := t.at("Avg Input Tokens").number()
	if !ok || prompt == nil {
		return errors.New("it has no concurrency or no prompt length")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, int(*prompt+0.5), n)
	if err != nil {
		return err
	}
	requests := 0
	if v := t.at("Success Requests").number(); v != nil {
		requests = int(*v)
	}
	mean := func(name, of string, n int) *speedmatrix.Distribution {
		return &speedmatrix.Distribution{Mean: t.at(name).number(), N: n, Of: of}
	}
	c.PromptTokens = prompt
	c.TotalTokensPerSecond = t.at("Output Throughput (tok/s)").number()
	c.TTFT, c.TimeBetweenTokens, c.EventGap = mean("Avg TTFT (ms)", "requests", requests), mean("Avg TPOT (ms)", "requests", requests), mean("Avg ITL (ms)", "events", 0)
	c.WindowSeconds = t.at("Test Duration (s)").number()
	counts(c, t.at("Success Requests").number(), t.at("Failed Requests").number())
	if len(b.percentiles) > 0 {
		evalscopePercentiles(c, b.percentiles[0])
		b.percentiles = b.percentiles[1:]
	}
	b.wholeRun()
	return b.add(c)
}

// evalscopePercentiles completes a cell by the file of percentiles.
func evalscopePercentiles(c *speedmatrix.Cell, t tree) {
	for _, row := range t.list() {
		for name, d := range map[string]*speedmatrix.Distribution{"TTFT (ms)": c.TTFT, "TPOT (ms)": c.TimeBetweenTokens, "ITL (ms)": c.EventGap} {
			v := row.at(name).number()
			switch row.at("Percentiles").text() {
			case "min":
				d.Min = v
			case "50%":
				d.P50 = v
			case "90%":
				d.P90 = v
			case "95%":
				d.P95 = v
			case "99%":
				d.P99 = v
			case "max":
				d.Max = v
			}
		}
	}
}

func isGenaiBench(t tree) bool { return t.at("aggregated_metrics").has("num_concurrency", "stats") }

func readGenaiBench(b *builder, t tree) error {
	if err := b.tool("genai-bench", ""); err != nil {
		return err
	}
	a := t.at("aggregated_metrics")
	n, ok := a.at("num_concurrency").whole()
	prompt := a.at("stats", "num_input_tokens", "mean").number()
	if !ok || prompt == nil {
		return errors.New("it has no concurrency or no prompt length")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, int(*prompt+0.5), n)
	if err != nil {
		return err
	}
	factor := 1000.0
	if t.at("_time_unit").text() == "ms" {
		factor = 1
	}
	completed := a.at("num_completed_requests").number()
	requests := 0
	if completed != nil {
		requests = int(*completed)
	}
	c.PromptTokens = a.at("stats", "num_input_tokens", "p50").number()
	c.TotalTokensPerSecond = a.at("mean_output_throughput_tokens_per_s").number()
	c.PerRequestTokensPerSecond = a.at("stats", "output_inference_speed", "p50").number()
	c.TTFT = a.at("stats", "ttft").distribution(commonNames, factor, requests)
	c.TimeBetweenTokens = a.at("stats", "tpot").distribution(commonNames, factor, requests)
	c.OutputTokens, c.WindowSeconds = a.at("stats", "num_output_tokens", "sum").number(), a.at("run_duration").number()
	counts(c, completed, a.at("num_error_requests").number())
	b.wholeRun()
	return b.add(c)
}

func isLocalMaxxing(t tree) bool {
	list := t.list()
	return len(list) > 0 && list[0].has("hfId", "engineName", "tokSOut")
}

// readLocalMaxxing reads rows of that site: one number each.
func readLocalMaxxing(b *builder, t tree) error {
	for i, r := range t.list() {
		if err := b.localMaxxing(r); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return nil
}

func (b *builder) localMaxxing(r tree) error {
	if err := b.tool("LocalMaxxing", ""); err != nil {
		return err
	}
	if err := b.model(speedmatrix.ModelName, r.at("hfId").text()); err != nil {
		return err
	}
	b.localMaxxingFacts(r)
	n, ok := r.at("engineFlags", "concurrency").whole()
	if !ok {
		n = max(b.options.Concurrency, 1)
		if b.options.Concurrency == 0 {
			b.warn("imported definition", "a row that names no concurrency is taken as one request, as the site defines its speed; some of its users enter the sum of many")
		}
	}
	prompt, known := r.at("promptTokens").whole()
	depth, _ := r.at("prefillTokens").whole()
	if !known {
		b.warn("imported definition", "a row that names no prompt length stands at context 0")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, prompt+depth, n)
	if err != nil {
		return err
	}
	c.TotalTokensPerSecond = r.at("tokSOut").number()
	if n == 1 {
		c.PerRequestTokensPerSecond = c.TotalTokensPerSecond
	}
	if ttft := positive(r.at("ttftMs").number()); ttft != nil {
		c.TTFT = &speedmatrix.Distribution{P50: ttft, N: 1, Of: "requests"}
	}
	if known {
		c.PromptTokens = new(float64(prompt + depth))
	}
	if err := b.add(c); err != nil {
		return err
	}
	speed := positive(r.at("tokSPrefill").number())
	if speed == nil || !known || prompt == 0 {
		return nil
	}
	p, err := b.cell(speedmatrix.PhasePrefill, prompt, 1)
	if err != nil {
		return err
	}
	p.PromptTokensPerSecond, p.PromptTokens, p.TTFT = speed, new(float64(prompt)), c.TTFT
	return b.add(p)
}

func (b *builder) localMaxxingFacts(r tree) {
	run, hw := b.run, r.at("hardware")
	b.fact(run.Model, speedmatrix.ModelRevision, r.at("modelRevision").text())
	b.fact(run.Model, speedmatrix.ModelQuantization, r.at("quantization").text())
	b.fact(run.Engine, speedmatrix.EngineName, r.at("engineName").text())
	b.fact(run.Engine, speedmatrix.EngineVersion, r.at("engineVersion").text())
	b.fact(run.Engine, speedmatrix.EngineRepository, r.at("engineRepository").text())
	b.fact(run.Engine, speedmatrix.EngineBuild, r.at("engineBuild").text())
	b.fact(run.Engine, speedmatrix.EngineBackend, r.at("backend").text())
	b.fact(run.Hardware, speedmatrix.HardwareGPU, hw.at("gpuName").text())
	b.fact(run.Hardware, speedmatrix.HardwareGPUCount, positive(hw.at("gpuCount").number()))
	b.fact(run.Hardware, speedmatrix.HardwareCPU, hw.at("cpu").text())
	b.fact(run.Hardware, speedmatrix.HardwareOS, hw.at("os").text())
	for key, v := range map[string]*float64{speedmatrix.HardwareVRAM: positive(hw.at("vramGb").number()), speedmatrix.HardwareRAM: positive(hw.at("ramGb").number())} {
		if v != nil {
			b.fact(run.Hardware, key, fmt.Sprintf("%g GB", *v))
		}
	}
	if class := hw.at("hwClass").text(); class != "" {
		b.fact(run.Hardware, speedmatrix.HardwareType, map[string]string{"DISCRETE_GPU": "Discrete GPU", "UNIFIED": "Unified memory", "CPU_ONLY": "CPU only"}[class])
	}
	if command := r.at("engineFlags", "commandSnippet").text(); command != "" {
		run.LaunchCommand = &speedmatrix.Fact{Value: command, Source: b.source()}
	}
}
