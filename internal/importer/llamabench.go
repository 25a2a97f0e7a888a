package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"speedmatrix"
)

const llamaBench = "llama-bench"

func isLlamaBench(t tree) bool {
	list := t.list()
	return len(list) > 0 && list[0].has("n_prompt", "n_gen", "avg_ts")
}

func readLlamaBench(b *builder, t tree) error {
	for i, r := range t.list() {
		if err := b.llama(llamaRow{text: func(name string) string { return r.at(name).words() },
			number: func(name string) *float64 { return r.at(name).number() }, samples: r.at("samples_ts").numbers()}); err != nil {
			return fmt.Errorf("test %d: %w", i+1, err)
		}
	}
	return nil
}

// isLlamaCSV: a head with the names of the JSON form.
func isLlamaCSV(text string) bool {
	head, _, _ := strings.Cut(text, "\n")
	return strings.Contains(head, "n_prompt") && strings.Contains(head, "n_gen") && strings.Contains(head, "avg_ts") && strings.Contains(head, ",")
}

func readLlamaCSV(b *builder, text string) error {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return err
	}
	for i, record := range records[1:] {
		row := map[string]string{}
		for j, name := range records[0] {
			row[name] = record[j]
		}
		if err := b.llama(llamaRow{text: func(name string) string { return row[name] }, number: func(name string) *float64 { return parsed(row[name]) }}); err != nil {
			return fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	return nil
}

func parsed(text string) *float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return nil
	}
	return &v
}

// llamaRow is one test in any of the forms.
type llamaRow struct {
	text    func(name string) string
	number  func(name string) *float64
	samples []float64
}

// llama takes over one test: a prompt from empty is a prefill, generation after a depth a decode cell of one request.
func (b *builder) llama(r llamaRow) error {
	if err := b.llamaFacts(r); err != nil {
		return err
	}
	size := func(name string) int {
		if v := r.number(name); v != nil {
			return int(*v)
		}
		return 0
	}
	prompt, output, depth := size("n_prompt"), size("n_gen"), size("n_depth")
	speed := r.number("avg_ts")
	if speed == nil {
		return errors.New("it has no speed (avg_ts)")
	}
	b.warn("imported definition", "llama-bench runs the engine in its own process without a server: its speeds are higher than those of a server, and it knows no time to first token")
	if size("n_parallel") > 1 {
		b.warn("imported in part", "tests of several sequences at once were left out")
		return nil
	}
	switch {
	case prompt > 0 && output == 0 && depth == 0:
		c, err := b.cell(speedmatrix.PhasePrefill, prompt, 1)
		if err != nil {
			return err
		}
		c.PromptTokensPerSecond, c.PromptTokens = speed, new(float64(prompt))
		return b.add(c)
	case output > 0 && prompt == 0:
		c, err := b.cell(speedmatrix.PhaseDecode, depth, 1)
		if err != nil {
			return err
		}
		c.TotalTokensPerSecond, c.PerRequestTokensPerSecond = speed, speed
		if d := ofValues(r.samples, "repeats"); d != nil {
			c.Repeats = &speedmatrix.RepeatSummary{TotalTokensPerSecond: d, PerRequestTokensPerSecond: d}
		}
		return b.add(c)
	}
	b.warn("imported in part", "tests of a prompt after a depth, and of prompt and generation together, are neither a prefill from empty nor a decode and were left out")
	return nil
}

func (b *builder) llamaFacts(r llamaRow) error {
	if err := b.tool(llamaBench, r.text("build_number")); err != nil {
		return err
	}
	name := r.text("model_filename")
	if err := b.model(speedmatrix.ModelName, name[strings.LastIndexAny(name, `/\`)+1:]); err != nil {
		return err
	}
	b.fact(b.run.Engine, speedmatrix.EngineName, "llama.cpp")
	b.fact(b.run.Engine, speedmatrix.EngineBuild, r.text("build_commit"))
	b.fact(b.run.Engine, speedmatrix.EngineBackend, r.text("backends"))
	b.fact(b.run.Engine, speedmatrix.EngineKVType, r.text("type_k"))
	b.fact(b.run.Model, speedmatrix.ModelQuantization, r.text("model_type"))
	b.fact(b.run.Model, speedmatrix.ModelParameters, positive(r.number("model_n_params")))
	b.fact(b.run.Hardware, speedmatrix.HardwareCPU, r.text("cpu_info"))
	b.fact(b.run.Hardware, speedmatrix.HardwareGPU, r.text("gpu_info"))
	return nil
}

// llamaTest is a test as the Markdown table names it: pp512, tg128 @ d4096, pp512+tg128.
var llamaTest = regexp.MustCompile(`^(pp(\d+))?\+?(tg(\d+))?(?: @ d(\d+))?$`)

// llamaBuild is the line under a table.
var llamaBuild = regexp.MustCompile(`(?m)^build: (\w+) \((\d+)\)`)

func isLlamaMarkdown(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "|") && strings.Contains(text, "t/s |") && strings.Contains(text, "test |")
}

func readLlamaMarkdown(b *builder, text string) error {
	var head []string
	commit, build := "", ""
	if found := llamaBuild.FindStringSubmatch(text); found != nil {
		commit, build = found[1], found[2]
	}
	for line := range strings.Lines(text) {
		fields := markdownFields(line)
		switch {
		case fields == nil || strings.Trim(strings.Join(fields, ""), "-: ") == "":
			continue
		case head == nil:
			head = fields
			continue
		}
		row := map[string]string{"build_commit": commit, "build_number": build}
		for i, name := range head[:min(len(head), len(fields))] {
			row[name] = fields[i]
		}
		if err := b.llamaMarkdown(row); err != nil {
			return err
		}
	}
	return nil
}

// markdownFields are the fields of a table's row, nil for any other line.
func markdownFields(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	fields := strings.Split(strings.Trim(line, "|"), "|")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields
}

func (b *builder) llamaMarkdown(row map[string]string) error {
	test := llamaTest.FindStringSubmatch(row["test"])
	if test == nil {
		return fmt.Errorf("the test %q is of no kind known here", row["test"])
	}
	speed, _, _ := strings.Cut(row["t/s"], "±")
	numbers := map[string]string{"n_prompt": test[2], "n_gen": test[4], "n_depth": test[5], "avg_ts": speed}
	texts := map[string]string{"model_type": row["model"], "backends": row["backend"], "build_commit": row["build_commit"],
		"build_number": row["build_number"], "model_filename": row["model"]}
	return b.llama(llamaRow{text: func(name string) string { return texts[name] }, number: func(name string) *float64 { return parsed(numbers[name]) }})
}
