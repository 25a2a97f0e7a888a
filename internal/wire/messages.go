package wire

import "strconv"

// messageSpeaker speaks Anthropic's Messages API.
type messageSpeaker struct {
	stream  Stream
	opened  bool
	channel string // of the block that is open, "" for none
	blocks  int    // begun so far
	// begun is the usage that the answer opened with.
	begun *Usage
}

func (m *messageSpeaker) event(name string, o object) Event {
	return Event{Name: name, Data: append(object(nil).text("type", name), o.rest()...)}
}

// rest is the members of an object, to follow others.
func (o object) rest() []byte {
	if len(o) == 0 {
		return []byte{'}'}
	}
	return append(append([]byte{','}, o[1:]...), '}')
}

// promptUsage adds the three parts of a prompt.
func promptUsage(o object, u *Usage) object {
	if u.Cached < 0 {
		return o.known("input_tokens", u.Prompt)
	}
	return o.number("input_tokens", u.Prompt-u.Cached).number("cache_creation_input_tokens", 0).number("cache_read_input_tokens", u.Cached)
}

// Open says one output token, as the API does before there is any.
func (m *messageSpeaker) Open(u *Usage) []Event {
	if m.opened {
		return nil
	}
	m.opened, m.begun = true, u
	o := m.head().raw("content", "[]").raw("stop_reason", "null").raw("stop_sequence", "null")
	if u != nil {
		o = o.raw("usage", string(promptUsage(nil, u).number("output_tokens", 1).end()))
	}
	return []Event{m.event("message_start", object(nil).raw("message", string(o.end())))}
}

func (m *messageSpeaker) head() object {
	return object(nil).text("id", m.stream.ID).text("type", "message").text("role", "assistant").text("model", m.stream.Model)
}

func (m *messageSpeaker) Say(c *Chunk) []Event {
	list := m.Open(c.Usage)
	channel := channelOf(c)
	if m.channel != channel {
		list = append(append(list, m.stop()...), m.block(channel, c.ToolName))
	}
	kind, field := "text_delta", "text"
	switch channel {
	case Reasoning:
		kind, field = "thinking_delta", "thinking"
	case Tool:
		kind, field = "input_json_delta", "partial_json"
	}
	delta := object(nil).text("type", kind).text(field, c.Text).end()
	e := m.event("content_block_delta", object(nil).number("index", m.blocks-1).raw("delta", string(delta)))
	e.Text = true
	return append(list, e)
}

// block opens a block.
func (m *messageSpeaker) block(channel, name string) Event {
	var o object
	switch channel {
	case Reasoning:
		o = o.text("type", "thinking").text("thinking", "").text("signature", "")
	case Tool:
		o = o.text("type", "tool_use").text("id", "toolu-0").text("name", name).raw("input", "{}")
	default:
		o = o.text("type", "text").text("text", "")
	}
	m.channel = channel
	m.blocks++
	return m.event("content_block_start", object(nil).number("index", m.blocks-1).raw("content_block", string(o.end())))
}

// stop closes the block that is open.
func (m *messageSpeaker) stop() []Event {
	if m.channel == "" {
		return nil
	}
	place := object(nil).number("index", m.blocks-1)
	var list []Event
	if m.channel == Reasoning {
		signature := object(nil).text("type", "signature_delta").text("signature", "c2lnbmVk").end()
		list = append(list, m.event("content_block_delta", object(nil).number("index", m.blocks-1).raw("delta", string(signature))))
	}
	m.channel = ""
	return append(list, m.event("content_block_stop", place))
}

// Close says the output tokens alone where the prompt was said at the start.
func (m *messageSpeaker) Close(finish string, u *Usage, _ *Timings) []Event {
	list := append(m.Open(u), m.stop()...)
	delta := object(nil).text("stop_reason", stopReason(finish)).raw("stop_sequence", "null").end()
	o := object(nil).raw("delta", string(delta))
	if u != nil {
		var usage object
		if m.begun == nil {
			usage = promptUsage(usage, u)
		}
		o = o.raw("usage", string(usage.known("output_tokens", u.Completion).end()))
	}
	return append(list, m.event("message_delta", o), m.event("message_stop", nil))
}

func stopReason(finish string) string {
	if finish == FinishLength {
		return "max_tokens"
	}
	return "end_turn"
}

func (m *messageSpeaker) Fail(p *Problem) []Event {
	return []Event{{Name: "error", Data: p.In(Messages).Body()}}
}

func (m *messageSpeaker) Ping() []Event { return []Event{m.event("ping", nil)} }

func (m *messageSpeaker) Document(a *Answer) []byte {
	content := ""
	if a.Reasoning != "" {
		content = string(object(nil).text("type", "thinking").text("thinking", a.Reasoning).text("signature", "").end()) + ","
	}
	content += string(object(nil).text("type", "text").text("text", a.Text).end())
	o := m.head().raw("content", "["+content+"]").text("stop_reason", stopReason(a.Finish)).raw("stop_sequence", "null")
	if a.Usage != nil {
		o = o.raw("usage", string(promptUsage(nil, a.Usage).known("output_tokens", a.Usage.Completion).end()))
	}
	return o.end()
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
