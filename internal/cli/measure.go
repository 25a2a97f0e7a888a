package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/machine"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/unit"
)

// tailOverhead is what the tail of a prompt takes, in tokens, where the server cannot count.
const tailOverhead = 48

// defaultCharsPerToken is used until the server has counted a prompt.
const defaultCharsPerToken = 4.3

// measure warms the server up and measures the plan's cells.
func (r *runner) measure(ctx context.Context, plan *bench.Plan) error {
	m, err := r.begin(ctx, plan)
	if err != nil {
		return err
	}
	defer m.stop()
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	r.openScreen(m.driving, m.driver, m.sampler, finish)
	return r.finish(m.store, m.session.Measure(ctx))
}

// measuring is a run whose server is warm and whose cells are to be measured; stop ends it.
type measuring struct {
	session *bench.Session
	driver  *bench.Driver
	sampler Sampler
	store   *cleanStore
	// driving ends with stop.
	driving context.Context
	stop    func()
}

// begin warms the server up and prepares the plan's cells.
func (r *runner) begin(ctx context.Context, plan *bench.Plan) (m *measuring, err error) {
	client, err := r.loadClient()
	if err != nil {
		return nil, err
	}
	store := r.store() // which a second interrupt may discard
	driving, end := context.WithCancel(context.WithoutCancel(ctx))
	driver, wait := bench.NewDriver(driving, bench.DriverOptions{Client: client, Server: r.server, Dialect: r.server.Dialect,
		Params: r.server.Params, Clock: r.clock, Texts: r.texts(), Habits: r.doc.Server.Habits,
		KVBlockTokens: r.server.KVBlockTokens, Watch: r.show.glance})
	sampler := r.sample(ctx, driver)
	stop := func() {
		sampler.Close()
		end()
		wait()
		r.show.draws.Wait()
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	go r.watchClock(driving)
	session := &bench.Session{Settings: r.o.Settings, Plan: plan, Limits: r.limits(), Lab: driver, Store: store, Run: r.doc, Telemetry: sampler,
		BaseRunning: r.baseRunning, BaseWaiting: r.baseWaiting, HasGauges: r.server.Gauges(), Generation: r.doc.Plan.Resumed, Tell: r.show.tell}
	if err := r.warmUp(ctx, driver, session); err != nil {
		return nil, err
	}
	r.recordPlan(session)
	if r.resumed {
		rows, err := store.Server()
		if err != nil {
			return nil, err
		}
		session.Continue(rows)
		samples, err := store.Machine()
		if err != nil {
			return nil, err
		}
		session.ContinueMachine(samples)
	}
	session.Prepare()
	r.show.expected(session)
	return &measuring{session, driver, sampler, store, driving, stop}, nil
}

// finish notes what the clock did while the cells were measured.
func (r *runner) finish(store *cleanStore, err error) error {
	if steps := r.clock.Steps(); steps > 0 {
		r.doc.Client.ClockSteps = steps
		r.warn("clock", fmt.Sprintf("the wall clock stepped %d times during the run; stamps near the steps may be off", steps))
		if saveErr := store.SaveRun(r.doc); saveErr != nil && err == nil {
			err = saveErr
		}
	}
	return err
}

// sample begins to watch the machine: the server's where it is this one.
func (r *runner) sample(ctx context.Context, driver *bench.Driver) Sampler {
	w := machine.Watch{Now: r.clock.Now, Cell: driver.Cell, Local: r.server.EngineHere, Port: portOf(r.server.Base)}
	if _, simulated := r.doc.Engine[speedmatrix.EngineSimulated]; simulated {
		w.NoGPU = "the server is simulated: no GPU works for it"
	}
	return r.env.watch(ctx, w)
}

// portOf is the port of an address, the scheme's own where it names none.
func portOf(base *url.URL) int {
	if port, err := strconv.Atoi(base.Port()); err == nil {
		return port
	}
	if base.Scheme == "https" {
		return 443
	}
	return 80
}

// warmUp pays the server's first costs and takes what it showed into the session.
func (r *runner) warmUp(ctx context.Context, driver *bench.Driver, session *bench.Session) error {
	r.show.warmUp()
	rules := bench.Rules{Concurrency: 1, DrainLimit: time.Minute, BaseRunning: r.baseRunning, BaseWaiting: r.baseWaiting}
	warm := driver.WarmUp(ctx, bench.WarmUpSpec{Limits: r.limits(), Concurrency: slices.Max(session.Plan.Concurrency), Rules: rules,
		Brief: r.o.Method == speedmatrix.MethodQuick})
	if ctx.Err() != nil {
		return interruptedOr(ctx, ctx.Err())
	}
	for _, w := range warm.Warnings {
		r.warn(w.Code, w.Message)
	}
	h := &r.doc.Server.Habits
	if warm.TokensPerEvent > 0 {
		h.TokensPerEvent, h.EventsPerRead, h.CoalescedShare = warm.TokensPerEvent, warm.EventsPerRead, warm.CoalescedShare
		h.KeepsConnections = warm.KeptConnections
	}
	driver.SetHabits(*h)
	session.ServerCoalesced = h.CoalescedShare
	session.Learn(warm)
	return nil
}

// recordPlan completes the plan with the times that the warm-up allows to predict, drops what --max-time leaves no
// room for, and puts it into the document.
func (r *runner) recordPlan(session *bench.Session) {
	plan := session.Plan
	if r.o.MaxTime > 0 {
		if n := plan.FitInto(r.o.MaxTime, &r.o.Settings, session.Pilot); n > 0 {
			r.show.say(fmt.Sprintf("--max-time %s leaves out the %d least informative cells.", unit.Duration(r.o.MaxTime), n))
		}
	}
	expected, prompts := plan.Expected(&r.o.Settings, session.Pilot)
	r.doc.Plan = speedmatrix.Plan{Contexts: plan.Contexts, Concurrency: plan.Concurrency, Prefill: plan.Prefill,
		MaxSeconds: r.o.MaxTime.Seconds(), ExpectedSeconds: expected.Seconds(), PromptTokens: prompts, Resumed: r.doc.Plan.Resumed}
}

// texts makes the prompts, by the server's tokenizer where it has one.
func (r *runner) texts() *bench.PromptTexts {
	h := r.doc.Server.Habits
	t := &bench.PromptTexts{Writer: prompt.NewWriter(r.library, r.o.Salt, r.o.Prompts), CharsPerToken: h.CharsPerToken,
		Overhead: h.TemplateTokens + tailOverhead}
	if t.CharsPerToken <= 0 {
		t.CharsPerToken = defaultCharsPerToken
	}
	if h.Tokenizer {
		t.Count = r.server.CountTokens
	}
	return t
}

// watchClock looks for steps of the wall clock once a second.
func (r *runner) watchClock(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.clock.Check()
		}
	}
}
