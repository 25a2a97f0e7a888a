// Package runfile is the run directory: the document run.json and the rows
// under it as Parquet files. It is the only package that opens one.
//
//	run.json                          the document
//	cells/decode-16k-x8.parquet       one row per recorded event of a cell
//	cells/requests-decode-16k-x8.parquet   one row per request of a cell
//	server.parquet                    one row per scrape of the server
//	machine.parquet                   one row per sample of the machine or a GPU
//
// Every file is written beside its place and moved there when it is complete and
// on the disk, so a file under its own name is always whole. Errors are
// *speedmatrix.Error of KindOutput.
package runfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"speedmatrix"
)

// The names inside a run directory.
const (
	runName        = "run.json"
	serverName     = "server.parquet"
	machineName    = "machine.parquet"
	cellsName      = "cells"
	requestsPrefix = "requests-"
	rowsSuffix     = ".parquet"
)

// Dir is an open run directory. Its methods may be called at the same time as
// long as no two of them write the same file.
type Dir struct {
	path string
	lock *os.File
}

// CheckNew says why Create could not make dir, nil if nothing is known against it. It leaves nothing behind.
func CheckNew(dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return exists(dir, fs.ErrExist)
	}
	at := filepath.Dir(filepath.Clean(dir))
	for {
		_, err := os.Stat(at)
		if err == nil {
			break
		}
		if up := filepath.Dir(at); errors.Is(err, fs.ErrNotExist) && up != at {
			at = up
			continue
		}
		return writeError(dir, err)
	}
	trial, err := os.MkdirTemp(at, ".speedmatrix-")
	if err != nil {
		return writeError(dir, err)
	}
	if err := os.Remove(trial); err != nil {
		return writeError(dir, err)
	}
	return nil
}

func exists(dir string, err error) error {
	next := "Choose another directory."
	if _, missing := os.Stat(filepath.Join(dir, runName)); missing == nil {
		next = "Choose another directory, or go on with this run: speedmatrix run --resume " + dir
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("%s exists already", dir), Next: next, Err: err}
}

// Create makes a new run directory with its parents, and locks it. It must not exist.
func Create(dir string) (*Dir, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, writeError(filepath.Dir(dir), err)
	}
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil, exists(dir, err)
	}
	if err != nil {
		return nil, writeError(dir, err)
	}
	if err := os.Mkdir(filepath.Join(dir, cellsName), 0o755); err != nil {
		return nil, writeError(filepath.Join(dir, cellsName), err)
	}
	d := &Dir{path: dir}
	if err := d.Lock(); err != nil {
		return nil, err
	}
	return d, nil
}

// Lock claims the directory for the one process that may write it; nothing else keeps others from reading. It fails
// while another process, or another Dir, has claimed it.
func (d *Dir) Lock() error {
	lock, free, err := claimFolder(d.path)
	if err != nil {
		return writeError(d.path, err)
	}
	if !free {
		return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("another process is measuring into %s", d.path),
			Next: "Wait until it ends, or end it."}
	}
	d.lock = lock
	return nil
}

// Close gives up the claim of Lock or Create.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	lock := d.lock
	d.lock = nil
	return lock.Close()
}

// Open opens a run directory and removes what a killed run left half written.
// Files that a living process is writing stay.
func Open(dir string) (*Dir, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &speedmatrix.Error{
			Kind: speedmatrix.KindOutput,
			What: fmt.Sprintf("there is no run directory %s", dir),
			Next: "Name the directory that a run wrote: it holds " + runName + ".",
			Err:  err,
		}
	case err != nil:
		return nil, readError(dir, err)
	case !info.IsDir():
		return nil, &speedmatrix.Error{
			Kind: speedmatrix.KindOutput,
			What: fmt.Sprintf("%s is a file, not a run directory", dir),
			Next: "Name the directory that a run wrote: it holds " + runName + ".",
		}
	}
	d := &Dir{path: dir}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, readError(dir, err)
	}
	d.sweep()
	return d, nil
}

// Path is the directory as it was named.
func (d *Dir) Path() string { return d.path }

// sweep removes leftover temporary files. A directory that cannot be written
// can still be read, so failures are no error.
func (d *Dir) sweep() {
	for _, folder := range []string{d.path, filepath.Join(d.path, cellsName)} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Type().IsRegular() && isTemporary(e.Name()) {
				removeAbandoned(filepath.Join(folder, e.Name()))
			}
		}
	}
}

// eventsPath is the event file of a cell.
func (d *Dir) eventsPath(key string) string {
	return filepath.Join(d.path, filepath.FromSlash(eventsName(key)))
}

// requestsPath is the request file of a cell.
func (d *Dir) requestsPath(key string) string {
	return filepath.Join(d.path, filepath.FromSlash(requestsName(key)))
}

// eventsName and requestsName are the names of a cell's files in a run directory, with slashes.
func eventsName(key string) string   { return cellsName + "/" + key + rowsSuffix }
func requestsName(key string) string { return cellsName + "/" + requestsPrefix + key + rowsSuffix }

// goodKey says whether a cell's key is a plain file name.
func goodKey(key string) bool {
	return key != "" && !strings.HasPrefix(key, ".") && !strings.ContainsAny(key, `/\:`) && filepath.IsLocal(key)
}

func checkKey(key string) error {
	if goodKey(key) {
		return nil
	}
	return &speedmatrix.Error{
		Kind: speedmatrix.KindOutput,
		What: fmt.Sprintf("the cell key %q cannot name a file", key),
	}
}
