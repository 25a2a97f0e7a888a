package machine

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const nvidiaSMI = "nvidia-smi"

// nvidiaFacts are asked for once. The name comes last: it may hold a comma, nothing else can.
var nvidiaFacts = []string{
	"index", "uuid", "driver_version", "memory.total", "vbios_version", "pcie.link.gen.current", "pcie.link.width.current",
	"pcie.link.gen.max", "pcie.link.width.max", "power.limit", "power.default_limit", "power.max_limit", "clocks.max.sm",
	"clocks.max.memory", "ecc.mode.current", "persistence_mode", "mig.mode.current", "name",
}

// renamed are fields that older drivers know by another name.
var renamed = map[string]string{"clocks_event_reasons.active": "clocks_throttle_reasons.active"}

// rejected is how nvidia-smi refuses a field that its version does not know.
var rejected = regexp.MustCompile(`Field "([^"]+)" is not a valid field to query`)

// accept takes out of the fields the one that the tool rejected, or gives it its older name.
func accept(fields []string, answer string) ([]string, bool) {
	m := rejected.FindStringSubmatch(answer)
	if m == nil {
		return fields, false
	}
	i := slices.Index(fields, m[1])
	if i < 0 {
		return fields, false
	}
	fields = slices.Clone(fields)
	if older := renamed[m[1]]; older != "" {
		fields[i] = older
		return fields, true
	}
	return slices.Delete(fields, i, i+1), true
}

// csvQuery asks for fields of all GPUs.
func csvQuery(fields []string) []string {
	return []string{"--query-gpu=" + strings.Join(fields, ","), "--format=csv,noheader,nounits"}
}

// findNVIDIA lists the GPUs of NVIDIA.
func (s *System) findNVIDIA(ctx context.Context) *gpus {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	found := &gpus{source: nvidiaSMI, kind: "Discrete GPU"}
	fields := nvidiaFacts
	for {
		out, err := s.Command(ctx, nvidiaSMI, csvQuery(fields)...)
		fewer, again := accept(fields, string(out))
		if again {
			fields = fewer
			continue
		}
		if errors.Is(err, exec.ErrNotFound) {
			return found
		}
		for line := range strings.Lines(string(out)) {
			if d, ok := nvidiaDevice(values(fields, line)); ok && err == nil {
				found.devices = append(found.devices, d)
			}
		}
		if len(found.devices) == 0 {
			found.missing = []string{nvidiaSMI + ": " + lastWords(ctx, string(out), err)}
		}
		found.sample = s.sampleNVIDIA
		return found
	}
}

// lastWords is what a tool that gave nothing said of it.
func lastWords(ctx context.Context, out string, err error) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" {
			return clip(line)
		}
	}
	switch {
	case ctx.Err() != nil:
		return "no answer within " + toolLimit.String()
	case err != nil:
		return clip(err.Error())
	}
	return "it lists no GPU"
}

// clip keeps what a tool said to one line of bearable length.
func clip(text string) string {
	const most = 200
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// values are the known fields of a line by their names; nil for a line that is no answer.
func values(fields []string, line string) map[string]string {
	parts := strings.SplitN(strings.TrimSpace(line), ",", len(fields))
	if len(parts) != len(fields) {
		return nil
	}
	known := map[string]string{}
	for i, part := range parts {
		if part = strings.TrimSpace(part); !unknown(part) {
			known[fields[i]] = part
		}
	}
	return known
}

// unknown says whether a field holds one of the tool's words for a value that it does not have: "[N/A]",
// "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "ERR!".
func unknown(field string) bool {
	return field == "" || field == "-" || field == "N/A" || strings.HasPrefix(field, "[") || strings.HasPrefix(field, "ERR")
}

func nvidiaDevice(v map[string]string) (d device, ok bool) {
	index, err := strconv.Atoi(v["index"])
	if err != nil {
		return d, false
	}
	d = device{
		index: index, name: strings.TrimPrefix(v["name"], "NVIDIA "), uuid: v["uuid"], driver: v["driver_version"], vbios: v["vbios_version"],
		memory:     scaled(v["memory.total"], 1<<20),
		linkNow:    link{whole(v["pcie.link.gen.current"]), whole(v["pcie.link.width.current"])},
		linkMax:    link{whole(v["pcie.link.gen.max"]), whole(v["pcie.link.width.max"])},
		powerLimit: number(v["power.limit"]), powerDefault: number(v["power.default_limit"]), powerMax: number(v["power.max_limit"]),
		clockMax: number(v["clocks.max.sm"]), memoryMax: number(v["clocks.max.memory"]),
		ecc: enabled(v["ecc.mode.current"]), persistence: enabled(v["persistence_mode"]), mig: enabled(v["mig.mode.current"]),
	}
	return d, true
}

// number reads a number, nil where there is none.
func number(text string) *float64 { return scaled(text, 1) }

// scaled reads a number in units of unit.
func scaled(text string, unit float64) *float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !finite(v) {
		return nil
	}
	v *= unit
	return &v
}

// whole reads a whole number, 0 where there is none.
func whole(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func enabled(text string) *bool {
	switch text {
	case "Enabled":
		return new(true)
	case "Disabled":
		return new(false)
	}
	return nil
}
