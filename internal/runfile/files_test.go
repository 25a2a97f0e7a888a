package runfile

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

// inMemory is a file that can only be read in order.
type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

type inOrder struct{ io.ReadSeekCloser }

func TestRowsOfFilesKeptElsewhereAreThoseOfTheDirectory(t *testing.T) {
	d := create(t)
	events := []speedmatrix.EventRow{{Request: 1, TimeNS: 5, TextLength: 3, Tokens: new(int32(2)), Channel: "content"}, {Request: 2, TimeNS: 7, Channel: "tool"}}
	requests := []speedmatrix.RequestRow{{Request: 1, Purpose: "launch", Class: "cut", FirstNS: new(int64(5))}}
	server, machine := []speedmatrix.ServerRow{{SentNS: 1, Running: new(2.0)}}, []speedmatrix.MachineRow{{TimeNS: 4}}
	if err := d.SaveCell("decode-0-x1", requests, slices.Values(events)); err != nil {
		t.Fatal(err)
	}
	if err := d.SaveServer(server); err != nil {
		t.Fatal(err)
	}
	if err := d.SaveMachine(machine); err != nil {
		t.Fatal(err)
	}
	names := []string{"cells/decode-0-x1.parquet", "cells/requests-decode-0-x1.parquet", "server.parquet", "machine.parquet"}
	for kind, open := range map[string]func(string) (io.ReadSeekCloser, error){
		"at any place": func(name string) (io.ReadSeekCloser, error) {
			data, err := os.ReadFile(filepath.Join(d.Path(), name))
			return inMemory{bytes.NewReader(data)}, err
		},
		"in order": func(name string) (io.ReadSeekCloser, error) {
			f, err := os.Open(filepath.Join(d.Path(), name))
			return inOrder{f}, err
		},
	} {
		f := ReadFiles(names, open)
		if !f.HasCell("decode-0-x1") || f.HasCell("decode-0-x2") || f.HasCell("../decode") {
			t.Errorf("%s: which cells there are", kind)
		}
		gotEvents, err := collect(f.Events("decode-0-x1"))
		same(t, events, gotEvents, err)
		gotRequests, err := f.Requests("decode-0-x1")
		same(t, requests, gotRequests, err)
		gotServer, err := f.Server()
		same(t, server, gotServer, err)
		gotMachine, err := f.Machine()
		if err != nil || cmp.Diff(machine, gotMachine) != "" {
			t.Errorf("%s: %v %s", kind, err, cmp.Diff(machine, gotMachine))
		}
	}
}

func TestFilesThatAreNotThereOrDamagedAreNamed(t *testing.T) {
	f := ReadFiles([]string{"cells/decode-0-x1.parquet", "cells/requests-decode-0-x1.parquet"}, func(name string) (io.ReadSeekCloser, error) {
		if name == "cells/decode-0-x1.parquet" {
			return nil, fs.ErrNotExist
		}
		return inMemory{bytes.NewReader([]byte("PAR1 no table"))}, nil
	})
	_, err := collect(f.Events("decode-0-x1"))
	wantOutput(t, err, "cells/decode-0-x1.parquet", "no such file")
	_, err = f.Requests("decode-0-x1")
	wantOutput(t, err, "cells/requests-decode-0-x1.parquet", "damaged")
	if rows, err := f.Server(); rows != nil || err != nil {
		t.Errorf("rows of no file: %v, %v", rows, err)
	}
}
