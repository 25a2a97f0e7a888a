package truth

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// job is one request on its way through the scheduler.
type job struct {
	id     int
	prompt measured

	start      chan struct{} // closed when the prefill begins; the four below stand from then on
	admittedAt time.Duration
	prefillAt  time.Duration
	firstAt    time.Duration // when the prefill ends
	cached     int

	slot    int // place among the running, −1 before
	tokens  atomic.Int64
	paused  bool
	counted bool // its prefill is in the counters
}

// scheduler is the queue, the running requests and the one prefill at a time.
// Instants are since the start of the server; where one thing follows from
// another it begins at that one's due time and not when a goroutine woke.
type scheduler struct {
	script *Script

	mu         sync.Mutex
	waiting    []*job
	running    []*job
	prefills   []*job // admitted, before their prefill
	prefilling *job
	cache      prefixCache

	sums       sums
	generating atomic.Int64 // requests past their first token
	generated  atomic.Int64 // tokens, live
	events     atomic.Int64
}

// sums are the counters since the start.
type sums struct {
	promptTokens, cachedTokens int // of prefills that ended
	queries, hits              int // tokens looked up in the prefix cache
	endedTokens                int // generated tokens of requests that ended
	prefillTime                time.Duration
	stopped, atLimit           int // finish reasons
	preemptions                int
	peakRunning, peakWaiting   int
}

func newScheduler(s *Script) *scheduler {
	return &scheduler{script: s, cache: make(prefixCache)}
}

// arrive queues a job.
func (s *scheduler) arrive(id int, prompt measured, at time.Duration) *job {
	j := &job{id: id, prompt: prompt, start: make(chan struct{}), slot: -1}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, j)
	s.admit(at)
	s.sums.peakWaiting = max(s.sums.peakWaiting, len(s.waiting))
	return j
}

// admit lets jobs run in order of arrival while there is room. s.mu is held.
func (s *scheduler) admit(at time.Duration) {
	for len(s.waiting) > 0 && s.room(s.waiting[0]) {
		j := s.waiting[0]
		s.waiting = s.waiting[1:]
		j.admittedAt, j.slot = at, s.freeSlot()
		s.running = append(s.running, j)
		s.prefills = append(s.prefills, j)
		s.sums.peakRunning = max(s.sums.peakRunning, len(s.running))
	}
	s.nextPrefill(at)
}

func (s *scheduler) room(j *job) bool {
	if s.script.MaxRunning > 0 && len(s.running) >= s.script.MaxRunning {
		return false
	}
	return !s.script.KVLimits || s.script.KVTokens == 0 || s.usedBlocks()+s.blocks(j.prompt.tokens+1) <= s.totalBlocks()
}

func (s *scheduler) freeSlot() int {
	slot := 0
	for slices.ContainsFunc(s.running, func(j *job) bool { return j.slot == slot }) {
		slot++
	}
	return slot
}

// nextPrefill begins the next prefill if none is under way. s.mu is held.
func (s *scheduler) nextPrefill(at time.Duration) {
	if s.prefilling != nil || len(s.prefills) == 0 {
		return
	}
	j := s.prefills[0]
	s.prefills = s.prefills[1:]
	s.prefilling = j
	if s.script.PrefixCache {
		j.cached = s.cache.lookup(j.prompt, s.script.BlockTokens)
		s.sums.queries += j.prompt.tokens
		s.sums.hits += j.cached
	}
	j.prefillAt = max(at, j.admittedAt)
	j.firstAt = j.prefillAt + s.script.PrefillBase + s.script.PrefillPerToken*time.Duration(j.prompt.tokens-j.cached)
	close(j.start)
}

// prefilled ends a job's prefill, at its firstAt; from then on it generates.
func (s *scheduler) prefilled(j *job) {
	s.generating.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	j.counted = true
	s.sums.promptTokens += j.prompt.tokens
	s.sums.cachedTokens += j.cached
	s.sums.prefillTime += j.firstAt - j.prefillAt
	s.cache.insert(j.prompt)
	s.prefilling = nil
	s.nextPrefill(j.firstAt)
}

// leave takes a job out, wherever it is; finish is its finish reason, if it came to one.
func (s *scheduler) leave(j *job, at time.Duration, finish string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(other *job) bool { return other == j }
	s.waiting = slices.DeleteFunc(s.waiting, is)
	s.prefills = slices.DeleteFunc(s.prefills, is)
	s.running = slices.DeleteFunc(s.running, is)
	if j.counted {
		s.generating.Add(-1)
	}
	if s.prefilling == j {
		s.prefilling = nil
	}
	s.sums.endedTokens += int(j.tokens.Load())
	switch finish {
	case "stop":
		s.sums.stopped++
	case "length":
		s.sums.atLimit++
	}
	s.admit(at)
}

// produced counts tokens of one step of a job.
func (s *scheduler) produced(j *job, tokens int) {
	j.tokens.Add(int64(tokens))
	s.generated.Add(int64(tokens))
	s.events.Add(1)
}

// pause shows a job as waiting, or running again; counted moves the counter of preemptions.
func (s *scheduler) pause(j *job, paused, counted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.paused = paused
	if counted {
		s.sums.preemptions++
	}
}

func (s *scheduler) totals() (preemptions, peakRunning, peakWaiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sums.preemptions, s.sums.peakRunning, s.sums.peakWaiting
}

// blocks is how many KV blocks so many tokens take.
func (s *scheduler) blocks(tokens int) int {
	return (tokens + s.script.BlockTokens - 1) / s.script.BlockTokens
}

func (s *scheduler) totalBlocks() int { return s.script.KVTokens / s.script.BlockTokens }

// usedBlocks are those of the running jobs, shared ones counted each time. s.mu is held.
func (s *scheduler) usedBlocks() int {
	n := 0
	for _, j := range s.running {
		if !j.paused {
			n += s.blocks(j.prompt.tokens + int(j.tokens.Load()))
		}
	}
	return n
}

// gauges are what the metrics show of an instant.
type gauges struct {
	sums
	running, waiting int
	kvUsage          float64 // 0–1
	generated        int
	events           int
	slots            []slot
}

// slot is one running job as llama.cpp shows it.
type slot struct {
	index, task, prompt, cached, decoded int
}

// read gives all values of one instant.
func (s *scheduler) read() gauges {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := gauges{sums: s.sums, running: len(s.running), waiting: len(s.waiting)}
	for _, j := range s.running {
		if j.paused {
			g.running--
			g.waiting++
		}
		g.slots = append(g.slots, slot{j.slot, j.id, j.prompt.tokens, j.cached, int(j.tokens.Load())})
	}
	if total := s.totalBlocks(); total > 1 {
		g.kvUsage = min(float64(s.usedBlocks())/float64(total-1), 1) // one block is vLLM's null block
	}
	g.generated, g.events = int(s.generated.Load()), int(s.events.Load())
	return g
}
