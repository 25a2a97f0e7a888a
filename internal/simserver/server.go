package simserver

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"

	"speedmatrix"
	"speedmatrix/internal/engine"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/wire"
)

// The headers with which every answer says that it is simulated: the name of
// the profile, and how many times faster than time the server's clock runs.
const (
	HeaderProfile = "Speedmatrix-Simulated"
	HeaderClock   = "Speedmatrix-Clock"
)

// The bounds of Options.Speed.
const (
	slowest = 0.01
	fastest = 1000
)

// Options are what a profile does not say.
type Options struct {
	// Seed decides everything that is drawn: answers, noise, faults.
	Seed uint64
	// Speed is how many times faster than time the server's clock runs, 0 being 1.
	Speed float64
	// Spin waits for the end of each step on the processor, for tokens that leave within microseconds of their
	// time. It is for real sockets; inside a synctest bubble time would stand still.
	Spin bool
	// Noise is the standard deviation of a step's time as a share of it.
	Noise float64
	// MaxQueued refuses requests beyond so many running and waiting ones; 0 is no limit.
	MaxQueued int
	Faults    Faults
	Watch     Watch
}

// Server is a simulated engine behind HTTP. Use New.
type Server struct {
	options     Options
	profile     *profile.Profile
	config      engine.Config
	served      string // the model's name in requests
	fingerprint string
	clock       *clock
	loop        *loop
	http        *http.Server
	closing     chan struct{}
	names       names
	life        lifetime
}

// lifetime counts what Close waits for.
type lifetime struct {
	mu     sync.Mutex
	closed bool
	all    sync.WaitGroup
}

// enter counts something that runs; false if the server is closed.
func (l *lifetime) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.all.Add(1)
	}
	return !l.closed
}

// New starts the engine of a profile, idle; its time begins now. Errors are of kind usage.
func New(p *profile.Profile, o Options) (*Server, error) {
	if o.Speed == 0 {
		o.Speed = 1
	}
	if !(o.Speed >= slowest && o.Speed <= fastest) {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("a clock cannot run %g times as fast", o.Speed),
			Next: fmt.Sprintf("The speed is from %g to %g; 1 is real time.", slowest, float64(fastest))}
	}
	c := engine.FromProfile(p)
	c.Seed, c.Noise, c.Blocks = o.Seed, o.Noise, o.Faults.blocks(c.Blocks)
	e, err := engine.New(c)
	if err != nil {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("profile %s cannot run: %v", p.Name, err), Err: err}
	}
	pages, err := passages()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o, profile: p, config: c, served: p.Model.ServedName, closing: make(chan struct{}),
		clock: newClock(o.Speed), fingerprint: "vllm-" + p.Engine.Version + "-simulated", names: names{all: map[string]*group{}},
	}
	if s.served == "" {
		s.served = p.Model.Name
	}
	s.loop = &loop{
		engine: e, desk: engine.Desk{FrontEnd: engine.FrontEndOf(p)}, clock: s.clock, options: o, closing: s.closing,
		model: model{words: vocabulary(), pages: pages}, board: &board{}, jobs: map[int64]*job{}, wake: make(chan struct{}, 1),
	}
	s.loop.figures.bounds = boundsOf(c.MaxLength)
	s.loop.figures.gauges = e.Gauges()
	s.loop.board.before, s.loop.board.newest = s.loop.figures, s.loop.figures
	s.http = &http.Server{Handler: s.Handler(), ErrorLog: log.New(io.Discard, "", 0), ConnState: s.connState}
	s.life.all.Go(s.loop.run)
	return s, nil
}

// Serve answers on a listener until Close or until the listener fails. After Close it gives nil.
func (s *Server) Serve(l net.Listener) error {
	if !s.life.enter() {
		return l.Close()
	}
	defer s.life.all.Done()
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the simulated engine on %s: %w", l.Addr(), err)
}

// Close cuts all requests and connections, stops the engine and waits until every goroutine of the server has ended.
func (s *Server) Close() {
	s.life.mu.Lock()
	if !s.life.closed {
		s.life.closed = true
		close(s.closing)
	}
	s.life.mu.Unlock()
	_ = s.http.Close() // the listeners' errors on closing change nothing
	s.life.all.Wait()
}

// connState counts the goroutines of connections.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.life.all.Add(1) // within Serve, which is counted itself
	case http.StateClosed, http.StateHijacked:
		s.life.all.Done()
	case http.StateActive, http.StateIdle:
	}
}

// Now is the server's time in ns since New, the scale of Step and Ended.
func (s *Server) Now() int64 { return s.clock.now() }

// Served is the name under which the model is asked for.
func (s *Server) Served() string { return s.served }

// Handler answers all routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for route, handle := range map[string]http.HandlerFunc{
		"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, wire.Chat) },
		"POST /v1/completions":      func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, wire.Completions) },
		"GET /v1/models":            s.models,
		"GET /v1/models/{id...}":    s.model,
		"POST /tokenize":            s.tokenize,
		"POST /detokenize":          s.detokenize,
		"GET /version":              s.version,
		"GET /health":               healthy,
		"GET /ping":                 healthy,
		"POST /ping":                healthy,
		"GET /load":                 s.load,
		"GET /metrics":              s.metrics,
		"GET /server_info":          s.serverInfo,
		"POST /reset_prefix_cache":  s.resetPrefixCache,
		"POST /abort_requests":      s.abortRequests,
		"/":                         func(w http.ResponseWriter, _ *http.Request) { wire.NotFound().Write(w) },
	} {
		mux.HandleFunc(route, handle)
	}
	return s.gate(mux)
}

// gate counts the handlers and says in every answer what this is.
func (s *Server) gate(next http.Handler) http.Handler {
	speed := strconv.FormatFloat(s.options.Speed, 'f', -1, 64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.life.enter() {
			panic(http.ErrAbortHandler)
		}
		defer s.life.all.Done()
		w.Header().Set(HeaderProfile, s.profile.Name)
		w.Header().Set(HeaderClock, speed)
		next.ServeHTTP(w, r)
	})
}

// names finds requests under way by the id that their clients got.
type names struct {
	mu   sync.Mutex
	all  map[string]*group
	next int
}

// take enters a request; its id is the client's own or a number after the prefix.
func (n *names) take(g *group, prefix, own string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if own == "" {
		n.next++
		own = "sim-" + strconv.Itoa(n.next)
	}
	g.id = prefix + own
	n.all[g.id] = g
}

func (n *names) drop(g *group) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[g.id] == g {
		delete(n.all, g.id)
	}
}

func (n *names) find(ids []string) []*group {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*group
	for _, id := range ids {
		if g := n.all[id]; g != nil {
			found = append(found, g)
		}
	}
	return found
}

// every gives all requests under way.
func (n *names) every() []*group {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*group
	for _, g := range n.all {
		all = append(all, g)
	}
	return all
}
