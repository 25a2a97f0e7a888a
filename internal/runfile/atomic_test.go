package runfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"speedmatrix"
)

func wantFiles(t *testing.T, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s holds %q, want %q", filepath.Base(folder), names, want)
	}
}

func TestCreateRefusesADirectoryThatExists(t *testing.T) {
	d := create(t)
	_, err := Create(d.Path())
	wantOutput(t, err, d.Path()+" exists already")
	if !errors.Is(err, fs.ErrExist) {
		t.Error("the cause is lost")
	}
}

func TestCreateUnderAFileSaysWhatIsInTheWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Create(filepath.Join(file, "run"))
	wantOutput(t, err, "cannot write", "not a directory")
}

func TestOpenSaysWhatIsNotARunDirectory(t *testing.T) {
	folder := t.TempDir()
	_, err := Open(filepath.Join(folder, "none"))
	wantOutput(t, err, "there is no run directory")
	file := filepath.Join(folder, "run.json")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Open(file)
	wantOutput(t, err, "is a file, not a run directory")
}

func TestOpenRemovesWhatAKilledRunLeftAndNothingElse(t *testing.T) {
	d := create(t)
	cells := filepath.Join(d.Path(), cellsName)
	for _, name := range []string{
		filepath.Join(d.Path(), ".run.json.ABCDEFGHIJ.tmp"), filepath.Join(cells, ".decode-0-x1.parquet.ABCDEFGHIJ.tmp"),
		filepath.Join(d.Path(), ".hidden"), filepath.Join(d.Path(), "notes.tmp"),
	} {
		if err := os.WriteFile(name, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(d.Path()); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, d.Path(), ".hidden", "cells", "notes.tmp")
	wantFiles(t, cells)
}

func TestOpenLeavesAFileThatIsBeingWritten(t *testing.T) {
	d := create(t)
	err := replace(filepath.Join(d.Path(), runName), func(w io.Writer) error {
		if _, err := io.WriteString(w, "first half, "); err != nil {
			return err
		}
		if _, err := Open(d.Path()); err != nil {
			return err
		}
		_, err := io.WriteString(w, "second half")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(d.Path(), runName))
	if err != nil || string(data) != "first half, second half" {
		t.Errorf("%q, %v", data, err)
	}
	wantFiles(t, d.Path(), "cells", runName)
}

func TestAFailedWriteLeavesTheOldFileAndNoOther(t *testing.T) {
	d := create(t)
	final := filepath.Join(d.Path(), serverName)
	if err := os.WriteFile(final, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no more rows")
	err := replace(final, func(w io.Writer) error {
		_, _ = io.WriteString(w, "new")
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if data, _ := os.ReadFile(final); string(data) != "old" {
		t.Errorf("the old file is now %q", data)
	}
	wantFiles(t, d.Path(), "cells", serverName)
}

func TestReasonsForAFailedWriteAreToldApart(t *testing.T) {
	tests := map[string]struct {
		cause error
		says  string
	}{
		"disk full":  {&fs.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC}, "cannot write DIR/run.json: the disk is full"},
		"read only":  {&fs.PathError{Op: "open", Path: "p", Err: syscall.EROFS}, "the file system is read-only"},
		"permission": {&fs.PathError{Op: "open", Path: "p", Err: syscall.EACCES}, "permission denied"},
		"other":      {&os.LinkError{Op: "rename", Err: syscall.EXDEV}, "cannot write DIR/run.json: " + syscall.EXDEV.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := writeError("DIR/run.json", fmt.Errorf("wrapped: %w", test.cause))
			wantOutput(t, err, test.says)
			if e, _ := errors.AsType[*speedmatrix.Error](err); name != "other" && e.Next == "" {
				t.Error("nothing says what to do next")
			}
		})
	}
}

func TestAFullDiskIsNamedFromAnyWriter(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	sink := &errWriter{w: full}
	if err := Encode(sink, fullRun(t)); err == nil || !isDiskFull(sink.err) {
		t.Errorf("error %v, first failure %v", err, sink.err)
	}
}

func TestADirectoryWithoutPermissionIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind the superuser")
	}
	d := create(t)
	if err := os.Chmod(d.Path(), 0o555); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, d.SaveRun(fullRun(t)), "permission denied")
}
