package launch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
)

// prepare gives the server a group of its own, and lets the system end its first process if this program dies.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func keepThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// markedProcesses lists the processes that have the marker in their environment.
func markedProcesses(marker string) []int {
	var pids []int
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || marker == "" {
		return nil
	}
	for _, folder := range folders {
		env, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil || !bytes.Contains(env, []byte(marker)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && !isZombie(folder) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

func isZombie(folder string) bool {
	data, err := os.ReadFile(filepath.Join(folder, "stat"))
	after := data[bytes.LastIndexByte(data, ')')+1:]
	return err == nil && len(after) > 1 && after[1] == 'Z'
}

func (p *process) PIDs() []int { return markedProcesses(p.marker) }
