//go:build unix && !linux

package launch

import (
	"os/exec"
	"syscall"
)

// prepare gives the server a group of its own.
func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func keepThread() (release func()) { return func() {} }

// markedProcesses finds none: other processes' environments cannot be read here.
func markedProcesses(string) []int { return nil }

func (p *process) PIDs() []int {
	select {
	case <-p.exited:
		return nil
	default:
		return []int{p.cmd.Process.Pid}
	}
}
