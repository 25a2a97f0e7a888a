package predict

import (
	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/engine"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/prompt"
)

// The lengths of prompts in tokens, where the method leaves them to us: the prompt of context 0, and the fresh part
// at the end of the others.
const (
	shortTokens = 64
	tailTokens  = 48
)

// texts gives the prompts of a run as token numbers.
type texts struct {
	compat  bool
	mode    prompt.Mode
	lengths profile.Prompt
	block   int
	scratch []uint32
	// memo, if there, keeps the prompts for other machines.
	memo *Memo
}

// Memo keeps the prompts of many machines that are sent the same.
type Memo struct{ prompts map[memoKey]*engine.Hashed }

type memoKey struct {
	head                bench.Head
	tail, length, block int
}

// NewMemo makes an empty one, for one set of settings.
func NewMemo() *Memo { return &Memo{prompts: map[memoKey]*engine.Hashed{}} }

func newTexts(p *profile.Profile, s *bench.Settings) *texts {
	return &texts{compat: s.Method == speedmatrix.MethodCompat, mode: s.Prompts, lengths: p.Prompt, block: p.KV.BlockTokens}
}

// hashed gives the prompt as the engine takes it.
func (p *tokens) hashed() *engine.Hashed {
	t := p.texts
	if t.memo == nil {
		return engine.Hash(p.ids(), 0, t.block)
	}
	key := memoKey{p.head, p.tail, p.length, t.block}
	h := t.memo.prompts[key]
	if h == nil {
		h = engine.Hash(p.ids(), 0, t.block)
		t.memo.prompts[key] = h
	}
	return h
}

// tokens is a prompt: a head, then a tail.
type tokens struct {
	texts        *texts
	head         bench.Head
	tail         int
	length, kept int // kept tokens are the head's
}

// prompt gives the prompt of a head with a tail. Method compat makes it as long as its tool does, with nothing fresh.
func (t *texts) prompt(h bench.Head, tail int) tokens {
	out := tokens{texts: t, head: h, tail: tail, length: max(h.Context, shortTokens)}
	if t.compat && t.lengths.Tokens(h.Context) > 0 {
		out.length = t.lengths.Tokens(h.Context)
	}
	if h.Context > 0 {
		out.kept = out.length - min(tailTokens, out.length/2)
	}
	return out
}

// ids writes the token numbers; they stay until the next call. Equal heads begin with equal tokens, and no two
// different ones share their first.
func (p *tokens) ids() []uint32 {
	t := p.texts
	if cap(t.scratch) < p.length {
		t.scratch = make([]uint32, p.length)
	}
	ids := t.scratch[:p.length]
	h := p.head
	if t.mode == prompt.ModeShared && (t.compat || h.Context > 0) {
		h.Stream = -1
	}
	common := 0
	if t.mode == prompt.ModeSharedPrefix {
		common = p.kept / 2
		number(ids[:common], 0, bench.Head{Context: h.Context, Stream: -1, Attempt: h.Attempt}, 0)
	}
	number(ids[:p.kept], common, h, 0)
	number(ids, p.kept, h, uint64(p.tail)+1)
	return ids
}

// number fills ids from a place on with numbers that the head, the tail and the place decide.
func number(ids []uint32, from int, h bench.Head, tail uint64) {
	x := (uint64(uint32(h.Context))<<32|uint64(uint32(h.Stream)))*0x9e3779b97f4a7c15 ^ (uint64(h.Attempt)<<20+tail)*0xd6e8feb86659fd93
	for i := from; i < len(ids); i++ {
		z := x + uint64(i)*0xbf58476d1ce4e5b9
		z = (z ^ z>>29) * 0x94d049bb133111eb
		ids[i] = uint32(z >> 32)
	}
}
