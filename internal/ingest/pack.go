package ingest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/runfile"
)

// Pack writes the files of a run directory as the archive of an upload: tar in gzip, the document first, always the same
// bytes for the same files. Files of replace stand in for those of the directory; of a long log CutLog is sent. Rows that no
// cell of the document has, which an interrupted run leaves, stay.
func Pack(w io.Writer, dir fs.FS, replace map[string][]byte) error {
	read := func(name string) ([]byte, error) {
		if data, ok := replace[name]; ok {
			return data, nil
		}
		return fs.ReadFile(dir, name)
	}
	document, err := read(documentName)
	if err != nil {
		return fmt.Errorf("read the run directory: %w", err)
	}
	names, err := filesOf(dir, document)
	if err != nil {
		return fmt.Errorf("read the run directory: %w", err)
	}
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	for _, name := range names {
		data, err := read(name)
		if err != nil {
			return fmt.Errorf("read the run directory: %w", err)
		}
		if name == logName {
			data = CutLog(data)
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := out.Write(data); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return errors.Join(out.Close(), zip.Close())
}

// filesOf are the files of a run directory that are sent, in order. A document that cannot be read is sent with all of them:
// whoever takes it says what is wrong with it.
func filesOf(dir fs.FS, document []byte) ([]string, error) {
	run, _, unread := runfile.Decode(document)
	keys := rowKeys(run)
	names := []string{documentName}
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == documentName || !fileName.MatchString(name) {
			return err
		}
		if key, ok := rowKey(name); ok && unread == nil && !keys[key] {
			return nil
		}
		names = append(names, name)
		return nil
	})
	slices.Sort(names[1:])
	return names, err
}

// rowKey is the key of the cell whose rows a file holds.
func rowKey(name string) (key string, ok bool) {
	key, ok = strings.CutPrefix(name, "cells/")
	return strings.TrimPrefix(strings.TrimSuffix(key, ".parquet"), "requests-"), ok
}

// rowKeys are the keys under which the rows of a run's cells stand.
func rowKeys(run *speedmatrix.Run) map[string]bool {
	keys := map[string]bool{}
	if run == nil {
		return keys
	}
	for i := range run.Cells {
		keys[run.Cells[i].Key()] = true
	}
	if run.Drift != nil {
		keys["drift-"+run.Drift.Cell.Key()] = true
	}
	for i := range run.Repeats {
		r := &run.Repeats[i]
		for k := range r.Cells {
			keys[fmt.Sprintf("repeat-%d-%s", r.Index, r.Cells[k].Key())] = true
		}
	}
	return keys
}

// CutLog leaves the lines in the middle out of a log that is longer than a site takes: an engine says most about itself at its
// start, and about its end at the end.
func CutLog(log []byte) []byte {
	most := int(DefaultLimits().Log)
	if len(log) <= most {
		return log
	}
	half := most/2 - 100
	head, tail := log[:half], log[len(log)-half:]
	head = head[:bytes.LastIndexByte(head, '\n')+1]
	tail = tail[bytes.IndexByte(tail, '\n')+1:]
	out := append(bytes.Clone(head), fmt.Sprintf("[%d bytes left out]\n", len(log)-len(head)-len(tail))...)
	return append(out, tail...)
}
