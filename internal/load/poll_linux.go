package load

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"speedmatrix/internal/stamp"
)

// systemPoller makes pollers of this system.
func systemPoller() func(*stamp.Clock) (poller, error) {
	return func(clock *stamp.Clock) (poller, error) { return newEpoll(clock) }
}

// wakeLane marks the event that ends a wait.
const wakeLane = -1

// epollBatch is how many events one wait takes at most.
const epollBatch = 1024

// spinFor is the time that is not slept away: who sleeps between the requests of a
// launch comes back late where others wait for the processor.
const spinFor = 200 * time.Microsecond

// sysEpollPwait2 waits with a timeout in nanoseconds; its number is the same on all processors.
const sysEpollPwait2 = 441

// epoll is the poller of Linux.
type epoll struct {
	clock  *stamp.Clock
	fd     int
	events [epollBatch]syscall.EpollEvent
	coarse bool // the system has no wait in nanoseconds

	mu   sync.Mutex // guards the use of bell against close
	bell int        // eventfd, −1 once closed
}

// newEpoll makes a poller whose connections are stamped by the clock.
func newEpoll(clock *stamp.Clock) (*epoll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("eventfd2", errno)
	}
	p := &epoll{clock: clock, fd: fd, bell: int(bell)}
	if err := p.watch(p.bell, wakeLane, syscall.EPOLLIN); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *epoll) watch(fd int, lane int32, what uint32) error {
	event := syscall.EpollEvent{Events: what, Fd: lane}
	if err := syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	return nil
}

// add takes the socket of a TCP connection out of the runtime's hands.
func (p *epoll) add(conn net.Conn, lane int32) (*stamp.Conn, error) {
	defer conn.Close()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("a %T has no socket of its own", conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	failed := raw.Control(func(own uintptr) {
		copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, own, syscall.F_DUPFD_CLOEXEC, 0)
		if errno != 0 {
			err = os.NewSyscallError("fcntl", errno)
			return
		}
		fd = int(copied)
	})
	if err := cmp.Or(failed, err); err != nil {
		return nil, err
	}
	s := &rawSocket{fd: fd}
	const edges = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | 1<<31 // EPOLLET
	if err := p.watch(s.fd, lane, edges); err != nil {
		_ = s.Close()
		return nil, err
	}
	return stamp.WrapSocket(s, socketCalls{uintptr(s.fd)}, p.clock), nil
}

func (p *epoll) wait(ready []event, d time.Duration) ([]event, error) {
	n, errno := p.sleep(d)
	if errno == syscall.EINTR {
		return ready, nil
	}
	if errno != 0 {
		return ready, os.NewSyscallError("epoll_wait", errno)
	}
	for i := range n {
		e := &p.events[i]
		if e.Fd == wakeLane {
			var count [8]byte
			_, _ = syscall.Read(p.bell, count[:]) // that it rang is all there is to know
			continue
		}
		ready = append(ready, event{lane: e.Fd, in: e.Events&syscall.EPOLLIN != 0, out: e.Events&syscall.EPOLLOUT != 0,
			gone: e.Events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0})
	}
	return ready, nil
}

// sleep waits for events, first without sleeping, which is the usual case under load.
func (p *epoll) sleep(d time.Duration) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), epollBatch, 0, 0, 0)
	if n > 0 || errno != 0 || d <= spinFor {
		return int(n), errno
	}
	if !p.coarse {
		limit := syscall.NsecToTimespec(int64(d))
		n, _, errno = syscall.Syscall6(sysEpollPwait2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), epollBatch, uintptr(unsafe.Pointer(&limit)), 0, 0)
		if errno != syscall.ENOSYS {
			return int(n), errno
		}
		p.coarse = true
	}
	millis := (d + time.Millisecond - 1) / time.Millisecond
	n, _, errno = syscall.Syscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), epollBatch, uintptr(millis), 0, 0)
	return int(n), errno
}

// nap is not time.Sleep, which may take a millisecond longer.
func (p *epoll) nap(d time.Duration) {
	limit := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&limit, nil) // a nap cut short by a signal is as good
}

func (p *epoll) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bell >= 0 {
		one := [8]byte{7: 1}
		_, _ = syscall.Write(p.bell, one[:]) // a bell that is full has rung
	}
}

func (p *epoll) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bell >= 0 {
		_ = syscall.Close(p.bell)
		_ = syscall.Close(p.fd)
		p.bell = -1
	}
}

// rawSocket is a socket that gives errAgain instead of waiting. Of net.Conn it
// has what stamp.Conn uses.
type rawSocket struct {
	net.Conn // nil
	fd       int
}

func (s *rawSocket) Read(b []byte) (int, error) {
	n, err := syscall.Read(s.fd, b)
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

func (s *rawSocket) Write(b []byte) (int, error) {
	n, err := syscall.Write(s.fd, b)
	return max(n, 0), err
}

func (s *rawSocket) Close() error { return syscall.Close(s.fd) }

// socketCalls gives a socket's calls to stamp.Conn; it never waits.
type socketCalls struct{ fd uintptr }

func (s socketCalls) Control(f func(fd uintptr)) error { f(s.fd); return nil }

func (s socketCalls) Read(f func(fd uintptr) bool) error { return orAgain(f(s.fd)) }

func (s socketCalls) Write(f func(fd uintptr) bool) error { return orAgain(f(s.fd)) }

func orAgain(done bool) error {
	if done {
		return nil
	}
	return errAgain
}
