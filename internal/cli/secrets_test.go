package cli_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

const planted = "sk-planted/7f3a9c0e5d"

// keyed are the ways to give a key.
var keyed = []struct {
	name string
	args []string
	env  map[string]string
}{
	{"--api-key", []string{"--api-key", planted}, nil},
	{"--header", []string{"--header", "Authorization: Bearer " + planted}, nil},
	{"a header of another name", []string{"--header", "X-Tenant: " + planted, "--header", "Authorization: Bearer " + planted}, nil},
	{"OPENAI_API_KEY", nil, map[string]string{"OPENAI_API_KEY": planted}},
	{"--api-key-file", []string{"--api-key-file", "../key"}, nil},
}

// A server that wants the key and repeats it in every error: the key is nowhere in what the program shows or keeps,
// its lines and its events.
func TestAKeyIsNowhereThoughTheServerRepeatsIt(t *testing.T) {
	for i, tt := range keyed {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.plantKey()
				w.env = tt.env
				w.truth(local, echoing())
				args := small(slices.Concat(tt.args, []string{"--contexts", "0", "--concurrency", "2", "--quick"})...)
				if i%2 == 0 {
					args = append(args, "--events")
				}
				w.main(args...)
				w.ended(7, "cells failed")
				if !strings.Contains(w.out.String(), "the key «redacted: api key» may not") {
					t.Errorf("the server's words are not shown:\n%s", w.out.String())
				}
				w.noKeyIn("run")
			})
		})
	}
}

// echoing is a server that takes the key, fails every third request and repeats the key in its words.
func echoing() truth.Script {
	s := steady()
	s.Auth = planted
	s.Fail = func(c truth.Call) *truth.Failure {
		p := wire.EngineBusy()
		p.Message = "the key " + planted + " may not"
		switch {
		case c.Request < 12 || c.Request%3 != 0:
			return nil
		case c.Request%2 == 0:
			return &truth.Failure{Kind: truth.FailStatus, Problem: p}
		}
		return &truth.Failure{Kind: truth.FailEvent, After: 3, Problem: p}
	}
	return s
}

// plantKey writes the key's file beside the folder in which nothing but the run may be.
func (w *world) plantKey() {
	w.t.Helper()
	if err := os.WriteFile("../key", []byte(planted+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// noKeyIn fails the test if the key stands in an output or in the files of a run, their packed rows included.
func (w *world) noKeyIn(dir string) {
	w.t.Helper()
	texts := map[string]string{"standard output": w.out.String(), "standard error": w.err.String()}
	w.addFiles(dir, texts)
	w.addRows(dir, texts)
	if !strings.Contains(texts["rows of "+speedmatrix.CellKey(speedmatrix.PhaseDecode, "0", 2)], "«redacted: api key»") {
		w.t.Error("no row shows where the key was")
	}
	if len(texts) < 8 {
		w.t.Errorf("only %d texts were searched", len(texts))
	}
	for name, text := range texts {
		for n := len(planted); n >= 8; n-- {
			if strings.Contains(text, planted[:n]) {
				w.t.Errorf("%s holds %q of the key", name, planted[:n])
				break
			}
		}
	}
}

// addFiles adds the files of a run directory as they are.
func (w *world) addFiles(dir string, texts map[string]string) {
	w.t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		texts[path] = string(data)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// addRows adds the rows of a run directory as text.
func (w *world) addRows(dir string, texts map[string]string) {
	w.t.Helper()
	open, err := runfile.Open(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	rows := map[string]any{}
	for _, c := range w.document(dir).Cells {
		if open.HasCell(c.Key()) {
			if rows[c.Key()], err = open.Requests(c.Key()); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if rows["server"], err = open.Server(); err != nil {
		w.t.Fatal(err)
	}
	for name, row := range rows {
		data, err := json.Marshal(row)
		if err != nil {
			w.t.Fatal(err)
		}
		texts["rows of "+name] = string(data)
	}
}

// A refusal shows the server's words without the key, wherever a limit cut them.
func TestARefusalThatRepeatsTheKeyHidesIt(t *testing.T) {
	for _, before := range []int{0, 400, 475, 480, 485, 490, 495, 500, 2030} {
		inWorld(t, func(_ *testing.T, w *world) {
			w.answers(401, "application/json", `{"error":{"message":"`+strings.Repeat("x", before)+planted+` is wrong"}}`)
			w.main("run", local, "--api-key", planted)
			w.ended(4, "wants a valid key")
			for n := len(planted); n >= 4; n-- {
				if strings.Contains(w.err.String()+w.out.String(), planted[:n]) {
					w.t.Errorf("after %d letters the error shows %q of the key", before, planted[:n])
					break
				}
			}
		})
	}
}
