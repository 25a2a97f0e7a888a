package launch_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/launch"
)

// child is a process that does as a test says.
type child struct {
	mu     sync.Mutex
	exited chan struct{}
	exit   launch.Exit
	// obeys is how long it takes to end when asked; never if below 0.
	obeys  time.Duration
	events []string
}

func (c *child) end(e launch.Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.exited:
	default:
		c.exit = e
		close(c.exited)
	}
}

func (c *child) note(event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event)
}

func (c *child) Exited() <-chan struct{} { return c.exited }
func (c *child) Exit() launch.Exit       { return c.exit }
func (c *child) Terminate() {
	c.note("terminate")
	if c.obeys >= 0 {
		time.AfterFunc(c.obeys, func() { c.end(launch.Exit{Signal: "terminated"}) })
	}
}
func (c *child) Kill() { c.note("kill"); c.end(launch.Exit{Signal: "killed"}) }
func (c *child) PIDs() []int {
	select {
	case <-c.exited:
		return nil
	default:
		return []int{7}
	}
}

// started starts a command whose process is c; spec is what it was started with.
func started(t *testing.T, text string, c *child) (s *launch.Server, log *launch.Log, spec launch.Spec) {
	t.Helper()
	c.exited = make(chan struct{})
	log = launch.NewLog(same, nil)
	s, err := launch.Start(launch.Options{Command: parse(t, text), Environ: []string{"A=1"}, Log: log, Starter: func(given launch.Spec) (launch.Child, error) {
		spec = given
		return c, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s, log, spec
}

func TestAServerIsWaitedForAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &child{obeys: 2 * time.Second}
		s, _, spec := started(t, "B=2 vllm serve m", c)
		if got := strings.Join(spec.Env[:2], " "); got != "A=1 B=2" || len(spec.Env) != 3 || spec.Env[2] != spec.Marker {
			t.Errorf("the environment is %q", spec.Env)
		}
		begun := time.Now()
		if err := s.Await(t.Context(), time.Minute, func(context.Context) bool { return time.Since(begun) >= 10*time.Second }); err != nil {
			t.Fatal(err)
		}
		if s.ReadyAfter() != 10*time.Second {
			t.Errorf("ready after %s", s.ReadyAfter())
		}
		begun = time.Now()
		s.Stop()
		if took := time.Since(begun); took < 2*time.Second || took > 2200*time.Millisecond {
			t.Errorf("it took %s to stop", took)
		}
		s.Stop()
		if got := strings.Join(c.events, " "); got != "terminate kill" {
			t.Errorf("it was told to %s", got)
		}
	})
}

func TestAServerThatDoesNotListenIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &child{obeys: -1}
		s, _, _ := started(t, "vllm serve m", c)
		begun := time.Now()
		s.Stop()
		if took := time.Since(begun); took < launch.StopLimit || took > launch.StopLimit+time.Second {
			t.Errorf("it took %s to stop", took)
		}
		if !s.Ended() || c.exit.Signal != "killed" {
			t.Errorf("it ended by %+v", c.exit)
		}
	})
}

func TestAServerThatEndsBeforeItIsReadySaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &child{}
		s, log, _ := started(t, "vllm serve m", c)
		for i := range 20 {
			if i == 3 {
				_, _ = log.Write([]byte("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB\n"))
			}
			_, _ = log.Write([]byte("goodbye\n"))
		}
		time.AfterFunc(3*time.Second, func() { c.end(launch.Exit{Code: 1}) })
		err := s.Await(t.Context(), time.Minute, func(context.Context) bool { return false })
		e, ok := errors.AsType[*speedmatrix.Error](err)
		if !ok || e.Kind != speedmatrix.KindNoServer || e.What != "the server ended with exit code 1 before it was ready: the GPU's memory is too small for it" {
			t.Fatalf("%v", err)
		}
		want := "Take a smaller model or a shorter --max-model-len, or stop what else uses the GPU.\nIts last words:\n    torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB\n    …\n    goodbye"
		if !strings.HasPrefix(e.Next, want) {
			t.Errorf("next is %q", e.Next)
		}
	})
}

func TestAServerThatIsLateOrNotWaitedForAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := started(t, "vllm serve m", &child{})
		begun := time.Now()
		err := s.Await(t.Context(), 20*time.Second, func(context.Context) bool { return false })
		if time.Since(begun) != 20*time.Second || err == nil || err.Error() != "the server was not ready within 20 s" {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := s.Await(ctx, time.Minute, func(context.Context) bool { return false }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		s.Kill()
	})
}

// A terminal or the background would hide the container's output; without a name nobody could stop it.
func TestAContainerRunsInTheForegroundAndCanBeNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &child{obeys: 0}
		s, _, spec := started(t, "nothing run -itd --rm -d --gpus all -p 1:8000 vllm/vllm-openai -it m", c)
		s.Kill()
		if got := strings.Join(spec.Args, " "); got != "nothing run -itd --rm -d --gpus all -p 1:8000 vllm/vllm-openai -it m" {
			t.Errorf("no container: %s", got)
		}
		s, _, spec = started(t, "docker run -itd --rm -d --gpus all -p 1:8000 vllm/vllm-openai -it m", &child{obeys: 0})
		words := strings.Join(spec.Args, " ")
		if !strings.HasPrefix(words, "docker run --cidfile ") || !strings.HasSuffix(words, "container --rm --gpus all -p 1:8000 vllm/vllm-openai -it m") {
			t.Errorf("runs %s", words)
		}
		s.Stop()
		if _, err := os.Stat(spec.Args[3]); err == nil {
			t.Error("the file of its identity was left")
		}
		s, _, spec = started(t, "docker run --name x vllm/vllm-openai m", &child{obeys: 0})
		if got := strings.Join(spec.Args, " "); got != "docker run --name x vllm/vllm-openai m" || spec.Orphaned[len(spec.Orphaned)-1] != "x" {
			t.Errorf("runs %s, orphaned %q", got, spec.Orphaned)
		}
		s.Kill()
	})
}
