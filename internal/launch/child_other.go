//go:build !unix

package launch

import (
	"os/exec"
	"time"
)

// outputDelay is how long a server's output is waited for after its end.
const outputDelay = 2 * time.Second

func prepare(*exec.Cmd) {}

func keepThread() (release func()) { return func() {} }

// terminate asks the process and those that it started; what does not listen is killed later.
func terminate(p *process) {
	_ = exec.Command("taskkill", "/T", "/PID", itoa(p.cmd.Process.Pid)).Run()
}

func kill(p *process) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", itoa(p.cmd.Process.Pid)).Run()
	_ = p.cmd.Process.Kill()
}

func groupAlive(p *process) bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func guard(int, []string) (dismiss func()) { return func() {} }

func (p *process) PIDs() []int {
	if !groupAlive(p) {
		return nil
	}
	return []int{p.cmd.Process.Pid}
}
