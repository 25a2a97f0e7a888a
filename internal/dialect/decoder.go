package dialect

import (
	"bytes"
	"encoding/json"
)

// Decoder decodes the events of one stream after the other. It holds the memory
// that decoded events point into, so it is for one goroutine. The zero value
// decodes chunks of the OpenAI surface.
type Decoder struct {
	grammar grammar // nil is chunks

	scan  scanner
	inner scanner // for values kept by the walk and read after it

	content, reasoning, tool, finish []byte

	tokens  int
	done    bool
	usage   Usage
	timings Timings
	seen    seen
	fault   []byte // the JSON in which an error stands, nil without one
}

// grammar is how one API says things in JSON. It may keep what it needs of an
// answer from one event to the next.
type grammar interface {
	// reset forgets the answer before.
	reset()
	// begin forgets the document before.
	begin()
	// member reads the value of one member of the outermost object, whose name
	// the scanner has just read.
	member(d *Decoder, s *scanner)
	// end is called when the whole document has been read and is JSON.
	end(d *Decoder)
}

// seen is which parts of the known shapes a text had.
type seen struct {
	// known says that it had any part of an answer.
	known, usage, timings bool
	// failed says that it is an error, whatever words it has.
	failed bool
	// odd says that something known had a kind of value that no server sends.
	odd bool
}

// Reset forgets the answer before: the next event is the first of another one.
func (d *Decoder) Reset() { d.speaks().reset() }

func (d *Decoder) speaks() grammar {
	if d.grammar == nil {
		return chunks{}
	}
	return d.grammar
}

// Decode decodes the payload of one event (or one line of newline-delimited
// JSON) into ev, overwriting all of it. It never fails: what cannot be
// understood is marked as a surprise. An empty payload says nothing.
func (d *Decoder) Decode(data []byte, ev *Event) {
	d.clear()
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
	ev.Error, ev.ErrorCode = d.failure(data)
	ev.Surprise = d.seen.odd || !d.seen.known && ev.Error == ""
}

// Document decodes a whole answer that was not streamed, as a server sends that
// ignores the wish for a stream: one JSON document, or several one after the
// other, whose texts are joined.
func (d *Decoder) Document(body []byte, ev *Event) {
	d.clear()
	*ev = Event{Tokens: -1}
	values := json.NewDecoder(bytes.NewReader(body))
	var text string
	var code int
	for values.More() {
		var value json.RawMessage
		if values.Decode(&value) != nil || !d.walk(value) {
			*ev = Event{Tokens: -1, Surprise: true}
			return
		}
		if text == "" {
			text, code = d.failure(value)
		}
	}
	d.fill(ev)
	ev.Error, ev.ErrorCode = text, code
	ev.Surprise = d.seen.odd || !d.seen.known && text == ""
}

// clear forgets the event decoded last.
func (d *Decoder) clear() {
	d.content, d.reasoning = d.content[:0], d.reasoning[:0]
	d.tool, d.finish = d.tool[:0], d.finish[:0]
	d.tokens, d.done, d.fault = -1, false, nil
	d.usage = Usage{-1, -1, -1, -1}
	d.timings = Timings{-1, -1, -1, -1, -1}
	d.seen = seen{}
}

// fill writes what the walk found into ev.
func (d *Decoder) fill(ev *Event) {
	*ev = Event{
		Content: d.content, Reasoning: d.reasoning, Tool: d.tool,
		FinishReason: d.finish, Tokens: d.tokens, Done: d.done,
	}
	if d.seen.timings {
		ev.Timings = &d.timings
	}
	if d.seen.usage {
		ev.Usage = &d.usage
	}
}

// failure is the text and the code of the error in a document, empty if it has
// none. What is no part of an answer may be one of a server's framework.
func (d *Decoder) failure(data []byte) (string, int) {
	fault := d.fault
	switch {
	case fault != nil:
	case d.seen.failed || !d.seen.known:
		fault = data
	default:
		return "", 0
	}
	text, code := streamError(fault, d.seen.known && !d.seen.failed)
	if text == "" && d.seen.failed {
		text = oneLine(string(data))
	}
	return text, code
}

// walk reads one JSON text; false if it is none.
func (d *Decoder) walk(data []byte) bool {
	g, s := d.speaks(), &d.scan
	g.begin()
	s.start(data)
	if s.enter('{') {
		for s.key() {
			g.member(d, s)
		}
	}
	d.seen.odd = d.seen.odd || s.odd
	if !s.end() {
		return false
	}
	g.end(d)
	return true
}

// within begins to read a value that the walk has kept; false if it is no
// object, or absent.
func (d *Decoder) within(raw []byte) (*scanner, bool) {
	if isNull(raw) {
		return nil, false
	}
	d.inner.start(raw)
	if !d.inner.enter('{') {
		d.seen.odd = true
		return nil, false
	}
	return &d.inner, true
}

// left is to be called when all of a value was read that within began.
func (d *Decoder) left(s *scanner) { d.seen.odd = d.seen.odd || s.odd }

// finished sets the finish reason.
func (d *Decoder) finished(reason string) { d.finish = append(d.finish[:0], reason...) }

// finishedAs sets the finish reason to the text of a string, by its name in
// OpenAI's words where it has one.
func (d *Decoder) finishedAs(raw []byte, names map[string]string) {
	if !isString(raw) || len(raw) <= 2 {
		return
	}
	d.finish = appendUnescaped(d.finish[:0], raw[1:len(raw)-1])
	if name, ok := names[string(d.finish)]; ok {
		d.finished(name)
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

// appendArguments appends the arguments of a call: a text, or an object, whose
// JSON is the text.
func (d *Decoder) appendArguments(raw []byte) {
	if len(raw) > 0 && raw[0] == '{' {
		d.tool = appendValid(d.tool, raw)
		return
	}
	d.appendString(&d.tool, raw)
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
	d.appendArguments(arguments)
}

// toolCalls reads a list of tool calls.
func (d *Decoder) toolCalls(raw []byte) {
	if isNull(raw) {
		return
	}
	s := &d.inner
	s.start(raw)
	if s.enter('[') {
		for s.element() {
			d.toolCall(s)
		}
	}
	d.left(s)
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
