package load_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stamp"
)

func parse(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u
}

func TestAConnectionClosedBehindTheLastAnswerCostsNoRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.raw(func(c net.Conn) { closing(c, func() { time.Sleep(10 * ms) }) })
		s := h.open(t.Context(), 4)
		s.Launch(h.clock.Now(), 0)
		time.Sleep(5 * time.Second)
		s.Stop()
		logs := s.Logs()
		cut := 0
		for _, l := range logs {
			if l.Class == speedmatrix.RequestFailed {
				t.Fatalf("lost: %s %s", l.Failure, l.Error)
			}
			if l.Class == speedmatrix.RequestCut {
				cut++
				continue
			}
			// The dead connection cost 10 ms, which are no part of the time to first token.
			wantTime(t, "first text", l.FirstNS-l.WrittenNS, 0)
			if l.Tail > 0 && (l.Replays != 1 || l.SendNS != int64(10*ms) || l.ConnectNS < 0) {
				t.Fatalf("request %d: %d replays, sent after %v, connect %d", l.ID, l.Replays, time.Duration(l.SendNS), l.ConnectNS)
			}
		}
		if len(logs) < 4*400 || cut > 4 || s.Quality().Replays < len(logs)-8 {
			t.Errorf("%d requests, %d cut, %d replays", len(logs), cut, s.Quality().Replays)
		}
	})
}

func TestAConnectionThatDiesBeforeAnyAnswerIsReplaced(t *testing.T) {
	tests := []struct {
		name    string
		wait    time.Duration // until the launch
		idle    bool          // it dies before a byte of the request
		replays int
	}{
		{"before the launch", 3 * time.Second, true, 0},
		{"long before the launch", time.Hour, true, 0},
		{"under the request", 500 * ms, false, 1},
	}
	for _, tt := range tests {
		inBubble(t, func(t *testing.T, h *house) {
			var accepted atomic.Int32
			h.raw(func(c net.Conn) {
				if accepted.Add(1) == 1 {
					if tt.idle {
						time.Sleep(time.Second)
					} else {
						c.Read(make([]byte, 1))
					}
					c.Close()
					return
				}
				closing(c, func() { time.Sleep(10 * ms) })
			})
			s := h.open(t.Context(), 1)
			at := h.clock.Now() + int64(tt.wait)
			s.Launch(at, 0)
			time.Sleep(tt.wait + 100*ms)
			s.Stop()
			l := s.Logs()[0]
			if l.Class != speedmatrix.RequestCompleted || l.Replays != tt.replays {
				t.Errorf("%s: %s %q, %d replays", tt.name, l.Class, l.Error, l.Replays)
			}
			wantTime(t, "written", l.WrittenNS-at, 0)
		})
	}
}

// breaker is a server that answers the first request of each connection and,
// while the next one arrives on it, closes it.
func breaker(t *testing.T) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go closing(c, func() { c.Read(make([]byte, 1)) })
		}
	}()
	return parse("http://" + l.Addr().String())
}

func TestHundredsOfRequestsToAServerThatBreaksItsPromise(t *testing.T) {
	for _, engine := range []load.Engine{load.EngineNetHTTP, load.EngineEpoll} {
		t.Run(string(engine), func(t *testing.T) { hundredsOfRequests(t, engine) })
	}
}

func hundredsOfRequests(t *testing.T, engine load.Engine) {
	client, err := load.New(load.Options{BaseURL: breaker(t), Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	// Half of the bodies are larger than the socket takes at once: those die while they are written.
	large := append(bytes.Repeat([]byte(" "), 1<<20), ask(0, 0)...)
	const streams, each = 4, 100
	var restarts [streams]int
	enough := make(chan struct{}, streams)
	s, err := client.Open(t.Context(), streams, func(stream int, restart bool) load.Request {
		if restart {
			restarts[stream]++
		}
		if restarts[stream] == each {
			enough <- struct{}{}
		}
		if stream%2 == 0 {
			return load.Request{Body: ask(stream, 0)}
		}
		return load.Request{Body: large}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Launch(0, 0)
	for range streams {
		<-enough
	}
	s.Stop()
	completed := 0
	for _, r := range s.Logs() {
		switch r.Class {
		case speedmatrix.RequestCompleted:
			completed++
		case speedmatrix.RequestFailed:
			t.Fatalf("lost: %s %s after %d replays", r.Failure, r.Error, r.Replays)
		}
	}
	if q := s.Quality(); completed < streams*each || q.Replays < completed-streams {
		t.Errorf("%d completed, %d replays", completed, q.Replays)
	}
}

func TestOnLinuxTheStampsAreTheKernels(t *testing.T) {
	if !stamp.Kernel() {
		t.Skip("no kernel stamps on this system")
	}
	for name, start := range map[string]func(http.Handler) *httptest.Server{
		"http": httptest.NewServer, "https": httptest.NewTLSServer,
	} {
		t.Run(name, func(t *testing.T) {
			server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked(r)
				to := teller{w, r}
				for range 50 {
					to.text("token")
				}
				to.finish(50)
			}))
			defer server.Close()
			for _, engine := range []load.Engine{load.EngineNetHTTP, load.EngineEpoll} {
				checkKernelStamps(t, load.Options{
					BaseURL: parse(server.URL + "/v1"), TLS: &tls.Config{InsecureSkipVerify: true}, Engine: engine,
				})
			}
		})
	}
}

// checkKernelStamps lets streams run until the kernel stamps, which it does
// from a little after the first connection that asks for it.
func checkKernelStamps(t *testing.T, o load.Options) {
	t.Helper()
	client, err := load.New(o)
	if err != nil {
		t.Fatal(err)
	}
	progress := make(chan struct{}, 8)
	next := requests(8)
	s, err := client.Open(t.Context(), 8, func(stream int, restart bool) load.Request {
		select {
		case progress <- struct{}{}:
		default:
		}
		return next(stream, restart)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Launch(0, 0)
	for s.Quality().Lag.Count() < 1000 {
		<-progress
	}
	s.Stop()
	wanted := load.EngineNetHTTP // a session of TLS has no socket of its own
	if o.Engine == load.EngineEpoll && o.BaseURL.Scheme == "http" && runtime.GOOS == "linux" {
		wanted = load.EngineEpoll
	}
	if s.Engine() != wanted {
		t.Errorf("read by %s", s.Engine())
	}
	if q := s.Quality(); !q.Kernel || q.Events == 0 || q.Reads < q.EventReads {
		t.Errorf("quality %+v", q)
	}
	for _, l := range s.Logs() {
		if l.Class == speedmatrix.RequestFailed {
			t.Errorf("%s: %s", l.Failure, l.Error)
		}
		if l.FirstNS != 0 && l.FirstNS < l.WrittenNS {
			t.Errorf("first text %v before written", time.Duration(l.WrittenNS-l.FirstNS))
		}
	}
}

func TestAnUntrustedCertificateIsAFailureOfTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	client, err := load.New(load.Options{BaseURL: parse(server.URL)})
	if err != nil {
		t.Fatal(err)
	}
	if l := client.Do(t.Context(), load.Request{Body: ask(0, 0)}); l.Failure != load.FailureTLS {
		t.Errorf("failure %q: %s", l.Failure, l.Error)
	}
	_, err = client.Open(t.Context(), 2, requests(2))
	if speedmatrix.KindOf(err) != speedmatrix.KindRefused {
		t.Errorf("kind %v of %v", speedmatrix.KindOf(err), err)
	}
}
