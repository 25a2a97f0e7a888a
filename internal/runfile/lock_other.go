//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package runfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// renameOpen: an open file may not be renamed.
const renameOpen = false

// claim needs no lock: an open file cannot be removed.
func claim(*os.File) bool { return true }

// lockName is a file in the folder that only one process has open for itself.
const lockName = ".lock.tmp"

// claimFolder locks a folder by a file in it that cannot be removed while it is open; free is false when another has
// done so.
func claimFolder(path string) (lock *os.File, free bool, err error) {
	name := filepath.Join(path, lockName)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	lock, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, false, nil
	}
	return lock, err == nil, err
}

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
