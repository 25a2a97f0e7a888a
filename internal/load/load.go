// Package load sends requests to a server and records what comes back: single
// requests, or C streams of requests at once, each on a connection of its own
// that was opened beforehand. Every event is kept with the stamp of the read
// that brought it. The path of an event takes no locks and makes no garbage
// beyond the pages that it is recorded in; observers read behind atomics and
// never make it wait.
package load

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/stamp"
)

// Options say where requests go and how.
type Options struct {
	// BaseURL may end in /v1 or not. A user and password in it are sent as basic
	// authentication unless Header has an Authorization.
	BaseURL *url.URL
	Dialect dialect.Dialect
	// Header is sent with every request, on top of what the protocol needs.
	Header http.Header
	TLS    *tls.Config // nil: the defaults
	// Dial opens connections; nil is a net.Dialer. The result is wrapped by stamp.Wrap.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Clock  *stamp.Clock // nil: a new one
	Limits Limits
	// Engine is how streams are read; "" chooses by their number.
	Engine Engine
	// Hide takes secrets out of the words of a server, which may echo them; nil leaves the words as they are.
	Hide func(text string) string

	// poller makes what a loop waits with; nil is the system's, where Dial is.
	poller func(*stamp.Clock) (poller, error)
}

// Engine is a way to read many streams. Both record the same.
type Engine string

// The engines.
const (
	// EngineNetHTTP is net/http with a goroutine for each stream.
	EngineNetHTTP Engine = "net/http"
	// EngineEpoll is one goroutine for thousands of streams, for plain HTTP on Linux. Where
	// it cannot be had, the other one is taken.
	EngineEpoll Engine = "epoll"
)

// epollAbove is the number of streams above which EngineEpoll is chosen: with
// more, a goroutine and a connection of net/http for each let requests leave late
// on a small machine.
const epollAbove = 64

// engine is how so many streams are read.
func (c *Client) engine(streams int) Engine {
	wanted := c.options.Engine == EngineEpoll || c.options.Engine == "" && streams > epollAbove
	if wanted && c.options.poller != nil && !c.target.tls && c.target.proxy == nil {
		return EngineEpoll
	}
	return EngineNetHTTP
}

// Limits bound the time that a server may take. Zero is the default.
type Limits struct {
	// Connect bounds opening a connection, the TLS handshake included: 10 s.
	Connect time.Duration
	// Header bounds the time from the request to the headers of the answer, and
	// again from there to the first event: 10 min.
	Header time.Duration
	// Idle bounds the gap between two events after the first with text: 2 min.
	Idle time.Duration
}

// withDefaults gives the limits with every zero replaced.
func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&l.Connect, 10*time.Second)
	set(&l.Header, 10*time.Minute)
	set(&l.Idle, 2*time.Minute)
	return l
}

// Request is one request to be sent.
type Request struct {
	ID int32
	// Head and Tail number the parts of the prompt, Purpose is "fill", "launch",
	// "restart" or "ping". They are carried along for the record.
	Head, Tail int32
	Purpose    string
	Body       []byte // JSON, not to be changed any more
	// PlannedNS is when it should be sent; 0 is now.
	PlannedNS int64
}

// Client sends requests to one server.
type Client struct {
	options Options
	target  target
}

// New checks the options and makes a client. It connects to nothing. A base URL
// that cannot be used is a *speedmatrix.Error.
func New(o Options) (*Client, error) {
	o.Limits = o.Limits.withDefaults()
	if o.Clock == nil {
		o.Clock = stamp.NewClock()
	}
	if o.Dialect == nil {
		o.Dialect = dialect.Chat()
	}
	if o.Dial == nil {
		o.poller = systemPoller()
		o.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	target, err := aim(o)
	if err != nil {
		return nil, err
	}
	return &Client{options: o, target: target}, nil
}

// Do sends one request on a connection of its own and returns when it has
// ended. The end of ctx cuts it. The log's stream is −1.
func (c *Client) Do(ctx context.Context, r Request) *Log {
	s := newStream(c, -1)
	defer s.close()
	watching, stop := context.WithCancel(ctx)
	var watchdog sync.WaitGroup
	defer watchdog.Wait()
	defer stop()
	watchdog.Go(func() { watch(watching, c.options.Clock, c.options.Limits, []*stream{s}) })
	return s.exchange(ctx, r)
}

// unusable is the error for a base URL that cannot be used.
func unusable(what string) error {
	return &speedmatrix.Error{
		Kind: speedmatrix.KindUsage,
		What: what,
		Next: "Give the address of the server, like http://127.0.0.1:8000.",
	}
}
