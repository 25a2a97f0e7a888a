package machine

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Command runs a program to its end and gives its standard output, also where it failed.
type Command func(ctx context.Context, name string, args ...string) ([]byte, error)

// Start begins a program that goes on until the reader is closed, which ends it and waits for it. The reader gives
// its standard output.
type Start func(ctx context.Context, name string, args ...string) (io.ReadCloser, error)

// Process is a process of the machine.
type Process struct {
	PID, Parent int32
	Name        string
}

// Processes tells of the machine's processes what is needed to find the server's.
type Processes interface {
	List(ctx context.Context) ([]Process, error)
	// Listening gives the processes that listen at a TCP port.
	Listening(ctx context.Context, port int) ([]int32, error)
	// Variable gives a variable of a process's environment.
	Variable(ctx context.Context, pid int32, name string) (value string, ok bool)
}

// System is what the readers use of a machine, so that a recorded one can stand in its place.
type System struct {
	// OS is the operating system as Go names it.
	OS string
	// Files is the root of the file system: "sys/class/drm".
	Files     fs.FS
	Command   Command
	Start     Start
	Processes Processes
	// Privileged says that tools for administrators may be run.
	Privileged bool
	// Usage reads the counters of the machine.
	Usage func(ctx context.Context) Counters
}

// ThisSystem is the machine that the program runs on.
func ThisSystem() *System {
	return &System{
		OS: runtime.GOOS, Files: os.DirFS("/"), Command: run, Start: start, Processes: realProcesses{},
		Privileged: os.Geteuid() == 0, Usage: readCounters,
	}
}

// childWait bounds the wait for a child that was ended: children of a hung tool may hold its pipe open.
const childWait = time.Second

func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = childWait
	return c.Output()
}

// child is the output of a program that goes on.
type child struct {
	io.Reader
	end  context.CancelFunc
	wait func() error
}

func start(ctx context.Context, name string, args ...string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = childWait
	out, in, err := os.Pipe()
	if err != nil {
		cancel()
		return nil, err
	}
	c.Stdout = in
	apart(c)
	if err := c.Start(); err != nil {
		cancel()
		_, _ = out.Close(), in.Close()
		return nil, err
	}
	_ = in.Close()
	return &child{Reader: out, end: cancel, wait: func() error {
		err := c.Wait()
		_ = out.Close()
		return err
	}}, nil
}

// Close ends the program and waits for it.
func (c *child) Close() error {
	c.end()
	return c.wait()
}
