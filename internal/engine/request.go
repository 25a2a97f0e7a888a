package engine

import (
	"errors"
	"fmt"
	"math/bits"
)

// Request is what the scheduler gets.
type Request struct {
	// ID names the request; no two in the engine may have the same.
	ID int64
	// Prompt is the token ids. It is read during Add only. Hashed, if there, stands in its place.
	Prompt []uint32
	Hashed *Hashed
	// MaxTokens is the most tokens to generate, at least 1.
	MaxTokens int
	// EndsAfter is the number of tokens after which the model ends by itself; 0 is never.
	EndsAfter int
	// CacheSalt keeps prompts apart in the prefix cache that must not share blocks.
	CacheSalt uint64
	// Output gives the id of the i-th generated token, from 0: a later prompt that repeats an answer then finds it
	// in the prefix cache. Nil gives ids that no prompt repeats.
	Output func(i int) uint32
}

// Finish says how a request ended.
type Finish uint8

// The ways to end.
const (
	FinishNone   Finish = iota // it goes on
	FinishStop                 // the model ended by itself
	FinishLength               // at its most tokens
)

func (f Finish) String() string {
	switch f {
	case FinishStop:
		return "stop"
	case FinishLength:
		return "length"
	}
	return ""
}

// The reasons to refuse a request.
var (
	ErrEmpty     = errors.New("the prompt is empty or no token is asked for")
	ErrTooLong   = errors.New("prompt and output exceed the model's maximum length")
	ErrNeverFits = errors.New("prompt and output exceed the whole KV cache")
	ErrDuplicate = errors.New("a request with this id is in the engine")
	ErrBlocks    = errors.New("the prompt was hashed for blocks of another size")
)

// sequence is a request inside the engine.
type sequence struct {
	id                int64
	prompt, max, ends int
	output            func(i int) uint32
	// known counts prompt and generated tokens, computed those whose KV exists, chunk those of the step under way.
	known, computed, chunk int
	outputs, cached        int
	preemptions            int
	blocks                 []int32
	// hashes are those of the full blocks of known tokens so far hashed; rolling is the chain after hashed tokens.
	hashes  []uint64
	rolling uint64
	hashed  int
	// sealed counts the blocks offered to the prefix cache.
	sealed             int
	running, decoding  bool
	admitted, aborting bool
}

const (
	hashStart    = 0x9e3779b97f4a7c15
	hashMultiply = 0xd6e8feb86659fd93
)

// mix takes one more number into a chained hash.
func mix(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^x^0xa0761d6478bd642f, hashMultiply)
	return hi ^ lo ^ hashStart
}

// Hashed is a prompt that is sent again and again: what a prefix cache needs of it, made once.
type Hashed struct {
	length, block int
	blocks        []uint64
	rolling       uint64
}

// Hash hashes a prompt for engines with blocks of that size.
func Hash(prompt []uint32, salt uint64, block int) *Hashed {
	p := &Hashed{block: block, blocks: make([]uint64, 0, len(prompt)/block)}
	p.hash(prompt, salt)
	return p
}

// hash fills in the hashes of the prompt's full blocks.
func (p *Hashed) hash(prompt []uint32, salt uint64) {
	h := mix(hashStart, salt)
	left := p.block
	for _, token := range prompt {
		h = mix(h, uint64(token))
		if left--; left == 0 {
			p.blocks = append(p.blocks, h|1)
			left = p.block
		}
	}
	p.rolling, p.length = h, len(prompt)
}

// hashTo hashes generated tokens up to a length.
func (s *sequence) hashTo(length, block int, seed uint64) {
	for ; s.hashed < length; s.hashed++ {
		i := s.hashed - s.prompt
		if s.output != nil {
			s.rolling = mix(s.rolling, uint64(s.output(i)))
		} else {
			s.rolling = mix(s.rolling, mix(mix(seed, uint64(s.id)), uint64(i))|1<<63)
		}
		if (s.hashed+1)%block == 0 {
			s.hashes = append(s.hashes, s.rolling|1)
		}
	}
}

// Add puts a request at the end of the waiting queue. It refuses what could never run; the error wraps one of the
// reasons to refuse.
func (e *Engine) Add(r Request) error {
	length := len(r.Prompt)
	if r.Hashed != nil {
		length = r.Hashed.length
	}
	total := length + r.MaxTokens
	switch {
	case length == 0 || r.MaxTokens < 1:
		return ErrEmpty
	case r.Hashed != nil && r.Hashed.block != e.c.BlockTokens:
		return ErrBlocks
	case total > e.c.MaxLength:
		return fmt.Errorf("%w: %d + %d tokens, the maximum is %d", ErrTooLong, length, r.MaxTokens, e.c.MaxLength)
	case total > e.c.Usable()*e.c.BlockTokens:
		return fmt.Errorf("%w: %d + %d tokens, it holds %d", ErrNeverFits, length, r.MaxTokens, e.c.Usable()*e.c.BlockTokens)
	}
	if _, there := e.byID[r.ID]; there {
		return fmt.Errorf("%w: %d", ErrDuplicate, r.ID)
	}
	s := e.newSequence()
	s.id, s.prompt, s.max, s.ends, s.output = r.ID, length, r.MaxTokens, r.EndsAfter, r.Output
	s.known = s.prompt
	s.reserve((total + e.c.BlockTokens - 1) / e.c.BlockTokens)
	if e.c.PrefixCaching {
		e.takeHashes(s, &r)
	}
	e.byID[s.id] = s
	e.waiting = append(e.waiting, s)
	return nil
}

// takeHashes gives a sequence the hashes of its prompt, into its own memory.
func (e *Engine) takeHashes(s *sequence, r *Request) {
	p := Hashed{block: e.c.BlockTokens, blocks: s.hashes}
	if h := r.Hashed; h != nil {
		p.blocks, p.rolling, p.length = append(p.blocks, h.blocks...), h.rolling, h.length
	} else {
		p.hash(r.Prompt, r.CacheSalt)
	}
	s.hashes, s.rolling, s.hashed = p.blocks, p.rolling, p.length
}

// reserve makes room for the blocks of the whole request, so that no step has to.
func (s *sequence) reserve(blocks int) {
	if cap(s.blocks) < blocks {
		s.blocks = make([]int32, 0, blocks)
	}
	if cap(s.hashes) < blocks {
		s.hashes = make([]uint64, 0, blocks)
	}
}

// newSequence gives an empty sequence, a used one where there is one.
func (e *Engine) newSequence() *sequence {
	n := len(e.spare)
	if n == 0 {
		return &sequence{}
	}
	s := e.spare[n-1]
	e.spare = e.spare[:n-1]
	*s = sequence{blocks: s.blocks[:0], hashes: s.hashes[:0]}
	return s
}
