package probe

import (
	"context"
	"fmt"
	"net"
)

// trialMost is how many bytes a connection of a trial may bring: some thousand times what the
// tokens of a trial take.
const trialMost = 8 << 20

// boundedDial gives connections that end after trialMost bytes, so that a server which never
// stops sending costs a bounded time and memory.
func boundedDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectLimit}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: c, left: trialMost}, nil
	}
}

// boundedConn is read by one goroutine.
type boundedConn struct {
	net.Conn
	left int
}

// Read fails once the bound is reached.
func (c *boundedConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("%w (over %d bytes)", errTooLong, trialMost)
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}
