package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/metricstext"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/verify"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

// setting is a server, what is known of it, and what is to be measured.
type setting struct {
	script   truth.Script
	settings bench.Settings
	limits   bench.Limits
	habits   speedmatrix.Habits
	params   dialect.Params
	dialect  dialect.Dialect // nil is chat
	// blind: the server has no gauges. dead counters: they exist but do not move while a request runs.
	blind, noCounter, deadCounter bool
	warm                          bool // warm up before
	load                          load.Limits
	// prepared changes the session before it measures; happened is told of its events.
	prepared func(w *world)
	happened func(w *world, e bench.Event)
	// glance is told of the cell in progress.
	glance func(w *world, g bench.Glance)
}

// speaks is the API that the run uses.
func (s *setting) speaks() dialect.Dialect {
	if s.dialect == nil {
		return dialect.Chat()
	}
	return s.dialect
}

// world is one run in virtual time.
type world struct {
	t       *testing.T
	server  *truth.Server
	driver  *bench.Driver
	session *bench.Session
	run     *speedmatrix.Run
	store   *memory
	client  *load.Client
	clock   *stamp.Clock
	began   time.Time
	cancel  context.CancelFunc
	warmUp  bench.WarmUp
	events  []bench.Event
	err     error
	account truth.Account
	foreign *load.Streams
}

// counts in every event, as vLLM gives them when asked.
func counted() dialect.Params {
	return dialect.Params{Model: "truth", IgnoreEOS: true, IncludeUsage: true, ContinuousUsage: true}
}

// measure runs a setting to its end in a bubble of its own and gives what came of it.
func measure(t *testing.T, s setting) (w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, s)
		w.finish(s)
		w.account = w.server.Account()
		w.server.Close()
	})
	w.t = t
	return w
}

func newWorld(t *testing.T, s setting) *world {
	t.Helper()
	w := &world{t: t, clock: stamp.NewClock(), began: time.Now(), store: newMemory()}
	network := memnet.New()
	w.server = truth.New(s.script)
	l, err := network.Listen("server:80")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = w.server.Serve(l) }()
	t.Cleanup(w.server.Close)
	if s.params.Model == "" {
		s.params = counted()
	}
	w.client, err = load.New(load.Options{BaseURL: &url.URL{Scheme: "http", Host: "server:80"}, Dialect: s.speaks(),
		Dial: network.DialContext, Clock: w.clock, Limits: s.load})
	if err != nil {
		t.Fatal(err)
	}
	w.plan(s, network)
	return w
}

// plan makes the document, the plan, the driver and the session.
func (w *world) plan(s setting, network *memnet.Network) {
	w.t.Helper()
	settings, err := s.settings.Complete()
	if err != nil {
		w.t.Fatal(err)
	}
	plan, err := bench.NewPlan(settings, s.limits)
	if err != nil {
		w.t.Fatal(err)
	}
	if s.habits.TemplateTokens == 0 {
		s.habits.TemplateTokens = 11
	}
	w.run = &speedmatrix.Run{Schema: speedmatrix.Schema, Origin: speedmatrix.OriginMeasured, StartedAt: w.began.UTC(),
		Method: settings.MethodRecord("chat"), Model: speedmatrix.Facts{}, Hardware: speedmatrix.Facts{}, Engine: speedmatrix.Facts{},
		Plan: speedmatrix.Plan{Contexts: plan.Contexts, Concurrency: plan.Concurrency, Prefill: plan.Prefill}}
	w.run.Server.Habits = s.habits
	if s.limits.KVBlockTokens > 0 {
		w.run.Engine.Set(speedmatrix.EngineKVBlockTokens, float64(s.limits.KVBlockTokens), "test")
	}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(w.t.Context())
	w.t.Cleanup(w.cancel)
	server := &scraped{s: s, client: w.client, clock: w.clock,
		http: &http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}}}
	library, err := prompt.Embedded()
	if err != nil {
		w.t.Fatal(err)
	}
	texts := &bench.PromptTexts{Writer: prompt.NewWriter(library, "salt", settings.Prompts), CharsPerToken: 5, Overhead: 50}
	if s.script.Tokenize {
		texts.Count = func(_ context.Context, text string) (int, error) {
			return truth.CountTokens(text) + s.habits.TemplateTokens, nil
		}
	}
	var wait func()
	w.driver, wait = bench.NewDriver(ctx, bench.DriverOptions{Client: w.client, Server: server, Dialect: s.speaks(), Params: s.params,
		Clock: w.clock, Texts: texts, Habits: s.habits, KVBlockTokens: s.limits.KVBlockTokens, Watch: func(g bench.Glance) {
			if s.glance != nil {
				s.glance(w, g)
			}
		}})
	w.t.Cleanup(func() { w.cancel(); wait() })
	w.session = &bench.Session{Settings: settings, Plan: plan, Limits: s.limits, Lab: w.driver, Store: w.store, Run: w.run,
		HasGauges: !s.blind, Pilot: bench.Pilot{A: s.script.PrefillPerToken.Seconds(), Known: true},
		Tell: func(e bench.Event) {
			w.events = append(w.events, e)
			if s.happened != nil {
				s.happened(w, e)
			}
		}}
}

// finish warms up where wanted and measures.
func (w *world) finish(s setting) {
	ctx, interrupt := context.WithCancel(w.t.Context())
	defer interrupt()
	if s.warm {
		w.warmUp = w.driver.WarmUp(ctx, bench.WarmUpSpec{Limits: s.limits, Concurrency: slices.Max(w.session.Plan.Concurrency),
			Rules: bench.Rules{Concurrency: 1, DrainLimit: time.Minute}})
		w.session.Learn(w.warmUp)
	}
	w.session.Prepare()
	w.interruptible(s, interrupt)
	w.err = w.session.Measure(ctx)
	w.cancel()
}

// interruptible lets the hooks of a setting end the run by w.cancel.
func (w *world) interruptible(s setting, interrupt context.CancelFunc) {
	stop := w.cancel
	w.cancel = interrupt
	w.t.Cleanup(stop)
	if s.prepared != nil {
		s.prepared(w)
	}
}

// cell gives a decode cell of the document.
func (w *world) cell(context, concurrency int) *speedmatrix.Cell {
	w.t.Helper()
	c := w.run.FindCell(speedmatrix.PhaseDecode, context, concurrency)
	if c == nil {
		w.t.Fatalf("no decode cell %d × %d", context, concurrency)
	}
	return c
}

// prefill gives a prefill cell of the document.
func (w *world) prefill(context int) *speedmatrix.Cell {
	w.t.Helper()
	c := w.run.FindCell(speedmatrix.PhasePrefill, context, 1)
	if c == nil {
		w.t.Fatalf("no prefill cell %d", context)
	}
	return c
}

// verified fails the test unless every published number follows from the rows.
func (w *world) verified() {
	w.t.Helper()
	report, err := verify.Check(w.run, w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, d := range report.Disagreements {
		if i == 12 {
			w.t.Errorf("verify: and %d more", len(report.Disagreements)-i)
			break
		}
		w.t.Errorf("verify: %s %s: published %s, recomputed %s", d.Cell, d.Field, d.Published, d.Recomputed)
	}
	if len(report.Unchecked) > 0 {
		w.t.Errorf("verify: unchecked %v", report.Unchecked)
	}
}

// memory is a run directory in memory.
type memory struct {
	requests map[string][]speedmatrix.RequestRow
	events   map[string][]speedmatrix.EventRow
	server   []speedmatrix.ServerRow
	machine  []speedmatrix.MachineRow
	saved    int
	fail     error
}

func newMemory() *memory {
	return &memory{requests: map[string][]speedmatrix.RequestRow{}, events: map[string][]speedmatrix.EventRow{}}
}

func (m *memory) SaveRun(*speedmatrix.Run) error { m.saved++; return m.fail }

func (m *memory) SaveCell(key string, requests []speedmatrix.RequestRow, events iter.Seq[speedmatrix.EventRow]) error {
	m.requests[key], m.events[key] = slices.Clone(requests), slices.Collect(events)
	return nil
}

func (m *memory) SaveServer(rows []speedmatrix.ServerRow) error {
	m.server = slices.Clone(rows)
	return nil
}

func (m *memory) SaveMachine(rows []speedmatrix.MachineRow) error {
	m.machine = slices.Clone(rows)
	return nil
}

func (m *memory) Machine() ([]speedmatrix.MachineRow, error) { return m.machine, nil }

func (m *memory) HasCell(key string) bool { _, ok := m.requests[key]; return ok }

func (m *memory) Requests(key string) ([]speedmatrix.RequestRow, error) { return m.requests[key], nil }

func (m *memory) Events(key string) iter.Seq2[speedmatrix.EventRow, error] {
	return func(yield func(speedmatrix.EventRow, error) bool) {
		for _, e := range m.events[key] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) Server() ([]speedmatrix.ServerRow, error) { return m.server, nil }

// scraped reads the figures of a ground truth server over HTTP.
type scraped struct {
	s      setting
	http   *http.Client
	client *load.Client
	clock  *stamp.Clock
	mu     sync.Mutex
	pings  int32
}

func (s *scraped) Gauges() bool      { return !s.s.blind }
func (s *scraped) LiveCounter() bool { return !s.s.blind && !s.s.noCounter && !s.s.deadCounter }
func (s *scraped) CounterName() string {
	if s.s.blind || s.s.noCounter {
		return ""
	}
	return "vllm:generation_tokens_total"
}

func (s *scraped) Scrape(ctx context.Context) speedmatrix.ServerRow {
	row := speedmatrix.ServerRow{SentNS: s.clock.Now()}
	families, err := s.metrics(ctx)
	row.ReceivedNS = s.clock.Now()
	if err != nil {
		row.Error = err.Error()
		return row
	}
	read := func(name string) *float64 {
		if v, ok := families.Sum("vllm:" + name); ok {
			return &v
		}
		return nil
	}
	row.Running, row.Waiting = read("num_requests_running"), read("num_requests_waiting")
	row.KVUsage, row.Preemptions = read("kv_cache_usage_perc"), read("num_preemptions_total")
	row.Drafts, row.DraftsAccepted = read("spec_decode_num_drafts_total"), read("spec_decode_num_accepted_tokens_total")
	if !s.s.noCounter {
		row.GenerationTokens = read("generation_tokens_total")
	}
	return row
}

func (s *scraped) metrics(ctx context.Context) (metricstext.Families, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server:80/metrics", nil)
	if err != nil {
		return metricstext.Families{}, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return metricstext.Families{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, resp.Body)
		return metricstext.Families{}, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return metricstext.Parse(resp.Body)
}

func (s *scraped) CountText(_ context.Context, text string) (int, error) {
	if !s.s.script.Tokenize {
		return 0, errors.New("no tokenizer")
	}
	return truth.CountTokens(text), nil
}

func (s *scraped) Ping(ctx context.Context) (time.Duration, error) {
	p := s.s.params
	if p.Model == "" {
		p = counted()
	}
	p.Prompt, p.MaxTokens, p.Stream = "ping", 1, true
	body, err := s.s.speaks().Body(p)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.pings++
	id := s.pings
	s.mu.Unlock()
	log := s.client.Do(ctx, load.Request{ID: id, Purpose: "ping", Body: body})
	if log.FirstNS == 0 {
		return 0, errors.New(log.Error)
	}
	return time.Duration(log.FirstNS - log.WrittenNS), nil
}
