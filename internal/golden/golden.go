// Package golden compares what a test produced with a file kept under the
// testdata folder of the package under test. "go test -update" writes the
// files anew instead, so that a change of output is reviewed as a diff.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A flag has to exist before the test binary parses its arguments, so it
// cannot be made inside Check.
var update = flag.Bool("update", false, "write the golden files under testdata anew")

// Check fails the test if got differs from testdata/name (slashes make
// folders), naming the first line that differs. With -update it writes the
// file instead and never fails for a difference. A missing file is a failure.
func Check(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := write(path, got); err != nil {
			t.Fatalf("golden file %s: %v", path, err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden file %s: %v\n(run the test with -update to write it)", path, err)
		return
	}
	if difference := Diff(want, got); difference != "" {
		t.Errorf("output differs from %s (run the test with -update if that is meant)\n%s", path, difference)
	}
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// Diff tells where got leaves want: the number of the first line that
// differs, that line in both, and the two lines before it. It is empty when
// both are the same bytes.
func Diff(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	a, b := lines(want), lines(got)
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	var out strings.Builder
	fmt.Fprintf(&out, "first difference at line %d (want %d lines, got %d)\n", at+1, len(a), len(b))
	for i := max(0, at-2); i < at; i++ {
		fmt.Fprintf(&out, "       %s\n", clip(a[i]))
	}
	fmt.Fprintf(&out, " want: %s\n", line(a, at))
	fmt.Fprintf(&out, "  got: %s\n", line(b, at))
	return out.String()
}

// lines keeps the line ends, so that a file without its last one differs.
func lines(data []byte) []string {
	return strings.SplitAfter(string(data), "\n")
}

func line(all []string, at int) string {
	if at >= len(all) {
		return "(end of text)"
	}
	return clip(all[at])
}

// clip makes one line of a golden file fit a terminal; white space is shown
// quoted where it would be invisible.
func clip(s string) string {
	const most = 200
	s = fmt.Sprintf("%q", s)
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
