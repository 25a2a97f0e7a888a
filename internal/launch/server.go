package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// The times of a server's life.
const (
	// askEvery is how often a starting server is asked whether it is ready.
	askEvery = 250 * time.Millisecond
	// StopLimit is how long a server may take to end by itself.
	StopLimit = 30 * time.Second
	// killLimit is how long the end of killed processes is waited for.
	killLimit  = 5 * time.Second
	watchEvery = 100 * time.Millisecond
	// quoted stands before a line of a log in an error's advice: it is shown as it is.
	quoted = "    "
	// lastWords is how many lines of the log an error repeats.
	lastWords = 8
)

// Options say how a server is started.
type Options struct {
	Command *Command
	// Environ is the environment that the server inherits.
	Environ []string
	Log     *Log
	// Starter starts the process; nil is the system's.
	Starter Starter
}

// Server is a server that was started. Its methods may be called from several goroutines at once.
type Server struct {
	o      Options
	child  Child
	began  time.Time
	ready  time.Duration
	box    *container
	idFile string
	stop   sync.Once
	killed sync.Once
}

// Start starts the server and returns at once. Errors are *speedmatrix.Error of kind KindNoServer.
func Start(o Options) (*Server, error) {
	if o.Starter == nil {
		o.Starter = start
	}
	s := &Server{o: o, began: time.Now(), box: containerOf(o.Command.Args)}
	marker := "SPEEDMATRIX_LAUNCH=" + rand.Text()
	spec := Spec{Args: o.Command.Args, Env: slices.Concat(o.Environ, o.Command.Env, []string{marker}), Output: o.Log, Marker: marker}
	if s.box != nil {
		if err := s.prepareContainer(&spec); err != nil {
			return nil, err
		}
	}
	child, err := o.Starter(spec)
	if err != nil {
		s.removeIDFile()
		return nil, notStarted(o.Command.Args[0], err)
	}
	s.child = child
	return s, nil
}

// Find says why there is no program that the command could start, nil where there is one.
func (c *Command) Find() error {
	if _, err := exec.LookPath(c.Args[0]); err != nil {
		return notStarted(c.Args[0], err)
	}
	return nil
}

// notStarted says why a program could not be started.
func notStarted(program string, err error) error {
	e := &speedmatrix.Error{Kind: speedmatrix.KindNoServer, What: fmt.Sprintf("%s cannot be started: %v", program, bare(err)), Err: err,
		Next: "Check the command."}
	switch {
	case notFound(err) || errors.Is(err, os.ErrNotExist):
		e.What = fmt.Sprintf("there is no program %s", program)
		e.Next = "Check its name, and whether its environment is active; or give its whole path."
	case errors.Is(err, os.ErrPermission):
		e.What = fmt.Sprintf("%s may not be run: permission denied", program)
		e.Next = "It may be a folder or a file that is no program; check with: ls -l " + program
	}
	return e
}

// bare drops the operation and the path of an error.
func bare(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// prepareContainer has the runtime write down which container it runs: to end the runtime's command does not end it.
func (s *Server) prepareContainer(spec *Spec) error {
	if s.box.name == "" && s.box.idFile == "" {
		dir, err := os.MkdirTemp("", "speedmatrix-")
		if err != nil {
			return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: "no temporary folder can be made: " + err.Error(), Err: err}
		}
		s.idFile = filepath.Join(dir, "container")
	}
	spec.Args = s.box.attached(s.o.Command.Args, s.idFile)
	spec.Orphaned = []string{"/bin/sh", "-c", `"$0" stop "$(cat "$1" 2>/dev/null || printf %s "$2")"`, s.box.runtime, or(s.idFile, s.box.idFile), s.box.name}
	return nil
}

func (s *Server) removeIDFile() {
	if s.idFile != "" {
		_ = os.RemoveAll(filepath.Dir(s.idFile))
	}
}

// Await waits until ready says so, asking four times a second. It ends with an error when the server ends before, when
// limit has passed, or with ctx. The server is not stopped.
func (s *Server) Await(ctx context.Context, limit time.Duration, ready func(ctx context.Context) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	for {
		asking, answered := context.WithTimeout(ctx, 5*time.Second)
		ok := ready(asking)
		answered()
		if ok {
			s.ready = time.Since(s.began)
			return nil
		}
		select {
		case <-s.child.Exited():
			return s.Failure("before it was ready")
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errLate) {
				return s.late(limit)
			}
			return context.Cause(ctx)
		case <-time.After(askEvery):
		}
	}
}

var errLate = errors.New("the server was not ready in time")

// late is the error of a server that lives, but is not ready in time.
func (s *Server) late(limit time.Duration) error {
	next := "It may listen elsewhere than asked: give its URL. If it needs longer: --launch-timeout."
	return &speedmatrix.Error{Kind: speedmatrix.KindNoServer, What: "the server was not ready within " + unit.Duration(limit),
		Next: next + s.words(Cause{}), Err: errLate}
}

// Failure is the error of a server that has ended; when completes "ended with exit code 1".
func (s *Server) Failure(when string) error {
	exit := s.child.Exit()
	cause := CauseOf(s.o.Log.Lines(), exit)
	e := &speedmatrix.Error{Kind: speedmatrix.KindNoServer, What: strings.TrimSpace(fmt.Sprintf("the server %s %s", exit, when))}
	if cause.What != "" {
		e.What += ": " + cause.What
	}
	e.Next = strings.TrimPrefix(cause.Next+s.words(cause), "\n")
	return e
}

// LastWords gives what the server said last, in lines that go behind an error's advice.
func (s *Server) LastWords() string {
	if !s.Ended() {
		return s.words(Cause{})
	}
	return s.words(CauseOf(s.o.Log.Lines(), s.child.Exit()))
}

func (s *Server) words(cause Cause) string {
	last := slices.DeleteFunc(s.o.Log.Last(lastWords), func(line string) bool { return strings.Trim(line, " ^~") == "" })
	if cause.Line != "" && !slices.Contains(last, cause.Line) {
		last = append([]string{cause.Line, "…"}, last...)
	}
	if len(last) == 0 {
		return "\nIt said nothing."
	}
	return "\nIts last words:\n" + quoted + strings.Join(last, "\n"+quoted)
}

// Ended says whether the server's first process has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.child.Exited():
		return true
	default:
		return false
	}
}

// ReadyAfter is the time from the start until the server was ready; 0 before.
func (s *Server) ReadyAfter() time.Duration { return s.ready }

// PIDs are the living processes of the server. Those in a container are not among them.
func (s *Server) PIDs() []int { return s.child.PIDs() }

// Stop asks the server to end, with all its processes and its container, and kills after StopLimit what is left. It
// returns when none is left; again, at once.
func (s *Server) Stop() {
	s.stop.Do(func() {
		defer s.removeIDFile()
		s.stopContainer("stop")
		s.child.Terminate()
		if !s.gone(StopLimit) {
			s.stopContainer("kill")
		}
		s.Kill()
	})
}

// Kill ends the server at once.
func (s *Server) Kill() {
	s.killed.Do(func() {
		s.child.Kill()
		s.gone(killLimit)
	})
}

// gone waits until no process is left, at most limit.
func (s *Server) gone(limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if s.Ended() && len(s.child.PIDs()) == 0 {
			return true
		}
		select {
		case <-s.child.Exited():
			time.Sleep(watchEvery)
		case <-time.After(watchEvery):
		}
	}
	return false
}

// stopContainer gives the container's runtime a command about the container.
func (s *Server) stopContainer(verb string) {
	if s.box == nil || s.Ended() {
		return
	}
	id := s.box.name
	if file := or(s.idFile, s.box.idFile); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return // the runtime had not made it yet
		}
		id = strings.TrimSpace(string(data))
	}
	ctx, cancel := context.WithTimeout(context.Background(), StopLimit+killLimit)
	defer cancel()
	_ = exec.CommandContext(ctx, s.box.runtime, verb, id).Run()
}

func itoa(n int) string { return strconv.Itoa(n) }
