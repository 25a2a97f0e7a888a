package simserver

import (
	"strconv"
	"time"
	"unicode/utf8"

	"speedmatrix/internal/wire"
)

// reply encodes one answer in the shapes of vLLM, which package wire has for
// one choice without token ids only. What all its events share is encoded once.
type reply struct {
	call        *call
	group       *group
	choices     []choice
	head        []byte // an event until its choices
	fingerprint string
	buf, json   []byte
	opened      bool // the roles are said
}

// choice is how far one choice has been written.
type choice struct {
	job  *job
	sent int    // tokens
	held string // text that a stop string may yet take back
	past int    // bytes of text written
	done bool
}

func newReply(s *Server, c *call, g *group) *reply {
	object := "chat.completion"
	if c.API == wire.Completions {
		object = "text_completion"
	} else if c.Stream {
		object += ".chunk"
	}
	r := &reply{call: c, group: g, fingerprint: s.fingerprint, choices: make([]choice, len(g.jobs))}
	for i, j := range g.jobs {
		r.choices[i].job = j
	}
	r.head = append(r.head, `{"id":`...)
	r.head = wire.AppendString(r.head, g.id)
	r.head = append(r.head, `,"object":"`+object+`","created":`...)
	r.head = strconv.AppendInt(r.head, time.Now().Unix(), 10)
	r.head = append(r.head, `,"model":`...)
	r.head = wire.AppendString(r.head, s.served)
	r.head = append(r.head, `,"choices":[`...)
	return r
}

// news is what has happened to a choice since it was last looked at.
type news struct {
	tokens []uint32
	finish string
	stopAt int
	stop   string
	cached int
}

// look takes the news of a choice.
func (c *choice) look() news {
	j := c.job
	j.group.mu.Lock()
	defer j.group.mu.Unlock()
	return news{j.out[c.sent:], j.finish, j.stopAt, j.stop, j.cached}
}

// say moves a choice on and gives the text that can be written: what a stop
// string might take back waits, and what follows one is never said.
func (c *choice) say(words *tokenizer, n *news) string {
	text := c.held
	if len(n.tokens) == 1 && text == "" {
		text = words.text(n.tokens[0])
	} else if len(n.tokens) > 0 {
		text += words.join(n.tokens)
	}
	c.sent += len(n.tokens)
	keep := 0
	switch {
	case n.stop != "":
		text = text[:max(n.stopAt-c.past, 0)]
	case n.finish == "" && len(c.job.stops) > 0:
		keep = min(longestStop(c.job.stops)-1, len(text))
	}
	for keep < len(text) && keep > 0 && !utf8.RuneStart(text[len(text)-keep]) {
		keep++
	}
	c.held = text[len(text)-keep:]
	text = text[:len(text)-keep]
	c.past += len(text)
	return text
}

// events appends the events of all news to buf and says whether the answer is complete.
func (r *reply) events(words *tokenizer) (complete bool) {
	complete = true
	for i := range r.choices {
		c := &r.choices[i]
		if c.done {
			continue
		}
		n := c.look()
		if len(n.tokens) > 0 || n.finish != "" {
			r.roles()
			r.event(i, &n, c.say(words, &n))
			c.done = n.finish != ""
		}
		complete = complete && c.done
	}
	return complete
}

// roles opens the choices of a chat, once, right before the first token.
func (r *reply) roles() {
	if r.opened || r.call.API != wire.Chat {
		return
	}
	for i := range r.choices {
		r.open(i)
		r.json = append(r.json, `"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
		r.usage(i)
		r.promptIDs(i)
		r.close()
	}
	r.opened = true
}

// event appends the event of some tokens of a choice.
func (r *reply) event(i int, n *news, text string) {
	r.open(i)
	if r.call.API == wire.Completions {
		r.json = append(r.json, `"text":`...)
		r.json = wire.AppendString(r.json, text)
	} else {
		r.json = append(r.json, `"delta":{"content":`...)
		r.json = wire.AppendString(r.json, text)
		r.json = append(r.json, '}')
	}
	r.json = append(r.json, `,"logprobs":null,`...)
	r.json = appendFinish(r.json, n)
	r.json = append(r.json, `,"token_ids":`...)
	r.json = appendMaybe(r.json, n.tokens, r.call.ReturnTokenIDs)
	r.json = append(r.json, `}]`...)
	r.usage(i)
	if r.call.API == wire.Completions && r.choices[i].sent == len(n.tokens) {
		r.promptIDs(i)
	}
	r.close()
}

// open begins an event of a choice.
func (r *reply) open(i int) {
	r.json = append(r.json[:0], r.head...)
	r.json = append(r.json, `{"index":`...)
	r.json = strconv.AppendInt(r.json, int64(i), 10)
	r.json = append(r.json, ',')
}

// close ends an event and puts it into buf.
func (r *reply) close() {
	r.json = append(r.json, '}')
	r.buf = wire.AppendEvent(r.buf, r.json)
}

// usage appends the usage of a choice so far where each event carries one. It has no cached tokens.
func (r *reply) usage(i int) {
	if r.call.IncludeUsage && r.call.ContinuousUsage {
		u := wire.Usage{Prompt: len(r.choices[i].job.prompt), Completion: r.choices[i].sent, Cached: -1, Reasoning: -1}
		r.json = append(r.json, `,"usage":`...)
		r.json = wire.AppendUsage(r.json, &u)
	}
}

func (r *reply) promptIDs(i int) {
	r.json = append(r.json, `,"prompt_token_ids":`...)
	r.json = appendMaybe(r.json, r.choices[i].job.prompt, r.call.ReturnTokenIDs)
	r.json = append(r.json, `,"prompt_text":null`...)
}

// last appends the event of the final usage, if it was asked for, and [DONE].
func (r *reply) last() {
	if r.call.IncludeUsage {
		r.json = append(r.json[:0], r.head...)
		r.json = append(r.json, `],"usage":`...)
		r.json = wire.AppendUsage(r.json, r.total())
		r.json = append(r.json, `,"system_fingerprint":`...)
		r.json = wire.AppendString(r.json, r.fingerprint)
		r.close()
	}
	r.buf = append(r.buf, "data: "+wire.Done+"\n\n"...)
}

// total is the usage of the whole answer: each prompt once, all choices.
func (r *reply) total() *wire.Usage {
	u := &wire.Usage{Reasoning: -1}
	for i := range r.choices {
		c := &r.choices[i]
		u.Completion += c.sent
		if i%r.call.choices == 0 {
			u.Prompt += len(c.job.prompt)
			u.Cached += c.look().cached
		}
	}
	return u
}

// document is the whole answer in one.
func (r *reply) document(words *tokenizer) []byte {
	b := append([]byte(nil), r.head...)
	for i := range r.choices {
		c := &r.choices[i]
		n := c.look()
		text := c.say(words, &n)
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		if r.call.API == wire.Completions {
			b = append(b, `,"text":`...)
			b = wire.AppendString(b, text)
		} else {
			b = append(b, `,"message":{"role":"assistant","content":`...)
			b = wire.AppendString(b, text)
			b = append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null}`...)
		}
		b = append(b, `,"logprobs":null,`...)
		b = appendFinish(b, &n)
		b = append(b, `,"token_ids":`...)
		b = appendMaybe(b, n.tokens, r.call.ReturnTokenIDs)
		b = append(b, '}')
	}
	b = append(b, `],"usage":`...)
	b = wire.AppendUsage(b, r.total())
	b = append(b, `,"service_tier":null,"system_fingerprint":`...)
	b = wire.AppendString(b, r.fingerprint)
	b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
	b = appendMaybe(b, r.choices[0].job.prompt, r.call.ReturnTokenIDs)
	return append(b, `,"kv_transfer_params":null}`...)
}

// appendFinish appends the reasons why a choice ended, null while it goes on.
func appendFinish(b []byte, n *news) []byte {
	if n.finish == "" {
		return append(b, `"finish_reason":null`...)
	}
	b = append(b, `"finish_reason":`...)
	b = wire.AppendString(b, n.finish)
	if n.stop == "" {
		return append(b, `,"stop_reason":null`...)
	}
	b = append(b, `,"stop_reason":`...)
	return wire.AppendString(b, n.stop)
}

func appendMaybe(b []byte, ids []uint32, wanted bool) []byte {
	if !wanted {
		return append(b, "null"...)
	}
	return appendIDs(b, ids)
}

func appendIDs(b []byte, ids []uint32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return append(b, ']')
}
