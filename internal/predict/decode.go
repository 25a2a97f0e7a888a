package predict

import (
	"context"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
)

// counterName is the engine's counter that predictions count tokens by beside the client's own count.
const counterName = "vllm:generation_tokens_total"

// attempt is one attempt at a decode cell under way.
type attempt struct {
	l    *lab
	spec *bench.DecodeSpec
	p    *bench.Protocol
	// filling is the fill under way; fills are those that have ended.
	filling *call
	fillAt  bench.FillState
	fills   []bench.Prefilled
	streams []stream
	calls   []*call // all requests of the streams
	states  []bench.StreamState
	stopped bool

	precision bench.Precision
}

// stream is one of the slots of the cell.
type stream struct {
	call     *call
	requests int
	before   int // tokens of the requests that ended
	ever     bool
	last     int64
	failures int
}

// Decode measures one attempt at a decode cell by stepping the protocol.
func (l *lab) Decode(ctx context.Context, spec *bench.DecodeSpec) *bench.DecodeResult {
	a := &attempt{l: l, spec: spec, p: bench.NewProtocol(spec.Rules, l.w.now)}
	l.w.cell = spec.Key
	a.drive(ctx)
	l.w.hurry(false)
	l.w.cell = ""
	return a.result(ctx)
}

// drive steps the protocol to its end.
func (a *attempt) drive(ctx context.Context) {
	w := a.l.w
	for {
		step := a.p.Step()
		w.hurry(step.Hurried())
		action := a.p.Next(w.now, a.observe(ctx))
		if action.Kind == bench.ActionDone {
			return
		}
		a.perform(action)
		if action.Kind != bench.ActionRestart {
			w.run(action.WakeNS)
			a.tookFill()
		}
	}
}

// observe looks at everything once.
func (a *attempt) observe(ctx context.Context) bench.Observation {
	o := bench.Observation{Gauges: a.l.gauges(), Fill: a.fillAt, AllStopped: a.stopped || a.streams == nil, Interrupted: ctx.Err() != nil}
	for i := range a.streams {
		a.states[i] = a.streams[i].state()
	}
	o.Streams = a.states
	if a.p.Step() == bench.StepWindow {
		a.precision.Look(a.l.w.now, &o, &a.spec.Rules.Window)
	}
	return o
}

func (s *stream) state() bench.StreamState {
	n := len(s.call.times)
	out := bench.StreamState{EverFirst: s.ever || n > 0, Producing: n > 0 && s.call.row.EndedNS == nil, LastNS: s.last,
		Tokens: float64(s.before + n), Failures: s.failures}
	if n > 0 {
		out.LastNS = s.call.times[n-1]
	}
	return out
}

// perform does what the protocol said.
func (a *attempt) perform(action bench.Action) {
	switch action.Kind {
	case bench.ActionFill:
		a.startFill()
	case bench.ActionLaunch:
		a.launch()
	case bench.ActionRestart:
		s := &a.streams[action.Stream]
		a.l.w.cut(s.call)
		a.next(action.Stream, bench.PurposeRestart, a.l.w.now)
	case bench.ActionStop:
		for i := range a.streams {
			a.l.w.cut(a.streams[i].call)
		}
		a.stopped = true
	}
}

func (a *attempt) startFill() {
	n := len(a.fills)
	i := a.spec.Fill[n]
	a.fillAt = bench.FillRunning
	a.filling = a.l.fill(&bench.PrefillSpec{Head: a.spec.Heads[i], Tail: a.spec.NextTail(i), Request: a.spec.FirstFill + int32(n), Rules: a.spec.Rules})
}

// tookFill notes a fill that has ended.
func (a *attempt) tookFill() {
	if a.filling == nil || a.filling.row.EndedNS == nil {
		return
	}
	a.addFill(a.filling.recorded(a.l.counts))
}

func (a *attempt) addFill(r bench.Recorded) {
	f := bench.Prefilled{Recorded: r, Drained: true, Head: a.spec.Heads[a.spec.Fill[len(a.fills)]]}
	a.fillAt = bench.FillDone
	if !f.OK() {
		a.fillAt = bench.FillFailed
	}
	a.fills = append(a.fills, f)
	a.filling = nil
}

// launch sends the first requests of all streams, the given spacing apart.
func (a *attempt) launch() {
	a.streams, a.states = make([]stream, a.spec.Concurrency), make([]bench.StreamState, a.spec.Concurrency)
	for i := range a.streams {
		a.next(i, bench.PurposeLaunch, a.l.w.now+int64(i)*int64(a.spec.Rules.Spacing))
	}
}

// next sends the stream's next request.
func (a *attempt) next(i int, purpose string, at int64) {
	s := &a.streams[i]
	if s.call != nil {
		if n := len(s.call.times); n > 0 {
			s.before, s.ever, s.last = s.before+n, true, s.call.times[n-1]
		}
	}
	head, tail := a.spec.Heads[i], a.spec.NextTail(i)
	c := &call{text: a.l.texts.prompt(head, tail), max: a.spec.MaxTokens, ended: func(c *call) { a.restart(i, c) }}
	c.row = speedmatrix.RequestRow{Request: int32(s.requests*a.spec.Concurrency + i), Stream: int32(i), Purpose: purpose,
		Head: int32(head.Stream), Tail: int32(tail)}
	s.requests++
	s.call = c
	a.calls = append(a.calls, c)
	a.l.w.send(c, at)
}

// patience is the pause of a stream whose requests failed twice in a row.
const patience = time.Second

// restart goes on with a stream whose request has ended by itself.
func (a *attempt) restart(i int, c *call) {
	s := &a.streams[i]
	s.failures++
	if len(c.times) > 0 {
		s.failures = 0
	}
	again := func() {
		if !a.stopped {
			a.next(i, bench.PurposeRestart, a.l.w.now)
		}
	}
	if s.failures >= 2 {
		a.l.w.at(a.l.w.now+int64(patience), again)
		return
	}
	again()
}

// result gathers what the attempt left behind.
func (a *attempt) result(ctx context.Context) *bench.DecodeResult {
	if a.filling != nil {
		a.addFill(a.l.finishFill(a.filling, ctx))
	}
	e := &bench.Evidence{Context: a.spec.Context, Concurrency: a.spec.Concurrency, Outcome: a.p.Outcome(), LiveCounter: true,
		Counter: counterName, TokensPerEvent: 1, BlockTokens: a.l.block, WholeLife: a.spec.WholeLife}
	for i := range a.fills {
		if row := &a.fills[i].Recorded.Row; row.Error != "" && e.FillError == "" {
			e.FillError = row.Error
		}
	}
	for _, c := range a.calls {
		e.Requests = append(e.Requests, c.recorded(a.l.counts))
	}
	if len(a.calls) > 0 {
		e.Scrapes = a.l.w.since(e.Outcome.LaunchNS)
	}
	return &bench.DecodeResult{Evidence: e, Fills: a.fills}
}
