package truth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"speedmatrix/internal/wire"
)

// speak routes the further APIs of the script.
func (s *Server) speak(mux *http.ServeMux) {
	for _, api := range s.script.APIs {
		mux.HandleFunc("POST "+api.Path(), func(w http.ResponseWriter, r *http.Request) {
			if api == wire.Messages && r.Header.Get("Anthropic-Version") == "" {
				wire.NoVersion().In(api).Write(w)
				return
			}
			s.generate(w, r, api)
		})
	}
}

// enters says whether a request has the key that its path asks for.
func (s *Server) enters(r *http.Request) bool {
	if s.script.Auth == "" {
		return true
	}
	for _, api := range s.script.APIs {
		if r.URL.Path == api.Path() {
			return wire.Key(api, r.Header) == s.script.Auth
		}
	}
	if !strings.HasPrefix(r.URL.Path, "/v1/") || wire.Key(wire.Chat, r.Header) == s.script.Auth {
		return true
	}
	// A list of models is the same for all APIs.
	return slices.Contains(s.script.APIs, wire.Messages) && wire.Key(wire.Messages, r.Header) == s.script.Auth
}

// tooLong is Ollama's refusal of a prompt that it may not cut.
func (s *Server) tooLong(call *wire.Request, prompt int) *wire.Problem {
	if call.API == wire.OllamaChat && !call.Truncate && s.script.MaxLength > 0 && prompt > s.script.MaxLength {
		return wire.InputTooLong()
	}
	return nil
}

// emitEach sends n tokens from the given one on, each in an event of its own and
// all in one write.
func (g *generation) emitEach(token, n int) error {
	g.started = true
	for i := token; i < token+n; i++ {
		if g.out != nil {
			g.out.hold = i < token+n-1
		}
		channel := wire.Content
		if g.channel(i) == Hidden {
			channel = wire.Special
		}
		if err := g.event(i, i+1, channel); err != nil {
			return err
		}
	}
	return nil
}

// say sends the tokens from ≤ token < to through the API's speaker.
func (g *generation) say(from, to int, channel, text string) error {
	c := wire.Chunk{Channel: channel, Text: text, Usage: g.said(to)}
	if channel == wire.Tool && from == 0 {
		c.ToolName = "write"
	}
	if to == g.total {
		c.Finish = g.finish
	}
	event := Event{Tokens: to, Length: len(text), Channel: channel}
	if channel == wire.Special {
		event.Length = 0
	}
	if err := g.out.say(g.out.speaker.Say(&c), event); err != nil || to < g.total {
		return err
	}
	return g.out.flush()
}

// said is the usage after so many tokens, nil if the script has none.
func (g *generation) said(tokens int) *wire.Usage {
	if g.s.script.Usage == UsageNone {
		return nil
	}
	g.fillUsage(tokens, true)
	return &g.usage
}

// open sends what an API says before any text.
func (g *generation) open() error { return g.out.say(g.out.speaker.Open(g.said(0)), Event{}) }

// close sends what an API says at the end.
func (g *generation) close() error {
	g.fillTimings(g.total)
	if err := g.out.say(g.out.speaker.Close(g.finish, g.said(g.total), &g.timings), Event{}); err != nil {
		return err
	}
	return g.out.flush()
}

// whole answers in one document.
func (g *generation) whole() {
	g.fillTimings(g.total)
	answer := wire.Answer{
		Stream: g.stream(), Text: string(g.text), Reasoning: string(g.thought), Finish: g.finish,
		Usage: g.said(g.total), Timings: &g.timings,
	}
	document := answer.Document
	if speaker := wire.NewSpeaker(g.stream()); speaker != nil {
		document = func() []byte { return speaker.Document(&answer) }
	} else {
		answer.Timings = nil
	}
	wire.WriteJSON(g.w, document())
}

// say queues the events of a speaker; event is the account of the one with the
// text. It writes unless more is to come in the same write.
func (e *emitter) say(list []wire.Event, event Event) error {
	for _, ev := range list {
		e.name = ev.Name
		if end := e.frame(ev.Data, false); ev.Text {
			e.pending = append(e.pending, pending{event, end})
		}
	}
	e.name = ""
	if e.hold || len(list) == 0 || len(e.pending) > 0 && len(e.pending) < e.s.script.Framing.EventsPerWrite {
		return nil
	}
	return e.flush()
}

// fail sends the event of a failure, and all that is queued before it.
func (e *emitter) fail(p *wire.Problem, last bool) error {
	if e.speaker == nil {
		return e.data(p.Body(), last)
	}
	if err := e.say(e.speaker.Fail(p), Event{}); err != nil {
		return fmt.Errorf("send a failure: %w", err)
	}
	return e.flush()
}
