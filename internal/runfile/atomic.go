package runfile

import (
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// staged is a file that is complete and on the disk, but not yet in its place.
type staged struct {
	file  *os.File
	final string
}

// stage writes a file beside its place and syncs it. On an error nothing is left.
func stage(final string, write func(io.Writer) error) (*staged, error) {
	file, err := createTemporary(final)
	if err != nil {
		return nil, writeError(final, err)
	}
	s := &staged{file: file, final: final}
	complete := false
	defer func() {
		if !complete {
			s.discard()
		}
	}()
	sink := &errWriter{w: file}
	if err := write(sink); err != nil {
		if sink.err != nil {
			return nil, writeError(final, sink.err)
		}
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, writeError(final, err)
	}
	complete = true
	return s, nil
}

// commit moves the file to its place and makes the move itself last.
func (s *staged) commit() error {
	temporary := s.file.Name()
	if renameOpen {
		// The lock is held until the file has its own name: nobody takes it for abandoned.
		defer s.file.Close()
	} else if err := s.file.Close(); err != nil {
		return writeError(s.final, err)
	}
	if err := os.Rename(temporary, s.final); err != nil {
		_ = os.Remove(temporary)
		return writeError(s.final, err)
	}
	if err := syncFolder(filepath.Dir(s.final)); err != nil {
		return writeError(s.final, err)
	}
	return nil
}

func (s *staged) discard() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}

// replace writes a file as a whole or not at all.
func replace(final string, write func(io.Writer) error) error {
	s, err := stage(final, write)
	if err != nil {
		return err
	}
	return s.commit()
}

// errWriter remembers the first failure of the file, so that it is told apart
// from a failure to make the contents.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) Write(p []byte) (int, error) {
	n, err := e.w.Write(p)
	if err != nil && e.err == nil {
		e.err = err
	}
	return n, err
}

// createTemporary opens a new, locked file for what becomes final.
func createTemporary(final string) (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(final), "."+filepath.Base(final)+"."+rand.Text()[:10]+".tmp")
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return nil, err
		}
		if claim(file) {
			return file, nil
		}
		// A sweep was quicker than the lock and has removed the file.
		_ = file.Close()
	}
}

func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp")
}
