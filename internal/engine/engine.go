package engine

import (
	"slices"
	"time"
)

// Engine schedules requests onto a simulated machine. One goroutine owns it.
type Engine struct {
	c        Config
	pool     *pool
	waiting  []*sequence
	running  []*sequence
	byID     map[int64]*sequence
	spare    []*sequence
	counters Counters
	step     Step
	hits     []int32
	inStep   bool
}

// Gauges are the engine's state now.
type Gauges struct {
	Running, Waiting int
	// KVUsage is the share (0–1) of the usable blocks that requests hold; what is cached but free is not counted.
	KVUsage float64
}

// Counters only grow.
type Counters struct {
	// Steps counts steps that ended; BusyTime is their time.
	Steps    int64
	BusyTime time.Duration
	// PromptTokens counts the prompts of requests that got their first token, GenerationTokens generated tokens.
	PromptTokens, GenerationTokens int64
	// PrefixQueries and PrefixHits count the prompt tokens looked up in the prefix cache at a request's first
	// admission, and those found.
	PrefixQueries, PrefixHits int64
	Preemptions               int64
	// Stopped, Length and Aborted count the requests that ended so.
	Stopped, Length, Aborted int64
}

// Step is one step: what it was made of and, once it has ended, what came out. Its slices are valid until the next
// step begins.
type Step struct {
	Duration time.Duration
	// Tokens are all scheduled tokens, PromptTokens those of prefill chunks, Decodes the sequences that decode.
	Tokens, PromptTokens, Decodes int
	// Load is what the duration follows from.
	Load Load
	// Admitted lists the requests that left the waiting queue in this step, Preempted those that went back to it.
	Admitted, Preempted []int64
	// Outputs are the tokens that leave at the end of the step, one per request.
	Outputs []Output
}

// Output is one generated token of a request.
type Output struct {
	ID int64
	// Index is the token's place in the answer, from 0.
	Index int
	// Cached is the number of prompt tokens that came from the prefix cache at the first admission.
	Cached int
	Finish Finish
}

// New makes an idle engine with an empty cache. It refuses a configuration that could stand still.
func New(c Config) (*Engine, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Engine{c: c, pool: newPool(c.Usable()), byID: map[int64]*sequence{}}, nil
}

// Config is what the engine was made from.
func (e *Engine) Config() Config { return e.c }

// Gauges gives the state now. During a step it is that of the step.
func (e *Engine) Gauges() Gauges {
	return Gauges{Running: len(e.running), Waiting: len(e.waiting), KVUsage: 1 - float64(e.pool.free)/float64(e.c.Usable())}
}

// Counters gives the counters now; what a step under way generates is not in them.
func (e *Engine) Counters() Counters { return e.counters }

// Idle says whether no request is in the engine.
func (e *Engine) Idle() bool { return len(e.byID) == 0 }

// Preemptions is how often a request in the engine was preempted.
func (e *Engine) Preemptions(id int64) int {
	if s := e.byID[id]; s != nil {
		return s.preemptions
	}
	return 0
}

// Abort takes a request out of the engine; false if it is not there. During a step the request keeps its blocks
// until the step ends, but gets no token any more.
func (e *Engine) Abort(id int64) bool { return e.remove(id, &e.counters.Aborted) }

// Stop takes a request out that has said enough, such as a stop string; it counts as ended by itself.
func (e *Engine) Stop(id int64) bool { return e.remove(id, &e.counters.Stopped) }

func (e *Engine) remove(id int64, counter *int64) bool {
	s := e.byID[id]
	if s == nil {
		return false
	}
	delete(e.byID, id)
	*counter++
	if !s.running {
		e.waiting = slices.DeleteFunc(e.waiting, func(o *sequence) bool { return o == s })
		e.spare = append(e.spare, s)
		return true
	}
	if e.inStep {
		s.aborting = true
		return true
	}
	e.running = slices.DeleteFunc(e.running, func(o *sequence) bool { return o == s })
	e.release(s)
	e.spare = append(e.spare, s)
	return true
}

// ResetPrefixCache forgets all cached prefixes. It does nothing and gives false while any block is in use.
func (e *Engine) ResetPrefixCache() bool {
	if e.pool.free != e.c.Usable() {
		return false
	}
	e.pool.reset()
	return true
}

// release gives a sequence's blocks back, its last first, so that its beginning stays cached for longest.
func (e *Engine) release(s *sequence) {
	e.stopDecoding(s)
	for _, b := range slices.Backward(s.blocks) {
		e.pool.drop(b)
	}
	s.blocks = s.blocks[:0]
	s.running = false
}

func (e *Engine) startDecoding(s *sequence) {
	s.decoding = true
	for _, b := range s.blocks {
		e.pool.use(b)
	}
}

func (e *Engine) stopDecoding(s *sequence) {
	if !s.decoding {
		return
	}
	s.decoding = false
	for _, b := range s.blocks {
		e.pool.unuse(b)
	}
}
