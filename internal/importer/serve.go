package importer

import (
	"errors"
	"fmt"

	"speedmatrix"
)

// isServe: one result of `vllm bench serve`, or the list that `vllm bench sweep` makes of many.
func isServe(t tree) bool {
	list := t.list()
	return len(list) > 0 && list[0].has("output_throughput", "completed", "duration", "mean_ttft_ms")
}

func readServe(b *builder, t tree) error {
	for i, r := range t.list() {
		if err := b.serve(r); err != nil {
			return fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	b.wholeRun()
	b.warn("imported definition", "vllm bench serve takes the time to first token to the first event with choices, which may carry no text, and its gaps between tokens are gaps between events")
	return nil
}

func (b *builder) serve(r tree) error {
	if err := b.tool("vllm bench serve", r.at("vllm_version").text()); err != nil {
		return err
	}
	if err := b.model(speedmatrix.ModelServedName, r.at("model_id").text()); err != nil {
		return err
	}
	n, err := serveConcurrency(r)
	if err != nil {
		return err
	}
	prompt := meanPerRequest(r.at("total_input_tokens").number(), r.at("completed").number())
	if prompt == nil {
		return errors.New("it does not say how many prompt tokens were sent")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, int(*prompt+0.5), n)
	if err != nil {
		return err
	}
	requests := 0
	if v := r.at("completed").number(); v != nil {
		requests = int(*v)
	}
	spread := func(name string, count int, of string) *speedmatrix.Distribution {
		get := func(prefix string) *float64 { return r.at(prefix + "_" + name + "_ms").number() }
		d := speedmatrix.Distribution{P50: get("median"), P90: get("p90"), P95: get("p95"), P99: get("p99"), Mean: get("mean"), N: count, Of: of}
		if d.P50 == nil && d.Mean == nil {
			return nil
		}
		return &d
	}
	c.PromptTokens = prompt
	c.TotalTokensPerSecond = r.at("output_throughput").number()
	c.TTFT, c.TimeBetweenTokens, c.EventGap = spread("ttft", requests, "requests"), spread("tpot", requests, "requests"), spread("itl", 0, "events")
	c.OutputTokens, c.WindowSeconds = r.at("total_output_tokens").number(), r.at("duration").number()
	counts(c, r.at("completed").number(), r.at("failed").number())
	return b.add(c)
}

// serveConcurrency is the number of simultaneous requests: the limit, or all of them where nothing limits them.
func serveConcurrency(r tree) (int, error) {
	if n, ok := r.at("max_concurrency").whole(); ok {
		return n, nil
	}
	if r.at("request_rate").text() == "inf" {
		if n, ok := r.at("num_prompts").whole(); ok {
			return n, nil
		}
	}
	return 0, errors.New("its requests came at a rate, so it has no number of simultaneous requests")
}

// meanPerRequest is a sum over requests divided by their number, nil where either is unknown.
func meanPerRequest(sum, requests *float64) *float64 {
	if sum == nil || requests == nil || *requests <= 0 {
		return nil
	}
	return new(*sum / *requests)
}
