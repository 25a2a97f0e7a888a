package machine

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"speedmatrix"
)

// recorded is a machine whose tools answer from files under testdata.
type recorded struct {
	t *testing.T
	// answers are files by the tool and the beginning of its first argument; failing those whose tools fail.
	answers map[string]string
	failing map[string]bool
	files   string
	tool    *talking
	process Processes
	os      string
	root    bool
}

func (r recorded) system() *System {
	s := &System{OS: r.os, Files: tree(r.t, r.files), Processes: r.process, Privileged: r.root, Command: r.command}
	if r.tool != nil {
		s.Start = r.tool.start
	}
	return s
}

func (r recorded) command(_ context.Context, name string, args ...string) ([]byte, error) {
	for key, file := range r.answers {
		tool, argument, _ := strings.Cut(key, " ")
		if tool != name || !strings.HasPrefix(args[0], argument) {
			continue
		}
		var err error
		if r.failing[key] {
			err = errors.New("exit status 9")
		}
		return []byte(read(r.t, file)), err
	}
	return nil, &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tree is a file system out of the answer of grep -r "" to its files: "path:line".
func tree(t *testing.T, file string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	if file == "" {
		return files
	}
	for line := range strings.Lines(read(t, file)) {
		name, content, _ := strings.Cut(line, ":")
		if files[name] == nil {
			files[name] = &fstest.MapFile{}
		}
		files[name].Data = append(files[name].Data, content...)
	}
	return files
}

// talking is a tool that goes on: each of its lives prints lines, one every step, and then ends or stays silent.
type talking struct {
	mu    sync.Mutex
	lives map[string][]life
	// begun are the command lines of its lives.
	begun []string
	open  int
}

type life struct {
	text  string
	step  time.Duration
	stays bool
	err   error
}

func (s *talking) start(ctx context.Context, name string, args ...string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, name+" "+strings.Join(args, " "))
	key := name
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		key += " " + args[0]
	}
	lives := s.lives[key]
	if len(lives) == 0 {
		return nil, &exec.Error{Name: name, Err: exec.ErrNotFound}
	}
	l := lives[0]
	if len(lives) > 1 {
		s.lives[key] = lives[1:]
	}
	s.open++
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = in.Close() }()
		for line := range strings.Lines(l.text) {
			if !pause(ctx, l.step) {
				return
			}
			if _, err := io.WriteString(in, line); err != nil {
				return
			}
		}
		if l.stays {
			<-ctx.Done()
		}
	}()
	return &told{Reader: out, close: func() error {
		cancel()
		_ = out.Close()
		<-done
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		return l.err
	}}, nil
}

// ended fails the test if a life goes on.
func (s *talking) ended(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != 0 {
		t.Errorf("%d programs were left running", s.open)
	}
}

type told struct {
	io.Reader
	close func() error
}

func (t *told) Close() error { return t.close() }

// noProcesses is a machine whose processes are hidden.
type noProcesses struct{}

func (noProcesses) List(context.Context) ([]Process, error) { return nil, errors.New("hidden") }

func (noProcesses) Listening(context.Context, int) ([]int32, error) { return nil, nil }

func (noProcesses) Variable(context.Context, int32, string) (string, bool) { return "", false }

// someProcesses is a server with its children, and others.
type someProcesses struct {
	list      []Process
	listening []int32
	variables map[string]string
}

func (p someProcesses) List(context.Context) ([]Process, error) { return p.list, nil }

func (p someProcesses) Listening(_ context.Context, port int) ([]int32, error) {
	if port != 8000 {
		return nil, nil
	}
	return p.listening, nil
}

func (p someProcesses) Variable(_ context.Context, pid int32, name string) (string, bool) {
	v, ok := p.variables[name]
	return v, ok && pid == p.listening[0]
}

// gpuFacts are the facts of a machine about its GPUs.
func gpuFacts(t *testing.T, r recorded) (speedmatrix.Facts, *gpus) {
	t.Helper()
	r.t = t
	facts := speedmatrix.Facts{}
	found := r.system().findGPUs(t.Context())
	found.facts(facts)
	return facts, found
}
