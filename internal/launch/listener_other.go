//go:build !linux

package launch

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// listeningLimit bounds the programs that are asked.
const listeningLimit = 3 * time.Second

// listening asks lsof and ps, where there are such programs. They do not tell where one argument ends and the next
// begins, nor the environment.
func listening(ctx context.Context, port int) *Process {
	ctx, cancel := context.WithTimeout(ctx, listeningLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "lsof", "-nP", "-iTCP:"+strconv.Itoa(port), "-sTCP:LISTEN", "-Fp").Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "p")
		pid, err := strconv.Atoi(text)
		if !ok || err != nil {
			continue
		}
		command, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", text).Output()
		if err != nil {
			return nil
		}
		if p := listener([]int{pid}, strings.Fields(string(command))); p != nil {
			return p
		}
	}
	return nil
}
