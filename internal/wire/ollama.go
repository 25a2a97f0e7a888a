package wire

import (
	"strconv"
	"time"
)

// NDJSON is the content type of one JSON document a line.
const NDJSON = "application/x-ndjson"

// ollamaSpeaker speaks Ollama's own chat API: each event is a line.
type ollamaSpeaker struct{ stream Stream }

func (o *ollamaSpeaker) head() object {
	at := time.Unix(o.stream.Created, 0).UTC().Format(time.RFC3339Nano)
	return object(nil).text("model", o.stream.Model).text("created_at", at)
}

func (o *ollamaSpeaker) Open(*Usage) []Event { return nil }

func (o *ollamaSpeaker) Say(c *Chunk) []Event {
	m := object(nil).text("role", "assistant")
	switch c.Channel {
	case Reasoning:
		m = m.text("content", "").text("thinking", c.Text)
	case Tool:
		// Arguments are an object here, whole in each event.
		call := object(nil).text("name", c.ToolName).raw("arguments", string(object(nil).text("text", c.Text).end())).end()
		m = m.text("content", "").raw("tool_calls", `[{"function":`+string(call)+`}]`)
	default:
		m = m.text("content", c.Text)
	}
	return []Event{{Data: o.head().raw("message", string(m.end())).raw("done", "false").end(), Text: true}}
}

func (o *ollamaSpeaker) Close(finish string, u *Usage, t *Timings) []Event {
	last := o.head().raw("message", `{"role":"assistant","content":""}`)
	return []Event{{Data: o.ended(last, &Answer{Finish: finish, Usage: u, Timings: t})}}
}

// ended adds what the last line says of the whole answer.
func (o *ollamaSpeaker) ended(line object, a *Answer) []byte {
	line = line.raw("done", "true").text("done_reason", a.Finish)
	if t := a.Timings; t != nil {
		line = line.raw("total_duration", nanos(t.PromptMillis+t.PredictedMillis)).raw("load_duration", "1000000")
	}
	if a.Usage != nil {
		line = line.known("prompt_eval_count", a.Usage.Prompt)
	}
	if t := a.Timings; t != nil {
		line = line.raw("prompt_eval_duration", nanos(t.PromptMillis))
	}
	if a.Usage != nil {
		line = line.known("eval_count", a.Usage.Completion)
	}
	if t := a.Timings; t != nil {
		line = line.raw("eval_duration", nanos(t.PredictedMillis))
	}
	return line.end()
}

// nanos is milliseconds as nanoseconds in JSON.
func nanos(millis float64) string { return strconv.FormatInt(int64(millis*1e6), 10) }

func (o *ollamaSpeaker) Fail(p *Problem) []Event { return []Event{{Data: p.In(OllamaChat).Body()}} }

func (o *ollamaSpeaker) Ping() []Event { return nil }

func (o *ollamaSpeaker) Document(a *Answer) []byte {
	m := object(nil).text("role", "assistant").text("content", a.Text)
	if a.Reasoning != "" {
		m = m.text("thinking", a.Reasoning)
	}
	return o.ended(o.head().raw("message", string(m.end())), a)
}
