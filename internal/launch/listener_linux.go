package launch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func listening(_ context.Context, port int) *Process { return listeningUnder("/proc", port) }

// listeningUnder looks in a mounted proc file system.
func listeningUnder(proc string, port int) *Process {
	sockets := listeningSockets(proc, port)
	if len(sockets) == 0 {
		return nil
	}
	owner := 0
	folders, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return nil
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		// Workers inherit the socket: the oldest owner is the one that was started.
		if err == nil && (owner == 0 || pid < owner) && holds(folder, sockets) {
			owner = pid
		}
	}
	if owner == 0 {
		return nil
	}
	return readProcess(proc, owner)
}

// listeningSockets gives the links of the sockets that listen on a port: "socket:[12345]".
func listeningSockets(proc string, port int) []string {
	var sockets []string
	for _, table := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			const local, state, inode, listens = 1, 3, 9, "0A"
			f := strings.Fields(line)
			if len(f) > inode && f[state] == listens && strings.HasSuffix(f[local], fmt.Sprintf(":%04X", port)) {
				sockets = append(sockets, "socket:["+f[inode]+"]")
			}
		}
	}
	return sockets
}

// holds says whether a process has one of the sockets open. Another user's process does not tell.
func holds(folder string, sockets []string) bool {
	entries, err := os.ReadDir(filepath.Join(folder, "fd"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		link, err := os.Readlink(filepath.Join(folder, "fd", e.Name()))
		return err == nil && slices.Contains(sockets, link)
	})
}

func readProcess(proc string, pid int) *Process {
	folder := filepath.Join(proc, strconv.Itoa(pid))
	p := listener(withChildren(proc, pid), zeroTerminated(filepath.Join(folder, "cmdline")))
	if p == nil {
		return nil
	}
	p.Env = Allowed(zeroTerminated(filepath.Join(folder, "environ")))
	p.Program, _ = os.Readlink(filepath.Join(folder, "exe"))
	for _, fd := range []string{"2", "1"} {
		link, err := os.Readlink(filepath.Join(folder, "fd", fd))
		if info, statErr := os.Stat(link); err == nil && statErr == nil && info.Mode().IsRegular() {
			p.LogFile = link
			break
		}
	}
	return p
}

// zeroTerminated reads a file of texts that end with a zero byte each.
func zeroTerminated(path string) []string {
	data, err := os.ReadFile(path)
	data = bytes.TrimRight(data, "\x00")
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\x00")
}

// withChildren gives a process and all that it started, directly or not.
func withChildren(proc string, pid int) []int {
	children := map[int][]int{}
	folders, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, folder := range folders {
		child, err := strconv.Atoi(filepath.Base(folder))
		if err == nil {
			parent := parentOf(folder)
			children[parent] = append(children[parent], child)
		}
	}
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	slices.Sort(pids[1:])
	return pids
}

// parentOf gives the parent of a process, 0 unknown.
func parentOf(folder string) int {
	data, err := os.ReadFile(filepath.Join(folder, "stat"))
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if err != nil || len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
