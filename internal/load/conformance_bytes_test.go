package load

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf16"

	"speedmatrix/internal/dialect"
	"speedmatrix/internal/sse"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// body gives the bytes of a server's answer, with text of every kind on two
// channels, and its account.
func (p *party) body() ([]byte, truth.Request) {
	p.t.Helper()
	request, err := p.dialect.Body(p.params)
	if err != nil {
		p.t.Fatal(err)
	}
	dial := p.client.options.Dial
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://server:80"+p.dialect.Path(), bytes.NewReader(request))
	if err != nil {
		p.t.Fatal(err)
	}
	for name, value := range p.dialect.Headers("") {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("status %s, %v: %s", resp.Status, err, body)
	}
	synctest.Wait()
	return body, p.server.Account().Requests[0]
}

// told is what a client makes of a body.
type told struct {
	events string
	text   string
	log    string
}

// follow reads a body that comes in pieces, on a stream that has read others before.
func follow(s *stream, x *exchange, pieces ...[]byte) told {
	s.reset()
	*x = exchange{stream: s, ctx: x.ctx, live: &live{cancel: x.live.cancel}, record: newRecord(1)}
	x.log = &Log{record: x.record, Usage: dialect.Usage{Prompt: -1, Cached: -1, Completion: -1, Reasoning: -1}}
	s.textLeft = textLimit
	for _, piece := range pieces {
		x.take(bytes.Clone(piece), 1)
	}
	x.end(io.EOF)
	x.publish()
	if x.grace != nil {
		x.grace.Stop()
	}
	var events []string
	for e := range x.log.Events() {
		events = append(events, fmt.Sprint(e.Length, e.Tokens, e.Channel, e.Continued))
	}
	l := x.log
	return told{strings.Join(events, "\n"), string(l.Text()), fmt.Sprintf("%v %v %q %q %q %d %v", l.Usage, l.Timings, l.FinishReason, l.Failure, l.Error, l.Surprises, x.finished)}
}

// escaped writes every character that is not ASCII as JSON escapes.
func escaped(body []byte) []byte {
	var out []byte
	for _, r := range string(body) {
		switch {
		case r < 0x80:
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04X`, high, low)
		}
	}
	return out
}

// strangers puts events that nobody knows yet between those of a body.
func (p *party) strangers(body []byte) []byte {
	if p.dialect.Framing() == sse.Lines {
		return bytes.ReplaceAll(body, []byte("\n"), []byte("\n{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\",\"dreams\":{}},\"done\":false}\n"))
	}
	stranger := map[wire.API]string{
		wire.Chat: `{"object":"chat.dream","choices":[],"dream":1}`, wire.Completions: `{"object":"dream","choices":[]}`,
		wire.Responses: `{"type":"response.dream.delta","delta":{"a":1}}`, wire.Messages: `{"type":"dream","delta":{"text":"a"}}`,
		wire.Generate: ``,
	}[p.api]
	return bytes.ReplaceAll(body, []byte("\n\n"), []byte("\n\n: note\n\nevent: dream\nid: 1\ndata: "+stranger+"\n\n"))
}

func TestConformAnAnswerIsTheSameHoweverItIsCutAndWritten(t *testing.T) {
	script := truth.Script{
		Text: func(_, token int) string {
			return []string{" a", "\"\\\n", "é\U0001F600", "\u2028", "{\"x\":"}[token%5]
		},
		Channel: func(_, token int) string { return []string{wire.Reasoning, wire.Content, wire.Tool}[token/4%3] },
	}
	conform(t, script, func(t *testing.T, p *party) {
		p.params.MaxTokens = 11
		body, r := p.body()
		s, x := streamOf(t, p.dialect)
		whole := follow(s, x, body)
		if n := strings.Count(whole.events, "\n") + 1; n < len(r.Events) || !strings.Contains(whole.text, "é\U0001F600") {
			t.Fatalf("%d events, want at least %d:\n%s\n%q", n, len(r.Events), whole.events, whole.text)
		}
		if !strings.HasSuffix(whole.log, `"length" "" "" 0 true`) {
			t.Errorf("the end: %s", whole.log)
		}
		for at := range len(body) + 1 {
			if got := follow(s, x, body[:at], body[at:]); got != whole {
				t.Fatalf("cut at %d:\n got %+v\nwant %+v", at, got, whole)
			}
		}
		if got := follow(s, x, bytes.SplitAfter(body, nil)...); got != whole {
			t.Errorf("byte by byte:\n got %+v\nwant %+v", got, whole)
		}
		for name, other := range map[string][]byte{
			"escaped":                   escaped(body),
			"with strangers":            p.strangers(body),
			"with CRLF":                 bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n")),
			"with a mark":               append([]byte("\ufeff"), body...),
			"with blank lines":          append([]byte("\n\n"), body...),
			"without its last line end": bytes.TrimRight(body, "\n"),
		} {
			if name == "escaped" && p.api == wire.OllamaChat {
				continue // the arguments of its calls are JSON, kept as it was written
			}
			if got := follow(s, x, other); got != whole {
				t.Errorf("%s:\n got %+v\nwant %+v", name, got, whole)
			}
		}
	})
}

// A proxy may turn one framing into the other.
func TestConformTheFramingIsToldByTheBytes(t *testing.T) {
	conform(t, truth.Script{}, func(t *testing.T, p *party) {
		body, _ := p.body()
		s, x := streamOf(t, p.dialect)
		whole := follow(s, x, body)
		other := bytes.ReplaceAll(body, []byte("\n\n"), []byte("\n"))
		if p.dialect.Framing() == sse.Lines {
			other = bytes.ReplaceAll(append([]byte("data: "), body...), []byte("\n{"), []byte("\n\ndata: {"))
		} else {
			var lines [][]byte
			for line := range bytes.Lines(other) {
				if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && data[0] == '{' {
					lines = append(lines, data)
				}
			}
			other = bytes.Join(lines, nil)
		}
		for at := range len(other) {
			if got := follow(s, x, other[:at], other[at:]); got.events != whole.events || got.text != whole.text {
				t.Fatalf("cut at %d:\n got %+v\nwant %+v", at, got, whole)
			}
		}
	})
}
