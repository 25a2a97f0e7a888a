package truth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"speedmatrix/internal/wire"
)

// Server is a running script. Use New with Serve or Handler, or Start.
type Server struct {
	script  Script
	begun   time.Time
	wall    int64
	sched   *scheduler
	ticks   *ticks
	http    *http.Server
	url     string
	closing chan struct{}
	life    lifetime

	mu      sync.Mutex
	records []*record

	scrapes, tokenized atomic.Int64
	accepted, open     atomic.Int64
}

// lifetime waits for everything that a server started.
type lifetime struct {
	mu       sync.Mutex
	closed   bool
	serving  sync.WaitGroup // calls of Serve
	conns    sync.WaitGroup // connections of net/http
	handlers sync.WaitGroup
}

// New makes a server whose time begins now.
func New(s Script) *Server {
	s = withDefaults(s)
	begun := time.Now()
	server := &Server{
		script: s, begun: begun, wall: begun.UnixNano(),
		sched: newScheduler(&s), ticks: newTicks(s.Gap), closing: make(chan struct{}),
	}
	server.http = &http.Server{
		Handler:     server.Handler(),
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:   server.connState,
	}
	return server
}

// Start makes a server and serves it on a free port of 127.0.0.1. The error is
// a *speedmatrix.Error.
func Start(s Script) (*Server, error) {
	l, err := listenAt(freePort)
	if err != nil {
		return nil, err
	}
	server := New(s)
	server.url = "http://" + l.Addr().String()
	server.life.serving.Go(func() { _ = server.http.Serve(&listener{Listener: l, server: server}) })
	return server, nil
}

// URL is the base URL of a server from Start, "http://127.0.0.1:port".
func (s *Server) URL() string { return s.url }

// Serve answers on a listener until Close or until the listener fails. After
// Close it gives nil.
func (s *Server) Serve(l net.Listener) error {
	s.life.mu.Lock()
	if s.life.closed {
		s.life.mu.Unlock()
		return l.Close()
	}
	s.life.serving.Add(1)
	s.life.mu.Unlock()
	defer s.life.serving.Done()
	err := s.http.Serve(&listener{Listener: l, server: s})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the ground truth on %s: %w", l.Addr(), err)
}

// Close cuts all requests and connections and waits until every goroutine of
// the server has ended.
func (s *Server) Close() {
	s.life.mu.Lock()
	if !s.life.closed {
		s.life.closed = true
		close(s.closing)
	}
	s.life.mu.Unlock()
	_ = s.http.Close() // the listeners' errors on closing change nothing
	s.life.serving.Wait()
	s.life.conns.Wait()
	s.life.handlers.Wait()
}

// connState counts the goroutines of connections.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.life.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.life.conns.Done()
	case http.StateActive, http.StateIdle:
	}
}

// Handler answers all routes. Served by somebody else's http.Server the
// account knows no connections, and send times are taken before the flush.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, wire.Chat) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, wire.Completions) })
	mux.HandleFunc("GET /v1/models", s.models)
	if s.script.Engine != Plain {
		mux.HandleFunc("GET /health", s.health)
		mux.HandleFunc("GET /metrics", s.metrics)
	}
	switch s.script.Engine {
	case VLLM:
		mux.HandleFunc("GET /version", s.version)
	case LlamaCpp:
		mux.HandleFunc("GET /props", s.props)
		mux.HandleFunc("GET /slots", s.slots)
	case Plain:
	}
	if s.script.Tokenize {
		mux.HandleFunc("POST /tokenize", s.tokenize)
		mux.HandleFunc("POST /v1/chat/completions/input_tokens", s.inputTokens)
	}
	s.speak(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { wire.NotFound().Write(w) })
	return s.gate(mux)
}

// gate refuses while the model is loading and without the key.
func (s *Server) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.life.mu.Lock()
		if s.life.closed {
			s.life.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		s.life.handlers.Add(1)
		s.life.mu.Unlock()
		defer s.life.handlers.Done()
		switch {
		case s.since() < s.script.Loading:
			wire.Loading().Write(w)
		case !s.enters(r):
			wire.Unauthorized().Write(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// since is the time since the start of the server.
func (s *Server) since() time.Duration { return time.Since(s.begun) }

// now stamps the account.
func (s *Server) now() int64 {
	if s.script.Now != nil {
		return s.script.Now()
	}
	return s.wall + int64(s.since())
}

// stampOf moves an instant since the start to the scale of the account.
func (s *Server) stampOf(at time.Duration) int64 {
	if s.script.Now == nil {
		return s.wall + int64(at)
	}
	return s.script.Now() - int64(s.since()-at)
}

// Account copies what happened until now.
func (s *Server) Account() Account {
	s.mu.Lock()
	records := slices.Clone(s.records)
	s.mu.Unlock()
	a := Account{
		Requests:    make([]Request, len(records)),
		Connections: int(s.accepted.Load()), OpenConnections: int(s.open.Load()),
		Scrapes: int(s.scrapes.Load()), Tokenized: int(s.tokenized.Load()),
	}
	for i, r := range records {
		a.Requests[i] = r.copy()
		if a.Requests[i].Class == Aborted {
			a.Aborts++
		}
	}
	a.Preemptions, a.PeakRunning, a.PeakWaiting = s.sched.totals()
	return a
}

// record is one request of the account while it is being written.
type record struct {
	mu  sync.Mutex
	req Request
}

func (r *record) copy() Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.req
	c.Events = slices.Clone(c.Events)
	if c.job != nil {
		c.Tokens = int(c.job.tokens.Load())
		c.job = nil
	}
	return c
}

// update changes the request under its lock.
func (r *record) update(change func(*Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.req)
}

// newRecord gives the request its id.
func (s *Server) newRecord(req Request) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.ID = len(s.records)
	rec := &record{req: req}
	s.records = append(s.records, rec)
	return rec
}

func withDefaults(s Script) Script {
	if s.Model == "" {
		s.Model = "truth"
	}
	if s.BlockTokens < 1 {
		s.BlockTokens = 16
	}
	switch {
	case s.TemplateTokens == 0:
		s.TemplateTokens = 11
	case s.TemplateTokens < 0:
		s.TemplateTokens = 0
	}
	if s.Gap == nil {
		s.Gap = func(Step) time.Duration { return 10 * time.Millisecond }
	}
	if s.Text == nil {
		s.Text = Word
	}
	if s.Channel == nil {
		s.Channel = func(int, int) string { return wire.Content }
	}
	if s.Reported == nil {
		s.Reported = func(_, tokens int) int { return tokens }
	}
	s.TokensPerEvent = max(s.TokensPerEvent, 1)
	s.Metrics.Engines = max(s.Metrics.Engines, 1)
	if s.Framing.Ending == "" {
		s.Framing.Ending = "\n"
	}
	if s.Framing.SplitPause <= 0 {
		s.Framing.SplitPause = time.Nanosecond
	}
	return s
}
