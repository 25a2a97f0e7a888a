package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
	"speedmatrix/internal/golden"
	"speedmatrix/internal/importer"
	"speedmatrix/internal/runfile"
)

// seed is a published page: its text, its tables, and the example run that they become.
type seed struct {
	key, text, example string
	// costs is what a token costs by the model's configuration.
	costs map[string]float64
}

var seeds = []seed{
	{"rtx3090_qwen3-coder-30b-a3b_awq4", "qwen3-coder-30b-a3b-awq.rtx3090.txt", "rtx3090-qwen3-coder-30b-a3b-awq",
		map[string]float64{speedmatrix.ModelReadBytes: 2.20e9, speedmatrix.ModelKVBytes: 26112, speedmatrix.ModelFLOP: 5.46e9, speedmatrix.ModelPairFLOP: 786432}},
	{"rtx3090_agents-a1-4b_fp8", "agents-a1-4b-fp8.rtx3090.txt", "rtx3090-agents-a1-4b-fp8",
		map[string]float64{speedmatrix.ModelReadBytes: 4.84e9, speedmatrix.ModelKVBytes: 32768, speedmatrix.ModelFLOP: 7.14e9, speedmatrix.ModelPairFLOP: 131072}},
}

// seedTable is the tables of a page.
type seedTable struct {
	Title         string            `json:"title"`
	Meta          map[string]string `json:"meta"`
	LaunchCommand string            `json:"launch_command"`
	MaxLength     float64           `json:"max_model_len"`
	MaxRunning    float64           `json:"max_num_seqs"`
	Prefill       []seedCell        `json:"prefill"`
	Decode        []seedCell        `json:"decode"`
	Contexts      []int             `json:"contexts"`
	Concurrencies []int             `json:"concurrencies"`
}

type seedCell struct {
	Context      int      `json:"context"`
	ContextLabel string   `json:"context_label"`
	Concurrency  int      `json:"concurrency"`
	Status       string   `json:"status"`
	Total        *float64 `json:"total_tok_s"`
	PerRequest   *float64 `json:"per_request_tok_s"`
	TTFT         *float64 `json:"ttft_ms"`
	Between      *float64 `json:"itl_ms"`
	Active       *float64 `json:"avg_active"`
	Completed    *float64 `json:"completed"`
	Output       *float64 `json:"output_tokens"`
	Seconds      *float64 `json:"measured_s"`
}

func readSeed(t testing.TB, s seed) (*speedmatrix.Run, string) {
	t.Helper()
	data, err := os.ReadFile("testdata/seeds/seed-tables.json")
	if err != nil {
		t.Fatal(err)
	}
	var tables map[string]seedTable
	if err := json.Unmarshal(data, &tables); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/seeds/" + s.text)
	if err != nil {
		t.Fatal(err)
	}
	return importSeed(s, tables[s.key]), string(text)
}

// importSeed makes a run of a page's tables: what the publisher stated has the source user.
func importSeed(s seed, table seedTable) *speedmatrix.Run {
	name, version, _ := strings.Cut(table.Meta["Benchmark tool"], " v")
	stated := func(pairs ...string) speedmatrix.Facts {
		facts := speedmatrix.Facts{}
		for i := 0; i < len(pairs); i += 2 {
			facts[pairs[i]] = user(table.Meta[pairs[i+1]])
		}
		return facts
	}
	model := stated(speedmatrix.ModelQuantization, "Quantization", speedmatrix.ModelRevision, "Revision")
	model[speedmatrix.ModelName] = user(strings.Split(table.Title, " on ")[0])
	model[speedmatrix.ModelServedName] = from("benchmark tool", table.Meta["Served model"])
	model[speedmatrix.ModelMaxLength] = from("launch command", table.MaxLength)
	for key, cost := range s.costs {
		model[key] = from("model configuration", cost)
	}
	engine := stated(speedmatrix.EngineName, "Engine", speedmatrix.EngineVersion, "Version", speedmatrix.EngineBackend, "Backend",
		speedmatrix.EngineRepository, "Repository", speedmatrix.EngineBuild, "Build")
	engine[speedmatrix.EngineRunningLimit] = from("launch command", table.MaxRunning)
	command := user(table.LaunchCommand)
	run := &speedmatrix.Run{
		Schema: speedmatrix.Schema, ID: "imported-" + s.example, Origin: speedmatrix.OriginImported,
		Tool: speedmatrix.Tool{Name: name, Version: version},
		Method: speedmatrix.Method{Name: speedmatrix.MethodCompat, DurationSeconds: 30, MinWindowSeconds: 30, MaxExtension: 1,
			MaxOutput: 8192, Prompts: "shared", KVPlan: "reserve", Repeat: 1},
		Model: model, Engine: engine, LaunchCommand: &command,
		Hardware: stated(speedmatrix.HardwareType, "Type", speedmatrix.HardwareGPU, "GPU", speedmatrix.HardwareVRAM, "VRAM",
			speedmatrix.HardwareCPU, "CPU", speedmatrix.HardwareRAM, "RAM", speedmatrix.HardwareOS, "OS"),
		Plan: speedmatrix.Plan{Contexts: table.Contexts, Concurrency: table.Concurrencies},
	}
	for _, c := range table.Prefill {
		run.Plan.Prefill = append(run.Plan.Prefill, c.Context)
		cell := c.cell(speedmatrix.PhasePrefill)
		cell.PromptTokensPerSecond, cell.TTFTKind = c.Total, speedmatrix.TTFTCold
		run.Cells = append(run.Cells, cell)
	}
	for _, c := range table.Decode {
		cell := c.cell(speedmatrix.PhaseDecode)
		cell.TotalTokensPerSecond = c.Total
		if c.TTFT != nil {
			cell.TTFTKind = speedmatrix.TTFTWarm
		}
		run.Cells = append(run.Cells, cell)
	}
	return run
}

// sourceReasons is what a page says of a status.
var sourceReasons = map[speedmatrix.Status]string{
	speedmatrix.StatusOverCapacity:   "by the source: this many requests at this context would exceed the server's KV cache",
	speedmatrix.StatusLooped:         "by the source: the model kept repeating the same text",
	speedmatrix.StatusRequestsQueued: "by the source: the server could not run all requests at once",
}

func (c seedCell) cell(phase speedmatrix.Phase) speedmatrix.Cell {
	cell := speedmatrix.Cell{
		Phase: phase, Context: c.Context, ContextLabel: c.ContextLabel, Concurrency: c.Concurrency, Status: speedmatrix.Status(c.Status),
		PerRequestTokensPerSecond: c.PerRequest, TTFT: single(c.TTFT, max(1, c.Concurrency), "requests"),
		TimeBetweenTokens: single(c.Between, c.Concurrency, "requests"), ActiveRequestsMean: c.Active, OutputTokens: c.Output, WindowSeconds: c.Seconds,
	}
	cell.Reason = sourceReasons[cell.Status]
	if c.Completed != nil {
		cell.CompletedRequests = new(int(*c.Completed))
	}
	return cell
}

// single is a distribution of which only the median is known.
func single(v *float64, n int, of string) *speedmatrix.Distribution {
	if v == nil {
		return nil
	}
	return &speedmatrix.Distribution{P50: v, N: n, Of: of}
}

// squeeze takes the spaces out: how cells are glued is not what a text says.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

func TestTheTextOfASeedIsThePublishedText(t *testing.T) {
	for _, s := range seeds {
		run, want := readSeed(t, s)
		got := string(render(t, run, Text))
		if squeeze(got) != squeeze(want) {
			t.Errorf("%s: %s", s.key, golden.Diff([]byte(want), []byte(got)))
		}
		golden.Check(t, "seeds/"+s.example+".out.txt", []byte(got))
	}
}

func TestTheExamplesAreTheSeeds(t *testing.T) {
	for _, s := range seeds {
		run, _ := readSeed(t, s)
		var document bytes.Buffer
		if err := runfile.Encode(&document, run); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "../../../examples/"+s.example+"/run.json", document.Bytes())
		back, err := runfile.DecodeStrict(document.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		page := render(t, back, htmlPage)
		if !bytes.Equal(page, render(t, run, htmlPage)) {
			t.Error("the page of the decoded document differs")
		}
		golden.Check(t, "../../../examples/"+s.example+"/report.html", page)
	}
}

func TestTheFindingsOfTheSeeds(t *testing.T) {
	want := map[string][]string{
		"rtx3090-qwen3-coder-30b-a3b-awq": {"status_contradicted", "would_fit", "looped_gap", "different_spans", "shared_prompt", "single_samples"},
		"rtx3090-agents-a1-4b-fp8":        {"would_fit", "beyond_hardware", "shared_prompt", "single_samples", "labels"},
	}
	for _, s := range seeds {
		run, _ := readSeed(t, s)
		var codes []string
		for _, f := range Build(run).Findings {
			codes = append(codes, f.Code)
			t.Logf("%s: %s", f.Kind, f.Text)
		}
		if !slices.Equal(codes, want[s.example]) {
			t.Errorf("%s: findings %v, want %v", s.example, codes, want[s.example])
		}
	}
}

func htmlPage(w io.Writer, d *Document) error { return HTML(w, d, HTMLOptions{}) }

func TestTheTextOfASeedImportedIsThePublishedTextAgain(t *testing.T) {
	for _, s := range seeds {
		want, text := readSeed(t, s)
		for _, form := range []string{text, string(render(t, want, Text))} {
			run, err := importer.Import([]importer.File{{Name: s.text, Data: []byte(form)}}, importer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(render(t, run, Text)); squeeze(got) != squeeze(text) {
				t.Errorf("%s: %s", s.key, golden.Diff([]byte(text), []byte(got)))
			}
			for i := range want.Cells {
				w, got := &want.Cells[i], run.FindCell(want.Cells[i].Phase, want.Cells[i].Context, want.Cells[i].Concurrency)
				if difference := cmp.Diff(w, got); difference != "" {
					t.Errorf("%s %s: %s", s.key, w.Key(), difference)
				}
			}
		}
	}
}
