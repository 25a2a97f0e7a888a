package cli

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"

	"speedmatrix"
	"speedmatrix/internal/report"
)

// pages keeps a run's rows and its page; *runfile.Dir does.
type pages interface {
	report.Rows
	SavePage(write func(w io.Writer) error) (path string, err error)
}

// savePage writes the run's page beside its document and gives the page's path.
func savePage(doc *speedmatrix.Run, dir pages) (string, error) {
	return dir.SavePage(func(w io.Writer) error {
		return report.HTML(w, report.Build(doc), report.HTMLOptions{Rows: dir})
	})
}

// openPage shows a page in the user's browser.
func openPage(path string) error {
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", path)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", path)
	default:
		cmd = exec.Command("xdg-open", path)
	}
	if err := cmd.Start(); err != nil {
		return &speedmatrix.Error{Kind: speedmatrix.KindInternal, What: fmt.Sprintf("no browser could be started: %v", err),
			Next: "Open the page yourself: " + path, Err: err}
	}
	return cmd.Process.Release()
}
