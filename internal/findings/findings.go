// Package findings says what makes a measured run unrepresentative of its hardware and engine: a
// lowered power limit, heat, another program on the GPU, an option that slows the engine down. Each
// finding comes with its evidence and a way to mend it. docs/machine.md lists them.
package findings

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
)

// The codes of the findings.
const (
	CodePowerLimit       = "power_limit_changed"
	CodeClocksSet        = "clocks_set"
	CodeClocksLow        = "clocks_low"
	CodeClocksRaised     = "clocks_raised"
	CodeHardwareSlowdown = "hardware_slowdown"
	CodeThermal          = "thermal_throttling"
	CodePowerCap         = "power_cap"
	CodeOtherProcess     = "other_process_on_gpu"
	CodeMemoryFull       = "gpu_memory_full"
	CodePCIe             = "pcie_below_maximum"
	CodeECC              = "ecc_on"
	CodeCPU              = "cpu_saturated"
	CodeClient           = "client_on_server"
	CodeSwap             = "swapped"
	CodePrefixCaching    = "prefix_caching_off"
	CodeEager            = "eager_mode"
	CodeOption           = "slow_option"
	CodeNoMetrics        = "no_metrics"
)

// rule looks for one thing; it gives none, one, or one for each group of GPUs or option.
type rule struct {
	code string
	find func(*look) []speedmatrix.Finding
}

// rules are in the order in which they are shown: what weighs most comes first.
var rules = []rule{
	{CodeHardwareSlowdown, hardwareSlowdown},
	{CodeThermal, thermal},
	{CodePowerLimit, powerLimit},
	{CodePowerCap, powerCap},
	{CodeClocksSet, clocksSet},
	{CodeClocksLow, clocksLow},
	{CodeClocksRaised, clocksRaised},
	{CodeOtherProcess, otherProcess},
	{CodeMemoryFull, memoryFull},
	{CodeSwap, swap},
	{CodeCPU, cpuSaturated},
	{CodeClient, clientOnServer},
	{CodePCIe, pcieLink},
	{CodeECC, eccOn},
	{CodeEager, eagerMode},
	{CodePrefixCaching, prefixCachingOff},
	{CodeOption, slowOptions},
	{CodeNoMetrics, noMetrics},
}

// Of gives the findings of a run from its document and the samples of the machine, which may be none. Findings that
// the run has already and that are not of this package stay, in front. It changes neither. A run that was not
// measured here has no findings of the machine.
func Of(run *speedmatrix.Run, rows []speedmatrix.MachineRow) []speedmatrix.Finding {
	list := []speedmatrix.Finding{}
	for _, f := range run.Findings {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.code == f.Code }) {
			list = append(list, f)
		}
	}
	if run.Origin != speedmatrix.OriginMeasured {
		return list
	}
	l := newLook(run, rows)
	for _, r := range rules {
		for _, f := range r.find(l) {
			f.Code = r.code
			list = append(list, f)
		}
	}
	return list
}

// look is a run as the rules see it.
type look struct {
	run  *speedmatrix.Run
	rows []speedmatrix.MachineRow
	// windows are the decode cells that were measured, each with the samples in its window.
	windows []windowRows
	gpus    []speedmatrix.GPU
}

type windowRows struct {
	cell *speedmatrix.Cell
	host []speedmatrix.MachineRow
	gpu  map[int][]speedmatrix.MachineRow
}

func newLook(run *speedmatrix.Run, rows []speedmatrix.MachineRow) *look {
	l := &look{run: run, rows: rows}
	if run.Telemetry != nil {
		l.gpus = run.Telemetry.GPUs
	}
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.WindowStartedAt == nil || c.WindowSeconds == nil {
			continue
		}
		l.windows = append(l.windows, l.window(c))
	}
	return l
}

func (l *look) window(c *speedmatrix.Cell) windowRows {
	w := windowRows{cell: c, gpu: map[int][]speedmatrix.MachineRow{}}
	from := c.WindowStartedAt.UnixNano()
	to := from + int64(*c.WindowSeconds*1e9)
	i, _ := slices.BinarySearchFunc(l.rows, from, func(r speedmatrix.MachineRow, at int64) int { return cmp.Compare(r.TimeNS, at) })
	for ; i < len(l.rows) && l.rows[i].TimeNS <= to; i++ {
		r := l.rows[i]
		switch {
		case r.GPU == nil:
			w.host = append(w.host, r)
		case r.Utilization == nil || *r.Utilization > 0:
			w.gpu[int(*r.GPU)] = append(w.gpu[int(*r.GPU)], r)
		}
	}
	return w
}

// samples are those of a GPU in all windows.
func (l *look) samples(gpu int) []speedmatrix.MachineRow {
	var all []speedmatrix.MachineRow
	for _, w := range l.windows {
		all = append(all, w.gpu[gpu]...)
	}
	return all
}

// known are the values that samples have.
func known(rows []speedmatrix.MachineRow, of func(*speedmatrix.MachineRow) *float64) []float64 {
	var values []float64
	for i := range rows {
		if v := of(&rows[i]); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

// shareOf is the share of the samples that tell of something in which it was so; ok is false where none tells.
func shareOf(rows []speedmatrix.MachineRow, of func(*speedmatrix.MachineRow) *bool) (share float64, ok bool) {
	n, so := 0, 0
	for i := range rows {
		if v := of(&rows[i]); v != nil {
			n++
			if *v {
				so++
			}
		}
	}
	if n == 0 {
		return 0, false
	}
	return float64(so) / float64(n), true
}

// group is a sentence about some GPUs that are alike in it.
type group struct {
	indexes []int
	of      speedmatrix.GPU
}

// groups joins the GPUs that key takes for alike; "" leaves one out.
func (l *look) groups(key func(speedmatrix.GPU) string) []group {
	var list []group
	at := map[string]int{}
	for _, g := range l.gpus {
		k := key(g)
		if k == "" {
			continue
		}
		i, there := at[k]
		if !there {
			i = len(list)
			at[k] = i
			list = append(list, group{of: g})
		}
		list[i].indexes = append(list[i].indexes, g.Index)
	}
	return list
}

// name is "the GPU" where there is one, else "GPU 1", "GPUs 0 and 2".
func (l *look) name(g group) string {
	if len(l.gpus) == 1 {
		return "the GPU"
	}
	var words []string
	for _, i := range g.indexes {
		words = append(words, strconv.Itoa(i))
	}
	if n := len(words); n > 1 {
		return "GPUs " + strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return "GPU " + words[0]
}

// nvidia says whether the GPUs are NVIDIA's, whose tool the fixes name.
func (l *look) nvidia() bool {
	return l.run.Telemetry != nil && slices.Contains(l.run.Telemetry.Sources, "nvidia-smi")
}

// ids is the list of a group's GPUs for a tool: "0,2".
func (g group) ids() string {
	var words []string
	for _, i := range g.indexes {
		words = append(words, strconv.Itoa(i))
	}
	return strings.Join(words, ",")
}

// upper begins a sentence.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// one is a single finding.
func one(f speedmatrix.Finding) []speedmatrix.Finding { return []speedmatrix.Finding{f} }
