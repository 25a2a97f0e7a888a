package load_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
)

func TestSixtyFourStreamsAreTimedExactly(t *testing.T) {
	const streams, tokens = 64, 50
	inBubble(t, func(t *testing.T, h *house) {
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			q, to := asked(r), teller{w, r}
			if q.Number > 0 {
				to.hang()
				return
			}
			time.Sleep(time.Duration(q.Stream) * ms)
			to.drip(tokens, time.Duration(10+q.Stream)*ms)
			to.finish(tokens)
		})
		s := h.open(t.Context(), streams)
		at := h.clock.Now() + int64(20*ms)
		s.Launch(at, 50*time.Microsecond)
		time.Sleep(time.Minute)
		s.Stop()
		logs := s.Logs()
		if len(logs) != 2*streams {
			t.Fatalf("%d requests", len(logs))
		}
		for i := range streams {
			first, second := logs[2*i], logs[2*i+1]
			checkExact(t, first, at+int64(i)*50_000, tokens)
			if second.Class != speedmatrix.RequestCut || second.FirstNS != 0 || second.Purpose != "restart" || second.Stream != int32(i) {
				t.Errorf("stream %d: second request %+v", i, second.Row())
			}
			wantTime(t, "restart", second.WrittenNS-first.EndedNS, 0)
			if second.ConnectNS != -1 || first.ConnectNS != -1 {
				t.Error("a connection was opened after the launch")
			}
		}
		q := s.Quality()
		if q.Kernel || q.Replays != 0 || q.Events != streams*tokens || q.EventReads != q.Events || q.CoalescedReads != 0 {
			t.Errorf("quality %+v", q)
		}
	})
}

// checkExact checks a completed request planned at a time.
func checkExact(t *testing.T, l *load.Log, planned int64, tokens int) {
	t.Helper()
	gap := time.Duration(10+l.Stream) * ms
	wantTime(t, "planned", l.PlannedNS-planned, 0)
	wantTime(t, "written", l.WrittenNS-planned, 0)
	wantTime(t, "first text", l.FirstNS-l.WrittenNS, time.Duration(l.Stream)*ms+gap)
	wantTime(t, "headers", l.HeadersNS-l.FirstNS, 0)
	wantTime(t, "first content", l.FirstVisibleNS-l.FirstNS, 0)
	wantTime(t, "last text", l.LastNS-l.FirstNS, time.Duration(tokens-1)*gap)
	wantTime(t, "end", l.EndedNS-l.LastNS, 0)
	checkWords(t, l, tokens, gap)
	if l.Class != speedmatrix.RequestCompleted || l.FinishReason != "stop" || l.Usage.Completion != tokens || l.Usage.Prompt != 9 {
		t.Errorf("%s %q, usage %+v", l.Class, l.FinishReason, l.Usage)
	}
	if l.HTTPStatus != 200 || l.Failure != "" || l.Error != "" || l.Surprises != 0 {
		t.Errorf("status %d, %s %q", l.HTTPStatus, l.Failure, l.Error)
	}
}

// checkWords checks the events and the text of tokens words.
func checkWords(t *testing.T, l *load.Log, tokens int, gap time.Duration) {
	t.Helper()
	var text strings.Builder
	n := 0
	for e := range l.Events() {
		wantTime(t, fmt.Sprint("event ", n), e.At-l.FirstNS, time.Duration(n)*gap)
		word := fmt.Sprintf("w%d ", n)
		text.WriteString(word)
		if e.Length != len(word) || e.Tokens != -1 || e.Channel != speedmatrix.ChannelContent || e.Continued {
			t.Errorf("event %d is %+v", n, e)
		}
		n++
	}
	if n != tokens || string(l.Text()) != text.String() {
		t.Errorf("%d events, text %q", n, l.Text())
	}
}

func TestACutStreamGoesOnWithItsNextRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			asked(r)
			to := teller{w, r}
			to.drip(3, 10*ms)
			to.hang()
		})
		s := h.open(t.Context(), 2)
		at := h.clock.Now()
		s.Launch(at, 0)
		time.Sleep(100 * ms)
		s.Cut(0)
		synctest.Wait()
		after := load.View{Requests: 2, InFlight: true, WrittenNS: at + int64(100*ms), Events: 3, Counted: -1}
		if v := s.View(0); v != after {
			t.Errorf("after the cut: %+v", v)
		}
		other := load.View{Requests: 1, InFlight: true, WrittenNS: at, FirstNS: at + int64(10*ms), LastNS: at + int64(30*ms), Events: 3, Counted: -1}
		if v := s.View(1); v != other {
			t.Errorf("the other stream: %+v", v)
		}
		time.Sleep(100 * ms)
		s.Stop()
		s.Stop()
		logs := s.Logs()
		if len(logs) != 3 {
			t.Fatalf("%d requests", len(logs))
		}
		cut := logs[0]
		if cut.Class != speedmatrix.RequestCut || cut.Failure != "" || cut.Error != "" || string(cut.Text()) != "w0 w1 w2 " {
			t.Errorf("the cut request: %s %q %q", cut.Class, cut.Error, cut.Text())
		}
		wantTime(t, "cut", cut.EndedNS-at, 100*ms)
		wantTime(t, "restart", logs[1].StartNS-at, 100*ms)
		wantTime(t, "stop", logs[2].EndedNS-at, 200*ms)
		if logs[1].ConnectNS != 0 {
			t.Errorf("a cut costs the connection, connect %d", logs[1].ConnectNS)
		}
	})
}

func TestAStreamRestartsAtOnceAndWaitsOnlyAfterTwoFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		arrivals := make(chan int64, 7)
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			q, to := asked(r), teller{w, r}
			arrivals <- h.clock.Now()
			switch {
			case q.Number < 4:
				http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
			case q.Number == 4:
				to.text("a")
				to.data(`{"error":{"message":"died","code":500}}`)
			case q.Number == 5:
				to.text("b")
				to.finish(1)
			default:
				to.hang()
			}
		})
		s := h.open(t.Context(), 1)
		at := h.clock.Now()
		s.Launch(at, 0)
		time.Sleep(1500 * ms)
		if v := s.View(0); v.Failures != 3 || v.Failed != 3 || v.InFlight || v.LastError != "overloaded" {
			t.Errorf("while it waits: %+v", v)
		}
		time.Sleep(time.Minute)
		if v := s.View(0); v.Failures != 0 || v.Failed != 5 || v.Requests != 7 || v.Events != 2 || v.Counted != -1 {
			t.Errorf("at the end: %+v", v)
		}
		for i, want := range []time.Duration{0, 0, time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second} {
			wantTime(t, fmt.Sprint("request ", i), <-arrivals-at, want)
		}
	})
}

func TestTheEndOfTheContextIsACutToo(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			asked(r)
			teller{w, r}.hang()
		})
		ctx, cancel := context.WithCancel(t.Context())
		s := h.open(ctx, 3)
		s.Launch(h.clock.Now(), time.Second)
		time.Sleep(1500 * ms) // the third has not been sent
		cancel()
		s.Stop()
		logs := s.Logs()
		if len(logs) != 2 || logs[0].Class != speedmatrix.RequestCut || logs[1].Class != speedmatrix.RequestCut {
			t.Errorf("%d requests", len(logs))
		}
	})
}

func TestStopBeforeTheLaunchSendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.serve(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
		s := h.open(t.Context(), 8)
		if v := s.View(3); v.Requests != 0 || v.InFlight || v.Counted != -1 {
			t.Errorf("before the launch: %+v", v)
		}
		s.Stop()
		s.Launch(h.clock.Now(), 0)
		if len(s.Logs()) != 0 {
			t.Error("there are requests")
		}
	})
}

func TestOpenNeedsEveryConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		_, err := h.client().Open(t.Context(), 8, requests(8))
		if speedmatrix.KindOf(err) != speedmatrix.KindNoServer {
			t.Fatalf("kind %v of %v", speedmatrix.KindOf(err), err)
		}
		contains(t, err.Error(), "127.0.0.1:80")
	})
}

func TestAFollowerReadsTheTextWhileItGrows(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			q, to := asked(r), teller{w, r}
			if q.Number > 1 {
				to.hang()
				return
			}
			to.data(`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`)
			time.Sleep(time.Second)
			to.data(`{"choices":[{"delta":{"reasoning_content":"m","content":"Größe"}}]}`)
			to.text(" da")
			to.finish(4)
		})
		s := h.open(t.Context(), 1)
		f := s.Follow(0)
		if _, ok := f.Next(); ok {
			t.Error("text before the launch")
		}
		s.Launch(h.clock.Now(), 0)
		time.Sleep(500 * ms)
		follow(t, f, "0 reasoning hm")
		time.Sleep(time.Second)
		follow(t, f, "0 reasoning m", "0 content Größe da", "1 reasoning hm")
		time.Sleep(time.Minute)
		follow(t, f, "1 reasoning m", "1 content Größe da")
		s.Stop()
		follow(t, s.Follow(0), "0 reasoning hmm", "0 content Größe da", "1 reasoning hmm", "1 content Größe da")
		l := s.Logs()[0]
		if got := string(l.TextBetween(l.FirstNS, l.LastNS)); got != "mGröße da" {
			t.Errorf("text after the first event %q", got)
		}
		if got := string(l.TextBetween(0, l.FirstNS)); got != "hm" {
			t.Errorf("text of the first event %q", got)
		}
		wantTime(t, "first content", l.FirstVisibleNS-l.FirstNS, time.Second)
		continued := 0
		for e := range l.Events() {
			if e.Continued {
				continued++
			}
		}
		if continued != 1 || s.View(0).Events != 6 {
			t.Errorf("%d continued, %d events", continued, s.View(0).Events)
		}
	})
}

// follow checks what a follower has to give.
func follow(t *testing.T, f *load.Follower, want ...string) {
	t.Helper()
	var got []string
	for p, ok := f.Next(); ok; p, ok = f.Next() {
		got = append(got, fmt.Sprintf("%d %v %s", p.Request, p.Channel, p.Text))
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("followed %q, want %q", got, want)
	}
}
