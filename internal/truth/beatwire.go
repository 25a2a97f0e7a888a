package truth

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"speedmatrix/internal/stamp"
	"speedmatrix/internal/wire"
)

// beatModel is the name under which a BeatServer serves.
const beatModel = "truth"

// beatTemplate is what a chat adds to its prompt, in tokens.
const beatTemplate = 11

// beatHead is what every streamed answer begins with.
const beatHead = "HTTP/1.1 200 OK\r\nContent-Type: " + wire.EventStream + "\r\nTransfer-Encoding: chunked\r\n\r\n"

// route answers a request for anything but the account.
func (s *BeatServer) route(conn *stamp.Conn, r *http.Request) error {
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/chat/completions":
		return s.answer(conn, r, wire.Chat)
	case "POST /v1/completions":
		return s.answer(conn, r, wire.Completions)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	switch r.URL.Path {
	case "/v1/models":
		created := time.Unix(0, s.began).Unix()
		return reply(conn, r, http.StatusOK, wire.Models(wire.Model{ID: beatModel, OwnedBy: "truth", Created: created}))
	case "/health":
		return reply(conn, r, http.StatusOK, nil)
	}
	return reply(conn, r, http.StatusNotFound, wire.NotFound().Body())
}

// reply sends a document; to HEAD its length alone.
func reply(conn *stamp.Conn, r *http.Request, status int, document []byte) error {
	head := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		status, http.StatusText(status), len(document))
	if r.Method != http.MethodHead {
		head = append(head, document...)
	}
	_, err := conn.Write(head)
	return err
}

// answer puts a request on the beat and returns when its answer has ended.
func (s *BeatServer) answer(conn *stamp.Conn, r *http.Request, api wire.API) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	arrived, kernel := conn.LastRead()
	call, problem := wire.Decode(api, body)
	switch {
	case problem != nil:
	case call.MaxTokens < 1:
		problem = wire.MaxTokensTooSmall(call.MaxTokens)
	case !call.Stream:
		problem = &wire.Problem{Status: http.StatusBadRequest, Message: "this server only streams", Type: "BadRequestError", Param: "stream"}
	}
	if problem != nil {
		return reply(conn, r, problem.Status, problem.Body())
	}
	seed, _ := strconv.Atoi(string(call.Fields["seed"])) // without one it is 0
	// A client that stops reading must not stop the beat of the others for long.
	whole := s.beat.Wait + time.Duration(call.MaxTokens)*s.beat.Gap
	if err := conn.SetWriteDeadline(time.Now().Add(2*whole + 10*time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, beatHead); err != nil {
		return err
	}
	kind := beatKind{api: api, prompt: beatPrompt(call), usage: call.IncludeUsage && call.ContinuousUsage}
	t := &beatStream{conn: conn, total: call.MaxTokens, ended: make(chan error, 1), tail: kind.tail(call.MaxTokens, call.IncludeUsage),
		request: &BeatRequest{Seed: seed, ArrivedNS: arrived, Kernel: kernel, Sent: make([]Sent, 0, call.MaxTokens)}}
	s.join(t, kind)
	select {
	case err := <-t.ended:
		return err
	case <-s.closing:
		return errClosing
	}
}

// beatPrompt is the number of tokens of a request's prompt.
func beatPrompt(call *wire.Request) int {
	n := len(call.PromptIDs)
	if call.API.Templated() {
		n += beatTemplate
	}
	for _, text := range promptTexts(call) {
		n += CountTokens(text)
	}
	return n
}

// beatKind is what the token events of an answer depend on: the API, the length
// of the prompt, and whether each event has the usage so far.
type beatKind struct {
	api    wire.API
	prompt int
	usage  bool
}

// beatEvents has the bytes of each token's event, in answers of one kind.
type beatEvents struct {
	kind   beatKind
	tokens [][]byte
}

func newBeatEvents(kind beatKind) *beatEvents { return &beatEvents{kind: kind} }

// grow makes the events of so many tokens.
func (e *beatEvents) grow(total int) {
	for i := len(e.tokens); i < total; i++ {
		c := &wire.Chunk{Text: Word(0, i)}
		if e.kind.usage {
			c.Usage = e.kind.usageAt(i + 1)
		}
		e.tokens = append(e.tokens, e.kind.event(c))
	}
}

// usageAt is the usage after so many tokens.
func (k beatKind) usageAt(tokens int) *wire.Usage {
	return &wire.Usage{Prompt: k.prompt, Completion: tokens, Cached: -1, Reasoning: -1}
}

// event is the bytes of one event.
func (k beatKind) event(c *wire.Chunk) []byte {
	e := wire.NewEncoder(wire.Stream{API: k.api, ID: "chatcmpl-0b9f3c1d2e4f5a6b7c8d9e0f1a2b3c4d", Model: beatModel, Created: 1_700_000_000})
	return httpChunk(wire.AppendEvent(nil, e.Append(nil, c)))
}

// tail is what follows the last token; the usage only for who asked.
func (k beatKind) tail(tokens int, usage bool) []byte {
	tail := k.event(&wire.Chunk{Bare: true, Finish: wire.FinishLength})
	if usage {
		tail = append(tail, k.event(&wire.Chunk{NoChoices: true, Usage: k.usageAt(tokens)})...)
	}
	tail = append(tail, httpChunk(wire.AppendEvent(nil, []byte(wire.Done)))...)
	return append(tail, "0\r\n\r\n"...)
}

func httpChunk(data []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data) }
