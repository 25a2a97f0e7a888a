package runfile

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"speedmatrix"
)

// SaveCell writes the rows of a cell, each file as a whole or not at all. Rows of
// an earlier attempt are replaced; requests and events of two attempts never stand
// side by side. events is read once, in batches.
func (d *Dir) SaveCell(key string, requests []speedmatrix.RequestRow, events iter.Seq[speedmatrix.EventRow]) error {
	if err := checkKey(key); err != nil {
		return err
	}
	newRequests, err := stage(d.requestsPath(key), func(w io.Writer) error {
		return writeTable(w, slices.Values(requests))
	})
	if err != nil {
		return err
	}
	newEvents, err := stage(d.eventsPath(key), func(w io.Writer) error { return writeTable(w, events) })
	if err != nil {
		newRequests.discard()
		return err
	}
	if err := os.Remove(d.eventsPath(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		newRequests.discard()
		newEvents.discard()
		return writeError(d.eventsPath(key), err)
	}
	if err := newRequests.commit(); err != nil {
		newEvents.discard()
		return err
	}
	return newEvents.commit()
}

// HasCell says whether both files of a cell are there.
func (d *Dir) HasCell(key string) bool {
	if !goodKey(key) {
		return false
	}
	return isFile(d.eventsPath(key)) && isFile(d.requestsPath(key))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Events reads the events of a cell in the order in which they were saved. After
// an error, which is the last pair, there are no more rows.
func (d *Dir) Events(key string) iter.Seq2[speedmatrix.EventRow, error] {
	if err := checkKey(key); err != nil {
		return func(yield func(speedmatrix.EventRow, error) bool) { yield(speedmatrix.EventRow{}, err) }
	}
	return readTable[speedmatrix.EventRow](d.eventsPath(key))
}

// Requests reads the requests of a cell.
func (d *Dir) Requests(key string) ([]speedmatrix.RequestRow, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return collect(readTable[speedmatrix.RequestRow](d.requestsPath(key)))
}

// SaveServer writes the scrapes of the run, all of them, as a whole or not at all.
func (d *Dir) SaveServer(rows []speedmatrix.ServerRow) error { return saveRows(d, serverName, rows) }

// Server reads the scrapes of the run; a run without any has none.
func (d *Dir) Server() ([]speedmatrix.ServerRow, error) {
	return rowsOf[speedmatrix.ServerRow](d, serverName)
}

// SaveMachine writes the samples of the machine, all of them, as a whole or not at all.
func (d *Dir) SaveMachine(rows []speedmatrix.MachineRow) error { return saveRows(d, machineName, rows) }

// Machine reads the samples of the machine; a run without any has none.
func (d *Dir) Machine() ([]speedmatrix.MachineRow, error) {
	return rowsOf[speedmatrix.MachineRow](d, machineName)
}

func saveRows[T any](d *Dir, name string, rows []T) error {
	return replace(filepath.Join(d.path, name), func(w io.Writer) error { return writeTable(w, slices.Values(rows)) })
}

// rowsOf reads a file of rows that need not be there.
func rowsOf[T any](d *Dir, name string) ([]T, error) {
	path := filepath.Join(d.path, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return collect(readTable[T](path))
}

func collect[T any](rows iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}
