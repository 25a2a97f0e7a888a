package bench_test

import (
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// sourceOf is where the tokens of requests that ran through the window come
// from, by API: a count of their own, else the server's tokenizer.
func sourceOf(d dialect.Dialect) speedmatrix.TokenSource {
	switch d.Name() {
	case "chat", "completions", "tgi":
		return speedmatrix.TokensPerEventUsage
	}
	return speedmatrix.TokensTokenizer
}

// word is a token's text: all are of one length, so that counting by length of text is exact.
func word(req, token int) string {
	x := uint64(req+1)*0x9e3779b97f4a7c15 ^ uint64(token+1)*0xbf58476d1ce4e5b9
	text := []byte(" .....")
	for i := 1; i < len(text); i++ {
		x ^= x >> 29
		x *= 0x94d049bb133111eb
		text[i] = 'a' + byte(x>>40%26)
	}
	return string(text)
}

// A row of every API has the numbers of the server's own account: the prefill
// that is the row's fill, a cold launch of its context, and the decode cells.
func TestEveryDialectMeasuresWhatTheServerDid(t *testing.T) {
	for _, d := range dialect.All() {
		t.Run(d.Name(), func(t *testing.T) {
			template := 11
			if !d.Templated() {
				template = -1
			}
			params := d.Accept(dialect.Params{Model: "truth", IgnoreEOS: true, IncludeUsage: true, ContinuousUsage: true})
			w := measure(t, setting{
				dialect: d, params: params, habits: speedmatrix.Habits{Tokenizer: true, TemplateTokens: max(template, 0)},
				settings: bench.Settings{Contexts: []int{0, 1024}, Concurrency: []int{1, 4}, Prefill: []int{1024}},
				limits:   bench.Limits{MaxLength: 32768, KVBlockTokens: 16},
				script: truth.Script{
					APIs:        []wire.API{wire.Responses, wire.Messages, wire.OllamaChat, wire.Generate},
					PrefixCache: true, Tokenize: true, TemplateTokens: template, Text: word,
					PrefillBase: 5 * ms, PrefillPerToken: 100 * time.Microsecond,
					Gap: func(s truth.Step) time.Duration { return 18*ms + time.Duration(s.Running)*ms },
				},
			})
			if w.err != nil {
				t.Fatal(w.err)
			}
			for _, context := range []int{0, 1024} {
				for _, concurrency := range []int{1, 4} {
					c := w.cell(context, concurrency)
					if c.Status != speedmatrix.StatusValid || len(c.Warnings) > 0 {
						t.Fatalf("%s is %s: %s, %v", c.Key(), c.Status, c.Reason, c.Warnings)
					}
					w.matchesAPI(t, c, d)
				}
			}
			if p := w.prefill(1024); p.Status != speedmatrix.StatusValid {
				t.Errorf("prefill is %s: %s", p.Status, p.Reason)
			}
			w.verified()
		})
	}
}

// matchesAPI is matches, as far as the API says what it needs: requests that
// are cut tell the length of their prompt only where it comes early.
func (w *world) matchesAPI(t *testing.T, c *speedmatrix.Cell, d dialect.Dialect) {
	t.Helper()
	if c.TokenSource != sourceOf(d) {
		t.Errorf("%s: the source is %q, want %q", c.Key(), c.TokenSource, sourceOf(d))
	}
	if c.PromptTokens == nil {
		if name := d.Name(); name == "chat" || name == "completions" || name == "anthropic" {
			t.Errorf("%s: the prompt's length is unknown", c.Key())
		}
		var prompts []float64
		for _, stream := range w.answered(t, c.Key()) {
			for _, r := range stream {
				prompts = append(prompts, float64(r.PromptTokens))
			}
		}
		c.PromptTokens = new(middle(prompts))
		defer func() { c.PromptTokens = nil }()
	}
	w.matches(t, c)
}
