package fidelity_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/truth"
)

// doubled sends each event that has usage and no choices twice.
func doubled(_, _ int, own string) []string {
	if strings.Contains(own, `"choices":[]`) {
		return []string{own, own}
	}
	return []string{own}
}

// Usage may stand anywhere and look like anything; each server here is measured exactly all the same.
func TestOddUsage(t *testing.T) {
	for name, s := range map[string]truth.Script{
		"the usage at the end twice":       {Reshape: doubled},
		"the usage at the end again":       {Usage: truth.UsageFinal, Reshape: doubled},
		"inside the choice":                {Usage: truth.UsageInChoice},
		"under x_groq":                     {Usage: truth.UsageXGroq},
		"without completion tokens":        {Usage: truth.UsagePartial},
		"in every event, not asked for":    {Usage: truth.UsageEvery},
		"beside an empty text":             {Usage: truth.UsageOnFinish},
		"0 in every event but the last":    {Usage: truth.UsageEvery, Reshape: counts(func(n int, done bool) string { return fmt.Sprint(pick(done, n, 0)) })},
		"1 in every event but the last":    {Usage: truth.UsageEvery, Reshape: counts(func(n int, done bool) string { return fmt.Sprint(pick(done, n, 1)) })},
		"as a number with a point":         {Usage: truth.UsageEvery, Reshape: counts(func(n int, _ bool) string { return fmt.Sprintf("%d.0", n) })},
		"as a number with an exponent":     {Usage: truth.UsageEvery, Reshape: counts(func(n int, _ bool) string { return fmt.Sprintf("%de0", n) })},
		"null in every other event":        {Usage: truth.UsageEvery, Reshape: counts(func(n int, done bool) string { return pickText(done || n%2 == 0, fmt.Sprint(n), "null") })},
		"counts that go back now and then": {Usage: truth.UsageEvery, Reshape: counts(func(n int, done bool) string { return fmt.Sprint(pick(done || n%7 != 6, n, n-3)) })},
		"a list in the place of an object": {Usage: truth.UsageNone, Reshape: func(_, _ int, d string) []string { return []string{with(d, `"usage":[1,2]`)} }},
		"a text in the place of an object": {Usage: truth.UsageNone, Reshape: func(_, _ int, d string) []string { return []string{with(d, `"usage":"many"`)} }},
		"the counts of llama.cpp":          {Engine: truth.LlamaCpp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.Engine == truth.VLLM {
				s.Engine = truth.Plain // no counter to fall back on
			}
			s.Text = sameLength
			w := bed{script: s, args: oneCell("0", "2", "--max-output", "100")}.measure(t)
			c := w.cell(0, 2)
			if c.Status != speedmatrix.StatusValid {
				t.Fatalf("%s: %s", c.Status, c.Reason)
			}
			w.verified()
			o := w.owed(c)
			slack := 0.0
			if strings.Contains(name, "every other") || strings.Contains(name, "go back") {
				slack = 4 // the last tokens of a stream wait for the next count
			}
			if d := *c.OutputTokens - o.tokens; d > slack+1e-6 || d < -slack-1e-6 {
				t.Errorf("%v tokens by %s, want %v", *c.OutputTokens, c.TokenSource, o.tokens)
			}
			if slack == 0 {
				w.timed(c, o)
			}
		})
	}
}

// counts replaces the completion tokens of each usage.
func counts(change func(n int, done bool) string) func(req, event int, data string) []string {
	return usage(func(p, n int, done bool) string {
		return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%s}`, p, change(n, done))
	})
}

func pick(yes bool, a, b int) int {
	if yes {
		return a
	}
	return b
}

func pickText(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// However usage comes, if it comes, the tokens of the window are those that the server sent, and the source says how
// they were counted. Texts are of one length and events of one size, so that every source is exact.
func TestAnyUsageGivesTheSameTokens(t *testing.T) {
	check(t, 12, func(rt *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(rt, "tokens per event")
		early := rapid.SampledFrom([]string{"count", "zero", "null", "none", "one"}).Draw(rt, "in the events")
		late := rapid.SampledFrom([]string{"usage", "twice", "total", "none"}).Draw(rt, "at the end")
		stop := size * rapid.IntRange(30, 60).Draw(rt, "events")
		s := truth.Script{Engine: truth.Plain, Usage: truth.UsageEvery, Text: sameLength, TokensPerEvent: size,
			StopAfter: func(truth.Call) int { return stop }, FinalDelay: ms * 10, Reshape: func(_, event int, own string) []string {
				return placed(own, early, late)
			}}
		w := bed{script: s, args: oneCell("0", "3", "--max-output", "300")}.measure(t)
		w.t = rt
		c := w.cell(0, 3)
		if c.Status != speedmatrix.StatusValid {
			rt.Fatalf("%s: %s", c.Status, c.Reason)
		}
		w.verified()
		o := w.owed(c)
		known := early == "count" || late != "none" || size == 1
		if !known {
			near(rt, "a lower bound", c.OutputTokens, o.tokens/float64(size))
			w.warned(c, "events counted")
			return
		}
		if d := o.tokens - *c.OutputTokens; early == "one" && d >= 0 && d <= 3*float64(size-1) {
			return // a request that was cut at its first event seems to have had one token
		}
		near(rt, "output tokens", c.OutputTokens, o.tokens)
		w.timed(c, o)
	})
}

// placed gives an event the usage that is wanted early and late.
func placed(own, early, late string) []string {
	last := strings.Contains(own, `"choices":[]`)
	kind := early
	if last {
		kind = late
	}
	switch list := usage(func(p, n int, _ bool) string {
		switch kind {
		case "zero", "one":
			return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, p, map[string]int{"one": 1}[kind])
		case "null":
			return "null"
		case "none":
			return ""
		case "total":
			return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d}`, p, p+n)
		}
		return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, p, n)
	})(0, 0, own); kind {
	case "twice":
		return append(list, list...)
	default:
		return list
	}
}

// The completions endpoint has its text in another place.
func TestTheCompletionsEndpointIsMeasuredTheSame(t *testing.T) {
	for name, s := range map[string]truth.Script{
		"usage in every event":       {Framing: truth.Framing{Split: pieces}},
		"several tokens in an event": {TokensPerEvent: 5},
		"usage at the end":           {Usage: truth.UsageFinal, Text: sameLength},
		"a content beside the text":  {Reshape: replaced(`"text":`, `"delta":{"content":null},"text":`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bed{script: s, args: oneCell("0", "2", "--max-output", "100", "--api", "completions")}.measure(t)
			w.exact(w.valid())
		})
	}
}
