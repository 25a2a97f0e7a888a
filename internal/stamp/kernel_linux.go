//go:build linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le)

package stamp

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// Kernel says whether this system gives kernel stamps for TCP: Linux does,
// unless a sandbox that imitates it refuses the socket option.
func Kernel() bool {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return enable(uintptr(fd)) == nil
}

func enable(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
}

// socket reads a TCP socket by recvmsg, which also gives the stamp, and writes
// to it. All that a call needs is made once, so that it allocates nothing.
type socket struct {
	in  incoming
	out outgoing
}

type incoming struct {
	raw     syscall.RawConn
	try     func(fd uintptr) bool
	msg     syscall.Msghdr
	iov     syscall.Iovec
	control [8]uint64 // words, for the alignment of the headers in it
	n       int
	errno   syscall.Errno
}

type outgoing struct {
	raw   syscall.RawConn
	try   func(fd uintptr) bool
	clock *Clock
	rest  []byte
	at    int64
	errno syscall.Errno
}

// newSocket gives the socket of a TCP connection, nil if it takes no stamps.
func newSocket(raw syscall.RawConn) *socket {
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = enable(fd) }); err != nil || failed != nil {
		return nil
	}
	s := &socket{in: incoming{raw: raw}, out: outgoing{raw: raw}}
	s.out.try = s.out.send
	r := &s.in
	r.try = r.receive
	r.msg.Iov = &r.iov
	r.msg.Iovlen = 1
	r.msg.Control = (*byte)(unsafe.Pointer(&r.control[0]))
	return s
}

// read reads like the connection's own Read. realtime is the kernel's receive
// time of the newest byte returned, 0 if it gave none.
func (s *socket) read(b []byte) (n int, realtime int64, err error) {
	r := &s.in
	r.iov.Base = &b[0]
	r.iov.SetLen(len(b))
	err = r.raw.Read(r.try)
	r.iov.Base = nil
	switch {
	case err != nil:
		return 0, 0, err
	case r.errno != 0:
		return 0, 0, os.NewSyscallError("recvmsg", r.errno)
	case r.n == 0:
		return 0, 0, io.EOF
	}
	return r.n, r.stamp(), nil
}

// write writes like the connection's own Write. at is the time at which the
// kernel had taken the last byte, on the clock.
func (s *socket) write(b []byte, clock *Clock) (n int, at int64, err error) {
	w := &s.out
	w.rest, w.clock, w.errno = b, clock, 0
	err = w.raw.Write(w.try)
	n = len(b) - len(w.rest)
	w.rest = nil
	if err == nil && w.errno != 0 {
		err = os.NewSyscallError("sendto", w.errno)
	}
	return n, w.at, err
}

// send sends what is left; false asks the runtime to wait until there is room.
// The call never blocks, so it does without the runtime's bookkeeping for calls
// that may, after which a busy scheduler would let the clock be read late.
func (w *outgoing) send(fd uintptr) bool {
	for len(w.rest) > 0 {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&w.rest[0])),
			uintptr(len(w.rest)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			w.at = w.clock.Now()
			w.rest = w.rest[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			w.errno = errno
			return true
		}
	}
	return true
}

// receive is one attempt; false asks the runtime to wait until there is something.
// The call never blocks, so it does without the runtime's bookkeeping for calls that may.
func (r *incoming) receive(fd uintptr) bool {
	for {
		r.msg.SetControllen(int(unsafe.Sizeof(r.control)))
		r.msg.Flags = 0
		n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), syscall.MSG_DONTWAIT)
		r.n, r.errno = int(n), errno
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		return true
	}
}

// stamp finds the time stamp in the control messages of the last call.
func (r *incoming) stamp() int64 {
	base := unsafe.Pointer(&r.control[0])
	length := min(uintptr(r.msg.Controllen), unsafe.Sizeof(r.control))
	var at uintptr
	for at+syscall.SizeofCmsghdr <= length {
		header := (*syscall.Cmsghdr)(unsafe.Add(base, at))
		size := uintptr(header.Len)
		if size < syscall.SizeofCmsghdr || at+size > length {
			return 0
		}
		if header.Level == syscall.SOL_SOCKET && header.Type == syscall.SO_TIMESTAMPNS &&
			size >= syscall.SizeofCmsghdr+unsafe.Sizeof(syscall.Timespec{}) {
			return (*syscall.Timespec)(unsafe.Add(base, at+syscall.SizeofCmsghdr)).Nano()
		}
		at += (size + 7) &^ 7
	}
	return 0
}
