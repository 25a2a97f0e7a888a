package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stats"
)

// The warm-up's sizes and limits.
const (
	warmUpLimit     = time.Minute
	warmUpTokens    = 256
	warmUpBurst     = 16
	steadyWithin    = 0.01
	steadyLimit     = 12 * time.Second
	warmUpStream    = 2 * maxConcurrency
	prefillFraction = 0.75
)

// WarmUp is what the warm-up showed.
type WarmUp struct {
	// Prompts and Seconds are the prefills that were timed.
	Prompts, Seconds []float64
	// TokensPerEvent, EventsPerRead and CoalescedShare of one request that ran to its end; 0 unknown.
	TokensPerEvent, EventsPerRead, CoalescedShare float64
	// TokensPerSecond is the steady speed of one request.
	TokensPerSecond float64
	KeptConnections bool
	Warnings        []speedmatrix.Warning
}

// WarmUpSpec is what a warm-up has to prepare for.
type WarmUpSpec struct {
	Limits Limits
	// Concurrency is the highest of the plan.
	Concurrency int
	Rules       Rules
	// Brief leaves out waiting for a steady speed: method quick/1 does not compare with others.
	Brief bool
}

// warming runs the warm-up's steps within its limit.
type warming struct {
	d       *Driver
	out     WarmUp
	started time.Time
	rules   Rules
	tail    int
	// attempt makes the warm-up's heads new in every part of a run, even where streams share their heads.
	attempt int
}

// WarmUp pays what a server does only once (compiling, loading), learns its habits, and times two prefills. Its
// requests that fail are warnings: the cells are tried all the same.
func (d *Driver) WarmUp(ctx context.Context, spec WarmUpSpec) WarmUp {
	l := spec.Limits
	w := &warming{d: d, started: time.Now(), rules: spec.Rules, attempt: -1 - int(d.Now()/int64(time.Second))}
	w.rules.FillLimit = warmUpLimit
	for _, size := range []int{2 << 10, 8 << 10} {
		if (l.MaxLength == 0 || size+MinOutputRoom <= l.MaxLength) && !w.prefill(ctx, size) {
			break // a longer one is not for a server that refuses this
		}
	}
	if len(w.out.Prompts) == 0 {
		size := smallPrompt
		if l.MaxLength > 0 {
			size = l.MaxLength / 2
		}
		w.prefill(ctx, size)
	}
	d.AwaitEmpty(ctx, w.rules)
	w.complete(ctx)
	d.AwaitEmpty(ctx, w.rules)
	w.burst(ctx, spec.Concurrency)
	if !spec.Brief {
		w.steady(ctx)
	}
	d.AwaitEmpty(ctx, w.rules)
	d.o.Texts.Forget(2 << 10)
	d.o.Texts.Forget(8 << 10)
	d.o.Texts.Forget(smallPrompt)
	return w.out
}

func (w *warming) left() time.Duration { return warmUpLimit - time.Since(w.started) }

func (w *warming) warn(what string, log *load.Log) {
	words := log.Error
	if log.HTTPStatus >= 400 {
		words = fmt.Sprintf("HTTP %d: %s", log.HTTPStatus, log.Error)
	}
	w.out.Warnings = append(w.out.Warnings, speedmatrix.Warning{Code: "warm-up", Message: what + " failed: " + words})
}

// smallPrompt is the prompt in tokens for a server that takes no longer one and does not tell how long one may be.
const smallPrompt = 512

// prefill times one prompt of the size, unless the one before says that it takes too much of the warm-up's time; false
// if it failed.
func (w *warming) prefill(ctx context.Context, size int) bool {
	if n := len(w.out.Prompts); n > 0 {
		ratio := float64(size) / w.out.Prompts[n-1]
		if expected := w.out.Seconds[n-1] * ratio * ratio; expected > prefillFraction*w.left().Seconds() {
			return true
		}
	}
	spec := PrefillSpec{Key: "warm-up", Head: Head{Context: size, Stream: warmUpStream, Attempt: w.attempt}, Rules: w.rules}
	f := w.d.Prefill(ctx, spec)
	row := &f.Recorded.Row
	if !f.OK() {
		if ctx.Err() == nil {
			w.out.Warnings = append(w.out.Warnings, speedmatrix.Warning{Code: "warm-up",
				Message: fmt.Sprintf("a prefill of %d tokens in the warm-up failed: %s", size, cmp.Or(row.Error, f.Left))})
		}
		return false
	}
	tokens := float64(size)
	if row.PromptTokens != nil {
		tokens = float64(*row.PromptTokens)
	}
	w.out.Prompts = append(w.out.Prompts, tokens)
	w.out.Seconds = append(w.out.Seconds, float64(*row.FirstNS-*row.WrittenNS)/1e9)
	return true
}

func (w *warming) request(id int32, stream, tokens int) load.Request {
	w.tail++
	h := Head{Stream: warmUpStream + stream}
	return load.Request{ID: id, Purpose: PurposeWarmUp, Tail: int32(w.tail), Body: w.d.body(h, w.tail, tokens), PlannedNS: w.d.Now()}
}

// complete runs one request to its end and takes the server's habits from it.
func (w *warming) complete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(w.left(), time.Second))
	defer cancel()
	streams, err := w.d.o.Client.Open(ctx, 1, func(_ int, restart bool) load.Request {
		tokens := warmUpTokens
		if restart {
			tokens = w.d.fewest()
		}
		return w.request(0, 0, tokens)
	})
	if err != nil {
		w.out.Warnings = append(w.out.Warnings, speedmatrix.Warning{Code: "warm-up", Message: "no connection for the warm-up: " + err.Error()})
		return
	}
	streams.Launch(w.d.Now(), 0)
	for ctx.Err() == nil && streams.View(0).Requests < 2 && streams.View(0).Failures == 0 {
		pause(ctx, pollEvery)
	}
	streams.Stop()
	logs := streams.Logs()
	if len(logs) == 0 {
		return
	}
	w.habits(logs[0], streams.Quality())
}

func (w *warming) habits(log *load.Log, q load.Quality) {
	if log.Class != speedmatrix.RequestCompleted {
		if log.Class == speedmatrix.RequestFailed {
			w.warn("a request of the warm-up", log)
		}
		return
	}
	w.out.TokensPerEvent = log.TokensPerEvent()
	if q.EventReads > 0 {
		w.out.EventsPerRead = float64(q.Events) / float64(q.EventReads)
		w.out.CoalescedShare = float64(q.CoalescedReads) / float64(q.EventReads)
	}
	w.out.KeptConnections = q.Replays == 0
}

// burst sends short requests at the highest concurrency, so that the engine has seen it.
func (w *warming) burst(ctx context.Context, concurrency int) {
	limit := min(w.left()/2, 20*time.Second)
	if limit <= 0 || concurrency <= 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	bodies := make([]load.Request, concurrency)
	for i := range bodies {
		bodies[i] = w.request(int32(i), i, warmUpBurst)
	}
	streams, err := w.d.o.Client.Open(ctx, concurrency, func(stream int, _ bool) load.Request { return bodies[stream] })
	if err != nil {
		return
	}
	streams.Launch(w.d.Now(), launchSpacing)
	for ctx.Err() == nil && !everyStream(streams, concurrency) {
		pause(ctx, pollEvery)
	}
	streams.Stop()
	if failed := failedOf(streams.Logs()); len(failed) > 0 {
		w.warn(fmt.Sprintf("%d of %d short requests of the warm-up", len(failed), concurrency), failed[0])
	}
}

// everyStream says whether every stream has ended its first request.
func everyStream(streams *load.Streams, n int) bool {
	for i := range n {
		if v := streams.View(i); v.Requests < 2 && v.Failed == 0 {
			return false
		}
	}
	return true
}

func failedOf(logs []*load.Log) (failed []*load.Log) {
	for _, l := range logs {
		if l.Class == speedmatrix.RequestFailed {
			failed = append(failed, l)
		}
	}
	return failed
}

// steady decodes one request until its speed is steady.
func (w *warming) steady(ctx context.Context) {
	limit := min(w.left(), steadyLimit)
	if limit <= 0 {
		return
	}
	w.d.AwaitEmpty(ctx, w.rules)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	streams, err := w.d.o.Client.Open(ctx, 1, func(int, bool) load.Request { return w.request(0, 1, 4*warmUpTokens) })
	if err != nil {
		return
	}
	streams.Launch(w.d.Now(), 0)
	var speeds []float64
	last := int64(0)
	for ctx.Err() == nil && streams.View(0).Failures < 2 {
		pause(ctx, time.Second)
		events := streams.View(0).Events
		if last > 0 {
			speeds = append(speeds, float64(events-last))
		}
		last = events
		if isSteady(speeds) {
			break
		}
	}
	streams.Stop()
	if n := len(speeds); n > 0 {
		w.out.TokensPerSecond = speeds[n-1] * max(w.out.TokensPerEvent, 1)
	}
	if stillChanging(speeds) {
		w.out.Warnings = append(w.out.Warnings, speedmatrix.Warning{Code: "warm-up",
			Message: fmt.Sprintf("the server's speed was still changing at the end of the warm-up, in events of each second: %.0f; the first cells may show it",
				speeds)})
	}
}

// stillChanging says whether the last three seconds have another speed than the three before, by more than 5 %.
func stillChanging(speeds []float64) bool {
	n := len(speeds)
	if n < 6 || isSteady(speeds) {
		return false
	}
	before, after := stats.Mean(speeds[n-6:n-3]), stats.Mean(speeds[n-3:])
	return math.Abs(after-before) > max(0.05*before, 1)
}

// isSteady says whether the last three seconds agree within 1 %, or within one event.
func isSteady(speeds []float64) bool {
	n := len(speeds)
	if n < 3 {
		return false
	}
	most, least := slices.Max(speeds[n-3:]), slices.Min(speeds[n-3:])
	return least > 0 && most-least <= math.Max(steadyWithin*most, 1)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
