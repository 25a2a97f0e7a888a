package dialect

import "speedmatrix/internal/sse"

const (
	// anthropicVersion is the version of the API whose events are read here.
	anthropicVersion = "2023-06-01"
	// anthropicMost is the most output tokens where none are asked for: the API insists on a limit.
	anthropicMost = 4096
)

// stopReasons are Anthropic's reasons in OpenAI's words.
var stopReasons = map[string]string{
	"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length",
	"model_context_window_exceeded": "length", "tool_use": "tool_calls",
}

// Anthropic is Anthropic's Messages API. Events with text carry no count of
// tokens: the count of the answer comes with its stop reason. It knows no way to
// go on behind the model's own end, and no seed.
func Anthropic() Dialect { return anthropic{} }

type anthropic struct{}

func (anthropic) Name() string         { return "anthropic" }
func (anthropic) Path() string         { return "/v1/messages" }
func (anthropic) Framing() sse.Framing { return sse.EventStream }
func (anthropic) Templated() bool      { return true }
func (anthropic) NewDecoder() *Decoder { return &Decoder{grammar: newMessageEvents()} }

// KeyVariable is Anthropic's own: a key is for the service that gave it.
func (anthropic) KeyVariable() string { return "ANTHROPIC_API_KEY" }

func (anthropic) Headers(key string) map[string]string {
	h := map[string]string{"anthropic-version": anthropicVersion}
	if key != "" {
		h["x-api-key"] = key
	}
	return h
}

func (anthropic) Accept(p Params) Params {
	p.IncludeUsage, p.ContinuousUsage, p.TimingsPerToken = false, false, false
	p.IgnoreEOS, p.Seed = false, nil
	return p
}

func (anthropic) Body(p Params) ([]byte, error) {
	b := newBody(p)
	most := p.MaxTokens
	if most <= 0 {
		most = anthropicMost
	}
	b.add(p.Model != "", "model", p.Model)
	b.add(true, "max_tokens", most)
	b.add(p.System != "", "system", p.System)
	b.add(true, "messages", []message{{Role: "user", Content: p.Prompt}})
	b.add(p.Temperature != nil, "temperature", p.Temperature)
	b.add(p.Stream, "stream", true)
	return b.encode()
}

// messageEvents is the grammar of the Messages API: events that name their type.
type messageEvents struct {
	// The prompt of the answer under way, field by field: an event may repeat
	// some of them and leave out others.
	input, read, written int

	// Values of the document at hand, as JSON.
	kind, delta, message, block []byte
	content, stop               []byte
	output                      int
}

func newMessageEvents() *messageEvents {
	g := &messageEvents{}
	g.reset()
	return g
}

func (g *messageEvents) reset() { g.input, g.read, g.written = -1, -1, -1 }

func (g *messageEvents) begin() {
	*g = messageEvents{input: g.input, read: g.read, written: g.written, output: -1}
}

func (g *messageEvents) member(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "type":
		g.kind = s.value()
	case "delta":
		g.delta = s.value()
	case "message":
		g.message = s.value()
	case "content_block":
		g.block = s.value()
	case "error":
		if isFault(s.value()) {
			d.fault = s.data
		}
	default:
		g.whole(d, s)
	}
}

// whole reads one member of a message, or of an event that ends one.
func (g *messageEvents) whole(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "usage":
		g.usage(d, s)
	case "content":
		g.content = s.value()
	case "stop_reason":
		g.stop = s.value()
	default:
		s.value()
	}
}

// usage reads a usage object.
func (g *messageEvents) usage(d *Decoder, s *scanner) {
	if !s.enter('{') {
		return
	}
	d.seen.usage = true
	for s.key() {
		switch string(s.name) {
		case "input_tokens":
			g.input = parseCount(s.value())
		case "cache_read_input_tokens":
			g.read = parseCount(s.value())
		case "cache_creation_input_tokens":
			g.written = parseCount(s.value())
		case "output_tokens":
			g.output = parseCount(s.value())
		default:
			s.value()
		}
	}
}

func (g *messageEvents) end(d *Decoder) {
	switch string(g.kind) {
	case `"message_start"`:
		g.start(d)
	case `"content_block_start"`:
		g.piece(d, g.block)
	case `"content_block_delta"`:
		g.piece(d, g.delta)
	case `"message_delta"`:
		g.stopped(d)
	case `"message_stop"`:
		d.done = true
	case `"message"`:
		g.blocks(d)
		d.finishedAs(g.stop, stopReasons)
	case `"error"`:
		d.seen.failed = true
	}
	d.seen.known = d.seen.known || isString(g.kind)
	d.tokens = g.output
	if d.seen.usage {
		g.fill(&d.usage)
	}
}

// fill writes the counts known so far. The API counts the tokens of a prompt in
// three parts: read anew, taken from the cache, and written to it.
func (g *messageEvents) fill(u *Usage) {
	if g.input >= 0 {
		u.Prompt = g.input + max(g.read, 0) + max(g.written, 0)
	}
	u.Cached, u.Completion = g.read, g.output
}

// start reads the message that an answer begins with. Its count of output
// tokens is no measured one.
func (g *messageEvents) start(d *Decoder) {
	g.reset()
	if s, ok := d.within(g.message); ok {
		for s.key() {
			g.whole(d, s)
		}
		d.left(s)
	}
	g.output = -1
}

// stopped reads the delta that says why an answer ended.
func (g *messageEvents) stopped(d *Decoder) {
	s, ok := d.within(g.delta)
	if !ok {
		return
	}
	for s.key() {
		g.whole(d, s)
	}
	d.left(s)
	d.finishedAs(g.stop, stopReasons)
}

// piece reads a block, or a delta of one, and appends its text.
func (g *messageEvents) piece(d *Decoder, raw []byte) {
	if s, ok := d.within(raw); ok {
		g.members(d, s)
		d.left(s)
	}
}

// blocks reads the content of a message that was not streamed.
func (g *messageEvents) blocks(d *Decoder) {
	if isNull(g.content) {
		return
	}
	s := &d.inner
	s.start(g.content)
	if s.enter('[') {
		for s.element() {
			if s.enter('{') {
				g.members(d, s)
			}
		}
	}
	d.left(s)
}

// members reads the members of a block or delta that carry text: each of them
// belongs to one channel.
func (g *messageEvents) members(d *Decoder, s *scanner) {
	for s.key() {
		switch string(s.name) {
		case "text":
			d.appendString(&d.content, s.value())
		case "thinking":
			d.appendString(&d.reasoning, s.value())
		case "name", "partial_json":
			d.appendString(&d.tool, s.value())
		case "input":
			// A block that begins has an empty one: its JSON follows in pieces.
			if raw := s.value(); string(g.kind) == `"message"` {
				d.appendArguments(raw)
			}
		default:
			s.value()
		}
	}
}
