//go:build unix

// Command footprint prints what the program itself takes: the size of the
// binary, the time from its start to its first request, and the most memory
// that runs with many streams need, measured against a ground truth server on
// 127.0.0.1.
//
//	go run ./bench/footprint [STREAMS…]
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"speedmatrix/internal/truth"
)

func main() {
	if err := all(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "footprint:", err)
		os.Exit(1)
	}
}

func all(ctx context.Context, args []string) error {
	streams := []string{"1", "32", "128"}
	if len(args) > 0 {
		streams = args
	}
	work, err := os.MkdirTemp("", "speedmatrix-footprint-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	program := filepath.Join(work, "speedmatrix")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "speedmatrix/cmd/speedmatrix")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	fmt.Printf("binary, static and stripped   %.1f MB\n", float64(info.Size())/1e6)
	if err := firstRequest(ctx, program); err != nil {
		return err
	}
	for _, n := range streams {
		if err := memory(ctx, program, filepath.Join(work, "run-"+n), n); err != nil {
			return err
		}
	}
	return nil
}

// firstRequest prints the time from the start of the process to the arrival of its first request, the median of nine.
func firstRequest(ctx context.Context, program string) error {
	arrived := make(chan time.Time, 64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case arrived <- time.Now():
		default:
		}
		http.NotFound(w, nil)
	})}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	var took []time.Duration
	for range 9 {
		for len(arrived) > 0 {
			<-arrived
		}
		started := time.Now()
		// The server is no LLM server, so the command fails; its first request is what counts.
		_ = exec.CommandContext(ctx, program, "run", "http://"+l.Addr().String()).Run()
		took = append(took, (<-arrived).Sub(started))
	}
	for i := range took {
		for j := i; j > 0 && took[j] < took[j-1]; j-- {
			took[j], took[j-1] = took[j-1], took[j]
		}
	}
	fmt.Printf("start to first request        %.0f ms (median of 9, %.0f … %.0f)\n", ms(took[4]), ms(took[0]), ms(took[8]))
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// memory prints the most memory that a run with so many streams held, and its CPU time.
func memory(ctx context.Context, program, out, streams string) error {
	n, err := strconv.Atoi(streams)
	if err != nil {
		return fmt.Errorf("%q is no number of streams", streams)
	}
	gap := 10 * time.Millisecond
	if n > 256 {
		gap = 20 * time.Millisecond
	}
	server, err := truth.Start(truth.Script{Version: "0.32.0", MaxLength: 32 << 10, Tokenize: true, HonourIgnoreEOS: true, PrefixCache: true,
		Gap: func(truth.Step) time.Duration { return gap }})
	if err != nil {
		return err
	}
	defer server.Close()
	cmd := exec.CommandContext(ctx, program, "run", server.URL(), "--contexts", "0", "--prefill", "none", "--concurrency", streams, "--quick", "--out", out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%d streams: %w\n%s", n, err, text)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return fmt.Errorf("this system does not tell the memory of a process")
	}
	fmt.Printf("run at %4d streams           %.0f MB at most, %.1f s of CPU for the whole run\n", n, float64(usage.Maxrss)*1024/1e6,
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	return nil
}
