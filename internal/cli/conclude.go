package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// conclude shows the result and gives the run's error.
func (r *runner) conclude(err error) error {
	if err != nil && !r.resumed && !anythingMeasured(r.doc) {
		r.out.discard()
		return err
	}
	if dir, ok := r.out.pages(); ok {
		if _, pageErr := savePage(r.doc, dir); pageErr != nil && err == nil {
			err = pageErr
		}
	}
	r.show.end(r.doc, r.out.path())
	if err != nil {
		return r.goOn(err)
	}
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
	gone.Next = fmt.Sprintf("Kept: %s. Go on when it is up again: speedmatrix run --resume %s",
		plural(r.count(speedmatrix.Status.ShowsSpeed), "cell with its numbers", "cells with their numbers"), r.out.path())
	return &gone
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
