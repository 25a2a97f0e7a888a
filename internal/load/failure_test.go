package load_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
)

func TestEveryWayToFailHasItsKindAndItsWords(t *testing.T) {
	inBubble(t, func(t *testing.T, first *house) {
		tests := []struct {
			name    string
			answer  func(to teller)
			failure load.Failure
			words   string
			text    string
		}{
			{"an HTTP error", func(to teller) {
				http.Error(to.w, `{"error":{"message":"context too long","type":"bad"}}`, 400)
			}, load.FailureHTTP, "context too long", ""},
			{"an HTTP error without words", func(to teller) { to.w.WriteHeader(502) }, load.FailureHTTP, "HTTP 502 Bad Gateway", ""},
			{"a redirect", func(to teller) {
				http.Redirect(to.w, to.r, "/elsewhere", http.StatusTemporaryRedirect)
			}, load.FailureHTTP, "redirects to /elsewhere", ""},
			{"an error event after text", func(to teller) {
				to.text("so far")
				to.data(`{"error":{"message":"Context size has been exceeded.","code":500}}`)
				to.hang()
			}, load.FailureEvent, "Context size has been exceeded.", "so far"},
			{"an error document with status 200", func(to teller) {
				fmt.Fprint(to.w, `{"error":{"message":"no such model"}}`)
			}, load.FailureEvent, "no such model", ""},
			{"an end without a finish reason", func(to teller) { to.text("half") }, load.FailureLost, "without a finish reason", "half"},
			{"a broken chunk", func(to teller) {
				to.text("half")
				conn, _, _ := to.w.(http.Hijacker).Hijack()
				conn.Close()
			}, load.FailureLost, "closed by the server", "half"},
			{"no answer", func(to teller) {
				conn, _, _ := to.w.(http.Hijacker).Hijack()
				conn.Close()
			}, load.FailureLost, "before the answer: closed by the server", ""},
			{"an empty body", func(teller) {}, load.FailureEmpty, "without a token", ""},
			{"an end mark alone", func(to teller) { to.data("[DONE]") }, load.FailureEmpty, "without a token", ""},
			{"a finish reason without a token", func(to teller) { to.finish(0) }, load.FailureEmpty, `finish reason "stop"`, ""},
			{"a page with status 200", func(to teller) {
				fmt.Fprint(to.w, "<html><body>Please log in</body></html>")
			}, load.FailureEmpty, "Please log in", ""},
			{"a silence between events", func(to teller) {
				to.drip(2, 30*time.Second)
				to.hang()
			}, load.FailureIdle, "no event for 2 min", "w0 w1 "},
			{"no first event", func(to teller) {
				to.data(`{"choices":[{"delta":{"role":"assistant"}}]}`)
				to.hang()
			}, load.FailureTimeout, "no first event within 10 min", ""},
			{"no headers", func(to teller) { to.hang() }, load.FailureTimeout, "no answer within 10 min", ""},
		}
		for _, tt := range tests {
			t.Log(tt.name)
			h := first.another()
			h.serve(func(w http.ResponseWriter, r *http.Request) {
				asked(r)
				tt.answer(teller{w, r})
			})
			l := h.do()
			if l.Class != speedmatrix.RequestFailed || l.Failure != tt.failure {
				t.Errorf("class %s, failure %q, want %q", l.Class, l.Failure, tt.failure)
			}
			contains(t, l.Error, tt.words)
			if string(l.Text()) != tt.text {
				t.Errorf("text %q, want %q", l.Text(), tt.text)
			}
			// A single request opens its own connection; that of a stream was open, and one that dies unanswered is replaced.
			connect, replays := int64(0), 0
			if h.engine == load.EngineEpoll {
				connect = -1
				if tt.name == "no answer" {
					connect, replays = 0, 1
				}
			}
			if l.ConnectNS != connect || l.Replays != replays || l.EndedNS < l.StartNS || l.WrittenNS == 0 {
				t.Errorf("log %+v", l.Row())
			}
		}
	})
}

func TestWhatCompletes(t *testing.T) {
	inBubble(t, func(t *testing.T, first *house) {
		tests := []struct {
			name   string
			answer func(to teller)
			text   string
			tokens int
			took   time.Duration
		}{
			{"[DONE] without a finish reason", func(to teller) { to.text("a"); to.data("[DONE]") }, "a", -1, 0},
			{"a finish reason without [DONE]", func(to teller) {
				to.text("a")
				to.data(`{"choices":[{"delta":{},"finish_reason":"length"}]}`)
			}, "a", -1, 0},
			{"usage and no text", func(to teller) { to.finish(5) }, "", 5, 0},
			{"a connection that dies after the finish reason", func(to teller) {
				to.text("a")
				to.data(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
				conn, _, _ := to.w.(http.Hijacker).Hijack()
				conn.Close()
			}, "a", -1, 0},
			{"an answer that never ends after [DONE]", func(to teller) {
				to.text("a")
				to.finish(1)
				to.hang()
			}, "a", 1, 0},
			{"an answer that never ends after its finish reason", func(to teller) {
				to.text("a")
				to.data(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
				to.hang()
			}, "a", -1, 5 * time.Second},
			{"a document in spite of the wish for a stream", func(to teller) {
				time.Sleep(time.Second)
				to.w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(to.w, "\n{\n \"choices\":[{\"message\":{\"content\":\"all\"},\"finish_reason\":\"stop\"}],\n",
					` "usage":{"prompt_tokens":1,"completion_tokens":3,"total_tokens":4}}`, "\n")
			}, "all", 3, time.Second},
			{"a document in one line", func(to teller) {
				fmt.Fprint(to.w, `{"choices":[{"text":"one","finish_reason":"stop"}],"usage":{"completion_tokens":1}}`, "\n")
			}, "one", 1, 0},
			{"lines of JSON", func(to teller) {
				for _, word := range []string{"a", "b", "c"} {
					time.Sleep(time.Second)
					fmt.Fprintf(to.w, "{\"choices\":[{\"delta\":{\"content\":%q}}]}\n", word)
					to.w.(http.Flusher).Flush()
				}
				fmt.Fprint(to.w, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
			}, "abc", -1, 3 * time.Second},
		}
		for _, tt := range tests {
			t.Log(tt.name)
			h := first.another()
			h.serve(func(w http.ResponseWriter, r *http.Request) {
				asked(r)
				tt.answer(teller{w, r})
			})
			l := h.do()
			if l.Class != speedmatrix.RequestCompleted || l.Failure != "" || l.Error != "" {
				t.Errorf("class %s, failure %q, %q", l.Class, l.Failure, l.Error)
			}
			if string(l.Text()) != tt.text || l.Usage.Completion != tt.tokens {
				t.Errorf("text %q, %d tokens", l.Text(), l.Usage.Completion)
			}
			wantTime(t, "end", l.EndedNS-l.StartNS, tt.took)
		}
	})
}

func TestLinesOfJSONKeepTheirOwnStamps(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			asked(r)
			for range 4 {
				time.Sleep(time.Second)
				fmt.Fprint(w, "{\"choices\":[{\"text\":\"x\"}]}\n")
				w.(http.Flusher).Flush()
			}
		})
		l, n := h.do(), 0
		for e := range l.Events() {
			n++
			wantTime(t, fmt.Sprint("event ", n), e.At-l.WrittenNS, time.Duration(n)*time.Second)
		}
		if n != 4 {
			t.Errorf("%d events", n)
		}
	})
}

func TestNoConnectionIsAFailureOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		l := h.client().Do(t.Context(), load.Request{Body: ask(0, 0)})
		if l.Class != speedmatrix.RequestFailed || l.Failure != load.FailureConnect || l.WrittenNS != 0 {
			t.Errorf("%s %q %q", l.Class, l.Failure, l.Error)
		}
		if row := l.Row(); row.WrittenNS != nil || row.FirstNS != nil || row.SendNS != nil || row.PromptTokens != nil || row.EndedNS == nil {
			t.Errorf("row %+v", row)
		}
	})
}

func TestAServerThatAcceptsNothingRunsIntoTheConnectLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		c, err := load.New(load.Options{BaseURL: parse("http://127.0.0.1"), Clock: h.clock,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}})
		if err != nil {
			t.Fatal(err)
		}
		l := c.Do(t.Context(), load.Request{Body: ask(0, 0)})
		if l.Failure != load.FailureConnect {
			t.Errorf("failure %q", l.Failure)
		}
		contains(t, l.Error, "no connection to 127.0.0.1:80 within 10 s")
		wantTime(t, "end", l.EndedNS-l.StartNS, 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l := c.Do(ctx, load.Request{Body: ask(0, 0)}); l.Class != speedmatrix.RequestCut {
			t.Errorf("the end of the context made it %s", l.Class)
		}
	})
}

func TestRetryAfterIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		wanted := map[string]time.Duration{
			"7": 7 * time.Second, "1.5": 1500 * ms, "-3": 0, "soon": 0, "": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute,
		}
		// The server's goroutine ends its answer while the test goes on.
		var value atomic.Value
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", value.Load().(string))
			w.WriteHeader(http.StatusTooManyRequests)
		})
		for v, want := range wanted {
			value.Store(v)
			if l := h.do(); l.RetryAfter != want || l.HTTPStatus != 429 {
				t.Errorf("Retry-After %q is %v, want %v", v, l.RetryAfter, want)
			}
		}
	})
}

// closing answers the first request of a connection as llama.cpp does: a whole
// stream that promises to keep the connection, which it closes a moment later.
func closing(c net.Conn, moment func()) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	io.Copy(io.Discard, r.Body)
	body := "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	moment()
}
