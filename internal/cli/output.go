package cli

import (
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/runfile"
)

// Store keeps the files of a run; *runfile.Dir is one.
type Store interface {
	bench.Store
	bench.Earlier
	Path() string
	Server() ([]speedmatrix.ServerRow, error)
	Machine() ([]speedmatrix.MachineRow, error)
}

// logs is a store that keeps the log of a server; *runfile.Dir is one.
type logs interface {
	SaveLog(log io.WriterTo) error
	Log() ([]byte, error)
}

// rowsOf are the events of a cell.
type rowsOf = iter.Seq[speedmatrix.EventRow]

// runsFolder is where runs go that are given no place.
const runsFolder = "runs"

// output is where a run is kept; the directory is made only when the measuring begins.
type output struct {
	mu    sync.Mutex
	store Store
	// made are the directories that were made for the run, the deepest first.
	made []string
}

// close lets go of the run directory, so that another process may go on with the run.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c, ok := o.store.(io.Closer); ok {
		_ = c.Close()
	}
}

// checkOutput refuses a place where no run directory can be made; "" is the usual place.
func checkOutput(path string) error {
	if path == "" {
		path = filepath.Join(runsFolder, "new")
	}
	return runfile.CheckNew(path)
}

// create makes the run directory and those above it.
func (o *output) create(path string, create func(string) (Store, error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var made []string
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		made = append(made, at)
	}
	store, err := create(path)
	o.made = made
	if err != nil {
		o.removeEmpty()
		return err
	}
	o.store = store
	return nil
}

// adopt takes the directory of a run that goes on.
func (o *output) adopt(store Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store = store
}

// pages is the run directory as what keeps a page; ok is false while there is none.
func (o *output) pages() (dir pages, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dir, ok = o.store.(pages)
	return dir, ok
}

// path is the run directory, "" while there is none.
func (o *output) path() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.store == nil {
		return ""
	}
	return o.store.Path()
}

// discard removes the directory of a run in which nothing was measured.
func (o *output) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.store == nil {
		return
	}
	_ = os.RemoveAll(o.store.Path())
	o.store = nil
	o.removeEmpty()
}

// removeEmpty removes the directories that were made, as far as they are empty.
func (o *output) removeEmpty() {
	for _, dir := range o.made {
		if os.Remove(dir) != nil {
			if _, err := os.Lstat(dir); err == nil {
				return
			}
		}
	}
}
