package predict

import (
	"context"
	"math"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/profile"
)

// lab is a bench.Lab over a world: what it measures costs virtual time only.
type lab struct {
	w     *world
	texts *texts
	block int
	max   int // the model's length
	// counts are the cumulative counts of tokens that events carry.
	counts []int32
}

func newLab(w *world, p *profile.Profile, s *bench.Settings) *lab {
	return &lab{w: w, texts: newTexts(p, s), block: p.KV.BlockTokens, max: p.Model.MaxLengthTokens, counts: counting(min(s.MaxOutput, p.Model.MaxLengthTokens))}
}

// Now is the virtual time.
func (l *lab) Now() int64 { return l.w.now }

// Alive is always so.
func (l *lab) Alive(context.Context) error { return nil }

// Scrapes gives all scrapes so far.
func (l *lab) Scrapes() []speedmatrix.ServerRow { return l.w.since(math.MinInt64) }

// The warm-up's prefills, and the stream that their heads count as.
const warmUpStream = 1 << 20

// warmUp times two prefills, from which the plan's times are predicted.
func (l *lab) warmUp(ctx context.Context) (out bench.WarmUp) {
	sizes := []int{2 << 10, 8 << 10}
	if sizes[0]+bench.MinOutputRoom > l.max {
		sizes = []int{l.max / 2}
	}
	for i, size := range sizes {
		if size+1 > l.max || ctx.Err() != nil {
			continue
		}
		f := l.Prefill(ctx, bench.PrefillSpec{Head: bench.Head{Context: size, Stream: warmUpStream, Attempt: -1 - i},
			Rules: bench.Rules{Concurrency: 1, DrainLimit: time.Minute, FillLimit: time.Hour}})
		if !f.OK() {
			continue
		}
		row := &f.Recorded.Row
		out.Prompts = append(out.Prompts, float64(*row.PromptTokens))
		out.Seconds = append(out.Seconds, float64(*row.FirstNS-*row.WrittenNS)/1e9)
	}
	return out
}

// Prefill sends one prompt for one token, on an empty server.
func (l *lab) Prefill(ctx context.Context, spec bench.PrefillSpec) bench.Prefilled {
	l.w.cell = spec.Key
	defer func() { l.w.cell = "" }()
	out := bench.Prefilled{Head: spec.Head, Drained: l.awaitEmpty(ctx, spec.Rules)}
	if !out.Drained {
		return out
	}
	c := l.fill(&spec)
	limit := l.w.now + int64(spec.Rules.FillLimit)
	for c.row.EndedNS == nil && l.w.now < limit && ctx.Err() == nil {
		l.w.run(min(limit, l.w.now+int64(scrapeEvery)))
	}
	out.Recorded = l.finishFill(c, ctx)
	return out
}

// awaitEmpty waits until the server runs nothing, as a cell's drain does.
func (l *lab) awaitEmpty(ctx context.Context, rules bench.Rules) bool {
	rules.Concurrency = 1
	p := bench.NewProtocol(rules, l.w.now)
	l.w.hurry(true)
	defer l.w.hurry(false)
	for ctx.Err() == nil {
		a := p.Next(l.w.now, bench.Observation{Gauges: l.gauges(), AllStopped: true, Interval: -1, Drift: -1})
		if p.Step() > bench.StepDrain {
			return p.Outcome().Ending == ""
		}
		l.w.run(a.WakeNS)
	}
	return false
}

// fill sends a prefill; the world wakes when it has ended.
func (l *lab) fill(spec *bench.PrefillSpec) *call {
	c := &call{text: l.texts.prompt(spec.Head, spec.Tail), max: 1, ended: func(*call) { l.w.woken = true }}
	c.row = speedmatrix.RequestRow{Request: spec.Request, Stream: -1, Purpose: bench.PurposeFill, Head: int32(spec.Head.Stream), Tail: int32(spec.Tail)}
	l.w.send(c, l.w.now)
	return c
}

// finishFill gives the record of a prefill; one without a token in time has failed, unless the run was interrupted.
func (l *lab) finishFill(c *call, ctx context.Context) bench.Recorded {
	if c.row.EndedNS == nil {
		l.w.cut(c)
		if ctx.Err() == nil {
			c.row.Class, c.row.Error = string(speedmatrix.RequestFailed), "no token in time"
		}
	}
	return c.recorded(l.counts)
}

// gauges gives the last scrape.
func (l *lab) gauges() bench.Gauges {
	n := len(l.w.scrapes)
	if n == 0 {
		return bench.Gauges{Known: true, WaitingKnown: true}
	}
	r := &l.w.scrapes[n-1]
	return bench.Gauges{Known: true, WaitingKnown: true, SentNS: r.SentNS, Running: *r.Running, Waiting: *r.Waiting}
}
