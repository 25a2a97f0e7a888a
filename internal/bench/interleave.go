package bench

import (
	"context"
	"errors"
	"sync"
)

var errOtherEnded = errors.New("the run that was measured in alternation with it ended")

// Interleave measures two runs of the same plan in alternation: of the two measurements of a cell in a round one
// follows the other, and which is first changes from cell to cell and from round to round (A B, B A, …), so that a
// slow drift of the machine falls on both alike. Settings.Repeat is the number of rounds. At no time do both send
// requests. Where one run ends early, so does the other; their errors come back in their order.
func Interleave(ctx context.Context, a, b *Session) (errA, errB error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &turns{running: noSide}
	var wg sync.WaitGroup
	for side, s := range []*Session{a, b} {
		into := []*error{&errA, &errB}[side]
		s.turn = func(ctx context.Context, round, cell int) { t.wait(ctx, side, step{round, cell}) }
		wg.Go(func() {
			defer t.leave(side)
			s.turn(ctx, 0, 0)
			if *into = s.Measure(ctx); *into != nil {
				end(errOtherEnded)
			}
		})
	}
	wg.Wait()
	return errA, errB
}

// awaitTurn waits until another run that is measured in alternation has made its step.
func (s *Session) awaitTurn(ctx context.Context, round, cell int) {
	if s.turn != nil {
		s.turn(ctx, round, cell)
	}
}

// step is a measurement of a cell: its round from 1, 0 before the first, and its place in the plan.
type step struct{ round, cell int }

func (s step) before(other step) bool {
	return s.round < other.round || s.round == other.round && s.cell < other.cell
}

// first is the side that makes a step first.
func (s step) first() int { return (s.round + s.cell + 1) % 2 }

const noSide = -1

// turns lets one of two sides run at a time: the one that is behind.
type turns struct {
	mu      sync.Mutex
	running int
	pending [2]*turn
	left    [2]bool
}

// turn is a side that waits for its next step.
type turn struct {
	step step
	come chan struct{}
}

// wait ends the side's turn and returns when its next one comes, or when ctx ends.
func (t *turns) wait(ctx context.Context, side int, s step) {
	mine := &turn{s, make(chan struct{})}
	t.mu.Lock()
	t.pending[side] = mine
	t.next(side)
	t.mu.Unlock()
	select {
	case <-mine.come:
	case <-ctx.Done():
		t.mu.Lock()
		if t.pending[side] == mine {
			t.pending[side] = nil
		}
		t.mu.Unlock()
	}
}

// leave says that a side is done for good.
func (t *turns) leave(side int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left[side], t.pending[side] = true, nil
	t.next(side)
}

// next gives the turn on after a side gave it up, once it is clear whose it is. The caller holds the lock.
func (t *turns) next(from int) {
	if t.running == from {
		t.running = noSide
	}
	if t.running != noSide {
		return
	}
	for side := range t.pending {
		if t.pending[side] == nil && !t.left[side] {
			return
		}
	}
	side := 0
	a, b := t.pending[0], t.pending[1]
	switch {
	case a == nil && b == nil:
		return
	case a == nil, b != nil && b.step.before(a.step), b != nil && a.step == b.step && a.step.first() == 1:
		side = 1
	}
	t.running = side
	close(t.pending[side].come)
	t.pending[side] = nil
}
