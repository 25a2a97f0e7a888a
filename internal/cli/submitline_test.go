package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"speedmatrix/internal/redact"
)

func isPiece(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/uploads/")
}

// halved is a body that breaks off in the middle, as it does for the site when the line breaks.
func halved(r *http.Request) {
	r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, r.ContentLength/2), brokenLine{}))
}

type brokenLine struct{}

// Read fails.
func (brokenLine) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// The line breaks in the middle of the archive and does not come back: the command gives up, and repeated it sends the rest.
func TestAnUploadThatBrokeOffGoesOnWhereItStopped(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		broken := false
		w.spoil(func(out http.ResponseWriter, r *http.Request) bool {
			if broken {
				panic(http.ErrAbortHandler)
			}
			if !isPiece(r) {
				return false
			}
			halved(r)
			w.handler.ServeHTTP(&deaf{}, r)
			broken = true
			panic(http.ErrAbortHandler)
		})
		w.submit("--yes")
		w.ended(3, submitSite+" did not answer", "Repeat the command: an upload goes on where it stopped.")
		w.shows("A piece of the upload: ", "Trying again.")
		first := w.sent
		if first == 0 {
			t.Fatal("nothing was sent")
		}
		w.holdsNoRun()
		w.spoil(nil)
		w.submit("--yes")
		w.ended(0)
		size := archiveSize(t, w)
		w.shows(fmt.Sprintf("Going on at %d of %d bytes.", first, size))
		if w.sent != size {
			t.Errorf("%d bytes were sent of an archive of %d", w.sent, size)
		}
		w.holds(1)
	})
}

func (w *submitWorld) holdsNoRun() {
	w.t.Helper()
	if n := w.r.index.Len(); n != 0 {
		w.t.Errorf("the site has %d runs", n)
	}
}

// deaf takes an answer that nobody gets.
type deaf struct{ header http.Header }

// Header is a header.
func (d *deaf) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}

// WriteHeader does nothing.
func (d *deaf) WriteHeader(int) {}

// Write drops what it is given.
func (d *deaf) Write(p []byte) (int, error) { return len(p), nil }

// archiveSize is the size of the archive that the command sends.
func archiveSize(t *testing.T, w *submitWorld) int64 {
	t.Helper()
	s := &submission{env: &Env{Stdout: io.Discard, Stderr: io.Discard}}
	s.env.shown = redact.New(redact.Options{})
	p, err := s.pack(w.run)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(p.data))
}

// A line that breaks once, at whatever request, with or without the site having done what it was asked: the command goes on
// by itself, and there is one run in the end.
func TestALineThatBreaksOnceCostsNothing(t *testing.T) {
	requests := []string{"POST /api/v1/runs:check", "POST /api/v1/uploads", "PATCH /api/v1/uploads/", "POST /api/v1/uploads/", "PATCH /api/v1/runs/"}
	for _, request := range requests {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s done %v", request, done), func(t *testing.T) {
				submitting(t, func(t *testing.T, w *submitWorld) {
					w.signedIn()
					broke := false
					w.spoil(func(_ http.ResponseWriter, r *http.Request) bool {
						name := r.Method + " " + r.URL.Path
						if broke || name != request && (!strings.HasSuffix(request, "/") || !strings.HasPrefix(name, request)) {
							return false
						}
						broke = true
						if done {
							w.handler.ServeHTTP(&deaf{}, r)
						}
						panic(http.ErrAbortHandler)
					})
					w.submit("--yes")
					w.ended(0)
					w.shows("Trying again.", "Published: ")
					w.holds(1)
					if !broke {
						t.Error("no line broke")
					}
				})
			})
		}
	}
}

// The site still reads a piece whose line broke: the next piece waits for it.
func TestAPieceWaitsForTheOneBeforeIt(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.signedIn()
		first := true
		w.spoil(func(_ http.ResponseWriter, r *http.Request) bool {
			if !isPiece(r) || !first {
				return false
			}
			first = false
			data, err := io.ReadAll(r.Body)
			if err != nil {
				w.t.Error(err)
			}
			slow := r.Clone(w.t.Context())
			slow.Body = io.NopCloser(io.MultiReader(bytes.NewReader(data[:100]), &lateBody{Reader: bytes.NewReader(data[100:])}))
			go w.handler.ServeHTTP(&deaf{}, slow)
			panic(http.ErrAbortHandler)
		})
		w.submit("--yes")
		w.ended(0)
		w.holds(1)
	})
}

// lateBody is a body whose bytes come after three seconds.
type lateBody struct {
	io.Reader
	came bool
}

// Read waits before the first byte.
func (l *lateBody) Read(p []byte) (int, error) {
	if !l.came {
		time.Sleep(3 * time.Second)
		l.came = true
	}
	return l.Reader.Read(p)
}

// A large archive goes in pieces, each once.
func TestALargeArchiveGoesInPieces(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		data := make([]byte, 2*pieceBytes+1000)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		sum := sha256.Sum256(data)
		s := &submission{env: &Env{Stdout: &w.out, Stderr: &w.err, Dial: w.net.DialContext, Getenv: func(string) string { return w.token("owner's submit token") }}, to: submitSite}
		if err := s.check(); err != nil {
			t.Fatal(err)
		}
		if err := s.connect(); err != nil {
			t.Fatal(err)
		}
		_, err := s.upload(t.Context(), &packed{data: data, hash: hex.EncodeToString(sum[:])})
		if err == nil || !strings.Contains(err.Error(), "refused the run (") {
			t.Errorf("noise became a run: %v", err)
		}
		if n := w.times("PATCH /api/v1/uploads/"); n != 3 || w.sent != int64(len(data)) {
			t.Errorf("%d bytes in %d pieces", w.sent, n)
		}
		w.holds(0)
	})
}

func TestABusySiteIsWaitedForAsItAsks(t *testing.T) {
	tests := []struct {
		status, times int
		after         string
		least, most   time.Duration
	}{
		{429, 2, "7", 14 * time.Second, 14 * time.Second},
		{503, 2, "7", 14 * time.Second, 14 * time.Second},
		{503, 1, "86400", 30 * time.Second, 30 * time.Second},
		{503, 1, "-5", 500 * time.Millisecond, 750 * time.Millisecond},
		{429, 1, "soon", 500 * time.Millisecond, 750 * time.Millisecond},
		{429, 1, "99999999999999999999", 30 * time.Second, 30 * time.Second},
		{429, 1, "Fri, 01 Jan 2027 00:00:09 GMT", 9 * time.Second, 9 * time.Second},
		{429, 1, "NaN", 500 * time.Millisecond, 750 * time.Millisecond},
		{429, 1, "9223372037", 30 * time.Second, 30 * time.Second},
		{502, 3, "", 3500 * time.Millisecond, 5250 * time.Millisecond},
	}
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		for _, tt := range tests {
			w.spoil(func(out http.ResponseWriter, _ *http.Request) bool {
				if tt.times == 0 {
					return false
				}
				tt.times--
				out.Header().Set("Retry-After", tt.after)
				out.WriteHeader(tt.status)
				return true
			})
			began := time.Now()
			if _, err := http.ParseTime(tt.after); err == nil {
				tt.after = began.Add(9 * time.Second).UTC().Format(http.TimeFormat)
				began = began.Truncate(time.Second) // such a time has no fractions
			}
			w.submit("--yes")
			w.ended(0)
			w.shows("Trying again.")
			w.holds(1)
			if took := time.Since(began); took < tt.least || took > tt.most {
				t.Errorf("%d %q: it waited %s, not %s to %s", tt.status, tt.after, took, tt.least, tt.most)
			}
		}
	})
}

func TestASiteThatStaysBusyIsGivenUp(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		w.spoil(func(out http.ResponseWriter, _ *http.Request) bool {
			out.Header().Set("Retry-After", "3600")
			out.Header().Set("Content-Type", "application/problem+json")
			out.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(out, `{"title": "x", "status": 429, "code": "too-many-requests", "detail": "Come again in an hour."}`)
			return true
		})
		began := time.Now()
		w.submit("--yes")
		w.ended(4, "refused the run (too-many-requests)", "Come again in an hour.")
		if took := time.Since(began); took < (mostTries-1)*mostPause || took > mostTries*mostPause {
			t.Errorf("it waited %s", took)
		}
		if n := w.times(""); n != mostTries {
			t.Errorf("it asked %d times", n)
		}
	})
}

// Ctrl-C at each request: the program ends in that instant and says what there is; repeated, it goes on.
func TestCtrlCEndsASubmission(t *testing.T) {
	for request, says := range map[string]string{
		"POST /api/v1/runs:check": "interrupted; nothing was uploaded", "PATCH /api/v1/uploads/": "interrupted; what was uploaded stays at " + submitSite,
		"POST /api/v1/uploads/": "interrupted; what was uploaded stays", "PATCH /api/v1/runs/": "interrupted; what was uploaded stays",
	} {
		t.Run(request, func(t *testing.T) {
			submitting(t, func(t *testing.T, w *submitWorld) {
				w.signedIn()
				w.spoil(func(_ http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.Method+" "+r.URL.Path, request) {
						return false
					}
					_, _ = io.Copy(io.Discard, r.Body)
					w.signals <- os.Interrupt
					<-r.Context().Done() // the program hangs up
					panic(http.ErrAbortHandler)
				})
				began := time.Now()
				w.submit("--yes")
				w.ended(130, says)
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %s to end", took)
				}
				w.spoil(nil)
				w.submit("--yes")
				w.ended(0)
				w.holds(1)
			})
		})
	}
}

func TestCtrlCEndsEveryWait(t *testing.T) {
	for name, prepare := range map[string]func(w *submitWorld){
		"for a busy site": func(w *submitWorld) {
			w.spoil(func(out http.ResponseWriter, _ *http.Request) bool {
				out.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
		},
		"for a login":   func(w *submitWorld) { w.terminal = true; delete(w.env, "SPEEDMATRIX_TOKEN") },
		"for an answer": func(w *submitWorld) { w.terminal, w.typing = true, nobodyTypes{} },
	} {
		t.Run(name, func(t *testing.T) {
			submitting(t, func(t *testing.T, w *submitWorld) {
				w.signedIn()
				prepare(w)
				pressed := time.Now().Add(12 * time.Second)
				time.AfterFunc(12*time.Second, func() { w.signals <- os.Interrupt })
				w.submit()
				w.ended(130, "interrupted; nothing was uploaded")
				if !time.Now().Equal(pressed) {
					t.Errorf("it ended %s after Ctrl-C", time.Since(pressed))
				}
				w.holds(0)
				time.Sleep(2 * time.Hour) // whoever did not type is gone
			})
		})
	}
}

// nobodyTypes is a terminal before which nobody sits for an hour.
type nobodyTypes struct{}

// Read waits an hour.
func (nobodyTypes) Read([]byte) (int, error) {
	time.Sleep(time.Hour)
	return 0, io.EOF
}

// A site that says nonsense of what it has is not believed.
func TestASiteThatCountsWrongIsNamed(t *testing.T) {
	const begun = `{"id": "01mb78qn00mxvt9wwq2fn1gcb7", "size": 10, "received": %d, "sha256": "", "expires_at": "2027-01-02T00:00:00Z", "run": ""}`
	for _, received := range []int{-1, 1 << 40, 0} {
		submitting(t, func(_ *testing.T, w *submitWorld) {
			w.signedIn()
			var asked atomic.Int64
			w.spoil(func(out http.ResponseWriter, r *http.Request) bool {
				status := http.StatusCreated
				if isPiece(r) {
					status = http.StatusOK
				}
				if !strings.HasPrefix(r.URL.Path, "/api/v1/uploads") || asked.Add(1) > 100 {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body)
				out.Header().Set("Content-Type", "application/json")
				out.WriteHeader(status)
				_, _ = fmt.Fprintf(out, begun, received)
				return true
			})
			w.submit("--yes")
			w.ended(4, map[int]string{-1: "says that it has -1 of", 1 << 40: "says that it has 1099511627776 of", 0: "took a piece of the upload and does not have it"}[received])
		})
	}
}

// The order of what a submission asks, so that nothing is sent before its turn.
func TestWhatASubmissionAsks(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		w.submit("--yes")
		w.ended(0)
		want := []string{"POST /api/v1/runs:check", "POST /api/v1/uploads", "PATCH /api/v1/uploads/", "POST /api/v1/uploads/", "PATCH /api/v1/runs/"}
		if !slices.EqualFunc(w.asked, want, strings.HasPrefix) {
			t.Errorf("it asked %q", w.asked)
		}
	})
}
