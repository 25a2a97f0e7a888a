package importer

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

func isIncumbent(t tree) bool {
	return t.has("metadata", "results") && t.at("metadata").has("decode_mode")
}

// isLilBench: a lil-bench document holds one of llm-inference-bench.
func isLilBench(t tree) bool {
	return isIncumbent(t.at("results", "bench")) || len(t.at("schema").text()) > 8 && t.at("schema").text()[:8] == "lil-benc"
}

func readLilBench(b *builder, t tree) error {
	bench := t.at("results", "bench")
	if !isIncumbent(bench) {
		return errors.New("the document holds no result of llm-inference-bench")
	}
	if err := readIncumbent(b, bench); err != nil {
		return err
	}
	b.fact(b.run.Engine, speedmatrix.EngineBuild, t.at("image").text())
	for _, p := range t.at("plan").list() {
		if p.at("status").text() != "skipped" {
			continue
		}
		context, ok := p.at("context_tokens").whole()
		n, there := p.at("concurrency").whole()
		if c := b.run.FindCell(speedmatrix.PhaseDecode, context, n); ok && there && c != nil && c.TotalTokensPerSecond == nil {
			c.Reason = "by the source: " + p.at("reason").text()
		}
	}
	return nil
}

// readIncumbent reads a result of llm-inference-bench. Cells that it did not run are absent from its list; its own
// rule (C × (context + output cap) against the budget in the file) says which of them it took for over capacity.
func readIncumbent(b *builder, t tree) error {
	meta := t.at("metadata")
	if err := b.tool("llm-inference-bench", meta.at("version").text()); err != nil {
		return err
	}
	if err := b.model(speedmatrix.ModelServedName, meta.at("model").text()); err != nil {
		return err
	}
	b.fact(b.run.Engine, speedmatrix.EngineName, meta.at("engine").text())
	b.fact(b.run.Engine, speedmatrix.EngineKVTokens, positive(meta.at("max_total_tokens").number()))
	b.incumbentMethod(meta)
	for _, context := range t.at("prefill").keys() {
		if err := b.incumbentPrefill(context, t.at("prefill", context)); err != nil {
			return err
		}
	}
	for i, r := range t.at("results").list() {
		if err := b.incumbentDecode(r); err != nil {
			return fmt.Errorf("results[%d]: %w", i, err)
		}
	}
	return b.incumbentAbsent(meta)
}

// positive is a number above zero, else unknown: the tool writes 0 for what it does not know.
func positive(v *float64) *float64 {
	if v == nil || *v <= 0 {
		return nil
	}
	return v
}

func (b *builder) incumbentMethod(meta tree) {
	m := &b.run.Method
	m.Name, m.Prompts, m.KVPlan, m.MaxExtension = speedmatrix.MethodCompat, "shared", "reserve", 1
	if d := meta.at("duration_per_test").number(); d != nil {
		m.DurationSeconds, m.MinWindowSeconds = *d, *d
	}
	if n, ok := meta.at("max_tokens").whole(); ok {
		m.MaxOutput = n
	}
}

func (b *builder) incumbentPrefill(context string, p tree) error {
	tokens, err := strconv.Atoi(context)
	if err != nil {
		return fmt.Errorf("the prefill of %q is of no length in tokens", context)
	}
	c, err := b.cell(speedmatrix.PhasePrefill, tokens, 1)
	if err != nil {
		return err
	}
	c.TTFTKind = speedmatrix.TTFTCold
	c.PromptTokensPerSecond = positive(p.at("tok_per_sec").number())
	c.PromptTokens = positive(p.at("prompt_tokens").number())
	samples, _ := p.at("samples").whole()
	if ttft := positive(p.at("ttft_seconds").scaled(1000)); ttft != nil {
		c.TTFT = &speedmatrix.Distribution{P50: ttft, N: samples, Of: "requests"}
	}
	if c.PromptTokensPerSecond == nil {
		c.Status, c.Reason = speedmatrix.StatusFailed, "by the source the prefill gave no speed"
	}
	return b.add(c)
}

func (b *builder) incumbentDecode(r tree) error {
	context, ok := r.at("context_tokens").whole()
	n, there := r.at("concurrency").whole()
	if !ok || !there {
		return errors.New("it has no context or no concurrency")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, context, n)
	if err != nil {
		return err
	}
	c.TTFTKind = speedmatrix.TTFTWarm
	c.Status, c.Reason = incumbentStatus(r)
	if c.Status.ShowsSpeed() {
		b.incumbentFigures(c, r)
	}
	return b.add(c)
}

// incumbentStatus is the status of a cell in our words.
func incumbentStatus(r tree) (speedmatrix.Status, string) {
	total := r.at("aggregate_tps").number()
	failure := r.at("failure_reason").text()
	isTrue := func(name string) bool { yes, _ := r.at(name).v.(bool); return yes }
	switch {
	case isTrue("loop_detected") || total != nil && *total == -3:
		return speedmatrix.StatusLooped, "by the source: it saw the same text again and again"
	case total != nil && *total == -1:
		return speedmatrix.StatusOverCapacity, "by the source: the requests exceed the server's KV cache"
	case total != nil && *total == -2:
		return speedmatrix.StatusSkipped, "by the source: skipped by the user"
	case failure != "" || total == nil || *total < 0:
		return speedmatrix.StatusFailed, "by the source: " + failure
	case *total == 0 && positive(r.at("num_errors").number()) != nil:
		return speedmatrix.StatusFailed, "by the source all requests failed"
	case isTrue("capacity_limited"):
		return speedmatrix.StatusRequestsQueued, "by the source: the server could not run all requests at once, or was not ready in time"
	}
	return speedmatrix.StatusValid, ""
}

func (b *builder) incumbentFigures(c *speedmatrix.Cell, r tree) {
	spread := func(name string, factor float64) *speedmatrix.Distribution {
		n, _ := r.at("request_count").whole()
		get := func(suffix string) *float64 { return positive(r.at(name + suffix).scaled(factor)) }
		d := speedmatrix.Distribution{P50: get("_p50"), P90: get("_p90"), P99: get("_p99"), Mean: get("_avg"), N: n, Of: "requests"}
		if d.P50 == nil && d.Mean == nil {
			return nil
		}
		return &d
	}
	c.TotalTokensPerSecond = r.at("aggregate_tps").number()
	c.PerRequestTokensPerSecond = positive(r.at("output_tps_per_user_p50").number())
	c.TTFT, c.TimeBetweenTokens = spread("ttft", 1000), spread("inter_token_latency", 1000)
	c.EventGap = spread("chunk_inter_token_latency", 1000)
	c.PromptTokens = positive(r.at("input_seq_len_avg").number())
	c.ActiveRequestsMean = positive(r.at("avg_running_reqs").number())
	if v := r.at("completed_request_count").number(); v != nil {
		c.CompletedRequests = new(int(*v))
	}
	if v := r.at("num_errors").number(); v != nil {
		c.FailedRequests = new(int(*v))
	}
	c.OutputTokens = r.at("total_tokens").number()
	c.WindowSeconds = positive(r.at("measurement_seconds").number())
	if r.at("aggregate_source").text() == "openai_continuous_usage" {
		c.TokenSource = speedmatrix.TokensPerEventUsage
	}
	if gap := c.TimeBetweenTokens; gap != nil && gap.P50 != nil && c.TotalTokensPerSecond != nil {
		if ratio := *c.TotalTokensPerSecond * *gap.P50 / 1000 / float64(c.Concurrency); ratio > 1.15 {
			c.TokenSource = ""
			c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: "imported contradiction", Message: fmt.Sprintf(
				"the source's total is %s times what its own time between tokens allows %d requests; where usage comes only at a request's end the tool books whole requests into a short window",
				strconv.FormatFloat(math.Round(ratio*100)/100, 'g', -1, 64), c.Concurrency)})
		}
	}
}

// incumbentAbsent adds the cells of the tool's matrix that its list leaves out.
func (b *builder) incumbentAbsent(meta tree) error {
	budget, known := meta.at("max_total_tokens").whole()
	output, _ := meta.at("max_tokens").whole()
	for _, context := range meta.at("context_lengths").list() {
		for _, requests := range meta.at("concurrency_levels").list() {
			tokens, ok := context.whole()
			n, there := requests.whole()
			if !ok || !there || b.run.FindCell(speedmatrix.PhaseDecode, tokens, n) != nil {
				continue
			}
			c, err := b.cell(speedmatrix.PhaseDecode, tokens, n)
			if err != nil {
				return err
			}
			c.TTFTKind = ""
			c.Status, c.Reason = speedmatrix.StatusSkipped, "by the source: not run; the file does not say why"
			if need := n * (tokens + output); known && budget > 0 && need > budget {
				c.Status = speedmatrix.StatusOverCapacity
				c.Reason = fmt.Sprintf("by the source: %d requests of %s with %s of output need %s of %s tokens", n, unit.FormatTokens(tokens),
					unit.Count(output), unit.Count(need), unit.Count(budget))
			}
			if err := b.add(c); err != nil {
				return err
			}
		}
	}
	return nil
}
