package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/truth"
)

// program is the program in a process of its own, on the real clock and real sockets.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// slowToRead is a server whose prompts take up to half a second, and whose model is too short for any decode cell.
// The warm-up is over soon: its short request is quick, its long one steady to the token.
func slowToRead() truth.Script {
	return truth.Script{Version: "1", MaxLength: 4500, PrefillPerToken: 100 * time.Microsecond, Tokenize: true,
		Gap: func(s truth.Step) time.Duration {
			if s.Token < 256 {
				return time.Millisecond
			}
			return 50 * time.Millisecond
		}}
}

// A run that is killed at a random moment goes on: nothing that was finished is lost or changed, and the end is
// a complete run that verifies.
func TestRealRunThatIsKilledGoesOn(t *testing.T) {
	server, err := truth.Start(slowToRead())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "run")
	cmd := program(t, "run", server.URL(), "--yes", "--events", "--contexts", "4K", "--concurrency", "1", "--prefill", "512,1K,2K,4K", "--out", dir)
	finished := killAfterFirstCell(t, cmd, time.Duration(rand.Int64N(int64(2*time.Second))))
	kept := reportOf(t, dir)
	for _, key := range finished[:len(finished)-1] { // the last one's files may not have been complete
		if kept[key] == "" {
			t.Errorf("%s was finished and is lost", key)
		}
	}
	if out, err := program(t, "run", "--yes", "--resume", dir).CombinedOutput(); err != nil {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	now := reportOf(t, dir)
	for key, was := range kept {
		if now[key] != was {
			t.Errorf("%s has changed\nfrom %s\nto   %s", key, was, now[key])
		}
	}
	if len(now) != 5 {
		t.Errorf("%d of 5 cells at the end", len(now))
	}
	if out, err := program(t, "verify", dir).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// killAfterFirstCell kills a run some time after its first cell has ended, and gives the cells that had ended by then.
func killAfterFirstCell(t *testing.T, cmd *exec.Cmd, after time.Duration) (finished []string) {
	t.Helper()
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e struct{ Event, Cell string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Errorf("not an event: %s", lines.Text())
		}
		if e.Event != "done" {
			continue
		}
		finished = append(finished, e.Cell)
		if len(finished) == 1 {
			timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
	}
	_ = cmd.Wait() // killed, or complete before that
	if len(finished) == 0 {
		t.Fatalf("no cell was measured:\n%s", words.String())
	}
	return finished
}

// reportOf gives the cells of a run that are not to be measured any more, each as its JSON.
func reportOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	data, err := program(t, "report", dir, "--json").Output()
	if err != nil {
		t.Fatalf("report: %v", err)
	}
	var doc speedmatrix.Run
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	cells := map[string]string{}
	for i := range doc.Cells {
		if c := &doc.Cells[i]; c.Status != speedmatrix.StatusInterrupted {
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			cells[c.Key()] = string(text)
		}
	}
	return cells
}
