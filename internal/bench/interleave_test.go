package bench_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/truth"
)

// window is when a side's cell was measured.
type window struct {
	side, cell string
	from, to   time.Time
}

func windowsOf(side string, w *world) (list []window) {
	add := func(cells []speedmatrix.Cell) {
		for i := range cells {
			c := &cells[i]
			end := c.WindowStartedAt.Add(time.Duration(*c.WindowSeconds * float64(time.Second)))
			list = append(list, window{side, c.Key(), *c.WindowStartedAt, end})
		}
	}
	add(w.run.Cells)
	for i := range w.run.Repeats {
		add(w.run.Repeats[i].Cells)
	}
	return list
}

// twoCells is a matrix of two cells, measured so many times.
func twoCells(times int) setting {
	return setting{script: truth.Script{Lockstep: true, Gap: func(truth.Step) time.Duration { return 20 * ms }}, limits: bench.Limits{MaxLength: 32 << 10},
		settings: bench.Settings{Contexts: []int{0}, Concurrency: []int{1, 2}, NoPrefill: true, Duration: 5 * second, Repeat: times}}
}

// interleaved measures two worlds in alternation, in one bubble.
func interleaved(t *testing.T, a, b setting, check func(a, b *world, errA, errB error)) {
	synctest.Test(t, func(t *testing.T) {
		x, y := newWorld(t, a), newWorld(t, b)
		x.session.Prepare()
		y.session.Prepare()
		errA, errB := bench.Interleave(t.Context(), x.session, y.session)
		check(x, y, errA, errB)
		for _, w := range []*world{x, y} {
			w.cancel()
			w.server.Close()
		}
	})
}

func TestTwoRunsTakeTurns(t *testing.T) {
	interleaved(t, twoCells(2), twoCells(2), func(a, b *world, errA, errB error) {
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		windows := append(windowsOf("A", a), windowsOf("B", b)...)
		slices.SortFunc(windows, func(x, y window) int { return x.from.Compare(y.from) })
		var order []string
		for i, w := range windows {
			order = append(order, w.side+" "+strings.TrimPrefix(w.cell, "decode-0-"))
			if i > 0 && w.from.Before(windows[i-1].to) {
				t.Errorf("%s begins before %s has ended", order[i], order[i-1])
			}
		}
		// A B, B A from cell to cell, and the other way round in the second round.
		if got := strings.Join(order, ", "); got != "A x1, B x1, B x2, A x2, B x1, A x1, A x2, B x2" {
			t.Errorf("measured in the order %s", got)
		}
	})
}

func TestARunWhosePartnerEndsEndsToo(t *testing.T) {
	a := twoCells(2)
	a.happened = func(w *world, e bench.Event) {
		if e.Event == bench.EventDone {
			w.server.Close()
		}
	}
	interleaved(t, a, twoCells(2), func(_, b *world, errA, errB error) {
		if errA == nil || speedmatrix.KindOf(errB) != speedmatrix.KindInterrupted {
			t.Errorf("A: %v, B: %v", errA, errB)
		}
		if !strings.Contains(b.run.Ended, "measured in alternation with it ended") {
			t.Errorf("B ended: %q", b.run.Ended)
		}
		if n := len(windowsOf("B", b)); cmp.Compare(n, 1) < 0 {
			t.Error("what B had measured is gone")
		}
	})
}
