package ingest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/blob"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/catalog/catalogtest"
	"speedmatrix/internal/ingest"
)

// small is a measured run of two cells with its rows.
const small = "testdata/small"

var today = time.Date(2026, 12, 2, 10, 0, 0, 0, time.UTC)

// world is a site's intake in memory.
type world struct {
	t     *testing.T
	store *catalogtest.Memory
	blobs *blob.Memory
	index *catalog.Index
	*ingest.Service
	folder string
}

func newWorld(t *testing.T, change ...func(*ingest.Options)) *world {
	t.Helper()
	w := &world{t: t, store: catalogtest.NewMemory(), blobs: &blob.Memory{}, index: catalog.NewIndex(), folder: t.TempDir()}
	o := ingest.Options{Store: w.store, Blobs: w.blobs, Index: w.index, Limits: ingest.DefaultLimits(), Folder: w.folder,
		Now: func() time.Time { return today }, Entropy: rand.Reader, AtOnce: 2, Patience: time.Second, KeepUploads: time.Hour}
	for _, c := range change {
		c(&o)
	}
	var err error
	if w.Service, err = ingest.New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

func member(name string) account.Visitor {
	return account.Visitor{Account: account.Account{ID: "id-" + name, Name: name, Role: account.Member}}
}

// packed is the archive of the small run, with files replaced.
func packed(t testing.TB, replace map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := ingest.Pack(&out, os.DirFS(small), replace); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// document is the small run's document, changed.
func document(t testing.TB, change func(run map[string]any)) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(small, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run map[string]any
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	change(run)
	out, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// cellOf is a cell of a decoded document.
func cellOf(run map[string]any, i int) map[string]any {
	return run["cells"].([]any)[i].(map[string]any)
}

// changed is the archive of the small run with another document.
func changed(t testing.TB, change func(run map[string]any)) []byte {
	return packed(t, map[string][]byte{"run.json": document(t, change)})
}

// named is the archive of the small run under another name, as another measurement would have.
func named(t testing.TB, id string) []byte {
	return changed(t, func(run map[string]any) { run["id"] = id })
}

// file is an entry of a tar.
type file struct {
	header tar.Header
	data   []byte
}

func regular(name string, data []byte) file {
	return file{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}, data}
}

// archived makes an archive of any entries.
func archived(t testing.TB, files ...file) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, f := range files {
		if err := w.WriteHeader(&f.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (w *world) receive(by account.Visitor, archive []byte) *ingest.Receipt {
	w.t.Helper()
	r, err := w.Receive(context.Background(), by, bytes.NewReader(archive))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// nothing asserts that nothing of an upload stayed.
func (w *world) nothing() {
	w.t.Helper()
	if w.store.Len() != 0 || w.blobs.Len() != 0 || w.index.Len() != 0 {
		w.t.Errorf("%d runs and %d files were kept", w.store.Len(), w.blobs.Len())
	}
	w.tidy()
}

// tidy asserts that no folder of an upload stayed.
func (w *world) tidy() {
	w.t.Helper()
	for _, pattern := range []string{"run-*", "in-*", "pieces/*"} {
		left, err := filepath.Glob(filepath.Join(w.folder, pattern))
		if err != nil || len(left) > 0 {
			w.t.Errorf("left on the disk: %v %v", left, err)
		}
	}
}

func problemOf(err error) *ingest.Problem {
	p, _ := errors.AsType[*ingest.Problem](err)
	return p
}

// endless gives the same bytes for ever.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.n += int64(len(p))
	return len(p), nil
}

var _ io.Reader = (*endless)(nil)

func gunzip(t testing.TB, data []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
