package dialect

import "bytes"

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

	if !isNull(p.toolCalls) {
		s := d.within(p.toolCalls)
		if s.enter('[') {
			for s.element() {
				d.toolCall(s)
			}
		}
		d.seen.odd = d.seen.odd || s.odd
	}
	if !isNull(p.functionCall) {
		s := d.within(p.functionCall)
		d.function(s)
		d.seen.odd = d.seen.odd || s.odd
	}
}

// within begins to read a value that the walk has kept.
func (d *Decoder) within(raw []byte) *scanner {
	d.inner.start(raw)
	return &d.inner
}

// toolCall reads one element of tool_calls.
func (d *Decoder) toolCall(s *scanner) {
	if !s.enter('{') {
		return
	}
	for s.key() {
		if string(s.name) == "function" {
			d.function(s)
		} else {
			s.value()
		}
	}
}

// function reads a function object and appends its name and arguments.
func (d *Decoder) function(s *scanner) {
	if !s.enter('{') {
		return
	}
	var name, arguments []byte
	for s.key() {
		switch string(s.name) {
		case "name":
			name = s.value()
		case "arguments":
			arguments = s.value()
		default:
			s.value()
		}
	}
	d.appendString(&d.tool, name)
	if len(arguments) > 0 && arguments[0] == '{' {
		// Arguments as an object instead of as text: the JSON is the text.
		d.tool = appendValid(d.tool, arguments)
		return
	}
	d.appendString(&d.tool, arguments)
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

// appendString appends the text of a string. Null is no text, anything else odd.
func (d *Decoder) appendString(channel *[]byte, raw []byte) {
	switch {
	case isNull(raw):
	case isString(raw):
		*channel = appendUnescaped(*channel, raw[1:len(raw)-1])
	default:
		d.seen.odd = true
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
