//go:build unix

package machine

import (
	"os/exec"
	"syscall"
)

// apart puts a child into a group of its own, so that the interrupt that a user sends to this program does not end
// it: the samples go on until the run has ended.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
