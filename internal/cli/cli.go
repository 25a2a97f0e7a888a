// Package cli is the command line of speedmatrix: the only place that knows
// flags, environment, files given by the user, signals and the terminal. It
// wires the other packages together.
package cli

import (
	"context"
	"io"
	"net"
	"os"
	"os/user"
	"strings"

	"golang.org/x/term"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/machine"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/stamp"
)

// Env is what the program has of the world.
type Env struct {
	// Args are the arguments after the program's name.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// StdinTerminal and StdoutTerminal say whether a person sits there; Width and Height are the terminal's, 0 unknown.
	StdinTerminal, StdoutTerminal bool
	Width, Height                 int
	// Dial opens connections to the server; nil is the system's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Listen opens the address of a site; nil is the system's way.
	Listen func(network, address string) (net.Listener, error)
	// Signals delivers interrupts; nil listens to the system's.
	Signals <-chan os.Signal
	// Clock is the run's time scale; nil makes one.
	Clock func() *stamp.Clock
	// SelfCheck measures this program's own error; nil is bench.SelfCheck.
	SelfCheck func(ctx context.Context, clock *stamp.Clock, streams int) (speedmatrix.Client, error)
	// SelfTest measures this program with a load; nil is bench.SelfTest.
	SelfTest bench.Measure
	// Machine reads what this machine is; nil is machine.Facts.
	Machine func(ctx context.Context) speedmatrix.Facts
	// Watch samples this machine while a run goes on; nil is machine.Watch.Start.
	Watch func(ctx context.Context, w machine.Watch) Sampler
	// Environ is the whole environment, and Home, User and Host whose machine this is; what is left out is unknown.
	Environ          func() []string
	Home, User, Host string
	// ConfigDir is where programs keep their settings; "" keeps none.
	ConfigDir string
	// Start starts the processes of --launch; nil is the system's way.
	Start launch.Starter
	// Listening finds the process that listens on a port of this machine; nil looks for none.
	Listening func(ctx context.Context, port int) *launch.Process
	// Create makes a run directory; nil is runfile.Create.
	Create func(path string) (Store, error)

	// Examine reads the rows of an upload to a results site; nil does it in another process of this program.
	Examine func(ctx context.Context, folder string) (ingest.Examination, error)

	// shown takes out of what is shown what must not leave.
	shown *redact.Redactor
}

// Sampler samples the machine until it is closed; *machine.Sampler is one.
type Sampler interface {
	bench.Telemetry
	Close()
}

func (e *Env) watch(ctx context.Context, w machine.Watch) Sampler {
	if e.Watch != nil {
		return e.Watch(ctx, w)
	}
	return w.Start(ctx)
}

func (e *Env) clock() *stamp.Clock {
	if e.Clock != nil {
		return e.Clock()
	}
	return stamp.NewClock()
}

func (e *Env) selfCheck(ctx context.Context, clock *stamp.Clock, streams int) (speedmatrix.Client, error) {
	if e.SelfCheck != nil {
		return e.SelfCheck(ctx, clock, streams)
	}
	return bench.SelfCheck(ctx, clock, streams)
}

func (e *Env) machine(ctx context.Context) speedmatrix.Facts {
	if e.Machine != nil {
		return e.Machine(ctx)
	}
	return machine.Facts(ctx)
}

func (e *Env) listen(network, address string) (net.Listener, error) {
	if e.Listen != nil {
		return e.Listen(network, address)
	}
	return net.Listen(network, address)
}

func (e *Env) create(path string) (Store, error) {
	if e.Create != nil {
		return e.Create(path)
	}
	dir, err := runfile.Create(path)
	if err != nil {
		return nil, err
	}
	return dir, nil
}

// System is the environment of a real process.
func System() *Env {
	e := &Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		StdinTerminal: term.IsTerminal(int(os.Stdin.Fd())), StdoutTerminal: term.IsTerminal(int(os.Stdout.Fd()))}
	e.Environ, e.Listening = os.Environ, launch.Listening
	// What the system does not tell is not looked for.
	e.Home, _ = os.UserHomeDir()
	e.ConfigDir, _ = os.UserConfigDir()
	e.Host, _ = os.Hostname()
	if me, err := user.Current(); err == nil {
		e.User = me.Username[strings.LastIndexByte(me.Username, '\\')+1:]
	}
	if e.StdoutTerminal {
		if width, height, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			e.Width, e.Height = width, height
		}
	}
	return e
}

// Main runs the program and gives its exit code.
func Main(ctx context.Context, env *Env) int {
	env.shown = env.redactor()
	root := newRoot(env)
	root.SetArgs(env.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	printError(env, err)
	return speedmatrix.KindOf(err).ExitCode()
}
