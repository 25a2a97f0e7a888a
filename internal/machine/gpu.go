package machine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
)

// toolLimit bounds the tools that read the GPUs once: a broken driver can hang them.
const toolLimit = 3 * time.Second

// device is a GPU as its vendor's tools or the system describe it; nil and "" are unknown.
type device struct {
	index        int
	name         string
	memory       *float64 // bytes
	driver       string
	vbios        string
	linkNow      link
	linkMax      link
	powerLimit   *float64 // watts
	powerDefault *float64
	powerMax     *float64
	clockMax     *float64 // MHz
	memoryMax    *float64
	cores        *float64
	ecc          *bool
	persistence  *bool
	mig          *bool
	// uuid is how the driver names it, to match its processes. It goes into no fact and no row.
	uuid string
	// path is its folder in sysfs, hwmon that of its sensors.
	path, hwmon string
}

// link is a PCIe link; 0 is unknown.
type link struct{ generation, width int }

// text is the link as people write it: "4.0 ×16".
func (l link) text() string {
	if l.generation == 0 || l.width == 0 {
		return ""
	}
	return fmt.Sprintf("%d.0 ×%d", l.generation, l.width)
}

// gpus are the GPUs of one vendor and the way to sample them.
type gpus struct {
	source  string
	kind    string
	devices []device
	// sample follows the chosen GPUs until ctx ends; nil where nothing can.
	sample func(ctx context.Context, w *watching)
	// missing says why there is no sample, or what it lacks.
	missing []string
}

// findGPUs asks for the GPUs of each vendor in turn and takes those of the first that has any. Where a machine has a
// GPU of NVIDIA, the one inside its processor serves no model.
func (s *System) findGPUs(ctx context.Context) *gpus {
	ctx, cancel := context.WithTimeout(ctx, 2*toolLimit)
	defer cancel()
	var missing []string
	for _, find := range []func(context.Context) *gpus{s.findNVIDIA, s.findAMD, s.findIntel, s.findApple} {
		found := find(ctx)
		if len(found.devices) > 0 {
			found.missing = append(missing, found.missing...)
			return found
		}
		missing = append(missing, found.missing...)
	}
	if len(missing) == 0 {
		missing = []string{"no GPU was found"}
	}
	return &gpus{missing: missing}
}

// facts puts the GPUs into the facts of the machine.
func (g *gpus) facts(facts speedmatrix.Facts) {
	if len(g.devices) == 0 {
		return
	}
	facts.Set(speedmatrix.HardwareType, g.kind, Source)
	facts.Set(speedmatrix.HardwareGPUCount, len(g.devices), Source)
	for _, x := range []struct {
		key string
		of  func(device) string
	}{
		{speedmatrix.HardwareGPU, func(d device) string { return d.name }},
		{speedmatrix.HardwareVRAM, func(d device) string { return gigabytes(d.memory) }},
		{speedmatrix.HardwareDriver, func(d device) string { return d.driver }},
		{speedmatrix.HardwareGPUVBIOS, func(d device) string { return d.vbios }},
		{speedmatrix.HardwareGPUPCIe, func(d device) string { return d.linkNow.text() }},
		{speedmatrix.HardwareGPUPCIeMax, func(d device) string { return d.linkMax.text() }},
		{speedmatrix.HardwareGPUECC, func(d device) string { return onOff(d.ecc) }},
		{speedmatrix.HardwareGPUPersistence, func(d device) string { return onOff(d.persistence) }},
		{speedmatrix.HardwareGPUMIG, func(d device) string { return onOff(d.mig) }},
	} {
		set(facts, x.key, join(g.devices, x.of))
	}
	for _, x := range []struct {
		key string
		of  func(device) *float64
	}{
		{speedmatrix.HardwareGPUPowerLimit, func(d device) *float64 { return d.powerLimit }},
		{speedmatrix.HardwareGPUPowerDefault, func(d device) *float64 { return d.powerDefault }},
		{speedmatrix.HardwareGPUPowerMax, func(d device) *float64 { return d.powerMax }},
		{speedmatrix.HardwareGPUClockMax, func(d device) *float64 { return d.clockMax }},
		{speedmatrix.HardwareGPUMemoryClockMax, func(d device) *float64 { return d.memoryMax }},
		{speedmatrix.HardwareGPUCores, func(d device) *float64 { return d.cores }},
	} {
		text := join(g.devices, func(d device) string { return plain(x.of(d)) })
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			facts.Set(x.key, value, Source)
			continue
		}
		set(facts, x.key, text)
	}
}

// join names what the GPUs have, once where they are alike, else with how often.
func join(devices []device, of func(device) string) string {
	counts := map[string]int{}
	var values []string
	for _, d := range devices {
		value := of(d)
		if value == "" {
			continue
		}
		if counts[value] == 0 {
			values = append(values, value)
		}
		counts[value]++
	}
	if len(values) <= 1 {
		return strings.Join(values, "")
	}
	slices.Sort(values)
	for i, value := range values {
		values[i] = fmt.Sprintf("%d × %s", counts[value], value)
	}
	return strings.Join(values, " + ")
}

// public is the GPU as a run keeps it.
func (d *device) public() speedmatrix.GPU {
	g := speedmatrix.GPU{
		Index: d.index, Name: d.name, MemoryBytes: d.memory, PowerLimit: d.powerLimit, PowerDefault: d.powerDefault,
		ClockMax: d.clockMax, ECC: d.ecc,
	}
	if d.linkMax.generation > 0 {
		g.PCIeGenerationMax = &d.linkMax.generation
	}
	if d.linkMax.width > 0 {
		g.PCIeWidthMax = &d.linkMax.width
	}
	return g
}

// gigabytes writes bytes as people name memory, in units of 2³⁰: "24 GB".
func gigabytes(bytes *float64) string {
	if bytes == nil || *bytes <= 0 {
		return ""
	}
	return fmt.Sprintf("%d GB", int(math.Round(*bytes/(1<<30))))
}

func onOff(v *bool) string {
	switch {
	case v == nil:
		return ""
	case *v:
		return "on"
	}
	return "off"
}

// plain is a number as text, "" when it is unknown.
func plain(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// set records a fact that is known.
func set(facts speedmatrix.Facts, key, value string) {
	if value != "" {
		facts.Set(key, value, Source)
	}
}
