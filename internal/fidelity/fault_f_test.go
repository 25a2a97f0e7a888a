package fidelity_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// flight gives the most and the fewest requests of a cell that the server had at once, the fewest within the window.
func (w *world) flight(c *speedmatrix.Cell) (most, fewest int) {
	w.t.Helper()
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, list := range w.answers(c.Key()) {
		for _, a := range list {
			edges = append(edges, edge{a.served.ArrivedNS, 1}, edge{cmp.Or(*a.row.EndedNS, a.served.EndedNS), -1})
		}
	}
	// A stream's next request comes in the instant in which the one before ends.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	from, to := windowOf(c)
	now, fewest := 0, c.Concurrency
	for i, e := range edges {
		now += e.delta
		most = max(most, now)
		if e.at > from && e.at < to && (i+1 == len(edges) || edges[i+1].at > e.at) {
			fewest = min(fewest, now)
		}
	}
	return most, fewest
}

// prompts gives how often each prompt was sent.
func (w *world) prompts() map[string]int {
	times := map[string]int{}
	for _, r := range w.account.Requests {
		times[r.Prompt]++
	}
	return times
}

func TestLoadShape(t *testing.T) {
	t.Run("F01 more streams than a library's hundred connections", caseF01MoreStreamsThanALibrarysHundredConnections)
	t.Run("F02 exactly as many in flight as asked for", caseF02ExactlyAsManyInFlightAsAskedFor)
	t.Run("F04 never above the number asked for", caseF04NeverAboveTheNumberAskedFor)
	t.Run("F05 every request is sent once", caseF05EveryRequestIsSentOnce)
	t.Run("F07 hundreds of streams in step are timed to the nanosecond", caseF07HundredsOfStreamsInStepAreTimedToTheNanosecond)
	t.Run("F08 a terminal that takes its time", caseF08ATerminalThatTakesItsTime)
	t.Run("F10 a storm of connections is paced", caseF10AStormOfConnectionsIsPaced)
	t.Run("F10 ports and files that run out are named", caseF10PortsAndFilesThatRunOutAreNamed)
}

func caseF01MoreStreamsThanALibrarysHundredConnections(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Gap: every(77 * ms)}, args: oneCell("0", "128")}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "active requests", c.ActiveRequestsMean, 128)
	if most, fewest := w.flight(c); most != 128 || fewest != 128 || w.account.PeakRunning != 128 {
		t.Errorf("from %d to %d in flight, at most %d ran", fewest, most, w.account.PeakRunning)
	}
}

func caseF02ExactlyAsManyInFlightAsAskedFor(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{StopAfter: short(33)}, args: oneCell("0", "1,2,3,7")}.measure(t)
	for _, n := range []int{1, 2, 3, 7} {
		c := w.cell(0, n)
		w.is(c, speedmatrix.StatusValid)
		if most, fewest := w.flight(c); most != n || fewest != n {
			t.Errorf("%s: from %d to %d in flight", c.Key(), fewest, most)
		}
	}
}

func caseF04NeverAboveTheNumberAskedFor(t *testing.T) {
	t.Parallel()
	for _, s := range []truth.Script{
		{StopAfter: func(c truth.Call) int { return 1 + c.Request%30 }},
		{StopAfter: short(25), Fail: ofCells(120, truth.Failure{Kind: truth.FailEvent, After: 9})},
	} {
		s.Gap = every(150 * ms)
		w := bed{script: s, args: oneCell("0", "45")}.measure(t)
		c := w.cell(0, 45)
		if most, fewest := w.flight(c); most != 45 || fewest != 45 {
			t.Errorf("from %d to %d in flight: %s %s", fewest, most, c.Status, c.Reason)
		}
	}
}

func caseF05EveryRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{StopAfter: short(25), KeepPrompts: true, Tokenize: true, MaxLength: 8 << 10}, args: oneCell("1K", "1,6")}.measure(t)
	for prompt, times := range w.prompts() {
		if times > 1 && len(prompt) > 1000 {
			t.Errorf("sent %d times: %.60s…", times, prompt)
		}
	}
	rows := 0
	for _, key := range []string{"decode-1k-x1", "decode-1k-x6", "drift-decode-1k-x1"} {
		seen := map[int32]bool{}
		for _, r := range w.store.requests[key] {
			if seen[r.Request] {
				t.Errorf("%s has request %d twice", key, r.Request)
			}
			seen[r.Request] = true
			rows++
		}
	}
	served := 0
	for _, r := range w.account.Requests {
		if r.PromptTokens > 900 && r.PromptTokens < 1200 {
			served++
		}
	}
	if served != rows {
		t.Errorf("%d requests of 1K arrived, and %d are recorded", served, rows)
	}
}

func caseF07HundredsOfStreamsInStepAreTimedToTheNanosecond(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Gap: every(78 * ms), Lockstep: true}, args: oneCell("0", "100")}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "time between tokens", c.TimeBetweenTokens.Max, 78)
	near(t, "longest gap", c.EventGap.Max, 78)
	t.Log("how far real stamps are off is measured by every run's own self-check, and stands in its document")
}

func caseF08ATerminalThatTakesItsTime(t *testing.T) {
	t.Parallel()
	w := bed{args: oneCell("0", "16", "--events"), change: func(env *cli.Env) {
		env.Stdout, env.Stderr = slowWriter{env.Stdout}, slowWriter{env.Stderr}
	}}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "longest gap", c.EventGap.Max, 20)
}

func caseF10AStormOfConnectionsIsPaced(t *testing.T) {
	t.Parallel()
	p := &tap{before: 10 * ms}
	w := bed{script: truth.Script{Gap: every(78 * ms)}, args: oneCell("0", "90"), dial: p.dial}.measure(t)
	w.exact(w.valid())
	if p.most > 64 {
		t.Errorf("%d connections were opened at once", p.most)
	}
}

func caseF10PortsAndFilesThatRunOutAreNamed(t *testing.T) {
	t.Parallel()
	for errno, words := range map[syscall.Errno]string{syscall.EADDRNOTAVAIL: "no port left", syscall.EMFILE: "no more files may be opened"} {
		w := bed{args: oneCell("0", "2,40"), dial: func(n *memnet.Network) func(context.Context, string, string) (net.Conn, error) {
			return rationed(n, 30, os.NewSyscallError("connect", errno))
		}}.measure(t)
		w.is(w.cell(0, 2), speedmatrix.StatusValid)
		w.failed(w.cell(0, 40), "40 of 40 requests failed (100 %)", words)
		w.exited(7)
	}
}

// slowWriter takes a third of a second for every write.
type slowWriter struct{ io.Writer }

func (s slowWriter) Write(b []byte) (int, error) {
	<-time.After(333 * ms)
	return s.Writer.Write(b)
}

// rationed dials no more than so many connections that are open at once.
func rationed(n *memnet.Network, most int, err error) func(context.Context, string, string) (net.Conn, error) {
	var mu sync.Mutex
	open := 0
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if open >= most {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		c, err := n.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open++
		return &closing{Conn: c, closed: func() {
			mu.Lock()
			defer mu.Unlock()
			open--
		}}, nil
	}
}

// closing tells when a connection is closed, once.
type closing struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *closing) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

func TestLostConnections(t *testing.T) {
	t.Run("F11 kept connections that the server closes cost no request", caseF11KeptConnectionsThatTheServerClosesCostNoRequest)
	t.Run("F17 requests that are sent again are counted, and their times are the last one's", caseF17RequestsThatAreSentAgainAreCountedAndTheirTimesAreThe)
	t.Run("F16 the name's first address does not answer", caseF16TheNamesFirstAddressDoesNotAnswer)
}

func caseF11KeptConnectionsThatTheServerClosesCostNoRequest(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, ms, 15 * ms} {
		w := bed{script: truth.Script{StopAfter: short(20), CloseAfterStream: true, CloseDelay: delay}, args: oneCell("0", "4")}.measure(t)
		c := w.cell(0, 4)
		w.is(c, speedmatrix.StatusValid)
		if n := c.Requests; n.Failed != 0 || n.Completed < 30 {
			t.Errorf("closed after %v: %+v: %s", delay, *n, c.FirstError)
		}
	}
}

func caseF17RequestsThatAreSentAgainAreCountedAndTheirTimesAreThe(t *testing.T) {
	t.Parallel()
	// Each third request of the cell finds its connection closed 3 ms after it was sent.
	w := bed{script: truth.Script{StopAfter: short(20), Fail: ofCells(3, truth.Failure{Kind: truth.FailClose, Delay: 3 * ms})}, args: oneCell("0", "2")}.measure(t)
	c := w.valid("replays")
	w.exact(c)
	near(t, "longest TTFT", c.TTFT.Max, *c.TTFT.Max)
	replayed := 0
	for _, row := range w.store.requests[c.Key()] {
		replayed += int(row.Replays)
	}
	closed := 0
	for _, r := range w.account.Requests {
		if r.Class == truth.Failed {
			closed++
		}
	}
	if replayed == 0 || replayed != closed || c.Client.Replays != replayed || c.Requests.Failed != 0 {
		t.Errorf("%d of the cell's requests were sent again, published %d, and the server closed %d; %d failed", replayed, c.Client.Replays, closed, c.Requests.Failed)
	}
}

func caseF16TheNamesFirstAddressDoesNotAnswer(t *testing.T) {
	t.Parallel()
	p := &tap{before: 250 * ms} // which the dialer loses to ::1 before it tries 127.0.0.1
	w := bed{dial: func(n *memnet.Network) func(context.Context, string, string) (net.Conn, error) {
		direct := p.dial(n)
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			return direct(ctx, network, strings.Replace(address, "localhost", "127.0.0.1", 1))
		}
	}, change: func(env *cli.Env) { env.Args[1] = "http://localhost:8000" }}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "the first TTFT", c.TTFT.Min, 5)
}

// dies closes the server for good when that is true of its account, which every scrape asks.
func dies(when func(a truth.Account) bool) (b bed, died func() time.Time) {
	var w *world
	var at time.Time
	var mu sync.Mutex
	b.during = func(x *world) { w = x }
	b.script.Metrics.Fail = func(int) *wire.Problem {
		mu.Lock()
		defer mu.Unlock()
		if at.IsZero() && when(w.server.Account()) {
			at = time.Now()
			go w.server.Close()
		}
		return nil
	}
	return b, func() time.Time { return at }
}

// inCell counts the requests of decode cells that are of a class.
func inCell(a truth.Account, class truth.Class) (n int) {
	for _, r := range a.Requests {
		if r.MaxTokens > 2000 && r.Class == class {
			n++
		}
	}
	return n
}

func TestServersThatHangOrDie(t *testing.T) {
	t.Run("F13 every stream hangs", caseF13EveryStreamHangs)
	for name, when := range map[string]func(truth.Account) bool{
		"F13 the server dies in the window": func(a truth.Account) bool {
			return inCell(a, truth.Running) == 2 && a.Requests[len(a.Requests)-1].Tokens > 150
		},
		"F13 the server dies while it is drained": func(a truth.Account) bool { return inCell(a, truth.Aborted) == 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, died := dies(when)
			b.args = oneCell("0", "2,4")
			w := b.measure(t)
			w.exited(7, "the server stopped answering: no connection to 127.0.0.1:8000")
			w.verified()
			if after := w.run.FinishedAt.Sub(died()); after > 25*second {
				t.Errorf("the run went on for %v without a server", after)
			}
			first := w.cell(0, 2)
			switch drained := strings.Contains(name, "drained"); {
			case drained && first.Status == speedmatrix.StatusValid:
				w.failed(w.cell(0, 4), "the server can no longer be reached: no connection to 127.0.0.1:8000")
			case drained:
				w.failed(first, "the server can no longer be reached: no connection to 127.0.0.1:8000")
				w.exact(first)
			default:
				w.failed(first, "requests failed (")
			}
		})
	}
	t.Run("F14 a text too short for the prompts ends before anything is sent", caseF14ATextTooShortForThePromptsEndsBeforeAnythingIsSent)
	t.Run("F14 a server that refuses every body ends the run at once", caseF14AServerThatRefusesEveryBodyEndsTheRunAtOnce)
}

func caseF13EveryStreamHangs(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Fail: ofCells(1, truth.Failure{Kind: truth.FailHang, After: 20})}, args: oneCell("0", "2,4")}.measure(t)
	w.exited(7)
	for _, n := range []int{2, 4} {
		if c := w.failed(w.cell(0, n), "no token arrived in the window"); c.TTFT == nil || c.TTFT.N != n {
			t.Errorf("%s: the times to first token are not kept: %+v", c.Key(), c.TTFT)
		}
	}
	if took := w.took(); took > 4*time.Minute {
		t.Errorf("it took %v", took)
	}
	// Within the window: what came is counted over all of it, and the silence is named.
	w = bed{script: truth.Script{Fail: ofCells(1, truth.Failure{Kind: truth.FailHang, After: 200})}}.measure(t)
	w.exact(w.valid("silence"))
}

func caseF14ATextTooShortForThePromptsEndsBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "short.txt")
	if err := os.WriteFile(text, []byte("Too short.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := bed{script: truth.Script{Tokenize: true, MaxLength: 8 << 10}, args: oneCell("4K", "2", "--text", text)}.measure(t)
	if w.code == 0 {
		t.Errorf("%s", w.out.String())
	}
	for _, r := range w.account.Requests {
		if r.MaxTokens > 2000 {
			t.Fatal("a request of the cell was sent")
		}
	}
	if words := strings.Join(strings.Fields(w.errout.String()+w.out.String()), " "); !strings.Contains(words, "too short") {
		t.Errorf("the cause is not told: %s", words)
	}
}

func caseF14AServerThatRefusesEveryBodyEndsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{RejectFields: []string{"max_tokens"}}}.measure(t)
	w.exited(4, "refuses a plain request (400 Bad Request: Unrecognized request argument supplied: max_tokens")
	if n := len(w.account.Requests); n > 20 {
		t.Errorf("%d requests were sent", n)
	}
}

// Whatever the number of streams and the lengths of answers: exactly so many in flight, every request sent once.
func TestAnyLoadHasItsShape(t *testing.T) {
	type trial struct{ Streams, Least, Spread, Running int }
	several(t, 4, func(rt *rapid.T) trial {
		return trial{rapid.IntRange(1, 25).Draw(rt, "streams"), rapid.IntRange(10, 60).Draw(rt, "least"), rapid.IntRange(1, 50).Draw(rt, "spread"), rapid.IntRange(0, 2).Draw(rt, "running")}
	}, func(t *testing.T, x trial) {
		s := truth.Script{StopAfter: func(c truth.Call) int { return x.Least + c.Request*7%x.Spread }, MaxRunning: x.Running * x.Streams}
		w := bed{script: s, args: oneCell("0", fmt.Sprint(x.Streams))}.measure(t)
		c := w.cell(0, x.Streams)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		if most, fewest := w.flight(c); most != x.Streams || fewest != x.Streams {
			t.Errorf("from %d to %d in flight", fewest, most)
		}
	})
}
