//go:build linux

// Command liveview shows what the live view costs: it runs the program against a ground truth server of its own, on a
// terminal, in turns with the live view and with a line a cell, and prints how far the stamps of the cell's events are
// from the server's send times, and what CPU time the program took in the window. The telemetry runs in both.
//
//	go run ./bench/liveview [-pairs 5] [-streams 32] [-gap 20ms] [-program FILE]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/truth"
)

func main() {
	t := &trial{}
	flag.IntVar(&t.pairs, "pairs", 5, "how often both are measured")
	flag.IntVar(&t.streams, "streams", 32, "simultaneous requests")
	flag.DurationVar(&t.gap, "gap", 20*time.Millisecond, "time between two tokens of a stream")
	flag.StringVar(&t.program, "program", "", "the program (default: built from here)")
	flag.Parse()
	if err := t.all(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "liveview:", err)
		os.Exit(1)
	}
}

// trial is a number of pairs of runs.
type trial struct {
	pairs, streams int
	gap            time.Duration
	program        string
	folder         string
	server         *truth.Server
}

// figures are those of runs of one kind.
type figures struct {
	errors []float64 // µs
	p99    []float64 // of each run's errors
	cores  []float64
	bytes  int64
}

func (t *trial) all(ctx context.Context) (err error) {
	if t.folder, err = os.MkdirTemp("", "speedmatrix-liveview-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(t.folder) }()
	if t.program == "" {
		t.program = filepath.Join(t.folder, "speedmatrix")
		build := exec.CommandContext(ctx, "go", "build", "-o", t.program, "speedmatrix/cmd/speedmatrix")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build the program: %w", err)
		}
	}
	t.server, err = truth.Start(truth.Script{Version: "1", MaxLength: 16 << 10, KVTokens: 1 << 20, PrefixCache: true, HonourIgnoreEOS: true, Tokenize: true,
		Gap: func(truth.Step) time.Duration { return t.gap }})
	if err != nil {
		return err
	}
	defer t.server.Close()
	return t.measure(ctx)
}

// measure runs the pairs; which kind comes first changes from pair to pair.
func (t *trial) measure(ctx context.Context) error {
	fmt.Printf("%d streams, a token each %s\n", t.streams, t.gap)
	fmt.Println("pair  view    stamp error p50 / p99, µs   events   cores in the window   drawn, bytes")
	var with, without figures
	for pair := range t.pairs {
		for turn := range 2 {
			view := (pair+turn)%2 == 0
			all, name := &without, "lines"
			if view {
				all, name = &with, "live"
			}
			one, err := t.run(ctx, view, fmt.Sprintf("%d-%s", pair, name))
			if err != nil {
				return err
			}
			fmt.Printf("%4d  %-5s %12.1f / %-10.1f %10d %16.4f %18d\n", pair+1, name, quantile(one.errors, 0.5), quantile(one.errors, 0.99), len(one.errors), one.cores[0], one.bytes)
			all.errors, all.cores = append(all.errors, one.errors...), append(all.cores, one.cores...)
			all.p99 = append(all.p99, quantile(one.errors, 0.99))
		}
	}
	for _, all := range []struct {
		name string
		f    *figures
	}{{"live", &with}, {"lines", &without}} {
		// A server that is put aside within a write spoils the p99 of one run; the median of the runs knows nothing of that.
		fmt.Printf(" all  %-5s %12.1f / %-10.1f %10d %16.4f   (p99: the median of the runs)\n",
			all.name, quantile(all.f.errors, 0.5), quantile(all.f.p99, 0.5), len(all.f.errors), stats.Mean(all.f.cores))
	}
	fmt.Printf("the live view takes %+.2f %% of one core more than lines\n", (stats.Mean(with.cores)-stats.Mean(without.cores))*100)
	return nil
}

func quantile(values []float64, p float64) float64 {
	return stats.Quantile(slices.Sorted(slices.Values(values)), p)
}

// run measures one cell on a terminal.
func (t *trial) run(ctx context.Context, view bool, name string) (figures, error) {
	before := len(t.server.Account().Requests)
	dir := filepath.Join(t.folder, name)
	args := []string{"run", t.server.URL(), "--yes", "--quick", "--contexts", "0", "--concurrency", fmt.Sprint(t.streams), "--prefill", "none", "--out", dir}
	if !view {
		args = append(args, "--lines")
	}
	drawn, err := onTerminal(exec.CommandContext(ctx, t.program, args...), 120, 40)
	if err != nil {
		return figures{}, fmt.Errorf("%s: %w\n%s", name, err, drawn)
	}
	f := figures{bytes: int64(len(drawn))}
	cell, lists, err := recorded(dir, t.streams)
	if err != nil {
		return figures{}, err
	}
	if cell.Client == nil || cell.Client.CPUShare == nil {
		return figures{}, fmt.Errorf("%s: %s: %s", name, cell.Status, cell.Reason)
	}
	if cell.Status != speedmatrix.StatusValid {
		fmt.Printf("      the machine was not calm: %s: %s\n", cell.Status, cell.Reason) // the kernel's stamps are right all the same
	}
	f.cores = []float64{*cell.Client.CPUShare}
	f.errors, err = compared(lists, t.server.Account().Requests[before:])
	return f, err
}
