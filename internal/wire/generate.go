package wire

// generateSpeaker speaks TGI's /generate_stream: an event is a token.
type generateSpeaker struct {
	count int
	text  []byte
}

// Special is the channel of a token that has a name and no text.
const Special = "special"

func (g *generateSpeaker) Open(*Usage) []Event { return nil }

func (g *generateSpeaker) Say(c *Chunk) []Event {
	g.count++
	token := object(nil).number("id", 1000+g.count).text("text", c.Text).raw("logprob", "-0.5").raw("special", "false")
	if c.Channel == Special {
		token = object(nil).number("id", 2).text("text", "</s>").raw("logprob", "-0.5").raw("special", "true")
	} else {
		g.text = append(g.text, c.Text...)
	}
	o := object(nil).number("index", g.count).raw("token", string(token.end()))
	if c.Finish == "" {
		o = o.raw("generated_text", "null").raw("details", "null")
	} else {
		o = o.text("generated_text", string(g.text)).raw("details", details(c.Finish, c.Usage))
	}
	return []Event{{Data: o.end(), Text: true}}
}

// details says how an answer ended.
func details(finish string, u *Usage) string {
	if u == nil {
		u = &Usage{Prompt: -1, Completion: -1}
	}
	reason := "eos_token"
	if finish == FinishLength {
		reason = "length"
	}
	return string(object(nil).text("finish_reason", reason).known("generated_tokens", u.Completion).
		raw("seed", "null").known("input_length", u.Prompt).end())
}

func (g *generateSpeaker) Close(string, *Usage, *Timings) []Event { return nil }

func (g *generateSpeaker) Fail(p *Problem) []Event { return []Event{{Data: p.In(Generate).Body()}} }

func (g *generateSpeaker) Ping() []Event { return nil }

func (g *generateSpeaker) Document(a *Answer) []byte {
	return object(nil).text("generated_text", a.Text).raw("details", details(a.Finish, a.Usage)).end()
}
