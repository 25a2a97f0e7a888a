package fidelity_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/report"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// upstream is the error of a gateway whose server took too long.
var upstream = &wire.Problem{Status: http.StatusGatewayTimeout, Message: "upstream timed out", Type: "timeout"}

// ofCells fails each nth request of decode cells.
func ofCells(nth int, f truth.Failure) func(truth.Call) *truth.Failure {
	var mu sync.Mutex
	seen := 0
	return func(c truth.Call) *truth.Failure {
		if !ofCell(c) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen%nth != 0 {
			return nil
		}
		return &f
	}
}

// failures compares the classes of a cell's requests with the server's account and gives the failed and all requests.
func (w *world) failures(c *speedmatrix.Cell) (failed, sent int) {
	w.t.Helper()
	for _, list := range w.answers(c.Key()) {
		for _, a := range list {
			sent++
			class, want := a.row.Class, map[truth.Class]speedmatrix.RequestClass{
				truth.Completed: speedmatrix.RequestCompleted, truth.Aborted: speedmatrix.RequestCut, truth.Failed: speedmatrix.RequestFailed}[a.served.Class]
			if class != string(want) {
				w.t.Errorf("request %d is %s, and the server says %s", a.row.Request, class, a.served.Class)
			}
			if a.served.Class != truth.Failed {
				continue
			}
			failed++
			if a.row.Error == "" || a.row.FinishReason != "" {
				w.t.Errorf("request %d failed with the words %q and finish reason %q", a.row.Request, a.row.Error, a.row.FinishReason)
			}
		}
	}
	if n := c.Requests; n.Sent != sent || n.Failed != failed || *c.FailedRequests != failed {
		w.t.Errorf("published %+v, the server says %d of %d failed", *n, failed, sent)
	}
	return failed, sent
}

// shared is the reason of a cell in which so many of so many requests failed.
func shared(failed, sent int) string {
	return fmt.Sprintf("%d of %d requests failed (%.0f %%)", failed, sent, 100*float64(failed)/float64(sent))
}

func TestErrorsAndStatus(t *testing.T) {
	t.Run("H01 an error inside a 200 stream before any token", caseH01AnErrorInsideA200StreamBeforeAnyToken)
	t.Run("H02 tokens, then an error object", caseH02TokensThenAnErrorObject)
	t.Run("H04 an option that breaks most requests is not forced", caseH04AnOptionThatBreaksMostRequestsIsNotForced)
	t.Run("H04 971 of 1,542 fail and the rest looks fine", caseH04971Of1542FailAndTheRestLooksFine)
	t.Run("H05 a stream that closes with nothing usable", caseH05AStreamThatClosesWithNothingUsable)
	t.Run("H08 many or all requests fail", caseH08ManyOrAllRequestsFail)
	t.Run("H11 thinking takes all tokens", caseH11ThinkingTakesAllTokens)
	t.Run("H13 one stream dies before the window", caseH13OneStreamDiesBeforeTheWindow)
	t.Run("H14 the end mark is no text", caseH14TheEndMarkIsNoText)
}

func caseH01AnErrorInsideA200StreamBeforeAnyToken(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		w := bed{script: truth.Script{RoleFirst: true, Fail: ofCells(1, truth.Failure{Kind: truth.FailEvent, Problem: upstream, Done: done})}}.measure(t)
		c := w.cell(0, 2)
		failed, sent := w.failures(c)
		w.failed(c, shared(failed, sent), "upstream timed out")
		if failed != sent || c.TTFT != nil || c.TotalTokensPerSecond != nil || c.OutputTokens != nil || c.FirstError != "upstream timed out (timeout, 504)" {
			t.Errorf("%d of %d failed, TTFT %v, total %v, tokens %v, %q", failed, sent, c.TTFT, c.TotalTokensPerSecond, c.OutputTokens, c.FirstError)
		}
		w.exited(7, "1 of 1 cells failed")
	}
}

func caseH02TokensThenAnErrorObject(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{StopAfter: short(50), Fail: ofCells(3, truth.Failure{Kind: truth.FailEvent, After: 20, Problem: upstream})}}.measure(t)
	c := w.cell(0, 2)
	failed, sent := w.failures(c)
	w.failed(c, shared(failed, sent), "upstream timed out")
	w.exact(c) // what came until then is kept, and is the truth
	if failed < 3 || c.Attempts != 2 || c.Status.ShowsSpeed() {
		t.Errorf("%d of %d failed, %d attempts", failed, sent, c.Attempts)
	}
	// Up to one in a hundred: the cell stands, and says so.
	w = bed{script: truth.Script{StopAfter: short(4), Fail: ofCells(150, truth.Failure{Kind: truth.FailEvent, After: 2, Problem: upstream})}, args: oneCell("0", "4")}.measure(t)
	c = w.valid("failed requests")
	w.exact(c)
	if failed, sent := w.failures(c); failed < 1 || failed*100 > sent {
		t.Errorf("%d of %d failed", failed, sent)
	}
}

func caseH04AnOptionThatBreaksMostRequestsIsNotForced(t *testing.T) {
	t.Parallel()
	s := truth.Script{RejectFields: []string{"ignore_eos"}, StopAfter: short(80)}
	w := bed{script: s}.measure(t)
	w.exact(w.valid())
	for _, list := range w.answers("decode-0-x2") {
		for _, a := range list {
			if _, sent := a.served.Fields["ignore_eos"]; sent {
				t.Fatal("a request of the cell carries the option that the server refused")
			}
		}
	}
	if w.warning("option_refused") == "" {
		t.Error("nothing says that the option was left out")
	}
}

func caseH04971Of1542FailAndTheRestLooksFine(t *testing.T) {
	t.Parallel()
	bad := truth.Failure{Kind: truth.FailEvent, After: 1, Problem: &wire.Problem{Status: 500, Message: "unexpected tokens remaining in message header"}}
	calls := 0
	var mu sync.Mutex
	w := bed{script: truth.Script{StopAfter: short(20), Fail: func(c truth.Call) *truth.Failure {
		mu.Lock()
		defer mu.Unlock()
		if calls++; !ofCell(c) || calls*971%1542 < 1542-971 {
			return nil
		}
		return &bad
	}}, args: oneCell("0", "4")}.measure(t)
	c := w.cell(0, 4)
	failed, sent := w.failures(c)
	w.failed(c, shared(failed, sent), bad.Problem.Message)
	if failed*2 < sent {
		t.Errorf("%d of %d failed", failed, sent)
	}
	w.exited(7)
}

func caseH05AStreamThatClosesWithNothingUsable(t *testing.T) {
	t.Parallel()
	for _, f := range []truth.Failure{{Kind: truth.FailEnd}, {Kind: truth.FailEnd, Done: true}, {Kind: truth.FailDrop}, {Kind: truth.FailEnd, Torn: true}, {Kind: truth.FailReset}} {
		w := bed{script: truth.Script{RoleFirst: f.Kind == truth.FailEnd, RoleEarly: 2 * ms, Fail: ofCells(1, f)}}.measure(t)
		c := w.cell(0, 2)
		failed, sent := w.failures(c)
		w.failed(c, shared(failed, sent))
		if c.TTFT != nil || c.CompletedRequests != nil && *c.CompletedRequests > 0 {
			t.Errorf("%+v: TTFT %v, completed %v", f, c.TTFT, *c.CompletedRequests)
		}
	}
}

func caseH08ManyOrAllRequestsFail(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ nth, code int }{{1, 7}, {2, 7}, {20, 7}, {1 << 30, 0}} {
		w := bed{script: truth.Script{StopAfter: short(10), Fail: ofCells(x.nth, truth.Failure{Kind: truth.FailStatus, Problem: upstream})}}.measure(t)
		w.exited(x.code)
		if failed := w.run.Cells[0].Status == speedmatrix.StatusFailed; failed != (x.code == 7) {
			t.Errorf("one in %d fails: %s", x.nth, w.run.Cells[0].Status)
		}
	}
	// Refused from the first request on: no document at all.
	w := bed{script: truth.Script{Auth: "secret"}}.measure(t)
	w.exited(4, "wants a valid key")
	if w.run != nil {
		t.Error("a run without a measurement was kept")
	}
}

func caseH11ThinkingTakesAllTokens(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Channel: func(int, int) string { return wire.Reasoning }, ReasoningTokens: true},
		args: oneCell("0", "2", "--max-output", "2100")}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "total tok/s", c.TotalTokensPerSecond, 100)
	if c.VisibleTTFT != nil {
		t.Errorf("a visible token after %+v, though there was none", c.VisibleTTFT)
	}
	for _, e := range w.store.events[c.Key()] {
		if e.Channel != "reasoning" {
			t.Fatalf("an event of the %s", e.Channel)
		}
	}
}

func caseH13OneStreamDiesBeforeTheWindow(t *testing.T) {
	t.Parallel()
	for _, kind := range []truth.FailureKind{truth.FailEvent, truth.FailReset, truth.FailDrop} {
		last := time.Duration(0)
		var mu sync.Mutex
		w := bed{script: truth.Script{PrefillBase: 700 * ms, Fail: func(c truth.Call) *truth.Failure {
			mu.Lock()
			defer mu.Unlock()
			launched := ofCell(c) && c.At-last == 50*time.Microsecond // the second of a launch
			last = c.At
			if !launched {
				return nil
			}
			return &truth.Failure{Kind: kind, After: 3, Problem: upstream}
		}}}.measure(t)
		c := w.cell(0, 2)
		failed, sent := w.failures(c)
		w.failed(c, shared(failed, sent))
		w.exact(c)
		if failed != 1 || sent != 3 || c.FirstError == "" {
			t.Errorf("%d of %d failed: %q", failed, sent, c.FirstError)
		}
		if m := report.Build(w.run).Measurements[0]; m.ShowsSpeed || strings.ContainsAny(m.Total, "0123456789") {
			t.Errorf("the table shows %q", m.Total)
		}
	}
}

func caseH14TheEndMarkIsNoText(t *testing.T) {
	t.Parallel()
	for _, f := range []truth.Framing{{}, {NoBlank: true}, {Ending: "\r\n"}, {NoFinalBlank: true}, {NoFinalEnding: true}} {
		w := bed{script: truth.Script{Framing: f, StopAfter: short(40)}, args: oneCell("0", "2", "--api", "completions")}.measure(t)
		c := w.valid()
		w.exact(c)
		if strings.Contains(c.TextSample, "DONE") {
			t.Errorf("the model wrote %q", c.TextSample)
		}
		for _, list := range w.answers(c.Key()) {
			for _, a := range list {
				if n := len(w.events(c.Key(), a.row.Request)); a.row.Class == string(speedmatrix.RequestCompleted) && n != 40 {
					t.Fatalf("%d events, want 40", n)
				}
			}
		}
	}
}

func TestTheServersOwnWordsAreKept(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	tests := []struct {
		name    string
		problem wire.Problem
		words   string
	}{
		{"a JSON body", wire.Problem{Status: 400, Message: "temperature must be at most 2", Type: "BadRequestError"}, "temperature must be at most 2"},
		{"a message alone", wire.Problem{Status: 422, Raw: `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`}, "field required"},
		{"plain text", wire.Problem{Status: 500, Raw: "CUDA error: device-side assert triggered\n", ContentType: "text/plain"}, "CUDA error: device-side assert triggered"},
		{"a page", wire.Problem{Status: 502, Raw: page, ContentType: "text/html"}, "502 Bad Gateway"},
		{"nothing", wire.Problem{Status: 503, Raw: " "}, "HTTP 503"},
		{"too many, come again later", wire.Problem{Status: 429, Message: "Rate limit reached", RetryAfter: "20"}, "Rate limit reached"},
		{"still loading", *wire.Loading(), "Loading model"},
		{"a redirect", wire.Problem{Status: 307, Raw: " ", Location: "/elsewhere"}, "redirects to /elsewhere"},
		{"a redirect to another host", wire.Problem{Status: 302, Raw: " ", Location: "http://other.example/v1"}, "redirects to http://other.example/v1"},
		{"a long story", wire.Problem{Status: 400, Message: "the prompt " + long + " is bad"}, "the prompt xxxx"},
		{"200 and a page", wire.Problem{Status: 200, Raw: "<html><title>Sign in</title></html>", ContentType: "text/html"}, "Sign in"},
		{"200 and an error document", wire.Problem{Status: 200, Message: "model is overloaded"}, "model is overloaded"},
	}
	for _, tt := range tests {
		t.Run("H07 "+tt.name, func(t *testing.T) {
			t.Parallel()
			w := bed{script: truth.Script{Fail: ofCells(1, truth.Failure{Kind: truth.FailStatus, Problem: &tt.problem})}}.measure(t)
			c := w.cell(0, 2)
			failed, sent := w.failures(c)
			w.failed(c, shared(failed, sent), tt.words)
			if !strings.Contains(c.FirstError, tt.words) || len(c.FirstError) > 600 {
				t.Errorf("the first error is %q", c.FirstError)
			}
			if took := w.took(); took > 90*second {
				t.Errorf("it took %v", took)
			}
			w.exited(7)
		})
	}
}

// The ways a stream may end that are no failure, and those that are.
func TestEndsOfStreams(t *testing.T) {
	t.Run("H05 finish reasons of all kinds complete a request", caseH05FinishReasonsOfAllKindsCompleteARequest)
	t.Run("H02 streams that break in the middle of an event", caseH02StreamsThatBreakInTheMiddleOfAnEvent)
	t.Run("H05 an end mark without a finish reason completes", caseH05AnEndMarkWithoutAFinishReasonCompletes)
	t.Run("H08 a certificate that nobody vouches for", caseH08ACertificateThatNobodyVouchesFor)
}

func caseH05FinishReasonsOfAllKindsCompleteARequest(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"content_filter", "tool_calls", "length", "eos_token", "null"} {
		w := bed{script: truth.Script{StopAfter: short(60), Finish: reason}}.measure(t)
		c := w.valid()
		w.exact(c)
		if failed, sent := w.failures(c); failed > 0 || sent < 6 {
			t.Errorf("%s: %d of %d failed", reason, failed, sent)
		}
	}
}

func caseH02StreamsThatBreakInTheMiddleOfAnEvent(t *testing.T) {
	t.Parallel()
	for _, f := range []truth.Failure{
		{Kind: truth.FailReset, After: 20, Torn: true}, {Kind: truth.FailDrop, After: 20, Torn: true}, {Kind: truth.FailEnd, After: 20, Torn: true},
		{Kind: truth.FailEnd, After: 20}, {Kind: truth.FailDrop, After: 1},
	} {
		w := bed{script: truth.Script{StopAfter: short(50), Fail: ofCells(4, f)}}.measure(t)
		c := w.cell(0, 2)
		failed, sent := w.failures(c)
		w.failed(c, shared(failed, sent))
		w.exact(c)
		if f.Kind == truth.FailEnd && !strings.Contains(c.FirstError, "without a finish reason") {
			t.Errorf("%+v: %q", f, c.FirstError)
		}
	}
}

func caseH05AnEndMarkWithoutAFinishReasonCompletes(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{StopAfter: short(50), Fail: ofCells(2, truth.Failure{Kind: truth.FailEnd, After: 30, Done: true})}}.measure(t)
	c := w.valid()
	if n := c.Requests; n.Failed != 0 || n.Completed < 8 {
		t.Errorf("%+v", *n)
	}
}

func caseH08ACertificateThatNobodyVouchesFor(t *testing.T) {
	t.Parallel()
	certificate := ownCertificate(t)
	b := bed{wrap: func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}}
	b.change = func(env *cli.Env) { env.Args[1] = "https://" + local }
	w := b.measure(t)
	w.exited(4, "--insecure")
	b.change = func(env *cli.Env) { env.Args[1] = "https://" + local; env.Args = append(env.Args, "--insecure") }
	w = b.measure(t)
	w.exact(w.valid())
	b.change = nil
	w = b.measure(t)
	w.exited(3, "speaks HTTPS")
}

func TestInterruptions(t *testing.T) {
	// within sends interrupts when the cell's requests have had so many tokens.
	within := func(tokens, interrupts int) bed {
		b := bed{args: oneCell("0", "2,4")}
		var w *world
		sent := false
		var mu sync.Mutex
		b.during = func(x *world) {
			w = x
			// A program that quits at once leaves its goroutines behind, which need their time here.
			x.t.(*testing.T).Cleanup(func() { <-time.After(time.Minute) })
		}
		b.script.Gap = func(s truth.Step) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if s.Running == 2 && s.Token == tokens && !sent {
				sent = true
				for range interrupts {
					w.signals <- os.Interrupt
				}
			}
			return 20 * ms
		}
		return b
	}
	t.Run("H10 an interrupted run is marked as such", func(t *testing.T) {
		t.Parallel()
		w := within(120, 1).measure(t)
		w.exited(130)
		if w.run.Ended != "interrupted by the user" {
			t.Errorf("ended %q", w.run.Ended)
		}
		for _, c := range []*speedmatrix.Cell{w.cell(0, 2), w.cell(0, 4)} {
			w.is(c, speedmatrix.StatusInterrupted)
			if c.Reason == "" {
				t.Errorf("%s: no reason", c.Key())
			}
		}
		w.exact(w.cell(0, 2)) // until then
		var page strings.Builder
		if err := report.Terminal(&page, report.Build(w.run), report.TerminalOptions{Width: 100}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), "interrupted by the user") || !strings.Contains(w.out.String()+w.errout.String(), "--resume") {
			t.Errorf("nothing says so:\n%s", page.String())
		}
	})
	t.Run("H10 a second interrupt quits at once", func(t *testing.T) {
		t.Parallel()
		w := within(120, 2).measure(t)
		w.exited(130, "ended at once")
		for _, r := range w.account.Requests {
			if ofCell(truth.Call{Body: &wire.Request{MaxTokens: r.MaxTokens}}) && r.Tokens > 125 {
				t.Errorf("a request had %d tokens, and the interrupts came at 120", r.Tokens)
			}
		}
	})
}

// Whatever share of the requests fails, in whatever way: classes and counts are the server's own, the status follows
// from the share, and the exit code from the status.
func TestAnyShareOfFailuresIsCounted(t *testing.T) {
	type trial struct {
		Nth, Kind, After, Streams int
		Torn, Done                bool
	}
	several(t, 5, func(rt *rapid.T) trial {
		kinds := []truth.FailureKind{truth.FailStatus, truth.FailEvent, truth.FailDrop, truth.FailReset}
		return trial{rapid.SampledFrom([]int{1, 2, 3, 10, 60, 110, 400}).Draw(rt, "nth"), int(rapid.SampledFrom(kinds).Draw(rt, "kind")),
			rapid.IntRange(0, 11).Draw(rt, "after"), rapid.IntRange(1, 6).Draw(rt, "streams"), rapid.Bool().Draw(rt, "torn"), rapid.Bool().Draw(rt, "done")}
	}, func(t *testing.T, x trial) {
		fail := truth.Failure{Kind: truth.FailureKind(x.Kind), After: x.After, Torn: x.Torn, Done: x.Done, Problem: upstream}
		w := bed{script: truth.Script{StopAfter: short(12), Fail: ofCells(x.Nth, fail)}, args: oneCell("0", fmt.Sprint(x.Streams))}.measure(t)
		c := w.cell(0, x.Streams)
		failed, sent := w.failures(c)
		if failed*100 > sent {
			w.failed(c, shared(failed, sent))
			w.exited(7)
		} else {
			w.is(c, speedmatrix.StatusValid)
			w.exited(0)
		}
		if c.OutputTokens != nil {
			w.exact(c)
		}
	})
}

// errorText must give words for whatever bytes a server sends, in one line.
func TestWordsOfAnyAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := rapid.SliceOf(rapid.Byte()).Draw(rt, "body")
		if words := dialect.ErrorText(body); len(words) > 520 || strings.ContainsAny(words, "\n\r\x1b\x00") {
			rt.Errorf("%q", words)
		}
	})
}
