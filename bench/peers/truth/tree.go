//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"speedmatrix/internal/stamp"
)

// period is the time between two looks at the tree; a look takes about 2 ms.
const period = 200 * time.Millisecond

// ticksPerSecond is the unit of times in /proc, the same on every Linux.
const ticksPerSecond = 100

// sample is what a tree of processes had taken at a time.
type sample struct {
	AtNS int64 `json:"at_ns"`
	// CPUSeconds counts the processes that live and those whose parents, also living, have waited for them.
	CPUSeconds float64 `json:"cpu_seconds"`
	// RSS is the sum of the resident sets in bytes: what processes share counts for each.
	RSS       int64 `json:"rss"`
	Processes int   `json:"processes"`
}

// adoptOrphans makes this process the parent of descendants whose own parents end (PR_SET_CHILD_SUBREAPER).
func adoptOrphans() error {
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return errno
	}
	return nil
}

// watcher takes samples until it is stopped.
type watcher struct {
	ending chan struct{}
	all    chan []sample
}

// watch watches the descendants of this process.
func watch(clock *stamp.Clock) *watcher {
	w := &watcher{ending: make(chan struct{}), all: make(chan []sample, 1)}
	go func() {
		var all []sample
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			if s := look(); s.Processes > 0 {
				s.AtNS = clock.Now()
				all = append(all, s)
			}
			select {
			case <-tick.C:
			case <-w.ending:
				w.all <- all
				return
			}
		}
	}()
	return w
}

func (w *watcher) stop() []sample {
	close(w.ending)
	return <-w.all
}

// process is a line of /proc/N/stat.
type process struct {
	id, parent int
	ticks, rss int64
}

// look sums up the processes below this one: the command, its descendants, adopted orphans.
func look() sample {
	children := map[int][]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, file := range files {
		if p, ok := readProcess(file); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var s sample
	ticks := int64(0)
	open := children[os.Getpid()]
	for len(open) > 0 {
		p := open[0]
		open = append(open[1:], children[p.id]...)
		ticks += p.ticks
		s.RSS += p.rss
		s.Processes++
	}
	s.CPUSeconds = float64(ticks) / ticksPerSecond
	return s
}

// The fields of /proc/N/stat behind the name, counted from the state.
const (
	fieldParent = 1
	fieldTimes  = 11 // user, system, and both of children waited for
	fieldRSS    = 21 // pages
)

func readProcess(file string) (p process, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return p, false // it has ended
	}
	_, rest, ok := bytes.Cut(text, []byte(") ")) // a name with ") " in it hides its process
	fields := bytes.Fields(rest)
	if !ok || len(fields) <= fieldRSS {
		return p, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64) // the kernel writes numbers
		return n
	}
	p.id, err = strconv.Atoi(filepath.Base(filepath.Dir(file)))
	p.parent = int(number(fieldParent))
	for i := range 4 {
		p.ticks += number(fieldTimes + i)
	}
	p.rss = number(fieldRSS) * int64(os.Getpagesize())
	return p, err == nil
}
