package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/stamp"
)

const ms = time.Millisecond

// house is a server on a network in memory, inside a bubble.
type house struct {
	t       *testing.T
	network *memnet.Network
	clock   *stamp.Clock
	limits  load.Limits
	engine  load.Engine
}

// another is a house with nobody in it, of the same engine.
func (h *house) another() *house {
	return &house{t: h.t, network: memnet.New(), clock: stamp.NewClock(), engine: h.engine}
}

// serve answers requests with a handler until the test ends.
func (h *house) serve(handler http.HandlerFunc) {
	h.t.Helper()
	var handling sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handling.Add(1)
		defer handling.Done()
		handler(w, r)
	})}
	l := h.listen()
	go server.Serve(l)
	h.t.Cleanup(func() {
		server.Close()
		synctest.Wait() // whatever has begun is counted now
		handling.Wait() // a handler may sleep, and time stands still once the test has returned
	})
}

// raw answers connections with a function of their own.
func (h *house) raw(conn func(net.Conn)) {
	l := h.listen()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { conn(c) })
		}
	})
	h.t.Cleanup(func() {
		l.Close()
		serving.Wait() // a connection's function may sleep, and time stands still once the test has returned
	})
}

func (h *house) listen() net.Listener {
	l, err := h.network.Listen("127.0.0.1:80")
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

func (h *house) client() *load.Client {
	h.t.Helper()
	o := load.Options{
		BaseURL: &url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/v1/"},
		Dialect: dialect.Chat(), Dial: h.network.DialContext, Clock: h.clock, Limits: h.limits,
	}
	if h.engine == load.EngineEpoll {
		o = load.WithPump(o)
	}
	c, err := load.New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// do sends one request and gives its log.
func (h *house) do() *load.Log {
	h.t.Helper()
	if h.engine != load.EngineEpoll {
		return h.client().Do(h.t.Context(), load.Request{ID: 7, Purpose: "ping", Body: ask(0, 0)})
	}
	// Where loops drive, it is the first one of a stream, whose next one is cut.
	again := make(chan struct{})
	var once sync.Once
	s, err := h.client().Open(h.t.Context(), 1, func(_ int, restart bool) load.Request {
		if restart {
			once.Do(func() { close(again) })
		}
		return load.Request{ID: 7, Purpose: "ping", Body: ask(0, 0)}
	})
	if err != nil {
		h.t.Fatal(err)
	}
	s.Launch(0, 0)
	<-again
	s.Stop()
	return s.Logs()[0]
}

// open opens streams whose requests carry the stream and its number.
func (h *house) open(ctx context.Context, n int) *load.Streams {
	h.t.Helper()
	s, err := h.client().Open(ctx, n, requests(n))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(s.Stop)
	return s
}

// requests numbers the requests of each stream, for goroutines of their own.
func requests(n int) func(stream int, restart bool) load.Request {
	sent := make([]int, n)
	return func(stream int, restart bool) load.Request {
		i := sent[stream]
		sent[stream]++
		r := load.Request{ID: int32(1000*stream + i), Head: int32(stream), Tail: int32(i), Purpose: "launch", Body: ask(stream, i)}
		if restart {
			r.Purpose = "restart"
		}
		return r
	}
}

// question is the body of a test's request.
type question struct{ Stream, Number int }

func ask(stream, number int) []byte {
	body, _ := json.Marshal(question{stream, number})
	return body
}

// asked reads a request.
func asked(r *http.Request) question {
	var q question
	body, _ := io.ReadAll(r.Body)
	json.Unmarshal(body, &q)
	return q
}

// teller writes the events of an answer.
type teller struct {
	w http.ResponseWriter
	r *http.Request
}

func (t teller) data(format string, args ...any) {
	fmt.Fprintf(t.w, "data: "+format+"\n\n", args...)
	t.w.(http.Flusher).Flush()
}

func (t teller) text(text string) { t.data(`{"choices":[{"delta":{"content":%q}}]}`, text) }

func (t teller) finish(tokens int) {
	t.data(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
	t.data(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":%d}}`, tokens, 9+tokens)
	t.data("[DONE]")
}

// drip writes n one-token events, each after a gap.
func (t teller) drip(n int, gap time.Duration) {
	for i := range n {
		time.Sleep(gap)
		t.text(fmt.Sprintf("w%d ", i))
	}
}

// hang waits until the client has gone.
func (t teller) hang() { <-t.r.Context().Done() }

// inBubble runs a test in virtual time, with each engine.
func inBubble(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	for _, engine := range []load.Engine{load.EngineNetHTTP, load.EngineEpoll} {
		t.Run(string(engine), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, &house{t: t, network: memnet.New(), clock: stamp.NewClock(), engine: engine})
			})
		})
	}
}

// wantTime compares the distance of two times, in ns, with what it should be.
func wantTime(t *testing.T, what string, ns int64, want time.Duration) {
	t.Helper()
	if d := time.Duration(ns); d != want {
		t.Errorf("%s is after %v, want %v", what, d, want)
	}
}

// contains checks words for a part.
func contains(t *testing.T, words, part string) {
	t.Helper()
	if !strings.Contains(words, part) {
		t.Errorf("%q does not contain %q", words, part)
	}
}
