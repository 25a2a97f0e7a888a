// Package machine reads what this machine is, and how busy it and this program are.
// What cannot be read is left out: a machine without nvidia-smi has unknown GPUs, not none.
package machine

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"speedmatrix"
)

// Source is the source of every fact read here.
const Source = "machine"

// gpuLimit bounds the child process that lists the GPUs: a broken driver can hang it.
const gpuLimit = 3 * time.Second

// Command runs a program to its end and gives its standard output.
type Command func(ctx context.Context, name string, args ...string) ([]byte, error)

// Facts reads this machine: CPU, cores, memory, operating system, kernel and NVIDIA
// GPUs with their memory and driver. It takes at most a few seconds.
func Facts(ctx context.Context) speedmatrix.Facts {
	return Read(ctx, run)
}

// Read is Facts with the means to run a child process given.
func Read(ctx context.Context, command Command) speedmatrix.Facts {
	facts := speedmatrix.Facts{}
	readCPU(ctx, facts)
	readMemory(ctx, facts)
	readSystem(ctx, facts)
	readGPUs(ctx, facts, command)
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
	if memory, err := mem.VirtualMemoryWithContext(ctx); err == nil && memory.Total > 0 {
		set(facts, speedmatrix.HardwareRAM, gigabytes(float64(memory.Total)/(1<<30)))
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

func set(facts speedmatrix.Facts, key, value string) {
	if value != "" {
		facts.Set(key, value, Source)
	}
}

// gigabytes writes a size given in units of 2³⁰ bytes as people name memory: "24 GB".
func gigabytes(size float64) string {
	return fmt.Sprintf("%d GB", int(math.Round(size)))
}

func readGPUs(ctx context.Context, facts speedmatrix.Facts, command Command) {
	ctx, cancel := context.WithTimeout(ctx, gpuLimit)
	defer cancel()
	out, err := command(ctx, "nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
	if err != nil {
		return
	}
	gpus := parseGPUs(string(out))
	if len(gpus) == 0 {
		return
	}
	facts.Set(speedmatrix.HardwareType, "Discrete GPU", Source)
	facts.Set(speedmatrix.HardwareGPUCount, len(gpus), Source)
	set(facts, speedmatrix.HardwareGPU, join(gpus, func(g gpu) string { return g.name }))
	set(facts, speedmatrix.HardwareVRAM, join(gpus, func(g gpu) string { return g.memory }))
	set(facts, speedmatrix.HardwareDriver, gpus[0].driver)
}

type gpu struct{ name, memory, driver string }

// parseGPUs reads one GPU a line: name, memory in MiB, driver. A field that the
// driver does not know ("[N/A]") is empty; other lines are not GPUs.
func parseGPUs(text string) []gpu {
	var gpus []gpu
	for line := range strings.Lines(text) {
		fields := strings.Split(line, ",")
		if len(fields) < 3 {
			continue
		}
		// A name may hold a comma, the other two fields cannot.
		n := len(fields)
		g := gpu{name: known(strings.Join(fields[:n-2], ",")), driver: known(fields[n-1])}
		if mib, err := strconv.ParseFloat(strings.TrimSpace(fields[n-2]), 64); err == nil {
			g.memory = gigabytes(mib / 1024)
		}
		gpus = append(gpus, g)
	}
	return gpus
}

func known(field string) string {
	field = strings.TrimSpace(field)
	if strings.HasPrefix(field, "[") {
		return ""
	}
	return strings.TrimPrefix(field, "NVIDIA ")
}

// join names what the GPUs have, once where they are alike, else with how often.
func join(gpus []gpu, of func(gpu) string) string {
	counts := map[string]int{}
	for _, g := range gpus {
		if value := of(g); value != "" {
			counts[value]++
		}
	}
	if len(counts) == 1 {
		return slices.Collect(maps.Keys(counts))[0]
	}
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[value], value))
	}
	return strings.Join(parts, " + ")
}

func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	// Children of a hung tool may hold the pipe open after it was killed.
	c.WaitDelay = time.Second
	return c.Output()
}
