package machine

import (
	"errors"
	"math"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"speedmatrix"
)

func TestThisMachineIsRead(t *testing.T) {
	facts := Facts(t.Context())
	keys := []string{speedmatrix.HardwareCPUCores, speedmatrix.HardwareRAM, speedmatrix.HardwareOS}
	if runtime.GOOS == "linux" {
		keys = append(keys, speedmatrix.HardwareKernel)
	}
	for _, key := range keys {
		if facts.Text(key) == "" || facts[key].Source != Source {
			t.Errorf("%s is %+v", key, facts[key])
		}
	}
	if _, err := run(t.Context(), "no-such-tool-here"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a tool that does not exist: %v", err)
	}
}

func usage(at, process, busy, total float64) Usage {
	return Usage{at: time.Unix(0, int64(at*1e9)), process: process, busy: busy, total: total}
}

func TestUsageIsTheDifferenceOfTwoSamples(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name         string
		old, now     Usage
		cores, share float64
		ok           bool
	}{
		{"half of four processors", usage(10, 1, 100, 400), usage(20, 16, 120, 440), 1.5, 0.5, true},
		{"idle", usage(0, 1, 5, 10), usage(5, 1, 5, 20), 0, 0, true},
		{"ticks went back", usage(0, 1, 5, 10), usage(5, 0.99, 4.9, 20), 0, 0, true},
		{"more busy than there is", usage(0, 0, 0, 0), usage(1, 1, 2.01, 2), 1, 1, true},
		{"no time", usage(3, 1, 1, 1), usage(3, 1, 1, 1), 0, 0, false},
		{"unknown process", usage(0, nan, 0, 0), usage(1, nan, 1, 2), 0, 0, false},
		{"unknown machine", usage(0, 0, nan, nan), usage(1, 1, nan, nan), 0, 0, false},
	} {
		cores, share, ok := c.now.Since(c.old)
		if cores != c.cores || share != c.share || ok != c.ok {
			t.Errorf("%s: %v cores, share %v, %v", c.name, cores, share, ok)
		}
	}
}

func TestBusyLeavesOutIdleAndDisks(t *testing.T) {
	busy, total := busySeconds(cpu.TimesStat{
		User: 1, Nice: 2, System: 3, Irq: 4, Softirq: 5, Steal: 6, Idle: 100, Iowait: 50, Guest: 1, GuestNice: 2,
	})
	if busy != 21 || total != 171 {
		t.Errorf("busy %v of %v", busy, total)
	}
}

func TestTheLongestPauseIsThatOfTheHighestBucketThatGrew(t *testing.T) {
	edges := []float64{0, 1e-6, 1e-3, math.Inf(1)}
	at := func(counts ...uint64) Usage { return Usage{pauses: histogram{counts: counts, edges: edges}} }
	for _, c := range []struct {
		old, now Usage
		want     time.Duration
		ok       bool
	}{
		{at(1, 2, 3), at(1, 2, 3), 0, true},
		{at(1, 2, 3), at(2, 2, 3), time.Microsecond, true},
		{at(1, 2, 3), at(9, 3, 3), time.Millisecond, true},
		{at(1, 2, 3), at(1, 2, 4), time.Millisecond, true},
		{Usage{}, at(1, 2, 3), 0, false},
		{Usage{}, Usage{}, 0, false},
	} {
		if got, ok := c.now.LongestPause(c.old); got != c.want || ok != c.ok {
			t.Errorf("%v after %v: %v, %v", c.now.pauses.counts, c.old.pauses.counts, got, ok)
		}
	}
}

func TestRealSamplesSeeACollection(t *testing.T) {
	old := Sample()
	runtime.GC()
	now := Sample()
	if pause, ok := now.LongestPause(old); !ok || pause <= 0 || pause > time.Minute {
		t.Errorf("longest pause %v, %v", pause, ok)
	}
	if _, share, ok := now.Since(old); ok && (share < 0 || share > 1) {
		t.Errorf("share %v", share)
	}
}

func BenchmarkSample(b *testing.B) {
	for b.Loop() {
		Sample()
	}
}
