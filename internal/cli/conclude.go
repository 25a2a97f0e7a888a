package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// conclude shows the result and gives the run's error.
func (r *runner) conclude(err error) error {
	if err != nil && !r.resumed && !anythingMeasured(r.doc) {
		r.out.discard()
		return err
	}
	doc, cleanErr := r.clean(r.doc)
	if cleanErr != nil {
		return cleanErr
	}
	if pageErr := r.savePage(doc); pageErr != nil && err == nil {
		err = pageErr
	}
	r.show.end(doc, r.out.path())
	if err != nil {
		return r.goOn(err)
	}
	return r.failed()
}

// savePage writes the page of a run that has a directory of its own.
func (r *runner) savePage(doc *speedmatrix.Run) error {
	dir, ok := r.out.pages()
	if !ok {
		return nil
	}
	_, err := savePage(doc, dir)
	return err
}

// saveClean writes the run's page without what must not leave.
func (r *runner) saveClean() error {
	doc, err := r.clean(r.doc)
	if err != nil {
		return err
	}
	return r.savePage(doc)
}

// failed is the error of a run in which cells failed; nil without any.
func (r *runner) failed() error {
	if failed := r.count(func(s speedmatrix.Status) bool { return s == speedmatrix.StatusFailed }); failed > 0 {
		return &speedmatrix.Error{Kind: speedmatrix.KindMeasured,
			What: fmt.Sprintf("%d of %d cells failed; the reasons stand in the table", failed, len(r.doc.Cells))}
	}
	return nil
}

// count gives the cells whose status is one of those.
func (r *runner) count(is func(speedmatrix.Status) bool) (n int) {
	for i := range r.doc.Cells {
		if is(r.doc.Cells[i].Status) {
			n++
		}
	}
	return n
}

// goOn says of a server that is gone what is kept, and how the run goes on.
func (r *runner) goOn(err error) error {
	e, ok := errors.AsType[*speedmatrix.Error](err)
	if !ok || e.Kind != speedmatrix.KindMeasured {
		return err
	}
	gone := *e
	_, words, _ := strings.Cut(gone.Next, "\n")
	gone.Next = strings.TrimSpace(fmt.Sprintf("Kept: %s. Go on when it is up again: speedmatrix run --resume %s\n%s",
		plural(r.count(speedmatrix.Status.ShowsSpeed), "cell with its numbers", "cells with their numbers"), r.out.path(), words))
	return &gone
}

// withLog adds to an error about a server that this run started how it ended and what it said last.
func (r *runner) withLog(err error) error {
	server := r.launchedServer()
	e, ok := errors.AsType[*speedmatrix.Error](err)
	if server == nil || !ok || e.Kind != speedmatrix.KindMeasured && e.Kind != speedmatrix.KindNoServer {
		return err
	}
	more := *e
	more.Next = strings.TrimSpace(more.Next + server.LastWords())
	if server.Ended() {
		failure, _ := errors.AsType[*speedmatrix.Error](server.Failure(""))
		more.What += "; " + failure.What
	}
	return &more
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return unit.Count(n) + " " + more
}

// anythingMeasured says whether any cell holds requests.
func anythingMeasured(doc *speedmatrix.Run) bool {
	for i := range doc.Cells {
		if doc.Cells[i].Requests != nil {
			return true
		}
	}
	return false
}

// keep gives the run directory if there is something in it to go on with, and removes it where there is not.
func (o *output) keep(resumed bool) string {
	path := o.path()
	if path == "" || resumed {
		return path
	}
	if _, err := os.Stat(filepath.Join(path, "run.json")); err != nil {
		o.discard()
		return ""
	}
	return path
}
