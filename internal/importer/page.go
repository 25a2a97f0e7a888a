package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// isPage: the text of a speed test page, copied from a browser or written by `report --text`.
func isPage(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "Speed test matrix") && strings.Contains(text, "| Phase | Context | Requests at once | Status |")
}

// readPage reads the sections of a page. What its publisher typed has the source user.
func readPage(b *builder, text string) error {
	lines := strings.Split(text, "\n")
	if err := b.pageFacts(lines); err != nil {
		return err
	}
	b.pageCommand(lines)
	rows := 0
	for _, line := range lines {
		fields := markdownFields(line[max(strings.Index(line, "| "), 0):])
		if len(fields) != 12 || fields[0] != "Prefill" && fields[0] != "Sustained decode" {
			continue
		}
		rows++
		if err := b.pageRow(fields); err != nil {
			return fmt.Errorf("row %d of all measurements: %w", rows, err)
		}
	}
	if rows == 0 {
		return errors.New("it has no row under All measurements")
	}
	return nil
}

// pageFacts reads the pairs of lines "- Label", "- Value", and the title.
func (b *builder) pageFacts(lines []string) error {
	values := map[string]string{}
	for i := 0; i+1 < len(lines); i++ {
		label, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "- ")
		value, there := strings.CutPrefix(strings.TrimSpace(lines[i+1]), "- ")
		if ok && there {
			values[label] = value
			i++
		}
	}
	name, version, _ := strings.Cut(values["Benchmark tool"], " v")
	if name == "" {
		return errors.New("it does not name its benchmark tool")
	}
	if err := b.tool(name, version); err != nil {
		return err
	}
	title, _, _ := strings.Cut(pageTitle(lines), " on ")
	b.run.Model.Set(speedmatrix.ModelName, title, speedmatrix.SourceUser)
	b.pageMethod(values)
	for _, f := range []struct {
		facts      speedmatrix.Facts
		key, label string
	}{
		{b.run.Hardware, speedmatrix.HardwareType, "Type"}, {b.run.Hardware, speedmatrix.HardwareGPU, "GPU"}, {b.run.Hardware, speedmatrix.HardwareVRAM, "VRAM"},
		{b.run.Hardware, speedmatrix.HardwareCPU, "CPU"}, {b.run.Hardware, speedmatrix.HardwareRAM, "RAM"}, {b.run.Hardware, speedmatrix.HardwareOS, "OS"},
		{b.run.Engine, speedmatrix.EngineName, "Engine"}, {b.run.Engine, speedmatrix.EngineVersion, "Version"}, {b.run.Model, speedmatrix.ModelQuantization, "Quantization"},
		{b.run.Engine, speedmatrix.EngineBackend, "Backend"}, {b.run.Engine, speedmatrix.EngineRepository, "Repository"}, {b.run.Engine, speedmatrix.EngineBuild, "Build"},
		{b.run.Model, speedmatrix.ModelServedName, "Served model"}, {b.run.Model, speedmatrix.ModelRevision, "Revision"},
	} {
		if v := values[f.label]; v != "" && v != unit.Dash {
			f.facts.Set(f.key, v, speedmatrix.SourceUser)
		}
	}
	return nil
}

// pageTitle is the line under the page's kind.
func pageTitle(lines []string) string {
	seen := false
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if seen && line != "" {
			return line
		}
		seen = seen || line == "Speed test matrix"
	}
	return ""
}

func (b *builder) pageMethod(values map[string]string) {
	m := &b.run.Method
	if b.run.Tool.Name == "llm-inference-bench" {
		m.Name, m.Prompts, m.KVPlan, m.MaxExtension = speedmatrix.MethodCompat, "shared", "reserve", 1
	}
	if seconds, ok := strings.CutSuffix(values["Time per measurement"], " s"); ok {
		if v := parsed(seconds); v != nil {
			m.DurationSeconds, m.MinWindowSeconds = *v, *v
		}
	}
	if tokens, ok := strings.CutSuffix(values["Max output"], " tokens"); ok {
		if n, err := strconv.Atoi(strings.ReplaceAll(tokens, ",", "")); err == nil {
			m.MaxOutput = n
		}
	}
}

// pageCommand is what stands between the heads Launch command and Prefill.
func (b *builder) pageCommand(lines []string) {
	var command []string
	inside := false
	for _, line := range lines {
		switch strings.TrimSpace(line) {
		case "Launch command":
			inside = true
			continue
		case "Prefill", "Sustained decode", "All measurements":
			inside = false
		}
		if inside && strings.TrimSpace(line) != "" {
			command = append(command, strings.TrimRight(line, " \r"))
		}
	}
	if len(command) > 0 {
		b.run.LaunchCommand = &speedmatrix.Fact{Value: strings.Join(command, "\n"), Source: speedmatrix.SourceUser}
	}
}

// pageReasons is what a page says of a status.
var pageReasons = map[speedmatrix.Status]string{
	speedmatrix.StatusOverCapacity:   "by the source: this many requests at this context would exceed the server's KV cache",
	speedmatrix.StatusLooped:         "by the source: the model kept repeating the same text",
	speedmatrix.StatusRequestsQueued: "by the source: the server could not run all requests at once",
}

// pageRow reads a row: phase, context, requests, status, total, per request, TTFT, time between tokens, active
// requests, completed, output tokens, seconds.
func (b *builder) pageRow(fields []string) error {
	context, err := unit.ParseTokens(fields[1])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.ReplaceAll(fields[2], ",", ""))
	if err != nil {
		return fmt.Errorf("%q is no number of requests", fields[2])
	}
	phase := speedmatrix.PhaseDecode
	if fields[0] == "Prefill" {
		phase = speedmatrix.PhasePrefill
	}
	c, err := b.cell(phase, context, n)
	if err != nil {
		return err
	}
	var numbers [8]*float64
	for i := range numbers {
		if numbers[i], err = pageNumber(fields[4+i]); err != nil {
			return err
		}
	}
	c.ContextLabel, c.Status, c.TTFTKind = fields[1], speedmatrix.Status(fields[3]), ""
	if c.Status != speedmatrix.StatusValid && c.Status.Explanation() == "" {
		return fmt.Errorf("there is no status %q", fields[3])
	}
	c.Reason = pageReasons[c.Status]
	if phase == speedmatrix.PhasePrefill {
		c.PromptTokensPerSecond = numbers[0]
	} else {
		c.TotalTokensPerSecond = numbers[0]
	}
	single := func(v *float64) *speedmatrix.Distribution {
		if v == nil {
			return nil
		}
		return &speedmatrix.Distribution{P50: v, N: n, Of: "requests"}
	}
	c.PerRequestTokensPerSecond, c.TTFT, c.TimeBetweenTokens = numbers[1], single(numbers[2]), single(numbers[3])
	c.ActiveRequestsMean, c.OutputTokens, c.WindowSeconds = numbers[4], numbers[6], numbers[7]
	if numbers[5] != nil {
		c.CompletedRequests = new(int(*numbers[5]))
	}
	if c.TTFT != nil {
		c.TTFTKind = b.pageKind(phase)
	}
	return b.add(c)
}

// pageKind: llm-inference-bench warms the prompt cache before a decode cell and prefills cold.
func (b *builder) pageKind(phase speedmatrix.Phase) speedmatrix.TTFTKind {
	switch {
	case b.run.Tool.Name != "llm-inference-bench":
		return speedmatrix.TTFTUnknown
	case phase == speedmatrix.PhasePrefill:
		return speedmatrix.TTFTCold
	}
	return speedmatrix.TTFTWarm
}

// pageNumber reads a number as pages write it: "1,376.6", "10.8K", "54 ms", "30.0 s"; nil for a dash.
func pageNumber(text string) (*float64, error) {
	text = strings.TrimSpace(text)
	if text == unit.Dash || text == "" {
		return nil, nil
	}
	number := strings.TrimSuffix(strings.TrimSuffix(text, " ms"), " s")
	number, factor := strings.ReplaceAll(number, ",", ""), 1.0
	if short, ok := strings.CutSuffix(number, "K"); ok {
		number, factor = short, 1000
	}
	v := parsed(number)
	if v == nil {
		return nil, fmt.Errorf("%q is no number", text)
	}
	return new(*v * factor), nil
}
