package capacity

import (
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// dataSheet is the limits of one card: bytes per second, and operations per second of its
// matrix units with 16-bit numbers, 32-bit sums and no sparsity.
type dataSheet struct{ bandwidth, compute float64 }

// dataSheets are by words in lower case that a GPU's name, with its memory, contains; the
// longest key whose words are all there counts.
var dataSheets = map[string]dataSheet{
	"rtx 3060": {360e9, 25.3e12}, "rtx 3080": {760e9, 59.5e12}, "rtx 3090": {936e9, 71e12}, "rtx 3090 ti": {1008e9, 80e12},
	"rtx 4070": {504e9, 58.3e12}, "rtx 4080": {717e9, 97.5e12}, "rtx 4090": {1008e9, 165.2e12}, "rtx 5090": {1792e9, 209.5e12},
	"a10": {600e9, 125e12}, "a100": {1555e9, 312e12}, "a100 80gb": {2039e9, 312e12}, "rtx a6000": {768e9, 154.8e12}, "a40": {696e9, 149.7e12},
	"l4": {300e9, 121e12}, "l40s": {864e9, 362e12}, "h100": {3350e9, 989.4e12}, "h200": {4800e9, 989.4e12},
	"t4": {320e9, 65e12}, "v100": {900e9, 125e12}, "mi300x": {5300e9, 1307e12},
}

// Hardware is what is known of the hardware's limits and from where.
type Hardware struct {
	// Bandwidth is the memory's in bytes per second, Compute the matrix units' in operations per second; 0 is unknown.
	Bandwidth, Compute float64
	// Device names the hardware, Source says where the limits come from: "data sheet" or "as stated".
	Device, Source string
}

// HardwareOf gives the limits of a run's hardware: stated ones before those of the data sheets, for all GPUs together.
func HardwareOf(facts speedmatrix.Facts) Hardware {
	h := Hardware{Device: facts.Text(speedmatrix.HardwareGPU), Source: "data sheet"}
	name := strings.ToLower(h.Device + " " + strings.ReplaceAll(facts.Text(speedmatrix.HardwareVRAM), " ", ""))
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_", r) })
	longest := 0
	for key, sheet := range dataSheets {
		missing := func(word string) bool { return !slices.Contains(words, word) }
		if len(key) > longest && !slices.ContainsFunc(strings.Fields(key), missing) {
			h.Bandwidth, h.Compute, longest = sheet.bandwidth, sheet.compute, len(key)
		}
	}
	if n, ok := facts.Int(speedmatrix.HardwareGPUCount); ok && n > 1 {
		h.Bandwidth, h.Compute = h.Bandwidth*float64(n), h.Compute*float64(n)
		h.Device = unit.Count(n) + "× " + h.Device
	}
	if v, ok := facts.Positive(speedmatrix.HardwareBandwidth); ok {
		h.Bandwidth, h.Source = v, "as stated"
	}
	if v, ok := facts.Positive(speedmatrix.HardwareCompute); ok {
		h.Compute, h.Source = v, "as stated"
	}
	return h
}
