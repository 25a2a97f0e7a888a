// Command kill shows that a run survives being killed: it starts a run, kills
// it (SIGKILL) at random moments, goes on with --resume each time, and says
// what each kill cost. At the end the run must be complete and pass verify.
//
//	go run ./bench/kill [-times 10] [-seed N] [-dir DIR] [URL]
//
// Without URL it measures a fast ground truth server of its own on 127.0.0.1.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"speedmatrix/internal/truth"
)

// latest is the latest moment of a kill after the start of its part of the run: the start itself takes some ten
// seconds, a cell seven or more.
const latest = 25 * time.Second

func main() {
	times := flag.Int("times", 10, "how often the run is killed")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments")
	dir := flag.String("dir", "", "folder for the run, kept afterwards (default: a temporary one)")
	flag.Parse()
	t := &trial{times: *times, random: rand.New(rand.NewPCG(*seed, 0)), url: flag.Arg(0)}
	fmt.Printf("seed %d\n", *seed)
	if err := t.all(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "kill:", err)
		os.Exit(1)
	}
}

// trial is one run that is killed several times.
type trial struct {
	times   int
	random  *rand.Rand
	url     string
	program string
	dir     string
	kept    map[string]string // what the document says of each cell that is measured, by its key
}

// all builds the program, starts a server where none is given, and goes through the trial.
func (t *trial) all(ctx context.Context, folder string) error {
	work, err := os.MkdirTemp("", "speedmatrix-kill-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	t.program = filepath.Join(work, "speedmatrix")
	build := exec.CommandContext(ctx, "go", "build", "-o", t.program, "speedmatrix/cmd/speedmatrix")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the program: %w", err)
	}
	if t.url == "" {
		server, err := truth.Start(fast())
		if err != nil {
			return err
		}
		defer server.Close()
		t.url = server.URL()
	}
	if folder == "" {
		folder = work
	}
	t.dir = filepath.Join(folder, "run")
	return t.repeat(ctx)
}

// fast is a server of 200 tok/s a stream that prefills 10,000 tok/s.
func fast() truth.Script {
	return truth.Script{Version: "1", MaxLength: 16 << 10, KVTokens: 256 << 10, PrefixCache: true, HonourIgnoreEOS: true, Tokenize: true,
		PrefillPerToken: 100 * time.Microsecond, Gap: func(truth.Step) time.Duration { return 5 * time.Millisecond }}
}

// repeat kills the run so many times, lets it end, and verifies it.
func (t *trial) repeat(ctx context.Context) error {
	longest := 0
	for n := 1; n <= t.times; n++ {
		after := time.Duration(t.random.Int64N(int64(latest)))
		p, err := t.part(ctx, after)
		if err != nil {
			return err
		}
		if !p.killed {
			fmt.Printf("%2d  the run was complete before its kill after %.1f s\n", n, after.Seconds())
			break
		}
		lost, err := t.compare(ctx, p)
		if err != nil {
			return fmt.Errorf("kill %d: %w", n, err)
		}
		longest = max(longest, len(lost))
		fmt.Printf("%2d  killed after %4.1f s in %-28s %2d cells kept, lost: %s\n", n, after.Seconds(), p.where()+",", len(t.kept), orNothing(lost))
	}
	p, err := t.part(ctx, 0)
	if err != nil {
		return err
	}
	if _, err := t.compare(ctx, p); err != nil {
		return err
	}
	said, err := exec.CommandContext(ctx, t.program, "verify", t.dir).CombinedOutput()
	fmt.Printf("complete with %d cells; verify: %s", len(t.kept), said)
	if err == nil && longest > 1 {
		err = fmt.Errorf("a kill cost %d cells; at most the one in flight may be lost", longest)
	}
	return err
}
