package cli

import "golang.org/x/sys/unix"

// boundMemory has the system refuse this process more memory than so many bytes.
func boundMemory(bytes uint64) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes})
}
