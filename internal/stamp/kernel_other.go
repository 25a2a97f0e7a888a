//go:build !(linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le))

package stamp

import "syscall"

// Kernel says whether this system gives kernel stamps for TCP: it does not.
func Kernel() bool { return false }

// socket does not exist on this system.
type socket struct{}

func newSocket(syscall.RawConn) *socket { return nil }

func (*socket) read([]byte) (n int, realtime int64, err error) { return 0, 0, nil }

func (*socket) write([]byte, *Clock) (n int, at int64, err error) { return 0, 0, nil }
