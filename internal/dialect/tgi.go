package dialect

import "speedmatrix/internal/sse"

// tgiReasons are TGI's reasons in OpenAI's words.
var tgiReasons = map[string]string{"eos_token": "stop", "stop_sequence": "stop"}

// TGI is the API of Hugging Face's Text Generation Inference: a raw prompt, and
// one event a token, so that the events themselves are the count. It knows no
// way to go on behind the model's own end.
func TGI() Dialect { return tgi{} }

type tgi struct{}

func (tgi) Name() string                         { return "tgi" }
func (tgi) Path() string                         { return "/generate_stream" }
func (tgi) Framing() sse.Framing                 { return sse.EventStream }
func (tgi) Templated() bool                      { return false }
func (tgi) KeyVariable() string                  { return openAIKey }
func (tgi) Headers(key string) map[string]string { return bearer(key) }
func (tgi) NewDecoder() *Decoder                 { return &Decoder{grammar: new(tgiTokens)} }

func (tgi) Accept(p Params) Params {
	p.IncludeUsage, p.ContinuousUsage, p.TimingsPerToken = false, false, false
	p.IgnoreEOS = false
	return p
}

func (tgi) Body(p Params) ([]byte, error) {
	b := newBody(p)
	settings := map[string]any{"details": true}
	if p.MaxTokens > 0 {
		settings["max_new_tokens"] = p.MaxTokens
	}
	if p.Temperature != nil {
		// The API takes no temperature of 0; without sampling it means the same.
		if settings["do_sample"] = *p.Temperature > 0; *p.Temperature > 0 {
			settings["temperature"] = *p.Temperature
		}
	}
	if p.Seed != nil {
		settings["seed"] = *p.Seed
	}
	b.add(true, "inputs", untemplated(p))
	b.merge("parameters", settings)
	return b.encode()
}

// tgiTokens is the grammar of TGI: an event is a token.
type tgiTokens struct {
	count int // tokens of the answer so far

	// Values of the document at hand, as JSON.
	token, generated, details []byte
	index                     int
}

func (g *tgiTokens) reset() { g.count = 0 }
func (g *tgiTokens) begin() { *g = tgiTokens{count: g.count, index: -1} }

func (g *tgiTokens) member(d *Decoder, s *scanner) {
	switch string(s.name) {
	case "token":
		g.token = s.value()
	case "index":
		g.index = parseCount(s.value())
	case "generated_text":
		g.generated = s.value()
	case "details":
		g.details = s.value()
	case "error":
		if isFault(s.value()) {
			d.fault = s.data
		}
	default:
		s.value()
	}
}

func (g *tgiTokens) end(d *Decoder) {
	if s, ok := d.within(g.token); ok {
		g.text(d, s)
		// Servers number their tokens from 1: a number beyond our count means that
		// an event brought several.
		g.count = max(g.count+1, g.index)
		d.tokens = g.count
		d.seen.known = true
	} else if isString(g.generated) {
		d.appendString(&d.content, g.generated)
		d.seen.known = true
	}
	if isString(g.generated) {
		d.done = true
		d.finished("stop")
	}
	if s, ok := d.within(g.details); ok {
		g.ending(d, s)
	}
	if d.tokens < 0 {
		d.tokens = d.usage.Completion
	}
}

// text appends the text of a token. A special one, such as the end mark, has a
// name and no text.
func (g *tgiTokens) text(d *Decoder, s *scanner) {
	var text []byte
	special := false
	for s.key() {
		switch string(s.name) {
		case "text":
			text = s.value()
		case "special":
			special = string(s.value()) == "true"
		default:
			s.value()
		}
	}
	d.left(s)
	if !special {
		d.appendString(&d.content, text)
	}
}

// ending reads the details of an answer's end.
func (g *tgiTokens) ending(d *Decoder, s *scanner) {
	d.seen.usage = true
	for s.key() {
		switch string(s.name) {
		case "finish_reason":
			d.finishedAs(s.value(), tgiReasons)
		case "generated_tokens":
			d.usage.Completion = parseCount(s.value())
		case "input_length":
			d.usage.Prompt = parseCount(s.value())
		default:
			s.value()
		}
	}
	d.left(s)
}
