package truth

import (
	"net"
	"sync"
	"sync/atomic"
)

// connKey is the context key of a request's connection.
type connKey struct{}

// listener wraps what it accepts in conn.
type listener struct {
	net.Listener
	server *Server
}

// Accept gives a counted connection that stamps its writes.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.server.open.Add(1)
	return &conn{Conn: c, server: l.server, index: int(l.server.accepted.Add(1)) - 1}, nil
}

// conn notes the time right before each write.
type conn struct {
	net.Conn
	server *Server
	index  int
	wrote  atomic.Int64
	once   sync.Once
}

// Write stamps, then writes.
func (c *conn) Write(b []byte) (int, error) {
	c.wrote.Store(c.server.now())
	return c.Conn.Write(b)
}

// Close counts the connection as gone.
func (c *conn) Close() error {
	c.once.Do(func() { c.server.open.Add(-1) })
	return c.Conn.Close()
}

// reset ends the connection by a TCP reset.
func (c *conn) reset() {
	switch inner := c.Conn.(type) {
	case *net.TCPConn:
		_ = inner.SetLinger(0) // then Close resets; without it the client sees a plain end
	case interface{ Reset() }:
		inner.Reset()
	}
	_ = c.Close()
}
