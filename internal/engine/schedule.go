package engine

import (
	"math"
	"slices"
	"time"
)

// Begin plans a step and gives its duration; false if there is nothing to compute. The caller lets the duration
// pass and calls End. What it adds or aborts meanwhile takes effect after the step.
func (e *Engine) Begin() (*Step, bool) {
	if e.inStep {
		panic("engine: a step is under way")
	}
	e.step = Step{Admitted: e.step.Admitted[:0], Preempted: e.step.Preempted[:0], Outputs: e.step.Outputs[:0]}
	budget := e.scheduleRunning(e.c.StepTokens)
	if len(e.step.Preempted) == 0 {
		e.admit(budget)
	}
	e.measure()
	if e.step.Tokens == 0 {
		return &e.step, false
	}
	e.inStep = true
	return &e.step, true
}

// Step runs a whole step; false if there was nothing to compute.
func (e *Engine) Step() (*Step, bool) {
	if step, some := e.Begin(); !some {
		return step, false
	}
	return e.End(), true
}

// scheduleRunning gives the running requests their tokens, in order, and returns what is left of the budget. When
// blocks are missing the last running request makes room.
func (e *Engine) scheduleRunning(budget int) int {
	for i := 0; i < len(e.running) && budget > 0; i++ {
		s := e.running[i]
		n := e.chunk(s, budget)
		if n == 0 {
			continue
		}
		for !e.grow(s, s.computed+n) {
			if e.preemptLast() == s {
				return budget
			}
		}
		s.chunk = n
		budget -= n
	}
	return budget
}

// chunk is how many tokens of a sequence the step computes.
func (e *Engine) chunk(s *sequence, budget int) int {
	n := s.known - s.computed
	if e.c.LongPrefillTokens > 0 {
		n = min(n, e.c.LongPrefillTokens)
	}
	n = min(n, budget)
	if !e.c.Hybrid || s.computed >= max(s.prompt, s.known-1) {
		return n
	}
	// The state is kept only where a chunk ends, so chunks end on blocks and the last boundary is an end.
	last := s.known - s.known%e.c.BlockTokens
	switch after := s.computed + n; {
	case after < last:
		return n / e.c.BlockTokens * e.c.BlockTokens
	case s.computed < last && last < after:
		return last - s.computed
	}
	return n
}

// blocksFor is the number of blocks that a length takes.
func (e *Engine) blocksFor(length int) int { return (length + e.c.BlockTokens - 1) / e.c.BlockTokens }

// grow gives a sequence the blocks for a length; false if there are too few.
func (e *Engine) grow(s *sequence, length int) bool {
	need := e.blocksFor(length) - len(s.blocks)
	if need > e.pool.free {
		return false
	}
	for range need {
		b := e.pool.take()
		s.blocks = append(s.blocks, b)
		if s.decoding {
			e.pool.use(b)
		}
	}
	return true
}

// preemptLast sends the request that came last back to the head of the queue; it will be computed anew.
func (e *Engine) preemptLast() *sequence {
	last := len(e.running) - 1
	s := e.running[last]
	e.running = e.running[:last]
	e.release(s)
	s.computed, s.sealed, s.chunk = 0, 0, 0
	s.preemptions++
	e.counters.Preemptions++
	e.waiting = slices.Insert(e.waiting, 0, s)
	e.step.Preempted = append(e.step.Preempted, s.id)
	return s
}

// admit takes waiting requests in, in order, until one does not fit whole.
func (e *Engine) admit(budget int) {
	taken := 0
	for budget > 0 && taken < len(e.waiting) && len(e.running) < e.c.MaxRunning {
		s := e.waiting[taken]
		hits := e.match(s)
		if !e.fits(s, hits) {
			break
		}
		s.computed = len(hits) * e.c.BlockTokens
		n := e.chunk(s, budget)
		if n == 0 {
			s.computed = 0
			break
		}
		e.start(s, hits, n)
		budget -= n
		taken++
	}
	e.waiting = slices.Delete(e.waiting, 0, taken)
}

// match gives the blocks of the cache that hold a sequence's beginning, valid until the next call; the last known token
// is always computed.
func (e *Engine) match(s *sequence) []int32 {
	e.hits = e.hits[:0]
	if !e.c.PrefixCaching {
		return e.hits
	}
	found := 0
	most := min((s.known-1)/e.c.BlockTokens, len(s.hashes))
	for i, hash := range s.hashes[:most] {
		b, there := e.pool.index.get(hash)
		if !there {
			break
		}
		e.hits = append(e.hits, b)
		if !e.c.Hybrid || e.pool.state[b] {
			found = i + 1
		}
	}
	return e.hits[:found]
}

// fits says whether all known tokens of a waiting sequence find room beside what runs.
func (e *Engine) fits(s *sequence, hits []int32) bool {
	free := e.pool.free
	for _, b := range hits {
		if e.pool.refs[b] == 0 {
			free--
		}
	}
	reserve := 0
	if len(e.running) > 0 {
		reserve = int(math.Ceil(e.c.Watermark * float64(e.c.Usable())))
	}
	return e.blocksFor(s.known)-len(hits)+reserve <= free
}

// start moves a sequence into the running ones with its cached blocks and those of its first chunk.
func (e *Engine) start(s *sequence, hits []int32, n int) {
	for _, b := range hits {
		e.pool.hold(b)
		s.blocks = append(s.blocks, b)
	}
	s.sealed = len(hits)
	if !e.grow(s, s.computed+n) {
		panic("engine: a sequence that fits has no room")
	}
	s.chunk, s.running = n, true
	if !s.admitted && e.c.PrefixCaching {
		e.counters.PrefixQueries += int64(s.prompt)
		e.counters.PrefixHits += int64(s.computed)
		s.cached = s.computed
	}
	s.admitted = true
	e.running = append(e.running, s)
	e.step.Admitted = append(e.step.Admitted, s.id)
}

// measure sums the step up and gives it its duration.
func (e *Engine) measure() {
	load := &e.step.Load
	for _, s := range e.running {
		switch {
		case s.chunk == 0:
		case s.decoding:
			load.AddDecode(s.known)
		default:
			e.c.Timing.AddChunk(load, s.chunk, s.computed)
		}
	}
	load.Unique = max(load.Total-float64(e.pool.shared*e.c.BlockTokens), load.LongestDecode)
	e.step.Tokens, e.step.Decodes = int(load.Tokens), load.Decodes
	e.step.PromptTokens = e.step.Tokens - e.step.Decodes
	if e.step.Tokens > 0 {
		e.step.Duration = time.Duration(e.c.Timing.Step(load) * e.noise())
	}
}

// noise is the factor of the step's duration: normal with mean 1, decided by the seed and the number of the step.
func (e *Engine) noise() float64 {
	if e.c.Noise == 0 {
		return 1
	}
	uniform := func(k uint64) float64 {
		return (float64(mix(mix(e.c.Seed, uint64(e.counters.Steps)), k)>>11) + 0.5) / (1 << 53)
	}
	normal := math.Sqrt(-2*math.Log(uniform(1))) * math.Cos(2*math.Pi*uniform(2))
	return max(1+e.c.Noise*normal, 0.1)
}

// End ends the step: it gives each request whose known tokens are all computed its next one, and lets go of those
// that have ended.
func (e *Engine) End() *Step {
	if !e.inStep {
		panic("engine: no step is under way")
	}
	e.inStep = false
	e.counters.Steps++
	e.counters.BusyTime += e.step.Duration
	kept := e.running[:0]
	for _, s := range e.running {
		if e.advance(s) {
			kept = append(kept, s)
			continue
		}
		e.release(s)
		e.spare = append(e.spare, s)
	}
	clear(e.running[len(kept):])
	e.running = kept
	return &e.step
}

// advance takes the step's tokens of a sequence as computed; false if the sequence has ended.
func (e *Engine) advance(s *sequence) bool {
	if s.aborting {
		return false
	}
	if s.chunk == 0 {
		return true
	}
	s.computed += s.chunk
	s.chunk = 0
	e.seal(s)
	if s.computed < s.known {
		return true
	}
	if s.outputs == 0 {
		e.counters.PromptTokens += int64(s.prompt)
	}
	s.known++
	s.outputs++
	e.counters.GenerationTokens++
	finish := e.finish(s)
	e.step.Outputs = append(e.step.Outputs, Output{ID: s.id, Index: s.outputs - 1, Cached: s.cached, Finish: finish})
	if finish != FinishNone {
		delete(e.byID, s.id)
		return false
	}
	if !s.decoding {
		e.startDecoding(s)
	}
	return true
}

func (e *Engine) finish(s *sequence) Finish {
	switch s.outputs {
	case s.ends:
		e.counters.Stopped++
		return FinishStop
	case s.max:
		e.counters.Length++
		return FinishLength
	}
	return FinishNone
}

// seal offers the blocks that became full to the prefix cache. A hybrid model's state is kept where the step ended.
func (e *Engine) seal(s *sequence) {
	if !e.c.PrefixCaching {
		return
	}
	full := s.computed / e.c.BlockTokens
	if full == s.sealed {
		return
	}
	s.hashTo(full*e.c.BlockTokens, e.c.BlockTokens, e.c.Seed)
	for ; s.sealed < full; s.sealed++ {
		atEnd := (s.sealed+1)*e.c.BlockTokens == s.computed
		e.pool.publish(s.blocks[s.sealed], s.hashes[s.sealed], atEnd)
	}
}
