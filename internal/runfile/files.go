package runfile

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"

	"speedmatrix"
)

// Files reads the rows of a run whose files are kept elsewhere, under the names that they have in a run directory. Its
// methods may be called at the same time.
type Files struct {
	names []string
	open  func(name string) (io.ReadSeekCloser, error)
}

// ReadFiles gives the rows among files of those names. open is called for each file when it is read; what it gives is read
// where it lies if it is an io.ReaderAt, else as a whole into memory.
func ReadFiles(names []string, open func(name string) (io.ReadSeekCloser, error)) *Files {
	return &Files{names, open}
}

// HasCell says whether both files of a cell are there.
func (f *Files) HasCell(key string) bool {
	return goodKey(key) && slices.Contains(f.names, eventsName(key)) && slices.Contains(f.names, requestsName(key))
}

// Events reads the events of a cell in the order in which they were saved. After an error, which is the last pair, there
// are no more rows.
func (f *Files) Events(key string) iter.Seq2[speedmatrix.EventRow, error] {
	return rowsIn[speedmatrix.EventRow](f, eventsName(key))
}

// Requests reads the requests of a cell.
func (f *Files) Requests(key string) ([]speedmatrix.RequestRow, error) {
	return collect(rowsIn[speedmatrix.RequestRow](f, requestsName(key)))
}

// Server reads the scrapes of the run; a run without any has none.
func (f *Files) Server() ([]speedmatrix.ServerRow, error) {
	if !slices.Contains(f.names, serverName) {
		return nil, nil
	}
	return collect(rowsIn[speedmatrix.ServerRow](f, serverName))
}

// Machine reads the samples of the machine; a run without any has none.
func (f *Files) Machine() ([]speedmatrix.MachineRow, error) {
	if !slices.Contains(f.names, machineName) {
		return nil, nil
	}
	return collect(rowsIn[speedmatrix.MachineRow](f, machineName))
}

// rowsIn reads one file as a table.
func rowsIn[T any](f *Files, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		file, err := f.open(name)
		if err != nil {
			yield(none, readError(name, err))
			return
		}
		defer file.Close()
		at, size, err := readerAt(file)
		if err != nil {
			yield(none, readError(name, err))
			return
		}
		readFrom(at, size, name, yield)
	}
}

// readerAt gives a file's bytes at any place, and their number.
func readerAt(file io.ReadSeekCloser) (io.ReaderAt, int64, error) {
	at, ok := file.(io.ReaderAt)
	if !ok {
		data, err := io.ReadAll(file)
		return bytes.NewReader(data), int64(len(data)), err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, fmt.Errorf("find its length: %w", err)
	}
	return at, size, nil
}
