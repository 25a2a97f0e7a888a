package simserver

import (
	"sync"

	"speedmatrix/internal/wire"
)

// group is the choices that one HTTP request waits for.
type group struct {
	id        string
	jobs      []*job
	arrivedNS int64
	// hash and from decide who comes first of those that arrive at one instant.
	hash uint64
	from string
	// quiet requests, which are not streamed, hear of their end alone.
	quiet bool

	// changed has an element whenever something below has changed.
	changed chan struct{}

	mu      sync.Mutex
	problem *wire.Problem // why it was refused
	dropped bool          // a fault cuts the connection
}

// job is one choice on its way through the engine.
type job struct {
	group  *group
	prompt []uint32
	// n is the number of choices of the request, max and min the bounds of the answer's length.
	n, max, min int
	ignoreEOS   bool
	stops       []string
	salt        uint64
	// fixed makes the answer follow from the prompt alone: temperature 0, or a seed in the request.
	fixed bool
	seed  uint64

	// What follows belongs to the loop.
	id        int64
	answer    answer
	ends      int // tokens after which the model ends the answer with a passage, 0 for never
	dropAfter int
	tail      stopFinder
	readyNS   int64 // reaches the scheduler
	startedNS int64 // leaves the queue
	firstNS   int64
	lastNS    int64
	preempted int
	unsaid    int // preemptions not yet counted: vLLM tells them when the request runs again
	dead      bool

	// What follows is the group's, under its lock.
	out    []uint32 // the tokens so far
	cached int
	finish string
	stopAt int    // length in bytes of the text before the stop string, −1 without one
	stop   string // the stop string that ended the answer
}

func newGroup(from string, jobs []*job) *group {
	g := &group{from: from, jobs: jobs, changed: make(chan struct{}, 1)}
	for _, j := range jobs {
		j.group, j.stopAt = g, -1
		g.hash = hashTokens(mix(g.hash, uint64(j.max)), j.prompt)
	}
	return g
}

// tell wakes the handler.
func (g *group) tell() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// refuse ends a request before it has begun.
func (g *group) refuse(p *wire.Problem) {
	g.mu.Lock()
	g.problem = p
	g.mu.Unlock()
	g.tell()
}

// drop has the handler cut the connection.
func (g *group) drop() {
	g.mu.Lock()
	g.dropped = true
	g.mu.Unlock()
	g.tell()
}

// end gives a choice its finish reason.
func (j *job) end(finish string) {
	j.group.mu.Lock()
	j.finish = finish
	j.group.mu.Unlock()
	j.group.tell()
}

// finished says whether all choices have ended. g.mu is held.
func (g *group) finished() bool {
	for _, j := range g.jobs {
		if j.finish == "" {
			return false
		}
	}
	return true
}
