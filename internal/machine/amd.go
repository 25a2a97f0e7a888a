package machine

import (
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"speedmatrix"
)

const (
	sourceAMD = "sysfs amdgpu"
	rocmSMI   = "rocm-smi"
	vendorAMD = "0x1002"
)

// findAMD lists the GPUs of AMD by the kernel's files, and by rocm-smi where those are out of reach.
func (s *System) findAMD(ctx context.Context) *gpus {
	found := &gpus{source: sourceAMD, kind: "Discrete GPU", sample: s.sampleAMD}
	var names []rocmCard
	for _, card := range s.cards(vendorAMD) {
		d, ok := s.amdDevice(card)
		if !ok {
			continue
		}
		d.index = len(found.devices)
		if d.name == "" {
			if names == nil {
				names = s.rocmCards(ctx)
			}
			d.name = s.amdName(card, names, d.index)
		}
		found.devices = append(found.devices, d)
	}
	if len(found.devices) > 0 {
		return found
	}
	for i, card := range s.rocmCards(ctx) {
		d := card.device()
		d.index = i
		found.devices = append(found.devices, d)
	}
	if len(found.devices) > 0 {
		found.source, found.sample = rocmSMI, nil
		found.missing = []string{"no samples of the GPUs: the kernel's files about them are out of reach, and " + rocmSMI + " costs too much to be run twice a second"}
	}
	return found
}

// amdDevice reads a card that has memory of its own to report.
func (s *System) amdDevice(card string) (device, bool) {
	at := func(file string) string { return path.Join(card, "device", file) }
	d := device{
		path: card, hwmon: s.sensors(card), memory: s.value(at("mem_info_vram_total"), 1), name: s.line(at("product_name")), vbios: s.line(at("vbios_version")),
		driver: s.line("sys/module/amdgpu/version"),
	}
	if d.memory == nil {
		return d, false
	}
	d.clockMax, d.memoryMax = topLevel(s.lines(at("pp_dpm_sclk"))), topLevel(s.lines(at("pp_dpm_mclk")))
	if d.hwmon != "" {
		sensor := func(file string) *float64 { return positive(s.value(path.Join(d.hwmon, file), micro)) }
		d.powerLimit, d.powerDefault, d.powerMax = sensor("power1_cap"), sensor("power1_cap_default"), sensor("power1_cap_max")
	}
	return d, true
}

// amdName is the name of a card that has none of its own.
func (s *System) amdName(card string, names []rocmCard, index int) string {
	if index < len(names) && names[index].name() != "" {
		return names[index].name()
	}
	id := s.line(path.Join(card, "device/device"))
	if name := s.pciName(vendorAMD, id); name != "" {
		return name
	}
	return strings.TrimSpace("AMD GPU " + id)
}

// lines are those of a file.
func (s *System) lines(file string) []string {
	data, err := fs.ReadFile(s.Files, file)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// topLevel is the clock of the last level of a table such as "2: 2575Mhz *", in MHz.
func topLevel(levels []string) *float64 {
	if len(levels) == 0 {
		return nil
	}
	fields := strings.Fields(levels[len(levels)-1])
	if len(fields) < 2 {
		return nil
	}
	return number(strings.TrimSuffix(strings.ToLower(fields[1]), "mhz"))
}

func (s *System) sampleAMD(ctx context.Context, w *watching) {
	everyTick(ctx, w, s.amdSample)
}

// amdSample reads a card now. What holds its clocks down, its PCIe link and the rates over it stay unknown: the link
// that the kernel names is the one inside the card.
func (s *System) amdSample(d *device) speedmatrix.MachineRow {
	at := func(file string) string { return path.Join(d.path, "device", file) }
	sensor := func(file string) string { return path.Join(d.hwmon, file) }
	row := speedmatrix.MachineRow{
		Utilization: s.value(at("gpu_busy_percent"), 0.01), MemoryUsed: bytesOf(s.line(at("mem_info_vram_used")), 1),
	}
	if d.hwmon == "" {
		return row
	}
	// The junction is where the chip is hottest; older ones tell of the edge only.
	row.Temperature = s.first(milli, sensor("temp2_input"), sensor("temp1_input"))
	row.MemoryTemperature = s.value(sensor("temp3_input"), milli)
	row.Power = s.first(micro, sensor("power1_average"), sensor("power1_input"))
	row.Energy = s.value(sensor("energy1_input"), micro)
	row.Clock, row.MemoryClock = s.value(sensor("freq1_input"), micro), s.value(sensor("freq2_input"), micro)
	return row
}

// rocmCard is a card as rocm-smi describes it, with its keys in lower case.
type rocmCard map[string]string

// rocmCards asks rocm-smi once; none where it is not there.
func (s *System) rocmCards(ctx context.Context) []rocmCard {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	out, err := s.Command(ctx, rocmSMI, "--showproductname", "--showmeminfo", "vram", "--showmaxpower", "--showdriverversion", "--json")
	if err != nil {
		return nil
	}
	// Warnings may stand before the document.
	if at := strings.IndexByte(string(out), '{'); at > 0 {
		out = out[at:]
	}
	var document map[string]map[string]string
	if json.Unmarshal(out, &document) != nil {
		return nil
	}
	var cards []rocmCard
	for _, key := range cardKeys(document) {
		card := rocmCard{}
		for _, part := range []map[string]string{document["system"], document[key]} {
			for name, value := range part {
				if !unknown(value) {
					card[strings.ToLower(name)] = value
				}
			}
		}
		cards = append(cards, card)
	}
	return cards
}

// cardKeys are "card0", "card1", … "card10" in order of their numbers.
func cardKeys(document map[string]map[string]string) []string {
	var keys []string
	for key := range document {
		if rest, ok := strings.CutPrefix(key, "card"); ok && number(rest) != nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return whole(a[len("card"):]) - whole(b[len("card"):]) })
	return keys
}

func (c rocmCard) name() string {
	for _, key := range []string{"card series", "device name", "card model"} {
		if name := c[key]; name != "" && !strings.HasPrefix(name, "0x") {
			return name
		}
	}
	return ""
}

func (c rocmCard) device() device {
	return device{
		name: c.name(), memory: number(c["vram total memory (b)"]), powerLimit: number(c["max graphics package power (w)"]), driver: c["driver version"],
	}
}
