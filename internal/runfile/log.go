package runfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// logName is the output of the server, where the run started it.
const logName = "engine.log"

// SaveLog writes engine.log as a whole or not at all.
func (d *Dir) SaveLog(log io.WriterTo) error {
	return replace(filepath.Join(d.path, logName), func(w io.Writer) error {
		_, err := log.WriteTo(w)
		return err
	})
}

// Log reads engine.log; nothing where there is none.
func (d *Dir) Log() ([]byte, error) {
	path := filepath.Join(d.path, logName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(path, err)
	}
	return data, nil
}
