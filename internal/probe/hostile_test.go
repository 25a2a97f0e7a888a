package probe

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

// meter counts the bytes that a client reads on all its connections.
type meter struct {
	n     *memnet.Network
	bytes atomic.Int64
}

type meteredConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := m.n.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return meteredConn{c, &m.bytes}, nil
}

// slow sends text one byte a second.
func slow(w http.ResponseWriter, r *http.Request, text string) {
	for i := range text {
		if _, err := io.WriteString(w, text[i:i+1]); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return
		}
	}
}

// endless sends chunk until nobody reads it any more.
func endless(w http.ResponseWriter, chunk string) {
	for {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

// bomb is 64 MB of blanks in 64 KB.
func bomb() []byte {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	blanks := bytes.Repeat([]byte(" "), 1<<20)
	for range 64 {
		_, _ = z.Write(blanks)
	}
	_ = z.Close()
	return packed.Bytes()
}

const deep = 200_000

// hostile is a server that answers one route badly, and what must come of it.
type hostile struct {
	name  string
	route string // of a server that is a vLLM otherwise; "" is GET /v1/models
	serve func(w http.ResponseWriter, r *http.Request)
	// what is the error's, "" where the server is known all the same; warns is a warning then.
	what, warns string
	took        time.Duration // at most
	bytes       int64         // at most
}

func nested() string { return strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep) }

// hostileRoutes answer what is asked with GET, or count tokens.
func hostileRoutes() []hostile {
	packed, nested := bomb(), nested()
	return []hostile{
		{name: "one byte a second", serve: func(w http.ResponseWriter, r *http.Request) { slow(w, r, listPlain) },
			what: "was not complete within 10s", took: 10 * time.Second, bytes: 4 << 10},
		{name: "an endless body", serve: func(w http.ResponseWriter, _ *http.Request) { endless(w, strings.Repeat("[", 4096)) },
			what: "its list of models is over 4 MiB", took: time.Second, bytes: 5 << 20},
		{name: "a bomb", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
		}, what: "the answer is compressed (gzip), which was not asked for", took: time.Second, bytes: 1 << 20},
		{name: "huge headers", serve: func(w http.ResponseWriter, _ *http.Request) {
			for i := range 2000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		}, what: "sends more than 256 KiB of headers", took: time.Second, bytes: 1 << 20},
		{name: "deep JSON", serve: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, nested) },
			what: "lists no models that can be read", took: time.Second, bytes: 5 << 20},
		{name: "names that are no text", serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{\"data\":[{\"id\":\"\xff\xfe\",\"owned_by\":\"\x80\"}]}")
		}, took: time.Second, bytes: 64 << 10},
		{name: "100 MB of metrics", route: "/metrics", serve: func(w http.ResponseWriter, _ *http.Request) {
			line := strings.Repeat("vllm:num_requests_running{engine=\"0\"} 1\n", 100)
			for range 100_000_000 / len(line) {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		}, warns: "no_metrics", took: time.Minute, bytes: 20 << 20},
		{name: "metrics that are no text", route: "/metrics", serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "vllm:num_requests_running{engine=\"\xff\"} 1\n\x00\x01{{{\n")
		}, warns: "no_metrics", took: time.Minute, bytes: 1 << 20},
		{name: "metrics one byte a second", route: "/metrics", serve: func(w http.ResponseWriter, r *http.Request) { slow(w, r, metricsVLLM) },
			warns: "no_metrics", took: time.Minute, bytes: 1 << 20},
		{name: "a version without end", route: "/version", serve: func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"version":"`+strings.Repeat("9", 4096)) },
			took: time.Minute, bytes: 8 << 20},
		{name: "a deep version", route: "/version", serve: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, nested) }, took: time.Minute, bytes: 4 << 20},
		{name: "routes without end", route: "/openapi.json", serve: func(w http.ResponseWriter, _ *http.Request) { endless(w, strings.Repeat(" ", 4096)) },
			took: time.Minute, bytes: 8 << 20},
		{name: "a tokenizer that is silent", route: "/tokenize", serve: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, took: time.Minute, bytes: 1 << 20},
	}
}

// hostileStreams answer the trials.
func hostileStreams() []hostile {
	packed, nested := bomb(), nested()
	return []hostile{
		{name: "tokens without end", route: "/v1/chat/completions", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			endless(w, strings.Repeat(`data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`+"\n\n", 100))
		}, warns: "trial_failed", took: time.Minute, bytes: 12 << 20},
		{name: "an event without end", route: "/v1/chat/completions", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: ")
			endless(w, strings.Repeat("x", 4096))
		}, warns: "trial_failed", took: time.Minute, bytes: 12 << 20},
		{name: "tokens one byte a second", route: "/v1/chat/completions", serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			slow(w, r, strings.Repeat(`data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`+"\n\n", 1000))
		}, warns: "trial_failed", took: 3 * time.Minute, bytes: 1 << 20},
		{name: "a token every twenty seconds", route: "/v1/chat/completions", serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`+"\n\n")
				w.(http.Flusher).Flush()
				select {
				case <-time.After(20 * time.Second):
				case <-r.Context().Done():
				}
			}
		}, warns: "trials_cut", took: 6 * time.Minute, bytes: 1 << 20},
		{name: "a stream that is a bomb", route: "/v1/chat/completions", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
		}, warns: "trial_failed", took: time.Minute, bytes: 4 << 20},
		{name: "a deep event", route: "/v1/chat/completions", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+nested+"\n\n")
		}, warns: "trial_failed", took: time.Minute, bytes: 8 << 20},
		{name: "an error inside a stream of status 200", route: "/v1/chat/completions", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`+"\n\n")
		}, warns: "trial_failed", took: time.Minute, bytes: 1 << 20},
	}
}

func TestHostileServersCostABoundedTimeAndMemory(t *testing.T) {
	for _, c := range slices.Concat(hostileRoutes(), hostileStreams()) {
		t.Run(c.name, func(t *testing.T) { bubble(t, c.test) })
	}
}

func (c hostile) test(t *testing.T, n *memnet.Network) {
	good := vllmFake()
	route := c.route
	if route == "" {
		route = "/v1/models"
	}
	serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == route {
			c.serve(w, r)
			return
		}
		good.ServeHTTP(w, r)
	}))
	m := &meter{n: n}
	begun := time.Now()
	s, err := look(t, n, func(o *Options) { o.Dial = m.dial })
	took, bytes := time.Since(begun), m.bytes.Load()
	t.Logf("%s, %d bytes read: %v", took, bytes, err)
	if took > c.took || bytes > c.bytes {
		t.Errorf("it took %s and %d bytes, at most %s and %d", took, bytes, c.took, c.bytes)
	}
	if c.what != "" {
		if e, ok := errors.AsType[*speedmatrix.Error](err); !ok || !strings.Contains(e.What, c.what) || e.Next == "" {
			t.Errorf("%v; want %q and what to do", err, c.what)
		}
		return
	}
	if err != nil {
		t.Fatalf("look: %v", err)
	}
	if c.warns != "" && !s.warned(c.warns) {
		t.Errorf("no warning %s in %v", c.warns, s.Warnings)
	}
}

// Headers that never end come from no HTTP library.
func TestHeadersWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		l, err := n.Listen("127.0.0.1:8000")
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		defer serving.Wait()
		defer l.Close()
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer c.Close()
					_, err := c.Read(make([]byte, 4096)) // an answer before the request would be another fault
					if err == nil {
						_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
					}
					for err == nil {
						_, err = io.WriteString(c, "X-More: "+strings.Repeat("x", 4000)+"\r\n")
					}
				})
			}
		})
		m := &meter{n: n}
		begun := time.Now()
		_, err = look(t, n, func(o *Options) { o.Dial = m.dial })
		must(t, err, speedmatrix.KindNoServer, "sends more than 256 KiB of headers", "")
		if took := time.Since(begun); took > time.Second || m.bytes.Load() > 1<<20 {
			t.Errorf("it took %s and %d bytes", took, m.bytes.Load())
		}
	})
}

// Limits beyond all reason are unknown, and plan nothing.
func TestLimitsBeyondReasonAreUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := newFake().get("/version", `{"version":"1"}`)
		f.get("/v1/models", `{"data":[{"id":"m","owned_by":"vllm","max_model_len":9223372036854775807}]}`)
		f.get("/metrics", "vllm:num_requests_running 0\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"9223372036854775807\"} 1\n")
		f.get("/server_info", `{"vllm_config":{"scheduler_config":{"max_num_seqs":-7},"cache_config":{"block_size":-1}}}`)
		s := found(t, n, f, nil)
		if s.MaxLength != 0 || s.RunningLimit != 0 || s.KVTokens != 0 || s.KVBlockTokens < 0 {
			t.Errorf("length %d, at once %d, KV %d in blocks of %d", s.MaxLength, s.RunningLimit, s.KVTokens, s.KVBlockTokens)
		}
	})
}

func TestTheKeyGoesToNoOtherHostAndNotOutOfHTTPS(t *testing.T) {
	at := func(text string) *http.Request {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u}
	}
	for _, c := range []struct {
		from, to string
		follows  bool
	}{
		{"http://a/v1/models", "http://a/api/v1/models", true},
		{"http://a/v1/models", "https://a/v1/models", true},
		{"https://a/v1/models", "http://a/v1/models", false},
		{"http://a/v1/models", "http://b/v1/models", false},
		{"http://a/v1/models", "http://a:81/v1/models", false},
	} {
		if err := sameHost(at(c.to), []*http.Request{at(c.from)}); (err == nil) != c.follows {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var asked atomic.Int32
		serve(t, n, "10.0.0.9:80", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		good := vllmFake()
		serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				good.ServeHTTP(w, r)
				return
			}
			http.Redirect(w, r, "http://10.0.0.9:80"+r.URL.Path, http.StatusTemporaryRedirect)
		}))
		_, err := look(t, n, func(o *Options) { o.Header = http.Header{"Authorization": {"Bearer secret"}, "X-Key": {"secret"}} })
		if err == nil || asked.Load() > 0 {
			t.Errorf("%v; the other host was asked %d times", err, asked.Load())
		}
	})
}
