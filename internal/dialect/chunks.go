package dialect

import "bytes"

// chunks is the grammar of the OpenAI surface's two endpoints, with what other
// servers of that surface add to it.
type chunks struct{}

func (chunks) reset() {}
func (chunks) begin() {}

func (chunks) member(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "choices":
		if s.enter('[') {
			d.seen.known = true
			for s.element() {
				d.choice(s)
			}
		}
	case "usage":
		d.readUsage(s)
	case "x_groq":
		if s.enter('{') {
			for s.key() {
				if string(s.name) == "usage" {
					d.readUsage(s)
				} else {
					s.value()
				}
			}
		}
	case "timings":
		d.readTimings(s)
	case "error":
		if isFault(s.value()) {
			d.fault = s.data
		}
	default:
		s.value()
	}
}

// end sets what follows from usage and timings together.
func (chunks) end(d *Decoder) {
	d.seen.known = d.seen.known || d.seen.usage || d.seen.timings
	d.tokens = d.usage.Completion
	if !d.seen.timings {
		return
	}
	if d.tokens < 0 {
		d.tokens = d.timings.PredictedTokens
	}
	if d.usage.Cached < 0 {
		d.usage.Cached = d.timings.CachedTokens
	}
}

// parts is the values of one delta or message that carry text, as JSON. They
// are kept until the object is read, so that their order does not matter.
type parts struct {
	there                       bool
	content, refusal            []byte
	reasoning, reasoningContent []byte
	toolCalls, functionCall     []byte
}

// choice reads one element of choices and appends its text.
func (d *Decoder) choice(s *scanner) {
	if !s.enter('{') {
		return
	}
	var delta, message parts
	var text, finish []byte
	known := false
	for s.key() {
		switch string(s.name) {
		case "delta":
			delta, known = readParts(s), true
		case "message":
			message, known = readParts(s), true
		case "text":
			text, known = s.value(), true
		case "finish_reason":
			finish, known = s.value(), true
		case "usage":
			d.readUsage(s)
		default:
			s.value()
		}
	}
	if s.bad {
		return
	}
	d.seen.odd = d.seen.odd || !known
	if !delta.there {
		delta = message
	}
	d.appendParts(delta, text)
	if isString(finish) && len(finish) > 2 {
		d.finish = appendUnescaped(d.finish[:0], finish[1:len(finish)-1])
	}
}

// readParts reads a delta or a message.
func readParts(s *scanner) parts {
	var p parts
	if !s.enter('{') {
		return p
	}
	p.there = true
	for s.key() {
		switch string(s.name) {
		case "content":
			p.content = s.value()
		case "refusal":
			p.refusal = s.value()
		case "reasoning":
			p.reasoning = s.value()
		case "reasoning_content":
			p.reasoningContent = s.value()
		case "tool_calls":
			p.toolCalls = s.value()
		case "function_call":
			p.functionCall = s.value()
		default:
			s.value()
		}
	}
	return p
}

// appendParts appends the text of one choice to the channels. text is that of
// the completions endpoint; servers that send both mean the same text.
func (d *Decoder) appendParts(p parts, text []byte) {
	from := len(d.content)
	d.appendText(&d.content, p.content)
	if len(d.content) == from {
		d.appendText(&d.content, text)
	}
	d.appendText(&d.content, p.refusal)

	from = len(d.reasoning)
	d.appendText(&d.reasoning, p.reasoningContent)
	middle := len(d.reasoning)
	d.appendText(&d.reasoning, p.reasoning)
	if bytes.Equal(d.reasoning[from:middle], d.reasoning[middle:]) {
		d.reasoning = d.reasoning[:middle]
	}

	d.toolCalls(p.toolCalls)
	if !isNull(p.functionCall) {
		d.inner.start(p.functionCall)
		d.function(&d.inner)
		d.left(&d.inner)
	}
}

// appendText appends the text of a value: a string, or a list of parts.
func (d *Decoder) appendText(channel *[]byte, raw []byte) {
	if len(raw) == 0 || raw[0] != '[' {
		d.appendString(channel, raw)
		return
	}
	var s scanner
	s.start(raw)
	s.enter('[')
	for s.element() {
		d.part(channel, s.value())
	}
}

// part appends one element of a list of parts: a string, an object with text,
// or, in content, an object with thinking, which is reasoning and may be such a
// list itself.
func (d *Decoder) part(channel *[]byte, raw []byte) {
	if isString(raw) {
		d.appendString(channel, raw)
		return
	}
	var s scanner
	s.start(raw)
	var text, thinking []byte
	if s.enter('{') {
		for s.key() {
			switch string(s.name) {
			case "text":
				text = s.value()
			case "thinking":
				thinking = s.value()
			default:
				s.value()
			}
		}
	}
	d.seen.odd = d.seen.odd || s.odd
	d.appendString(channel, text)
	if channel != &d.reasoning {
		d.appendText(&d.reasoning, thinking)
	}
}

// readUsage reads a usage object. Where an event has several, in whatever
// order, the largest of each count stands.
func (d *Decoder) readUsage(s *scanner) {
	if !s.enter('{') {
		return
	}
	d.seen.usage = true
	found := Usage{-1, -1, -1, -1}
	total, hit := -1, -1
	for s.key() {
		switch string(s.name) {
		case "prompt_tokens":
			found.Prompt = parseCount(s.value())
		case "completion_tokens":
			found.Completion = parseCount(s.value())
		case "total_tokens":
			total = parseCount(s.value())
		case "prompt_cache_hit_tokens":
			hit = parseCount(s.value())
		case "prompt_tokens_details":
			found.Cached = max(found.Cached, countIn(s, "cached_tokens"))
		case "reasoning_tokens":
			found.Reasoning = max(found.Reasoning, parseCount(s.value()))
		case "completion_tokens_details":
			found.Reasoning = max(found.Reasoning, countIn(s, "reasoning_tokens"))
		default:
			s.value()
		}
	}
	if found.Completion < 0 && found.Prompt >= 0 && total >= found.Prompt {
		found.Completion = total - found.Prompt
	}
	if found.Cached < 0 {
		found.Cached = hit
	}
	u := &d.usage
	u.Prompt, u.Cached = max(u.Prompt, found.Prompt), max(u.Cached, found.Cached)
	u.Completion, u.Reasoning = max(u.Completion, found.Completion), max(u.Reasoning, found.Reasoning)
}

// readTimings reads the timings object of llama.cpp.
func (d *Decoder) readTimings(s *scanner) {
	if !s.enter('{') {
		return
	}
	d.seen.timings = true
	t := &d.timings
	for s.key() {
		switch string(s.name) {
		case "prompt_n":
			t.PromptTokens = parseCount(s.value())
		case "cache_n":
			t.CachedTokens = parseCount(s.value())
		case "predicted_n":
			t.PredictedTokens = parseCount(s.value())
		case "prompt_ms":
			t.PromptMillis = parseFloat(s.value())
		case "predicted_ms":
			t.PredictedMillis = parseFloat(s.value())
		default:
			s.value()
		}
	}
}
