//go:build unix

package launch

import (
	"os/exec"
	"syscall"
	"time"
)

// outputDelay is how long a server's output is waited for after its end.
const outputDelay = 2 * time.Second

// terminate asks the group; what has left it is asked by its marker.
func terminate(p *process) { signal(p, syscall.SIGTERM) }

// kill ends the group, and what has left it.
func kill(p *process) { signal(p, syscall.SIGKILL) }

func signal(p *process, s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s)
	if s == syscall.SIGKILL {
		for _, pid := range markedProcesses(p.marker) {
			_ = syscall.Kill(pid, s)
		}
	}
}

// groupAlive says whether any process of the group or with its marker is left.
func groupAlive(p *process) bool {
	return syscall.Kill(-p.cmd.Process.Pid, 0) == nil || len(markedProcesses(p.marker)) > 0
}

// guardScript waits on its input. A line means that all is well; the end of the input, that this program has died:
// then it ends the group of process $1, after the command that follows.
const guardScript = `read -r word && exit 0
pid=$1
shift
kill -TERM -"$pid" 2>/dev/null
if [ $# -gt 0 ]; then "$@" >/dev/null 2>&1; fi
n=0
while kill -0 -"$pid" 2>/dev/null && [ "$n" -lt 15 ]; do sleep 1; n=$((n + 1)); done
kill -KILL -"$pid" 2>/dev/null`

// guard starts a shell that ends the group of a process if this program dies without doing so, and gives the function
// that ends the shell. Without a shell there is no guard.
func guard(pid int, orphaned []string) (dismiss func()) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", guardScript, "speedmatrix-guard", itoa(pid)}, orphaned...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return func() {}
	}
	if err := cmd.Start(); err != nil {
		return func() {}
	}
	return once(func() {
		_, _ = input.Write([]byte("done\n"))
		_ = input.Close()
		_ = cmd.Wait()
	})
}
