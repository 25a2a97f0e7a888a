package bench

import "time"

// Step is a step of a cell's protocol.
type Step int

// The steps of a decode cell, in order.
const (
	StepDrain  Step = iota // until the engine is empty
	StepFill               // new heads, one at a time
	StepLaunch             // all C requests leave
	StepRamp               // until every stream produces, or the engine is saturated
	StepWindow             // the measurement
	StepSettle             // until the arrival that closes the window
	StepStop               // all requests are cut
	StepEmpty              // until the engine is empty again
	StepDone
)

// Hurried says whether the gauges decide when the step ends, so that they are read every 200 ms and not every second.
func (s Step) Hurried() bool { return s == StepDrain || s == StepRamp || s == StepEmpty }

func (s Step) String() string {
	return [...]string{"drain", "fill", "launch", "ramp", "window", "window", "stop", "stop", "done"}[s]
}

const (
	settleLimit     = 2 * time.Second
	stopLimit       = 30 * time.Second
	lyingGaugeAfter = 5 * time.Second
	pollEvery       = 25 * time.Millisecond
	drainPoll       = 200 * time.Millisecond
)

// Protocol is the state of one cell. The zero value is not ready: use NewProtocol.
type Protocol struct {
	rules   Rules
	step    Step
	since   int64
	out     Outcome
	filled  int
	began   int64
	asking  bool
	held    int64
	ready   int64
	lastNew int64
	closed  int64 // when the arrival that closes the window was seen
	firsts  int
	loops   []int
	marks   []float64
	counted []bool
}

// NewProtocol begins a cell at now.
func NewProtocol(rules Rules, now int64) *Protocol {
	return &Protocol{rules: rules, since: now, out: Outcome{Steps: map[Step]time.Duration{}},
		loops: make([]int, rules.Concurrency), marks: make([]float64, rules.Concurrency), counted: make([]bool, rules.Concurrency)}
}

// Step is the step that the cell is in.
func (p *Protocol) Step() Step { return p.step }

// SinceNS is when the current step began.
func (p *Protocol) SinceNS() int64 { return p.since }

// Outcome is complete once Next has returned ActionDone.
func (p *Protocol) Outcome() Outcome { return p.out }

// Next takes the time and what is known, and says what to do. It is to be called again when something
// changed, and at the latest at the action's WakeNS.
func (p *Protocol) Next(now int64, o Observation) Action {
	if p.step < StepSettle && (o.Interrupted || o.Skip) {
		return p.breakOff(now, o)
	}
	switch p.step {
	case StepDrain:
		return p.drain(now, o)
	case StepFill:
		return p.fill(now, o)
	case StepLaunch:
		return p.launch(now)
	case StepRamp:
		return p.ramp(now, o)
	case StepWindow:
		return p.window(now, o)
	case StepSettle:
		return p.settle(now, o)
	case StepStop:
		return p.stopping(now, o)
	case StepEmpty:
		return p.empty(now, o)
	}
	return Action{Kind: ActionDone, WakeNS: now}
}

func (p *Protocol) enter(step Step, now int64) {
	p.out.Steps[p.step] += time.Duration(now - p.since)
	p.step, p.since, p.asking = step, now, false
}

func (p *Protocol) wait(now int64, d time.Duration) Action {
	return Action{Kind: ActionWait, WakeNS: now + int64(d)}
}

func (p *Protocol) done(now int64, ending Ending) Action {
	if p.out.Ending == "" {
		p.out.Ending = ending
	}
	p.enter(StepDone, now)
	return Action{Kind: ActionDone, WakeNS: now}
}

// breakOff ends a cell early; a window that is open ends with the next arrival.
func (p *Protocol) breakOff(now int64, o Observation) Action {
	p.out.Ending = EndedSkipped
	if o.Interrupted {
		p.out.Ending = EndedInterrupted
	}
	switch {
	case p.step < StepLaunch || p.out.LaunchNS == 0:
		return p.done(now, p.out.Ending)
	case p.step == StepWindow:
		return p.closeWindow(now, o)
	}
	return p.stop(now)
}

// isEmpty says whether the engine runs nothing of ours, by a scrape of this step or by asking.
func (p *Protocol) isEmpty(o Observation) bool {
	if !o.Gauges.Known {
		return p.asking && o.Empty
	}
	g := o.Gauges
	return g.SentNS > p.since && g.Running <= p.rules.BaseRunning && g.Waiting <= p.rules.BaseWaiting
}

// awaitEmpty is one look while a drain goes on; over says that its time is, or that the server is gone.
func (p *Protocol) awaitEmpty(now int64, o Observation) (a Action, over bool) {
	if o.Lost != "" || time.Duration(now-p.since) >= p.rules.DrainLimit {
		p.out.LeftRunning, p.out.LeftWaiting = o.Gauges.Running, o.Gauges.Waiting
		p.out.Silence, p.out.Lost = o.Silence, o.Lost
		return Action{}, true
	}
	a = p.wait(now, drainPoll)
	if !o.Gauges.Known {
		a.Kind, p.asking = ActionAskEmpty, true
	}
	return a, false
}

func (p *Protocol) drain(now int64, o Observation) Action {
	if !p.isEmpty(o) {
		a, over := p.awaitEmpty(now, o)
		if over {
			return p.done(now, EndedNotDrained)
		}
		return a
	}
	p.enter(StepFill, now)
	p.began = now
	return p.fill(now, o)
}

func (p *Protocol) fill(now int64, o Observation) Action {
	if p.asking {
		switch {
		case o.Fill == FillFailed || time.Duration(now-p.since) >= p.rules.FillLimit*time.Duration(max(p.rules.Fills, 1)):
			return p.done(now, EndedFillFailed)
		case o.Fill != FillDone:
			return p.wait(now, pollEvery)
		}
		p.filled, p.asking = p.filled+1, false
	}
	if p.filled < p.rules.Fills {
		p.asking = true
		return Action{Kind: ActionFill, WakeNS: now + int64(pollEvery)}
	}
	p.enter(StepLaunch, now)
	return p.launch(now)
}

func (p *Protocol) launch(now int64) Action {
	if p.out.LaunchNS == 0 {
		p.out.LaunchNS = now
		p.lastNew = now
		return Action{Kind: ActionLaunch, WakeNS: now + int64(p.rules.Spacing)*int64(p.rules.Concurrency)}
	}
	if now < p.out.LaunchNS+int64(p.rules.Spacing)*int64(p.rules.Concurrency) {
		return Action{Kind: ActionWait, WakeNS: p.out.LaunchNS + int64(p.rules.Spacing)*int64(p.rules.Concurrency)}
	}
	p.enter(StepRamp, now)
	return p.wait(now, pollEvery)
}

func (p *Protocol) stop(now int64) Action {
	p.enter(StepStop, now)
	p.out.StopNS = now
	return Action{Kind: ActionStop, WakeNS: now + int64(pollEvery)}
}

func (p *Protocol) stopping(now int64, o Observation) Action {
	if !o.AllStopped && time.Duration(now-p.since) < stopLimit {
		return p.wait(now, pollEvery)
	}
	p.enter(StepEmpty, now)
	return p.empty(now, o)
}

func (p *Protocol) empty(now int64, o Observation) Action {
	if p.isEmpty(o) {
		p.out.DrainedAfter = true
		return p.done(now, EndedMeasured)
	}
	if o.Interrupted {
		p.out.DrainCut = true
		return p.done(now, EndedMeasured)
	}
	a, over := p.awaitEmpty(now, o)
	if over {
		return p.done(now, EndedMeasured)
	}
	return a
}
