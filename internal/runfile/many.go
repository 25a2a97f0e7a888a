package runfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"speedmatrix"
)

// LoadAll reads the documents of many runs at the same time, each of a run directory or a file of its own such as
// run.json. What is odd in them are warnings. The error is that of the first path that cannot be read.
func LoadAll(paths []string) ([]*speedmatrix.Run, []speedmatrix.Warning, error) {
	runs := make([]*speedmatrix.Run, len(paths))
	warnings := make([][]speedmatrix.Warning, len(paths))
	errs := make([]error, len(paths))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(paths)) {
		wg.Go(func() {
			for i := range next {
				runs[i], warnings[i], errs[i] = loadOne(paths[i])
			}
		})
	}
	for i := range paths {
		next <- i
	}
	close(next)
	wg.Wait()
	var all []speedmatrix.Warning
	for i, err := range errs {
		if err != nil {
			return nil, nil, err
		}
		for _, w := range warnings[i] {
			w.Message = paths[i] + ": " + w.Message
			all = append(all, w)
		}
	}
	return runs, all, nil
}

// loadOne reads one document. A directory is only read: what a killed run left there stays.
func loadOne(path string) (*speedmatrix.Run, []speedmatrix.Warning, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("there is no run %s", path),
			Next: "Name the directory that a run wrote, or its " + runName + ".", Err: err}
	case err != nil:
		return nil, nil, readError(path, err)
	}
	file := path
	if info.IsDir() {
		file = filepath.Join(path, runName)
	}
	data, err := os.ReadFile(file)
	if err == nil {
		if run, ok := decodeKnown(data); ok {
			return run, nil, nil
		}
	}
	switch {
	case info.IsDir():
		return (&Dir{path: path}).LoadRun()
	case err != nil:
		return nil, nil, readError(path, err)
	}
	run, warnings, err := Decode(data)
	if e, ok := errors.AsType[*speedmatrix.Error](err); ok {
		named := *e
		named.What = path + ": " + e.What
		return nil, nil, &named
	}
	return run, warnings, err
}

// decodeKnown reads a document in which everything is known, in one pass; ok is false for any other.
func decodeKnown(data []byte) (r *speedmatrix.Run, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	r = &speedmatrix.Run{}
	if d.Decode(r) != nil || r.Schema != speedmatrix.Schema {
		return nil, false
	}
	_, err := d.Token()
	return r, errors.Is(err, io.EOF)
}
