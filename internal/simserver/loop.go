package simserver

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"speedmatrix/internal/engine"
	"speedmatrix/internal/wire"
)

// loop owns the engine. Its goroutine alone touches what is not under mu.
type loop struct {
	engine   *engine.Engine
	desk     engine.Desk
	clock    *clock
	options  Options
	model    model
	closing  <-chan struct{}
	figures  figures
	board    *board
	requests uint64 // requests and choices so far

	arrivals []*group // before the front end, in order
	entering []*job   // in the front end, in the order in which they leave it
	leaving  []leaver
	jobs     map[int64]*job // in the engine

	step     *engine.Step // under way, nil if none is
	began    int64
	ends     int64
	last     int64 // the end of the last step
	stepped  uint64
	wake     chan struct{}
	mu       sync.Mutex
	newly    []*group
	gone     []leaver
	commands []func()
}

// model is what answers are made from.
type model struct {
	words *tokenizer
	pages []string
}

// leaver is a request that is to end at the first step boundary after an
// instant. One that is told gets the finish reason "abort".
type leaver struct {
	group *group
	at    int64
	told  bool
}

// submit brings a request whose body was complete at g.arrivedNS.
func (l *loop) submit(g *group) {
	l.mu.Lock()
	l.newly = append(l.newly, g)
	l.mu.Unlock()
	l.alarm()
}

// abort ends a request.
func (l *loop) abort(g *group, told bool) {
	l.mu.Lock()
	l.gone = append(l.gone, leaver{group: g, at: l.clock.now(), told: told})
	l.mu.Unlock()
	l.alarm()
}

// ask has the loop do something between two of its own affairs and waits for it; false if the server closes.
func (l *loop) ask(do func()) bool {
	done := make(chan struct{})
	l.mu.Lock()
	l.commands = append(l.commands, func() { do(); close(done) })
	l.mu.Unlock()
	l.alarm()
	select {
	case <-done:
		return true
	case <-l.closing:
		return false
	}
}

func (l *loop) alarm() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the loop's goroutine; it ends when the server closes.
func (l *loop) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	now := l.clock.now()
	for {
		next := l.turn(now)
		reached, ok := l.wait(timer, next)
		if !ok {
			return
		}
		now = l.clock.now()
		if reached {
			now = max(now, next)
		}
	}
}

// wait sleeps until an instant or until something comes in, which reached tells apart; ok is false on closing.
func (l *loop) wait(timer *time.Timer, next int64) (reached, ok bool) {
	var due <-chan time.Time
	if next != never {
		left := l.clock.until(next)
		if l.options.Spin {
			left -= spinFor
		}
		timer.Reset(max(left, 0))
		due = timer.C
	}
	select {
	case <-l.closing:
		return false, false
	case <-l.wake:
		timer.Stop()
		return false, true
	case <-due:
	}
	if l.options.Spin {
		l.clock.spin(next)
	}
	return true, true
}

// turn does what is due until now and gives the next instant at which something is.
func (l *loop) turn(now int64) (next int64) {
	for {
		l.collect()
		if next = l.due(); next > now {
			return next
		}
		l.advance(next)
	}
}

// collect takes what came in.
func (l *loop) collect() {
	l.mu.Lock()
	newly, gone, commands := l.newly, l.gone, l.commands
	l.newly, l.gone, l.commands = nil, nil, nil
	l.mu.Unlock()
	for _, g := range newly {
		at, _ := slices.BinarySearchFunc(l.arrivals, g, orderOfArrival)
		l.arrivals = slices.Insert(l.arrivals, at, g)
	}
	l.leaving = append(l.leaving, gone...)
	for _, do := range commands {
		do()
	}
}

// orderOfArrival is by time; at one instant by content and sender, because the order in which goroutines ran says nothing.
func orderOfArrival(a, b *group) int {
	return cmp.Or(cmp.Compare(a.arrivedNS, b.arrivedNS), cmp.Compare(a.hash, b.hash),
		cmp.Compare(len(a.from), len(b.from)), cmp.Compare(a.from, b.from))
}

// due is the next instant at which the loop has something to do. What happens
// at an instant is taken up after it, when all that happens then is known.
func (l *loop) due() int64 {
	next := int64(never)
	if len(l.arrivals) > 0 {
		next = l.arrivals[0].arrivedNS + 1
	}
	if l.step != nil {
		return min(next, l.ends)
	}
	if len(l.entering) > 0 {
		next = min(next, l.entering[0].readyNS)
	}
	for _, o := range l.leaving {
		next = min(next, o.at+1)
	}
	return next
}

// advance does what is due at an instant.
func (l *loop) advance(at int64) {
	l.release(at)
	switch {
	case l.step == nil:
		if len(l.entering) > 0 {
			at = min(at, l.entering[0].readyNS) // one that no front end delays is ready before it is taken up
		}
		at = max(at, l.last)
		l.leave(at)
	case l.ends > at:
		return
	default:
		at = l.ends
		l.leave(at) // who has left gets no token of this step
		l.finishStep()
	}
	l.figures.engine, l.figures.gauges = l.engine.Counters(), l.engine.Gauges()
	l.board.publish(&l.figures, at)
	l.begin(at)
}

// release passes the requests that arrived before an instant through the front end.
func (l *loop) release(at int64) {
	for len(l.arrivals) > 0 && l.arrivals[0].arrivedNS < at {
		g := l.arrivals[0]
		l.arrivals = slices.Delete(l.arrivals, 0, 1)
		l.requests++
		if p := l.refusal(len(g.jobs)); p != nil {
			g.refuse(p)
			continue
		}
		for i, j := range g.jobs {
			if i == 0 || i%j.n == 0 {
				j.readyNS = l.desk.Arrive(g.arrivedNS, len(j.prompt))
			} else {
				j.readyNS = g.jobs[i-1].readyNS
			}
			l.enter(j, i)
		}
	}
}

// refusal is why a request with so many choices is not taken, nil if it is.
func (l *loop) refusal(choices int) *wire.Problem {
	if p := l.options.Faults.refusal(l.options.Seed, l.requests); p != nil {
		return p
	}
	if most := l.options.MaxQueued; most > 0 && len(l.jobs)+len(l.entering)+choices > most {
		l.figures.rejected++
		return wire.EngineBusy()
	}
	return nil
}

// enter puts a choice, the i-th of its request, into the front end and gives it its fate.
func (l *loop) enter(j *job, i int) {
	seed := mix(mix(l.options.Seed, drawAnswer), l.requests)
	if j.fixed {
		seed = mix(hashTokens(mix(l.options.Seed, drawAnswer), j.prompt), j.seed)
	}
	l.figures.choices++
	j.id = l.figures.choices
	j.answer = answer{words: l.model.words, pages: l.model.pages, seed: mix(seed, uint64(i))}
	if !j.ignoreEOS {
		j.ends = j.answer.natural()
	}
	j.tail.stops = j.stops
	j.startedNS = -1
	j.dropAfter = l.options.Faults.dropAfter(l.options.Seed, l.requests, j.max)
	at, _ := slices.BinarySearchFunc(l.entering, j, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.readyNS, b.readyNS), cmp.Compare(a.id, b.id))
	})
	l.entering = slices.Insert(l.entering, at, j)
}

// leave ends the requests that were to end before an instant.
func (l *loop) leave(at int64) {
	l.leaving = slices.DeleteFunc(l.leaving, func(o leaver) bool {
		if o.at >= at {
			return false
		}
		l.end(o)
		return true
	})
}

func (l *loop) end(o leaver) {
	l.arrivals = slices.DeleteFunc(l.arrivals, func(g *group) bool { return g == o.group })
	for _, j := range o.group.jobs {
		if j.dead {
			continue
		}
		j.dead = true
		l.engine.Abort(j.id)
		delete(l.jobs, j.id)
		if o.told {
			j.end(wire.FinishAbort)
		}
	}
	l.entering = slices.DeleteFunc(l.entering, func(j *job) bool { return j.dead })
}

// begin takes in what is ready and begins the next step, if there is one.
func (l *loop) begin(at int64) {
	for len(l.entering) > 0 && l.entering[0].readyNS <= at {
		j := l.entering[0]
		l.entering = slices.Delete(l.entering, 0, 1)
		err := l.engine.Add(engine.Request{ID: j.id, Prompt: j.prompt, MaxTokens: j.max, CacheSalt: j.salt, Output: j.answer.token})
		if err != nil {
			j.group.refuse(&wire.Problem{Status: http.StatusBadRequest, Type: "BadRequestError", Message: err.Error()})
			continue
		}
		l.jobs[j.id] = j
	}
	step, some := l.engine.Begin()
	l.step = nil
	if !some {
		return
	}
	l.step, l.began = step, at
	l.ends = at + max(1, int64(step.Duration+l.options.Faults.spike(l.options.Seed, l.stepped)))
	l.stepped++
	for _, id := range step.Admitted {
		j := l.jobs[id]
		if j.startedNS < 0 {
			j.startedNS = at
		}
		l.figures.preemptions += int64(j.unsaid)
		j.unsaid = 0
	}
	for _, id := range step.Preempted {
		l.jobs[id].preempted++
		l.jobs[id].unsaid++
	}
}
