package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"speedmatrix/internal/launch"
	"speedmatrix/internal/profile"
)

// briefly are options for a run of one cell.
const briefly = "--quick --contexts 0 --concurrency 1 --prefill none"

// Every step of the reusable workflow and of the action is run as GitHub would, against the simulated engine.
func TestRealGate(t *testing.T) {
	workspace := t.TempDir()
	slower := writeSlower(t, workspace)
	first := gate(t, workspace, map[string]string{"launch": serving(t, "rtx3090-agents-a1-4b-fp8")})
	if first.failed || first.values["steps.gate.outputs.run"] == "" || first.values["steps.gate.outputs.passed"] != "" {
		t.Fatalf("without a baseline: failed %v, %v", first.failed, first.values)
	}
	if err := os.Rename(filepath.Join(workspace, "speed-gate/run"), filepath.Join(workspace, "main")); err != nil {
		t.Fatal(err)
	}
	t.Run("a slower server breaks the limit", func(t *testing.T) {
		j := gate(t, workspace, map[string]string{"launch": serving(t, slower), "baseline": "main", "fail-if": "total < -5%\nttft > 500%\n"})
		if !j.failed || j.values["steps.gate.outputs.passed"] != "false" {
			t.Errorf("failed %v, %v", j.failed, j.values)
		}
		j.posts("B is slower in the one cell")
	})
	t.Run("an equal one does not", func(t *testing.T) {
		j := gate(t, workspace, map[string]string{"launch": serving(t, "rtx3090-agents-a1-4b-fp8"), "baseline-launch": serving(t, "rtx3090-agents-a1-4b-fp8"), "fail-if": "total < -5%"})
		if j.failed || j.values["steps.gate.outputs.passed"] != "true" {
			t.Errorf("failed %v, %v", j.failed, j.values)
		}
		j.posts("Total tok/s")
	})
	t.Run("in alternation", func(t *testing.T) {
		j := gate(t, workspace, map[string]string{"url": served(t, slower), "baseline-url": served(t, "rtx3090-agents-a1-4b-fp8"), "fail-if": "total < -5% @0 x1", "options": briefly + " --repeat 2"})
		if !j.failed || j.values["steps.gate.outputs.passed"] != "false" {
			t.Errorf("failed %v, %v", j.failed, j.values)
		}
		j.posts("B is slower in the one cell")
	})
}

// writeSlower writes a profile whose steps take a quarter longer.
func writeSlower(t *testing.T, dir string) (path string) {
	t.Helper()
	p, err := profile.Named("rtx3090-agents-a1-4b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	slow := *p
	slow.Name = "slower"
	slow.StepTime.BaseMS *= 1.25
	text, err := slow.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "slower.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serving is a command that serves a profile, as the steps know it.
func serving(t *testing.T, name string) string {
	t.Helper()
	return launch.Quote([]string{"speedmatrix", "sim", name, "--port", freePort(t)})
}

// served serves a profile until the test ends, and gives its URL.
func served(t *testing.T, name string) string {
	t.Helper()
	port := freePort(t)
	cmd := program(t, "sim", name, "--port", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	until(t, "it serves", func() bool { return listens("127.0.0.1:" + port) })
	return "http://127.0.0.1:" + port
}

// gate follows the workflow with some inputs; what an earlier one left is gone, as after a checkout.
func gate(t *testing.T, workspace string, inputs map[string]string) *job {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(workspace, "speed-gate")); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"speedmatrix": "example/speedmatrix@main", "options": briefly, "comment": "true"}
	var w workflow
	readYAML(t, "../../.github/workflows/speed-gate.yml", &w)
	for name := range inputs {
		if _, known := w.On.Call.Inputs[name]; !known {
			t.Errorf("the workflow has no input %q", name)
		}
		given[name] = inputs[name]
	}
	j := newJob(t, workspace, given)
	j.fakeGH()
	j.follow(w.Jobs.Gate.Steps)
	if ref := j.values["steps.tool.outputs.ref"]; ref != "main" {
		t.Errorf("speedmatrix is taken at %q", ref)
	}
	if len(j.uploaded) != 1 {
		t.Errorf("uploaded are %v", j.uploaded)
	}
	return j
}

// fakeGH stands for GitHub's own command: it keeps what it was told.
func (j *job) fakeGH() {
	j.t.Helper()
	bin := filepath.Join(j.temp, "bin")
	script := "#!/bin/sh\nprintf '%s ' \"$@\" >\"$RUNNER_TEMP/gh\"\nfor last; do :; done\ncat \"$last\" >\"$RUNNER_TEMP/comment\"\n"
	if err := os.Mkdir(bin, 0o755); err != nil {
		j.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "gh"), []byte(script), 0o755); err != nil {
		j.t.Fatal(err)
	}
	j.env = append(j.env, "PATH="+bin+string(os.PathListSeparator)+j.path())
}

// posts wants the comparison on the job's page, in the comment and among the files, saying so.
func (j *job) posts(says string) {
	j.t.Helper()
	summary := j.summary()
	if !strings.Contains(summary, says) || !strings.Contains(summary, "| Context |") {
		j.t.Errorf("the summary is\n%s", summary)
	}
	if comment := j.read(filepath.Join(j.temp, "comment")); comment != summary {
		j.t.Errorf("the comment is\n%s", comment)
	}
	if words := j.read(filepath.Join(j.temp, "gh")); !strings.HasPrefix(words, "pr comment 17 --edit-last --create-if-none --body-file ") {
		j.t.Errorf("gh is told %q", words)
	}
	if page := j.read(filepath.Join(j.workspace, j.values["steps.gate.outputs.page"])); !strings.Contains(page, "<html") {
		j.t.Error("the page is none")
	}
}
