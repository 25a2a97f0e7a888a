package fidelity_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// measured runs a script with one cell of 2 requests, which must be Valid, and wants every number as the server has it.
func measured(t *testing.T, s truth.Script, args ...string) (*world, *speedmatrix.Cell) {
	t.Helper()
	if args == nil {
		args = oneCell("0", "2")
	}
	w := bed{script: s, args: args}.measure(t)
	c := w.valid()
	w.exact(c)
	w.sameEvents(c)
	return w, c
}

// oneStamp wants of every request of a cell that its times are those of its events, and that latency − TTFT is the
// sum of the gaps.
func (w *world) oneStamp(c *speedmatrix.Cell) {
	w.t.Helper()
	for _, list := range w.answers(c.Key()) {
		for _, a := range list {
			var text []int64
			for _, e := range w.events(c.Key(), a.row.Request) {
				if e.TextLength > 0 && !e.Continued {
					text = append(text, e.TimeNS)
				}
			}
			if len(text) == 0 {
				continue
			}
			sum := int64(0)
			for i := range text[1:] {
				sum += text[i+1] - text[i]
			}
			latency, ttft := *a.row.LastNS-*a.row.WrittenNS, *a.row.FirstNS-*a.row.WrittenNS
			if *a.row.FirstNS != text[0] || latency-ttft != sum {
				w.t.Errorf("request %d: latency − TTFT is %d, the gaps are %d in all", a.row.Request, latency-ttft, sum)
			}
		}
	}
}

// silent are events that bring no text.
var silent = []string{
	`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":""}}]}`,
	`{"choices":[{"index":0,"delta":{"content":null,"reasoning":null,"tool_calls":null}}]}`,
	`{"choices":[{"index":0,"delta":{"content":[],"reasoning_content":"","tool_calls":[]}}]}`,
	`{"choices":[{"index":0,"delta":{}}],"usage":null}`,
	`{"choices":[],"usage":{"prompt_tokens":14,"completion_tokens":0,"total_tokens":14}}`,
	`{"choices":[{"index":0,"delta":null}]}`,
	`{}`,
}

// early sends events that bring no text long before the first token: 80 ms of 100 ms.
func early(data ...string) truth.Script {
	return truth.Script{PrefillBase: 100 * ms, RoleFirst: true, RoleEarly: 80 * ms, Reshape: func(_, event int, own string) []string {
		if event == 0 {
			return append([]string{own}, data...)
		}
		return []string{own}
	}}
}

func TestFirstToken(t *testing.T) {
	t.Run("B02 the role 1.3 s before the first text", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{PrefillBase: 150 * ms, PrefillPerToken: 400 * time.Microsecond, RoleFirst: true, RoleEarly: 1300 * ms},
			args: oneCell("5K", "1")}.measure(t)
		c := w.valid("no prefix reuse") // each request reads its 5K tokens
		w.exact(c)
		near(t, "longest gap", c.EventGap.Max, 20)
		near(t, "TTFT", c.TTFT.P50, 150+0.4**c.PromptTokens)
		for _, list := range w.answers(c.Key()) {
			if r := list[0].served; r.FirstNS()-r.RoleNS != int64(1300*ms) {
				t.Errorf("the role came %v before the text", time.Duration(r.FirstNS()-r.RoleNS))
			}
		}
	})
	t.Run("B03 empty content, usage alone and [DONE] are no token", func(t *testing.T) {
		t.Parallel()
		w := bed{script: early(silent...), args: oneCell("0", "1", "--max-output", "100")}.measure(t)
		c := w.valid()
		w.exact(c)
		near(t, "TTFT", c.TTFT.P50, 100)
		near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
		near(t, "longest gap", c.EventGap.Max, 20)
	})
	t.Run("B05 reasoning that the server hides", func(t *testing.T) {
		t.Parallel()
		// 50 hidden tokens, then 50 words; the usage at the end tells of both.
		for _, usage := range []truth.Usage{truth.UsageFinal, truth.UsageAsked} {
			w := bed{script: truth.Script{Usage: usage, ReasoningTokens: true, Text: sameLength, PrefillBase: 20 * ms,
				Channel: func(_, token int) string {
					if token < 50 {
						return truth.Hidden
					}
					return wire.Content
				}}, args: oneCell("0", "1", "--max-output", "100", "--duration", "20s")}.measure(t)
			c := w.valid("hidden reasoning", "token counts") // the counter moved while the tokens were hidden
			near(t, "TTFT", c.TTFT.P50, 20+50*20)
			near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
			near(t, "per request tok/s", c.PerRequestTokensPerSecond, 50)
			near(t, "longest gap", c.EventGap.Max, 20)
		}
	})
	t.Run("B06 usage at the end does not set the first token again", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{PrefillBase: 30 * ms, FinalDelay: 700 * ms}, args: oneCell("0", "1", "--max-output", "64")}.measure(t)
		c := w.valid("underfilled") // the engine is idle while the usage is on its way
		w.exact(c)
		near(t, "TTFT", c.TTFT.P50, 30)
	})
	t.Run("B08 one stamp for each event", func(t *testing.T) {
		t.Parallel()
		w, c := measured(t, truth.Script{Stall: func(_, token int) time.Duration { return time.Duration(token%7) * 333 * time.Microsecond }},
			oneCell("0", "2", "--max-output", "64")...)
		w.oneStamp(c)
	})
	t.Run("B09 the stamp is the read's, whatever the parsing takes", func(t *testing.T) {
		t.Parallel()
		// In virtual time parsing takes none, so the proof is that all events of a read share its stamp: the last
		// of 20 is parsed after the 19 others; a write of 40 comes in two reads.
		w, c := measured(t, truth.Script{Framing: truth.Framing{EventsPerWrite: 40}}, oneCell("0", "2", "--max-output", "80")...)
		w.oneStamp(c)
		near(t, "events per read", c.Client.EventsPerRead, 20)
	})
	t.Run("B11 nothing but tool calls", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{PrefillBase: 25 * ms, Channel: func(int, int) string { return wire.Tool }}, args: oneCell("0", "1")}.measure(t)
		c := w.valid()
		w.exact(c)
		near(t, "TTFT", c.TTFT.P50, 25)
		if c.VisibleTTFT != nil {
			t.Errorf("a visible TTFT of %v without anything visible", *c.VisibleTTFT.P50)
		}
	})
	t.Run("B12 no text at all gives no number", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Usage: truth.UsageNone, Channel: func(int, int) string { return truth.Hidden }}, args: oneCell("0", "1", "--max-output", "100")}.measure(t)
		c := w.cell(0, 1)
		if c.Status.ShowsSpeed() {
			t.Errorf("%s: %s", c.Status, c.Reason)
		}
		unknown(t, "total tok/s", c.TotalTokensPerSecond)
		unknown(t, "per request tok/s", c.PerRequestTokensPerSecond)
		if c.TTFT != nil || c.VisibleTTFT != nil || c.TimeBetweenTokens != nil || c.EventGap != nil {
			t.Errorf("times without text: %v %v %v %v", c.TTFT, c.VisibleTTFT, c.TimeBetweenTokens, c.EventGap)
		}
	})
	t.Run("B14 the first token is a marker without text", func(t *testing.T) {
		t.Parallel()
		s := truth.Script{PrefixCache: true, PrefillPerToken: 50 * time.Microsecond, Channel: func(_, token int) string {
			if token == 0 {
				return truth.Hidden
			}
			return wire.Reasoning
		}}
		for _, usage := range []truth.Usage{truth.UsageAsked, truth.UsageFinal} {
			s.Usage = usage
			w := bed{script: s, args: []string{"--contexts", "2K", "--concurrency", "1", "--prefill", "2K", "--duration", "5s"}}.measure(t)
			c := w.valid()
			sameSamples(t, "TTFT", c.TTFT, w.owed(c).ttft)
			p := w.prefill(2048)
			if p.Status != speedmatrix.StatusValid || len(p.PrefillSamples) < 3 {
				t.Fatalf("the prefill of one token: %s %s, %d samples", p.Status, p.Reason, len(p.PrefillSamples))
			}
			for _, x := range p.PrefillSamples {
				near(t, "TTFT of the sample", &x.TTFTMillis, 5+0.05*(x.PromptTokens-*x.CachedTokens))
			}
		}
	})
	t.Run("B15 the way to the server is measured and shown", func(t *testing.T) {
		t.Parallel()
		b := bed{args: oneCell("0", "1"), wrap: slow(3 * ms)}
		w := b.measure(t)
		w.valid()
		near(t, "round trip", w.run.Server.RoundTripMillis, 3)
		if text := w.out.String(); !strings.Contains(text, "3.0 ms there and back") {
			t.Errorf("the round trip is not shown:\n%s", text)
		}
	})
}

// first gives tokens before the given one another channel.
func first(n int, channel string) func(req, token int) string {
	return func(_, token int) string {
		if token < n {
			return channel
		}
		return wire.Content
	}
}

// replaced replaces a part of each event.
func replaced(old, by string) func(req, event int, data string) []string {
	return func(_, _ int, own string) []string { return []string{strings.ReplaceAll(own, old, by)} }
}

func TestOddFirstTokens(t *testing.T) {
	content, text := `"delta":{"content":"`, `"},"logprobs"`
	for name, s := range map[string]truth.Script{
		"reasoning, then content":                 {Channel: first(30, wire.Reasoning)},
		"reasoning_content, then content":         {Channel: first(30, wire.Reasoning), ReasoningField: "reasoning_content"},
		"both fields of reasoning, then content":  {Channel: first(30, wire.Reasoning), ReasoningField: "both"},
		"an empty reasoning beside the content":   {Reshape: replaced(`"content":`, `"reasoning":"","reasoning_content":null,"content":`)},
		"an empty content beside the reasoning":   {Channel: first(30, wire.Reasoning), Reshape: replaced(`"reasoning":`, `"content":"","reasoning":`)},
		"a content of null beside the reasoning":  {Channel: first(30, wire.Reasoning), Reshape: replaced(`"reasoning":`, `"content":null,"reasoning":`)},
		"content in a list of parts":              {Reshape: func(_, _ int, d string) []string { return []string{parts(d, content, text, "text")} }},
		"a refusal":                               {Reshape: replaced(`"content":`, `"content":null,"refusal":`)},
		"the role beside the first text":          {Reshape: replaced(`"delta":{`, `"delta":{"role":"assistant",`)},
		"a role with a content of null":           {Reshape: before(`{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`)},
		"blanks alone are text":                   {Text: func(_, token int) string { return []string{" ", "\n", " x", "\t"}[token%4] }},
		"headers with the first token":            {Headers: truth.HeadersAtToken, PrefillBase: 300 * ms},
		"headers when the prefill begins":         {Headers: truth.HeadersAtStart, PrefillBase: 300 * ms, MaxRunning: 8},
		"the finish in an event of its own":       {Usage: truth.UsageOnFinish, Text: sameLength},
		"a first event of many tokens":            {Burst: func(_, token int) int { return max(1, 40-token) }},
		"a second choice that ends 8 s before it": {Gap: every(100 * ms), Reshape: func(_, event int, d string) []string { return early2(d, event == 15) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bed{script: s, args: oneCell("0", "2", "--max-output", "100", "--duration", "12s")}.measure(t)
			c := w.valid()
			w.exact(c)
			if s.Reshape == nil {
				w.sameEvents(c)
			}
			w.oneStamp(c)
			if c.Requests.Failed > 0 || *c.CompletedRequests == 0 {
				t.Errorf("%+v", *c.Requests)
			}
		})
	}
}

// parts makes a list of one part of an event's text.
func parts(data, from, to, kind string) string {
	head, rest, ok := strings.Cut(data, from)
	text, tail, closed := strings.Cut(rest, to)
	if !ok || !closed {
		return data
	}
	return head + `"delta":{"content":[{"type":"` + kind + `","` + kind + `":"` + text + `"}]},"logprobs"` + tail
}

// without takes the usage off an event.
func without(data string, off bool) string {
	if head, _, ok := strings.Cut(data, `,"usage":`); ok && off {
		return head + "}"
	}
	return data
}

// early2 ends a second choice behind an event.
func early2(data string, now bool) []string {
	if !now {
		return []string{data}
	}
	return []string{data, `{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`}
}

// Tokens of events without a count come with the next count.
func TestFirstEventsWithoutACount(t *testing.T) {
	w := bed{script: truth.Script{Reshape: func(_, event int, d string) []string { return []string{without(d, event%4 != 3)} }}}.measure(t)
	c := w.valid()
	near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
	near(t, "TTFT", c.TTFT.Min, 5)
	if d := *c.OutputTokens - w.owed(c).tokens; d < -6 || d > 6 {
		t.Errorf("%v tokens, want %v or 3 more or less in each stream", *c.OutputTokens, w.owed(c).tokens)
	}
}

// One event may be the whole answer: it has a time to first token, and no time between tokens.
func TestAnAnswerInOneEvent(t *testing.T) {
	w := bed{script: truth.Script{Gap: every(5 * ms), TokensPerEvent: 64}, args: oneCell("0", "2", "--max-output", "64", "--duration", "10s")}.measure(t)
	c := w.valid()
	w.exact(c)
	if c.TimeBetweenTokens != nil || c.PerRequestTokensPerSecond != nil || c.EventGap != nil {
		t.Errorf("a time between tokens of %v, gaps of %v", c.TimeBetweenTokens, c.EventGap)
	}
}

// A stream may begin in any way: what brings no text changes no time.
func TestAnyBeginningGivesTheSameTimes(t *testing.T) {
	check(t, 5, func(rt *rapid.T) {
		channels := rapid.SliceOfN(rapid.SampledFrom([]string{wire.Content, wire.Reasoning, wire.Tool, truth.Hidden}), 4, 4).Draw(rt, "channels")
		lengths := rapid.SliceOfN(rapid.IntRange(0, 12), 3, 3).Draw(rt, "lengths")
		noise := rapid.SliceOfN(rapid.IntRange(0, len(silent)-1), 1, 30).Draw(rt, "silent")
		s := truth.Script{
			PrefillBase: time.Duration(rapid.IntRange(1, 200).Draw(rt, "prefill")) * ms,
			RoleFirst:   rapid.Bool().Draw(rt, "role"), RoleEarly: time.Duration(rapid.IntRange(0, 150).Draw(rt, "early")) * ms,
			Headers: truth.Headers(rapid.IntRange(0, 2).Draw(rt, "headers")),
			Channel: func(req, token int) string {
				for i, n := range lengths {
					if token -= (n + req) % 13; token < 0 {
						return channels[i]
					}
				}
				return cmp.Or(map[string]string{truth.Hidden: wire.Content}[channels[3]], channels[3])
			},
			Reshape: func(req, event int, own string) []string {
				if event > 5 {
					return []string{own}
				}
				var list []string
				for i := range (req + event) % 4 {
					list = append(list, silent[noise[(req+event+i)%len(noise)]])
				}
				return append(list, own)
			},
		}
		w := bed{script: s, args: oneCell("0", "6", "--max-output", "70")}.measure(t)
		w.t = rt
		c := w.cell(0, 6)
		if c.Status != speedmatrix.StatusValid {
			rt.Fatalf("%s: %s", c.Status, c.Reason)
		}
		w.verified()
		w.oneStamp(c)
		w.timed(c, w.owed(c))
	})
}
