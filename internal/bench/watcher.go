package bench

import (
	"context"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/machine"
	"speedmatrix/internal/stamp"
)

// watcher drives one attempt at a cell: it looks, asks the protocol, and does what it says.
type watcher struct {
	d    *Driver
	spec *DecodeSpec
	p    *Protocol

	streams *load.Streams
	fill    chan Prefilled
	filling context.Context // ends with the attempt
	fillAt  FillState
	fills   []Prefilled
	stopped chan struct{}
	isEmpty bool

	guards       []guard
	guardedNS    int64
	loopEvidence []speedmatrix.LoopEvidence

	usage, usageEnd *machine.Usage
	late            stamp.Histogram // of this goroutine's wakes in the window
	skipped         bool
	openErr         error
	pingErr         error
	pingWords       string // why a ping that was answered says that the server is not empty
	// unreached counts the connections in a row that could not be opened, lost is why in the end; triedNS is when the last
	// one was tried.
	unreached   int
	lost        string
	triedNS     int64
	lastTotal   float64
	lastTotalNS int64
	rate        float64
	precision   Precision
}

func newWatcher(d *Driver, spec *DecodeSpec) *watcher {
	return &watcher{d: d, spec: spec, p: NewProtocol(spec.Rules, d.Now()), fill: make(chan Prefilled, 1), stopped: make(chan struct{})}
}

// drive steps the protocol to its end.
func (w *watcher) drive(ctx context.Context) {
	var endFill context.CancelFunc
	w.filling, endFill = context.WithCancel(ctx)
	defer func() {
		endFill()
		if w.fillAt == FillRunning {
			w.took(<-w.fill)
		}
	}()
	step := w.p.Step()
	for {
		w.d.scraper.hurry(step.Hurried())
		a := w.p.Next(w.d.Now(), w.observe(ctx))
		if now := w.p.Step(); now != step {
			step = now
			w.entered(step)
		}
		if a.Kind == ActionDone {
			return
		}
		w.perform(ctx, a)
		if a.Kind == ActionWait || a.Kind == ActionFill || a.Kind == ActionLaunch || a.Kind == ActionStop {
			w.sleep(ctx, a.WakeNS)
		}
	}
}

// entered samples what belongs to the beginning of a step.
func (w *watcher) entered(step Step) {
	switch step {
	case StepWindow:
		w.usage = sampleUsage()
	case StepStop:
		w.usageEnd = sampleUsage()
	}
}

// sleep waits until the time comes, a fill or a stop ends, or the run is interrupted.
func (w *watcher) sleep(ctx context.Context, wakeNS int64) {
	timer := time.NewTimer(max(time.Duration(wakeNS-w.d.Now()), 0))
	defer timer.Stop()
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil // it is known; what is waited for now has limits of its own
	}
	stopped := w.stopped
	if w.p.Step() != StepStop {
		stopped = nil
	}
	select {
	case <-timer.C:
		if now := w.d.Now(); w.p.Step() == StepWindow && now >= wakeNS {
			w.late.Add(time.Duration(now - wakeNS))
		}
	case <-done:
	case <-stopped:
	case filled := <-w.fill:
		w.took(filled)
	}
}

// took notes a fill that has ended.
func (w *watcher) took(filled Prefilled) {
	w.fills = append(w.fills, filled)
	w.fillAt = FillDone
	if !filled.OK() {
		w.fillAt = FillFailed
	}
}

// observe looks at everything once.
func (w *watcher) observe(ctx context.Context) Observation {
	o := Observation{Gauges: w.d.scraper.gauges(), Fill: w.fillAt, Empty: w.isEmpty, Interrupted: ctx.Err() != nil}
	select {
	case <-w.d.skip:
		w.skipped = true
	default:
	}
	o.Skip = w.skipped
	o.Silence, o.Lost = w.silence(ctx, o.Gauges)
	if w.streams == nil {
		o.AllStopped = true
		if w.openErr != nil {
			o.Streams = slices.Repeat([]StreamState{{Failures: 1}}, w.spec.Concurrency)
		}
		w.report(o)
		return o
	}
	select {
	case <-w.stopped:
		o.AllStopped = true
	default:
	}
	now := w.d.Now()
	if now-w.guardedNS >= int64(guardEvery) {
		w.guardedNS = now
		w.lookForLoops()
	}
	o.Streams = make([]StreamState, w.spec.Concurrency)
	for i := range o.Streams {
		o.Streams[i] = w.stream(i)
	}
	if w.p.Step() == StepWindow {
		w.precision.Look(now, &o, &w.spec.Rules.Window)
	}
	w.estimate(now, o)
	w.report(o)
	return o
}

func (w *watcher) stream(i int) StreamState {
	v := w.streams.View(i)
	s := StreamState{EverFirst: v.Events > 0, Producing: v.InFlight && v.FirstNS > 0, LastNS: v.LastNS,
		Failures: v.Failures, Loops: w.guards[i].loops}
	switch {
	case v.Counted >= 0:
		s.Tokens = float64(v.Counted)
	case w.d.o.Habits.TokensPerEvent > 0:
		s.Tokens = float64(v.Events) * w.d.o.Habits.TokensPerEvent
	default:
		s.Tokens = float64(v.Events)
	}
	return s
}

// perform does what the protocol said.
func (w *watcher) perform(ctx context.Context, a Action) {
	switch a.Kind {
	case ActionFill:
		w.startFill()
	case ActionLaunch:
		w.launch(ctx)
	case ActionRestart:
		w.streams.Cut(a.Stream)
	case ActionStop:
		if w.streams == nil {
			close(w.stopped)
			return
		}
		go func() {
			w.streams.Stop()
			close(w.stopped)
		}()
	case ActionAskEmpty:
		w.askEmpty(ctx)
	}
}

// startFill prefills the next head in the background.
func (w *watcher) startFill() {
	w.fillAt = FillRunning
	n := len(w.fills)
	head := w.spec.Heads[w.spec.Fill[n]]
	spec := PrefillSpec{Head: head, Tail: w.spec.NextTail(w.spec.Fill[n]), Request: w.spec.FirstFill + int32(n), Rules: w.spec.Rules}
	go func() {
		log := w.d.send(w.filling, spec)
		w.fill <- Prefilled{Recorded: record(log), Drained: true, Head: head}
	}()
}

// pingLimit bounds the time that a server which must be empty may take for one token.
const pingLimit = 10 * time.Second

// askEmpty finds out by a request for one token whether a server without gauges is empty.
func (w *watcher) askEmpty(ctx context.Context) {
	if w.p.Step() > StepStop {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	took, err := w.d.o.Server.Ping(ctx)
	w.pingErr, w.pingWords = err, ""
	w.isEmpty = err == nil && w.d.pings.empty(took)
	if err == nil && !w.isEmpty {
		w.pingWords = w.d.pings.words(took)
	}
	if !w.isEmpty {
		pause(ctx, drainPoll)
	}
}

// launch opens the connections and sends all requests, the given spacing apart.
func (w *watcher) launch(ctx context.Context) {
	next := make([]func() int32, w.spec.Concurrency)
	for i := range next {
		// Each stream numbers its own requests, so that the numbers do not depend on who comes first.
		seq := int32(0)
		next[i] = func() int32 { seq++; return (seq-1)*int32(w.spec.Concurrency) + int32(i) }
	}
	request := func(stream int, restart bool) load.Request {
		purpose := PurposeLaunch
		if restart {
			purpose = PurposeRestart
		}
		tail := w.spec.NextTail(stream)
		head := w.spec.Heads[stream]
		return load.Request{ID: next[stream](), Head: int32(head.Stream), Tail: int32(tail), Purpose: purpose,
			Body: w.d.body(head, tail, w.spec.MaxTokens)}
	}
	streams, err := w.d.o.Client.Open(context.WithoutCancel(ctx), w.spec.Concurrency, request)
	if err != nil {
		w.openErr = err
		return
	}
	w.streams = streams
	w.guards = make([]guard, w.spec.Concurrency)
	for i := range w.guards {
		w.guards[i].follower = streams.Follow(i)
	}
	streams.Launch(w.d.Now(), w.spec.Rules.Spacing)
}

// estimate keeps the running rate.
func (w *watcher) estimate(now int64, o Observation) {
	total := 0.0
	for i := range o.Streams {
		total += o.Streams[i].Tokens
	}
	if now-w.lastTotalNS < int64(time.Second) {
		return
	}
	if w.lastTotalNS > 0 {
		w.rate = (total - w.lastTotal) / (float64(now-w.lastTotalNS) / 1e9)
	}
	w.lastTotal, w.lastTotalNS = total, now
}

// report tells the live view.
func (w *watcher) report(o Observation) {
	if w.d.o.Watch == nil || w.spec == nil {
		return
	}
	g := Glance{Key: w.spec.Key, Step: w.p.Step(), SinceNS: w.p.SinceNS(), NowNS: w.d.Now(), TokensPerS: w.rate,
		Concurrency: w.spec.Concurrency, Gauges: o.Gauges}
	for i := range o.Streams {
		if o.Streams[i].Producing {
			g.Producing++
		}
	}
	g.Share, _ = w.p.WindowProgress(g.NowNS, o)
	w.d.o.Watch(g)
}
