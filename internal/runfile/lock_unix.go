//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package runfile

import (
	"errors"
	"os"
	"syscall"
)

// renameOpen: an open file may be renamed.
const renameOpen = true

// claim locks a new temporary file for as long as it is open. It is false when
// the file has been swept away meanwhile. A file system without locks is no hindrance.
func claim(file *os.File) bool {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false
	}
	here, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(file.Name())
	return err == nil && os.SameFile(here, there)
}

// claimFolder locks a folder for as long as the file that it gives is open; free is false when another has done so.
// A file system without locks is no hindrance.
func claimFolder(path string) (lock *os.File, free bool, err error) {
	folder, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	if errors.Is(syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return nil, false, folder.Close()
	}
	return folder, true, nil
}

// removeAbandoned removes a temporary file that no process holds.
func removeAbandoned(path string) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.Remove(path)
	}
}

// syncFolder makes a rename in the folder last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	// Some network file systems cannot sync a folder.
	if err := folder.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
