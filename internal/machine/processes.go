package machine

import (
	"context"
	"strings"

	"github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// realProcesses are those of this machine.
type realProcesses struct{}

// List gives the processes that can be seen.
func (realProcesses) List(ctx context.Context) ([]Process, error) {
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, p := range all {
		parent, err := p.PpidWithContext(ctx)
		if err != nil {
			continue // it has ended meanwhile, or is hidden from us
		}
		name, _ := p.NameWithContext(ctx)
		list = append(list, Process{PID: p.Pid, Parent: parent, Name: name})
	}
	return list, nil
}

// Listening gives the processes that listen at a TCP port, as far as the system tells us.
func (realProcesses) Listening(ctx context.Context, port int) ([]int32, error) {
	connections, err := net.ConnectionsWithoutUidsWithContext(ctx, "tcp")
	if err != nil {
		return nil, err
	}
	var pids []int32
	for _, c := range connections {
		if c.Status == "LISTEN" && int(c.Laddr.Port) == port && c.Pid > 0 {
			pids = append(pids, c.Pid)
		}
	}
	return pids, nil
}

// Variable gives a variable of a process's environment; ok is false where it is not set or hidden.
func (realProcesses) Variable(ctx context.Context, pid int32, name string) (value string, ok bool) {
	p, err := process.NewProcessWithContext(ctx, pid)
	if err != nil {
		return "", false
	}
	environment, err := p.EnvironWithContext(ctx)
	if err != nil {
		return "", false
	}
	for _, entry := range environment {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
