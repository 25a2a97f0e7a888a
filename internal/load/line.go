package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"speedmatrix/internal/stamp"
	"speedmatrix/internal/unit"
)

// stockAge is how long a connection may lie unused before the launch: servers that close
// idle connections wait at least 5 s.
const stockAge = 4 * time.Second

// writeBytes is the buffer that a request is put together in. A body that it
// cannot hold goes to the socket in larger pieces past it.
const writeBytes = 4 << 10

// line opens the connections of one stream.
type line struct {
	client *Client
	// wrap makes a new connection ready for use; it owns it even if it fails.
	wrap func(net.Conn) (net.Conn, error)
	life context.Context // ends all dials
	end  context.CancelFunc

	// newest is the connection opened last, below TLS.
	newest atomic.Pointer[stamp.Conn]
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

// close ends all dials.
func (l *line) close() { l.end() }

// dialPlain is the transport's DialContext.
func (l *line) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	return l.dial(ctx, func(ctx context.Context) (net.Conn, error) { return l.newPlain(ctx, network, address) })
}

// dialTLS is the transport's DialTLSContext.
func (l *line) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	return l.dial(ctx, func(ctx context.Context) (net.Conn, error) { return l.newTLS(ctx, network, address) })
}

// dial opens a connection and notes the time it took.
func (l *line) dial(ctx context.Context, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
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
	l.newest.Store(stamp.Under(conn))
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
		err = fmt.Errorf("no %s %s within %s: %w", what, address, unit.Duration(l.client.options.Limits.Connect), err)
	}
	return &dialError{failure: failure, err: err}
}
