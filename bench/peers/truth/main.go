//go:build linux

// Command truth serves the ground truth while a command measures it, watches what
// the command takes, and writes both to a file.
//
//	truth -listen ADDRESS -out FILE [-gap TIME] [-wait TIME] [-spread] [-limit TIME] -- COMMAND…
//
// The command is started when the server listens, and ended at the limit. Its
// processor time and memory are those of its whole tree of processes; the server
// is in this process and counts for neither. The exit status is the command's.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:18431", "where to serve")
	gap := flag.Duration("gap", 20*time.Millisecond, "time between two tokens of a stream")
	wait := flag.Duration("wait", 100*time.Millisecond, "time from a request to its first token, at least")
	spread := flag.Bool("spread", false, "spread the streams over the gap")
	limit := flag.Duration("limit", 3*time.Minute, "longest time for the command")
	out := flag.String("out", "", "file for the account, JSON")
	flag.Parse()
	b := truth.Beat{Address: *listen, Gap: *gap, Wait: *wait, Spread: *spread, Clock: stamp.NewClock()}
	status, err := measure(b, *limit, *out, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

// account is what was sent and what the command took. Times are in ns since 1970.
type account struct {
	Command []string `json:"command"`
	// Status is the exit status, −1 where a signal ended the command.
	Status    int   `json:"status"`
	StartedNS int64 `json:"started_ns"`
	EndedNS   int64 `json:"ended_ns"`
	// CPUSeconds and PeakRSS (bytes) are of the command's tree; Samples tell its use over time.
	CPUSeconds float64   `json:"cpu_seconds"`
	PeakRSS    int64     `json:"peak_rss"`
	Samples    []sample  `json:"samples"`
	Requests   []request `json:"requests"`
}

// request is one request: when its last byte arrived, and when the call began that sent each token.
type request struct {
	ArrivedNS int64   `json:"arrived_ns"`
	SentNS    []int64 `json:"sent_ns"`
}

func measure(b truth.Beat, limit time.Duration, out string, command []string) (status int, err error) {
	if len(command) == 0 || out == "" {
		return 0, errors.New("-out and a command are needed; see -h")
	}
	if err := adoptOrphans(); err != nil {
		return 0, fmt.Errorf("processes whose parent ends could not be watched: %w", err)
	}
	server, err := truth.StartBeat(b)
	if err != nil {
		return 0, err
	}
	defer server.Close()
	a, err := watched(b.Clock, limit, command)
	if err != nil {
		return 0, err
	}
	for _, r := range server.Account() {
		sent := make([]int64, len(r.Sent))
		for i, s := range r.Sent {
			sent[i] = s.BeganNS
		}
		a.Requests = append(a.Requests, request{ArrivedNS: r.ArrivedNS, SentNS: sent})
	}
	return a.Status, write(out, a)
}

// watched runs the command and tells what it took.
func watched(clock *stamp.Clock, limit time.Duration, command []string) (*account, error) {
	a := &account{Command: command, StartedNS: clock.Now()}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := time.AfterFunc(limit, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // who has ended already is fine
	defer end.Stop()
	w := watch(clock)
	err := cmd.Wait()
	a.EndedNS = clock.Now()
	a.Samples = w.stop()
	if left := (*exec.ExitError)(nil); err != nil && !errors.As(err, &left) {
		return nil, err
	}
	a.Status = cmd.ProcessState.ExitCode()
	a.CPUSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	for _, s := range a.Samples {
		// A process that its parent did not wait for is in the samples alone.
		a.CPUSeconds, a.PeakRSS = max(a.CPUSeconds, s.CPUSeconds), max(a.PeakRSS, s.RSS)
	}
	return a, nil
}

// write writes the account, whole or not at all.
func write(path string, a *account) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(part, text, 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}
