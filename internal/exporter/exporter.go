// Package exporter writes a run in the forms that other tools read: llama-bench's table, Go's benchmark format for
// benchstat, OpenMetrics, and a LocalMaxxing payload. Only cells that show a speed are written.
package exporter

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// measured gives every cell that shows a speed, repeats after the matrix, with the number of the repeat.
func measured(run *speedmatrix.Run, visit func(c *speedmatrix.Cell, repeat int)) {
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Status.ShowsSpeed() && speed(c) != nil {
			visit(c, 1)
		}
	}
	for _, r := range run.Repeats {
		for i := range r.Cells {
			if c := &r.Cells[i]; c.Status.ShowsSpeed() && speed(c) != nil {
				visit(c, r.Index)
			}
		}
	}
}

// speed is the number that a cell of its phase is about.
func speed(c *speedmatrix.Cell) *float64 {
	if c.Phase == speedmatrix.PhasePrefill {
		return c.PromptTokensPerSecond
	}
	return c.TotalTokensPerSecond
}

// model is the best name of the model.
func model(run *speedmatrix.Run) string {
	return cmp.Or(run.Model.Text(speedmatrix.ModelName), run.Model.Text(speedmatrix.ModelServedName), "model")
}

func engine(run *speedmatrix.Run) string {
	return strings.TrimSpace(run.Engine.Text(speedmatrix.EngineName) + " " + run.Engine.Text(speedmatrix.EngineVersion))
}

func raw(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// LlamaBench writes a Markdown table in the manner of llama-bench: pp is a prefill from empty, tg @ d a sustained
// decode at that depth, with the number of simultaneous requests where it is above one. ± is half of the 95 % interval.
func LlamaBench(w io.Writer, run *speedmatrix.Run) error {
	out := bufio.NewWriter(w)
	plain := strings.NewReplacer("|", "/", "\n", " ", "\r", " ")
	name, by := plain.Replace(model(run)), plain.Replace(engine(run))
	_, _ = fmt.Fprintf(out, "| model | quantization | engine | requests | test | t/s |\n| --- | --- | --- | ---: | ---: | ---: |\n")
	measured(run, func(c *speedmatrix.Cell, repeat int) {
		if repeat > 1 {
			return
		}
		test := fmt.Sprintf("tg @ d%d", c.Context)
		if c.Phase == speedmatrix.PhasePrefill {
			test = fmt.Sprintf("pp%d", c.Context)
		}
		value := strconv.FormatFloat(*speed(c), 'f', 2, 64)
		if i := c.Interval95; i != nil {
			value += " ± " + strconv.FormatFloat((i.High-i.Low)/2, 'f', 2, 64)
		}
		_, _ = fmt.Fprintf(out, "| %s | %s | %s | %d | %s | %s |\n", name, plain.Replace(run.Model.Text(speedmatrix.ModelQuantization)), by, c.Concurrency, test, value)
	})
	_, _ = fmt.Fprintf(out, "\n%s: %s, method %s\n", plain.Replace(run.Tool.Name), plain.Replace(run.ID), plain.Replace(run.Method.Name))
	return out.Flush()
}

// Benchstat writes Go's benchmark format, one line a cell and repeat, so that benchstat compares runs. Names hold
// the place in the matrix: BenchmarkDecode/context=16K/requests=8.
func Benchstat(w io.Writer, run *speedmatrix.Run) error {
	out := bufio.NewWriter(w)
	line := strings.NewReplacer("\n", " ", "\r", " ")
	for _, pair := range [][2]string{{"model", model(run)}, {"engine", engine(run)}, {"gpu", run.Hardware.Text(speedmatrix.HardwareGPU)}, {"method", run.Method.Name}, {"origin", string(run.Origin)}} {
		if pair[1] != "" {
			_, _ = fmt.Fprintf(out, "%s: %s\n", pair[0], line.Replace(pair[1]))
		}
	}
	_, _ = fmt.Fprint(out, "Unit tok/s better=higher\nUnit tok/s-each better=higher\nUnit ttft-ms better=lower\nUnit ms/tok better=lower\n")
	measured(run, func(c *speedmatrix.Cell, _ int) {
		if c.Phase == speedmatrix.PhasePrefill {
			_, _ = fmt.Fprintf(out, "BenchmarkPrefill/context=%s 1 %s tok/s", strings.ReplaceAll(c.ContextLabel, ",", ""), raw(*c.PromptTokensPerSecond))
		} else {
			_, _ = fmt.Fprintf(out, "BenchmarkDecode/context=%s/requests=%d 1 %s tok/s", strings.ReplaceAll(c.ContextLabel, ",", ""), c.Concurrency, raw(*c.TotalTokensPerSecond))
		}
		for _, v := range []struct {
			value *float64
			unit  string
		}{{c.PerRequestTokensPerSecond, "tok/s-each"}, {median(c.TTFT), "ttft-ms"}, {median(c.TimeBetweenTokens), "ms/tok"}} {
			if v.value != nil {
				_, _ = fmt.Fprintf(out, " %s %s", raw(*v.value), v.unit)
			}
		}
		_, _ = fmt.Fprintln(out)
	})
	return out.Flush()
}

func median(d *speedmatrix.Distribution) *float64 {
	if d == nil {
		return nil
	}
	return d.P50
}

// metric is one family of OpenMetrics.
type metric struct {
	name, help string
	value      func(c *speedmatrix.Cell) *float64
}

var metrics = []metric{
	{"total_tokens_per_second", "Output tokens per second of all requests of a decode cell.", func(c *speedmatrix.Cell) *float64 { return c.TotalTokensPerSecond }},
	{"per_request_tokens_per_second", "Output tokens per second of one request, median.", func(c *speedmatrix.Cell) *float64 { return c.PerRequestTokensPerSecond }},
	{"prompt_tokens_per_second", "Prompt tokens per second of a prefill cell.", func(c *speedmatrix.Cell) *float64 { return c.PromptTokensPerSecond }},
	{"ttft_seconds", "Time to first token, median.", func(c *speedmatrix.Cell) *float64 { return seconds(c.TTFT) }},
	{"time_between_tokens_seconds", "Time between tokens, median.", func(c *speedmatrix.Cell) *float64 { return seconds(c.TimeBetweenTokens) }},
	{"energy_per_output_token_joules", "Energy of the server's GPUs for one output token of a decode cell.", func(c *speedmatrix.Cell) *float64 { return c.EnergyPerOutputToken }},
	{"energy_per_prompt_token_joules", "Energy of the server's GPUs for one prompt token of a prefill cell.", func(c *speedmatrix.Cell) *float64 { return c.EnergyPerPromptToken }},
}

func seconds(d *speedmatrix.Distribution) *float64 {
	v := median(d)
	if v == nil {
		return nil
	}
	return new(*v / 1000)
}

// OpenMetrics writes gauges with the labels of the run and the cell. Repeats are left out: a label set stands once.
func OpenMetrics(w io.Writer, run *speedmatrix.Run) error {
	out := bufio.NewWriter(w)
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var base strings.Builder
	for _, pair := range [][2]string{{"run", run.ID}, {"model", model(run)}, {"engine", engine(run)}, {"gpu", run.Hardware.Text(speedmatrix.HardwareGPU)}, {"method", run.Method.Name}, {"origin", string(run.Origin)}} {
		_, _ = fmt.Fprintf(&base, `%s="%s",`, pair[0], escape.Replace(pair[1]))
	}
	for _, m := range metrics {
		name := "speedmatrix_" + m.name
		of := name[strings.LastIndexByte(name, '_')+1:]
		unitLine := ""
		if of == "seconds" || of == "joules" {
			unitLine = fmt.Sprintf("# UNIT %s %s\n", name, of)
		}
		_, _ = fmt.Fprintf(out, "# TYPE %s gauge\n%s# HELP %s %s\n", name, unitLine, name, m.help)
		measured(run, func(c *speedmatrix.Cell, repeat int) {
			if v := m.value(c); v != nil && repeat == 1 {
				_, _ = fmt.Fprintf(out, "%s{%sphase=\"%s\",context=\"%d\",concurrency=\"%d\",status=\"%s\"} %s\n", name, base.String(), c.Phase, c.Context, c.Concurrency, escape.Replace(string(c.Status)), raw(*v))
			}
		})
	}
	_, _ = fmt.Fprintln(out, "# EOF")
	return out.Flush()
}

// LocalMaxxing writes the payload of one decode cell for that site: key names it, "" is the one request at the
// shortest context that shows a speed. Names are those of the site's documentation; what the run does not know is
// left out, so its form may ask for it.
func LocalMaxxing(w io.Writer, run *speedmatrix.Run, key string) error {
	c, err := chosen(run, key)
	if err != nil {
		return err
	}
	row := map[string]any{"hfId": model(run), "engineName": strings.ToLower(run.Engine.Text(speedmatrix.EngineName)), "tokSOut": *c.TotalTokensPerSecond}
	put := func(into map[string]any, name string, value any) {
		switch v := value.(type) {
		case string:
			if v == "" {
				return
			}
		case *float64:
			if v == nil {
				return
			}
			value = *v
		}
		into[name] = value
	}
	put(row, "modelRevision", run.Model.Text(speedmatrix.ModelRevision))
	put(row, "quantization", run.Model.Text(speedmatrix.ModelQuantization))
	put(row, "engineVersion", run.Engine.Text(speedmatrix.EngineVersion))
	put(row, "engineRepository", run.Engine.Text(speedmatrix.EngineRepository))
	put(row, "engineBuild", run.Engine.Text(speedmatrix.EngineBuild))
	put(row, "backend", run.Engine.Text(speedmatrix.EngineBackend))
	put(row, "ttftMs", median(c.TTFT))
	put(row, "promptTokens", c.PromptTokens)
	put(row, "outputTokens", c.OutputTokens)
	if p := run.FindCell(speedmatrix.PhasePrefill, c.Context, 1); p != nil && p.Status.ShowsSpeed() {
		put(row, "tokSPrefill", p.PromptTokensPerSecond)
	}
	flags := map[string]any{"concurrency": c.Concurrency}
	if run.LaunchCommand != nil {
		put(flags, "commandSnippet", fmt.Sprint(run.LaunchCommand.Value))
	}
	row["engineFlags"] = flags
	row["hardware"] = localMaxxingHardware(run, put)
	row["notes"] = fmt.Sprintf("%s, %s at once, context %s, by %s", run.Method.Name, requests(c.Concurrency), c.ContextLabel, run.Tool.Name)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(row)
}

// localMaxxingHardware is the hardware by that site's names.
func localMaxxingHardware(run *speedmatrix.Run, put func(into map[string]any, name string, value any)) map[string]any {
	hardware := map[string]any{}
	put(hardware, "hwClass", map[string]string{"Discrete GPU": "DISCRETE_GPU", "Unified memory": "UNIFIED", "CPU only": "CPU_ONLY"}[run.Hardware.Text(speedmatrix.HardwareType)])
	for name, key := range map[string]string{"vramGb": speedmatrix.HardwareVRAM, "ramGb": speedmatrix.HardwareRAM} {
		if size, ok := strings.CutSuffix(run.Hardware.Text(key), " GB"); ok {
			if v, err := strconv.ParseFloat(size, 64); err == nil {
				hardware[name] = v
			}
		}
	}
	put(hardware, "gpuName", run.Hardware.Text(speedmatrix.HardwareGPU))
	if n, ok := run.Hardware.Int(speedmatrix.HardwareGPUCount); ok {
		hardware["gpuCount"] = n
	}
	put(hardware, "cpu", run.Hardware.Text(speedmatrix.HardwareCPU))
	put(hardware, "os", run.Hardware.Text(speedmatrix.HardwareOS))
	return hardware
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return unit.Count(n) + " requests"
}

// chosen is the decode cell of that key.
func chosen(run *speedmatrix.Run, key string) (*speedmatrix.Cell, error) {
	var best *speedmatrix.Cell
	var keys []string
	measured(run, func(c *speedmatrix.Cell, repeat int) {
		if c.Phase != speedmatrix.PhaseDecode || repeat > 1 {
			return
		}
		keys = append(keys, c.Key())
		fits := c.Key() == key || key == "" && (best == nil || c.Concurrency < best.Concurrency || c.Concurrency == best.Concurrency && c.Context < best.Context)
		if fits {
			best = c
		}
	})
	if best != nil {
		return best, nil
	}
	what, next := "the run has no decode cell with a speed", "Export another run."
	if key != "" && len(keys) > 0 {
		what, next = fmt.Sprintf("the run has no decode cell %q with a speed", key), "It has: "+strings.Join(keys, ", ")+"."
		if near := unit.Nearest(key, keys); near != "" {
			next = "Did you mean " + near + "? " + next
		}
	}
	return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: what, Next: next}
}
