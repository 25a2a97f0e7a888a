package dialect

import "speedmatrix/internal/sse"

// Responses is OpenAI's Responses API. Events carry no count of tokens: the
// usage comes with the last one.
func Responses() Dialect { return responses{} }

type responses struct{}

func (responses) Name() string                         { return "responses" }
func (responses) Path() string                         { return "/v1/responses" }
func (responses) Framing() sse.Framing                 { return sse.EventStream }
func (responses) Templated() bool                      { return true }
func (responses) KeyVariable() string                  { return openAIKey }
func (responses) Headers(key string) map[string]string { return bearer(key) }
func (responses) NewDecoder() *Decoder                 { return &Decoder{grammar: new(responseEvents)} }

func (responses) Accept(p Params) Params {
	p.IncludeUsage, p.ContinuousUsage, p.TimingsPerToken = false, false, false
	return p
}

func (responses) Body(p Params) ([]byte, error) {
	b := newBody(p)
	b.add(p.Model != "", "model", p.Model)
	b.add(p.System != "", "instructions", p.System)
	b.add(true, "input", p.Prompt)
	b.add(p.MaxTokens > 0, "max_output_tokens", p.MaxTokens)
	b.add(p.Temperature != nil, "temperature", p.Temperature)
	b.add(p.Seed != nil, "seed", p.Seed)
	b.add(p.Stream, "stream", true)
	b.add(true, "store", false) // servers keep answers for later requests unless told not to
	b.add(p.IgnoreEOS, "ignore_eos", true)
	return b.encode()
}

// responseEvents is the grammar of the Responses API: events that name their
// type, the last of which carries the whole response.
type responseEvents struct {
	// Values of the document at hand, as JSON.
	kind, delta, item, response []byte
	status, reason, output      []byte
	hasStatus, hasOutput        bool
}

func (g *responseEvents) reset() {}
func (g *responseEvents) begin() { *g = responseEvents{} }

func (g *responseEvents) member(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "type":
		g.kind = s.value()
	case "delta":
		g.delta = s.value()
	case "item":
		g.item = s.value()
	case "response":
		g.response = s.value()
	default:
		g.whole(d, s)
	}
}

// whole reads one member of a response.
func (g *responseEvents) whole(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "status":
		g.status, g.hasStatus = s.value(), true
	case "output":
		g.output, g.hasOutput = s.value(), true
	case "incomplete_details":
		if s.enter('{') {
			for s.key() {
				if string(s.name) == "reason" {
					g.reason = s.value()
				} else {
					s.value()
				}
			}
		}
	case "usage":
		g.usage(d, s)
	case "error":
		if isFault(s.value()) {
			d.fault = s.data
		}
	default:
		s.value()
	}
}

// usage reads a usage object.
func (g *responseEvents) usage(d *Decoder, s *scanner) {
	if !s.enter('{') {
		return
	}
	d.seen.usage = true
	u, total := &d.usage, -1
	for s.key() {
		switch string(s.name) {
		case "input_tokens":
			u.Prompt = parseCount(s.value())
		case "output_tokens":
			u.Completion = parseCount(s.value())
		case "total_tokens":
			total = parseCount(s.value())
		case "input_tokens_details":
			u.Cached = countIn(s, "cached_tokens")
		case "output_tokens_details":
			u.Reasoning = countIn(s, "reasoning_tokens")
		default:
			s.value()
		}
	}
	if u.Completion < 0 && u.Prompt >= 0 && total >= u.Prompt {
		u.Completion = total - u.Prompt
	}
}

func (g *responseEvents) end(d *Decoder) {
	if s, ok := d.within(g.response); ok {
		for s.key() {
			g.whole(d, s)
		}
		d.left(s)
	}
	d.seen.known = d.seen.known || isString(g.kind) || g.hasOutput || g.hasStatus || d.seen.usage
	d.tokens = d.usage.Completion
	switch string(g.kind) {
	case `"response.output_text.delta"`, `"response.refusal.delta"`:
		d.appendString(&d.content, g.delta)
	case `"response.reasoning_text.delta"`, `"response.reasoning_summary_text.delta"`, `"response.reasoning.delta"`:
		d.appendString(&d.reasoning, g.delta)
	case `"response.function_call_arguments.delta"`, `"response.custom_tool_call_input.delta"`,
		`"response.mcp_call_arguments.delta"`, `"response.code_interpreter_call_code.delta"`:
		d.appendString(&d.tool, g.delta)
	case `"response.output_item.added"`:
		g.started(d)
	case `"response.completed"`, `"response.incomplete"`:
		d.done = true
		g.finish(d)
	case `"response.failed"`, `"response.cancelled"`, `"error"`:
		d.seen.failed = true
	case "":
		g.document(d)
	}
}

// started appends the name of a call that begins.
func (g *responseEvents) started(d *Decoder) {
	s, ok := d.within(g.item)
	if !ok {
		return
	}
	for s.key() {
		if string(s.name) == "name" {
			d.appendString(&d.tool, s.value())
		} else {
			s.value()
		}
	}
	d.left(s)
}

// finish says why the response ended. Servers send "completed" for one that
// came to its limit, and say so in the status alone.
func (g *responseEvents) finish(d *Decoder) {
	switch {
	case isString(g.reason) && len(g.reason) > 2:
		d.finishedAs(g.reason, map[string]string{"max_output_tokens": "length"})
	case string(g.kind) == `"response.incomplete"`, string(g.status) == `"incomplete"`:
		d.finished("incomplete")
	default:
		d.finished("stop")
	}
}

// document reads the output of a response that was not streamed.
func (g *responseEvents) document(d *Decoder) {
	switch string(g.status) {
	case `"completed"`, `"incomplete"`:
		g.finish(d)
	case `"failed"`, `"cancelled"`:
		d.seen.failed = true
	}
	if isNull(g.output) {
		return
	}
	s := &d.inner
	s.start(g.output)
	if s.enter('[') {
		for s.element() {
			g.outputItem(d, s)
		}
	}
	d.left(s)
}

// outputItem reads one element of output: a message, reasoning, or a call.
func (g *responseEvents) outputItem(d *Decoder, s *scanner) {
	if !s.enter('{') {
		return
	}
	var kind, content, summary, name, arguments []byte
	for s.key() {
		switch string(s.name) {
		case "type":
			kind = s.value()
		case "content":
			content = s.value()
		case "summary":
			summary = s.value()
		case "name":
			name = s.value()
		case "arguments", "input":
			arguments = s.value()
		default:
			s.value()
		}
	}
	channel := &d.content
	if string(kind) == `"reasoning"` {
		channel = &d.reasoning
	}
	d.appendText(channel, content)
	d.appendText(channel, summary)
	d.appendString(&d.tool, name)
	d.appendArguments(arguments)
}
