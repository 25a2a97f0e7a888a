package fidelity_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/truth"
)

// lateness makes dials and, in the given time since the start, reads take longer.
func lateness(dial, from, to time.Duration) func(*memnet.Network) func(context.Context, string, string) (net.Conn, error) {
	return func(n *memnet.Network) func(context.Context, string, string) (net.Conn, error) {
		start := time.Now()
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			<-time.After(dial)
			c, err := n.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &lateConn{c, start.Add(from), start.Add(to)}, nil
		}
	}
}

type lateConn struct {
	net.Conn
	from, to time.Time
}

func (c *lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if now := time.Now(); now.After(c.from) && now.Before(c.to) {
		<-time.After(c.to.Sub(now))
	}
	return n, err
}

// sentAfter lists how long after the window's end requests of a cell arrived.
func (w *world) sentAfter(c *speedmatrix.Cell) (list []time.Duration) {
	w.t.Helper()
	_, to := windowOf(c)
	for _, stream := range w.answers(c.Key()) {
		for _, a := range stream {
			if a.served.ArrivedNS > to {
				list = append(list, time.Duration(a.served.ArrivedNS-to))
			}
		}
	}
	return list
}

// contextOf is the mean context of a cell's tokens, by the server's account.
func (w *world) contextOf(c *speedmatrix.Cell) (start, mean, end float64) {
	w.t.Helper()
	from, to := windowOf(c)
	var n, sum, starts, ends float64
	prompt := func(a answer) float64 { // the median stands for those that did not tell
		if a.row.PromptTokens == nil && c.PromptTokens != nil {
			return *c.PromptTokens
		}
		return float64(a.served.PromptTokens)
	}
	for _, stream := range w.answers(c.Key()) {
		for _, a := range stream {
			r := a.served
			if r.ArrivedNS <= from && *a.row.EndedNS > from {
				start, starts = start+prompt(a)+float64(tokensBy(r, from)), starts+1
			}
			if r.ArrivedNS <= to && *a.row.EndedNS > to {
				end, ends = end+prompt(a)+float64(tokensBy(r, to)), ends+1
			}
			for i, e := range r.Events {
				if e.AtNS > from && e.AtNS <= to {
					brought := float64(e.Tokens)
					if i > 0 {
						brought -= float64(r.Events[i-1].Tokens)
					}
					n, sum = n+brought, sum+brought*(prompt(a)+float64(e.Tokens))
				}
			}
		}
	}
	return start / starts, sum / n, end / ends
}

// tokensBy is how many tokens a request had sent by an instant.
func tokensBy(r *truth.Request, at int64) (n int) {
	for _, e := range r.Events {
		if e.AtNS <= at {
			n = e.Tokens
		}
	}
	return n
}

func TestWindowsAndRates(t *testing.T) {
	t.Run("E02 neither the ramp nor the end dilutes the rate", func(t *testing.T) {
		t.Parallel()
		// 8 prompts of 2K are read one after the other in 3 s; the streams that have theirs decode meanwhile.
		w := bed{script: truth.Script{PrefillPerToken: 180 * time.Microsecond, Lockstep: true}, args: oneCell("2K", "8")}.measure(t)
		c := w.valid("no prefix reuse")
		w.exact(c)
		near(t, "total tok/s", c.TotalTokensPerSecond, 400)
		for _, list := range w.answers(c.Key()) {
			if from, _ := windowOf(c); list[0].served.FirstNS() > from-int64(second) {
				t.Errorf("the window began %v after a stream's first token", time.Duration(from-list[0].served.FirstNS()))
			}
		}
		if c.StepSeconds.Ramp < 2.5 {
			t.Errorf("the ramp took %v s", c.StepSeconds.Ramp)
		}
		queue := bed{script: truth.Script{MaxRunning: 2}, args: oneCell("0", "4")}.measure(t).cell(0, 4)
		if queue.Status != speedmatrix.StatusRequestsQueued || queue.Reason == "" {
			t.Errorf("without a plateau: %s: %s", queue.Status, queue.Reason)
		}
	})
	t.Run("E03 slow scrapes and slow ends are not in the window", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Metrics: truth.Metrics{Before: 700 * ms, After: 700 * ms}, Lockstep: true}}.measure(t)
		c := w.valid()
		w.exact(c)
		near(t, "total tok/s", c.TotalTokensPerSecond, 100)
		if s := *c.WindowSeconds; s < 5-0.02 || s > 5+0.02 {
			t.Errorf("the window took %v s, want 5 to within a token", s)
		}
	})
	t.Run("E05 requests that only touch are not in flight at once", func(t *testing.T) {
		t.Parallel()
		w := bed{args: oneCell("0", "4", "--max-output", "64")}.measure(t)
		c := w.valid()
		w.exact(c)
		if most, fewest := w.flight(c); most != 4 || fewest != 4 {
			t.Errorf("%d to %d requests in flight, want 4 always", fewest, most)
		}
		if c.Requests.Sent < 16 {
			t.Errorf("%d requests", c.Requests.Sent)
		}
	})
	t.Run("E06 a total is its tokens by its seconds, and the window lies in the run", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{PrefixCache: true, PrefillPerToken: 50 * time.Microsecond}, args: oneCell("2K", "2")}.measure(t)
		c := w.valid()
		o := w.exact(c)
		near(t, "total tok/s", c.TotalTokensPerSecond, *c.OutputTokens / *c.WindowSeconds)
		near(t, "output tokens without any of the prompt's", c.OutputTokens, o.tokens)
		if n := c.Requests; n.Completed+n.Cut+n.Failed != n.Sent {
			t.Errorf("%+v does not sum up", *n)
		}
		from, to := windowOf(c)
		if from <= w.run.StartedAt.UnixNano() || to >= w.run.FinishedAt.UnixNano() {
			t.Errorf("the window %d to %d is not within the run", from, to)
		}
	})
	t.Run("E08 lengths are published as they were", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{PrefixCache: true, PrefillPerToken: 20 * time.Microsecond, StopAfter: func(c truth.Call) int { return 40 + c.Request*13%50 }},
			args: oneCell("2K", "2")}.measure(t)
		c := w.valid()
		o := w.exact(c)
		near(t, "prompt tokens", c.PromptTokens, middle(o.prompts))
		start, mean, end := w.contextOf(c)
		near(t, "context at the start", &c.ContextTokens.Start, start)
		near(t, "context on average", &c.ContextTokens.Mean, mean)
		near(t, "context at the end", &c.ContextTokens.End, end)
		for _, a := range w.finished(c) {
			if int(*a.row.CompletionTokens) != a.served.Tokens {
				t.Errorf("request %d has %d tokens, want %d", a.row.Request, *a.row.CompletionTokens, a.served.Tokens)
			}
		}
	})
	t.Run("E09 the rate does not depend on how long the last requests take", func(t *testing.T) {
		t.Parallel()
		var rates []float64
		for _, long := range []int{300, 3000} {
			w := bed{script: truth.Script{Lockstep: true, StopAfter: func(c truth.Call) int { return long }}, args: oneCell("0", "4")}.measure(t)
			c := w.valid()
			w.exact(c)
			rates = append(rates, *c.TotalTokensPerSecond)
		}
		near(t, "total tok/s", &rates[0], 200)
		near(t, "total tok/s", &rates[1], 200)
	})
	t.Run("E11 a server that is slow at first", func(t *testing.T) {
		t.Parallel()
		faster := func(s truth.Step) time.Duration { return 20*ms + max(8*second-s.At, 0)/400 }
		slower := func(s truth.Step) time.Duration { return 10*ms + max(s.At-6*second, 0)/600 }
		w := bed{script: truth.Script{Gap: faster}}.measure(t)
		c := w.valid()
		near(t, "total tok/s", c.TotalTokensPerSecond, 100)
		if w.warnedRun("warm-up") {
			t.Errorf("warned of a speed that became steady: %v", w.run.Warnings)
		}
		if w := (bed{script: truth.Script{Gap: slower}}).measure(t); !w.warnedRun("warm-up") {
			t.Errorf("no warning of a speed that still changes: %v", w.run.Warnings)
		}
		// One that is fast from the second minute on is seen by the first cell measured again.
		slow := bed{script: truth.Script{Gap: func(s truth.Step) time.Duration {
			if s.At < 25*second {
				return 34 * ms
			}
			return 24 * ms
		}}, args: oneCell("0", "1,2")}.measure(t)
		if d := slow.run.Drift; d == nil || !d.Significant || *d.Change < 0.4 {
			t.Errorf("the drift is %+v", d)
		}
	})
	t.Run("E12 nothing is sent after the deadline", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Gap: every(5 * ms), StopAfter: func(truth.Call) int { return 20 }}, args: oneCell("0", "4")}.measure(t)
		c := w.valid()
		w.exact(c)
		if list := w.sentAfter(c); len(list) > 4 || len(list) > 0 && slices.Max(list) > 50*ms {
			t.Errorf("requests were sent %v after the window", list)
		}
	})
	t.Run("E14 a client that stalls for 2 s makes no burst", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{StopAfter: func(truth.Call) int { return 30 }}, dial: lateness(0, 15*second, 17*second), args: oneCell("0", "4", "--duration", "10s")}.measure(t)
		c := w.cell(0, 4)
		w.verified()
		if most, _ := w.flight(c); most != 4 {
			t.Errorf("%d requests at once, want 4", most)
		}
		if c.EventGap == nil || *c.EventGap.Max < 1000 {
			t.Fatalf("nothing stalled: %+v", c.EventGap)
		}
		if c.Client.ReaderLagP99Micros == nil || c.Client.SendLateP99Micros == nil {
			t.Errorf("the lags are not published: %+v", *c.Client)
		}
		e := &bench.Evidence{Concurrency: 1, Outcome: bench.Outcome{Ending: bench.EndedMeasured, DrainedAfter: true}}
		lagging := &speedmatrix.Cell{Requests: &speedmatrix.RequestCounts{Sent: 1, Cut: 1}, EventGap: &speedmatrix.Distribution{P50: new(20.0)}}
		e.Client = &speedmatrix.ClientQuality{StampSource: "user", ReaderLagP99Micros: new(2e6)}
		if status, reason := bench.Judge(e, lagging, bench.Judgement{}); status != speedmatrix.StatusClientLimited || !strings.Contains(reason, "2000.0 ms (p99) late") {
			t.Errorf("a reader 2 s late: %s: %s", status, reason)
		}
	})
	t.Run("E15 a client that cannot send in time", func(t *testing.T) {
		t.Parallel()
		// With 2.5 s for each connection, those of the first streams are too old when the last are open.
		w := bed{script: truth.Script{Gap: every(70 * ms), TokensPerEvent: 4}, dial: lateness(2500*ms, 0, 0), args: oneCell("0", "130")}.measure(t)
		c := w.cell(0, 130)
		if c.Status != speedmatrix.StatusClientLimited || !strings.Contains(c.Reason, "later than planned") {
			t.Errorf("%s: %s", c.Status, c.Reason)
		}
		if !strings.Contains(w.out.String(), string(speedmatrix.StatusClientLimited)) {
			t.Errorf("the table does not say so:\n%s", w.out.String())
		}
	})
}

// A window may begin and end on the very instant of a token, streams may be in step or apart, and requests may end
// on its edges: a token counts once.
func TestEdgesOfTheWindow(t *testing.T) {
	gaps := map[string]time.Duration{"of the look at the streams": 25 * ms, "of a second": second, "of 5 s and 1 ns": 5*second + 1, "of a divisor": 200 * ms, "of a prime": 97 * ms}
	for name, gap := range gaps {
		for _, lockstep := range []bool{true, false} {
			t.Run(fmt.Sprintf("gaps %s, in step %v", name, lockstep), func(t *testing.T) {
				t.Parallel()
				w := bed{script: truth.Script{Gap: every(gap), Lockstep: lockstep, StopAfter: func(truth.Call) int { return 64 }}, args: oneCell("0", "3")}.measure(t)
				c := w.cell(0, 3)
				if c.Status != speedmatrix.StatusValid {
					t.Fatalf("%s: %s", c.Status, c.Reason)
				}
				w.verified()
				w.exact(c)
			})
		}
	}
}
