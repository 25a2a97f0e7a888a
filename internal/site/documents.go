package site

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"speedmatrix/internal/catalog"
)

// publishedRun is a line of all documents: what lists say of a run, and its document as it was uploaded.
type publishedRun struct {
	Run      catalog.View    `json:"run"`
	Document json.RawMessage `json:"document"`
}

// linesTime is how long a visitor may take for a page of the lines.
const linesTime = 2 * time.Minute

// documents sends every listed run that the parameters of /runs match as JSON lines, the newest first: the whole site in one
// file, which is never held in memory.
func (p *pages) documents(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuestion(r.URL.Query(), p.Now())
	if err != nil {
		return err
	}
	q.Sort, q.All, q.Limit, q.Cursor = catalog.ByNewest, true, pageOfIndex, ""
	page, err := p.Index.Find(q.Query)
	if err != nil {
		return refusedQuestion(err)
	}
	zipped := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	if fresh(w, r, p.tag(r, "documents", q.params.Encode(), p.Index.Sequence(), midnight(p.Now()).Unix(), zipped)) {
		return nil
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Security-Policy", filePolicy)
	out, end := io.Writer(w), func() error { return nil }
	if zipped {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		out, end = z, z.Close
	}
	if r.Method == http.MethodHead {
		return nil
	}
	for err == nil {
		// A connection without deadlines is one of a test.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(linesTime))
		if err = p.writeDocuments(out, r, page.Entries); err != nil {
			break
		}
		if page.Next == "" {
			return end()
		}
		q.Cursor = page.Next
		page, err = p.Index.Find(q.Query)
	}
	if r.Context().Err() == nil {
		p.Log.ErrorContext(r.Context(), "the lines of all documents broke off", "error", err)
	}
	panic(http.ErrAbortHandler) // so that nobody takes the beginning for the whole
}

func (p *pages) writeDocuments(w io.Writer, r *http.Request, runs []*catalog.Entry) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, run := range runs {
		rec, err := p.Store.Get(r.Context(), run.ID, 0)
		if errors.Is(err, catalog.ErrNotFound) || err == nil && !rec.Entry.Visibility.Listed() {
			continue // since the list was made
		}
		if err == nil {
			err = e.Encode(publishedRun{rec.Entry.View(p.Base), json.RawMessage(rec.Document)})
		}
		if err != nil {
			return fmt.Errorf("run %s: %w", run.ID, err)
		}
	}
	return nil
}
