package machine

import (
	"math"
	"os"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"
)

const gcPauses = "/sched/pauses/total/gc:seconds"

// Usage is what this program and its machine have used of the CPU so far, and the
// garbage collector's pauses. Two of them, taken one after the other, say what was
// used between them.
type Usage struct {
	at time.Time
	// process is this program's CPU time, busy and total those of the machine over all its
	// processors, in seconds; NaN where the system does not tell.
	process, busy, total float64
	pauses               histogram
}

// histogram counts pauses in buckets: counts[i] of them lasted from edges[i] to edges[i+1] seconds.
type histogram struct {
	counts []uint64
	edges  []float64
}

// Sample reads the usage now. It costs well under a millisecond.
func Sample() Usage {
	u := Usage{at: time.Now(), process: math.NaN(), busy: math.NaN(), total: math.NaN()}
	u.process = processSeconds()
	if times, err := cpu.Times(false); err == nil && len(times) == 1 {
		u.busy, u.total = busySeconds(times[0])
	}
	u.pauses = readPauses()
	return u
}

// Since gives the mean use between old and u: this program's in cores (1 is one
// processor all the time), and the busy share (0–1) of the whole machine, this program
// included. ok is false when no time passed or the system does not tell either.
func (u Usage) Since(old Usage) (processCores, machineShare float64, ok bool) {
	elapsed := u.at.Sub(old.at).Seconds()
	processCores = (u.process - old.process) / elapsed
	machineShare = (u.busy - old.busy) / (u.total - old.total)
	if elapsed <= 0 || !finite(processCores) || !finite(machineShare) {
		return 0, 0, false
	}
	// The two come in ticks of about 10 ms, so a short span may give a hair beyond the limits.
	return max(processCores, 0), min(max(machineShare, 0), 1), true
}

// LongestPause is the longest stop of this program by its garbage collector between
// old and u: the upper edge of the runtime's bucket, so at most that long; 0 without
// one. ok is false when the runtime does not tell.
func (u Usage) LongestPause(old Usage) (pause time.Duration, ok bool) {
	now, before := u.pauses, old.pauses
	if len(now.counts) == 0 || len(now.counts) != len(before.counts) {
		return 0, false
	}
	for i := len(now.counts) - 1; i >= 0; i-- {
		if now.counts[i] == before.counts[i] {
			continue
		}
		edge := now.edges[i+1]
		if math.IsInf(edge, 1) {
			edge = now.edges[i]
		}
		return time.Duration(edge * float64(time.Second)), true
	}
	return 0, true
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func processSeconds() float64 {
	self, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return math.NaN()
	}
	times, err := self.Times()
	if err != nil {
		return math.NaN()
	}
	return times.User + times.System
}

// busySeconds leaves out time spent idle or waiting for disks. Guests are not added:
// their time stands in user and nice already.
func busySeconds(t cpu.TimesStat) (busy, total float64) {
	busy = t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal
	return busy, busy + t.Idle + t.Iowait
}

func readPauses() histogram {
	samples := []metrics.Sample{{Name: gcPauses}}
	metrics.Read(samples)
	if samples[0].Value.Kind() != metrics.KindFloat64Histogram {
		return histogram{}
	}
	h := samples[0].Value.Float64Histogram()
	return histogram{counts: slices.Clone(h.Counts), edges: slices.Clone(h.Buckets)}
}
