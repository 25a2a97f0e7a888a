package importer

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"speedmatrix"
)

func isGuide(t tree) bool {
	list := t.at("benchmarks").list()
	return len(list) > 0 && list[0].at("metrics").has("output_tokens_per_second", "time_to_first_token_ms")
}

func readGuide(b *builder, t tree) error {
	if err := b.tool("guidellm", t.at("metadata", "guidellm_version").text()); err != nil {
		return err
	}
	for i, r := range t.at("benchmarks").list() {
		if err := b.guide(r); err != nil {
			return fmt.Errorf("benchmarks[%d]: %w", i, err)
		}
	}
	b.wholeRun()
	return nil
}

func (b *builder) guide(r tree) error {
	backend := r.at("config", "backend")
	if err := b.model(speedmatrix.ModelServedName, backend.at("model").text()); err != nil {
		return err
	}
	b.run.Server.URL, b.run.Server.API = cmp.Or(b.run.Server.URL, backend.at("target").text()), cmp.Or(b.run.Server.API, backend.at("request_format").text())
	n, ok := guideConcurrency(r.at("config", "strategy"))
	if !ok {
		b.warn("imported in part", fmt.Sprintf("a benchmark of the kind %q has no number of simultaneous requests and was left out", r.at("config", "strategy", "type_").text()))
		return nil
	}
	metrics := func(name string) tree { return r.at("metrics", name, "successful") }
	prompt := metrics("prompt_token_count").at("mean").number()
	if prompt == nil {
		return errors.New("it does not say how many prompt tokens were sent")
	}
	c, err := b.cell(speedmatrix.PhaseDecode, int(*prompt+0.5), n)
	if err != nil {
		return err
	}
	spread := func(name string) *speedmatrix.Distribution {
		m := metrics(name)
		count, _ := m.at("count").whole()
		p := m.at("percentiles")
		d := speedmatrix.Distribution{P50: m.at("median").number(), P90: p.at("p90").number(), P95: p.at("p95").number(), P99: p.at("p99").number(),
			Min: m.at("min").number(), Max: m.at("max").number(), Mean: m.at("mean").number(), N: count, Of: "requests"}
		if d.P50 == nil || count == 0 {
			return nil
		}
		return &d
	}
	c.PromptTokens = metrics("prompt_token_count").at("median").number()
	c.TotalTokensPerSecond = metrics("output_tokens_per_second").at("mean").number()
	c.TTFT, c.TimeBetweenTokens = spread("time_to_first_token_ms"), spread("inter_token_latency_ms")
	c.ActiveRequestsMean = metrics("request_concurrency").at("mean").number()
	c.OutputTokens, c.WindowSeconds = metrics("output_token_count").at("total_sum").number(), r.at("duration").number()
	if at := r.at("start_time").number(); at != nil && *at > 0 && *at < 1e11 {
		c.WindowStartedAt = new(time.Unix(0, int64(*at*1e9)).UTC())
		if b.run.StartedAt.IsZero() || c.WindowStartedAt.Before(b.run.StartedAt) {
			b.run.StartedAt = *c.WindowStartedAt
		}
	}
	totals := r.at("metrics", "request_totals")
	counts(c, totals.at("successful").number(), totals.at("errored").number())
	return b.add(c)
}

func guideConcurrency(strategy tree) (int, bool) {
	if strategy.at("type_").text() == "synchronous" {
		return 1, true
	}
	if n, ok := strategy.at("streams").whole(); ok {
		return n, true
	}
	return 0, false
}
