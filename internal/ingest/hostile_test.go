package ingest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// hostile is an upload that must be refused.
type hostile struct {
	name string
	body []byte
	// code is the rule that refuses it, pointer where it points to.
	code, pointer string
}

func TestHostileUploadsAreRefusedWhole(t *testing.T) {
	cases := append(append(append(hostileArchives(t), hostileNames(t)...), hostileJSON(t)...), hostileValues(t)...)
	cases = append(append(cases, hostileFacts(t)...), hostileRows(t)...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, dry := range []bool{true, false} {
				w := newWorld(t)
				do := w.Receive
				if dry {
					do = w.Check
				}
				_, err := do(context.Background(), member("eve"), bytes.NewReader(c.body))
				p := problemOf(err)
				if p == nil {
					t.Fatalf("taken, or failed otherwise: %v", err)
				}
				if p.Code != c.code || c.pointer != "" && p.Pointer != c.pointer || p.Status < 400 || p.Status > 499 || p.Detail == "" {
					t.Errorf("%d %s at %q (%s: %s), want %s at %q", p.Status, p.Code, p.Pointer, p.Title, p.Detail, c.code, c.pointer)
				}
				w.nothing()
			}
		})
	}
	if len(cases) < 60 {
		t.Errorf("%d kinds, at least 60", len(cases))
	}
}

func hostileArchives(t *testing.T) []hostile {
	good := packed(t, nil)
	doc := document(t, func(map[string]any) {})
	noise := make([]byte, 70<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	return []hostile{
		{"nothing", nil, "not-an-archive", ""},
		{"text", []byte("no archive"), "not-an-archive", ""},
		{"a zip", []byte("PK\x03\x04 and so on"), "not-an-archive", ""},
		{"gzip of text", zipped(t, []byte("no tar, though it is long enough to look like one"+strings.Repeat(" ", 600))), "not-an-archive", ""},
		{"gzip of nothing", zipped(t, nil), "no-document", "run.json"},
		{"truncated gzip", good[:len(good)/2], "not-an-archive", ""},
		{"a bit flipped", flipped(good, len(good)/2), "not-an-archive", ""},
		{"wrong checksum", flipped(good, len(good)-6), "not-an-archive", ""},
		{"trailing bytes", append(bytes.Clone(good), "more"...), "trailing-bytes", ""},
		{"two archives in one", append(bytes.Clone(good), good...), "trailing-bytes", ""},
		{"zeros behind the tar", zipped(t, append(unzipped(t, good), make([]byte, 8<<20)...)), "trailing-bytes", ""},
		{"gzip in gzip", zipped(t, good), "not-an-archive", ""},
		{"no document", archived(t, regular("server.parquet", []byte("x"))), "no-document", "run.json"},
		{"document last", archived(t, regular("server.parquet", []byte("x")), regular("run.json", doc)), "no-document", "run.json"},
		{"two documents", archived(t, regular("run.json", doc), regular("run.json", doc)), "file-twice", "run.json"},
		{"bomb of zeros", archived(t, regular("run.json", doc), regular("cells/a.parquet", make([]byte, 64<<20))), "archive-bomb", "cells/a.parquet"},
		{"bomb as a document", archived(t, regular("run.json", bytes.Repeat([]byte(" "), 7<<20))), "archive-bomb", "run.json"},
		{"document too large", archived(t, regular("run.json", noise[:17<<20])), "file-too-large", "run.json"},
		{"archive too large", archived(t, regular("run.json", doc), regular("cells/a.parquet", noise)), "archive-too-large", ""},
		{"too many files", archived(t, append([]file{regular("run.json", doc)}, manyFiles(5001)...)...), "too-many-files", ""},
		{"file said to be huge", hugeClaim(t, doc), "file-too-large", "cells/a.parquet"},
		{"file said to be of negative length", badSize(t, doc), "not-an-archive", ""},
	}
}

func flipped(data []byte, at int) []byte {
	out := bytes.Clone(data)
	out[at] ^= 0x10
	return out
}

func unzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	return gunzip(t, data)
}

func manyFiles(n int) (list []file) {
	for i := range n {
		list = append(list, regular(fmt.Sprintf("cells/a%d.parquet", i), nil))
	}
	return list
}

// hugeClaim is a tar whose header promises a terabyte.
func hugeClaim(t *testing.T, doc []byte) []byte {
	raw := gunzip(t, archived(t, regular("run.json", doc)))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "cells/a.parquet", Size: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	return zipped(t, append(raw[:len(raw)-1024], b.Bytes()...))
}

// badSize is a tar with a length that is no number above zero.
func badSize(t *testing.T, doc []byte) []byte {
	raw := gunzip(t, archived(t, regular("run.json", doc)))
	copy(raw[124:136], "-0000000001 ")
	return zipped(t, raw)
}

func hostileNames(t *testing.T) (list []hostile) {
	doc := document(t, func(map[string]any) {})
	for what, name := range map[string]string{
		"path upwards": "../run.json", "path upwards within": "cells/../../x.parquet", "absolute path": "/etc/passwd", "dot": "./run.json",
		"backslashes": `cells\..\..\x.parquet`, "drive": "C:/x.parquet", "another file": "report.html", "hidden file": "cells/.parquet",
		"letters that differ in case alone": "RUN.JSON", "a program": "cells/a.parquet.exe", "a folder as a file": "cells",
		"name that turns round": "cells/\u202etxt.parquet", "name with a line break": "cells/a\nb.parquet", "name without end": "cells/" + strings.Repeat("a", 300) + ".parquet",
		"name that is not UTF-8": "cells/\xff\xfe.parquet", "double slash": "cells//a.parquet",
	} {
		f := regular(name, []byte("x"))
		f.header.Format = tar.FormatGNU
		list = append(list, hostile{what, archived(t, regular("run.json", doc), f), "foreign-file", ""})
	}
	for what, kind := range map[string]byte{"symbolic link": tar.TypeSymlink, "hard link": tar.TypeLink, "character device": tar.TypeChar, "block device": tar.TypeBlock, "pipe": tar.TypeFifo, "directory": tar.TypeDir} {
		f := file{tar.Header{Typeflag: kind, Name: "cells/a.parquet", Linkname: "/etc/passwd"}, nil}
		list = append(list, hostile{what, archived(t, regular("run.json", doc), f), "foreign-file", ""})
	}
	return list
}

func hostileJSON(t *testing.T) (list []hostile) {
	doc := string(document(t, func(map[string]any) {}))
	inside := func(text string) string { return `{"x":` + text + "," + doc[1:] }
	for what, c := range map[string]struct{ text, code string }{
		"no JSON":               {"hello", "not-json"},
		"empty document":        {"", "not-json"},
		"half a document":       {doc[:len(doc)/2], "not-json"},
		"two documents in one":  {doc + doc, "not-json"},
		"NaN":                   {inside("NaN"), "not-json"},
		"infinity":              {inside("Infinity"), "not-json"},
		"1e400":                 {inside("1e400"), "number-out-of-range"},
		"a huge integer":        {inside(strings.Repeat("9", 400)), "number-out-of-range"},
		"a long number":         {inside("1" + strings.Repeat("0", 30)), "number-out-of-range"},
		"a field twice":         {inside(`1,"x":2`), "name-twice"},
		"a field twice, spelt":  {inside(`1,"\u0078":2`), "name-twice"},
		"too deep":              {inside(strings.Repeat("[", 100) + strings.Repeat("]", 100)), "too-deep"},
		"without end":           {inside(strings.Repeat("[", 100000)), "too-deep"},
		"not UTF-8":             {inside("\"\xff\""), "not-utf8"},
		"a byte order mark":     {"\uFEFF" + doc, "byte-order-mark"},
		"UTF-16":                {"{\x00\"\x00x\x00\"\x00:\x001\x00}\x00", "not-json"},
		"an unknown field":      {inside("1"), "schema"},
		"a list":                {"[" + doc + "]", "schema"},
		"null":                  {"null", "schema"},
		"a text without end":    {inside(`"` + strings.Repeat("a", 300<<10) + `"`), "text-too-long"},
		"comments":              {"/* */" + doc, "not-json"},
		"a lone surrogate half": {strings.Replace(doc, `"plan"`, `"\ud800plan"`, 1), "schema"},
	} {
		list = append(list, hostile{what, packed(t, map[string][]byte{"run.json": []byte(c.text)}), c.code, ""})
	}
	return list
}

func hostileValues(t *testing.T) (list []hostile) {
	for what, c := range map[string]struct {
		change        func(run map[string]any)
		code, pointer string
	}{
		"a foreign schema":        {func(r map[string]any) { r["schema"] = "speedmatrix.run/99" }, "schema", ""},
		"a text for a number":     {func(r map[string]any) { cellOf(r, 0)["concurrency"] = "one" }, "schema", ""},
		"a number for a list":     {func(r map[string]any) { r["cells"] = 3 }, "schema", ""},
		"no cell":                 {func(r map[string]any) { r["cells"] = []any{} }, "no-cells", "run.json#/cells"},
		"thousands of cells":      {func(r map[string]any) { r["cells"] = smallCells(2500) }, "too-many-cells", "run.json#/cells"},
		"a cell twice":            {func(r map[string]any) { r["cells"] = repeated(cellOf(r, 0), 2) }, "cell-twice", "run.json#/cells/1"},
		"an unknown status":       {func(r map[string]any) { cellOf(r, 0)["status"] = "Great" }, "status", "run.json#/cells/0/status"},
		"an unknown phase":        {func(r map[string]any) { cellOf(r, 0)["phase"] = "burst" }, "phase", "run.json#/cells/0/phase"},
		"no requests":             {func(r map[string]any) { cellOf(r, 0)["concurrency"] = 0 }, "concurrency", "run.json#/cells/0/concurrency"},
		"negative requests":       {func(r map[string]any) { cellOf(r, 0)["concurrency"] = -1 }, "number-negative", "run.json#/cells/0/concurrency"},
		"too many requests":       {func(r map[string]any) { cellOf(r, 0)["concurrency"] = 1e9 }, "concurrency", "run.json#/cells/0/concurrency"},
		"a negative speed":        {func(r map[string]any) { cellOf(r, 0)["total_tokens_per_second"] = -5.0 }, "number-negative", "run.json#/cells/0/total_tokens_per_second"},
		"a negative time":         {func(r map[string]any) { cellOf(r, 0)["window_seconds"] = -0.5 }, "number-negative", "run.json#/cells/0/window_seconds"},
		"a speed beyond reason":   {func(r map[string]any) { cellOf(r, 0)["total_tokens_per_second"] = 1e30 }, "number-out-of-range", "run.json#/cells/0/total_tokens_per_second"},
		"a context beyond reason": {func(r map[string]any) { cellOf(r, 0)["context"] = 1e12 }, "context", "run.json#/cells/0/context"},
		"the year 9999":           {func(r map[string]any) { r["started_at"] = "9999-12-31T23:59:59Z" }, "time-out-of-range", "run.json#/started_at"},
		"the year 1970":           {func(r map[string]any) { r["started_at"] = "1970-01-01T00:00:00Z" }, "time-out-of-range", "run.json#/started_at"},
		"no time at all":          {func(r map[string]any) { r["started_at"] = "0001-01-01T00:00:00Z" }, "time-out-of-range", "run.json#/started_at"},
		"ended before it began":   {func(r map[string]any) { r["finished_at"] = "2026-11-01T00:00:00Z" }, "time-order", "run.json#/finished_at"},
		"a window in the future":  {func(r map[string]any) { cellOf(r, 0)["window_started_at"] = "2030-01-01T00:00:00Z" }, "time-out-of-range", "run.json#/cells/0/window_started_at"},
		"an interval upside down": {func(r map[string]any) { cellOf(r, 0)["interval_95"] = map[string]any{"low": 9.0, "high": 1.0} }, "interval", "run.json#/cells/0/interval_95"},
		"a plan without end": {func(r map[string]any) {
			r["plan"].(map[string]any)["contexts"], r["plan"].(map[string]any)["concurrency"] = numbers(1500), numbers(1500)
		}, "too-many-cells", "run.json#/plan"},
		"a label of another":        {func(r map[string]any) { cellOf(r, 0)["context_label"] = "128K" }, "label", "run.json#/cells/0/context_label"},
		"a label that is no length": {func(r map[string]any) { cellOf(r, 0)["context_label"] = "<b>16K</b>" }, "label", "run.json#/cells/0/context_label"},
		"a number of what never ran": {func(r map[string]any) {
			cellOf(r, 0)["status"], cellOf(r, 0)["reason"] = "Skipped", "no time"
			clearNumbers(cellOf(r, 0), "output_tokens")
		}, "status-number", "run.json#/cells/0/output_tokens"},
		"a repeat of repeats":    {func(r map[string]any) { r["repeats"] = []any{repeatOf(2), repeatOf(2)} }, "repeat", "run.json#/repeats/1/index"},
		"a first repeat":         {func(r map[string]any) { r["repeats"] = []any{repeatOf(1)} }, "repeat", "run.json#/repeats/0/index"},
		"a repeat with a status": {func(r map[string]any) { r["repeats"] = []any{repeatOf(2, with(cellOf(r, 0), "status", "Great"))} }, "status", "run.json#/repeats/0/cells/0/status"},
		"repeats without end":    {func(r map[string]any) { r["repeats"] = manyRepeats() }, "too-many-cells", ""},
		"a drift of nothing": {func(r map[string]any) {
			r["drift"] = map[string]any{"cell": with(cellOf(r, 0), "phase", "x"), "change": 0.0, "significant": false}
		}, "phase", "run.json#/drift/cell/phase"},
		"a million values":         {func(r map[string]any) { r["plan"].(map[string]any)["prefill"] = numbers(1_000_000) }, "too-many-values", ""},
		"twenty thousand nothings": {func(r map[string]any) { r["warnings"] = repeated(map[string]any{}, 20_000) }, "schema", ""},
		"texts without end": {func(r map[string]any) {
			r["warnings"] = repeated(map[string]any{"code": "x", "message": strings.Repeat("a", 200_000)}, 6)
		}, "too-much-text", ""},
		"a tool that turns round":   {func(r map[string]any) { r["tool"].(map[string]any)["name"] = "bench\u202e" }, "name-unreadable", "run.json#/tool/name"},
		"no client":                 {func(r map[string]any) { delete(r, "client") }, "schema", ""},
		"an unknown kind of TTFT":   {func(r map[string]any) { cellOf(r, 0)["ttft_kind"] = "tepid" }, "schema", "run.json#/cells/0/ttft_kind"},
		"a share above one":         {func(r map[string]any) { cellOf(r, 0)["queued_share"] = 3.0 }, "schema", "run.json#/cells/0/queued_share"},
		"minus nothing":             {func(r map[string]any) { cellOf(r, 0)["window_seconds"] = math.Copysign(0, -1) }, "number-negative", "run.json#/cells/0/window_seconds"},
		"an unknown origin":         {func(r map[string]any) { r["origin"] = "dreamt" }, "origin", "run.json#/origin"},
		"a label without end":       {func(r map[string]any) { cellOf(r, 0)["context_label"] = strings.Repeat("K", 17) }, "label", "run.json#/cells/0/context_label"},
		"a label that turns round":  {func(r map[string]any) { cellOf(r, 0)["context_label"] = "\u202eK" }, "label", "run.json#/cells/0/context_label"},
		"a thousand measurements":   {func(r map[string]any) { r["repeats"] = repeated(map[string]any{"index": 2, "cells": []any{}}, 1000) }, "too-many-repeats", "run.json#/repeats"},
		"a date that is none":       {func(r map[string]any) { r["started_at"] = "yesterday" }, "schema", ""},
		"a status of another spelt": {func(r map[string]any) { cellOf(r, 0)["status"] = "valid" }, "status", "run.json#/cells/0/status"},
		"a half number of requests": {func(r map[string]any) { cellOf(r, 0)["concurrency"] = 1.5 }, "schema", ""},
		"a fact that is a structure": {func(r map[string]any) {
			r["model"].(map[string]any)["name"] = map[string]any{"value": []any{1}, "source": "user"}
		}, "fact", "run.json#/model/name"},
	} {
		list = append(list, hostile{what, changed(t, c.change), c.code, c.pointer})
	}
	return list
}

// numbers are the first n.
func numbers(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

func repeatOf(index int, cells ...any) map[string]any {
	return map[string]any{"index": index, "cells": append([]any{}, cells...)}
}

// with is a cell with one field changed.
func with(cell map[string]any, field string, value any) map[string]any {
	cell = maps.Clone(cell)
	cell[field] = value
	return cell
}

// manyRepeats are 21 repeats of a thousand cells, each as small as a cell can be.
func manyRepeats() []any {
	var list []any
	for i := range 21 {
		list = append(list, repeatOf(i+2, smallCells(1000)...))
	}
	return list
}

// smallCells are cells with as little as a cell can have.
func smallCells(n int) (list []any) {
	for i := range n {
		list = append(list, map[string]any{"phase": "decode", "context_label": "0", "context": 0, "concurrency": i + 1, "status": "Valid"})
	}
	return list
}

// clearNumbers takes the speeds out of a cell, and all that the schema lets be null but one field.
func clearNumbers(cell map[string]any, but string) {
	for _, name := range []string{"total_tokens_per_second", "per_request_tokens_per_second", "prompt_tokens_per_second", "output_tokens"} {
		if name != but {
			cell[name] = nil
		}
	}
}

func repeated(value any, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = value
	}
	return list
}

func hostileFacts(t *testing.T) (list []hostile) {
	fact := func(group, key, value string) []byte {
		return changed(t, func(r map[string]any) {
			r[group].(map[string]any)[key] = map[string]any{"value": value, "source": "user"}
		})
	}
	for what, value := range map[string]string{"a name that turns round": "gpt\u202eevil", "a name with nothing in it": "gpt\u200b-oss", "a name with a control": "gpt\x07", "a name with a line break": "gpt\noss"} {
		list = append(list, hostile{what, fact("model", "name", value), "name-unreadable", "run.json#/model/name"})
	}
	key := "sk-" + strings.Repeat("aB3", 16)
	return append(list,
		hostile{"a name without end", fact("hardware", "gpu", strings.Repeat("x", 300)), "name-too-long", "run.json#/hardware/gpu"},
		hostile{"a key in the command", changed(t, func(r map[string]any) {
			r["launch_command"] = map[string]any{"value": "vllm serve m --api-key " + key, "source": "process"}
		}), "secret", "run.json#/launch_command/value"},
		hostile{"a key in a warning", changed(t, func(r map[string]any) {
			r["warnings"] = []any{map[string]any{"code": "x", "message": "Authorization: Bearer " + key}}
		}), "secret", "run.json#/warnings/0/message"},
		hostile{"a key in the log", archived(t, regular("run.json", document(t, func(map[string]any) {})), regular("engine.log", []byte("started\nkey "+key+"\n"))), "secret", "engine.log"},
	)
}

func hostileRows(t *testing.T) (list []hostile) {
	rows, err := os.ReadFile(small + "/cells/decode-0-x1.parquet")
	if err != nil {
		t.Fatal(err)
	}
	requests, err := os.ReadFile(small + "/cells/requests-decode-0-x1.parquet")
	if err != nil {
		t.Fatal(err)
	}
	server, err := os.ReadFile(small + "/server.parquet")
	if err != nil {
		t.Fatal(err)
	}
	doc := document(t, func(map[string]any) {})
	list = append(list,
		hostile{"rows of no cell", archived(t, regular("run.json", doc), regular("cells/decode-9k-x9.parquet", rows)), "foreign-rows", "cells/decode-9k-x9.parquet"},
		hostile{"half of a cell's rows", archived(t, regular("run.json", doc), regular("cells/decode-0-x1.parquet", rows)), "half-rows", "cells/decode-0-x1.parquet"},
		hostile{"scrapes that are text", archived(t, regular("run.json", doc), regular("server.parquet", []byte("none"))), "rows-unreadable", "cells"},
		hostile{"scrapes as samples", archived(t, regular("run.json", doc), regular("machine.parquet", server)), "rows-unreadable", "cells"},
		hostile{"a script as rows", archived(t, regular("run.json", doc), regular("machine.parquet", []byte("<svg onload=alert(1)>"))), "rows-unreadable", "cells"},
	)
	for what, data := range map[string][]byte{
		"a table of two billion columns": parquetOf(append([]byte{0x19, 0xFC}, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0)), "a table within a table without end": parquetOf(bytes.Repeat([]byte{0x1C}, 5000)),
		"a table of nothing": parquetOf([]byte{0}), "another method of compression": reCompressed(t, rows),
		"rows that are text": []byte("no rows"), "no rows at all": nil, "half of the rows": rows[:len(rows)/2],
		"rows of another table": requests, "only the end of the rows": rows[len(rows)-200:], "a footer without end": append(bytes.Clone(rows[:len(rows)-8]), 0xff, 0xff, 0xff, 0x7f, 'P', 'A', 'R', '1'),
	} {
		list = append(list, hostile{what, packed(t, map[string][]byte{"cells/decode-0-x1.parquet": data}), "rows-unreadable", "cells"})
	}
	return list
}

// parquetOf is a file with that footer and nothing else.
func parquetOf(footer []byte) []byte {
	out := append([]byte("PAR1"), footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), "PAR1"...)
}

// reCompressed is a file that says of its first column that it is compressed by LZ4: 6 becomes 7 behind the column's path.
func reCompressed(t *testing.T, rows []byte) []byte {
	out := bytes.Clone(rows)
	at := bytes.LastIndex(out, []byte("request"))
	i := bytes.IndexByte(out[at:], 0x15)
	if at < 0 || i < 0 || out[at+i+1] != 12 {
		t.Fatal("the codec does not stand where it did")
	}
	out[at+i+1] = 14
	return out
}

// stuck gives some bytes and then fails as a connection does whose time is over.
type stuck struct{ first io.Reader }

func (s *stuck) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); err == nil {
		return n, nil
	}
	return 0, os.ErrDeadlineExceeded
}

func TestABodyThatStandsStillOrEndsIsRefused(t *testing.T) {
	w := newWorld(t)
	_, err := w.Receive(context.Background(), member("eve"), &stuck{bytes.NewReader(packed(t, nil)[:2000])})
	if p := problemOf(err); p == nil || p.Code != "too-slow" {
		t.Errorf("a body that stands still: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Receive(ctx, member("eve"), bytes.NewReader(packed(t, nil))); err == nil {
		t.Error("taken although the sender is gone")
	}
	if _, err := w.Receive(context.Background(), member("eve"), &endless{}); problemOf(err) == nil {
		t.Errorf("a body without end: %v", err)
	}
	w.nothing()
}

func TestTextThatLooksLikeMarkupIsText(t *testing.T) {
	const script = `<script>alert(1)</script><svg onload=alert(1)>"'` + "`{{.}}"
	w := newWorld(t)
	r := w.receive(member("eve"), changed(t, func(run map[string]any) {
		run["model"].(map[string]any)["name"] = map[string]any{"value": script, "source": script}
		run["warnings"] = []any{map[string]any{"code": script, "message": script}}
		cellOf(run, 0)["text_sample"] = script
	}))
	if r.Title == "" || w.store.Len() != 1 {
		t.Errorf("%+v", r)
	}
}

func TestRowsThatDisagreeKeepARunFromBeingRecomputed(t *testing.T) {
	w := newWorld(t)
	r := w.receive(member("eve"), changed(t, func(run map[string]any) {
		cell := cellOf(run, 0)
		cell["total_tokens_per_second"] = cell["total_tokens_per_second"].(float64) * 1.1
	}))
	var found []string
	for _, c := range r.Report.Checks {
		if c.Code == "recomputed" && c.Outcome == "found" {
			found = c.Cells
		}
	}
	if r.Report.Level != 2 || len(found) != 1 || found[0] != "decode-0-x1" {
		t.Errorf("level %d, cells %v", r.Report.Level, found)
	}
}
