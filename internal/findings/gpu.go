package findings

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// powerLimit finds GPUs that may draw more or less than as they were delivered.
func powerLimit(l *look) []speedmatrix.Finding {
	var list []speedmatrix.Finding
	for _, g := range l.groups(func(g speedmatrix.GPU) string {
		if g.PowerLimit == nil || g.PowerDefault == nil || math.Abs(*g.PowerLimit-*g.PowerDefault) < 1 {
			return ""
		}
		return watts(*g.PowerLimit) + watts(*g.PowerDefault)
	}) {
		limit, usual := *g.of.PowerLimit, *g.of.PowerDefault
		word := "less"
		if limit > usual {
			word = "more"
		}
		f := speedmatrix.Finding{
			Message:  fmt.Sprintf("%s may draw %s, %s %s than as delivered, so these are not its usual speeds", upper(l.name(g)), watts(limit), unit.Percent(math.Abs(limit/usual-1)), word),
			Evidence: fmt.Sprintf("limit %s, default %s", watts(limit), watts(usual)),
			Fix:      "Set the limit back, or name it wherever you show the numbers.",
		}
		if drawn := known(l.samplesOf(g), func(r *speedmatrix.MachineRow) *float64 { return r.Power }); len(drawn) > 0 {
			f.Evidence += fmt.Sprintf("; it drew up to %s in the windows", watts(slices.Max(drawn)))
		}
		if l.nvidia() {
			f.Fix = fmt.Sprintf("Set the limit back with: nvidia-smi -i %s -pl %.0f (as administrator). Or name it wherever you show the numbers.", g.ids(), usual)
		}
		list = append(list, f)
	}
	return list
}

// samplesOf are those of a group in all windows.
func (l *look) samplesOf(g group) []speedmatrix.MachineRow {
	var all []speedmatrix.MachineRow
	for _, i := range g.indexes {
		all = append(all, l.samples(i)...)
	}
	return all
}

func watts(w float64) string { return unit.Fixed(w, 0) + " W" }

func megahertz(mhz float64) string { return unit.Fixed(mhz, 0) + " MHz" }

// throttled are the cells of a verdict, the largest share among them and where.
func (l *look) throttled(verdict speedmatrix.ThrottleVerdict, of func(*speedmatrix.Throttle) float64) (cells, measured int, most float64, where *speedmatrix.Cell) {
	for i := range l.run.Cells {
		c := &l.run.Cells[i]
		if c.Throttle == nil {
			continue
		}
		measured++
		if c.Throttle.Verdict != verdict {
			continue
		}
		cells++
		if share := of(c.Throttle); where == nil || share > most {
			most, where = share, c
		}
	}
	return cells, measured, most, where
}

// inCells is "in all 23 cells", "in 12 of 23 cells".
func inCells(cells, of int) string {
	switch {
	case of == 1:
		return "in the only cell"
	case cells == of:
		return fmt.Sprintf("in all %s cells", unit.Count(of))
	}
	return fmt.Sprintf("in %s of %s cells", unit.Count(cells), unit.Count(of))
}

// name names a cell in a sentence: "decode 16K × 4".
func name(c *speedmatrix.Cell) string {
	if c.Phase == speedmatrix.PhasePrefill {
		return "prefill " + c.ContextLabel
	}
	return fmt.Sprintf("%s %s × %s", c.Phase, c.ContextLabel, unit.Count(c.Concurrency))
}

// worst is the evidence of what held clocks down.
func worst(most float64, c *speedmatrix.Cell) string {
	text := fmt.Sprintf("up to %s of the samples, in %s", unit.Percent(most), name(c))
	if k := c.GPUClock; k != nil {
		text += fmt.Sprintf(", where the clock went from %s down to %s", megahertz(k.Max), megahertz(k.Min))
	}
	return text
}

func hardwareSlowdown(l *look) []speedmatrix.Finding {
	cells, of, most, where := l.throttled(speedmatrix.ThrottleHardware, func(t *speedmatrix.Throttle) float64 { return t.HardwareSlowdownShare })
	if cells == 0 {
		return nil
	}
	evidence := worst(most, where)
	if where.Throttle.ThermalShare > 0 {
		evidence += fmt.Sprintf("; too hot in %s of them", unit.Percent(where.Throttle.ThermalShare))
	}
	return one(speedmatrix.Finding{
		Message:  "The GPU protected itself by much lower clocks " + inCells(cells, of),
		Evidence: evidence,
		Fix:      "Look at its cooling, its power cables and the power supply, then measure again: these numbers are of a machine in distress.",
	})
}

func thermal(l *look) []speedmatrix.Finding {
	cells, of, most, where := l.throttled(speedmatrix.ThrottleThermal, func(t *speedmatrix.Throttle) float64 { return t.ThermalShare })
	if cells == 0 {
		return nil
	}
	evidence := worst(most, where)
	if hot := known(l.all(), func(r *speedmatrix.MachineRow) *float64 { return r.Temperature }); len(hot) > 0 {
		evidence += fmt.Sprintf("; up to %s °C", unit.Fixed(slices.Max(hot), 0))
	}
	return one(speedmatrix.Finding{
		Message: "Heat held the GPU's clocks down " + inCells(cells, of), Evidence: evidence,
		Fix: "Give it more air or a cooler room, and measure again; a colder machine of the same kind is faster.",
	})
}

// all are the samples of all GPUs in all windows.
func (l *look) all() []speedmatrix.MachineRow {
	var all []speedmatrix.MachineRow
	for _, g := range l.gpus {
		all = append(all, l.samples(g.Index)...)
	}
	return all
}

func powerCap(l *look) []speedmatrix.Finding {
	cells, of, most, where := l.throttled(speedmatrix.ThrottlePowerCap, func(t *speedmatrix.Throttle) float64 { return t.PowerCapShare })
	if cells == 0 {
		return nil
	}
	f := speedmatrix.Finding{
		Message: "The power limit held the GPU's clocks down " + inCells(cells, of), Evidence: worst(most, where),
		Fix: "Name the limit wherever you show the numbers: they are the speeds of that limit.",
	}
	var limits []string
	for _, g := range l.gpus {
		if g.PowerLimit != nil && !slices.Contains(limits, watts(*g.PowerLimit)) {
			limits = append(limits, watts(*g.PowerLimit))
		}
	}
	if len(limits) > 0 {
		f.Evidence = strings.Join(limits, " and ") + " limit; " + f.Evidence
	}
	return one(f)
}

// settingShare is the share of samples from which a setting counts as holding clocks down, lowShare of its highest
// clock below which a GPU is slow without a reason, raisedShare above which it is faster than made.
const (
	settingShare = 0.05
	lowShare     = 0.75
	raisedShare  = 1.01
)

func (l *look) resetClocks(g group) string {
	if l.nvidia() {
		return fmt.Sprintf("Set them free with: nvidia-smi -i %s -rgc, and -rac for application clocks (as administrator). Or name the setting wherever you show the numbers.", g.ids())
	}
	return "Set the clocks free, or name the setting wherever you show the numbers."
}

// clocksSet finds clocks that are limited by what somebody set.
func clocksSet(l *look) []speedmatrix.Finding {
	return l.perGPU(func(g speedmatrix.GPU) (string, string) {
		rows := l.samples(g.Index)
		share, ok := shareOf(rows, func(r *speedmatrix.MachineRow) *bool { return r.ClocksSet })
		if !ok || share <= settingShare {
			return "", ""
		}
		return "has its clocks limited by a setting", fmt.Sprintf("in %s of the samples%s", unit.Percent(share), highest(rows, g))
	})
}

// highest says how high the clock went, of what it may.
func highest(rows []speedmatrix.MachineRow, g speedmatrix.GPU) string {
	clocks := known(rows, func(r *speedmatrix.MachineRow) *float64 { return r.Clock })
	if len(clocks) == 0 || g.ClockMax == nil {
		return ""
	}
	return fmt.Sprintf("; at most %s of %s", megahertz(slices.Max(clocks)), megahertz(*g.ClockMax))
}

// perGPU makes a finding about clocks for each group of GPUs of which says gives a sentence and its evidence.
func (l *look) perGPU(says func(speedmatrix.GPU) (what, evidence string)) []speedmatrix.Finding {
	var list []speedmatrix.Finding
	for _, g := range l.groups(func(g speedmatrix.GPU) string { what, _ := says(g); return what }) {
		what, evidence := says(g.of)
		list = append(list, speedmatrix.Finding{Message: upper(l.name(g)) + " " + have(what, len(g.indexes)), Evidence: evidence, Fix: l.resetClocks(g)})
	}
	return list
}

// have puts a verb into the plural for several GPUs.
func have(what string, n int) string {
	if n == 1 {
		return what
	}
	return strings.Replace(what, "has its clocks", "have their clocks", 1)
}

// clocksLow finds GPUs that stayed slow although nothing is reported that held them down.
func clocksLow(l *look) []speedmatrix.Finding {
	return l.perGPU(func(g speedmatrix.GPU) (string, string) {
		rows := l.samples(g.Index)
		clocks := known(rows, func(r *speedmatrix.MachineRow) *float64 { return r.Clock })
		if len(clocks) == 0 || g.ClockMax == nil || slices.Max(clocks) >= lowShare**g.ClockMax {
			return "", ""
		}
		for _, of := range []func(*speedmatrix.MachineRow) *bool{
			func(r *speedmatrix.MachineRow) *bool { return r.PowerCap }, func(r *speedmatrix.MachineRow) *bool { return r.Thermal },
			func(r *speedmatrix.MachineRow) *bool { return r.HardwareSlowdown }, func(r *speedmatrix.MachineRow) *bool { return r.ClocksSet },
		} {
			if share, ok := shareOf(rows, of); !ok || share > settingShare {
				return "", ""
			}
		}
		return "stayed far below the highest clock although nothing is reported that held it down: the clocks may be locked", "at most " + megahertz(slices.Max(clocks)) + " of " + megahertz(*g.ClockMax)
	})
}

// clocksRaised finds GPUs that run faster than they were made for.
func clocksRaised(l *look) []speedmatrix.Finding {
	list := l.perGPU(func(g speedmatrix.GPU) (string, string) {
		clocks := known(l.samples(g.Index), func(r *speedmatrix.MachineRow) *float64 { return r.Clock })
		if len(clocks) == 0 || g.ClockMax == nil || slices.Max(clocks) <= raisedShare**g.ClockMax {
			return "", ""
		}
		return "ran above the highest clock as made, so others of the kind are slower", megahertz(slices.Max(clocks)) + ", made for " + megahertz(*g.ClockMax)
	})
	for i := range list {
		list[i].Fix = "Take the offset of the clocks back, or name it wherever you show the numbers."
	}
	return list
}

// otherProcess finds programs of others that compute on the server's GPUs.
func otherProcess(l *look) []speedmatrix.Finding {
	var list []speedmatrix.Finding
	for _, g := range l.gpus {
		most, memory := int32(0), int64(0)
		for _, r := range l.samples(g.Index) {
			if r.OtherProcesses == nil {
				continue
			}
			most = max(most, *r.OtherProcesses)
			if r.OtherMemory != nil {
				memory = max(memory, *r.OtherMemory)
			}
		}
		if most == 0 {
			continue
		}
		what, held := "another program computes", "1 program"
		if most > 1 {
			what, held = "other programs compute", unit.Count(most)+" programs"
		}
		if memory > 0 {
			held += ", " + unit.Memory(memory) + " of its memory"
		}
		list = append(list, speedmatrix.Finding{
			Message: upper(what) + " on " + l.name(group{indexes: []int{g.Index}}) + " beside the server", Evidence: held,
			Fix: "End it and measure again; nvidia-smi names it.",
		})
	}
	return list
}

// fullShare of its memory is what a GPU may use before it counts as full.
const fullShare = 0.98

// memoryFull finds GPUs whose memory is so full that the driver may move some of it away.
func memoryFull(l *look) []speedmatrix.Finding {
	var list []speedmatrix.Finding
	for _, g := range l.gpus {
		used := known(l.samples(g.Index), func(r *speedmatrix.MachineRow) *float64 {
			if r.MemoryUsed == nil {
				return nil
			}
			return new(float64(*r.MemoryUsed))
		})
		if len(used) == 0 || g.MemoryBytes == nil || slices.Max(used) <= fullShare**g.MemoryBytes {
			continue
		}
		list = append(list, speedmatrix.Finding{
			Message:  "The memory of " + l.name(group{indexes: []int{g.Index}}) + " is nearly full",
			Evidence: fmt.Sprintf("%s of %s in use", unit.Memory(int64(slices.Max(used))), unit.Memory(int64(*g.MemoryBytes))),
			Fix:      "Leave the server less of it (vLLM: --gpu-memory-utilization 0.9), or a shorter maximum length: where memory runs out, requests fail, or the driver moves it to the slow side.",
		})
	}
	return list
}

// pcieLink finds GPUs whose link is slower than it could be while they work.
func pcieLink(l *look) []speedmatrix.Finding {
	var list []speedmatrix.Finding
	for _, g := range l.gpus {
		if g.PCIeGenerationMax == nil || g.PCIeWidthMax == nil {
			continue
		}
		generation, width := 0, 0
		share, ok := shareOf(l.samples(g.Index), func(r *speedmatrix.MachineRow) *bool {
			if r.PCIeGeneration == nil || r.PCIeWidth == nil {
				return nil
			}
			below := int(*r.PCIeGeneration) < *g.PCIeGenerationMax || int(*r.PCIeWidth) < *g.PCIeWidthMax
			if below {
				generation, width = int(*r.PCIeGeneration), int(*r.PCIeWidth)
			}
			return &below
		})
		if !ok || share <= 0.5 {
			continue
		}
		effect := "Loading and moving the KV cache are slower; a single GPU's generation hardly is"
		if len(l.gpus) > 1 {
			effect = "GPUs that share a model wait for each other over this link"
		}
		list = append(list, speedmatrix.Finding{
			Message:  "The PCIe link of " + l.name(group{indexes: []int{g.Index}}) + " is below its maximum",
			Evidence: fmt.Sprintf("%d.0 ×%d of %d.0 ×%d in %s of the samples under load", generation, width, *g.PCIeGenerationMax, *g.PCIeWidthMax, unit.Percent(share)),
			Fix:      effect + ". Look at the slot, the riser and the board's settings.",
		})
	}
	return list
}

// eccOn finds error correction on a kind of card that is delivered without and pays for it with bandwidth.
func eccOn(l *look) []speedmatrix.Finding {
	groups := l.groups(func(g speedmatrix.GPU) string {
		if g.ECC == nil || !*g.ECC || !strings.Contains(g.Name, "RTX") {
			return ""
		}
		return g.Name
	})
	if len(groups) == 0 {
		return nil
	}
	g := groups[0]
	return one(speedmatrix.Finding{
		Message: "The memory of " + l.name(g) + " corrects errors, which this kind of card is delivered without", Evidence: g.of.Name + ", ECC on",
		Fix: fmt.Sprintf("It costs some of the memory's bandwidth, which generation lives on. Switch it off with: nvidia-smi -i %s -e 0 (as administrator, then restart), or name it.", g.ids()),
	})
}
