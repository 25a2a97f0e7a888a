package dialect

import "speedmatrix/internal/sse"

// Ollama is Ollama's own chat API: one JSON document a line. Lines carry no count
// of tokens: it comes with the last one. It knows no way to go on behind the
// model's own end.
func Ollama() Dialect { return ollama{} }

type ollama struct{}

func (ollama) Name() string                         { return "ollama" }
func (ollama) Path() string                         { return "/api/chat" }
func (ollama) Framing() sse.Framing                 { return sse.Lines }
func (ollama) Templated() bool                      { return true }
func (ollama) KeyVariable() string                  { return openAIKey }
func (ollama) Headers(key string) map[string]string { return bearer(key) }
func (ollama) NewDecoder() *Decoder                 { return &Decoder{grammar: new(ollamaLines)} }

func (ollama) Accept(p Params) Params {
	p.IncludeUsage, p.ContinuousUsage, p.TimingsPerToken = false, false, false
	p.IgnoreEOS = false
	return p
}

func (ollama) Body(p Params) ([]byte, error) {
	b := newBody(p)
	options := map[string]any{}
	if p.MaxTokens > 0 {
		options["num_predict"] = p.MaxTokens
	}
	if p.Temperature != nil {
		options["temperature"] = *p.Temperature
	}
	if p.Seed != nil {
		options["seed"] = *p.Seed
	}
	b.add(p.Model != "", "model", p.Model)
	b.add(true, "messages", messages(p))
	b.add(true, "stream", p.Stream) // where it is missing the API streams
	b.merge("options", options)
	// Without these a prompt beyond the context is cut without a word, and an
	// answer that reaches its end drops half of the prompt and goes on.
	b.add(true, "truncate", false)
	b.add(true, "shift", false)
	return b.encode()
}

// ollamaLines is the grammar of Ollama's API.
type ollamaLines struct {
	message, response, thinking, reason []byte // values of the line at hand, as JSON
	done, isAnswer                      bool
}

func (g *ollamaLines) reset() {}
func (g *ollamaLines) begin() { *g = ollamaLines{} }

func (g *ollamaLines) member(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "message":
		g.message = s.value()
	case "response": // of the endpoint without roles
		g.response = s.value()
	case "thinking":
		g.thinking = s.value()
	case "done":
		raw := s.value()
		g.done, g.isAnswer = string(raw) == "true", true
	case "done_reason":
		g.reason = s.value()
	case "error":
		if isFault(s.value()) {
			d.fault = s.data
		}
	default:
		g.figure(d, s)
	}
}

// figure reads the counts and durations of the last line. The count of the
// prompt includes what the cache had; the API does not say how much that was.
func (g *ollamaLines) figure(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "prompt_eval_count":
		d.usage.Prompt = parseCount(s.value())
		d.seen.usage = true
	case "eval_count":
		d.usage.Completion = parseCount(s.value())
		d.seen.usage = true
	case "prompt_eval_duration":
		d.timings.PromptMillis = millisOf(s.value())
		d.seen.timings = true
	case "eval_duration":
		d.timings.PredictedMillis = millisOf(s.value())
		d.seen.timings = true
	default:
		s.value()
	}
}

// millisOf is a number of nanoseconds in milliseconds, −1 if it is none.
func millisOf(raw []byte) float64 {
	if ns := parseFloat(raw); ns >= 0 {
		return ns / 1e6
	}
	return -1
}

func (g *ollamaLines) end(d *Decoder) {
	if s, ok := d.within(g.message); ok {
		g.isAnswer = true
		g.parts(d, s)
	}
	if isString(g.response) {
		g.isAnswer = true
		d.appendString(&d.content, g.response)
	}
	d.appendString(&d.reasoning, g.thinking)
	d.seen.known = d.seen.known || g.isAnswer
	d.tokens = d.usage.Completion
	d.timings.PredictedTokens = d.usage.Completion
	if g.done {
		d.done = true
		d.finished("stop")
		d.finishedAs(g.reason, nil)
	}
}

// parts reads a message and appends its text.
func (g *ollamaLines) parts(d *Decoder, s *scanner) {
	var calls []byte
	for s.key() {
		switch string(s.name) {
		case "content":
			d.appendString(&d.content, s.value())
		case "thinking":
			d.appendString(&d.reasoning, s.value())
		case "tool_calls":
			calls = s.value()
		default:
			s.value()
		}
	}
	d.left(s)
	d.toolCalls(calls)
}
