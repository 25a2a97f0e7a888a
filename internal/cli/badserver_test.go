package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// Each server that cannot be measured gets a sentence that says what and what next, and leaves nothing behind.
func TestAServerThatCannotBeMeasuredIsNamed(t *testing.T) {
	const problem = `{"error":{"message":"so it is"}}`
	tests := []struct {
		name  string
		serve func(w *world)
		args  []string
		code  int
		says  []string
	}{
		{"nothing listens", func(*world) {}, []string{"run", local}, 3,
			[]string{"no LLM server at http://127.0.0.1:8000 (connection refused)", "Nothing listens there.", "8080 (llama.cpp)"}},
		{"nothing listens, without URL", func(*world) {}, []string{"run"}, 3,
			[]string{"no LLM server on this machine's usual ports", "Start one, or give its URL: speedmatrix run http://HOST:PORT"}},
		{"a web page", func(w *world) { w.answers(200, "text/html", "<!doctype html><title>Hello</title>") }, []string{"run", local}, 3,
			[]string{"what answers at http://127.0.0.1:8000 is a web page, not an LLM server", "Give the URL of the API itself."}},
		{"a web page of status 404", func(w *world) { w.answers(404, "text/html", "<title>404</title>") }, []string{"run", local}, 3,
			[]string{"is a web page, not an LLM server"}},
		{"401", func(w *world) { w.answers(401, "application/json", problem) }, []string{"run", local}, 4,
			[]string{"wants a valid key (401 Unauthorized: so it is)", "OPENAI_API_KEY"}},
		{"401 though a key was sent", func(w *world) { w.answers(401, "application/json", problem) }, []string{"run", local, "--api-key", "k"}, 4,
			[]string{"A key was sent and not taken"}},
		{"404", func(w *world) { w.answers(404, "application/json", problem) }, []string{"run", local}, 3,
			[]string{"no LLM server at http://127.0.0.1:8000: it has no GET /v1/models (404 Not Found: so it is)", "Give the URL up to where /v1 begins."}},
		{"429", func(w *world) { w.answers(429, "application/json", problem) }, []string{"run", local}, 4,
			[]string{"refuses more requests for now (429 Too Many Requests: so it is)", "Try again later"}},
		{"503 without end", func(w *world) { w.answers(503, "application/json", problem) }, []string{"run", local}, 5,
			[]string{"was not ready within 60 s (503 Service Unavailable: so it is)", "It may still be loading its model"}},
		{"500", func(w *world) { w.answers(500, "text/plain", "boom") }, []string{"run", local}, 3,
			[]string{"the server at http://127.0.0.1:8000 fails (500 Internal Server Error: boom)"}},
		{"an unknown model", func(w *world) { w.truth(local, steady()) }, []string{"run", local, "--model", "stedy"}, 4,
			[]string{`the server knows no model "stedy"`, "It serves: steady. Did you mean that one? --model steady"}},
		{"max where the model's length is unknown", func(w *world) { w.truth(local, truth.Script{}) }, []string{"run", local, "--contexts", "max"}, 2,
			[]string{`the context "max" needs the model's maximum length`, "--state model.max_length_tokens=131072"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				tt.serve(w)
				w.main(tt.args...)
				w.ended(tt.code, tt.says...)
				w.nothingLeft()
			})
		})
	}
}

func TestAServerThatLoadsIsWaitedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := steady()
		s.Loading = 20 * time.Second
		w.truth(local, s)
		w.main(small("--contexts", "0", "--prefill", "none")...)
		w.ended(0)
		if !strings.Contains(w.out.String(), "The server at http://127.0.0.1:8000 is not ready (503") {
			t.Errorf("nothing said why it waits:\n%s", w.out.String())
		}
	})
}

// TLS needs real sockets: the handshake fails before anything else is asked.
func TestACertificateOfAnUnknownAuthorityIsRefused(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	defer server.Close()
	t.Chdir(t.TempDir())
	w := &world{t: t}
	env := w.environment([]string{"run", server.URL})
	env.Dial = nil
	w.code = cli.Main(t.Context(), env)
	w.ended(4, "is signed by an authority that this machine does not know", "--ca-file FILE", "--insecure")
	w.nothingLeft()
}

func TestAContextBeyondTheModelIsACellThatDoesNotRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.main("run", local, "--contexts", "0,16K", "--concurrency", "1", "--prefill", "16K", "--out", "run")
		w.ended(0)
		for _, phase := range []speedmatrix.Phase{speedmatrix.PhaseDecode, speedmatrix.PhasePrefill} {
			if c := w.document("run").FindCell(phase, 16<<10, 1); c.Status != speedmatrix.StatusExceedsModelLength || c.Reason == "" {
				t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
			}
		}
		if !strings.Contains(w.out.String(), "– Exceeds model length: 16,384 tokens and one of output need more than the model's 8,192") {
			t.Errorf("the plan does not say why:\n%s", w.out.String())
		}
	})
}

// A server that dies in the middle of a cell: what was measured stays, the cell in flight says how it failed, and
// the run goes on when the server is back.
func TestAServerThatDiesInACellLeavesATruePartialRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.later(50*time.Second, w.server.Close)
		w.main(small()...)
		w.ended(7, "the server stopped answering", "Kept: 1 cell with its numbers. Go on when it is up again: speedmatrix run --resume run")
		doc := w.document("run")
		if c := doc.FindCell(speedmatrix.PhaseDecode, 0, 1); c.Status != speedmatrix.StatusValid {
			t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
		}
		c := doc.FindCell(speedmatrix.PhaseDecode, 0, 2)
		if c.Status != speedmatrix.StatusFailed || !strings.Contains(c.Reason, "%") || c.FirstError == "" {
			t.Errorf("%s is %s: %q, first error %q", c.Key(), c.Status, c.Reason, c.FirstError)
		}
		if c := doc.FindCell(speedmatrix.PhaseDecode, 1024, 1); c.Status != speedmatrix.StatusInterrupted {
			t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
		}
		if doc.Ended == "" || !strings.Contains(w.out.String(), "speedmatrix run --resume run") {
			t.Errorf("ended %q, and said:\n%s", doc.Ended, w.out.String())
		}
		w.main("verify", "run")
		w.ended(0)
		w.truth(local, steady())
		w.main("run", "--resume", "run")
		w.ended(0)
		if doc := w.document("run"); doc.Ended != "" || doc.Plan.Resumed != 1 {
			t.Errorf("ended %q after %d resumptions", doc.Ended, doc.Plan.Resumed)
		}
		for _, c := range w.document("run").Cells {
			if c.Status != speedmatrix.StatusValid || len(c.Warnings) > 0 {
				t.Errorf("resumed: %s is %s: %s; warnings %v", c.Key(), c.Status, c.Reason, c.Warnings)
			}
		}
		w.main("verify", "run")
		w.ended(0)
	})
}

// Every answer is 200, and none has a token: the stream ends at once, or hangs.
func TestAServerThatNeverSendsATokenGivesFailedCellsAndADocument(t *testing.T) {
	for _, kind := range []truth.FailureKind{truth.FailEnd, truth.FailHang} {
		inWorld(t, func(t *testing.T, w *world) {
			s := steady()
			s.Fail = func(truth.Call) *truth.Failure { return &truth.Failure{Kind: kind} }
			w.truth(local, s)
			w.main(small()...)
			w.ended(7, "5 of 5 cells failed; the reasons stand in the table")
			for _, c := range w.document("run").Cells {
				if c.Status != speedmatrix.StatusFailed || c.Reason == "" {
					t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
				}
			}
		})
	}
}

// Some requests fail in every cell; the run is complete all the same.
func TestACellWithFailuresSaysTheirShareAndTheFirstError(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := steady()
		s.Fail = func(c truth.Call) *truth.Failure {
			if c.Request > 20 && c.Request%2 == 0 {
				return &truth.Failure{Kind: truth.FailStatus, Problem: wire.EngineBusy()}
			}
			return nil
		}
		w.truth(local, s)
		w.main(small("--contexts", "0", "--prefill", "none", "--max-output", "64")...)
		w.ended(7, "cells failed; the reasons stand in the table")
		for _, c := range w.document("run").Cells {
			if c.Status == speedmatrix.StatusFailed && (!strings.Contains(c.Reason, "%") || c.FirstError == "") {
				t.Errorf("%s is %s: %q, first error %q", c.Key(), c.Status, c.Reason, c.FirstError)
			}
		}
	})
}
