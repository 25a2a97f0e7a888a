package machine

import (
	"context"
	"path"
	"strings"
	"time"

	"speedmatrix"
)

const (
	sourceIntel = "sysfs i915/xe"
	vendorIntel = "0x8086"
)

// findIntel lists Intel's cards by the kernel's files. A GPU inside a processor has no sensor of energy and is left out.
func (s *System) findIntel(context.Context) *gpus {
	found := &gpus{source: sourceIntel, kind: "Discrete GPU", sample: s.sampleIntel}
	for _, card := range s.cards(vendorIntel) {
		hwmon := s.sensors(card)
		if hwmon == "" || s.value(path.Join(hwmon, "energy1_input"), micro) == nil {
			continue
		}
		id := s.line(path.Join(card, "device/device"))
		d := device{
			index: len(found.devices), path: card, hwmon: hwmon, name: s.pciName(vendorIntel, id),
			powerLimit:   positive(s.value(path.Join(hwmon, "power1_max"), micro)),
			powerDefault: positive(s.value(path.Join(hwmon, "power1_rated_max"), micro)),
			clockMax:     s.first(1, path.Join(card, "gt_RP0_freq_mhz"), path.Join(card, "device/tile0/gt0/freq0/rp0_freq")),
			memory:       s.first(1, path.Join(card, "lmem_total_bytes"), path.Join(card, "device/tile0/physical_vram_size_bytes")),
		}
		if d.name == "" {
			d.name = strings.TrimSpace("Intel GPU " + id)
		}
		found.devices = append(found.devices, d)
	}
	return found
}

func (s *System) sampleIntel(ctx context.Context, w *watching) {
	last := map[int]energyAt{}
	everyTick(ctx, w, func(d *device) speedmatrix.MachineRow { return s.intelSample(d, last) })
}

// energyAt is a counter of energy at a time.
type energyAt struct {
	joules float64
	at     time.Time
}

// intelSample reads a card now. Its power is the rise of its counter of energy since the sample before.
func (s *System) intelSample(d *device, last map[int]energyAt) speedmatrix.MachineRow {
	row := speedmatrix.MachineRow{
		Energy: s.value(path.Join(d.hwmon, "energy1_input"), micro),
		Clock:  s.first(1, path.Join(d.path, "gt_act_freq_mhz"), path.Join(d.path, "device/tile0/gt0/freq0/act_freq")),
		// xe numbers the sensors: 2 is the chip, 3 its memory.
		Temperature:       s.first(milli, path.Join(d.hwmon, "temp2_input"), path.Join(d.hwmon, "temp1_input")),
		MemoryTemperature: s.value(path.Join(d.hwmon, "temp3_input"), milli),
	}
	if row.Energy != nil {
		now := energyAt{*row.Energy, time.Now()}
		if before, ok := last[d.index]; ok && now.joules >= before.joules && now.at.After(before.at) {
			row.Power = new((now.joules - before.joules) / now.at.Sub(before.at).Seconds())
		}
		last[d.index] = now
	}
	s.intelReasons(d, &row)
	return row
}

// intelReasons reads what holds the clocks down: i915 names the files throttle_reason_…, xe throttle/reason_….
func (s *System) intelReasons(d *device, row *speedmatrix.MachineRow) {
	prefix := path.Join(d.path, "gt/gt0/throttle_reason_")
	if s.line(prefix+"status") == "" {
		prefix = path.Join(d.path, "device/tile0/gt0/freq0/throttle") + "/reason_"
	}
	row.PowerCap = s.anySet(prefix, "pl1", "pl2", "pl4")
	row.Thermal = s.anySet(prefix, "thermal", "vr_thermalert")
	row.HardwareSlowdown = s.anySet(prefix, "prochot")
}

// anySet says whether one of some files holds 1; nil where none can be read.
func (s *System) anySet(prefix string, names ...string) *bool {
	var any *bool
	for _, name := range names {
		switch s.line(prefix + name) {
		case "1":
			return new(true)
		case "0":
			any = new(false)
		}
	}
	return any
}
