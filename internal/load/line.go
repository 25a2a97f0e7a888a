package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"speedmatrix/internal/stamp"
)

// stockAge is how long an opened connection may lie unused: servers that close
// idle connections wait at least 5 s.
const stockAge = 4 * time.Second

// writeBytes is the buffer that a request is put together in. A body that it
// cannot hold goes to the socket in larger pieces past it.
const writeBytes = 4 << 10

// line opens the connections of one stream. It may hold one in stock, opened
// before it was needed, which the transport gets at its next dial.
type line struct {
	client *Client
	// wrap makes a new connection ready for use; it owns it even if it fails.
	wrap func(net.Conn) (net.Conn, error)
	life context.Context // ends all dials
	end  context.CancelFunc

	mu       sync.Mutex
	stock    net.Conn
	openedNS int64

	// connect is the time that dials took since it was set to −1.
	connect atomic.Int64
}

func newLine(c *Client) *line {
	l := &line{client: c}
	l.wrap = func(conn net.Conn) (net.Conn, error) { return stamp.Wrap(conn, c.options.Clock), nil }
	l.life, l.end = context.WithCancel(context.Background())
	l.connect.Store(-1)
	return l
}

// transport makes the transport that speaks over the line.
func (l *line) transport() *http.Transport {
	o := &l.client.options
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext:         l.dialPlain,
		DialTLSContext:      l.dialTLS,
		TLSClientConfig:     tlsConfig(o.TLS),
		TLSHandshakeTimeout: o.Limits.Connect,
		Protocols:           protocols,
		DisableCompression:  true,
		MaxConnsPerHost:     1,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     stockAge,
		WriteBufferSize:     writeBytes,
	}
	if proxy := l.client.target.proxy; proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return t
}

// tlsConfig is the user's configuration, for HTTP/1.1 only: one connection per
// stream is the rule here.
func tlsConfig(own *tls.Config) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if own != nil {
		config = own.Clone()
	}
	config.NextProtos = []string{"http/1.1"}
	return config
}

// open puts a new connection in stock, in the place of an older one.
func (l *line) open(ctx context.Context) error {
	t := &l.client.target
	var conn net.Conn
	var err error
	if t.tls {
		conn, err = l.newTLS(ctx, "tcp", t.address)
	} else {
		conn, err = l.newPlain(ctx, "tcp", t.address)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	old := l.stock
	l.stock, l.openedNS = conn, l.client.options.Clock.Now()
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return nil
}

// refresh opens the stock anew if it will be too old at a time. Without success
// there is no stock, and the request that needs one finds out why.
func (l *line) refresh(ctx context.Context, atNS int64) {
	l.mu.Lock()
	stale := l.stock != nil && atNS-l.openedNS > int64(stockAge)
	l.mu.Unlock()
	if !stale || l.open(ctx) == nil {
		return
	}
	if old := l.take(); old != nil {
		old.Close()
	}
}

// take takes the connection out of stock; nil if there is none.
func (l *line) take() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn := l.stock
	l.stock = nil
	return conn
}

// close ends all dials and closes what is in stock.
func (l *line) close() {
	l.end()
	if conn := l.take(); conn != nil {
		conn.Close()
	}
}

// dialPlain is the transport's DialContext.
func (l *line) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	return l.dial(ctx, func(ctx context.Context) (net.Conn, error) { return l.newPlain(ctx, network, address) })
}

// dialTLS is the transport's DialTLSContext.
func (l *line) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	return l.dial(ctx, func(ctx context.Context) (net.Conn, error) { return l.newTLS(ctx, network, address) })
}

// dial hands over the stock, or opens a connection and notes the time it took.
func (l *line) dial(ctx context.Context, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if conn := l.take(); conn != nil {
		return conn, nil
	}
	clock := l.client.options.Clock
	begin := clock.Now()
	conn, err := open(ctx)
	l.connect.Store(max(l.connect.Load(), 0) + clock.Now() - begin)
	return conn, err
}

// newPlain opens a connection within the limit and wraps it for stamps.
func (l *line) newPlain(ctx context.Context, network, address string) (net.Conn, error) {
	o := &l.client.options
	ctx, cancel := context.WithTimeout(ctx, o.Limits.Connect)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	conn, err := o.Dial(ctx, network, address)
	if err != nil {
		return nil, l.failed(FailureConnect, address, err)
	}
	if conn, err = l.wrap(conn); err != nil {
		return nil, l.failed(FailureConnect, address, err)
	}
	return conn, nil
}

// newTLS opens a connection and shakes hands; the stamps lie below the TLS.
func (l *line) newTLS(ctx context.Context, network, address string) (net.Conn, error) {
	o := &l.client.options
	conn, err := l.newPlain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := tlsConfig(o.TLS)
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Limits.Connect)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	session := tls.Client(conn, config)
	if err := session.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, l.failed(FailureTLS, address, err)
	}
	return session, nil
}

// dialError says why there is no connection.
type dialError struct {
	failure Failure
	err     error
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// failed makes a dialError, with words for the limit having passed.
func (l *line) failed(failure Failure, address string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		what := "connection to"
		if failure == FailureTLS {
			what = "TLS session with"
		}
		err = fmt.Errorf("no %s %s within %v: %w", what, address, l.client.options.Limits.Connect, err)
	}
	return &dialError{failure: failure, err: err}
}
