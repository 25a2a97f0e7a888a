package simserver_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"speedmatrix/internal/profile"
	"speedmatrix/internal/simserver"
)

const us = time.Microsecond

// sea has 6 tokens, with the template 14.
const sea = "Tell me of the sea."

func wantTimes(t *testing.T, what string, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: tokens at %v, want %v", what, got, want)
	}
}

// together sends requests, spacing apart, and waits for all.
func (w *world) together(spacing time.Duration, bodies ...fields) []*answer {
	answers := make([]*answer, len(bodies))
	var wg sync.WaitGroup
	for i, body := range bodies {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * spacing)
			answers[i] = w.post(w.t.Context(), "/v1/chat/completions", body)
		})
	}
	wg.Wait()
	return answers
}

func TestTokensComeWhenTheirStepsEnd(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		a := w.post(t.Context(), "/v1/chat/completions", chat(sea, 4))
		if u := a.usage(); u.Prompt != 14 || u.Completion != 4 || u.Total != 18 || u.cached() != 0 {
			t.Errorf("usage %+v", u)
		}
		// 3 ms front end, 20 ms + 14 · 0.1 ms, then 11 ms a token.
		wantTimes(t, "alone", a.times(0), 24400*us, 35400*us, 46400*us, 57400*us)
		if a.events[0].at != 24400*us || a.events[0].body.Choices[0].Delta.Role != "assistant" {
			t.Errorf("first event at %v: %s", a.events[0].at, a.events[0].data)
		}
	})
}

func TestABurstPassesTheFrontEndOneByOne(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		answers := w.together(us, chat(sea, 2), chat(sea, 2), chat(sea, 2))
		// They leave the front end at 3, 5 and 7 ms; the second and third wait for the first one's step and share the
		// next with its decode: 20 ms + 1 ms + 29 · 0.1 ms.
		wantTimes(t, "first", answers[0].times(0), 24400*us, 48300*us)
		wantTimes(t, "second", answers[1].times(0), 48300*us, 60300*us)
		wantTimes(t, "third", answers[2].times(0), 48300*us, 60300*us)
	})
}

func TestRequestsBeyondTheRunningLimitWait(t *testing.T) {
	p := machine()
	p.Scheduler.MaxRunning = 1
	inBubble(t, p, simserver.Options{}, func(t *testing.T, w *world) {
		var during, waiting float64
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(50 * ms)
			f := w.scrape()
			during, waiting = sum(t, f, "vllm:num_requests_running"), sum(t, f, "vllm:num_requests_waiting")
		})
		answers := w.together(us, chat(sea, 3), chat(sea, 1))
		wg.Wait()
		wantTimes(t, "first", answers[0].times(0), 24400*us, 35400*us, 46400*us)
		wantTimes(t, "second", answers[1].times(0), 67800*us)
		if during != 0 || waiting != 1 {
			t.Errorf("between the two %v ran and %v waited, want 0 and 1", during, waiting)
		}
	})
}

// account is what the engine said it did.
type account struct {
	at    map[int64][]time.Duration // when each choice's tokens left
	ended map[string][]simserver.Ended
	late  time.Duration
	early bool
}

func (a *account) watch() simserver.Watch {
	a.at, a.ended = map[int64][]time.Duration{}, map[string][]simserver.Ended{}
	return simserver.Watch{
		Step: func(s simserver.Step) {
			a.late, a.early = max(a.late, s.Late), a.early || s.Late < 0
			for _, o := range s.Engine.Outputs {
				a.at[o.ID] = append(a.at[o.ID], time.Duration(s.EndsNS))
			}
		},
		End: func(e simserver.Ended) { a.ended[e.Request] = append(a.ended[e.Request], e) },
	}
}

// mixed is a load of many lengths, more than the KV cache holds.
func mixed() []fields {
	var bodies []fields
	for i := range 16 {
		bodies = append(bodies, chat(fmt.Sprintf("%d. %s", i, strings.Repeat(" Once more unto the breach.", 1+i*7%11)), 20+i*13%50))
	}
	return bodies
}

// tight is the machine with a KV cache that a few requests fill.
func tight() *profile.Profile {
	p := machine()
	p.KV.Blocks = 25
	return p
}

func TestWhatClientsSeeIsTheEnginesAccount(t *testing.T) {
	var a account
	inBubble(t, tight(), simserver.Options{Seed: 7, Noise: 0.01, Watch: a.watch()}, func(t *testing.T, w *world) {
		preempted := 0
		answers := w.together(9*ms+us, mixed()...)
		synctest.Wait()
		for i, got := range answers {
			e := a.ended[got.events[0].body.ID]
			if len(e) != 1 {
				t.Fatalf("request %d ended %d times", i, len(e))
			}
			wantTimes(t, fmt.Sprint("request ", i), got.times(0), a.at[e[0].ID]...)
			if arrived := time.Duration(i) * (9*ms + us); time.Duration(e[0].ArrivedNS) != arrived {
				t.Errorf("request %d arrived at %v, want %v", i, time.Duration(e[0].ArrivedNS), arrived)
			}
			if u := got.usage(); u.Prompt != e[0].PromptTokens || u.Completion != e[0].OutputTokens || u.Completion != 20+i*13%50 {
				t.Errorf("request %d: usage %+v, the engine says %+v", i, u, e[0])
			}
			if e[0].FirstNS != int64(got.times(0)[0]) || e[0].QueuedNS > e[0].StartedNS || e[0].StartedNS >= e[0].FirstNS {
				t.Errorf("request %d: instants out of order: %+v", i, e[0])
			}
			preempted += e[0].Preemptions
		}
		f := w.scrape()
		if n := sum(t, f, "vllm:num_preemptions_total"); preempted == 0 || n != float64(preempted) {
			t.Errorf("%d preemptions, /metrics says %v", preempted, n)
		}
		if n := sum(t, f, "vllm:kv_cache_usage_perc"); n != 0 {
			t.Errorf("KV use %v after all have ended", n)
		}
		if a.late != 0 {
			t.Errorf("a step was %v late in virtual time", a.late)
		}
	})
}

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	run := func(seed uint64) (log []string) {
		faults := simserver.Faults{Spike: 70 * ms, SpikeShare: 0.1, ErrorShare: 0.1, DropShare: 0.2}
		inBubble(t, tight(), simserver.Options{Seed: seed, Noise: 0.05, Faults: faults}, func(t *testing.T, w *world) {
			for i, a := range w.together(0, mixed()...) {
				log = append(log, fmt.Sprint(i, a.status, a.times(0), a.text(0), a.err))
			}
		})
		return log
	}
	first := run(3)
	if diff := cmp.Diff(first, run(3)); diff != "" {
		t.Error(diff)
	}
	if slices.Equal(first, run(4)) {
		t.Error("another seed gives the same run")
	}
}

func TestAPrefixIsReadOnce(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		long := strings.Repeat("All the world's a stage, and all the men and women merely players. ", 25)
		first := w.post(t.Context(), "/v1/chat/completions", chat(long, 1))
		begun := time.Since(w.begun)
		second := w.post(t.Context(), "/v1/chat/completions", chat(long, 1))
		n := first.usage().Prompt
		cached := (n - 1) / 16 * 16
		if got := second.usage().cached(); first.usage().cached() != 0 || got != cached {
			t.Errorf("%d and %d of %d tokens cached, want 0 and %d", first.usage().cached(), got, n, cached)
		}
		wantTimes(t, "first", first.times(0), 3*ms+20*ms+time.Duration(n)*100*us)
		wantTimes(t, "second", second.times(0), begun+3*ms+20*ms+time.Duration(n-cached)*100*us)
		f := w.scrape()
		if q, h := sum(t, f, "vllm:prefix_cache_queries_total"), sum(t, f, "vllm:prefix_cache_hits_total"); q != float64(2*n) || h != float64(cached) {
			t.Errorf("%v queries and %v hits", q, h)
		}
		if a := w.post(t.Context(), "/reset_prefix_cache", fields{}); a.events[0].data != `{"success":true}` {
			t.Errorf("reset: %s", a.events[0].data)
		}
		if again := w.post(t.Context(), "/v1/chat/completions", chat(long, 1)); again.usage().cached() != 0 {
			t.Errorf("%d tokens cached after the reset", again.usage().cached())
		}
		if salted := w.post(t.Context(), "/v1/chat/completions", chat(long, 1).with("cache_salt", "mine")); salted.usage().cached() != 0 {
			t.Errorf("%d tokens cached under another salt", salted.usage().cached())
		}
	})
}

func TestAClientThatLeavesMakesRoomAtTheNextStep(t *testing.T) {
	p := machine()
	p.Scheduler.MaxRunning = 1
	for _, stream := range []bool{true, false} {
		inBubble(t, p, simserver.Options{}, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(t.Context(), 40*ms)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() {
				body := chat(sea, 1000)
				if !stream {
					body = chat(sea, 1000).with("stream", false)
					delete(body, "stream_options")
				}
				w.post(ctx, "/v1/chat/completions", body)
			})
			second := w.together(ms, fields{"model": "none"}, chat(sea, 1))[1]
			wg.Wait()
			// The first one's step ends at 46.4 ms; the second begins there.
			wantTimes(t, "second", second.times(0), 46400*us+21400*us)
			if n := sum(t, w.scrape(), "vllm:num_requests_running"); n != 0 {
				t.Errorf("%v requests run", n)
			}
		})
	}
}

func TestASlowReaderDelaysNobodyAndGetsEverything(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		w.net.SetBuffer(512)
		alone := w.post(t.Context(), "/v1/chat/completions", chat(sea, 300).with("temperature", 0))
		slow, err := w.net.DialContext(t.Context(), "tcp", "sim:80")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Since(w.begun)
		body := `{"messages":[{"role":"user","content":"` + sea + `"}],"max_tokens":300,"stream":true,"ignore_eos":true,"temperature":0,` +
			`"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`
		fmt.Fprintf(slow, "POST /v1/chat/completions HTTP/1.0\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		time.Sleep(us)
		quick := w.post(t.Context(), "/v1/chat/completions", chat(sea, 3))
		wantTimes(t, "beside", quick.times(0), begun+46900*us, begun+58900*us, begun+70900*us)
		time.Sleep(10 * time.Second) // the slow one's answer is generated long since
		if n := sum(t, w.scrape(), "vllm:num_requests_running"); n != 0 {
			t.Errorf("%v requests run", n)
		}
		got := readAll(t, w, slow)
		if events := len(got.times(0)); events > 20 {
			t.Errorf("%d events for a reader that was away: they should have come together", events)
		}
		if got.text(0) != alone.text(0) || got.usage().Completion != 300 {
			t.Errorf("%d tokens, text of %d bytes, want 300 and %d", got.usage().Completion, len(got.text(0)), len(alone.text(0)))
		}
	})
}

func TestAFasterClockIsAnnouncedAndDividesAllTimes(t *testing.T) {
	var a account
	inBubble(t, machine(), simserver.Options{Speed: 10, Watch: a.watch()}, func(t *testing.T, w *world) {
		got := w.post(t.Context(), "/v1/chat/completions", chat(sea, 3))
		wantTimes(t, "ten times as fast", got.times(0), 2440*us, 3540*us, 4640*us)
		if name, speed := got.header.Get(simserver.HeaderProfile), got.header.Get(simserver.HeaderClock); name != "round" || speed != "10" {
			t.Errorf("headers %q and %q", name, speed)
		}
		if v := w.do(t.Context(), "GET", "/version", nil).events[0].data; v != `{"version":"0.32.0","simulated":{"profile":"round","kind":"estimated","clock_speed":10,"seed":0}}` {
			t.Errorf("version %s", v)
		}
		if e := a.ended["chatcmpl-sim-1"]; len(e) != 1 || e[0].FirstNS != int64(24400*us) {
			t.Errorf("by the server's clock: %+v", e)
		}
		if s := sum(t, w.scrape(), "vllm:time_to_first_token_seconds_sum"); s != 0.0244 {
			t.Errorf("the server's time to first token is %v s, want 0.0244 by its own clock", s)
		}
	})
}

func TestOnARealSocketTokensComeNotBeforeTheirTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var a account
	server, err := simserver.New(machine(), simserver.Options{Speed: 5, Spin: true, Watch: a.watch()})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, server: server, begun: time.Now()}
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":9,"ignore_eos":true,"stream":true}`, sea)
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.0\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	got := readAll(t, w, c)
	server.Close()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	e := a.ended["cmpl-sim-1"]
	if len(e) != 1 || e[0].OutputTokens != 9 || a.early {
		t.Fatalf("%+v, a step before its time: %v", e, a.early)
	}
	if times := got.times(0); times[len(times)-1]*5 < time.Duration(e[0].LastNS-e[0].ArrivedNS) {
		t.Errorf("the last token came %v after the request was sent, at five times the speed; the engine says %v", times[len(times)-1], time.Duration(e[0].LastNS-e[0].ArrivedNS))
	}
}

func TestCloseCutsWhatRuns(t *testing.T) {
	inBubble(t, machine(), simserver.Options{}, func(t *testing.T, w *world) {
		done := make(chan *answer)
		go func() { done <- w.post(t.Context(), "/v1/chat/completions", chat(sea, 1000)) }()
		time.Sleep(time.Second)
		synctest.Wait()
		w.server.Close()
		if a := <-done; a.err == nil || len(a.times(0)) == 0 {
			t.Errorf("%d tokens and error %v", len(a.times(0)), a.err)
		}
		if a := w.do(t.Context(), "GET", "/health", nil); a.err == nil {
			t.Error("a closed server answers")
		}
	})
}
