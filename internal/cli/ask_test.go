package cli_test

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

const hostedURL = "http://203.0.113.7"

func onHosted(more ...string) []string {
	return append([]string{"run", hostedURL, "--contexts", "1K", "--concurrency", "1", "--prefill", "none", "--out", "run"}, more...)
}

// A hosted service costs money: without a terminal nothing is sent before --yes.
func TestAHostedServiceWithoutTerminalNeedsYes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(hosted, steady())
		w.main(onHosted()...)
		w.ended(2, "a hosted service charges for tokens, and there is no terminal to ask on", "Go on with --yes: about 2,048 prompt tokens will be sent.")
		w.nothingLeft()
		w.main(onHosted("--yes")...)
		w.ended(0)
	})
}

// At a terminal it asks, and only yes is a yes.
func TestAHostedServiceIsAskedAbout(t *testing.T) {
	for answer, goesOn := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "": false, "n\n": false, "maybe": false} {
		inWorld(t, func(t *testing.T, w *world) {
			w.truth(hosted, steady())
			w.terminal, w.stdin = true, strings.NewReader(answer)
			w.main(onHosted()...)
			if !strings.Contains(w.out.String(), "prompt tokens to 203.0.113.7? [y/N] ") {
				t.Errorf("no question:\n%s", w.out.String())
			}
			if goesOn {
				w.ended(0)
				return
			}
			w.ended(130, "nothing was measured, as you wished")
			w.nothingLeft()
		})
	}
}

// Nobody answers: Ctrl-C ends it.
func TestAQuestionCanBeInterrupted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(hosted, steady())
		r, end := io.Pipe()
		w.terminal, w.stdin = true, r
		t.Cleanup(func() { _ = end.Close() })
		w.later(time.Minute, func() { w.signals <- os.Interrupt })
		w.main(onHosted()...)
		w.ended(130, "interrupted before anything was measured")
		w.nothingLeft()
	})
}

// At a terminal a local run begins by itself after five seconds, or at Enter.
func TestALocalRunCountsDown(t *testing.T) {
	for _, enter := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			w.truth(local, steady())
			r, end := io.Pipe()
			t.Cleanup(func() { _ = end.Close() })
			w.terminal, w.stdin = true, r
			if enter {
				go func() { _, _ = end.Write([]byte("\n")) }()
			}
			began := time.Now()
			w.later(10*time.Second, func() { w.signals <- os.Interrupt })
			w.main(small()...)
			w.ended(130)
			waited := strings.Contains(w.out.String(), "Starting in 5 s.")
			if took := time.Since(began); !waited || took < 10*time.Second {
				t.Errorf("it asked: %v, and took %s", waited, took)
			}
		})
	}
}
