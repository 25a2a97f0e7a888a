package machine

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"speedmatrix"
)

const (
	systemProfiler = "system_profiler"
	powerMetrics   = "powermetrics"
	appleSilence   = 10 * time.Second
)

// appleReport is the part of system_profiler's report that is read; it has serial numbers too, which are not.
type appleReport struct {
	Hardware []struct {
		Name   string `json:"machine_name"`
		Model  string `json:"machine_model"`
		Memory string `json:"physical_memory"`
	} `json:"SPHardwareDataType"`
	Displays []struct {
		Model  string `json:"sppci_model"`
		Cores  string `json:"sppci_cores"`
		Vendor string `json:"spdisplays_vendor"`
	} `json:"SPDisplaysDataType"`
}

func (s *System) appleReport(ctx context.Context) (r appleReport) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	out, err := s.Command(ctx, systemProfiler, "-json", "SPHardwareDataType", "SPDisplaysDataType")
	if err == nil && json.Unmarshal(out, &r) != nil {
		return appleReport{}
	}
	return r
}

// appleModel names the computer: "MacBook Pro (Mac15,8)".
func (s *System) appleModel(ctx context.Context) string {
	r := s.appleReport(ctx)
	switch {
	case len(r.Hardware) == 0:
		return ""
	case r.Hardware[0].Model == "":
		return r.Hardware[0].Name
	}
	return strings.TrimSpace(r.Hardware[0].Name + " (" + r.Hardware[0].Model + ")")
}

// findApple lists the GPU in Apple's chips, which shares the machine's memory.
func (s *System) findApple(ctx context.Context) *gpus {
	found := &gpus{source: powerMetrics, kind: "GPU with shared memory"}
	if s.OS != "darwin" {
		return found
	}
	r := s.appleReport(ctx)
	for _, gpu := range r.Displays {
		if !strings.HasPrefix(gpu.Model, "Apple") {
			continue
		}
		d := device{index: len(found.devices), name: gpu.Model, cores: number(gpu.Cores)}
		if len(r.Hardware) > 0 {
			if size, ok := strings.CutSuffix(r.Hardware[0].Memory, " GB"); ok {
				d.memory = scaled(size, 1<<30)
			}
		}
		found.devices = append(found.devices, d)
	}
	switch {
	case len(found.devices) == 0:
	case s.Privileged:
		found.sample = s.sampleApple
	default:
		found.missing = []string{"no samples of the GPU: " + powerMetrics + " may be run by administrators only"}
	}
	return found
}

// sampleApple follows the GPU through powermetrics, whose blocks of lines end with the power.
func (s *System) sampleApple(ctx context.Context, w *watching) {
	a := &appleSampler{w: w}
	p := stream{start: s.Start, name: powerMetrics, line: a.line, silence: appleSilence, args: func() []string {
		return []string{"--samplers", "gpu_power,thermal", "--sample-rate", plain(new(float64(w.interval.Milliseconds())))}
	}}
	if err := p.run(ctx); err != nil {
		w.lack("no more samples of the GPU: " + err.Error())
	}
}

// appleSampler gathers the lines of a block.
type appleSampler struct {
	w   *watching
	mu  sync.Mutex
	row speedmatrix.MachineRow
	hot *bool
}

// line takes a line such as "GPU HW active frequency: 1398 MHz".
func (a *appleSampler) line(text string) bool {
	name, value, ok := strings.Cut(text, ":")
	fields := strings.Fields(value)
	if !ok || len(fields) == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch name {
	case "GPU HW active frequency", "GPU active frequency":
		a.row.Clock = number(fields[0])
	case "GPU HW active residency", "GPU active residency":
		a.row.Utilization = scaled(strings.TrimSuffix(fields[0], "%"), 0.01)
	case "Current pressure level":
		a.hot = new(fields[0] != "Nominal" && fields[0] != "Moderate")
	case "GPU Power":
		a.row.Power = scaled(fields[0], milli)
		a.row.Thermal, a.row.GPU = a.hot, new(int32(0))
		a.w.put(a.row)
		a.row = speedmatrix.MachineRow{}
	default:
		return false
	}
	return true
}
