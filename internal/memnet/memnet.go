// Package memnet is a network in memory: listeners and connections that
// behave like TCP on one machine, for tests in virtual time. Every wait is on
// a condition variable or a timer of the goroutine's own bubble, and no lock
// is held while waiting, so that a synctest bubble is durably blocked whenever
// all its goroutines wait here.
//
// Bytes arrive in the instant in which they are written. The errors are those
// of real sockets: syscall.ECONNREFUSED, ECONNRESET and EPIPE,
// os.ErrDeadlineExceeded and net.ErrClosed, each in a *net.OpError.
package memnet

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// DefaultBuffer is the room of a connection in each direction, in bytes.
const DefaultBuffer = 64 << 10

// firstPort is the first port given to listeners that ask for port 0, and to dialers.
const firstPort = 40000

// Network holds the listeners of one closed world. Use New.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	buffer    int
	port      int
}

// New makes a network on which nobody listens yet.
func New() *Network {
	return &Network{listeners: make(map[string]*listener), buffer: DefaultBuffer, port: firstPort}
}

// SetBuffer sets the room in bytes, each way, of connections dialled from now on.
// Values below 1 mean DefaultBuffer.
func (n *Network) SetBuffer(bytes int) {
	if bytes < 1 {
		bytes = DefaultBuffer
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.buffer = bytes
}

// Listen opens a listener at addr, "host:port" with any host; port 0 gets a
// free one. Dialers reach it by exactly the text of its Addr. It fails with
// syscall.EADDRINUSE if the address is taken.
func (n *Network) Listen(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		addr = net.JoinHostPort(host, n.freePort(host))
	}
	if n.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr(addr), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{network: n, addr: Addr(addr)}
	l.arrived = sync.NewCond(&l.mu)
	n.listeners[addr] = l
	return l, nil
}

// freePort gives a port at which host has no listener. n.mu is held.
func (n *Network) freePort(host string) string {
	for {
		n.port++
		port := strconv.Itoa(n.port)
		if n.listeners[net.JoinHostPort(host, port)] == nil {
			return port
		}
	}
}

// DialContext connects to a listener. As with TCP the connection stands before
// it is accepted; the backlog has no limit. It fails with
// syscall.ECONNREFUSED where nobody listens, and with the context's error if
// that has ended. It has the signature of http.Transport.DialContext.
func (n *Network) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr(addr), Err: err}
	}
	n.mu.Lock()
	l := n.listeners[addr]
	n.port++
	local, buffer := Addr(net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port))), n.buffer
	n.mu.Unlock()
	if l != nil {
		client, server := newPair(local, Addr(addr), buffer)
		if l.offer(server) {
			return client, nil
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr(addr), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func (n *Network) remove(l *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[string(l.addr)] == l {
		delete(n.listeners, string(l.addr))
	}
}

// Addr is an address on a Network: "host:port".
type Addr string

// Network is "tcp", because that is what the connections behave like.
func (Addr) Network() string { return "tcp" }

func (a Addr) String() string { return string(a) }

type listener struct {
	network *Network
	addr    Addr

	mu      sync.Mutex
	arrived *sync.Cond
	backlog []*Conn
	closed  bool
}

// offer puts a connection into the backlog; false if the listener is closed.
func (l *listener) offer(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.backlog = append(l.backlog, c)
	l.arrived.Signal()
	return true
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.backlog) == 0 && !l.closed {
		l.arrived.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	return c, nil
}

// Close refuses new connections and resets those not yet accepted.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.closed = true
	left := l.backlog
	l.backlog = nil
	l.arrived.Broadcast()
	l.mu.Unlock()
	l.network.remove(l)
	for _, c := range left {
		c.Reset()
	}
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
