package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"speedmatrix/internal/bench"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
)

// beBeat is the ground truth server of a self-test in a process of its own: it serves until its input ends.
func beBeat(env *Env, b truth.Beat) error {
	server, err := truth.StartBeat(b)
	if err != nil {
		return err
	}
	defer server.Close()
	if _, err := fmt.Fprintln(env.Stdout, server.URL()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, env.Stdin)
	return err
}

// measureApart measures loads with the server in a process of its own, so that neither waits for the other's
// scheduler and garbage collector; where none can be started, the server is in this process.
func measureApart(clock *stamp.Clock) bench.Measure {
	return func(ctx context.Context, l bench.SelfLoad) (*bench.SelfResult, error) {
		self, err := os.Executable()
		if err != nil {
			return bench.SelfTest(ctx, clock, l)
		}
		args := []string{"selftest", "--serve", l.Gap().String()}
		if l.Spread {
			args = append(args, "--spread")
		}
		server := exec.CommandContext(ctx, self, args...)
		server.WaitDelay = time.Second
		address, end, err := startBeat(server)
		if err != nil {
			return bench.SelfTest(ctx, clock, l)
		}
		l.Server = address
		r, err := bench.SelfTest(ctx, clock, l)
		used := end()
		if err != nil {
			return nil, err
		}
		r.ServerCPUCores = new(used.Seconds() / r.Seconds)
		return r, nil
	}
}

// startBeat starts a server and gives its address; end ends it and gives the processor time that it took.
func startBeat(server *exec.Cmd) (address string, end func() time.Duration, err error) {
	in, err := server.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	end = func() time.Duration {
		_ = in.Close()
		_ = server.Wait() // how it ends changes no figure
		return server.ProcessState.UserTime() + server.ProcessState.SystemTime()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		return "", nil, fmt.Errorf("the ground truth server gave no address: %w", err)
	}
	return strings.TrimSpace(line), end, nil
}
