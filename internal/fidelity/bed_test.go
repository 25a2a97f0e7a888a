package fidelity_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"iter"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/machine"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/verify"
)

const (
	ms     = time.Millisecond
	second = time.Second
	// local is where the servers of a bed listen.
	local = "127.0.0.1:8000"
)

// textFile holds the text that prompts are made of: the embedded one takes its time to unpack.
var textFile string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fidelity")
	if err != nil {
		panic(err)
	}
	var text strings.Builder
	for i := range 60_000 {
		text.WriteString(truth.Word(1<<20, i))
		if i%100 == 99 {
			text.WriteString(".\n\n")
		}
	}
	textFile = filepath.Join(dir, "words.txt")
	if err := os.WriteFile(textFile, []byte(text.String()), 0o600); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// bed is a server and the way the program is run against it. The zero value is
// a vLLM that sends a token each 20 ms, measured for 5 s with 2 requests at context 0.
// A prefill takes 5 ms at least: in virtual time a request that took none could be repeated for ever.
type bed struct {
	script truth.Script
	// args follow `run URL`; nil is oneCell("0", "2").
	args []string
	// terminal says whether a person sits at the program.
	terminal bool
	env      map[string]string
	// wrap, if set, stands between the network and the server's listener, dial between the program and the network.
	wrap func(net.Listener) net.Listener
	dial func(*memnet.Network) func(ctx context.Context, network, address string) (net.Conn, error)
	// during, if set, is called once the server listens, in the bubble; it must return at once.
	during func(w *world)
	// change, if set, has the last word on the program's environment.
	change func(*cli.Env)
}

// oneCell asks for one decode cell with a window of 5 s, and what else is given.
func oneCell(context, concurrency string, more ...string) []string {
	return append([]string{"--contexts", context, "--concurrency", concurrency, "--prefill", "none", "--duration", "5s"}, more...)
}

// every is a gap that is always the same.
func every(d time.Duration) func(truth.Step) time.Duration {
	return func(truth.Step) time.Duration { return d }
}

// world is a bed in its bubble, and what came of it.
type world struct {
	t       reporter
	net     *memnet.Network
	server  *truth.Server
	signals chan os.Signal

	code        int // the program's exit code
	out, errout screen
	run         *speedmatrix.Run // nil if the program made none
	store       *memory
	account     truth.Account
	byRequest   map[string]map[int32][]speedmatrix.EventRow // made by events
}

// reporter is a test, or one case of a property.
type reporter interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Error(args ...any)
	Fatal(args ...any)
}

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

// measure runs the program against the bed's server, to its end.
func (b bed) measure(t *testing.T) (w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = &world{t: t, net: memnet.New(), signals: make(chan os.Signal, 4), store: newMemory()}
		l, err := w.net.Listen(local)
		if err != nil {
			t.Fatal(err)
		}
		if b.wrap != nil {
			l = b.wrap(l)
		}
		b.script.PrefillBase = cmp.Or(b.script.PrefillBase, 5*ms)
		if b.script.Engine == truth.VLLM {
			b.script.Version = cmp.Or(b.script.Version, "0.12.0")
		}
		if b.script.Gap == nil {
			b.script.Gap = every(20 * ms)
		}
		w.server = truth.New(b.script)
		var serving sync.WaitGroup
		serving.Go(func() { _ = w.server.Serve(l) })
		if b.during != nil {
			b.during(w)
		}
		w.code = cli.Main(t.Context(), b.environment(w))
		w.account = w.server.Account()
		w.server.Close()
		serving.Wait()
	})
	w.t = t
	w.run = w.store.run
	return w
}

func (b bed) environment(w *world) *cli.Env {
	args := b.args
	if args == nil {
		args = oneCell("0", "2")
	}
	dial := w.net.DialContext
	if b.dial != nil {
		dial = b.dial(w.net)
	}
	env := &cli.Env{
		Args:  append([]string{"run", "http://" + local, "--yes", "--salt", "s", "--text", textFile, "--out", "a-run-in-memory"}, args...),
		Stdin: strings.NewReader(""), Stdout: &w.out, Stderr: &w.errout, Getenv: func(name string) string { return b.env[name] },
		StdinTerminal: b.terminal, StdoutTerminal: b.terminal, Width: 100, Dial: dial, Signals: w.signals,
		SelfCheck: func(context.Context, *stamp.Clock, int) (speedmatrix.Client, error) {
			return speedmatrix.Client{StampSource: "user"}, nil
		},
		Machine: func(context.Context) speedmatrix.Facts { return speedmatrix.Facts{} },
		Watch:   func(context.Context, machine.Watch) cli.Sampler { return unwatched{} },
		Create:  func(string) (cli.Store, error) { return w.store, nil },
	}
	if b.change != nil {
		b.change(env)
	}
	return env
}

// cell gives a decode cell of the document.
func (w *world) cell(context, concurrency int) *speedmatrix.Cell {
	w.t.Helper()
	if w.run == nil {
		w.t.Fatalf("the program ended with %d and no run:\n%s%s", w.code, w.out.String(), w.errout.String())
	}
	c := w.run.FindCell(speedmatrix.PhaseDecode, context, concurrency)
	if c == nil {
		w.t.Fatalf("no decode cell %d × %d", context, concurrency)
	}
	return c
}

// prefill gives a prefill cell of the document.
func (w *world) prefill(context int) *speedmatrix.Cell {
	w.t.Helper()
	c := w.run.FindCell(speedmatrix.PhasePrefill, context, 1)
	if c == nil {
		w.t.Fatalf("no prefill cell %d", context)
	}
	return c
}

// valid gives the one decode cell of a bed: it must be Valid, have no warning other than those expected by their
// codes, and every published number must follow from the rows.
func (w *world) valid(warnings ...string) *speedmatrix.Cell {
	w.t.Helper()
	var list []*speedmatrix.Cell
	if w.run != nil {
		for i := range w.run.Cells {
			if w.run.Cells[i].Phase == speedmatrix.PhaseDecode {
				list = append(list, &w.run.Cells[i])
			}
		}
	}
	if len(list) != 1 {
		w.t.Fatalf("%d decode cells, want 1; exit code %d\n%s%s", len(list), w.code, w.out.String(), w.errout.String())
	}
	c := list[0]
	if c.Status != speedmatrix.StatusValid {
		w.t.Fatalf("%s: %s: %s", c.Key(), c.Status, c.Reason)
	}
	w.warned(c, warnings...)
	w.verified()
	return c
}

// warned fails the test unless a cell has exactly the warnings of those codes.
func (w *world) warned(c *speedmatrix.Cell, codes ...string) {
	w.t.Helper()
	var got []string
	for _, x := range c.Warnings {
		got = append(got, x.Code)
	}
	slices.Sort(got)
	slices.Sort(codes)
	if !slices.Equal(slices.Compact(got), slices.Compact(codes)) {
		w.t.Errorf("%s has the warnings %v, want %v: %v", c.Key(), got, codes, c.Warnings)
	}
}

// verified fails the test unless every published number follows from the rows.
func (w *world) verified() {
	w.t.Helper()
	report, err := verify.Check(w.run, w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range report.Disagreements[:min(len(report.Disagreements), 12)] {
		w.t.Errorf("verify: %s %s: published %s, recomputed %s", d.Cell, d.Field, d.Published, d.Recomputed)
	}
	if len(report.Unchecked) > 0 {
		w.t.Errorf("verify: unchecked %v", report.Unchecked)
	}
}

// memory is a run directory in memory.
type memory struct {
	mu       sync.Mutex
	run      *speedmatrix.Run
	requests map[string][]speedmatrix.RequestRow
	events   map[string][]speedmatrix.EventRow
	server   []speedmatrix.ServerRow
}

func newMemory() *memory {
	return &memory{requests: map[string][]speedmatrix.RequestRow{}, events: map[string][]speedmatrix.EventRow{}}
}

// Path is a place at which there is nothing.
func (m *memory) Path() string { return "a-run-in-memory" }

func (m *memory) SaveRun(r *speedmatrix.Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run = r
	return nil
}

func (m *memory) SaveCell(key string, requests []speedmatrix.RequestRow, events iter.Seq[speedmatrix.EventRow]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[key], m.events[key] = slices.Clone(requests), slices.Collect(events)
	return nil
}

func (m *memory) SaveServer(rows []speedmatrix.ServerRow) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server = slices.Clone(rows)
	return nil
}

func (m *memory) HasCell(key string) bool { _, ok := m.requests[key]; return ok }

func (m *memory) Requests(key string) ([]speedmatrix.RequestRow, error) { return m.requests[key], nil }

func (m *memory) Events(key string) iter.Seq2[speedmatrix.EventRow, error] {
	return func(yield func(speedmatrix.EventRow, error) bool) {
		for _, e := range m.events[key] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) Server() ([]speedmatrix.ServerRow, error) { return m.server, nil }

// Machine: nothing is sampled.
func (m *memory) Machine() ([]speedmatrix.MachineRow, error) { return nil, nil }

// SaveMachine forgets.
func (m *memory) SaveMachine([]speedmatrix.MachineRow) error { return nil }

// unwatched is a machine of which nothing is known.
type unwatched struct{}

func (unwatched) Rows() []speedmatrix.MachineRow { return nil }
func (unwatched) Describe() *speedmatrix.Telemetry {
	return &speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfServer, Missing: []string{"a test"}}
}
func (unwatched) Close() {}

// near compares a published number with its exact value; a float64 has 15 digits.
func near(t reporter, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is unknown, want %v", what, want)
		return
	}
	if !(math.Abs(*got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

// unknown fails the test if a number is published that nobody can know.
func unknown(t reporter, what string, got *float64) {
	t.Helper()
	if got != nil {
		t.Errorf("%s is published as %v, but it is unknown", what, *got)
	}
}

// slow makes a network on which each write of the server takes its time to arrive.
func slow(d time.Duration) func(net.Listener) net.Listener {
	return func(l net.Listener) net.Listener { return &slowListener{l, d} }
}

type slowListener struct {
	net.Listener
	d time.Duration
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &slowConn{c, l.d}, nil
}

type slowConn struct {
	net.Conn
	d time.Duration
}

func (c *slowConn) Write(b []byte) (int, error) {
	<-time.After(c.d)
	return c.Conn.Write(b)
}

// check is rapid.Check with so many cases: each is a whole run of the program.
func check(t *testing.T, cases int, property func(*rapid.T)) {
	t.Helper()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(cases)); err != nil {
			t.Fatal(err)
		}
		defer f.Value.Set(f.DefValue)
	}
	rapid.Check(t, property)
}
