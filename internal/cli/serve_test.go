package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/ingest"
	"speedmatrix/internal/memnet"
)

// serveWorld is `speedmatrix serve` in a network, a folder and a time of its own.
type serveWorld struct {
	t        *testing.T
	net      *memnet.Network
	env      map[string]string
	data     string
	signals  chan os.Signal
	done     chan int
	client   *http.Client
	out, err lockedBuffer
}

const served = "127.0.0.1:8090"

// serving runs a test in a bubble.
func serving(t *testing.T, test func(t *testing.T, w *serveWorld)) {
	t.Helper()
	defer func() { // what libraries keep for later belongs to the bubble
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(bubbleStart()))
		w := &serveWorld{t: t, net: memnet.New(), env: map[string]string{"GOGC": "100"}, data: filepath.Join(t.TempDir(), "site"), signals: make(chan os.Signal, 2), done: make(chan int, 1)}
		transport := &http.Transport{DialContext: w.net.DialContext}
		defer transport.CloseIdleConnections()
		w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		test(t, w)
	})
}

// environment is the program's.
func (w *serveWorld) environment(args []string) *Env {
	return &Env{Args: args, Stdin: strings.NewReader(""), Stdout: &w.out, Stderr: &w.err, Getenv: func(name string) string { return w.env[name] },
		Listen: func(_, address string) (net.Listener, error) { return w.net.Listen(address) }, Signals: w.signals, Examine: ingest.Examine}
}

// start serves in the background until stop; it is served when this returns, or has ended.
func (w *serveWorld) start(args ...string) {
	w.out.buffer.Reset()
	w.err.buffer.Reset()
	go func() {
		w.done <- Main(context.WithoutCancel(w.t.Context()), w.environment(append([]string{"serve", "--data", w.data}, args...)))
	}()
	synctest.Wait()
}

// stop interrupts it and wants exit code 0.
func (w *serveWorld) stop() {
	w.t.Helper()
	w.client.CloseIdleConnections()
	w.signals <- os.Interrupt
	w.ended(0)
}

// ended waits for the end of the program and holds its exit code and words against what is wanted; a failure says what to do
// next.
func (w *serveWorld) ended(code int, says ...string) {
	w.t.Helper()
	got := <-w.done
	said := strings.Join(strings.Fields(w.err.String()), " ")
	if got != code {
		w.t.Errorf("exit code %d, want %d: %s", got, code, w.err.String())
	}
	for _, text := range says {
		if !strings.Contains(said, text) {
			w.t.Errorf("standard error lacks %q:\n%s", text, w.err.String())
		}
	}
	if code != 0 && (!strings.HasPrefix(w.err.String(), "speedmatrix: ") || !strings.Contains(w.err.String(), "\n  ")) {
		w.t.Errorf("it does not say what happened and what to do next: %s", w.err.String())
	}
}

// ask asks the site and gives the status and the body.
func (w *serveWorld) ask(method, address, kind, body string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.Body.Close() != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestAWrongServeIsExplained(t *testing.T) {
	serving(t, func(t *testing.T, w *serveWorld) {
		taken, err := w.net.Listen("127.0.0.1:9000")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		for _, tt := range []struct {
			args []string
			says []string
		}{
			{[]string{"--addr", "8090"}, []string{`--addr "8090" is no address`, "It is a host and a port, such as 127.0.0.1:8090 or :8090."}},
			{[]string{"--addr", "127.0.0.1"}, []string{`--addr "127.0.0.1" is no address`}},
			{[]string{"--addr", "http://127.0.0.1:8090"}, []string{`is no address`}},
			{[]string{"--addr", "127.0.0.1:9000"}, []string{"127.0.0.1:9000 cannot be listened on", "Another program has it: name another with --addr."}},
			{[]string{"--addr", ":8090"}, []string{"a site that others reach needs to know who they are", "--github-client-id or --oidc-issuer", "--read-only"}},
			{[]string{"--addr", ":8090", "--read-only"}, []string{"--addr :8090 does not say at which name people reach the site", "--url"}},
			{[]string{"--addr", "0.0.0.0:8090", "--read-only"}, []string{"--addr 0.0.0.0:8090 does not say", "--url"}},
			{[]string{"--addr", "[::]:8090", "--read-only"}, []string{"--addr [::]:8090 does not say", "--url"}},
			{[]string{"--url", "speed.example.org"}, []string{`--url "speed.example.org" is no address of a site`, "It is such as https://speed.example.org, without a path."}},
			{[]string{"--url", "https://speed.example.org/runs"}, []string{"is no address of a site"}},
			{[]string{"--url", "https://:443"}, []string{"is no address of a site"}},
			{[]string{"--files", "s3://bucket", "--data", t.TempDir()}, []string{"--files s3://bucket needs the keys of its bucket", "They come from $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY."}},
			{[]string{"--max-upload", "0"}, []string{"--max-upload", "64 MB"}},
			{[]string{"--keep-drafts", "-1h"}, []string{"--keep-drafts", "--keep-drafts 0 keeps drafts"}},
			{[]string{"--keep-drafts", "30"}, []string{"--keep-drafts", "All flags: speedmatrix serve --help"}},
			{[]string{"here"}, []string{`serve takes no argument, but was given "here"`}},
		} {
			w.start(tt.args...)
			w.ended(2, tt.says...)
			if _, err := os.Stat(w.data); err == nil {
				t.Fatalf("%v: %s was made", tt.args, w.data)
			}
		}
	})
}

func TestAPlaceOfASiteThatCannotBeOpenedIsNamed(t *testing.T) {
	serving(t, func(t *testing.T, w *serveWorld) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("this is no database, whatever its name is"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.env["AWS_ACCESS_KEY_ID"], w.env["AWS_SECRET_ACCESS_KEY"] = "ann", "sesame"
		look := "Look at --data, --database and --files."
		for _, tt := range []struct {
			args []string
			says []string
		}{
			{[]string{"--database", "mysql://ann:sesame@db/site"}, []string{"@db/site is no database: it is postgres://… or sqlite:FILE", look}},
			{[]string{"--database", "site.db"}, []string{"site.db is no database", look}},
			{[]string{"--database", "postgres://ann:sesame@[/site"}, []string{"open the database", look}},
			{[]string{"--database", "sqlite:" + file}, []string{"open the database sqlite:", "file is not a database", look}},
			{[]string{"--database", "sqlite:" + filepath.Join(file, "site.db")}, []string{"open the database sqlite:", look}},
			{[]string{"--files", filepath.Join(file, "files")}, []string{"make the folder of the files", look}},
			{[]string{"--files", "s3://"}, []string{`"s3://" is no place of files`, look}},
			{[]string{"--files", "s3://bucket?endpoint=nowhere"}, []string{`the endpoint "nowhere" of the files is no address`, look}},
			{[]string{"--files", "s3://no_bucket!?endpoint=http://127.0.0.1:1"}, []string{"open the files at 127.0.0.1:1: ask for the bucket no_bucket!: Bucket name contains invalid characters", look}},
			{[]string{"--data", filepath.Join(file, "site")}, []string{"the folder ", " cannot be made: ", "Name another with --data."}},
		} {
			w.start(tt.args...)
			w.ended(6, tt.says...)
			if strings.Contains(w.err.String(), "sesame") || strings.Count(w.err.String(), "\n") != 2 {
				t.Errorf("%v: the password is shown, or it is more than a sentence and what to do: %s", tt.args, w.err.String())
			}
			if l, err := w.net.Listen(served); err != nil {
				t.Errorf("%v: the address is still taken: %v", tt.args, err)
			} else if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestASiteIsServedUntilAnInterrupt(t *testing.T) {
	serving(t, func(t *testing.T, w *serveWorld) {
		w.start()
		if got, want := w.out.String(), "speedmatrix is served at http://127.0.0.1:8090 (Ctrl-C ends it)\n"; got != want {
			t.Errorf("standard output: %q", got)
		}
		for path, text := range map[string]string{"/healthz": "ok", "/metrics": "runs 0", "/": "speedmatrix", "/api/v1/runs": `"runs":[]`} {
			if status, body := w.ask(http.MethodGet, "http://"+served+path, "", ""); status != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s: %d %.300s", path, status, body)
			}
		}
		if status, body := w.ask(http.MethodPost, "http://"+served+"/api/v1/runs", gzipKind, string(archiveOf(t, "run-1"))); status != http.StatusCreated {
			t.Errorf("an upload: %d %s", status, body)
		}
		w.stop()
		if strings.Contains(w.err.String(), "level=ERROR") || !strings.Contains(w.err.String(), "path=/healthz") {
			t.Errorf("the log: %s", w.err.String())
		}
		// What was kept is there the next time, under another port.
		w.start("--addr", "127.0.0.1:0", "--log-json")
		_, address, _ := strings.Cut(w.out.String(), "is served at ")
		address, _, _ = strings.Cut(address, " ")
		if address == "http://127.0.0.1:0" {
			t.Fatalf("nobody can know the address: %s", w.out.String())
		}
		if status, body := w.ask(http.MethodGet, address+"/metrics", "", ""); status != http.StatusOK || !strings.Contains(body, "runs 1") {
			t.Errorf("the run is gone: %d %s", status, body)
		}
		w.stop()
		if !strings.HasPrefix(w.err.String(), "{") {
			t.Errorf("the log is no JSON: %s", w.err.String())
		}
	})
}

func TestAReadOnlySiteIsReadAlone(t *testing.T) {
	serving(t, func(t *testing.T, w *serveWorld) {
		w.start("--read-only")
		if status, body := w.ask(http.MethodPost, "http://"+served+"/api/v1/runs", gzipKind, string(archiveOf(t, "run-1"))); status != http.StatusForbidden || !strings.Contains(body, `"read-only"`) {
			t.Errorf("an upload: %d %s", status, body)
		}
		if status, _ := w.ask(http.MethodGet, "http://"+served+"/runs", "", ""); status != http.StatusOK {
			t.Errorf("the list: %d", status)
		}
		w.stop()

		w.start("--read-only", "--addr", ":8090", "--url", "https://speed.example.org/")
		for address, want := range map[string]int{"speed.example.org/runs": http.StatusOK, "other.example.org/runs": http.StatusMisdirectedRequest, "10.0.0.7:8090/healthz": http.StatusOK,
			"10.0.0.7:8090/metrics": http.StatusOK, "[fd00::7]:8090/metrics": http.StatusOK, "10.0.0.7:8090/runs": http.StatusMisdirectedRequest, "other.example.org/metrics": http.StatusMisdirectedRequest} {
			host, path, _ := strings.Cut(address, "/")
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://:8090/"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			answer, err := w.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != want || answer.Body.Close() != nil {
				t.Errorf("%s: %d, want %d", address, answer.StatusCode, want)
			}
		}
		w.stop()
	})
}

// upload is a request of which half has come, until the rest is sent.
type halfUpload struct {
	rest   *io.PipeWriter
	answer chan int
}

func (w *serveWorld) halfAnUpload(archive []byte) halfUpload {
	w.t.Helper()
	body, rest := io.Pipe()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+served+"/api/v1/runs", body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", gzipKind)
	h := halfUpload{rest, make(chan int, 1)}
	go func() {
		answer, err := w.client.Do(r)
		if err != nil {
			h.answer <- 0
			return
		}
		_ = answer.Body.Close()
		h.answer <- answer.StatusCode
	}()
	if _, err := rest.Write(archive[:len(archive)/2]); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return h
}

func TestARequestOnItsWayEndsBeforeTheSite(t *testing.T) {
	serving(t, func(t *testing.T, w *serveWorld) {
		w.start()
		archive := archiveOf(t, "run-1")
		h := w.halfAnUpload(archive)
		w.signals <- os.Interrupt
		time.Sleep(20 * time.Second)
		select {
		case code := <-w.done:
			t.Fatalf("it ended with %d while a request was on its way", code)
		default:
		}
		if _, err := w.client.Get("http://" + served + "/healthz"); err == nil {
			t.Error("it still takes requests")
		}
		if _, err := h.rest.Write(archive[len(archive)/2:]); err != nil || h.rest.Close() != nil {
			t.Fatal(err)
		}
		if status := <-h.answer; status != http.StatusCreated {
			t.Errorf("the request on its way: %d", status)
		}
		w.ended(0)
		w.start()
		if _, body := w.ask(http.MethodGet, "http://"+served+"/metrics", "", ""); !strings.Contains(body, "runs 1") {
			t.Error("the acknowledged run is gone")
		}
		w.stop()
	})
}

func TestAStopHasAnEnd(t *testing.T) {
	for name, second := range map[string]time.Duration{"after its grace": 0, "at a second interrupt": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			serving(t, func(t *testing.T, w *serveWorld) {
				w.start()
				h := w.halfAnUpload(archiveOf(t, "run-1"))
				began, want := time.Now(), graceTime
				w.signals <- os.Interrupt
				if second > 0 {
					want = second
					time.AfterFunc(second, func() { w.signals <- os.Interrupt })
				}
				w.ended(0)
				if took := time.Since(began); took != want {
					t.Errorf("it ended after %s", took)
				}
				if err := h.rest.CloseWithError(io.ErrUnexpectedEOF); err != nil {
					t.Error(err)
				}
				if status := <-h.answer; status == http.StatusCreated {
					t.Errorf("what was cut: %d", status)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestHealthTellsOfADatabaseThatIsGone(t *testing.T) {
	w := newSiteWorld(t)
	if out := w.as("nobody", http.MethodGet, "/healthz", "", nil); out.Code != http.StatusOK {
		t.Errorf("%d %s", out.Code, out.Body)
	}
	if err := w.r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if out := w.as("nobody", http.MethodGet, "/healthz", "", nil); out.Code != http.StatusServiceUnavailable || !strings.Contains(out.Body.String(), "closed") {
		t.Errorf("%d %s", out.Code, out.Body)
	}
}

// The system's own errors, over the loopback network.
func TestRealServeOnAPortThatIsTakenOrNone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for address, says := range map[string]string{l.Addr().String(): "Another program has it", "127.0.0.1:99999": "invalid port", "192.0.2.1:8090": "Name another with --addr."} {
		w := &serveWorld{t: t, env: map[string]string{"GOGC": "100"}, data: filepath.Join(t.TempDir(), "site"), done: make(chan int, 1)}
		env := w.environment([]string{"serve", "--data", w.data, "--read-only", "--addr", address})
		env.Listen = nil
		w.done <- Main(t.Context(), env)
		w.ended(2, address+" cannot be listened on", says)
	}
}

func TestRealServeWithADatabaseThatDoesNotAnswer(t *testing.T) {
	w := &serveWorld{t: t, env: map[string]string{"GOGC": "100"}, data: filepath.Join(t.TempDir(), "site"), done: make(chan int, 1)}
	env := w.environment([]string{"serve", "--data", w.data, "--addr", "127.0.0.1:0", "--database", "postgres://ann:sesame@127.0.0.1:1/site?connect_timeout=1"})
	env.Listen = nil
	w.done <- Main(t.Context(), env)
	w.ended(6, "open the database postgres://", "@127.0.0.1:1/site", "Look at --data, --database and --files.")
	if strings.Contains(w.err.String(), "sesame") || strings.Count(w.err.String(), "\n") != 2 {
		t.Errorf("the password is shown, or it is more than a sentence and what to do: %s", w.err.String())
	}
}
