package simserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"speedmatrix/internal/wire"
)

// The bound of a request's body, in bytes: for prompts many times as long as the model takes, or a batch of them.
const (
	bodyFixed    = 1 << 20
	bodyPerToken = 256 // of the model's maximum length
)

// generate answers one request for text.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, api wire.API) {
	body, err := s.readBody(w, r)
	if err != nil {
		return // answered, or the client left before it had asked for anything
	}
	arrived := s.clock.now()
	c, problem := s.readCall(api, body)
	if problem != nil {
		problem.Write(w)
		return
	}
	prefix := "chatcmpl-"
	if api == wire.Completions {
		prefix = "cmpl-"
	}
	g := newGroup(r.RemoteAddr, c.jobs)
	g.arrivedNS, g.quiet = arrived, !c.Stream
	s.names.take(g, prefix, r.Header.Get("X-Request-Id"))
	defer s.names.drop(g)
	s.loop.submit(g)
	e := exchange{s: s, w: w, r: r, call: c, group: g, reply: newReply(s, c, g)}
	if e.serve() {
		return
	}
	s.loop.abort(g, false)
	panic(http.ErrAbortHandler) // the connection is of no more use
}

// readBody reads a body of bounded size. If it fails the client has been told what it can be told.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(bodyFixed+bodyPerToken*s.config.MaxLength)))
	if err == nil {
		return body, nil
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p := invalid("body", fmt.Sprintf("The body is larger than %d bytes.", large.Limit))
		p.Status = http.StatusRequestEntityTooLarge
		p.Write(w)
	}
	return nil, fmt.Errorf("read the body: %w", err)
}

// exchange is one request and its answer; its methods run in the handler's goroutine.
type exchange struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	call   *call
	group  *group
	reply  *reply
	stream *wire.EventWriter
}

// serve answers; false if the connection has to be cut.
func (e *exchange) serve() bool {
	for {
		select {
		case <-e.group.changed:
		case <-e.r.Context().Done():
			return false
		case <-e.s.closing:
			return false
		}
		problem, dropped, finished := e.group.state()
		if problem != nil {
			e.refuse(problem)
			return true
		}
		switch {
		case e.call.Stream:
			complete, err := e.send()
			if complete || err != nil {
				return err == nil
			}
		case finished:
			wire.WriteJSON(e.w, e.reply.document(e.s.loop.model.words))
			return true
		}
		if dropped {
			return false
		}
	}
}

// state gives what has happened to a request as a whole.
func (g *group) state() (problem *wire.Problem, dropped, finished bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.problem, g.dropped, g.finished()
}

// refuse answers with an error. As in vLLM a busy engine's comes inside a stream that has begun.
func (e *exchange) refuse(p *wire.Problem) {
	if !e.call.Stream || p.Status != http.StatusServiceUnavailable {
		p.Write(e.w)
		return
	}
	b := wire.AppendEvent(nil, p.Body())
	_ = wire.NewEventWriter(e.w).Raw(append(b, "data: "+wire.Done+"\n\n"...)) // the client may be gone; there is nobody to tell
}

// send writes the events of what is new, in one write.
func (e *exchange) send() (complete bool, err error) {
	if e.stream == nil {
		e.stream = wire.NewEventWriter(e.w)
	}
	r := e.reply
	r.buf = r.buf[:0]
	if complete = r.events(e.s.loop.model.words); complete {
		r.last()
	}
	if len(r.buf) == 0 {
		return false, nil
	}
	return complete, e.stream.Raw(r.buf)
}
