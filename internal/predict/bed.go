package predict

import (
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/engine"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/stats"
)

// Settings are those of a run.
type Settings = bench.Settings

// SettingsOf are the settings with which a run's matrix can be predicted: its method, its plan and its prompts.
func SettingsOf(r *speedmatrix.Run) Settings {
	m := &r.Method
	return Settings{Method: m.Name, Contexts: slices.Clone(r.Plan.Contexts), Concurrency: slices.Clone(r.Plan.Concurrency),
		Prefill: slices.Clone(r.Plan.Prefill), NoPrefill: len(r.Plan.Prefill) == 0, Duration: time.Duration(m.DurationSeconds * float64(time.Second)),
		MaxOutput: m.MaxOutput, Prompts: prompt.Mode(m.Prompts), Temperature: m.Temperature, KVPlan: m.KVPlan}
}

// Order sorts the cells of a run that showed a speed as they were measured, prefill cells last: on a bed, launches in
// this order find the cache as they did in the run.
func Order(cells []speedmatrix.Cell) []speedmatrix.Cell {
	var list []speedmatrix.Cell
	for i := range cells {
		if c := &cells[i]; c.Status == speedmatrix.StatusValid && c.TTFT != nil && c.TTFT.P50 != nil {
			list = append(list, *c)
		}
	}
	slices.SortStableFunc(list, func(a, b speedmatrix.Cell) int {
		switch x, y := a.WindowStartedAt, b.WindowStartedAt; {
		case x != nil && y != nil:
			return x.Compare(*y)
		case x != nil:
			return -1
		case y != nil:
			return 1
		}
		return 0
	})
	return list
}

// Bed makes single prefills and launches on a profile's machine in virtual time, with the prompts that a run with the
// settings would send, and without the windows between them: what a fit needs, a thousand times.
type Bed struct {
	l      *lab
	heads  map[bench.Head]int // tails sent so far
	filled map[bench.Head]bool
	fresh  int
}

// NewBed makes an idle machine with an empty cache. The memo may be shared by beds with the same settings, one after
// the other.
func NewBed(p *profile.Profile, s Settings, memo *Memo) (*Bed, error) {
	s, err := s.Complete()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(engine.FromProfile(p))
	if err != nil {
		return nil, err
	}
	w := newWorld(e, engine.FrontEndOf(p), 0)
	w.scrapeAt = never
	l := newLab(w, p, &s)
	l.texts.memo = memo
	return &Bed{l: l, heads: map[bench.Head]int{}, filled: map[bench.Head]bool{}}, nil
}

// bedLimit is the virtual time after which something has not happened.
const bedLimit = 3 * time.Hour

// Prefill gives the time to first token of a cold prompt of that context, in ms; false if there was none.
func (b *Bed) Prefill(context int) (ms float64, ok bool) {
	b.fresh++
	return b.fill(bench.Head{Context: context, Stream: warmUpStream, Attempt: b.fresh})
}

func (b *Bed) fill(h bench.Head) (ms float64, ok bool) {
	w := b.l.w
	c := b.l.fill(&bench.PrefillSpec{Head: h, Tail: b.tail(h)})
	w.run(w.now + int64(bedLimit))
	if c.row.FirstNS == nil {
		w.cut(c)
		return 0, false
	}
	return float64(*c.row.FirstNS-*c.row.WrittenNS) / 1e6, true
}

// tail is the next tail of a head; method compat has one.
func (b *Bed) tail(h bench.Head) int {
	if b.l.texts.compat {
		return 0
	}
	b.heads[h]++
	return b.heads[h]
}

// Launched is what a launch showed.
type Launched struct {
	// TTFT is the median time to first token in ms.
	TTFT float64
	// Load is the first step in which all requests decode.
	Load engine.Load
}

// spacing is the time between the requests of a launch, as a run sends them.
const spacing = 50 * time.Microsecond

// Launch sends the requests of a decode cell at once, after filling the heads that were not sent yet. It is false
// where not all of them could run.
func (b *Bed) Launch(context, concurrency int) (out Launched, ok bool) {
	a := &attempt{l: b.l, spec: &bench.DecodeSpec{Context: context, Concurrency: concurrency, MaxTokens: b.maxTokens(context)}}
	for i := range concurrency {
		a.spec.Heads = append(a.spec.Heads, b.head(context, i))
	}
	for i, h := range a.spec.Heads {
		// Method compat sends its one prompt before every cell, the others each head once.
		if context == 0 || b.filled[h] && (!b.l.texts.compat || i > 0) {
			continue
		}
		if _, ok := b.fill(h); !ok {
			return out, false
		}
		b.filled[h] = true
	}
	a.spec.NextTail = func(i int) int { return b.tail(a.spec.Heads[i]) }
	if !b.l.texts.compat {
		a.spec.Rules.Spacing = spacing
	}
	a.launch()
	ok = b.await(a, &out)
	for i := range a.streams {
		b.l.w.cut(a.streams[i].call)
	}
	a.stopped = true
	b.drain()
	return out, ok
}

// head gives a stream's head as a run would.
func (b *Bed) head(context, stream int) bench.Head {
	if b.l.texts.mode == prompt.ModeShared && (context > 0 || b.l.texts.compat) {
		stream = 0
	}
	return bench.Head{Context: context, Stream: stream}
}

func (b *Bed) maxTokens(context int) int {
	p := b.l.texts.prompt(bench.Head{Context: context}, 0)
	return max(min(len(b.l.counts), b.l.max-p.length), 1)
}

// await steps until every stream has a token and all of them decode in one step.
func (b *Bed) await(a *attempt, out *Launched) bool {
	w := b.l.w
	var ttft []float64
	for limit := w.now + int64(bedLimit); w.now < limit; {
		w.beginStep()
		step := w.step
		if step != nil && step.Decodes == a.spec.Concurrency && step.PromptTokens == 0 {
			out.Load = step.Load
			break
		}
		next := w.stepEnd
		if len(w.events) > 0 {
			next = min(next, w.events[0].at)
		}
		if next == never {
			return false
		}
		w.run(next)
	}
	for i := range a.streams {
		row := &a.streams[i].call.row
		if row.FirstNS == nil || a.streams[i].requests > 1 {
			return false
		}
		ttft = append(ttft, float64(*row.FirstNS-*row.WrittenNS)/1e6)
	}
	out.TTFT = stats.Median(ttft)
	return true
}

// drainTime is more than a step and the front end's work on a launch can take.
const drainTime = time.Hour

// drain lets the step under way end, and the front end finish what it began.
func (b *Bed) drain() { b.l.w.run(b.l.w.now + int64(drainTime)) }
