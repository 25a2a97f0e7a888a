package runfile

import (
	"io"
	"os"
	"path/filepath"
)

// pageName is the run's page.
const pageName = "report.html"

// SavePage writes report.html as a whole or not at all, and gives its path.
func (d *Dir) SavePage(write func(w io.Writer) error) (path string, err error) {
	path = filepath.Join(d.path, pageName)
	return path, replace(path, write)
}

// sourceName is the folder of the files that an imported run was made of.
const sourceName = "source"

// SaveSource keeps a file that an imported run was made of, by its bare name.
func (d *Dir) SaveSource(name string, data []byte) error {
	folder := filepath.Join(d.path, sourceName)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return writeError(folder, err)
	}
	return replace(filepath.Join(folder, filepath.Base(name)), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
