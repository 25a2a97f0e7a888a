// Package need gives tests what lies outside this program: a running server,
// a database, a browser. Where it is missing the test is skipped with the
// reason, except when CI is true: there it fails, so that no test can drop
// out of the gate unseen.
//
// Tests that need something from outside are named TestReal…: the test
// command of this repository sets up what they need and runs them one package
// after the other, apart from the rest.
package need

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The settings through which the test command hands over what it has set up.
const (
	LlamaCPP = "SPEEDMATRIX_TEST_LLAMACPP" // base URL of a llama.cpp server with 4 slots of 2,048 tokens
	Axe      = "SPEEDMATRIX_TEST_AXE"      // path of axe.min.js, which checks pages for accessibility
	OIDC     = "SPEEDMATRIX_TEST_OIDC"     // issuer of an OpenID Connect provider that lets in whoever comes
	Postgres = "SPEEDMATRIX_TEST_POSTGRES" // URL of a PostgreSQL server whose user may make databases
)

// Setting returns the value of the environment variable name. Without one it
// ends the test: skipped, or failed when CI is true.
func Setting(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		missing(t, name+" is not set (./test sets it)")
	}
	return value
}

// Program returns the path of the first of names that is found on PATH.
// Without any it ends the test: skipped, or failed when CI is true.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "no "+strings.Join(names, " or ")+" on PATH")
	return ""
}

// Browser returns the path of a Chromium or ends the test as Program does.
func Browser(t testing.TB) string {
	t.Helper()
	return Program(t, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
}

func missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("needed, and CI skips nothing: %s", reason)
	}
	t.Skipf("needs something from outside: %s", reason)
}
