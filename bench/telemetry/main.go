//go:build unix

// Command telemetry prints what sampling the machine costs: the CPU time of this
// program and of what it starts, over some seconds at two samples a second, with a
// script in the place of nvidia-smi. What nvidia-smi itself takes depends on the
// driver and is not part of it.
//
//	go run ./bench/telemetry            # 20 s, one GPU
//	go run ./bench/telemetry -gpus 8 -for 60s
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"speedmatrix/internal/machine"
	"speedmatrix/internal/stamp"
)

func main() {
	gpus := flag.Int("gpus", 1, "GPUs of the machine")
	length := flag.Duration("for", 20*time.Second, "how long to sample")
	flag.Parse()
	if err := measure(*gpus, *length); err != nil {
		fmt.Fprintln(os.Stderr, "telemetry:", err)
		os.Exit(1)
	}
}

func measure(gpus int, length time.Duration) error {
	folder, err := os.MkdirTemp("", "telemetry-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := os.WriteFile(filepath.Join(folder, "nvidia-smi"), []byte(script(gpus)), 0o755); err != nil {
		return err
	}
	if err := os.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return err
	}
	clock := stamp.NewClock()
	before, begun := used(syscall.RUSAGE_SELF), time.Now()
	s := machine.Watch{Now: clock.Now, Local: true, Port: 1}.Start(context.Background())
	started := used(syscall.RUSAGE_SELF)
	fmt.Printf("finding the GPUs and starting: %.1f ms of CPU, %v\n", ms(started-before), time.Since(begun).Round(time.Millisecond))
	time.Sleep(length)
	after := used(syscall.RUSAGE_SELF)
	s.Close()
	rows, about := s.Rows(), s.Describe()
	fmt.Printf("%s: %d rows of %d GPUs and the machine in %v\n", strings.Join(about.Sources, ", "), len(rows), len(about.GPUs), length)
	fmt.Printf("sampling: %.1f ms of CPU, %.3f %% of one core\n", ms(after-started), float64(after-started)/float64(length)*100)
	fmt.Printf("the script in the place of nvidia-smi: %.1f ms\n", ms(used(syscall.RUSAGE_CHILDREN)))
	for _, missing := range about.Missing {
		fmt.Println("missing:", missing)
	}
	return nil
}

// used is the CPU time that a process has taken.
func used(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// script answers as nvidia-smi of a machine with so many RTX 3090 would.
func script(gpus int) string {
	var facts, samples, rates strings.Builder
	for i := range gpus {
		fmt.Fprintf(&facts, "%d, GPU-%08d, 595.58.03, 24576, 94.02.42.80.88, 1, 16, 4, 16, 350.00, 350.00, 366.00, 2100, 9751, [N/A], Disabled, [N/A], NVIDIA GeForce RTX 3090\n", i, i)
		fmt.Fprintf(&samples, "%d, 1890, 9501, 348.12, 71, [N/A], 99, 22911, 0x0000000000000004, 4, 16\n", i)
		fmt.Fprintf(&rates, "    %d    312     87\n", i)
	}
	return `#!/bin/sh
case "$*" in
*--loop-ms=*) while :; do cat <<'EOT'
` + samples.String() + `EOT
sleep 0.5; done ;;
dmon*) echo '# gpu  rxpci  txpci'; while :; do cat <<'EOT'
` + rates.String() + `EOT
sleep 1; done ;;
*--query-compute-apps=*) ;;
*) cat <<'EOT'
` + facts.String() + `EOT
;;
esac
`
}
