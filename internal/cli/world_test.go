package cli_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/golden"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/machine"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
)

// asProgram is the variable that makes the test binary the program, for the tests that need a process of its own.
const asProgram = "SPEEDMATRIX_TEST_AS_PROGRAM"

// Progress lines show local times.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(context.Background(), cli.System()))
	}
	time.Local = time.UTC
	// Most of what a short run allocates dies with it.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// local is where the servers of a world listen; a server at hosted is on the public internet.
const (
	local  = "127.0.0.1:8000"
	hosted = "203.0.113.7:80"
)

// world is the program with a network, an environment and a folder of its own, in virtual time.
type world struct {
	t       *testing.T
	home    string // the package's folder
	net     *memnet.Network
	server  *truth.Server
	env     map[string]string
	signals chan os.Signal
	stdin   io.Reader
	// terminal says whether a person sits at the program.
	terminal bool
	create   func(path string) (cli.Store, error)
	// watched is what the program wanted to be sampled.
	watched []machine.Watch
	// environ, who, start and listening are what the program has of the machine.
	environ   []string
	who       who
	specs     []launch.Spec
	children  []*child
	start     launch.Starter
	listening func(ctx context.Context, port int) *launch.Process
	gpu       string
	out, err  screen
	code      int
}

// who is whose machine the program runs on.
type who struct{ home, user, host string }

// screen is an output that may be written by several goroutines.
type screen struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.String()
}

// inWorld runs a test in a bubble and in an empty folder.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	defer emptyPools()
	synctest.Test(t, func(t *testing.T) {
		test(t, &world{t: t, home: home, net: memnet.New(), env: map[string]string{}, signals: make(chan os.Signal, 4), stdin: strings.NewReader("")})
	})
}

// emptyPools drops what libraries keep for later when a bubble has ended: the channels in it are of that bubble. A pool
// gives up what two collections in a row found unused.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// truth starts a ground truth server.
func (w *world) truth(address string, s truth.Script) {
	w.t.Helper()
	l, err := w.net.Listen(address)
	if err != nil {
		w.t.Fatal(err)
	}
	server := truth.New(s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	w.t.Cleanup(func() { server.Close(); serving.Wait() })
	w.server = server
}

// answers starts a server that answers every request in the same way.
func (w *world) answers(status int, contentType, body string) {
	w.handles(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", contentType)
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, body)
	}))
}

// handles starts a server of any kind.
func (w *world) handles(h http.Handler) {
	w.t.Helper()
	l, err := w.net.Listen(local)
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	w.t.Cleanup(func() { _ = server.Close(); serving.Wait() })
}

// main runs the program to its end.
func (w *world) main(args ...string) int {
	w.out.buffer.Reset()
	w.err.buffer.Reset()
	w.code = cli.Main(w.t.Context(), w.environment(args))
	return w.code
}

func (w *world) environment(args []string) *cli.Env {
	return &cli.Env{
		Args: args, Stdin: w.stdin, Stdout: &w.out, Stderr: &w.err, Getenv: func(name string) string { return w.env[name] },
		StdinTerminal: w.terminal, StdoutTerminal: w.terminal, Width: 100,
		Dial: w.net.DialContext, Signals: w.signals, SelfCheck: sure, Machine: w.machine, Watch: w.watch, Create: w.create,
		Environ: func() []string { return w.environ }, Home: w.who.home, User: w.who.user, Host: w.who.host, Start: w.start, Listening: w.listening,
	}
}

// sure is a self-check whose result is always the same.
func sure(_ context.Context, _ *stamp.Clock, streams int) (speedmatrix.Client, error) {
	p50, p99 := 2.5, 6.0
	return speedmatrix.Client{StampSource: "kernel", CPUs: 8, GOMAXPROCS: 8, StampErrorP50Micros: &p50, StampErrorP99Micros: &p99,
		SelfCheckStreams: streams, SelfCheckRate: 12345}, nil
}

// machine is one that is always the same, but for its GPU.
func (w *world) machine(context.Context) speedmatrix.Facts {
	facts := speedmatrix.Facts{}
	if w.gpu != "" {
		facts.Set(speedmatrix.HardwareGPU, w.gpu, "machine")
	}
	facts.Set(speedmatrix.HardwareCPU, "Test CPU", "machine")
	facts.Set(speedmatrix.HardwareRAM, "32 GB", "machine")
	return facts
}

// blind is a machine of which nothing can be sampled.
type blind struct{}

func (w *world) watch(_ context.Context, o machine.Watch) cli.Sampler {
	w.watched = append(w.watched, o)
	return blind{}
}

func (blind) Rows() []speedmatrix.MachineRow { return nil }

func (blind) Describe() *speedmatrix.Telemetry {
	return &speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfServer, IntervalSeconds: 0.5, Scope: "no GPU", Missing: []string{"no GPU was found"}}
}

func (blind) Close() {}

// ended fails the test unless the last run ended with that code, saying so on standard error.
func (w *world) ended(code int, says ...string) {
	w.t.Helper()
	if w.code != code {
		w.t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", w.code, code, w.out.String(), w.err.String())
	}
	for _, text := range says {
		if !strings.Contains(strings.Join(strings.Fields(w.err.String()), " "), text) {
			w.t.Errorf("standard error lacks %q:\n%s", text, w.err.String())
		}
	}
}

// golden compares with a file under testdata.
func (w *world) golden(name, got string) {
	w.t.Helper()
	here, err := os.Getwd()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Chdir(w.home)
	golden.Check(w.t, name, []byte(got))
	w.t.Chdir(here)
}

// nothingLeft fails the test if the program left anything in its folder.
func (w *world) nothingLeft() {
	w.t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		w.t.Errorf("%s was left behind", e.Name())
	}
}

// document reads the run in a directory, in which nothing half-written may lie.
func (w *world) document(dir string) *speedmatrix.Run {
	w.t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".*.tmp")); err != nil || len(left) > 0 {
		w.t.Errorf("temporary files were left: %v %v", left, err)
	}
	open, err := runfile.Open(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	doc, warnings, err := open.LoadRun()
	if err != nil || len(warnings) > 0 {
		w.t.Fatal(err, warnings)
	}
	return doc
}

// later does something after a time.
func (w *world) later(d time.Duration, do func()) {
	timer := time.AfterFunc(d, do)
	w.t.Cleanup(func() { timer.Stop() })
}

// dialled notes whether anything was connected to.
func (w *world) dialled() func() bool {
	var mu sync.Mutex
	any := false
	l, err := w.net.Listen(local)
	if err != nil {
		w.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			any = true
			mu.Unlock()
			_ = c.Close()
		}
	})
	w.t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return any
	}
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
