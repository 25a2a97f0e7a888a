package cli_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/truth"
)

// child is a server that a world started: it listens after a time and ends when asked.
type child struct {
	mu     sync.Mutex
	exited chan struct{}
	exit   launch.Exit
	close  func()
}

func (c *child) end(e launch.Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.exited:
	default:
		c.close()
		c.exit = e
		close(c.exited)
	}
}

func (c *child) Exited() <-chan struct{} { return c.exited }
func (c *child) Exit() launch.Exit       { return c.exit }
func (c *child) Terminate()              { c.end(launch.Exit{Signal: "terminated"}) }
func (c *child) Kill()                   { c.end(launch.Exit{Signal: "killed"}) }
func (c *child) PIDs() []int             { return nil }

// starter starts a ground truth server in the place of a command: it says log, and listens after 5.1 s.
func (w *world) starter(s truth.Script, log string) launch.Starter {
	return func(spec launch.Spec) (launch.Child, error) {
		w.specs = append(w.specs, spec)
		_, _ = fmt.Fprint(spec.Output, log)
		c := &child{exited: make(chan struct{}), close: func() {}}
		w.children = append(w.children, c)
		w.later(5100*time.Millisecond, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			select {
			case <-c.exited:
			default:
				w.truth(local, s)
				c.close = w.server.Close
			}
		})
		return c, nil
	}
}

const vllmLog = "INFO Starting to load model m...\nINFO Loading safetensors checkpoint shards: 50%\nINFO Using FLASH_ATTN backend.\n"

// A whole run with a server that it starts: what a user sees, and what is kept.
func TestARunStartsItsServerAndStopsIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.environ = []string{"OMP_NUM_THREADS=4", "PATH=/bin"}
		w.start = w.starter(steady(), vllmLog)
		w.main("run", "--launch", "VLLM_USE_V1=1 vllm serve m --max-num-seqs 4 --enforce-eager --port 8000", "--contexts", "0", "--concurrency", "1,2", "--prefill", "none",
			"--quick", "--salt", "s", "--out", "run")
		w.ended(0)
		w.golden("launch.txt", clockTime.ReplaceAllString(w.withoutReport(w.document("run")), "HH:MM:SS"))
		doc := w.document("run")
		want := map[string]string{"launched": "true", "ready_seconds": "5.25", "environment": "OMP_NUM_THREADS=4 VLLM_USE_V1=1", "running_limit_requests": "4",
			"enforce_eager": "true", "attention_backend": "FLASH_ATTN"}
		for key, value := range want {
			if got := doc.Engine.Text(key); got != value {
				t.Errorf("engine.%s is %q, want %q", key, got, value)
			}
		}
		if doc.LaunchCommand == nil || doc.LaunchCommand.Value != "VLLM_USE_V1=1 vllm serve m --max-num-seqs 4 --enforce-eager --port 8000" || doc.LaunchCommand.Source != "process" {
			t.Errorf("the launch command is %+v", doc.LaunchCommand)
		}
		if log, err := os.ReadFile("run/engine.log"); err != nil || string(log) != vllmLog {
			t.Errorf("%v; the log is %q", err, log)
		}
		if len(w.children) != 1 || w.children[0].exit.Signal != "terminated" {
			t.Errorf("%d servers were started", len(w.children))
		}
		w.main("verify", "run")
		w.ended(0)
	})
}

func TestAServerThatDoesNotStartLeavesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start = func(spec launch.Spec) (launch.Child, error) {
			_, _ = fmt.Fprintln(spec.Output, "vllm: error: unrecognized arguments: --fast")
			c := &child{exited: make(chan struct{}), close: func() {}}
			w.later(time.Second, func() { c.end(launch.Exit{Code: 2}) })
			return c, nil
		}
		w.main("run", "--launch", "vllm serve m --fast")
		w.ended(3, "the server ended with exit code 2 before it was ready: it does not know an option", "Its last words: vllm: error: unrecognized arguments: --fast")
		w.nothingLeft()
		w.main("run", "--launch", "nothing-of-this-name serve m")
		w.ended(3, "there is no program nothing-of-this-name")
		w.main("run", "--launch", "a | b")
		w.ended(2, "the command cannot be read as words", "sh -c")
		w.truth(local, steady())
		w.main("run", "--launch", "vllm serve m")
		w.ended(2, "something listens at http://127.0.0.1:8000 already")
		w.nothingLeft()
	})
}

func TestAnInterruptionStopsAStartingServer(t *testing.T) {
	for _, signals := range []int{1, 2} {
		inWorld(t, func(t *testing.T, w *world) {
			w.start = w.starter(steady(), "")
			w.later(2*time.Second, func() {
				for range signals {
					w.signals <- os.Interrupt
				}
			})
			begun := time.Now()
			w.main("run", "--launch", "vllm serve m")
			w.ended(130)
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
			time.Sleep(time.Minute)
			if w.children[0].exit.Signal == "" {
				t.Error("the server was left running")
			}
			w.nothingLeft()
		})
	}
}

// The server's end in a cell: how it ended, what it said last, and what is kept.
func TestAServerThatDiesWhileMeasuredIsToldOf(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start = w.starter(steady(), "")
		w.later(50*time.Second, func() {
			_, _ = fmt.Fprintln(w.specs[0].Output, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB")
			w.children[0].end(launch.Exit{Code: 1})
		})
		args := []string{"--contexts", "0,1K", "--concurrency", "1,2", "--prefill", "1K", "--out", "run", "--salt", "salt"}
		w.main(append([]string{"run", "--launch", "vllm serve m"}, args...)...)
		w.ended(7, "the server stopped answering", "the server ended with exit code 1: the GPU's memory is too small for it",
			"Kept: 1 cell with its numbers.", "Its last words: torch.OutOfMemoryError: CUDA out of memory.")
		if log, err := os.ReadFile("run/engine.log"); err != nil || !strings.Contains(string(log), "OutOfMemoryError") {
			t.Errorf("%v; the log is %q", err, log)
		}
		// Whoever wrote the document chose the command: it is not started without a word.
		w.main("run", "--resume", "run")
		w.ended(2, "this run had started it with: vllm serve m", "Start it again with --yes")
		w.main("run", "--resume", "run", "--yes")
		w.ended(0)
		for _, c := range w.document("run").Cells {
			if c.Status != speedmatrix.StatusValid {
				t.Errorf("resumed: %s is %s: %s", c.Key(), c.Status, c.Reason)
			}
		}
		log, err := os.ReadFile("run/engine.log")
		if err != nil || !strings.Contains(string(log), "OutOfMemoryError") || !strings.Contains(string(log), "started again at") {
			t.Errorf("%v; the log is %q", err, log)
		}
		if len(w.children) != 2 {
			t.Errorf("%d servers were started", len(w.children))
		}
	})
}
