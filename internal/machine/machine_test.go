package machine

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"speedmatrix"
)

func answering(text string) Command {
	return func(context.Context, string, ...string) ([]byte, error) { return []byte(text), nil }
}

func TestGPUsAreReadFromOneCall(t *testing.T) {
	for _, c := range []struct {
		name, text             string
		gpu, memory, driver, n string
	}{
		{"one", "NVIDIA GeForce RTX 3090, 24576, 595.99\n", "GeForce RTX 3090", "24 GB", "595.99", "1"},
		{"two alike", "NVIDIA H200, 143771, 570.1\nNVIDIA H200, 143771, 570.1\n", "H200", "140 GB", "570.1", "2"},
		{
			"two kinds", "NVIDIA A, 24576, 1\nNVIDIA B, 8192, 1\nNVIDIA A, 24576, 1\n",
			"2 × A + 1 × B", "2 × 24 GB + 1 × 8 GB", "1", "3",
		},
		{"memory shared with the CPU", "NVIDIA GB10, [N/A], 580.2\n", "GB10", "", "580.2", "1"},
		{"a comma in the name", "NVIDIA X, rev 2, 8192, 1\r\n", "X, rev 2", "8 GB", "1", "1"},
		{"words instead of GPUs", "No devices were found\n", "", "", "", ""},
		{"nothing", "", "", "", "", ""},
	} {
		facts := speedmatrix.Facts{}
		readGPUs(t.Context(), facts, answering(c.text))
		got := []string{
			facts.Text(speedmatrix.HardwareGPU), facts.Text(speedmatrix.HardwareVRAM),
			facts.Text(speedmatrix.HardwareDriver), facts.Text(speedmatrix.HardwareGPUCount),
		}
		if want := []string{c.gpu, c.memory, c.driver, c.n}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
}

func TestAMissingToolIsUnknownNotNone(t *testing.T) {
	facts := speedmatrix.Facts{}
	readGPUs(t.Context(), facts, func(context.Context, string, ...string) ([]byte, error) {
		return []byte("NVIDIA A, 1, 1"), errors.New("exit status 9")
	})
	if len(facts) != 0 {
		t.Errorf("facts of a tool that failed: %v", facts)
	}
}

func TestAHangingToolIsEndedAfterThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		readGPUs(t.Context(), speedmatrix.Facts{}, func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestTheToolIsAskedForThreeFields(t *testing.T) {
	var asked []string
	Read(t.Context(), func(_ context.Context, name string, args ...string) ([]byte, error) {
		asked = append(asked, append([]string{name}, args...)...)
		return nil, errors.New("none")
	})
	want := []string{"nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"}
	if !slices.Equal(asked, want) {
		t.Errorf("ran %q", asked)
	}
}

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
	if _, err := run(t.Context(), "no-such-tool-here"); err == nil {
		t.Error("a tool that does not exist ran")
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
