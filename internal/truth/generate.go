package truth

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"speedmatrix/internal/wire"
)

// The output limits of a request that names none.
const (
	completionDefault = 16   // vLLM's, for completions
	unlimitedDefault  = 4096 // where neither the request nor the model has a limit
)

// How a request ended other than well.
var (
	errScripted = errors.New("failed as scripted")
	errDropped  = errors.New("connection ended as scripted")
)

// generate answers one request for text.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, api wire.API) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left before it had asked for anything
	}
	arrived := s.since()
	call, problem := wire.Decode(api, body)
	req := Request{Connection: -1, API: api, MaxTokens: -1, ArrivedNS: s.stampOf(arrived)}
	own, _ := r.Context().Value(connKey{}).(*conn)
	if own != nil {
		req.Connection = own.index
	}
	if problem != nil {
		s.refuse(w, s.newRecord(req), problem.In(api))
		return
	}
	prompt := s.measure(call)
	limit, problem := s.limit(call, prompt.tokens)
	s.describe(&req, call)
	req.PromptTokens, req.Limit = prompt.tokens, limit
	rec := s.newRecord(req)
	if problem != nil {
		s.refuse(w, rec, problem.In(api))
		return
	}
	g := &generation{
		s: s, w: w, call: call, rec: rec, conn: own, id: rec.req.ID, prompt: prompt,
		arrived: arrived, sleep: s.newSleeper(r.Context()), total: limit, finish: wire.FinishLength,
	}
	g.plan()
	g.serve()
}

// describe copies what was asked into the account.
func (s *Server) describe(req *Request, call *wire.Request) {
	req.Stream, req.MaxTokens = call.Stream, call.MaxTokens
	req.Fields = maps.Clone(call.Fields)
	delete(req.Fields, "messages")
	delete(req.Fields, "prompt")
	delete(req.Fields, "input")
	delete(req.Fields, "inputs")
	for name, raw := range req.Fields {
		req.Fields[name] = json.RawMessage(slices.Clone(raw)) // not the whole body
	}
	if s.script.KeepPrompts {
		req.Prompt = call.Text()
	}
}

// limit gives how many tokens may be generated at most, or why none.
func (s *Server) limit(call *wire.Request, prompt int) (int, *wire.Problem) {
	for _, field := range s.script.RejectFields {
		if call.Has(field) {
			return 0, wire.UnknownField(field)
		}
	}
	if problem := s.tooLong(call, prompt); problem != nil {
		return 0, problem
	}
	if s.script.Engine != LlamaCpp && call.Model != "" && call.Model != s.script.Model {
		return 0, wire.UnknownModel(call.Model, s.script.Model)
	}
	limit, longest := s.asked(call), s.script.MaxLength
	switch {
	case longest == 0:
		return limit, nil
	case s.script.Engine == LlamaCpp && prompt >= longest:
		return 0, wire.ContextExceeded(prompt, longest)
	case s.script.Engine != LlamaCpp && call.MaxTokens > longest:
		return 0, wire.MaxTokensTooLarge(call.MaxTokens, longest)
	case prompt > longest:
		return 0, wire.PromptTooLong(longest)
	case prompt == longest:
		return 0, wire.MaxTokensTooSmall(0)
	}
	return min(limit, longest-prompt), nil
}

// asked is the limit of output tokens that a request names, or the engine's default.
func (s *Server) asked(call *wire.Request) int {
	switch {
	case call.MaxTokens >= 0:
		return call.MaxTokens
	case call.API == wire.Completions && s.script.Engine == VLLM:
		return completionDefault
	case s.script.MaxLength > 0:
		return s.script.MaxLength
	}
	return unlimitedDefault
}

// refuse answers with an error by the rules of the engine.
func (s *Server) refuse(w http.ResponseWriter, rec *record, problem *wire.Problem) {
	problem.Write(w)
	rec.update(func(r *Request) {
		r.Class, r.Status, r.EndedNS = Refused, problem.Status, s.now()
	})
}

// generation is one answer; its methods run in the request's goroutine.
type generation struct {
	s       *Server
	w       http.ResponseWriter
	call    *wire.Request
	rec     *record
	conn    *conn
	id      int
	prompt  measured
	arrived time.Duration
	sleep   *sleeper

	total  int // tokens that will come
	finish string
	fail   *Failure
	pauses []Preemption // still to come, in order of time

	job       *job
	out       *emitter // nil for an answer in one document
	due       time.Duration
	firstDue  time.Duration
	onTicks   bool
	left      bool
	started   bool // the first token is out
	pings     int
	reasoning int // tokens of the reasoning and hidden channels so far

	text, thought []byte // of an answer in one document
	usage         wire.Usage
	timings       wire.Timings
}

// plan works out how the answer will end.
func (g *generation) plan() {
	script := &g.s.script
	call := Call{Request: g.id, At: g.arrived, PromptTokens: g.prompt.tokens, Body: g.call}
	if script.Fail != nil {
		g.fail = script.Fail(call)
	}
	if script.StopAfter != nil && (!g.call.IgnoreEOS || !script.HonourIgnoreEOS) {
		if n := script.StopAfter(call); n > 0 && n <= g.total {
			g.total, g.finish = n, wire.FinishStop
		}
	}
	if script.Finish != "" {
		g.finish = script.Finish
	}
	for _, p := range script.Preempt {
		if p.Request == g.id {
			g.pauses = append(g.pauses, p)
		}
	}
	slices.SortStableFunc(g.pauses, func(a, b Preemption) int { return cmp.Compare(a.At, b.At) })
}

// stream describes the chunks of the answer.
func (g *generation) stream() wire.Stream {
	prefix := "chatcmpl-truth-"
	if g.call.API == wire.Completions {
		prefix = "cmpl-truth-"
	}
	return wire.Stream{
		API: g.call.API, ID: prefix + strconv.Itoa(g.id), Model: g.s.script.Model, Created: g.s.begun.Unix(),
		ReasoningField: g.s.script.ReasoningField, TokenIDs: g.s.script.Engine == VLLM,
	}
}

// serve answers and books how it ended.
func (g *generation) serve() {
	if g.fail != nil && g.fail.Kind <= FailSilent {
		g.end(g.failAtOnce())
		return
	}
	if g.call.Stream && !g.s.script.IgnoreStream {
		g.out = &emitter{
			s: g.s, w: g.w, ctl: http.NewResponseController(g.w), conn: g.conn,
			enc: wire.NewEncoder(g.stream()), speaker: wire.NewSpeaker(g.stream()), lines: g.call.API == wire.OllamaChat, rec: g.rec,
		}
		if g.s.script.Framing.BOM {
			g.out.buf = append(g.out.buf, "\ufeff"...)
		}
	}
	g.job = g.s.sched.arrive(g.id, g.prompt, g.arrived)
	g.rec.update(func(r *Request) { r.job = g.job })
	g.end(g.run())
}

// end books the end of the request. Where the script or Close ends the
// connection as well it does not return.
func (g *generation) end(err error) {
	class := g.classify(err)
	if g.job != nil {
		finish := ""
		if class == Completed {
			finish = g.finish
		}
		g.leave(g.s.since(), finish)
	}
	g.rec.update(func(r *Request) {
		r.Class, r.EndedNS = class, g.s.now()
		if class == Completed {
			r.FinishReason = g.finish
		}
		if r.Status == 0 && !errors.Is(err, errDropped) {
			r.Status = http.StatusOK
		}
	})
	if err != nil && !errors.Is(err, errScripted) {
		panic(http.ErrAbortHandler) // the connection is of no more use
	}
	if err == nil && g.out != nil && g.s.script.CloseAfterStream {
		at := g.s.since() + g.s.script.CloseDelay
		g.out.hangUp(func() error { return g.sleep.until(at) })
	}
}

func (g *generation) classify(err error) Class {
	switch {
	case err == nil:
		return Completed
	case errors.Is(err, errScripted), errors.Is(err, errDropped):
		return Failed
	}
	select {
	case <-g.s.closing:
		return Closed
	default:
		return Aborted
	}
}

// leave frees the request's place, once.
func (g *generation) leave(at time.Duration, finish string) {
	if g.left {
		return
	}
	g.left = true
	if g.onTicks {
		g.s.ticks.leave()
	}
	g.s.sched.leave(g.job, at, finish)
}
