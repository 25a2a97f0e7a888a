package runfile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

func encoded(t *testing.T, r *speedmatrix.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Encode(&b, r); err != nil {
		t.Fatal(err)
	}
	if err := Validate(b.Bytes()); err != nil {
		t.Fatalf("the document does not match the schema: %v", err)
	}
	return b.Bytes()
}

func TestADocumentWithEveryFieldComesBackAsItWas(t *testing.T) {
	want := fullRun(t)
	d := create(t)
	if err := d.SaveRun(want); err != nil {
		t.Fatal(err)
	}
	got, warnings, err := d.LoadRun()
	if err != nil || len(warnings) > 0 {
		t.Fatalf("err %v, warnings %v", err, warnings)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := DecodeStrict(encoded(t, want)); err != nil {
		t.Error(err)
	}
}

func TestAnEmptyDocumentHasListsInsteadOfNullAndMatchesTheSchema(t *testing.T) {
	r := &speedmatrix.Run{Schema: speedmatrix.Schema, ID: "x", Origin: speedmatrix.OriginPredicted}
	r.Drift = &speedmatrix.Drift{Cell: speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Status: speedmatrix.StatusSkipped, Concurrency: 1}}
	data := encoded(t, r)
	for _, want := range []string{`"cells": []`, `"repeats": []`, `"warnings": []`, `"findings": []`, `"contexts": []`, `"engine": {}`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("the document does not contain %s", want)
		}
	}
	if r.Cells != nil || r.Engine != nil {
		t.Error("Encode changed the run")
	}
}

func TestTimesAreWrittenInUTCWithNanoseconds(t *testing.T) {
	at := time.Date(2026, 11, 30, 22, 15, 0, 123456789, time.FixedZone("", 7200))
	r := fullRun(t)
	r.StartedAt, r.FinishedAt, r.Cells[0].WindowStartedAt = at, &at, &at
	r.Drift.Cell.WindowStartedAt, r.Repeats[0].Cells[0].WindowStartedAt = &at, &at
	data := encoded(t, r)
	if n := bytes.Count(data, []byte(`"2026-11-30T20:15:00.123456789Z"`)); n != 5 {
		t.Errorf("%d of 5 times are in UTC", n)
	}
	if r.Cells[0].WindowStartedAt != &at {
		t.Error("Encode changed the run")
	}
}

func TestUnknownFieldsAreWarningsOnReadAndAnErrorOnUpload(t *testing.T) {
	data := encoded(t, fullRun(t))
	data = bytes.Replace(data, []byte(`"salt":`), []byte(`"pepper": {"a": 1}, "salt":`), 1)
	data = bytes.ReplaceAll(data, []byte(`"queued_share":`), []byte(`"speed": 7, "queued_share":`))
	r, warnings, err := Decode(data)
	if err != nil || r.Cells[0].QueuedShare == nil {
		t.Fatalf("run %+v, err %v", r, err)
	}
	var paths []string
	for _, w := range warnings {
		paths = append(paths, w.Code+": "+strings.Fields(w.Message)[4])
	}
	want := []string{
		"unknown field: cells[].speed,", "unknown field: drift.cell.speed,",
		"unknown field: method.pepper,", "unknown field: repeats[].cells[].speed,",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
	_, err = DecodeStrict(data)
	wantOutput(t, err, "cells[].speed", "method.pepper")
	wantOutput(t, Validate(data), "pepper")
}

func TestUnknownFieldsAreFreeInFactsAndBody(t *testing.T) {
	r := fullRun(t)
	r.Engine["anything"] = speedmatrix.Fact{Value: "x", Source: "log"}
	r.Method.Body = map[string]any{"chat_template_kwargs": map[string]any{"thinking": false}}
	if _, err := DecodeStrict(encoded(t, r)); err != nil {
		t.Error(err)
	}
}

func TestADamagedDocumentIsNamedWithItsPlace(t *testing.T) {
	whole := string(encoded(t, fullRun(t)))
	cut := strings.Index(whole, `"method"`) + 3
	tests := map[string]struct {
		data string
		says []string
	}{
		"empty":       {"", []string{"run.json is damaged", "empty"}},
		"blank":       {" \n", []string{"run.json is damaged", "empty"}},
		"truncated":   {whole[:cut], []string{"run.json is damaged at byte", "line "}},
		"two commas":  {"{\n\"schema\": \"speedmatrix.run/1\",,}", []string{"run.json is damaged at byte 33, line 2"}},
		"wrong type":  {strings.Replace(whole, `"started_at": "`, `"id": 7, "started_at": "`, 1), []string{"run.json is damaged at byte", "id cannot be a number"}},
		"bad time":    {strings.Replace(whole, `"started_at": "2026`, `"started_at": "soon`, 1), []string{"run.json is damaged"}},
		"other thing": {`{"results": []}`, []string{"not a run document"}},
		"a list":      {`[1]`, []string{"not a run document"}},
		"from later":  {`{"schema": "speedmatrix.run/2", "cells": 5}`, []string{`"speedmatrix.run/2"`, `"speedmatrix.run/1"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Decode([]byte(test.data))
			wantOutput(t, err, test.says...)
			_, err = DecodeStrict([]byte(test.data))
			wantOutput(t, err, test.says...)
		})
	}
}

func TestEveryTruncationOfADocumentIsAnErrorAndNoPanic(t *testing.T) {
	whole := bytes.TrimSpace(encoded(t, fullRun(t)))
	for n := 0; n < len(whole); n += 97 {
		if _, _, err := Decode(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes pass for a document", n, len(whole))
		}
		if err := Validate(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes match the schema", n, len(whole))
		}
	}
}

func TestANumberThatJSONCannotHoldLeavesTheOldDocument(t *testing.T) {
	d := create(t)
	r := fullRun(t)
	if err := d.SaveRun(r); err != nil {
		t.Fatal(err)
	}
	zero := 0.0
	bad := zero / zero
	r.Cells[0].OutputTokens = &bad
	if err := d.SaveRun(r); err == nil {
		t.Fatal("a NaN was written")
	}
	if _, _, err := d.LoadRun(); err != nil {
		t.Errorf("the old document is gone: %v", err)
	}
	wantFiles(t, d.Path(), "cells", "run.json")
}

func TestADirectoryWithoutADocumentSaysSo(t *testing.T) {
	d := create(t)
	_, _, err := d.LoadRun()
	wantOutput(t, err, "there is no run.json in "+d.Path())
	if err := os.Mkdir(filepath.Join(d.Path(), runName), 0o755); err != nil {
		t.Fatal(err)
	}
	_, _, err = d.LoadRun()
	wantOutput(t, err, "cannot read")
}

func TestTheDocumentIsPlainForPeople(t *testing.T) {
	data := encoded(t, fullRun(t))
	if !bytes.Contains(data, []byte("text <&> é")) || !bytes.HasPrefix(data, []byte("{\n  \"schema\"")) {
		t.Errorf("escaped or not indented: %.200s", data)
	}
	if !json.Valid(data) {
		t.Error("not JSON")
	}
}
