package simserver

import (
	"time"

	"speedmatrix/internal/engine"
	"speedmatrix/internal/wire"
)

// Step is one step of the engine as it happened. Times are the server's, in ns since New.
type Step struct {
	BeganNS, EndsNS int64
	// Late is how long after EndsNS the tokens were handed over, on the machine's clock.
	Late time.Duration
	// Engine is what the step did; it is valid during the call only. A choice's id is that of its Ended.
	Engine *engine.Step
}

// Ended is one choice that came to its end. Times are the server's, in ns since New.
type Ended struct {
	ID int64
	// Request is the id that the client got.
	Request string
	// ArrivedNS is the last byte of the body, QueuedNS the scheduler, StartedNS the first step.
	ArrivedNS, QueuedNS, StartedNS, FirstNS, LastNS int64
	PromptTokens, CachedTokens, OutputTokens        int
	Preemptions                                     int
	Finish                                          string
}

// Watch is told what the engine does by the goroutine that owns it, so it must return at once.
type Watch struct {
	Step func(Step)
	End  func(Ended)
}

// finishStep ends the step under way and hands its tokens over.
func (l *loop) finishStep() {
	late := -l.clock.until(l.ends)
	step := l.engine.End()
	l.last = l.ends
	f := &l.figures
	f.iteration = 0
	for i := range step.Outputs {
		l.deliver(&step.Outputs[i])
	}
	if len(step.Outputs) > 0 {
		f.observe(histIterationTokens, float64(f.iteration+len(step.Outputs)))
	}
	if l.options.Watch.Step != nil {
		l.options.Watch.Step(Step{BeganNS: l.began, EndsNS: l.ends, Late: late, Engine: step})
	}
	l.step = nil
}

// deliver hands a token over and ends the choice if it was its last.
func (l *loop) deliver(o *engine.Output) {
	j := l.jobs[o.ID]
	if j == nil {
		return // its request lost the connection in this step
	}
	token := j.answer.token(o.Index)
	tokens := o.Index + 1
	finish := o.Finish.String()
	stopAt, stop, stopped := l.stops(j, tokens, l.model.words.text(token))
	if stopped {
		if finish == "" {
			l.engine.Stop(j.id)
		}
		finish = wire.FinishStop
	}
	l.figures.token(j, o, l.ends)
	j.lastNS = l.ends
	g := j.group
	g.mu.Lock()
	j.out, j.cached, j.finish = j.answer.tokens[:tokens], o.Cached, finish
	if stop != "" {
		j.stopAt, j.stop = stopAt, stop
	}
	g.mu.Unlock()
	switch {
	case finish != "":
		l.ended(j, o.Cached, tokens)
	case tokens == j.dropAfter:
		l.end(leaver{group: g})
		g.drop()
		return
	case g.quiet:
		return
	}
	g.tell()
}

// stops says whether the answer ends by itself or by a stop string with so many tokens.
func (l *loop) stops(j *job, tokens int, text string) (stopAt int, stop string, stopped bool) {
	switch {
	case len(j.stops) == 0:
	case tokens <= j.min:
		j.tail.skip(text)
	default:
		if at, s, found := j.tail.add(text); found {
			return at, s, true
		}
	}
	if j.ends > 0 && tokens >= max(j.ends, j.min) && j.answer.endsPassage(tokens) {
		return 0, "", true
	}
	return 0, "", false
}

// ended books the end of a choice.
func (l *loop) ended(j *job, cached, tokens int) {
	j.dead = true
	delete(l.jobs, j.id)
	l.figures.ended(j, cached, tokens)
	if l.options.Watch.End != nil {
		l.options.Watch.End(Ended{
			ID: j.id, Request: j.group.id, ArrivedNS: j.group.arrivedNS, QueuedNS: j.readyNS, StartedNS: j.startedNS,
			FirstNS: j.firstNS, LastNS: j.lastNS, PromptTokens: len(j.prompt), CachedTokens: cached, OutputTokens: tokens,
			Preemptions: j.preempted, Finish: j.finish,
		})
	}
}
