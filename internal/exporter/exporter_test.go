package exporter_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/exporter"
	"speedmatrix/internal/metricstext"
	"speedmatrix/internal/runfile"
)

// example is a published run.
func example(t *testing.T) *speedmatrix.Run {
	t.Helper()
	data, err := os.ReadFile("../../examples/rtx3090-qwen3-coder-30b-a3b-awq/run.json")
	if err != nil {
		t.Fatal(err)
	}
	run, err := runfile.DecodeStrict(data)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// shown counts the cells of a phase that show a speed.
func shown(run *speedmatrix.Run, phase speedmatrix.Phase) (n int) {
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Phase == phase && c.Status.ShowsSpeed() {
			n++
		}
	}
	return n
}

func TestTheTableHasALineForEachCellThatShowsASpeed(t *testing.T) {
	run := example(t)
	run.Cells[0].Interval95 = &speedmatrix.Interval{Low: 3500, High: 3550}
	run.Model.Set(speedmatrix.ModelName, "a|b\nc", speedmatrix.SourceUser)
	var out strings.Builder
	if err := exporter.LlamaBench(&out, run); err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| a/b c \| AWQ 4-bit \| vllm 0\.32\.0 \| \d+ \| (pp\d+|tg @ d\d+) \| [\d.]+( ± [\d.]+)? \|$`)
	if got, want := len(row.FindAllString(out.String(), -1)), shown(run, speedmatrix.PhasePrefill)+shown(run, speedmatrix.PhaseDecode); got != want {
		t.Errorf("%d rows, want %d:\n%s", got, want, out.String())
	}
	if !strings.Contains(out.String(), "| 1 | pp8192 | 3531.00 ± 25.00 |") {
		t.Errorf("no interval behind the speed:\n%s", out.String())
	}
}

func TestBenchstatLinesAreGosFormatWithRepeats(t *testing.T) {
	run := example(t)
	first := *run.FindCell(speedmatrix.PhaseDecode, 0, 1)
	first.TotalTokensPerSecond = new(121.0)
	run.Repeats = []speedmatrix.Repeat{{Index: 2, Cells: []speedmatrix.Cell{first}}}
	var out strings.Builder
	if err := exporter.Benchstat(&out, run); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^Benchmark[A-Z]\w*(/\w+=[^\s/]+)+ 1( [\d.e+]+ [a-z/-]+)+$`)
	if got, want := len(line.FindAllString(out.String(), -1)), shown(run, speedmatrix.PhasePrefill)+shown(run, speedmatrix.PhaseDecode)+1; got != want {
		t.Errorf("%d lines, want %d:\n%s", got, want, out.String())
	}
	for _, want := range []string{"BenchmarkDecode/context=0/requests=1 1 122.5 tok/s", "BenchmarkDecode/context=0/requests=1 1 121 tok/s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestOpenMetricsAreReadBack(t *testing.T) {
	run := example(t)
	run.Model.Set(speedmatrix.ModelName, `a"b\c`+"\nd", speedmatrix.SourceUser)
	run.Cells[0].EnergyPerPromptToken = new(0.25)
	var out strings.Builder
	if err := exporter.OpenMetrics(&out, run); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\n# EOF\n") {
		t.Error("no end")
	}
	text, err := metricstext.Parse(strings.NewReader(strings.TrimSuffix(out.String(), "# EOF\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Phase == speedmatrix.PhaseDecode && c.Status.ShowsSpeed() {
			want += *c.TotalTokensPerSecond
		}
	}
	if sum, ok := text.Sum("speedmatrix_total_tokens_per_second"); !ok || math.Abs(sum-want) > 1e-9 {
		t.Errorf("the totals sum to %v, want %v", sum, want)
	}
	if sum, ok := text.Sum("speedmatrix_energy_per_prompt_token_joules"); !ok || sum != 0.25 || !strings.Contains(out.String(), "# UNIT speedmatrix_energy_per_prompt_token_joules joules\n") {
		t.Errorf("the energy is %v", sum)
	}
	if name, ok := text.Label("speedmatrix_ttft_seconds", "model"); !ok || name != `a"b\c`+"\nd" {
		t.Errorf("the model is %q", name)
	}
}

func TestThePayloadIsOfTheChosenCell(t *testing.T) {
	run := example(t)
	read := func(key string) map[string]any {
		var out strings.Builder
		if err := exporter.LocalMaxxing(&out, run, key); err != nil {
			t.Fatal(err)
		}
		var row map[string]any
		if err := json.Unmarshal([]byte(out.String()), &row); err != nil {
			t.Fatal(err)
		}
		return row
	}
	if row := read(""); row["tokSOut"] != 122.5 || row["ttftMs"] != 30.0 || row["hardware"].(map[string]any)["vramGb"] != 24.0 || row["hardware"].(map[string]any)["hwClass"] != "DISCRETE_GPU" {
		t.Errorf("%v", row)
	}
	if row := read("decode-16k-x4"); row["tokSOut"] != 194.6 || row["tokSPrefill"] != 2227.0 || row["engineFlags"].(map[string]any)["concurrency"] != 4.0 {
		t.Errorf("%v", row)
	}
	err := exporter.LocalMaxxing(&strings.Builder{}, run, "decode-16k-x3")
	if e, ok := errors.AsType[*speedmatrix.Error](err); !ok || !strings.Contains(e.Next, "Did you mean decode-16k-x4?") && !strings.Contains(e.Next, "Did you mean decode-16k-x1?") {
		t.Errorf("an unknown cell: %v", err)
	}
}
