package cli_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/runfile"
)

// photographer is a store that copies the run directory after every change: what a kill at that moment leaves.
type photographer struct {
	*runfile.Dir
	t      *testing.T
	photos int
}

func (p *photographer) photo(err error) error {
	if err == nil {
		err = os.CopyFS(photoName(p.photos), os.DirFS(p.Path()))
		p.photos++
	}
	return err
}

func photoName(n int) string { return fmt.Sprintf("photo-%02d", n) }

func (p *photographer) SaveRun(r *speedmatrix.Run) error { return p.photo(p.Dir.SaveRun(r)) }

func (p *photographer) SaveCell(key string, requests []speedmatrix.RequestRow, events iter.Seq[speedmatrix.EventRow]) error {
	return p.photo(p.Dir.SaveCell(key, requests, events))
}

func (p *photographer) SaveServer(rows []speedmatrix.ServerRow) error {
	return p.photo(p.Dir.SaveServer(rows))
}

// Whatever the moment of a kill: what is on the disk verifies, and the run goes on from it, keeps every finished cell
// as it is, ends complete, and verifies.
func TestARunGoesOnFromEveryStateOfItsDirectory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		var camera *photographer
		w.create = func(path string) (cli.Store, error) {
			dir, err := runfile.Create(path)
			camera = &photographer{Dir: dir, t: t}
			return camera, err
		}
		writeFile(t, "text", paragraphs(2000))
		w.main("run", local, "--duration", "5s", "--contexts", "512", "--concurrency", "1,2", "--prefill", "512,1K", "--repeat", "2",
			"--text", "text", "--salt", "s", "--out", "run")
		w.ended(0)
		if camera.photos < 15 {
			t.Errorf("only %d changes of the directory", camera.photos)
		}
		t.Logf("%d states", camera.photos)
		for n := range camera.photos {
			w.main("verify", photoName(n))
			w.ended(0)
			w.goesOn(photoName(n))
			if err := os.RemoveAll(photoName(n)); err != nil {
				t.Error(err)
			}
		}
	})
}

// paragraphs is a text of so many short paragraphs, all different.
func paragraphs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "In the year %d the keeper of light number %d counted %d ships and slept well.\n\n", 1000+i, i, i*i%97)
	}
	return b.String()
}

// goesOn resumes a run and holds what it was against what it has become. The server is a new one: to the old one
// the prompts are not new, because another part of the run went on from here.
func (w *world) goesOn(dir string) {
	w.t.Helper()
	w.server.Close()
	w.truth(local, steady())
	before := finishedCells(w.t, w.document(dir))
	w.main("run", "--resume", dir, "--text", "text")
	w.ended(0)
	doc := w.document(dir)
	after := finishedCells(w.t, doc)
	for key, was := range before {
		if now := after[key]; now != was {
			w.t.Errorf("%s: %s has changed\nfrom %s\nto   %s", dir, key, was, now)
		}
	}
	for i := range doc.Cells {
		if c := &doc.Cells[i]; c.Status != speedmatrix.StatusValid {
			w.t.Errorf("%s: %s is %s: %s", dir, c.Key(), c.Status, c.Reason)
		}
	}
	if doc.Drift == nil || len(doc.Repeats) != 1 || doc.Ended != "" || doc.FinishedAt == nil {
		w.t.Errorf("%s: drift %v, %d repeats, ended %q at %v", dir, doc.Drift, len(doc.Repeats), doc.Ended, doc.FinishedAt)
	}
	w.main("verify", dir)
	w.ended(0)
	if text := w.out.String(); !strings.Contains(text, "agree with the raw events") || strings.Contains(text, "not checked") {
		w.t.Errorf("%s: verify: %s", dir, text)
	}
}

// finishedCells are the cells that are not to be measured any more, each as its JSON. The spread over repeats is
// left out: it is that of the repeats so far.
func finishedCells(t *testing.T, doc *speedmatrix.Run) map[string]string {
	t.Helper()
	cells := map[string]string{}
	for _, c := range doc.Cells {
		if c.Status == speedmatrix.StatusInterrupted {
			continue
		}
		c.Repeats = nil
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		cells[c.Key()] = string(text)
	}
	return cells
}
