// Package cli is the command line of speedmatrix: the only place that knows
// flags, environment, files given by the user, signals and the terminal. It
// wires the other packages together.
package cli

import (
	"context"
	"io"
	"net"
	"os"

	"golang.org/x/term"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/machine"
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
	// StdinTerminal and StdoutTerminal say whether a person sits there; Width is the terminal's, 0 unknown.
	StdinTerminal, StdoutTerminal bool
	Width                         int
	// Dial opens connections to the server; nil is the system's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Signals delivers interrupts; nil listens to the system's.
	Signals <-chan os.Signal
	// SelfCheck measures this program's own error; nil is bench.SelfCheck.
	SelfCheck func(ctx context.Context, clock *stamp.Clock, streams int) (speedmatrix.Client, error)
	// SelfTest measures this program with a load; nil is bench.SelfTest.
	SelfTest bench.Measure
	// Machine reads what this machine is; nil is machine.Facts.
	Machine func(ctx context.Context) speedmatrix.Facts
	// Create makes a run directory; nil is runfile.Create.
	Create func(path string) (Store, error)
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
	if e.StdoutTerminal {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			e.Width = width
		}
	}
	return e
}

// Main runs the program and gives its exit code.
func Main(ctx context.Context, env *Env) int {
	root := newRoot(env)
	root.SetArgs(env.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	printError(env.Stderr, err)
	return speedmatrix.KindOf(err).ExitCode()
}
