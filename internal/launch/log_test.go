package launch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix/internal/launch"
)

func same(line string) string { return line }

func written(t *testing.T, l *launch.Log) string {
	t.Helper()
	var b strings.Builder
	if _, err := l.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestALogKeepsLinesAsAReaderWouldSeeThem(t *testing.T) {
	l := launch.NewLog(func(line string) string { return strings.ReplaceAll(line, "secret", "…") }, nil)
	for _, part := range []string{"a sec", "ret\nb\r\n", "\x1b[31mred\x1b[0m\n", " 10%\r 5", "0%\r", "100%\nnext \xff\n\n", "not ended"} {
		_, _ = l.Write([]byte(part))
	}
	if got, want := written(t, l), "a …\nb\nred\n100%\nnext \uFFFD\n\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := l.Last(2); !slices.Equal(got, []string{"100%", "next \uFFFD"}) {
		t.Errorf("the last lines are %q", got)
	}
}

func TestALogIsBoundedAndKeepsItsBeginningAndEnd(t *testing.T) {
	l := launch.NewLog(same, nil)
	const lines = 100_000
	for i := range lines {
		_, _ = fmt.Fprintf(l, "line %d of a server that says a lot\n", i)
	}
	text := written(t, l)
	if len(text) > 1100<<10 || !strings.HasPrefix(text, "line 0 ") || !strings.HasSuffix(text, "line 99999 of a server that says a lot\n") {
		t.Errorf("%d bytes, from %.20q", len(text), text)
	}
	if kept := strings.Count(text, "\n") - 1; !strings.Contains(text, fmt.Sprintf("… %d lines left out …", lines-kept)) {
		t.Errorf("%d lines kept, and no word of the rest", kept)
	}
	_, _ = l.Write([]byte(strings.Repeat("x", 1<<20) + "\n"))
	if got := l.Last(1); len(got[0]) > 9<<10 {
		t.Errorf("a line of %d bytes", len(got[0]))
	}
}

// However the output is cut into writes, the log is the same.
func TestALogDoesNotDependOnHowItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "bc", "\n", "\r\n", "x\r", " "})).Draw(t, "text"), "") + "end\n"
		whole, parts := launch.NewLog(same, nil), launch.NewLog(same, nil)
		_, _ = whole.Write([]byte(text))
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			_, _ = parts.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if a, b := whole.Lines(), parts.Lines(); !slices.Equal(a, b) {
			t.Fatalf("%q is %q at once and %q in parts", text, a, b)
		}
	})
}
