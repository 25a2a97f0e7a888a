package fidelity_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// hundred asks for requests of 100 tokens, so that some end in the window.
func hundred(more ...string) []string {
	return oneCell("0", "2", append([]string{"--max-output", "100"}, more...)...)
}

// finished gives the requests of a cell that ended by themselves.
func (w *world) finished(c *speedmatrix.Cell) (list []answer) {
	w.t.Helper()
	for _, stream := range w.answers(c.Key()) {
		for _, a := range stream {
			if a.row.Class == string(speedmatrix.RequestCompleted) {
				list = append(list, a)
			}
		}
	}
	if len(list) == 0 {
		w.t.Fatalf("no request of %s ended", c.Key())
	}
	return list
}

// usage replaces the usage object of each event that has one; "" takes it away. done says that it is the last.
func usage(change func(prompt, completion int, done bool) string) func(req, event int, data string) []string {
	return func(_, _ int, own string) []string {
		head, tail, ok := strings.Cut(own, `,"usage":{`)
		if !ok {
			return []string{own}
		}
		with := change(number(tail, "prompt_tokens"), number(tail, "completion_tokens"), strings.Contains(own, `"choices":[]`))
		if with != "" {
			head += `,"usage":` + with
		}
		return []string{head + "}"}
	}
}

// number reads a whole number behind a name, −1 without one.
func number(text, name string) int {
	_, rest, ok := strings.Cut(text, `"`+name+`":`)
	if !ok {
		return -1
	}
	end := strings.IndexAny(rest, ",}")
	n, err := strconv.Atoi(rest[:max(end, 0)])
	if err != nil {
		return -1
	}
	return n
}

func TestTokenCounts(t *testing.T) {
	t.Run("D01 the last usage in an event whose text is empty", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Usage: truth.UsageOnFinish, Text: sameLength, StopAfter: func(truth.Call) int { return 70 }}, args: hundred()}.measure(t)
		c := w.valid()
		w.exact(c)
		for _, a := range w.finished(c) {
			if n := a.row.CompletionTokens; n == nil || *n != 70 {
				t.Errorf("request %d has completion tokens %v, want 70 of 100", a.row.Request, n)
			}
		}
	})
	t.Run("D02 usage, and no text at all", func(t *testing.T) {
		t.Parallel()
		// Every third request has tokens without text.
		w := bed{script: truth.Script{Engine: truth.Plain, Usage: truth.UsageFinal, Text: sameLength, Channel: func(req, _ int) string {
			return map[bool]string{true: truth.Hidden}[req%3 == 0]
		}}, args: hundred("--duration", "20s")}.measure(t)
		c := w.valid()
		w.exact(c)
		for _, a := range w.finished(c) {
			if n := a.row.CompletionTokens; n == nil || *n != 100 {
				t.Errorf("request %d has completion tokens %v, want 100", a.row.Request, n)
			}
		}
	})
	t.Run("D04 usage without completion tokens, with reasoning tokens in its details", func(t *testing.T) {
		t.Parallel()
		for _, total := range []bool{true, false} {
			w := bed{script: truth.Script{Usage: truth.UsageFinal, Text: sameLength, Reshape: usage(func(p, n int, _ bool) string {
				return fmt.Sprintf(`{"prompt_tokens":%d%s,"completion_tokens_details":{"reasoning_tokens":13}}`, p,
					map[bool]string{true: fmt.Sprintf(`,"total_tokens":%d`, p+n)}[total])
			})}, args: hundred()}.measure(t)
			c := w.cell(0, 2)
			w.verified()
			for _, a := range w.finished(c) {
				n, p := a.row.CompletionTokens, a.row.PromptTokens
				if p == nil || int(*p) != a.served.PromptTokens || (n != nil) != total || total && *n != 100 {
					t.Errorf("total %v: request %d has prompt tokens %v, completion tokens %v", total, a.row.Request, p, n)
				}
			}
		}
	})
	t.Run("D05 content null in an answer of tool calls", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Channel: func(int, int) string { return wire.Tool }, Reshape: replaced(`"delta":{`, `"delta":{"content":null,`)},
			args: hundred()}.measure(t)
		w.exact(w.valid())
	})
	t.Run("D07 the server ignores the wish for usage", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Engine: truth.Plain, Usage: truth.UsageNone}}.measure(t)
		c := w.valid("events counted")
		o := w.owed(c)
		near(t, "output tokens", c.OutputTokens, o.tokens)
		near(t, "total tok/s", c.TotalTokensPerSecond, *c.OutputTokens / *c.WindowSeconds)
		if c.TokenSource != speedmatrix.TokensEvents || !strings.Contains(w.out.String(), "lower bound") {
			t.Errorf("the source is %q, and the page says:\n%s", c.TokenSource, w.out.String())
		}
	})
	t.Run("D08 more tokens than the request asked for", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Reported: func(_, n int) int { return 2 * n }}, args: hundred()}.measure(t)
		c := w.cell(0, 2)
		w.warned(c, "invariant", "token counts")
		if text := warning(c, "invariant"); !strings.Contains(text, "more than the 100 that it asked for") {
			t.Errorf("%q", text)
		}
	})
	t.Run("D10 blanks that a tokenizer would merge", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Tokenize: true, Text: func(int, int) string { return " " }}}.measure(t)
		c := w.valid()
		w.exact(c)
		near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
	})
	t.Run("D11 reasoning tokens are among the completion tokens", func(t *testing.T) {
		t.Parallel()
		for _, source := range []truth.Usage{truth.UsageAsked, truth.UsageFinal} {
			w := bed{script: truth.Script{Usage: source, Text: sameLength, ReasoningTokens: true, Channel: first(40, wire.Reasoning)}, args: hundred()}.measure(t)
			c := w.valid()
			w.exact(c)
			for _, a := range w.finished(c) {
				if *a.row.CompletionTokens != 100 || *a.row.ReasoningTokens != 40 {
					t.Errorf("request %d has completion tokens %d, reasoning tokens %d", a.row.Request, *a.row.CompletionTokens, *a.row.ReasoningTokens)
				}
			}
		}
	})
	t.Run("D13 the text of reasoning counts", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Engine: truth.Plain, Usage: truth.UsageFinal, Tokenize: true, Text: sameLength, Channel: first(200, wire.Reasoning)}}.measure(t)
		c := w.valid()
		if c.TokenSource != speedmatrix.TokensTokenizer {
			t.Errorf("the source is %q", c.TokenSource)
		}
		w.exact(c)
	})
	t.Run("D14 reasoning and content in one event, and an empty field beside a full one", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Reshape: replaced(`"delta":{"content":`, `"delta":{"reasoning_content":"","reasoning":"why","content":`)}, args: hundred()}.measure(t)
		c := w.valid()
		w.exact(c)
		for _, a := range w.finished(c) {
			list := w.events(c.Key(), a.row.Request)
			if len(list) != 200 {
				t.Fatalf("request %d has %d rows, want 2 for each of 100 events", a.row.Request, len(list))
			}
			for i := 0; i < len(list); i += 2 {
				r, x := list[i], list[i+1]
				if r.Channel != "reasoning" || r.TextLength != 3 || r.Continued || x.Channel != "content" || !x.Continued ||
					int(x.TextLength) != a.served.Events[i/2].Length {
					t.Fatalf("request %d: %+v, %+v", a.row.Request, r, x)
				}
			}
		}
	})
	t.Run("D16 the parts of the usage in different events", func(t *testing.T) {
		t.Parallel()
		// As Anthropic's surface does it: the prompt at the beginning, the output at the end, cached tokens apart.
		w := bed{script: truth.Script{Usage: truth.UsageEvery, Text: sameLength, RoleFirst: true, Reshape: usage(func(p, n int, done bool) string {
			switch {
			case done:
				return fmt.Sprintf(`{"completion_tokens":%d}`, n)
			case n == 0:
				return fmt.Sprintf(`{"prompt_tokens":%d,"prompt_tokens_details":{"cached_tokens":32}}`, p)
			}
			return ""
		})}, args: hundred()}.measure(t)
		c := w.cell(0, 2)
		w.verified()
		for _, a := range w.finished(c) {
			r := a.row
			if int(*r.PromptTokens) != a.served.PromptTokens || *r.CachedTokens != 32 || *r.CompletionTokens != 100 {
				t.Errorf("request %d: %d, %d, %d", r.Request, *r.PromptTokens, *r.CachedTokens, *r.CompletionTokens)
			}
		}
		w.exact(c)
		near(t, "cached tokens", c.CachedTokens, 32)
	})
	t.Run("D17 counts along the text that contradict the usage at the end", func(t *testing.T) {
		t.Parallel()
		for _, wrong := range []func(n int) int{
			func(n int) int { return n * 3 / 4 }, // too few
			func(n int) int { return n + n/4 },   // too many
		} {
			w := bed{script: truth.Script{Reshape: usage(func(p, n int, done bool) string {
				if !done {
					n = wrong(n)
				}
				return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, p, n)
			}), StopAfter: func(truth.Call) int { return 60 }}, args: hundred()}.measure(t)
			c := w.cell(0, 2)
			w.warned(c, "token counts")
			if text := warning(c, "token counts"); !strings.Contains(text, fmt.Sprint(wrong(60)*len(w.finished(c)))) || !strings.Contains(text, fmt.Sprint(60*len(w.finished(c)))) {
				t.Errorf("%q lacks one of the numbers", text)
			}
		}
	})
	t.Run("D19 the server's usage and its own counter differ", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Reported: func(_, n int) int { return n * 11 / 10 }}}.measure(t)
		c := w.cell(0, 2)
		w.warned(c, "token counts")
		k := c.CounterCheck
		text := warning(c, "token counts")
		if k == nil || !strings.Contains(text, fmt.Sprintf("%.0f", k.ClientTokens)) || !strings.Contains(text, fmt.Sprintf("%.0f", k.ServerTokens)) {
			t.Errorf("%q, of %+v", text, k)
		}
		if !strings.Contains(w.out.String(), "token") || !strings.Contains(w.out.String(), text[:20]) {
			t.Errorf("the warning is not shown:\n%s", w.out.String())
		}
	})
	t.Run("D20 a prompt whose length nobody tells", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Engine: truth.Plain, Usage: truth.UsageNone, PrefillPerToken: 10 * time.Microsecond}, args: oneCell("2K", "2")}.measure(t)
		c := w.valid("events counted", "no prefix reuse")
		unknown(t, "prompt tokens", c.PromptTokens)
		unknown(t, "cached tokens", c.CachedTokens)
		if c.ContextTokens != nil {
			t.Errorf("context tokens of %+v", *c.ContextTokens)
		}
		if row := w.printedRow("Valid"); strings.Contains(row, "2,048") || strings.Contains(row, "2048") {
			t.Errorf("the planned length is shown as measured: %q", row)
		}
	})
}

// warning is the message of a cell's warnings of a code.
func warning(c *speedmatrix.Cell, code string) string {
	var list []string
	for _, x := range c.Warnings {
		if x.Code == code {
			list = append(list, x.Message)
		}
	}
	return strings.Join(list, "; ")
}
