// Package machine reads what this machine is, samples it while a run goes on, and says how busy it
// and this program are. What cannot be read is left out: a machine without nvidia-smi has unknown
// GPUs, not none, and a sample that a tool did not give is null, not zero.
//
// NVIDIA's GPUs are read through nvidia-smi, AMD's and Intel's through the kernel's files, Apple's
// through system_profiler and powermetrics. Serial numbers, UUIDs, names of hosts and users stay
// inside this package.
package machine

import (
	"context"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"speedmatrix"
)

// Source is the source of every fact read here.
const Source = "machine"

// Facts reads this machine: CPU, cores, memory, board, operating system, kernel and GPUs. It takes
// at most a few seconds.
func Facts(ctx context.Context) speedmatrix.Facts { return ThisSystem().Facts(ctx) }

// Facts reads the machine.
func (s *System) Facts(ctx context.Context) speedmatrix.Facts {
	facts := speedmatrix.Facts{}
	readCPU(ctx, facts)
	readMemory(ctx, facts)
	readSystem(ctx, facts)
	set(facts, speedmatrix.HardwareBoard, s.board(ctx))
	s.findGPUs(ctx).facts(facts)
	return facts
}

func readCPU(ctx context.Context, facts speedmatrix.Facts) {
	if info, err := cpu.InfoWithContext(ctx); err == nil && len(info) > 0 {
		set(facts, speedmatrix.HardwareCPU, strings.Join(strings.Fields(info[0].ModelName), " "))
	}
	cores, err := cpu.CountsWithContext(ctx, false)
	if err != nil || cores < 1 {
		cores = runtime.NumCPU()
	}
	facts.Set(speedmatrix.HardwareCPUCores, cores, Source)
}

func readMemory(ctx context.Context, facts speedmatrix.Facts) {
	if memory, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		set(facts, speedmatrix.HardwareRAM, gigabytes(new(float64(memory.Total))))
	}
}

func readSystem(ctx context.Context, facts speedmatrix.Facts) {
	if platform, _, version, err := host.PlatformInformationWithContext(ctx); err == nil {
		set(facts, speedmatrix.HardwareOS, strings.TrimSpace(platform+" "+version))
	}
	if kernel, err := host.KernelVersionWithContext(ctx); err == nil {
		set(facts, speedmatrix.HardwareKernel, kernel)
	}
}

// placeholders are what makers write who name nothing.
var placeholders = []string{"", "to be filled by o.e.m.", "default string", "system product name", "system manufacturer", "not specified", "none", "unknown"}

// board names the main board, or the whole computer where that is what is sold.
func (s *System) board(ctx context.Context) string {
	if s.OS == "darwin" {
		return s.appleModel(ctx)
	}
	var parts []string
	for _, file := range []string{"board_vendor", "board_name"} {
		if name := s.line("sys/class/dmi/id/" + file); !slices.Contains(placeholders, strings.ToLower(name)) {
			parts = append(parts, name)
		}
	}
	if len(parts) < 2 {
		return ""
	}
	return strings.Join(parts, " ")
}

// line is the first line of a file, "" where it cannot be read.
func (s *System) line(path string) string {
	if s.Files == nil {
		return ""
	}
	data, err := fs.ReadFile(s.Files, path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(first)
}
