//go:build !race

package speedmatrix_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"speedmatrix/internal/need"
)

// taboo is a pattern that no file of the repository contains, and why. The
// patterns are written so that they do not match themselves.
type taboo struct {
	pattern *regexp.Regexp
	why     string
}

var taboos = []taboo{
	{absolute("w[o]rk|r[o]ot|h[o]me|U[s]ers"), "a path of one person's machine"},
	{absolute("t[m]p|v[a]r/t[m]p"), "temporary folders come from t.TempDir, os.MkdirTemp or the user"},
	{regexp.MustCompile(`(?i)\b(registry|pr[o]xy|index|static|sum|deb|files|repo[0-9]*)\.[a-z0-9-]+\.(org|com|io|net)\b|\bp[y]pi\.[a-z]`), "the host of a package registry: packages are named by name"},
	{regexp.MustCompile(`\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b`), "unfinished work is finished or filed, not noted in the code"},
	{regexp.MustCompile(`\bshared/(de[s]ign|ref[e]rence|eng[i]nes|m[o]ckups|se[e]ds|s[a]mples)\b`), "a file outside the repository"},
	{regexp.MustCompile(`(?i)\bwork[p]lace\b|\bspeedmatrix[ ]helper\b`), "the repository speaks of the product alone"},
}

// absolute matches paths from the root of a file system into one of folders.
func absolute(folders string) *regexp.Regexp {
	return regexp.MustCompile("(?m)(^|[\\s\"'`(=:,\\[])/(" + folders + ")/[A-Za-z0-9_.$*-]")
}

// foreign are files whose words are not ours: sums, texts and code of others.
func foreign(name string) bool {
	return slices.Contains([]string{"LICENSE", "go.sum", "tools.sum"}, name) ||
		slices.Contains(strings.Split(path.Dir(name), "/"), "vendor") ||
		strings.HasSuffix(name, ".min.js")
}

func TestTheRepositorySpeaksOfTheProductAlone(t *testing.T) {
	git := need.Program(t, "git")
	list, err := exec.CommandContext(t.Context(), git, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if foreign(name) {
			continue
		}
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, but not yet in a commit
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(data[:min(len(data), 8000)], 0) < 0 {
			checkWords(t, name, data)
		}
	}
}

func checkWords(t *testing.T, name string, data []byte) {
	t.Helper()
	for _, taboo := range taboos {
		for _, at := range taboo.pattern.FindAllIndex(data, -1) {
			line := 1 + bytes.Count(data[:at[0]], []byte("\n"))
			t.Errorf("%s:%d: %q: %s", name, line, bytes.TrimSpace(data[at[0]:at[1]]), taboo.why)
		}
	}
}

func TestTaboosMatchWhatTheyMean(t *testing.T) {
	slash := "/"
	forbidden := []string{
		"see " + slash + "home/ann/notes", "`" + slash + "tmp/out`", slash + "root/x", "https://proxy" + ".example.org/x",
		"TO" + "DO: later", "(" + slash + "work/main)",
	}
	for _, text := range forbidden {
		if !slices.ContainsFunc(taboos, func(x taboo) bool { return x.pattern.MatchString(text) }) {
			t.Errorf("no pattern matches %q", text)
		}
	}
	allowed := []string{"network/home/x", "https://example.org/home/x", "a proxy. It", "/v1/models", "$WORK/home/run", "todo list"}
	for _, text := range allowed {
		for _, x := range taboos {
			if x.pattern.MatchString(text) {
				t.Errorf("%s matches %q", x.pattern, text)
			}
		}
	}
}
