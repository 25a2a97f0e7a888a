package stamp

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection that notes when its newest bytes arrived and when the
// last ones were written. One goroutine reads and one writes, as with any
// connection; the notes may be read from anywhere at any time.
type Conn struct {
	net.Conn
	clock  *Clock
	kernel *socket // nil: stamps are taken when a call returns

	newest    atomic.Int64 // stamp << 1, lowest bit set if it is the kernel's
	reads     atomic.Int64
	size      atomic.Int64
	unstamped atomic.Int64
	began     atomic.Int64
	written   atomic.Int64
	lag       Histogram
}

// Wrap makes a Conn of a connection that nothing has been read from. A
// *net.TCPConn gets the kernel's stamps where the system has them, every other
// connection stamps at the return of a read.
func Wrap(c net.Conn, clock *Clock) *Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return &Conn{Conn: c, clock: clock}
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return &Conn{Conn: c, clock: clock}
	}
	return WrapSocket(c, raw, clock)
}

// WrapSocket makes a Conn of a TCP connection that is no *net.TCPConn, given its
// socket. Where raw gives up instead of waiting, Read and Write return its error
// and the bytes moved until then.
func WrapSocket(c net.Conn, raw syscall.RawConn, clock *Clock) *Conn {
	return &Conn{Conn: c, clock: clock, kernel: newSocket(raw)}
}

// Read reads as the wrapped connection does and notes the arrival. A read
// without bytes (the end, an error) changes no note.
func (c *Conn) Read(b []byte) (int, error) {
	if c.kernel != nil && len(b) > 0 {
		n, realtime, err := c.kernel.read(b)
		if n > 0 {
			c.note(n, realtime)
		}
		return n, err
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		now := c.clock.Now()
		c.newest.Store(now << 1)
		c.size.Store(int64(n))
		c.reads.Add(1)
	}
	return n, err
}

// note records a read of a kernel-stamped connection; realtime is 0 if the
// kernel gave no stamp.
func (c *Conn) note(n int, realtime int64) {
	now := c.clock.Now()
	entry := now << 1
	if realtime == 0 {
		c.unstamped.Add(1)
	} else {
		// A stamp may not lie in the future or before the one of older bytes,
		// whatever the kernel's clock did.
		at := max(min(c.clock.FromKernel(realtime), now), c.newest.Load()>>1)
		entry = at<<1 | 1
		c.lag.Add(time.Duration(now - at))
	}
	c.newest.Store(entry)
	c.size.Store(int64(n))
	c.reads.Add(1)
}

// Write writes as the wrapped connection does and notes when it began and when
// the last byte was in the socket.
func (c *Conn) Write(b []byte) (int, error) {
	c.began.Store(c.clock.Now())
	if c.kernel != nil && len(b) > 0 {
		n, at, err := c.kernel.write(b, c.clock)
		if n > 0 {
			c.written.Store(at)
		}
		return n, err
	}
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.written.Store(c.clock.Now())
	}
	return n, err
}

// LastRead is the stamp of the newest read that returned bytes, on the scale of
// the clock, and whether it is the kernel's; 0 before the first.
func (c *Conn) LastRead() (at int64, kernel bool) {
	v := c.newest.Load()
	return v >> 1, v&1 == 1
}

// LastSize is the number of bytes of the newest read that returned any.
func (c *Conn) LastSize() int64 { return c.size.Load() }

// Reads is the number of reads that returned bytes.
func (c *Conn) Reads() int64 { return c.reads.Load() }

// Unstamped is the number of those reads that came without a stamp although the
// connection is kernel-stamped: the first few after the system began to stamp.
// They are stamped at the return of the read.
func (c *Conn) Unstamped() int64 { return c.unstamped.Load() }

// KernelStamped says whether the connection gets the kernel's stamps.
func (c *Conn) KernelStamped() bool { return c.kernel != nil }

// LastWrite is when the last Write had put its bytes into the socket, 0 before
// the first.
func (c *Conn) LastWrite() int64 { return c.written.Load() }

// WriteBegan is when the last Write began, 0 before the first. While it is later
// than LastWrite, that write has not returned: the answer to it may be faster.
func (c *Conn) WriteBegan() int64 { return c.began.Load() }

// Lag counts, for each read with a kernel stamp, the time from the stamp to the
// return of the read. It is empty where the return of the read is the stamp.
func (c *Conn) Lag() *Histogram { return &c.lag }

// Under finds the Conn that c is or wraps, as a TLS connection does through its
// method NetConn; nil if there is none.
func Under(c net.Conn) *Conn {
	for c != nil {
		if conn, ok := c.(*Conn); ok {
			return conn
		}
		wrapper, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = wrapper.NetConn()
	}
	return nil
}
