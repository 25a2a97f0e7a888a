package truth

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ticks is the common clock of a lockstep script: instants in order, since the
// start of the server, worked out as the streams ask for them. It stands still
// while no stream is on it.
type ticks struct {
	gap func(Step) time.Duration

	mu    sync.Mutex
	times []time.Duration
	live  int
}

func newTicks(gap func(Step) time.Duration) *ticks { return &ticks{gap: gap} }

// join puts a stream on the clock and gives its first tick at or after an instant.
func (t *ticks) join(at time.Duration, step Step) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live++
	if t.live == 1 && (len(t.times) == 0 || t.times[len(t.times)-1] < at) {
		t.times = append(t.times, at)
		return at
	}
	return t.find(at, step)
}

// next gives the first tick at or after an instant to a stream that is on the clock.
func (t *ticks) next(at time.Duration, step Step) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(at, step)
}

// find is next with the lock held.
func (t *ticks) find(at time.Duration, step Step) time.Duration {
	for t.times[len(t.times)-1] < at {
		step.At = t.times[len(t.times)-1]
		t.times = append(t.times, step.At+max(t.gap(step), 1))
	}
	i, _ := slices.BinarySearch(t.times, at)
	return t.times[i]
}

// leave takes a stream off the clock.
func (t *ticks) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live--
}

// count is how many ticks there were.
func (t *ticks) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.times)
}

// spinFor is how long before an instant a spinning wait stops sleeping: about
// what the kernel and the runtime may wake a sleeper late.
const spinFor = 80 * time.Microsecond

// errClosing ends the requests of a server that is being closed.
var errClosing = errors.New("the server is closing")

// sleeper waits for instants, one goroutine's own.
type sleeper struct {
	s     *Server
	ctx   context.Context
	timer *time.Timer
}

func (s *Server) newSleeper(ctx context.Context) *sleeper {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &sleeper{s: s, ctx: ctx, timer: timer}
}

// until waits for an instant since the start of the server. It fails at once
// when the client leaves (the context's error) or the server closes (errClosing).
func (w *sleeper) until(at time.Duration) error {
	wait := at - w.s.since()
	if w.s.script.Spin {
		wait -= spinFor
	}
	if wait > 0 {
		w.timer.Reset(wait)
		if err := w.wait(w.timer.C); err != nil {
			w.timer.Stop()
			return err
		}
	}
	for w.s.script.Spin && w.s.since() < at {
		runtime.Gosched()
	}
	return w.gone()
}

// wait waits for a channel in the same way.
func (w *sleeper) wait(c <-chan time.Time) error {
	select {
	case <-c:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-w.s.closing:
		return errClosing
	}
}

// gone says whether the client left or the server closes.
func (w *sleeper) gone() error {
	select {
	case <-w.s.closing:
		return errClosing
	default:
		return w.ctx.Err()
	}
}

// ever waits until the client leaves or the server closes.
func (w *sleeper) ever() error { return w.wait(nil) }
