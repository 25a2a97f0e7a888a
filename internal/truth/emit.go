package truth

import (
	"strings"
	"time"

	"speedmatrix/internal/wire"
)

// emit sends n tokens from the given one on: one event for each run of tokens
// of one channel, so one in the usual case.
func (g *generation) emit(token, n int) error {
	if g.call.API == wire.Generate {
		return g.emitEach(token, n)
	}
	if !g.started && g.s.script.RoleFirst && g.s.script.RoleEarly == 0 {
		g.started = true // no ping between the role and the token
		if err := g.role(); err != nil {
			return err
		}
	}
	g.started = true
	for from := token; from < token+n; {
		channel := g.channel(from)
		to := from + 1
		for to < token+n && g.channel(to) == channel {
			to++
		}
		if channel == wire.Reasoning || channel == Hidden {
			g.reasoning += to - from
		}
		if channel != Hidden || to == g.total {
			if err := g.event(from, to, channel); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

func (g *generation) channel(token int) string {
	if c := g.s.script.Channel(g.id, token); c != "" {
		return c
	}
	return wire.Content
}

// event sends the tokens from ≤ token < to, all of one channel. Hidden ones
// have no text; they get an event only for the finish reason at the end.
func (g *generation) event(from, to int, channel string) error {
	text := ""
	switch channel {
	case Hidden:
		channel = wire.Content
	case wire.Special:
	default:
		text = g.textOf(from, to)
	}
	if g.out == nil {
		if channel == wire.Reasoning {
			g.thought = append(g.thought, text...)
		} else {
			g.text = append(g.text, text...)
		}
		return nil
	}
	if g.out.speaker != nil {
		return g.say(from, to, channel, text)
	}
	c := wire.Chunk{Channel: channel, Text: text}
	if channel == wire.Tool && from == 0 {
		c.ToolName = "write"
	}
	g.eventUsage(&c, to)
	event := Event{Tokens: to, Length: len(text), Channel: channel}
	if to < g.total {
		return g.out.tokens(&c, event, false)
	}
	if err := g.out.tokens(&c, event, g.endChunk(&c)); err != nil {
		return err
	}
	return g.out.flush()
}

func (g *generation) textOf(from, to int) string {
	if to == from+1 {
		return g.s.script.Text(g.id, from)
	}
	var all strings.Builder
	for token := from; token < to; token++ {
		all.WriteString(g.s.script.Text(g.id, token))
	}
	return all.String()
}

// endChunk gives the last token's chunk what belongs there and says whether
// nothing follows it.
func (g *generation) endChunk(c *wire.Chunk) (last bool) {
	script := &g.s.script
	if script.Engine != LlamaCpp && script.Usage != UsageOnFinish {
		c.Finish = g.finish
	}
	if script.Usage == UsageInChoice || script.Usage == UsageXGroq {
		g.fillUsage(g.total, true)
		c.Usage, c.UsagePlace = &g.usage, wire.UsageChoice
		if script.Usage == UsageXGroq {
			c.UsagePlace = wire.UsageXGroq
		}
	}
	tail, done := g.tail()
	return len(tail) == 0 && !done
}

// eventUsage gives a chunk the usage (or timings) that each event carries.
func (g *generation) eventUsage(c *wire.Chunk, tokens int) {
	script := &g.s.script
	asked := script.Usage == UsageAsked && script.Engine != LlamaCpp && g.call.IncludeUsage && g.call.ContinuousUsage
	if asked || script.Usage == UsageEvery {
		g.fillUsage(tokens, false)
		c.Usage = &g.usage
	}
	c.UsageNull = script.Usage == UsageNull
	if script.Engine == LlamaCpp && g.call.TimingsPerToken && tokens > 0 {
		g.fillTimings(tokens)
		c.Timings = &g.timings
	}
}

// fillUsage sets the usage after so many tokens. Cached tokens are said at the end only.
func (g *generation) fillUsage(tokens int, final bool) {
	script := &g.s.script
	g.usage = wire.Usage{
		Prompt: g.prompt.tokens, Completion: script.Reported(g.id, tokens), Cached: -1, Reasoning: -1,
	}
	if final && script.PrefixCache && !script.HideCached {
		g.usage.Cached = g.job.cached
	}
	if script.ReasoningTokens {
		g.usage.Reasoning = g.reasoning
	}
	if final && script.Usage == UsagePartial {
		g.usage.Total = g.usage.Prompt + g.usage.Completion
		g.usage.Completion = -1
	}
}

func (g *generation) fillTimings(tokens int) {
	j := g.job
	g.timings = wire.Timings{
		Cached: j.cached, Prompt: j.prompt.tokens - j.cached, Predicted: tokens,
		PromptMillis: millis(j.firstAt - j.prefillAt), PredictedMillis: millis(g.due - g.firstDue),
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// tail gives the chunks that follow the last token, and whether [DONE] does.
func (g *generation) tail() (tail []wire.Chunk, done bool) {
	script := &g.s.script
	done = !script.Framing.NoDone && !script.Framing.NDJSON
	if script.Engine == LlamaCpp {
		return g.llamaTail(), done
	}
	switch script.Usage {
	case UsageNone, UsageInChoice, UsageXGroq:
		return nil, done
	case UsageAsked, UsageFinal:
		if !g.call.IncludeUsage {
			return nil, done
		}
	case UsageOnFinish:
		g.fillUsage(g.total, true)
		return []wire.Chunk{{Finish: g.finish, Usage: &g.usage}}, done
	case UsageEvery, UsageNull, UsagePartial:
	}
	g.fillUsage(g.total, true)
	return []wire.Chunk{{NoChoices: true, Usage: &g.usage}}, done
}

// llamaTail is llama.cpp's: a finish chunk, then usage and timings in one chunk
// if asked for. Completions have both on the finish chunk, as have chats that
// did not ask for usage, but for the usage.
func (g *generation) llamaTail() []wire.Chunk {
	usage := g.s.script.Usage != UsageNone && (g.call.IncludeUsage || g.s.script.Usage > UsageFinal)
	g.fillUsage(g.total, true)
	g.fillTimings(g.total)
	finish := wire.Chunk{Bare: true, Finish: g.finish}
	if usage && g.call.API == wire.Chat {
		return []wire.Chunk{finish, {NoChoices: true, Usage: &g.usage, Timings: &g.timings}}
	}
	finish.Timings = &g.timings
	if usage {
		finish.Usage = &g.usage
	}
	return []wire.Chunk{finish}
}
