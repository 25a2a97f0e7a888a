package launch

import (
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// Spec is a process to start: its words, its whole environment, and where its output goes.
type Spec struct {
	Args   []string
	Env    []string
	Output io.Writer
	// Marker is an assignment in Env that all processes of the server inherit.
	Marker string
	// Orphaned is a shell command to run beside the end of the group if this program dies without stopping it.
	Orphaned []string
}

// Child is a process that was started, with all that it started in turn.
type Child interface {
	// Exited is closed when the process has ended; Exit says how.
	Exited() <-chan struct{}
	Exit() Exit
	// Terminate asks the whole group to end, Kill ends it.
	Terminate()
	Kill()
	// PIDs are the living processes of the group, the first one first; none where they cannot be listed.
	PIDs() []int
}

// Starter starts a process.
type Starter func(spec Spec) (Child, error)

// process is a Child of the system's.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	exit   Exit
	marker string
	// dismiss ends the guard that would end the group if this program died.
	dismiss func()
}

// start is the system's Starter.
func start(spec Spec) (Child, error) {
	p := &process{exited: make(chan struct{}), marker: spec.Marker, dismiss: func() {}}
	p.cmd = exec.Command(spec.Args[0], spec.Args[1:]...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = spec.Env, spec.Output, spec.Output
	// What outlives the server may hold its output open.
	p.cmd.WaitDelay = outputDelay
	prepare(p.cmd)
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	p.dismiss = guard(p.cmd.Process.Pid, spec.Orphaned)
	return p, nil
}

// run starts the process and waits for it. On Linux a child dies with the thread that started it, so the thread is kept.
func (p *process) run(started chan<- error) {
	unlock := keepThread()
	defer unlock()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = p.cmd.Wait()
	state := p.cmd.ProcessState
	p.exit = Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Signal = status.Signal().String()
	}
	close(p.exited)
}

func (p *process) Exited() <-chan struct{} { return p.exited }
func (p *process) Exit() Exit              { return p.exit }
func (p *process) Terminate()              { terminate(p) }

func (p *process) Kill() {
	if groupAlive(p) {
		kill(p)
	}
	p.dismiss()
}

// once makes a function that does something the first time only.
func once(do func()) func() {
	var one sync.Once
	return func() { one.Do(do) }
}

// notFound says whether a program could not be started because there is none of that name.
func notFound(err error) bool { return errors.Is(err, exec.ErrNotFound) }
