package predict

import (
	"math"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/engine"
)

// world is a server in virtual time: the engine, its front end and its
// metrics. Time passes only in run.
type world struct {
	now     int64
	engine  *engine.Engine
	desk    engine.Desk
	events  []event // in order of time
	stepEnd int64   // of the step under way, never without one
	step    *engine.Step
	calls   []*call // by the engine's id, nil once ended
	woken   bool

	scrapes  []speedmatrix.ServerRow
	scrapeAt int64
	fast     bool
	cell     string
}

// event is something that will happen at a time.
type event struct {
	at   int64
	fire func()
}

const never = math.MaxInt64

// The pace of the scrapes and the time that one takes, as a local server answers.
const (
	scrapeEvery = time.Second
	drainPoll   = 200 * time.Millisecond
	scrapeDelay = time.Millisecond
)

func newWorld(e *engine.Engine, f engine.FrontEnd, start int64) *world {
	return &world{now: start, engine: e, desk: engine.Desk{FrontEnd: f}, stepEnd: never, scrapeAt: start + int64(scrapeDelay)}
}

// at makes something happen at a time, after what was to happen then already.
func (w *world) at(t int64, fire func()) {
	i, _ := slices.BinarySearchFunc(w.events, t, func(e event, t int64) int {
		if e.at <= t {
			return -1
		}
		return 1
	})
	w.events = slices.Insert(w.events, i, event{t, fire})
}

// run lets time pass until the given one, or until somebody has set woken.
func (w *world) run(until int64) {
	for w.woken = false; !w.woken; {
		next := min(w.stepEnd, w.scrapeAt)
		if len(w.events) > 0 {
			next = min(next, w.events[0].at)
		}
		if next > w.now && w.beginStep() {
			continue
		}
		if next > until {
			break
		}
		w.now = max(w.now, next)
		switch {
		case w.stepEnd <= w.now:
			w.endStep()
		case len(w.events) > 0 && w.events[0].at <= w.now:
			fire := w.events[0].fire
			w.events = slices.Delete(w.events, 0, 1)
			fire()
		default:
			w.scrape()
		}
	}
	if !w.woken {
		w.now = max(w.now, until)
	}
}

// beginStep begins a step if none is under way and there is something to compute. A step in which the only request
// made room for itself computes nothing; the next one does.
func (w *world) beginStep() bool {
	if w.stepEnd != never || w.engine.Idle() {
		return false
	}
	step, some := w.engine.Begin()
	if some {
		w.step = step
		w.stepEnd = w.now + int64(step.Duration)
	}
	return some || len(step.Preempted) > 0
}

func (w *world) endStep() {
	w.stepEnd, w.step = never, nil
	for _, o := range w.engine.End().Outputs {
		if c := w.calls[o.ID]; c != nil {
			c.token(w, o)
		}
	}
}

// hurry makes the scrapes come fast, or at their usual pace again.
func (w *world) hurry(fast bool) {
	if fast && !w.fast {
		w.scrapeAt = w.now + int64(scrapeDelay)
	}
	w.fast = fast
}

// figures are the numbers of one scrape, together so that they are one allocation.
type figures struct{ running, waiting, usage, preemptions, generated, prompts, hits, queries float64 }

func (w *world) scrape() {
	g, c := w.engine.Gauges(), w.engine.Counters()
	f := &figures{float64(g.Running), float64(g.Waiting), g.KVUsage, float64(c.Preemptions), float64(c.GenerationTokens),
		float64(c.PromptTokens), float64(c.PrefixHits), float64(c.PrefixQueries)}
	w.scrapes = append(w.scrapes, speedmatrix.ServerRow{SentNS: w.now, ReceivedNS: w.now, Cell: w.cell,
		Running: &f.running, Waiting: &f.waiting, KVUsage: &f.usage, Preemptions: &f.preemptions, GenerationTokens: &f.generated,
		PromptTokens: &f.prompts, PrefixHits: &f.hits, PrefixQueries: &f.queries})
	pause := scrapeEvery
	if w.fast {
		pause = drainPoll
	}
	w.scrapeAt = w.now + int64(pause)
}

// since gives the scrapes at or after a time.
func (w *world) since(from int64) []speedmatrix.ServerRow {
	i := len(w.scrapes)
	for i > 0 && w.scrapes[i-1].SentNS >= from {
		i--
	}
	return slices.Clone(w.scrapes[i:])
}
