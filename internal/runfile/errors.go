package runfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"speedmatrix"
)

// writeError says why path could not be written, and what helps.
func writeError(path string, err error) error {
	reason, next := bare(err).Error(), ""
	switch {
	case isDiskFull(err):
		reason = "the disk is full"
		next = "Free some space; a run that has begun goes on with speedmatrix run --resume."
	case errors.Is(err, syscall.EROFS):
		reason = "the file system is read-only"
		next = "Choose a directory that can be written."
	case errors.Is(err, fs.ErrPermission):
		reason = "permission denied"
		next = "Choose another directory, or change the permissions of this one."
	case errors.Is(err, syscall.ENOTDIR):
		reason = "a part of the path is a file, not a directory"
		next = "Choose another directory."
	}
	return &speedmatrix.Error{
		Kind: speedmatrix.KindOutput,
		What: fmt.Sprintf("cannot write %s: %s", path, reason),
		Next: next,
		Err:  err,
	}
}

// readError says why path could not be read.
func readError(path string, err error) error {
	reason, next := bare(err).Error(), ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		reason = "permission denied"
		next = "Change the permissions of the file, or run as the user who wrote it."
	}
	return &speedmatrix.Error{
		Kind: speedmatrix.KindOutput,
		What: fmt.Sprintf("cannot read %s: %s", path, reason),
		Next: next,
		Err:  err,
	}
}

// damaged says that a file's contents are not what was written.
func damaged(name, where string, err error) error {
	return &speedmatrix.Error{
		Kind: speedmatrix.KindOutput,
		What: fmt.Sprintf("%s is damaged%s: %s", name, where, err),
		Next: "Restore the file from a copy, or measure again.",
		Err:  err,
	}
}

// bare strips the operation and the path, which the message gives already.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
