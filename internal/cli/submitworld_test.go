package cli

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

// The site of a submitWorld, where it listens, and an address at which nobody does.
const (
	submitSite = "http://speed.example.org"
	submitHost = "speed.example.org:80"
	nobodyHome = "http://nobody.example.org"
)

// bubbleStart is when a submitWorld begins: after its run was measured, which a site looks at.
func bubbleStart() time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }

// submitWorld is the program with a run, and a results site that it reaches over a network in memory, in virtual time.
type submitWorld struct {
	*siteWorld
	net      *memnet.Network
	run      string
	env      map[string]string
	environ  []string
	config   string
	stdin    string
	typing   io.Reader // in place of stdin
	terminal bool
	signals  chan os.Signal
	// before may answer a request in place of the site, or spoil it.
	before func(w http.ResponseWriter, r *http.Request) (done bool)

	mu       sync.Mutex
	asked    []string
	sent     int64 // bytes of pieces that the site was sent
	out, err lockedBuffer
	code     int
}

// lockedBuffer may be written and read by several goroutines.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write appends.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String is all that was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// submitting runs a test in a bubble with a site in it.
func submitting(t *testing.T, test func(t *testing.T, w *submitWorld), change ...func(*serveOptions)) {
	t.Helper()
	defer func() { // what libraries keep for later belongs to the bubble
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(bubbleStart()))
		change = append([]func(*serveOptions){func(o *serveOptions) { o.base = submitSite }}, change...)
		w := &submitWorld{siteWorld: newSiteWorld(t, change...), net: memnet.New(), env: map[string]string{}, config: t.TempDir(), signals: make(chan os.Signal, 2)}
		w.run = filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(w.run, os.DirFS(filepath.Join("..", "ingest", "testdata", "small"))); err != nil {
			t.Fatal(err)
		}
		w.listen(submitHost, http.HandlerFunc(w.serve))
		test(t, w)
	})
}

// listen serves a handler at an address of the network.
func (w *submitWorld) listen(address string, h http.Handler) {
	w.t.Helper()
	l, err := w.net.Listen(address)
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	w.t.Cleanup(func() { _ = server.Close(); serving.Wait() })
}

// serve notes what the site is asked for and passes it on.
func (w *submitWorld) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, r.Method+" "+r.URL.Path)
	before := w.before
	w.mu.Unlock()
	if r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/uploads/") {
		r.Body = &countedBody{r.Body, w}
	}
	if before == nil || !before(out, r) {
		w.handler.ServeHTTP(out, r)
	}
}

type countedBody struct {
	io.ReadCloser
	w *submitWorld
}

// Read counts what the site reads.
func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.w.mu.Lock()
	c.w.sent += int64(n)
	c.w.mu.Unlock()
	return n, err
}

// spoil sets what happens to requests from now on.
func (w *submitWorld) spoil(before func(w http.ResponseWriter, r *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

// times is how often the site was asked for something.
func (w *submitWorld) times(request string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asked {
		if strings.HasPrefix(a, request) {
			n++
		}
	}
	return n
}

// token is the secret of a visitor of the matrix.
func (w *submitWorld) token(visitor string) string {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, submitSite, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.visits[visitor](r)
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// manages lets the command come with a token of the owner's that may publish.
func (w *submitWorld) signedIn() { w.env["SPEEDMATRIX_TOKEN"] = w.token("owner's submit token") }

// main runs the program to its end.
func (w *submitWorld) main(args ...string) {
	w.out.buffer.Reset()
	w.err.buffer.Reset()
	w.code = Main(w.t.Context(), &Env{Args: args, Stdin: w.typed(), Stdout: &w.out, Stderr: &w.err, Getenv: func(name string) string { return w.env[name] },
		Environ: func() []string { return w.environ }, StdinTerminal: w.terminal, Dial: w.net.DialContext, Signals: w.signals, ConfigDir: w.config})
}

// submit submits the run to the site.
func (w *submitWorld) submit(more ...string) {
	w.main(append([]string{"submit", w.run, "--to", submitSite}, more...)...)
}

// ended fails the test unless the program ended with that code, saying so; a failure says what to do next.
func (w *submitWorld) ended(code int, says ...string) {
	w.t.Helper()
	said := strings.Join(strings.Fields(w.err.String()), " ")
	if w.code != code {
		w.t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", w.code, code, w.out.String(), w.err.String())
	}
	for _, text := range says {
		if !strings.Contains(said, text) {
			w.t.Errorf("standard error lacks %q:\n%s", text, w.err.String())
		}
	}
	if code == 0 || code == speedmatrix.KindInterrupted.ExitCode() {
		return
	}
	first, rest, _ := strings.Cut(w.err.String()[strings.Index(w.err.String(), "speedmatrix: ")+1:], "\n")
	if !strings.HasPrefix(rest, "  ") {
		w.t.Errorf("nothing says what to do next: %s\n%s", first, rest)
	}
}

// shows fails the test unless standard output has those words.
func (w *submitWorld) shows(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		if !strings.Contains(w.out.String(), text) {
			w.t.Errorf("standard output lacks %q:\n%s", text, w.out.String())
		}
	}
}

// holds fails the test unless the site has so many runs, and nothing of an upload where it has none.
func (w *submitWorld) holds(runs int) {
	w.t.Helper()
	if n := w.r.index.Len(); n != runs {
		w.t.Errorf("the site has %d runs, want %d", n, runs)
	}
	if runs > 0 {
		return
	}
	for _, folder := range []string{filepath.Join(w.r.o.data, "files"), filepath.Join(w.r.o.data, "uploads")} {
		err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				w.t.Errorf("%s was kept", path)
			}
			return err
		})
		if err != nil {
			w.t.Error(err)
		}
	}
}

// typed is what stands on standard input.
func (w *submitWorld) typed() io.Reader {
	if w.typing != nil {
		return w.typing
	}
	return strings.NewReader(w.stdin)
}
