package cli_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/truth"
)

// Ctrl-C in a window: it ends there, what was measured is kept and verifies, and the run goes on later.
func TestAnInterruptionKeepsWhatWasMeasured(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.later(50*time.Second, func() { w.signals <- os.Interrupt })
		w.main(small()...)
		w.ended(130, "interrupted; what was measured is kept")
		if took := w.doc().FinishedAt.Sub(w.doc().StartedAt); took > 60*time.Second {
			t.Errorf("it took %s to end", took)
		}
		for _, text := range []string{"Stopping: the window ends", "speedmatrix run --resume run"} {
			if !strings.Contains(w.out.String(), text) {
				t.Errorf("standard output lacks %q:\n%s", text, w.out.String())
			}
		}
		if c := w.doc().FindCell(speedmatrix.PhaseDecode, 0, 1); c.Status != speedmatrix.StatusValid {
			t.Errorf("%s is %s", c.Key(), c.Status)
		}
		if c := w.doc().FindCell(speedmatrix.PhaseDecode, 1024, 2); c.Status != speedmatrix.StatusInterrupted {
			t.Errorf("%s is %s", c.Key(), c.Status)
		}
		first := *w.doc().FindCell(speedmatrix.PhaseDecode, 0, 1).WindowStartedAt
		w.main("verify", "run")
		w.ended(0)
		w.main("run", "--resume", "run")
		w.ended(0)
		for _, c := range w.doc().Cells {
			if c.Status != speedmatrix.StatusValid {
				t.Errorf("resumed: %s is %s: %s", c.Key(), c.Status, c.Reason)
			}
		}
		if again := *w.doc().FindCell(speedmatrix.PhaseDecode, 0, 1).WindowStartedAt; !again.Equal(first) {
			t.Error("a cell that was measured was measured again")
		}
		w.main("verify", "run")
		w.ended(0)
	})
}

func (w *world) doc() *speedmatrix.Run { return w.document("run") }

// A second Ctrl-C ends the program in the same instant.
func TestASecondInterruptionEndsAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := steady()
		s.Framing.Split, s.Framing.SplitPause = []int{40}, 0
		w.truth(local, s)
		var second time.Time
		w.later(50*time.Second, func() {
			second = time.Now()
			w.signals <- os.Interrupt
			w.signals <- os.Interrupt
		})
		w.main(small()...)
		ended := time.Now()
		w.ended(130, "ended at once", "Cells that were complete are kept.", "speedmatrix run --resume run")
		if !ended.Equal(second) {
			t.Errorf("it ended %s after the second signal", ended.Sub(second))
		}
		// A real process is gone by now; this one lets go of the run by itself.
		time.Sleep(time.Minute)
		synctest.Wait()
		w.main("run", "--resume", "run")
		w.ended(0)
		w.main("verify", "run")
		w.ended(0)
	})
}

func TestASecondInterruptionBeforeTheRunLeavesNothing(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		s := steady()
		s.Fail = func(truth.Call) *truth.Failure { return &truth.Failure{Kind: truth.FailHang} }
		w.truth(local, s)
		w.later(5*time.Second, func() {
			w.signals <- os.Interrupt
			w.signals <- os.Interrupt
		})
		w.main(small()...)
		w.ended(130)
		w.nothingLeft()
		w.server.Close()
	})
}
