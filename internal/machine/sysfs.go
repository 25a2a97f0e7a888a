package machine

import (
	"bufio"
	"context"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
)

const (
	drm = "sys/class/drm"
	// micro is the unit of power and energy in the kernel's files, milli that of temperatures.
	micro = 1e-6
	milli = 1e-3
)

// cards are the folders of the graphics cards of a vendor, in order: "sys/class/drm/card0".
func (s *System) cards(vendor string) []string {
	if s.Files == nil {
		return nil
	}
	entries, err := fs.ReadDir(s.Files, drm)
	if err != nil {
		return nil
	}
	var numbers []int
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "card")
		if n, err := strconv.Atoi(number); ok && err == nil && s.line(path.Join(drm, e.Name(), "device/vendor")) == vendor {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var folders []string
	for _, n := range numbers {
		folders = append(folders, path.Join(drm, "card"+strconv.Itoa(n)))
	}
	return folders
}

// sensors is the folder of a card's sensors, "" where it has none.
func (s *System) sensors(card string) string {
	folder := path.Join(card, "device/hwmon")
	entries, err := fs.ReadDir(s.Files, folder)
	if err != nil || len(entries) == 0 {
		return ""
	}
	return path.Join(folder, entries[0].Name())
}

// value reads a number of a file in a unit, nil where there is none.
func (s *System) value(file string, unit float64) *float64 { return scaled(s.line(file), unit) }

// first reads the first of some files that holds a number.
func (s *System) first(unit float64, files ...string) *float64 {
	for _, file := range files {
		if v := s.value(file, unit); v != nil {
			return v
		}
	}
	return nil
}

// positive drops the zeros with which files say "no limit".
func positive(v *float64) *float64 {
	if v == nil || *v <= 0 {
		return nil
	}
	return v
}

// pciName is the name of a device in the system's list of PCI devices, "" where it is not there.
func (s *System) pciName(vendor, id string) string {
	vendor, id = strings.TrimPrefix(vendor, "0x"), strings.TrimPrefix(id, "0x")
	for _, file := range []string{"usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids"} {
		f, err := s.Files.Open(file)
		if err != nil {
			continue
		}
		name := nameInList(bufio.NewScanner(f), vendor, id)
		_ = f.Close()
		if name != "" {
			return name
		}
	}
	return ""
}

func nameInList(lines *bufio.Scanner, vendor, id string) string {
	inside := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		if !strings.HasPrefix(line, "\t") {
			inside = strings.HasPrefix(line, vendor+" ")
			continue
		}
		name, ok := strings.CutPrefix(line, "\t"+id+" ")
		if !inside || !ok {
			continue
		}
		// "Navi 31 [Radeon RX 7900 XTX]": people know the name in brackets.
		if _, marketed, ok := strings.Cut(name, "["); ok {
			name, _, _ = strings.Cut(marketed, "]")
		}
		return strings.TrimSpace(name)
	}
	return ""
}

// everyTick samples all devices at the interval until ctx ends.
func everyTick(ctx context.Context, w *watching, sample func(*device) speedmatrix.MachineRow) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		for i := range w.devices {
			row := sample(&w.devices[i])
			row.GPU = new(int32(w.devices[i].index))
			w.put(row)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
