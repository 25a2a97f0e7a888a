package wire

import (
	"slices"
	"strconv"
)

// responseSpeaker speaks OpenAI's Responses API, in vLLM's order: each event
// names its type twice, and each text comes again, whole, when it is done.
type responseSpeaker struct {
	stream   Stream
	opened   bool
	channel  string // of the item that is open, "" for none
	text     []byte // of that item
	items    [][]byte
	sequence int
}

// responseNames are the names of a channel's events, up to their last word.
var responseNames = map[string]string{
	Content: "response.output_text", Reasoning: "response.reasoning_text", Tool: "response.function_call_arguments",
}

func (r *responseSpeaker) event(name string, o object) Event {
	o = o.number("sequence_number", r.sequence).text("type", name)
	r.sequence++
	return Event{Name: name, Data: o.end()}
}

// response is the response object in a state.
func (r *responseSpeaker) response(status, reason string, u *Usage) object {
	details, usage := "null", "null"
	if reason != "" {
		details = string(object(nil).text("reason", reason).end())
	}
	if u != nil {
		usage = string(responseUsage(u))
	}
	output := []byte{'['}
	for i, item := range r.items {
		if i > 0 {
			output = append(output, ',')
		}
		output = append(output, item...)
	}
	return object(nil).text("id", r.stream.ID).text("object", "response").raw("created_at", strconv.FormatInt(r.stream.Created, 10)).
		text("model", r.stream.Model).text("status", status).raw("error", "null").raw("incomplete_details", details).
		raw("output", string(append(output, ']'))).raw("usage", usage)
}

func responseUsage(u *Usage) []byte {
	total := u.Total
	if total == 0 {
		total = max(u.Prompt, 0) + max(u.Completion, 0)
	}
	return object(nil).known("input_tokens", u.Prompt).
		raw("input_tokens_details", string(object(nil).known("cached_tokens", u.Cached).end())).
		known("output_tokens", u.Completion).
		raw("output_tokens_details", string(object(nil).known("reasoning_tokens", u.Reasoning).end())).
		number("total_tokens", total).end()
}

func (r *responseSpeaker) Open(*Usage) []Event {
	if r.opened {
		return nil
	}
	r.opened = true
	begun := string(r.response("in_progress", "", nil).end())
	return []Event{
		r.event("response.created", object(nil).raw("response", begun)),
		r.event("response.in_progress", object(nil).raw("response", begun)),
	}
}

func (r *responseSpeaker) Say(c *Chunk) []Event {
	list := r.Open(nil)
	channel := channelOf(c)
	if r.channel != channel {
		list = append(list, r.done()...)
		list = append(list, r.begin(channel, c.ToolName)...)
	}
	r.text = append(r.text, c.Text...)
	e := r.event(responseNames[channel]+".delta", r.place().text("delta", c.Text))
	e.Text = true
	return append(list, e)
}

// channelOf is the channel of a chunk.
func channelOf(c *Chunk) string {
	if c.Channel == "" {
		return Content
	}
	return c.Channel
}

// place says of which item an event speaks.
func (r *responseSpeaker) place() object {
	return object(nil).text("item_id", "item-"+strconv.Itoa(len(r.items))).number("output_index", len(r.items)).number("content_index", 0)
}

// item is the item of a channel with its text.
func (r *responseSpeaker) item(channel, name, text string) []byte {
	o := object(nil).text("id", "item-"+strconv.Itoa(len(r.items)))
	part := func(kind string) string {
		return "[" + string(object(nil).text("type", kind).text("text", text).end()) + "]"
	}
	switch {
	case channel == Tool:
		return o.text("type", "function_call").text("call_id", "call-0").text("name", name).text("arguments", text).end()
	case channel == Reasoning:
		return o.text("type", "reasoning").raw("summary", "[]").raw("content", part("reasoning_text")).end()
	case text == "":
		return o.text("type", "message").text("role", "assistant").raw("content", "[]").end()
	}
	return o.text("type", "message").text("role", "assistant").raw("content", part("output_text")).end()
}

// begin opens an item.
func (r *responseSpeaker) begin(channel, name string) []Event {
	r.channel, r.text = channel, nil
	list := []Event{r.event("response.output_item.added",
		object(nil).raw("item", string(r.item(channel, name, ""))).number("output_index", len(r.items)))}
	if channel != Tool {
		list = append(list, r.event("response.content_part.added", r.place().raw("part", `{"type":"text","text":""}`)))
	}
	return list
}

// done closes the item that is open.
func (r *responseSpeaker) done() []Event {
	if r.channel == "" {
		return nil
	}
	whole := string(r.text)
	field := "text"
	if r.channel == Tool {
		field = "arguments"
	}
	item := r.item(r.channel, "write", whole)
	list := []Event{
		r.event(responseNames[r.channel]+".done", r.place().text(field, whole)),
		r.event("response.output_item.done", object(nil).raw("item", string(item)).number("output_index", len(r.items))),
	}
	r.items = append(r.items, item)
	r.channel = ""
	return list
}

func (r *responseSpeaker) Close(finish string, u *Usage, _ *Timings) []Event {
	list := append(r.Open(nil), r.done()...)
	status, reason := responseStatus(finish)
	return append(list, r.event("response."+status, object(nil).raw("response", string(r.response(status, reason, u).end()))))
}

func responseStatus(finish string) (status, reason string) {
	if finish == FinishLength {
		return "incomplete", "max_output_tokens"
	}
	return "completed", ""
}

// Fail: a response that has begun fails; one that has not is an error.
func (r *responseSpeaker) Fail(p *Problem) []Event {
	if !r.opened {
		return []Event{r.event("error", object(nil).text("code", strconv.Itoa(p.Status)).text("message", p.Message).raw("param", "null"))}
	}
	failed := object(nil).text("code", p.Type).text("message", p.Message).end()
	o := object(nil).text("id", r.stream.ID).text("object", "response").text("status", "failed").raw("error", string(failed))
	return []Event{r.event("response.failed", object(nil).raw("response", string(o.end())))}
}

func (r *responseSpeaker) Ping() []Event { return nil }

func (r *responseSpeaker) Document(a *Answer) []byte {
	for _, part := range []struct{ channel, text string }{{Reasoning, a.Reasoning}, {Content, a.Text}} {
		if part.text != "" {
			r.items = append(r.items, r.item(part.channel, "", part.text))
		}
	}
	status, reason := responseStatus(a.Finish)
	return slices.Clone(r.response(status, reason, a.Usage).end())
}
