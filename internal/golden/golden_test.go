package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// recorder is a test that remembers how it failed.
type recorder struct {
	testing.TB
	failure string
	stopped bool
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.failure = fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure, r.stopped = fmt.Sprintf(format, args...), true
}

func check(t *testing.T, name, got string, writes bool) *recorder {
	t.Helper()
	before := *update
	*update = writes
	defer func() { *update = before }()
	r := &recorder{TB: t}
	Check(r, name, []byte(got))
	return r
}

func TestAFileWrittenByUpdateIsEqualUntilTheOutputChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	if r := check(t, "folder/page.txt", "one\ntwo\n", false); !r.stopped || !strings.Contains(r.failure, "-update") {
		t.Errorf("without a file: %q", r.failure)
	}
	if r := check(t, "folder/page.txt", "one\ntwo\n", true); r.failure != "" {
		t.Fatalf("writing: %s", r.failure)
	}
	if data, err := os.ReadFile("testdata/folder/page.txt"); err != nil || string(data) != "one\ntwo\n" {
		t.Errorf("wrote %q, %v", data, err)
	}
	if r := check(t, "folder/page.txt", "one\ntwo\n", false); r.failure != "" {
		t.Errorf("the same output: %s", r.failure)
	}
	if r := check(t, "folder/page.txt", "one\ntoo\n", false); !strings.Contains(r.failure, "line 2") || r.stopped {
		t.Errorf("changed output: %q", r.failure)
	}
}

func TestAFolderThatCannotBeMadeIsAFailure(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("testdata", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := check(t, "a.txt", "x", true); !r.stopped {
		t.Error("no failure")
	}
}

func TestDiffShowsTheFirstLineThatDiffers(t *testing.T) {
	tests := []struct{ name, want, got, diff string }{
		{"equal", "a\nb\n", "a\nb\n", ""},
		{"changed", "a\nb\nc\nd\n", "a\nb\nc\ne\n",
			"first difference at line 4 (want 5 lines, got 5)\n       \"b\\n\"\n       \"c\\n\"\n want: \"d\\n\"\n  got: \"e\\n\"\n"},
		{"shorter", "a\nb", "a\n", "first difference at line 2 (want 2 lines, got 2)\n       \"a\\n\"\n want: \"b\"\n  got: \"\"\n"},
		{"longer by lines", "a", "a\nb\nc", "first difference at line 1 (want 1 lines, got 3)\n want: \"a\"\n  got: \"a\\n\"\n"},
		{"blanks at the end", "a \n", "a\n", "first difference at line 1 (want 2 lines, got 2)\n want: \"a \\n\"\n  got: \"a\\n\"\n"},
	}
	for _, test := range tests {
		if diff := Diff([]byte(test.want), []byte(test.got)); diff != test.diff {
			t.Errorf("%s:\n%q\nwant\n%q", test.name, diff, test.diff)
		}
	}
	if diff := Diff([]byte(strings.Repeat("x", 1000)), nil); len(diff) > 400 {
		t.Errorf("a long line is not shortened: %d bytes", len(diff))
	}
}
