package need_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"speedmatrix/internal/need"
)

// ending records how a test would have ended.
type ending struct {
	testing.TB
	skipped, failed string
}

func (e *ending) Helper() {}

func (e *ending) Skipf(format string, args ...any) {
	e.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (e *ending) Fatalf(format string, args ...any) {
	e.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func endOf(body func(testing.TB)) *ending {
	e := &ending{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		body(e)
	}()
	<-done
	return e
}

func TestWhatIsMissingSkipsByHandAndFailsInCI(t *testing.T) {
	t.Setenv("NEED_TEST_SETTING", "")
	t.Setenv("PATH", t.TempDir())
	bodies := map[string]func(testing.TB){
		"NEED_TEST_SETTING": func(t testing.TB) { need.Setting(t, "NEED_TEST_SETTING") },
		"chromium":          func(t testing.TB) { need.Program(t, "chromium", "chrome") },
	}
	for name, body := range bodies {
		t.Setenv("CI", "")
		if e := endOf(body); e.failed != "" || !strings.Contains(e.skipped, name) {
			t.Errorf("%s by hand: skipped %q, failed %q; want a skip that names it", name, e.skipped, e.failed)
		}
		t.Setenv("CI", "true")
		if e := endOf(body); e.skipped != "" || !strings.Contains(e.failed, name) {
			t.Errorf("%s in CI: skipped %q, failed %q; want a failure that names it", name, e.skipped, e.failed)
		}
	}
}

func TestWhatIsThereIsHandedOver(t *testing.T) {
	t.Setenv("CI", "true")
	t.Setenv("NEED_TEST_SETTING", "http://127.0.0.1:1")
	if got := need.Setting(t, "NEED_TEST_SETTING"); got != "http://127.0.0.1:1" {
		t.Errorf("Setting gives %q", got)
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "chrome")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	if got := need.Program(t, "chromium", "chrome"); got != program {
		t.Errorf("Program gives %q, want the second name's %q", got, program)
	}
}
