package engine

import (
	"errors"
	"math"

	"speedmatrix/internal/profile"
)

// Timing gives the duration of a step from what is in it. All times are in
// nanoseconds. B sequences decode, T is the sum of their context lengths, U the
// same with every shared block counted once, L the longest sequence of the
// step, N all tokens of the step; a chunk reads n prompt tokens after c others.
//
//	decode only:   Base + PerSequence·B + PerExpert·E(B) + KV
//	with prefill:  PrefillBase + PerSequence·B + PrefillToken·N + SmallExtra·min(N, SmallLimit) + ATT
//	E(B) = Experts·(1 − (1 − ExpertsPerToken ÷ Experts)^B)
//	KV   = Longest·L + [ (Unique·min(T, Wave·U))^Norm + (Total·T)^Norm ]^(1 ÷ Norm)
//	ATT  = Σ max(Pair·n·(c + n÷2), Floor·(c + n)) + KV
//	ATT  = max(Σ Pair·n·(c + n÷2), Floor·L·(1 + Contention·(sequences − 1)))   with OneKernel
type Timing struct {
	Base, PerSequence, PerExpert       float64
	Experts, ExpertsPerToken           float64
	Longest, Unique, Total, Wave, Norm float64
	PrefillBase, PrefillToken          float64
	SmallExtra, SmallLimit             float64
	Pair, Floor, Contention            float64
	// OneKernel: in a step with prefill one kernel reads the attention of all sequences, and lasts as long as the
	// longest of them takes it.
	OneKernel bool
}

// TimingOf brings a profile's step times to nanoseconds.
func TimingOf(s *profile.StepTime) Timing {
	const ms, us = 1e6, 1e3
	return Timing{
		Base: s.BaseMS * ms, PerSequence: s.PerSequenceMS * ms, PerExpert: s.PerExpertMS * ms,
		Experts: s.Experts, ExpertsPerToken: s.ExpertsPerToken,
		Longest: s.KVLongestUS * us, Unique: s.KVUniqueUS * us, Total: s.KVTotalUS * us, Wave: s.KVWaveFactor, Norm: s.KVNorm,
		PrefillBase: s.PrefillBaseMS * ms, PrefillToken: s.PrefillTokenUS * us,
		SmallExtra: s.PrefillSmallUS * us, SmallLimit: s.PrefillSmallTokens,
		Pair: s.AttentionPairNS, Floor: s.AttentionFloorUS * us, Contention: s.AttentionContention,
		OneKernel: s.Attention == profile.AttentionOneKernel,
	}
}

// Load is what a step computes.
type Load struct {
	// Sequences counts all of the step, Decodes those that decode.
	Sequences, Decodes int
	// Tokens is N, Total T, Unique U; Longest is the longest sequence of all, LongestDecode of those that decode.
	Tokens, Total, Unique, Longest, LongestDecode float64
	// Prefills counts the chunks, Pairs sums n·(c + n÷2) over them, Chunks what each takes by itself, in ns.
	Prefills int
	Pairs    float64
	Chunks   float64
}

// AddChunk puts a prefill chunk of n tokens after c computed ones into the load.
func (t *Timing) AddChunk(l *Load, n, c int) {
	pairs := float64(n) * (float64(c) + float64(n)/2)
	l.Prefills++
	l.Sequences++
	l.Tokens += float64(n)
	l.Pairs += pairs
	l.Chunks += max(t.Pair*pairs, t.Floor*float64(c+n))
	l.Longest = max(l.Longest, float64(c+n))
}

// AddDecode puts a sequence that decodes at a context length into the load; Unique is left to the caller.
func (l *Load) AddDecode(length int) {
	x := float64(length)
	l.Decodes++
	l.Sequences++
	l.Tokens++
	l.Total += x
	l.Longest, l.LongestDecode = max(l.Longest, x), max(l.LongestDecode, x)
}

// Step is the duration of a step in ns.
func (t *Timing) Step(l *Load) float64 {
	b := float64(l.Decodes)
	if l.Prefills == 0 {
		return t.Base + t.PerSequence*b + t.PerExpert*t.distinctExperts(b) + t.kv(l)
	}
	fixed := t.PrefillBase + t.PerSequence*b + t.PrefillToken*l.Tokens + t.SmallExtra*min(l.Tokens, t.SmallLimit)
	if t.OneKernel {
		return fixed + max(t.Pair*l.Pairs, t.Floor*l.Longest*(1+t.Contention*float64(l.Sequences-1)))
	}
	return fixed + l.Chunks + t.kv(l)
}

// distinctExperts is the expected number of experts that b tokens use.
func (t *Timing) distinctExperts(b float64) float64 {
	if t.PerExpert == 0 || t.Experts == 0 {
		return 0
	}
	return t.Experts * (1 - math.Pow(1-t.ExpertsPerToken/t.Experts, b))
}

// kv is the time to read the KV cache of the decoding sequences.
func (t *Timing) kv(l *Load) float64 {
	if l.Decodes == 0 {
		return 0
	}
	unique, total := t.Unique*min(l.Total, t.Wave*l.Unique), t.Total*l.Total
	longest := t.Longest * l.LongestDecode
	if t.Norm == 1 || unique == 0 || total == 0 {
		return longest + unique + total
	}
	return longest + math.Pow(math.Pow(unique, t.Norm)+math.Pow(total, t.Norm), 1/t.Norm)
}

var errTiming = errors.New("engine: step times must be finite and not negative, a decode step longer than 0, the wave factor and norm at least 1")

func (t *Timing) check() error {
	for _, v := range []float64{t.Base, t.PerSequence, t.PerExpert, t.Experts, t.ExpertsPerToken, t.Longest, t.Unique, t.Total, t.Wave,
		t.Norm, t.PrefillBase, t.PrefillToken, t.SmallExtra, t.SmallLimit, t.Pair, t.Floor, t.Contention} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return errTiming
		}
	}
	if t.Base <= 0 || t.Norm < 1 || t.Wave < 1 || t.ExpertsPerToken > t.Experts {
		return errTiming
	}
	return nil
}
