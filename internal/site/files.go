package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
)

// whole reads a version of a run whose numbers the visitor may see.
func (p *pages) whole(r *http.Request, version int) (catalog.Record, error) {
	rec, err := p.record(r, version)
	if err != nil {
		return rec, err
	}
	if !p.shown(account.FromContext(r.Context()), &rec.Entry) {
		return rec, &failure{status: http.StatusGone, Title: "This run was withdrawn", Says: "Its numbers are shown no more.", Link: "/runs/" + rec.Entry.ID, LinkText: "Who withdrew it, and why"}
	}
	return rec, nil
}

// versionAsked is the version that an address names behind ?v=, 0 for the latest.
func versionAsked(r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("v"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// runFile writes a run's document in a form.
func (p *pages) runFile(w http.ResponseWriter, r *http.Request, form string) error {
	kinds := map[string]string{"json": "application/json", "csv": "text/csv; charset=utf-8", "md": "text/markdown; charset=utf-8"}
	kind, known := kinds[form]
	if !known {
		return nothing("form of a run")
	}
	rec, err := p.whole(r, versionAsked(r))
	if err != nil || fresh(w, r, p.tag(r, rec.Entry.ID, rec.Entry.Sequence, form)) {
		return err
	}
	data := rec.Document
	if form != "json" {
		if data, err = rendered(&rec, map[string]func(io.Writer, *report.Document) error{"csv": report.CSV, "md": report.Markdown}[form]); err != nil {
			return err
		}
	}
	return send(w, kind, data)
}

// rendered is a run's document as one of its forms.
func rendered(rec *catalog.Record, write func(io.Writer, *report.Document) error) ([]byte, error) {
	run, _, err := runfile.Decode(rec.Document)
	if err != nil {
		return nil, fmt.Errorf("read the document of run %s: %w", rec.Entry.ID, err)
	}
	var out bytes.Buffer
	if err := write(&out, report.Build(run)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// send writes a file that no browser may take for a page; pictures may stand on other sites.
func send(w http.ResponseWriter, kind string, data []byte) error {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", filePolicy)
	if strings.HasPrefix(kind, "image/") {
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	_, _ = w.Write(data) // nobody is there to be told
	return nil
}

// filePolicy is that of files: a drawing has a style of its own, and nothing runs.
const filePolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// file sends one of a run's files as it was uploaded.
func (p *pages) file(w http.ResponseWriter, r *http.Request) error {
	rec, err := p.whole(r, versionAsked(r))
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	for _, b := range rec.Blobs {
		if b.Name != name {
			continue
		}
		f, err := p.Files.Open(r.Context(), b.Hash)
		if err != nil {
			return fmt.Errorf("open %s of run %s: %w", name, rec.Entry.ID, err)
		}
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", filePolicy)
		h.Set("Content-Disposition", `attachment; filename="`+plainName(path.Base(name))+`"`)
		h.Set("ETag", `"`+b.Hash+`"`)
		h.Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, f)
		return f.Close()
	}
	return nothing("file")
}

// plainName is a file's name in a header.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, name)
}

// rowsDrawing draws raw rows: /runs/ID/rows/decode-16k-x8.window.svg, /runs/ID/rows/machine.svg.
func (p *pages) rowsDrawing(w http.ResponseWriter, r *http.Request) error {
	name, ok := strings.CutSuffix(r.PathValue("drawing"), ".svg")
	if !ok || p.Rows == nil {
		return nothing("drawing")
	}
	cell, drawing, found := cutLast(name, ".")
	if !found {
		cell, drawing = "", name
	}
	rec, err := p.whole(r, versionAsked(r))
	if err != nil || fresh(w, r, p.tag(r, rec.Entry.ID, rec.Entry.Version, rec.Entry.Visibility, name)) {
		return err
	}
	parts, err := p.pictures.get(fmt.Sprintf("rows %s %d %s", rec.Entry.ID, rec.Entry.Version, name), func() ([][]byte, error) {
		data, err := p.drawRows(context.WithoutCancel(r.Context()), &rec, [2]string{cell, drawing})
		return [][]byte{data}, err
	})
	if err != nil {
		return err
	}
	return send(w, "image/svg+xml", parts[0])
}

func (p *pages) drawRows(ctx context.Context, rec *catalog.Record, of [2]string) ([]byte, error) {
	rows, err := p.Rows(ctx, rec.Blobs)
	if err != nil {
		return nil, fmt.Errorf("open the raw rows of run %s: %w", rec.Entry.ID, err)
	}
	data, err := rendered(rec, func(w io.Writer, d *report.Document) error { return report.RowsSVG(w, d, rows, of) })
	var refused *speedmatrix.Error
	if errors.As(err, &refused) && refused.Kind == speedmatrix.KindUsage {
		return nil, nothing("drawing")
	}
	return data, err
}

// card sends the picture for link previews.
func (p *pages) card(w http.ResponseWriter, r *http.Request) error {
	rec, err := p.whole(r, 0)
	if err != nil || fresh(w, r, p.tag(r, rec.Entry.ID, rec.Entry.Version, rec.Entry.Visibility, "card")) {
		return err
	}
	parts, err := p.pictures.get(fmt.Sprintf("card %s %d", rec.Entry.ID, rec.Entry.Version), func() ([][]byte, error) {
		data, err := rendered(&rec, report.Card)
		return [][]byte{data}, err
	})
	if err != nil {
		return err
	}
	return send(w, "image/png", parts[0])
}
