package importer_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/importer"
	"speedmatrix/internal/runfile"
)

// sample reads files that a tool wrote.
func sample(t testing.TB, names ...string) []importer.File {
	t.Helper()
	var files []importer.File
	for _, name := range names {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, importer.File{Name: name, Data: data})
	}
	return files
}

// imported imports them and checks that the document is a good one.
func imported(t testing.TB, o importer.Options, files ...importer.File) *speedmatrix.Run {
	t.Helper()
	run, err := importer.Import(files, o)
	if err != nil {
		t.Fatal(err)
	}
	var document strings.Builder
	if err := runfile.Encode(&document, run); err != nil {
		t.Fatal(err)
	}
	if _, err := runfile.DecodeStrict([]byte(document.String())); err != nil {
		t.Fatalf("the document is not of its schema: %v", err)
	}
	if run.Origin != speedmatrix.OriginImported || run.Tool.Name == "" || !strings.HasPrefix(run.ID, "imported-") {
		t.Errorf("origin %q, tool %q, id %q", run.Origin, run.Tool.Name, run.ID)
	}
	return run
}

// raw goes down into a file by names and positions.
func raw(t testing.TB, f importer.File, path ...any) float64 {
	t.Helper()
	var v any
	if err := json.Unmarshal(f.Data, &v); err != nil {
		t.Fatal(err)
	}
	for _, step := range path {
		switch s := step.(type) {
		case string:
			v = v.(map[string]any)[s]
		case int:
			v = v.([]any)[s]
		}
	}
	return v.(float64)
}

// figure names a number of a cell, and where the file has it.
type figure struct {
	name string
	of   func(c *speedmatrix.Cell) *float64
	// factor times the number of the file gives the cell's.
	factor float64
	path   []any
}

var (
	total   = func(c *speedmatrix.Cell) *float64 { return c.TotalTokensPerSecond }
	each    = func(c *speedmatrix.Cell) *float64 { return c.PerRequestTokensPerSecond }
	ttft    = func(c *speedmatrix.Cell) *float64 { return c.TTFT.P50 }
	ttft99  = func(c *speedmatrix.Cell) *float64 { return c.TTFT.P99 }
	between = func(c *speedmatrix.Cell) *float64 { return c.TimeBetweenTokens.P50 }
	active  = func(c *speedmatrix.Cell) *float64 { return c.ActiveRequestsMean }
	output  = func(c *speedmatrix.Cell) *float64 { return c.OutputTokens }
	seconds = func(c *speedmatrix.Cell) *float64 { return c.WindowSeconds }
	prefill = func(c *speedmatrix.Cell) *float64 { return c.PromptTokensPerSecond }
	prompt  = func(c *speedmatrix.Cell) *float64 { return c.PromptTokens }
)

func TestTheSourcesOwnNumbersComeBackExactly(t *testing.T) {
	tests := []struct {
		files       []string
		options     importer.Options
		tool        string
		phase       speedmatrix.Phase
		context, at int
		figures     []figure
	}{
		{files: []string{"llm-inference-bench-0.4.18.vllm.json"}, tool: "llm-inference-bench 0.4.18", phase: speedmatrix.PhaseDecode, context: 1024, at: 1, figures: []figure{
			{"total", total, 1, []any{"results", 1, "aggregate_tps"}}, {"per request", each, 1, []any{"results", 1, "output_tps_per_user_p50"}},
			{"TTFT", ttft, 1000, []any{"results", 1, "ttft_p50"}}, {"between", between, 1000, []any{"results", 1, "inter_token_latency_p50"}},
			{"active", active, 1, []any{"results", 1, "avg_running_reqs"}}, {"output", output, 1, []any{"results", 1, "total_tokens"}},
			{"seconds", seconds, 1, []any{"results", 1, "measurement_seconds"}}}},
		{files: []string{"llm-inference-bench-0.4.18.vllm.json"}, tool: "llm-inference-bench 0.4.18", phase: speedmatrix.PhasePrefill, context: 4096, at: 1, figures: []figure{
			{"prefill", prefill, 1, []any{"prefill", "4096", "tok_per_sec"}}, {"TTFT", ttft, 1000, []any{"prefill", "4096", "ttft_seconds"}},
			{"prompt", prompt, 1, []any{"prefill", "4096", "prompt_tokens"}}}},
		{files: []string{"vllm-bench-serve-0.32.0.json"}, tool: "vllm bench serve ", phase: speedmatrix.PhaseDecode, context: 286, at: 4, figures: []figure{
			{"total", total, 1, []any{"output_throughput"}}, {"TTFT", ttft, 1, []any{"median_ttft_ms"}}, {"TTFT p99", ttft99, 1, []any{"p99_ttft_ms"}},
			{"between", between, 1, []any{"median_tpot_ms"}}, {"output", output, 1, []any{"total_output_tokens"}}, {"seconds", seconds, 1, []any{"duration"}}}},
		{files: []string{"guidellm-0.8.1.json"}, tool: "guidellm 0.8.1", phase: speedmatrix.PhaseDecode, context: 286, at: 4, figures: []figure{
			{"total", total, 1, []any{"benchmarks", 0, "metrics", "output_tokens_per_second", "successful", "mean"}},
			{"TTFT", ttft, 1, []any{"benchmarks", 0, "metrics", "time_to_first_token_ms", "successful", "median"}},
			{"between", between, 1, []any{"benchmarks", 0, "metrics", "inter_token_latency_ms", "successful", "median"}},
			{"active", active, 1, []any{"benchmarks", 0, "metrics", "request_concurrency", "successful", "mean"}},
			{"seconds", seconds, 1, []any{"benchmarks", 0, "duration"}}}},
		{files: []string{"aiperf-0.13.0.profile_export_aiperf.json"}, tool: "AIPerf 0.13.0", phase: speedmatrix.PhaseDecode, context: 286, at: 4, figures: []figure{
			{"total", total, 1, []any{"output_token_throughput", "avg"}}, {"per request", each, 1, []any{"output_token_throughput_per_user", "p50"}},
			{"TTFT", ttft, 1, []any{"time_to_first_token", "p50"}}, {"TTFT p99", ttft99, 1, []any{"time_to_first_token", "p99"}},
			{"between", between, 1, []any{"inter_token_latency", "p50"}}, {"active", active, 1, []any{"effective_concurrency", "avg"}},
			{"output", output, 1, []any{"total_osl", "avg"}}, {"seconds", seconds, 1, []any{"benchmark_duration", "avg"}}}},
		{files: []string{"llama-benchy-0.4.0.json"}, tool: "llama-benchy 0.4.0", phase: speedmatrix.PhaseDecode, context: 512, at: 2, figures: []figure{
			{"total", total, 1, []any{"benchmarks", 1, "tg_throughput", "mean"}}, {"per request", each, 1, []any{"benchmarks", 1, "tg_req_throughput", "mean"}}}},
		{files: []string{"inference-perf-0.7.0.summary_lifecycle_metrics.json"}, options: importer.Options{Concurrency: 4}, tool: "inference-perf ", phase: speedmatrix.PhaseDecode, context: 256, at: 4, figures: []figure{
			{"total", total, 1, []any{"successes", "throughput", "output_tokens_per_sec"}}, {"TTFT", ttft, 1000, []any{"successes", "latency", "time_to_first_token", "median"}},
			{"between", between, 1000, []any{"successes", "latency", "time_per_output_token", "median"}}, {"output", output, 1, []any{"successes", "output_tokens", "total"}},
			{"seconds", seconds, 1, []any{"benchmark_time_seconds"}}}},
		{files: []string{"evalscope-1.14.1.benchmark_summary.json", "evalscope-1.14.1.benchmark_percentile.json"}, tool: "evalscope ", phase: speedmatrix.PhaseDecode, context: 256, at: 4, figures: []figure{
			{"total", total, 1, []any{"Output Throughput (tok/s)"}}, {"seconds", seconds, 1, []any{"Test Duration (s)"}},
			{"TTFT mean", func(c *speedmatrix.Cell) *float64 { return c.TTFT.Mean }, 1, []any{"Avg TTFT (ms)"}}}},
		{files: []string{"genai-bench-0.0.5.json"}, tool: "genai-bench ", phase: speedmatrix.PhaseDecode, context: 286, at: 4, figures: []figure{
			{"total", total, 1, []any{"aggregated_metrics", "mean_output_throughput_tokens_per_s"}}, {"TTFT", ttft, 1000, []any{"aggregated_metrics", "stats", "ttft", "p50"}},
			{"between", between, 1000, []any{"aggregated_metrics", "stats", "tpot", "p50"}}, {"seconds", seconds, 1, []any{"aggregated_metrics", "run_duration"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.files[0]+" "+string(tt.phase), func(t *testing.T) {
			files := sample(t, tt.files...)
			run := imported(t, tt.options, files...)
			if got := run.Tool.Name + " " + run.Tool.Version; got != tt.tool {
				t.Errorf("tool %q, want %q", got, tt.tool)
			}
			c := run.FindCell(tt.phase, tt.context, tt.at)
			if c == nil {
				var keys []string
				for i := range run.Cells {
					keys = append(keys, run.Cells[i].Key())
				}
				t.Fatalf("there is no such cell; there are %v", keys)
			}
			for _, f := range tt.figures {
				want := raw(t, files[0], f.path...) * f.factor
				if got := f.of(c); got == nil || *got != want {
					t.Errorf("%s is %v, the file says %v", f.name, got, want)
				}
			}
		})
	}
}

func TestThePercentilesOfEvalscopeMayComeFirst(t *testing.T) {
	files := sample(t, "evalscope-1.14.1.benchmark_percentile.json", "evalscope-1.14.1.benchmark_summary.json")
	a, b := imported(t, importer.Options{}, files...), imported(t, importer.Options{}, files[1], files[0])
	for _, run := range []*speedmatrix.Run{a, b} {
		if got := run.Cells[0].TTFT.P50; got == nil || *got != 2719.8521 {
			t.Errorf("TTFT p50 %v", got)
		}
		if got := run.Cells[0].Warnings; len(got) != 1 || !strings.Contains(got[0].Message, "2 of 12 requests failed") {
			t.Errorf("warnings %v", got)
		}
	}
}

func TestATotalThatItsOwnGapsForbidIsSaidSo(t *testing.T) {
	run := imported(t, importer.Options{}, sample(t, "llm-inference-bench-0.4.18.llamacpp.json")...)
	doubted := 0
	for i := range run.Cells {
		for _, w := range run.Cells[i].Warnings {
			if w.Code == "imported contradiction" {
				doubted++
				if run.Cells[i].TokenSource != "" {
					t.Errorf("%s keeps the token source %q", run.Cells[i].Key(), run.Cells[i].TokenSource)
				}
			}
		}
	}
	if doubted == 0 {
		t.Error("no cell is doubted although usage came only at the end of requests")
	}
	run = imported(t, importer.Options{}, sample(t, "llm-inference-bench-0.4.18.vllm.json")...)
	for i := range run.Cells {
		if len(run.Cells[i].Warnings) > 0 {
			t.Errorf("%s is doubted: %v", run.Cells[i].Key(), run.Cells[i].Warnings)
		}
	}
}

const llamaJSON = `[{"build_commit": "3f4c2aa", "build_number": 6123, "cpu_info": "AMD Ryzen 9 7900X", "gpu_info": "NVIDIA GeForce RTX 3090", "backends": "CUDA",
 "model_filename": "models/qwen3-4b-q4_k_m.gguf", "model_type": "qwen3 4B Q4_K - Medium", "model_size": 2497280256, "model_n_params": 4022468096, "type_k": "f16",
 "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 130000000, "avg_ts": 3938.25, "stddev_ts": 12.5, "samples_ts": [3930.1, 3946.4]},
 {"build_commit": "3f4c2aa", "build_number": 6123, "model_filename": "models/qwen3-4b-q4_k_m.gguf", "model_type": "qwen3 4B Q4_K - Medium", "n_prompt": 0, "n_gen": 128, "n_depth": 4096,
 "avg_ns": 1000000000, "avg_ts": 121.375, "stddev_ts": 0.5, "samples_ts": [121.0, 121.75]},
 {"build_commit": "3f4c2aa", "build_number": 6123, "model_filename": "models/qwen3-4b-q4_k_m.gguf", "model_type": "qwen3 4B Q4_K - Medium", "n_prompt": 512, "n_gen": 0, "n_depth": 4096, "avg_ts": 3500.5}]`

const llamaTable = `| model                          |       size |     params | backend    | ngl |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | --------------: | -------------------: |
| qwen3 4B Q4_K - Medium         |   2.32 GiB |     4.02 B | CUDA       |  99 |           pp512 |      3938.25 ± 12.50 |
| qwen3 4B Q4_K - Medium         |   2.32 GiB |     4.02 B | CUDA       |  99 |   tg128 @ d4096 |        121.38 ± 0.50 |

build: 3f4c2aa (6123)
`

const llamaCSV = `build_commit,build_number,cpu_info,gpu_info,backends,model_filename,model_type,n_prompt,n_gen,n_depth,avg_ns,stddev_ns,avg_ts,stddev_ts
"3f4c2aa","6123","AMD Ryzen 9 7900X","NVIDIA GeForce RTX 3090","CUDA","models/qwen3-4b-q4_k_m.gguf","qwen3 4B Q4_K - Medium","512","0","0","130000000","1","3938.25","12.5"
"3f4c2aa","6123","AMD Ryzen 9 7900X","NVIDIA GeForce RTX 3090","CUDA","models/qwen3-4b-q4_k_m.gguf","qwen3 4B Q4_K - Medium","0","128","4096","1000000000","1","121.375","0.5"
`

func TestLlamaBenchInItsThreeForms(t *testing.T) {
	for name, tt := range map[string]struct {
		data string
		tg   float64
	}{"bench.json": {llamaJSON, 121.375}, "bench.md": {llamaTable, 121.38}, "bench.csv": {llamaCSV, 121.375}} {
		run := imported(t, importer.Options{}, importer.File{Name: name, Data: []byte(tt.data)})
		pp, tg := run.FindCell(speedmatrix.PhasePrefill, 512, 1), run.FindCell(speedmatrix.PhaseDecode, 4096, 1)
		if pp == nil || tg == nil || len(run.Cells) != 2 {
			t.Fatalf("%s: %d cells", name, len(run.Cells))
		}
		if *pp.PromptTokensPerSecond != 3938.25 || *tg.TotalTokensPerSecond != tt.tg || pp.TTFT != nil {
			t.Errorf("%s: pp %v tg %v TTFT %v", name, *pp.PromptTokensPerSecond, *tg.TotalTokensPerSecond, pp.TTFT)
		}
		if run.Engine.Text(speedmatrix.EngineBuild) != "3f4c2aa" || run.Tool.Version != "6123" {
			t.Errorf("%s: build %q, version %q", name, run.Engine.Text(speedmatrix.EngineBuild), run.Tool.Version)
		}
	}
}

func TestSeveralFilesAreOneMatrixAndTheSameCellARepeat(t *testing.T) {
	base := string(sample(t, "vllm-bench-serve-0.32.0.json")[0].Data)
	file := func(n string) importer.File {
		return importer.File{Name: n + ".json", Data: []byte(strings.Replace(base, `"max_concurrency": 4`, `"max_concurrency": `+n, 1))}
	}
	run := imported(t, importer.Options{}, file("8"), file("4"), file("8"))
	if len(run.Cells) != 2 || run.Cells[0].Concurrency != 4 || len(run.Repeats) != 1 || run.Repeats[0].Cells[0].Concurrency != 8 || run.Method.Repeat != 2 {
		t.Errorf("%d cells, %d repeats", len(run.Cells), len(run.Repeats))
	}
	sweep := imported(t, importer.Options{}, importer.File{Name: "summary.json", Data: []byte("[" + string(file("8").Data) + "," + string(file("4").Data) + "]")})
	if len(sweep.Cells) != 2 {
		t.Errorf("the sweep has %d cells", len(sweep.Cells))
	}
	other := importer.File{Name: "other.json", Data: []byte(strings.Replace(base, `"model_id": "smollm2"`, `"model_id": "other"`, 1))}
	if _, err := importer.Import([]importer.File{file("4"), other}, importer.Options{}); err == nil || !strings.Contains(err.Error(), "other.json") {
		t.Errorf("two models in one run: %v", err)
	}
}

func TestALilBenchDocumentHoldsTheOtherTools(t *testing.T) {
	inner := string(sample(t, "llm-inference-bench-0.4.18.vllm.json")[0].Data)
	run := imported(t, importer.Options{}, importer.File{Name: "lil.json", Data: []byte(
		`{"schema": "lil-bench-result/1", "image": "registry/vllm:1", "results": {"bench": ` + inner + `}, "plan": [{"concurrency": 8, "context_tokens": 131072, "status": "skipped", "reason": "x"}]}`)})
	if run.Engine.Text(speedmatrix.EngineBuild) != "registry/vllm:1" || len(run.Cells) < 5 {
		t.Errorf("build %q, %d cells", run.Engine.Text(speedmatrix.EngineBuild), len(run.Cells))
	}
}

func TestRowsOfLocalMaxxing(t *testing.T) {
	run := imported(t, importer.Options{}, importer.File{Name: "rows.json", Data: []byte(`[{"hfId": "Qwen/Qwen3-4B", "modelRevision": "main", "hardware": {"hwClass": "DISCRETE_GPU", "gpuName": "RTX 3090", "vramGb": 24, "cpu": "AMD"},
 "engineName": "vllm", "engineVersion": "0.32.0", "quantization": "FP8", "tokSOut": 117.25, "tokSPrefill": 10042.5, "ttftMs": 54.5, "promptTokens": 2048, "outputTokens": 256,
 "engineFlags": {"commandSnippet": "vllm serve Qwen/Qwen3-4B"}}]`)})
	c, p := run.FindCell(speedmatrix.PhaseDecode, 2048, 1), run.FindCell(speedmatrix.PhasePrefill, 2048, 1)
	if c == nil || p == nil || *c.TotalTokensPerSecond != 117.25 || *c.TTFT.P50 != 54.5 || *p.PromptTokensPerSecond != 10042.5 {
		t.Fatalf("cells %+v", run.Cells)
	}
	if run.Hardware.Text(speedmatrix.HardwareVRAM) != "24 GB" || run.LaunchCommand.Value != "vllm serve Qwen/Qwen3-4B" {
		t.Errorf("hardware %v, command %v", run.Hardware, run.LaunchCommand)
	}
}

func TestABadFileGetsASentence(t *testing.T) {
	whole := sample(t, "vllm-bench-serve-0.32.0.json")[0].Data
	tests := []struct{ name, data, want string }{
		{"empty", "  \n", "the file is empty"},
		{"cut off", string(whole[:len(whole)/2]), "it ends in the middle"},
		{"not JSON", "{abc}", "the JSON is broken"},
		{"binary", "\xff\xfe\x00\x01", "not text"},
		{"another tool", `{"hello": 1}`, "no tool known here"},
		{"plain text", "hello", "no tool known here"},
		{"a page without rows", "Speed test matrix\nX on Y\n| Phase | Context | Requests at once | Status |\n", "benchmark tool"},
		{"an open loop", strings.Replace(strings.Replace(string(whole), `"max_concurrency": 4`, `"max_concurrency": null`, 1), `"request_rate": "inf"`, `"request_rate": 5.0`, 1), "no number of simultaneous requests"},
		{"negative speed", strings.Replace(string(whole), `"output_throughput": 118`, `"output_throughput": -118`, 1), "total tok/s"},
		{"zero requests", strings.Replace(string(whole), `"max_concurrency": 4`, `"max_concurrency": 0`, 1), "0 simultaneous requests"},
		{"no results", `{"metadata": {"decode_mode": "duration", "version": "9.9.9"}, "results": []}`, "no measurement"},
		{"a version of the future", `{"metadata": {"decode_mode": "duration", "version": "9.9.9"}, "results": [{"cell": {"C": 1}}]}`, "no context"},
		{"percentiles alone", string(sample(t, "evalscope-1.14.1.benchmark_percentile.json")[0].Data), "without their summary"},
		{"no concurrency", string(sample(t, "inference-perf-0.7.0.summary_lifecycle_metrics.json")[0].Data), "--concurrency"},
	}
	for _, tt := range tests {
		_, err := importer.Import([]importer.File{{Name: "file", Data: []byte(tt.data)}}, importer.Options{})
		e, ok := errors.AsType[*speedmatrix.Error](err)
		if !ok || e.Kind != speedmatrix.KindUsage || !strings.Contains(e.What, tt.want) || e.Next == "" {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// A file that is damaged anywhere is refused or imported, never a crash, and what is imported is a good document.
func TestADamagedFileIsRefusedOrGood(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var whole [][]byte
	for _, e := range entries {
		if !e.IsDir() {
			whole = append(whole, sample(t, e.Name())[0].Data)
		}
	}
	whole = append(whole, []byte(llamaJSON), []byte(llamaTable), []byte(llamaCSV))
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte(nil), rapid.SampledFrom(whole).Draw(t, "file")...)
		for range rapid.IntRange(1, 4).Draw(t, "damages") {
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			replacement := rapid.SampledFrom([]string{"null", "-1", "1e300", "\"x\"", "[]", "{}", "0", "|", ",", ""}).Draw(t, "replacement")
			data = append(append(append([]byte(nil), data[:at]...), replacement...), data[min(at+rapid.IntRange(0, 20).Draw(t, "cut"), len(data)):]...)
			if len(data) == 0 {
				return
			}
		}
		run, err := importer.Import([]importer.File{{Name: "f", Data: data}}, importer.Options{Concurrency: 2})
		if err != nil {
			return
		}
		if err := runfile.Encode(io.Discard, run); err != nil {
			t.Fatal(err)
		}
	})
}
