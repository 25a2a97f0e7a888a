//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package runfile

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// renameOpen: an open file may not be renamed.
const renameOpen = false

// claim needs no lock: an open file cannot be removed.
func claim(*os.File) bool { return true }

// removeAbandoned removes a temporary file unless a process has it open.
func removeAbandoned(path string) { _ = os.Remove(path) }

// syncFolder has nothing to do: a folder cannot be synced.
func syncFolder(string) error { return nil }

func isDiskFull(err error) bool {
	const windowsHandleDiskFull, windowsDiskFull = syscall.Errno(39), syscall.Errno(112)
	if runtime.GOOS == "windows" && (errors.Is(err, windowsHandleDiskFull) || errors.Is(err, windowsDiskFull)) {
		return true
	}
	return errors.Is(err, syscall.ENOSPC)
}
