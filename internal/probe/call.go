package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"speedmatrix/internal/dialect"
	"speedmatrix/internal/unit"
)

// The bounds of one call: how long it may take, and how much of an answer is read.
const (
	connectLimit  = 10 * time.Second
	callLimit     = 10 * time.Second
	lookLimit     = 5 * time.Second // for a route that may not exist
	tokenizeLimit = time.Minute     // a prompt of a million tokens takes its time

	headerMost   = 256 << 10
	bodyMost     = 4 << 20
	metricsMost  = 16 << 20
	tokenizeMost = 64 << 20 // a million token ids in JSON
)

// caller makes the small requests of a probe: bounded in time and size, never led
// to another host.
type caller struct {
	client *http.Client
	base   *url.URL
	header http.Header
	hide   func(text string) string
}

// call is one request: a GET, or a POST of body as JSON if it is not nil.
type call struct {
	route  string // path below the base, maybe with a query
	body   any
	accept string
	limit  time.Duration // callLimit if 0
	most   int64         // bodyMost if 0
}

// answer is what came back, with the figures of its connection.
type answer struct {
	status int
	body   []byte
	html   bool
	header http.Header
	url    *url.URL // after redirects
	remote net.Addr
	reused bool // the last connection tried had been used before
	took   time.Duration
	hide   func(text string) string
}

// errTooLong marks an answer beyond its bound.
var errTooLong = errors.New("answer too long")

// compressedError is an answer in an encoding that was not asked for.
type compressedError struct{ route, encoding string }

func (e *compressedError) Error() string {
	return fmt.Sprintf("%s: the answer is compressed (%s), which was not asked for", e.route, e.encoding)
}

// redirectError is a redirect to another host: following it would measure, and show
// the key to, a server that the user did not name.
type redirectError struct{ to *url.URL }

func (e *redirectError) Error() string { return "redirect to " + e.to.String() }

// timeoutError is a call that our own limit ended; began says that headers had come.
type timeoutError struct {
	limit time.Duration
	began bool
}

func (e *timeoutError) Error() string {
	if e.began {
		return fmt.Sprintf("the answer was not complete within %s", unit.Duration(e.limit))
	}
	return "no answer within " + unit.Duration(e.limit)
}

func newCaller(o Options, base *url.URL) *caller {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectLimit}).DialContext
	}
	transport := &http.Transport{
		DialContext: dial, DisableCompression: true, TLSHandshakeTimeout: connectLimit,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: headerMost,
	}
	if o.TLS != nil {
		transport.TLSClientConfig = o.TLS.Clone()
	}
	return &caller{
		client: &http.Client{Transport: transport, CheckRedirect: sameHost},
		base:   base, header: o.Header, hide: o.hidden(),
	}
}

// sameHost follows no redirect to another host, nor one that leaves HTTPS.
func sameHost(r *http.Request, via []*http.Request) error {
	downgrade := r.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https"
	if r.URL.Host != via[0].URL.Host || downgrade || len(via) > 5 {
		return &redirectError{to: r.URL}
	}
	return nil
}

// close ends the connections that are open and idle.
func (c *caller) close() { c.client.CloseIdleConnections() }

// get asks for a route that may not exist.
func (c *caller) get(ctx context.Context, route string) (*answer, error) {
	return c.do(ctx, call{route: route, limit: lookLimit})
}

// do makes one call. Any HTTP status is an answer; an error is a call without one.
func (c *caller) do(ctx context.Context, k call) (*answer, error) {
	limit, most := k.limit, k.most
	if limit == 0 {
		limit = callLimit
	}
	if most == 0 {
		most = bodyMost
	}
	late := &timeoutError{limit: limit}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	t := newTrace()
	r, err := c.request(httptrace.WithClientTrace(ctx, t.hooks()), k)
	if err != nil {
		return nil, err
	}
	response, err := c.client.Do(r)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer response.Body.Close()
	a := &answer{
		status: response.StatusCode, url: response.Request.URL, remote: t.remote, reused: t.reused, took: t.took(), hide: c.hide,
		header: response.Header, html: strings.Contains(response.Header.Get("Content-Type"), "html"),
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &compressedError{k.route, encoding}
	}
	if a.body, err = io.ReadAll(io.LimitReader(response.Body, most+1)); err != nil {
		late.began = true
		return nil, causeOf(ctx, err)
	}
	if int64(len(a.body)) > most {
		return nil, fmt.Errorf("%s: %w (over %d bytes)", k.route, errTooLong, most)
	}
	return a, nil
}

func (c *caller) request(ctx context.Context, k call) (*http.Request, error) {
	path, query, _ := strings.Cut(k.route, "?")
	u := c.base.JoinPath(path)
	u.RawQuery = query
	method, body := http.MethodGet, io.Reader(nil)
	if k.body != nil {
		data, err := json.Marshal(k.body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s: %w", k.route, err)
		}
		method, body = http.MethodPost, bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, c.header)
	if k.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if k.accept != "" {
		r.Header.Set("Accept", k.accept)
	}
	return r, nil
}

// trace notes the connection used, and when the request's last byte was written and
// the answer's first one came: the hooks run in the transport's goroutines.
type trace struct {
	start          time.Time
	remote         net.Addr
	reused         bool
	written, first atomic.Int64 // since start; −1 not yet
}

func newTrace() *trace {
	t := &trace{start: time.Now()}
	t.written.Store(-1)
	t.first.Store(-1)
	return t
}

func (t *trace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			t.remote, t.reused = info.Conn.RemoteAddr(), info.Reused
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { t.written.Store(int64(time.Since(t.start))) },
		GotFirstResponseByte: func() { t.first.Store(int64(time.Since(t.start))) },
	}
}

// took is the time from the last byte out to the first one back; 0 unknown.
func (t *trace) took() time.Duration {
	written, first := t.written.Load(), t.first.Load()
	if written < 0 || first < written {
		return 0
	}
	return time.Duration(first - written)
}

// causeOf tells our own limit from the user's end and from the network's errors.
func causeOf(ctx context.Context, err error) error {
	var late *timeoutError
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}

// decode reads a JSON answer of status 200; false for anything else, a web page
// that a catch-all route gives included.
func (a *answer) decode(into any) bool {
	return a != nil && a.status == http.StatusOK && json.Unmarshal(a.body, into) == nil
}

// words is the server's own text of an error.
func (a *answer) words() string {
	return a.hide(dialect.ErrorText(a.body))
}
