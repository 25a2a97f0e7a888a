package cli_test

import (
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/runfile"
)

// A place where the run cannot be kept is refused before the server hears anything.
func TestAPlaceThatCannotHoldTheRunIsRefusedFirst(t *testing.T) {
	tests := []struct {
		name, out string
		says      []string
	}{
		{"a directory stands there", "there", []string{"there exists already", "speedmatrix run --resume there"}},
		{"a file stands there", "file", []string{"file exists already"}},
		{"a link to nowhere stands there", "link", []string{"link exists already"}},
		{"a file is on the way", "file/run", []string{"cannot write file/run: a part of the path is a file", "Choose another directory."}},
		{"a file is further up", "file/a/b/run", []string{"a part of the path is a file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				dialled := w.dialled()
				makeObstacles(t)
				w.main("run", local, "--out", tt.out)
				w.ended(6, tt.says...)
				if dialled() {
					t.Error("the server was asked before")
				}
				if entries, err := os.ReadDir("."); err != nil || len(entries) != 3 {
					t.Errorf("left behind: %v %v", entries, err)
				}
			})
		})
	}
}

// makeObstacles makes a run directory, a file and a link to nowhere.
func makeObstacles(t *testing.T) {
	t.Helper()
	if err := os.Mkdir("there", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "there/run.json"} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", "link"); err != nil {
		t.Fatal(err)
	}
}

// The place was good at the start and is not when the directory is to be made.
func TestADirectoryThatCannotBeMadeLeavesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.create = func(path string) (cli.Store, error) {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			return nil, &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: "cannot write " + path + ": permission denied",
				Next: "Choose another directory, or change the permissions of this one.", Err: fs.ErrPermission}
		}
		w.main("run", local, "--out", "a/b/run")
		w.ended(6, "cannot write a/b/run: permission denied", "Choose another directory")
		w.nothingLeft()
	})
}

// fullDisk is a run directory on a disk with room for some more writes.
type fullDisk struct {
	*runfile.Dir
	room int
}

func (f *fullDisk) take(file string) error {
	f.room--
	if f.room >= 0 {
		return nil
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: "cannot write " + file + ": the disk is full",
		Next: "Free some space; a run that has begun goes on with speedmatrix run --resume.", Err: syscall.ENOSPC}
}

func (f *fullDisk) SaveCell(key string, requests []speedmatrix.RequestRow, events iter.Seq[speedmatrix.EventRow]) error {
	if err := f.take(key); err != nil {
		return err
	}
	return f.Dir.SaveCell(key, requests, events)
}

func (f *fullDisk) SaveRun(run *speedmatrix.Run) error {
	if err := f.take("run.json"); err != nil {
		return err
	}
	return f.Dir.SaveRun(run)
}

func (w *world) diskOf(room int) {
	w.create = func(path string) (cli.Store, error) {
		dir, err := runfile.Create(path)
		return &fullDisk{Dir: dir, room: room}, err
	}
}

// However little room there is: the message says so, no half document stands there, and what is there verifies.
func TestADiskThatFillsUpLeavesNothingHalfWritten(t *testing.T) {
	for room := range 9 {
		inWorld(t, func(t *testing.T, w *world) {
			w.truth(local, steady())
			w.diskOf(room)
			w.main(small("--contexts", "1K", "--duration", "5s")...)
			w.ended(6, "the disk is full", "Free some space")
			if _, err := os.Stat("run"); err != nil {
				if room > 3 {
					t.Errorf("with room for %d writes nothing was kept", room)
				}
				w.nothingLeft()
				return
			}
			w.document("run")
			w.main("verify", "run")
			w.ended(0)
			w.create = nil
			w.main("run", "--resume", "run")
			w.ended(0)
			w.main("verify", "run")
			w.ended(0)
		})
	}
}

// Without --out the run goes to runs/, under a name that tells when and what.
func TestARunWithoutPlaceGoesToRuns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.main("run", local, "--contexts", "0", "--concurrency", "1", "--prefill", "none")
		w.ended(0)
		found, err := filepath.Glob("runs/20000101T0000*Z-steady-????")
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if doc := w.document(found[0]); "runs/"+doc.ID != found[0] {
			t.Errorf("%s holds the run %s", found[0], doc.ID)
		}
		if !strings.Contains(w.out.String(), "speedmatrix verify "+found[0]) {
			t.Errorf("the next steps do not name it:\n%s", w.out.String())
		}
	})
}

// An interruption in the warm-up leaves nothing, the folder runs/ included.
func TestAnInterruptionBeforeTheFirstCellLeavesNothing(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 2 * time.Second, 8 * time.Second} {
		inWorld(t, func(_ *testing.T, w *world) {
			w.truth(local, steady())
			w.later(after, func() { w.signals <- os.Interrupt })
			w.main("run", local, "--contexts", "0")
			w.ended(130, "interrupted before anything was measured")
			w.nothingLeft()
		})
	}
}
