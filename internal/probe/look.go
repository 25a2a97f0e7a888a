package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stamp"
)

// readyLimit is how long a server that says 503 is waited for.
const readyLimit = 60 * time.Second

// Look finds out what a server is, and tries how it streams. It makes some thirty small
// requests that run nothing, up to a dozen of at most 48 tokens, and one that it cuts. It
// ends within a quarter of an hour whatever the server does. Errors are *speedmatrix.Error: nothing
// there, no LLM server, a refusal (key, limit, model), not ready within 60 s.
func Look(ctx context.Context, o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = stamp.NewClock()
	}
	s := &Server{options: o}
	if err := s.setDialect(o.API); err != nil {
		return nil, err
	}
	if o.URL == "" {
		address, err := choose(ctx, o)
		if err != nil {
			return nil, err
		}
		o.URL = address
	}
	roots, err := addresses(o.URL)
	if err != nil {
		return nil, err
	}
	first, err := s.reach(ctx, roots)
	if err != nil {
		return nil, err
	}
	if err := s.identify(ctx, first); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the idle connections of probing and scraping.
func (s *Server) Close() { s.http.close() }

func (s *Server) setDialect(api string) error {
	if api == "" {
		api = dialect.Chat().Name()
	}
	d, err := dialect.ByName(api)
	s.Dialect = d
	return err
}

// identify does all that comes after the first answer.
func (s *Server) identify(ctx context.Context, models *answer) error {
	w := &sight{listing: models}
	var listed bool
	w.models, listed = readModels(models)
	var warning *speedmatrix.Warning
	s.engine, warning = w.look(ctx, s.http)
	s.Kind = s.engine.kind
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if warning != nil {
		s.Warnings = append(s.Warnings, *warning)
	}
	if s.engine.models != nil && len(w.models) == 0 {
		w.models = s.engine.models(w)
		listed = listed || len(w.models) > 0
	}
	s.Models = w.models
	if !listed && s.Kind == KindOpenAI && (models.html || s.options.Model == "") {
		return s.notOurs(models)
	}
	if err := s.chooseModel(ctx); err != nil {
		return err
	}
	s.Hosted, s.SameMachine = place(models.remote, s.Base.Hostname())
	s.gather(ctx, w)
	s.measureRoundTrip(ctx)
	if err := s.try(ctx); err != nil {
		return err
	}
	if s.engine.loaded != nil {
		s.engine.loaded(ctx, s)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.conclude()
	return nil
}

// gather reads the facts of the server's kind; what the user stated stands already.
func (s *Server) gather(ctx context.Context, w *sight) {
	s.Facts = Facts{Model: stated(s.options.Stated.Model), Engine: stated(s.options.Stated.Engine)}
	s.Facts.Model.Set(speedmatrix.ModelServedName, s.Model.Name, sourceModels)
	s.readMetricNames(ctx, w)
	if s.engine.read != nil {
		s.engine.read(ctx, s, w)
	}
	s.readReverseProxy(w.listing.header)
	s.readService()
	if s.Model.Base != "" {
		s.Facts.Model.Set(speedmatrix.ModelBase, s.Model.Base, sourceModels)
	}
	s.warnBlind(w)
	if told := s.metrics.tells(); told != "" {
		s.Facts.Engine.Set(speedmatrix.EngineMetrics, told, "GET "+s.metrics.at())
	}
	if s.Model.MaxLength > 0 && s.Kind != KindOllama {
		s.Facts.Model.Set(speedmatrix.ModelMaxLength, s.Model.MaxLength, sourceModels)
	}
	s.readRoutes(ctx)
}

// readMetricNames finds which of the engine's figures can be read, and says why when it should
// have some and none can.
func (s *Server) readMetricNames(ctx context.Context, w *sight) {
	names := s.engine.metrics
	if names.route != "" {
		w.metrics, w.metricsErr = s.http.metricsAt(ctx, names.route)
	}
	s.metrics = names.present(w.metrics)
	if s.metrics.running != "" {
		s.checkReplicas(ctx, w)
		return
	}
	if names.running == "" {
		return
	}
	why := "they are not there"
	if w.metricsErr != nil {
		why = w.metricsErr.Error()
	}
	if s.engine.metricsBy != "" {
		why += "; the server has them with " + s.engine.metricsBy
	}
	s.warn("no_metrics", "the server's own figures cannot be read from GET %s (%s): queues and its own counts stay unknown", names.at(), why)
}

// checkReplicas scrapes once more: where another process answers, several servers stand behind
// one address, and neither their gauges nor their counters make sense together.
func (s *Server) checkReplicas(ctx context.Context, w *sight) {
	const started = "process_start_time_seconds"
	first, there := w.metrics.Sum(started)
	if !there {
		return
	}
	c := newCaller(s.options, s.Base)
	defer c.close()
	again, err := c.metricsAt(ctx, s.metrics.at())
	if second, there := again.Sum(started); err == nil && there && first != second {
		s.metrics = metricNames{}
		s.warn("replicas", "GET %s is answered by several servers in turn: their figures are left out, and no figure is that of one engine", s.engine.metrics.at())
	}
}

// warnBlind warns where an engine that can tell how many requests run and wait does not.
func (s *Server) warnBlind(w *sight) {
	tells := s.Kind == KindVLLM || s.Kind == KindSGLang || s.Kind == KindLlamaCpp
	told := slices.ContainsFunc(s.Warnings, func(w speedmatrix.Warning) bool { return w.Code == "no_metrics" })
	if !tells || told || s.Gauges() {
		return
	}
	why := "GET /metrics does not tell"
	if w.metricsErr != nil {
		why = w.metricsErr.Error()
	}
	s.warn("no_figures", "how many requests run and wait in the server is not known (%s): queues are told by the streams' own times", why)
}

func stated(facts speedmatrix.Facts) speedmatrix.Facts {
	own := speedmatrix.Facts{}
	maps.Copy(own, facts)
	return own
}

// conclude takes the limits from the facts, so that a stated one rules here too.
func (s *Server) conclude() {
	s.MaxLength = size(s.Facts.Model, speedmatrix.ModelMaxLength)
	s.RunningLimit = size(s.Facts.Engine, speedmatrix.EngineRunningLimit)
	s.KVTokens = size(s.Facts.Engine, speedmatrix.EngineKVTokens)
	s.KVBlockTokens = size(s.Facts.Engine, speedmatrix.EngineKVBlockTokens)
	if on, known := s.Facts.Engine.Bool(speedmatrix.EnginePrefixCaching); known {
		s.PrefixCaching = &on
	}
	if s.Kind == KindLlamaCpp {
		s.limitSlots()
	}
	s.drainFact()
	s.EngineHere = s.SameMachine && (s.Facts.Engine.Text(speedmatrix.EngineProxy) == "" || s.upstreamHere)
}

// mostSize is beyond what any server has of tokens, blocks or requests.
const mostSize = 1 << 40

// size gives a fact as a number that can be planned with; 0 is unknown.
func size(facts speedmatrix.Facts, key string) int {
	n, _ := facts.Int(key)
	if n < 0 || n > mostSize {
		return 0
	}
	return n
}

func (s *Server) warn(code, message string, args ...any) {
	s.Warnings = append(s.Warnings, speedmatrix.Warning{Code: code, Message: fmt.Sprintf(message, args...)})
}

// reach gets the first answer, of GET /v1/models, and settles the base URL.
func (s *Server) reach(ctx context.Context, roots []*url.URL) (*answer, error) {
	var failure error
	for _, root := range roots {
		s.Base, s.http = root, newCaller(s.options, root)
		a, err := s.firstAnswer(ctx)
		if err == nil && !(root.Scheme == "http" && plainOnTLS(a)) {
			s.follow(a)
			return a, s.usable(a)
		}
		s.http.close()
		if err == nil {
			err = errPlainOnTLS
		}
		if known, ok := errors.AsType[*speedmatrix.Error](err); ok {
			return nil, known
		}
		if failure == nil || errors.Is(failure, errPlainOnTLS) {
			failure = err
		}
		if ctx.Err() != nil || refused(err) && root.Port() != "" {
			break
		}
	}
	s.Base = roots[0]
	return nil, unreached(ctx, s.options, s.Base.String(), failure)
}

// firstAnswer waits for a server that says 503.
func (s *Server) firstAnswer(ctx context.Context) (*answer, error) {
	var a *answer
	err := s.untilReady(ctx, func() (busy bool, words string, err error) {
		a, err = s.http.do(ctx, call{route: "/v1/models"})
		if err != nil {
			return false, "", err
		}
		return a.status == http.StatusServiceUnavailable, a.words(), nil
	})
	return a, err
}

// errPlainOnTLS is an HTTPS port that was spoken to in plain HTTP.
var errPlainOnTLS = errors.New("the port speaks HTTPS")

// plainOnTLS: web servers answer plain HTTP on their HTTPS port with this.
func plainOnTLS(a *answer) bool {
	return a.status == http.StatusBadRequest && strings.Contains(strings.ToLower(string(a.body)), "https")
}

// follow takes over the scheme and path that a redirect on the same host led to: later
// POSTs must not be redirected, they would arrive as GETs.
func (s *Server) follow(a *answer) {
	path, ok := strings.CutSuffix(strings.TrimSuffix(a.url.Path, "/"), "/v1/models")
	if !ok || a.url.Scheme == s.Base.Scheme && path == s.Base.Path {
		return
	}
	s.Base = &url.URL{Scheme: a.url.Scheme, Host: a.url.Host, Path: path}
	s.http.base = s.Base
}

// usable is nil unless the first answer already says that we are refused or that what
// stands there has nothing behind it.
func (s *Server) usable(a *answer) error {
	switch a.status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return nil // other routes may answer
	case http.StatusForbidden:
		if s.options.Model != "" {
			return nil // a key may be good for its model and not for the list
		}
	}
	if err := s.refusal(a.status, "GET /v1/models", a.words(), 0); err != nil {
		if e, ok := errors.AsType[*speedmatrix.Error](err); ok && s.options.API != "anthropic" && anthropicError(a.body) {
			e.Next = "It answers as Anthropic's API does: say --api anthropic."
		}
		return err
	}
	if a.status >= 500 {
		return fail(speedmatrix.KindNoServer, "A proxy may stand there without its server: look at the logs of both.",
			"the server at %s fails (%s)", s.Base, says(a.status, a.words()))
	}
	return nil
}

// notOurs says what answers instead of an LLM server.
func (s *Server) notOurs(a *answer) error {
	if a.html {
		return fail(speedmatrix.KindNoServer, "Give the URL of the API itself. "+usualPlaces,
			"what answers at %s is a web page, not an LLM server", s.Base)
	}
	if err := s.refusal(a.status, "GET /v1/models", a.words(), 0); err != nil {
		return err
	}
	return fail(speedmatrix.KindNoServer,
		"Give the URL up to where /v1 begins, or name the model to try without a list: --model NAME.",
		"no LLM server at %s: GET /v1/models gives no list of models (%s)", s.Base, says(a.status, ""))
}

// untilReady repeats attempt once a second while the server says that it is not ready,
// for up to 60 s, and says so at the start.
func (s *Server) untilReady(ctx context.Context, attempt func() (busy bool, words string, err error)) error {
	begun := time.Now()
	for tries := 0; ; tries++ {
		busy, words, err := attempt()
		if err != nil || !busy {
			return err
		}
		said := says(http.StatusServiceUnavailable, words)
		if time.Since(begun) >= readyLimit {
			return fail(speedmatrix.KindBusy, "It may still be loading its model: try again when its log says that it is up.",
				"the server at %s was not ready within 60 s (%s)", s.Base, said)
		}
		if tries == 0 && s.options.Say != nil {
			s.options.Say(fmt.Sprintf("The server at %s is not ready (%s); waiting up to 60 s.", s.Base, said))
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func newLoad(s *Server) (*load.Client, error) {
	return load.New(load.Options{
		BaseURL: s.Base, Dialect: s.Dialect, Header: s.options.Header, TLS: s.options.TLS,
		Dial: boundedDial(s.options.Dial), Clock: s.options.Clock, Hide: s.options.Hide,
		Limits: load.Limits{Connect: connectLimit, Header: trialLimit, Idle: time.Minute},
	})
}
