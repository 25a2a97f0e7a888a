package runfile

import (
	"io"
	"path/filepath"
)

// pageName is the run's page.
const pageName = "report.html"

// SavePage writes report.html as a whole or not at all, and gives its path.
func (d *Dir) SavePage(write func(w io.Writer) error) (path string, err error) {
	path = filepath.Join(d.path, pageName)
	return path, replace(path, write)
}
