package dialect

import (
	"bytes"
	"encoding/json"
)

// Decoder decodes the events of one stream after the other. It holds the memory
// that decoded events point into, so it is for one goroutine.
type Decoder struct {
	scan  scanner
	inner scanner // for values kept by the walk and read after it

	content, reasoning, tool, finish []byte

	usage   Usage
	timings Timings
	seen    seen
}

// seen is which parts of the known shapes a text had.
type seen struct {
	choices, usage, timings bool
	// fault says that a member stands where servers put errors.
	fault bool
	// odd says that something known had a kind of value that no server sends.
	odd bool
}

// known tells whether the text had any part of an answer.
func (s seen) known() bool { return s.choices || s.usage || s.timings }

// Decode decodes the payload of one event (or one line of newline-delimited
// JSON) into ev, overwriting all of it. It never fails: what cannot be
// understood is marked as a surprise. An empty payload says nothing.
func (d *Decoder) Decode(data []byte, ev *Event) {
	d.reset()
	if len(data) < 32 {
		switch trimmed := bytes.TrimSpace(data); string(trimmed) {
		case "":
			*ev = Event{Tokens: -1}
			return
		case "[DONE]":
			*ev = Event{Tokens: -1, Done: true}
			return
		}
	}
	if !d.walk(data) {
		*ev = Event{Tokens: -1, Surprise: true}
		return
	}
	d.fill(ev)
	if d.seen.fault {
		ev.Error, ev.ErrorCode = streamError(data, d.seen.known())
	}
	ev.Surprise = d.seen.odd || !d.seen.known() && ev.Error == ""
}

// Document decodes a whole answer that was not streamed, as a server sends that
// ignores the wish for a stream: one JSON document, or several one after the
// other, whose texts are joined.
func (d *Decoder) Document(body []byte, ev *Event) {
	d.reset()
	*ev = Event{Tokens: -1}
	values := json.NewDecoder(bytes.NewReader(body))
	count := 0
	for ; values.More(); count++ {
		var value json.RawMessage
		if values.Decode(&value) != nil || !d.walk(value) {
			*ev = Event{Tokens: -1, Surprise: true}
			return
		}
		if d.seen.fault && ev.Error == "" {
			ev.Error, ev.ErrorCode = streamError(value, d.seen.known())
		}
	}
	text, code := ev.Error, ev.ErrorCode
	d.fill(ev)
	ev.Error, ev.ErrorCode = text, code
	ev.Surprise = d.seen.odd || !d.seen.known() && text == ""
}

// reset forgets the event decoded last.
func (d *Decoder) reset() {
	d.content, d.reasoning = d.content[:0], d.reasoning[:0]
	d.tool, d.finish = d.tool[:0], d.finish[:0]
	d.usage = Usage{-1, -1, -1, -1}
	d.timings = Timings{-1, -1, -1, -1, -1}
	d.seen = seen{}
}

// fill writes what the walk found into ev.
func (d *Decoder) fill(ev *Event) {
	*ev = Event{
		Content: d.content, Reasoning: d.reasoning, Tool: d.tool,
		FinishReason: d.finish,
		Tokens:       d.usage.Completion,
	}
	if d.seen.timings {
		ev.Timings = &d.timings
		if ev.Tokens < 0 {
			ev.Tokens = d.timings.PredictedTokens
		}
		if d.usage.Cached < 0 {
			d.usage.Cached = d.timings.CachedTokens
		}
	}
	if d.seen.usage {
		ev.Usage = &d.usage
	}
}

// walk reads one JSON text; false if it is none.
func (d *Decoder) walk(data []byte) bool {
	s := &d.scan
	s.start(data)
	if s.enter('{') {
		for s.key() {
			d.member(s)
		}
	}
	d.seen.odd = d.seen.odd || s.odd
	return s.end()
}

// member reads one member of the outermost object.
func (d *Decoder) member(s *scanner) {
	switch string(s.name) {
	case "choices":
		if s.enter('[') {
			d.seen.choices = true
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
	case "error", "detail", "message":
		d.seen.fault = !isNull(s.value()) || d.seen.fault
	default:
		s.value()
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

// countIn reads one count of an object of counts, −1 if it is not there.
func countIn(s *scanner, name string) int {
	n := -1
	if s.enter('{') {
		for s.key() {
			if string(s.name) == name {
				n = parseCount(s.value())
			} else {
				s.value()
			}
		}
	}
	return n
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
