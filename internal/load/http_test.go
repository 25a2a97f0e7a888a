package load_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
)

const hi = `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n"

func chunked(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	return b.String() + "0\r\n\r\n"
}

// An answer is understood, and its connection used again only where HTTP allows it.
func TestAnswersOfEveryForm(t *testing.T) {
	inBubble(t, func(t *testing.T, first *house) {
		tests := []struct {
			name, answer string
			close        bool // the server closes behind it
			class        speedmatrix.RequestClass
			words        string
			keeps        bool
		}{
			{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(hi), false, speedmatrix.RequestCompleted, "", true},
			{"an event in two chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(hi[:20], hi[20:]), false, speedmatrix.RequestCompleted, "", true},
			{"a length", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(hi), hi), false, speedmatrix.RequestCompleted, "", true},
			{"to the close", "HTTP/1.1 200 OK\r\n\r\n" + hi, true, speedmatrix.RequestCompleted, "", false},
			{"HTTP/1.0", fmt.Sprintf("HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(hi), hi), false, speedmatrix.RequestCompleted, "", false},
			{"the wish to close", fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(hi), hi), false, speedmatrix.RequestCompleted, "", false},
			{"an early word", fmt.Sprintf("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(hi), hi), false, speedmatrix.RequestCompleted, "", true},
			{"a refusal", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow", false, speedmatrix.RequestFailed, "slow", true},
			{"a refusal without words", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", false, speedmatrix.RequestFailed, "HTTP 503", true},
			{"a long refusal", "HTTP/1.1 500 Oops\r\nContent-Length: 9999\r\n\r\n" + strings.Repeat("x", 9999), false, speedmatrix.RequestFailed, "xxx", false},
			{"nothing", "HTTP/1.1 204 No Content\r\n\r\n", false, speedmatrix.RequestFailed, "without a token", true},
			{"a body cut short", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n%s", strings.Replace(hi, `"stop"`, "null", 1)), true, speedmatrix.RequestFailed, "closed by the server", false},
			{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", true, speedmatrix.RequestFailed, "malformed", false},
		}
		for _, tt := range tests {
			h := first.another()
			connections, requests := 0, 0
			h.raw(func(c net.Conn) {
				defer c.Close()
				connections++
				for in := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					requests++
					if requests > 1 {
						io.Copy(io.Discard, in) // until the client goes
						return
					}
					io.WriteString(c, tt.answer)
					if tt.close {
						return
					}
				}
			})
			s := h.open(t.Context(), 1)
			s.Launch(0, 0)
			time.Sleep(500 * ms)
			s.Stop()
			l := s.Logs()[0]
			if l.Class != tt.class {
				t.Errorf("%s: %s %q", tt.name, l.Class, l.Error)
			}
			contains(t, l.Error, tt.words)
			if kept := connections == 1; kept != tt.keeps || requests != 2 {
				t.Errorf("%s: %d connections, %d requests", tt.name, connections, requests)
			}
			time.Sleep(time.Minute) // the other ends see that the connections are closed
		}
	})
}

func TestTheRequestIsHTTP(t *testing.T) {
	inBubble(t, func(t *testing.T, h *house) {
		heads := make(chan *http.Request, 1)
		h.serve(func(w http.ResponseWriter, r *http.Request) {
			asked(r)
			heads <- r
			teller{w, r}.hang()
		})
		s := h.open(t.Context(), 1)
		at := h.clock.Now() + int64(time.Second)
		s.Launch(at, 0)
		r := <-heads
		if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || r.Host != "127.0.0.1" || r.ContentLength != int64(len(ask(0, 0))) {
			t.Errorf("%s %s of %s, %d bytes", r.Method, r.URL, r.Host, r.ContentLength)
		}
		for name, want := range map[string]string{"Content-Type": "application/json", "User-Agent": "speedmatrix", "Accept-Encoding": "", "Idempotency-Key": ""} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		s.Stop()
		wantTime(t, "departure", s.Logs()[0].DepartedNS-at, 0)
		if s.Engine() != h.engine || s.Quality().Engine != h.engine {
			t.Errorf("read by %s, want %s", s.Engine(), h.engine)
		}
	})
}

func TestNoFileAndNoPortAreSaidClearly(t *testing.T) {
	for errno, words := range map[syscall.Errno]string{syscall.EMFILE: "ulimit -n", syscall.EADDRNOTAVAIL: "no port left"} {
		client, err := load.New(load.Options{BaseURL: &url.URL{Scheme: "http", Host: "127.0.0.1"},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: errno}
			}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Open(t.Context(), 3, requests(3))
		var e *speedmatrix.Error
		if !errors.As(err, &e) || e.Kind != speedmatrix.KindUsage || !strings.Contains(e.What+e.Next, words) {
			t.Errorf("%v: %+v", errno, e)
		}
	}
}
