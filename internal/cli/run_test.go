package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/report"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// small is a matrix that takes two minutes of virtual time.
func small(more ...string) []string {
	return append([]string{"run", local, "--contexts", "0,1K", "--concurrency", "1,2", "--prefill", "1K", "--out", "run", "--salt", "salt"}, more...)
}

// steady is a vLLM that gives 50 tok/s to each request.
func steady() truth.Script {
	return truth.Script{Version: "0.32.0", Model: "steady", MaxLength: 8 << 10, KVTokens: 64 << 10, PrefixCache: true, Tokenize: true,
		PrefillBase: 10 * time.Millisecond, PrefillPerToken: 100 * time.Microsecond,
		Gap: func(truth.Step) time.Duration { return 20 * time.Millisecond }}
}

// lastDigit is that of the prefill speed.
var lastDigit = regexp.MustCompile(`9,11[0-9]\.[0-9]`)

// A whole run in virtual time: what a user sees, to the letter, and a directory whose numbers all follow from its rows.
func TestAWholeRunIsShownAndKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.main(small()...)
		w.ended(0)
		// The salt is new in every run, and with it the prompts' exact length.
		shown := lastDigit.ReplaceAllString(w.withoutReport(w.document("run")), "9,111.N")
		w.golden("run.txt", clockTime.ReplaceAllString(shown, "HH:MM:SS"))
		if text := w.err.String(); text != "" {
			t.Errorf("standard error: %s", text)
		}
		doc := w.document("run")
		for i := range doc.Cells {
			if c := &doc.Cells[i]; c.Status != speedmatrix.StatusValid {
				t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
			}
		}
		w.main("verify", "run")
		w.ended(0)
	})
}

// withoutReport is the standard output with a line in place of the report, which must be in it as it is.
func (w *world) withoutReport(doc *speedmatrix.Run) string {
	w.t.Helper()
	var tables bytes.Buffer
	if err := report.Terminal(&tables, report.Build(doc), report.TerminalOptions{Width: 100}); err != nil {
		w.t.Fatal(err)
	}
	before, after, found := strings.Cut(w.out.String(), tables.String())
	if !found {
		w.t.Errorf("the report does not stand in the output:\n%s", w.out.String())
	}
	return before + "(the report)\n" + after
}

// The keys of a run that is complete say so; its server need not be there any more.
func TestAResumedRunThatIsCompleteShowsItsResult(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.main(small("--contexts", "0", "--prefill", "none")...)
		w.ended(0)
		w.server.Close()
		w.main("run", "--resume", "run")
		w.ended(0)
		if !strings.Contains(w.out.String(), "All measurements") || w.document("run").Plan.Resumed != 0 {
			t.Errorf("resumed %d times, and said:\n%s", w.document("run").Plan.Resumed, w.out.String())
		}
	})
}

// What a run was begun with rules its resumption, and another server is no place to go on.
func TestAResumptionChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.later(50*time.Second, func() { w.signals <- os.Interrupt })
		w.main(small()...)
		w.ended(130)
		before := w.document("run")
		w.server.Close()
		w.main("run", "--resume", "run", "--contexts", "0", "--quick")
		w.ended(2, "--contexts, --quick cannot be changed with --resume")
		w.main("run", "--resume", "run", "--out", "other")
		w.ended(2, "--out does not go with --resume")
		other := steady()
		other.Version, other.MaxLength = "0.33.0", 4<<10
		w.truth(local, other)
		w.main("run", "--resume", "run")
		w.ended(4, "the server is not the one that this run measured", "model.max_length_tokens 8192 → 4096",
			"engine.version 0.32.0 → 0.33.0", "Start the server as it was, or begin a new run.")
		if after := w.document("run"); !after.FinishedAt.Equal(*before.FinishedAt) || after.Plan.Resumed != 0 {
			t.Error("the run was changed")
		}
	})
}

// After the warm-up the time of the plan's longest prompt is named, and none where there is no prompt of a length.
func TestTheLongestPromptOfThePlanIsNamed(t *testing.T) {
	for contexts, want := range map[string]string{"0,2K,16K": "(a prompt of 2K takes about 214.8 ms)", "0": "Warmed up. The matrix takes about 20 s.\n"} {
		inWorld(t, func(t *testing.T, w *world) {
			w.truth(local, steady())
			w.main("run", local, "--contexts", contexts, "--concurrency", "1", "--prefill", "none", "--out", "run")
			w.ended(0)
			if !strings.Contains(w.out.String(), want) {
				t.Errorf("lacks %q:\n%s", want, w.out.String())
			}
			if strings.Contains(w.out.String(), "12.3K") && !strings.Contains(w.out.String(), "p99 stamp error") {
				t.Error("the self-check's rate is shown as if it were a ceiling")
			}
		})
	}
}

// The server is found on its usual port, and the start screen says so.
func TestAServerOnAUsualPortIsFound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth("127.0.0.1:30000", steady())
		w.main("run", "--contexts", "0", "--concurrency", "1", "--prefill", "none", "--out", "run")
		w.ended(0)
		if !strings.Contains(w.out.String(), "found on port 30000") {
			t.Errorf("not said:\n%s", w.out.String())
		}
	})
}

// Foreign load is waited for, and measured beside only where the user says so.
func TestABusyServerIsRefusedOrShared(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		roomy := steady()
		roomy.MaxLength, roomy.KVTokens = 1<<20, 1<<20
		w.truth(local, roomy)
		w.foreign(t)
		w.main(small("--contexts", "0", "--prefill", "none")...)
		w.ended(5, "the server is busy with others' requests: running 1, waiting 0, ours 0", "--shared-server")
		w.nothingLeft()
		w.main(small("--contexts", "0", "--prefill", "none", "--shared-server")...)
		w.ended(0)
		if doc := w.document("run"); !doc.Method.SharedServer {
			t.Error("the document does not say that the server was shared")
		}
	})
}

// foreign sends a request of somebody else that runs for an hour.
func (w *world) foreign(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{DialContext: w.net.DialContext}
	var done sync.WaitGroup
	done.Go(func() {
		body := `{"model":"steady","stream":true,"max_tokens":180000,"messages":[{"role":"user","content":"go on"}]}`
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+local+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		transport.CloseIdleConnections()
	})
	synctest.Wait()
}

// OpenAI's Responses API refuses a limit of output tokens below 16: the prompts are timed with that many, and no request
// fails but the first that was refused.
func TestAServerThatRefusesOneTokenIsAskedForTheFewestItTakes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		script := steady()
		script.APIs = []wire.API{wire.Responses}
		refused := 0
		script.Fail = func(c truth.Call) *truth.Failure {
			if c.Body.MaxTokens >= 16 {
				return nil
			}
			refused++
			return &truth.Failure{Kind: truth.FailStatus, Problem: &wire.Problem{Status: 400, Type: "invalid_request_error", Param: "max_output_tokens",
				Message: fmt.Sprintf("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got %d instead.", c.Body.MaxTokens)}}
		}
		w.truth(local, script)
		w.main(small("--api", "responses")...)
		w.ended(0)
		doc := w.document("run")
		for i := range doc.Cells {
			if c := &doc.Cells[i]; c.Status != speedmatrix.StatusValid {
				t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
			}
		}
		if doc.Server.Habits.LeastOutputTokens != 16 || refused != 1 || !doc.Server.Habits.KeepsConnections {
			t.Errorf("%d requests were refused; habits %+v", refused, doc.Server.Habits)
		}
	})
}
