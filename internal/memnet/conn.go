package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Conn is one end of a connection in memory. Its methods may be called from
// several goroutines. As with TCP, closing it while bytes lie unread resets
// the connection; otherwise the peer reads what is left and then io.EOF.
type Conn struct {
	local, remote Addr
	in, out       *pipe
}

// newPair makes the two ends of a connection.
func newPair(client, server Addr, buffer int) (clientEnd, serverEnd *Conn) {
	up, down := newPipe(buffer), newPipe(buffer)
	clientEnd = &Conn{local: client, remote: server, in: down, out: up}
	serverEnd = &Conn{local: server, remote: client, in: up, out: down}
	return clientEnd, serverEnd
}

// Read waits for bytes, the peer's end (io.EOF), a reset or the deadline.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

// Write waits until all of p is in the buffer, or for a reset or the deadline.
// The first write after the peer closed is accepted and lost, and answered
// with a reset; later ones fail with syscall.EPIPE.
func (c *Conn) Write(p []byte) (int, error) {
	n, lost, err := c.out.write(p)
	if lost {
		c.in.reset()
	}
	return n, c.wrap("write", err)
}

// Close ends both directions.
func (c *Conn) Close() error {
	if !c.in.closeRead() {
		c.out.closeWrite()
		return nil
	}
	c.Reset()
	return nil
}

// CloseWrite ends the direction from here to the peer: it reads what is left, then io.EOF.
func (c *Conn) CloseWrite() error {
	c.out.closeWrite()
	return nil
}

// CloseRead gives up the direction from the peer to here.
func (c *Conn) CloseRead() error {
	c.in.closeRead()
	return nil
}

// Reset ends the connection as a TCP reset does: the peer still reads what it
// has received, then fails with syscall.ECONNRESET, and so do its writes.
func (c *Conn) Reset() {
	c.in.closeRead()
	c.in.reset()
	c.out.closeWrite()
	c.out.reset()
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines; the zero time is none. Waiting calls see it.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	c.out.setWriteDeadline(t)
	return nil
}

// SetReadDeadline sets the deadline of Read.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

// SetWriteDeadline sets the deadline of Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}

// wrap gives an error the shape it has on a real socket.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if n, ok := errors.AsType[syscall.Errno](err); ok {
		err = os.NewSyscallError(op, n)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
