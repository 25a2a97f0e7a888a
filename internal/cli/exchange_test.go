package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is a tool's result as it lies in a file, and where the file has what a cell says.
type source struct {
	files []string
	args  []string
	// rows is the list of the file's decode cells, nil where the whole file is one; context and at are their place.
	rows        []string
	context, at func(row map[string]any) int
	figures     []figureOf
	// prefill is where the file's prefill cells are, by their context.
	prefill []figureOf
	// computed are the figures that the file says in another form: a mean by a sum, a median by all values.
	computed []string
}

// figureOf is a number of a cell, by its name in run.json, and the file's: its path in the row, and the factor to our unit.
type figureOf struct {
	name   string
	factor float64
	path   []string
}

func same(name string, path ...string) figureOf { return figureOf{name, 1, path} }

func milli(name string, path ...string) figureOf { return figureOf{name, 1000, path} }

// spread is the percentiles of a distribution by their names in the file, "%" for the part that is ours.
func spread(name string, factor float64, parts map[string]string, path ...string) (list []figureOf) {
	for ours, theirs := range parts {
		p := slices.Clone(path)
		p[len(p)-1] = strings.Replace(p[len(p)-1], "%", theirs, 1)
		list = append(list, figureOf{name + "." + ours, factor, p})
	}
	return list
}

// The names of percentiles in the files.
var (
	suffixed = map[string]string{"p50": "p50", "p90": "p90", "p99": "p99", "mean": "avg"}
	averaged = map[string]string{"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "min": "min", "max": "max", "mean": "avg"}
	named    = map[string]string{"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "min": "min", "max": "max", "mean": "mean"}
	medians  = map[string]string{"p50": "median", "p90": "p90", "p95": "p95", "p99": "p99", "min": "min", "max": "max", "mean": "mean"}
)

func whole(path ...string) func(row map[string]any) int {
	return func(row map[string]any) int { return int(down(row, path...).(float64)) }
}

func always(n int) func(map[string]any) int { return func(map[string]any) int { return n } }

// down goes into a JSON value by names and positions.
func down(v any, path ...string) any {
	for _, name := range path {
		if list, ok := v.([]any); ok {
			i, err := strconv.Atoi(name)
			if err != nil {
				return nil
			}
			v = list[i]
			continue
		}
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func sources() []source {
	lil := source{rows: []string{"results"}, context: whole("context_tokens"), at: whole("concurrency"),
		figures: slices.Concat([]figureOf{same("total_tokens_per_second", "aggregate_tps"), same("per_request_tokens_per_second", "output_tps_per_user_p50"),
			same("completed_requests", "completed_request_count"), same("output_tokens", "total_tokens"), same("window_seconds", "measurement_seconds"),
			same("prompt_tokens", "input_seq_len_avg"), same("active_requests_mean", "avg_running_reqs"), same("failed_requests", "num_errors")},
			spread("ttft_ms", 1000, suffixed, "ttft_%"), spread("time_between_tokens_ms", 1000, suffixed, "inter_token_latency_%"),
			spread("event_gap_ms", 1000, suffixed, "chunk_inter_token_latency_%")),
		prefill: []figureOf{same("prompt_tokens_per_second", "tok_per_sec"), milli("ttft_ms.p50", "ttft_seconds"), same("prompt_tokens", "prompt_tokens")}}
	vllm, llama := lil, lil
	vllm.files, llama.files = []string{"llm-inference-bench-0.4.18.vllm.json"}, []string{"llm-inference-bench-0.4.18.llamacpp.json"}
	return append([]source{vllm, llama}, furtherSources()...)
}

func furtherSources() []source {
	metric := func(name string) []string { return []string{"metrics", name, "successful", "%"} }
	guide := func(name string) []string { return []string{"metrics", name, "successful", "percentiles", "%"} }
	tails := map[string]string{"p90": "p90", "p95": "p95", "p99": "p99"}
	ends := map[string]string{"p50": "median", "min": "min", "max": "max", "mean": "mean"}
	served := map[string]string{"p50": "median", "p99": "p99", "mean": "mean"}
	return []source{
		{files: []string{"vllm-bench-serve-0.32.0.json"}, context: always(286), at: whole("max_concurrency"), computed: []string{"prompt_tokens"},
			figures: slices.Concat([]figureOf{same("total_tokens_per_second", "output_throughput"), same("output_tokens", "total_output_tokens"),
				same("window_seconds", "duration"), same("completed_requests", "completed"), same("failed_requests", "failed")},
				spread("ttft_ms", 1, served, "%_ttft_ms"), spread("time_between_tokens_ms", 1, served, "%_tpot_ms"), spread("event_gap_ms", 1, served, "%_itl_ms"))},
		{files: []string{"guidellm-0.8.1.json"}, rows: []string{"benchmarks"}, context: always(286), at: whole("config", "strategy", "streams"),
			figures: slices.Concat([]figureOf{same("total_tokens_per_second", "metrics", "output_tokens_per_second", "successful", "mean"),
				same("active_requests_mean", "metrics", "request_concurrency", "successful", "mean"), same("window_seconds", "duration"),
				same("output_tokens", "metrics", "output_token_count", "successful", "total_sum"), same("completed_requests", "metrics", "request_totals", "successful")},
				spread("ttft_ms", 1, ends, metric("time_to_first_token_ms")...), spread("ttft_ms", 1, tails, guide("time_to_first_token_ms")...),
				spread("time_between_tokens_ms", 1, ends, metric("inter_token_latency_ms")...), spread("time_between_tokens_ms", 1, tails, guide("inter_token_latency_ms")...))},
		{files: []string{"aiperf-0.13.0.profile_export_aiperf.json"}, context: always(286), at: whole("input_config", "phases", "0", "concurrency"),
			figures: slices.Concat([]figureOf{same("total_tokens_per_second", "output_token_throughput", "avg"), same("per_request_tokens_per_second", "output_token_throughput_per_user", "p50"),
				same("active_requests_mean", "effective_concurrency", "avg"), same("output_tokens", "total_osl", "avg"), same("window_seconds", "benchmark_duration", "avg"),
				same("prompt_tokens", "input_sequence_length", "avg"), same("completed_requests", "request_count", "avg")},
				spread("ttft_ms", 1, averaged, "time_to_first_token", "%"), spread("time_between_tokens_ms", 1, averaged, "inter_token_latency", "%"))},
		{files: []string{"llama-benchy-0.4.0.json"}, rows: []string{"benchmarks"}, context: whole("prompt_size"), at: whole("concurrency"),
			figures:  []figureOf{same("total_tokens_per_second", "tg_throughput", "mean"), same("per_request_tokens_per_second", "tg_req_throughput", "mean"), same("ttft_ms.mean", "e2e_ttft", "mean")},
			computed: []string{"ttft_ms", "repeats"}},
		{files: []string{"inference-perf-0.7.0.summary_lifecycle_metrics.json"}, args: []string{"--concurrency", "4"}, context: always(256), at: always(4),
			figures: slices.Concat([]figureOf{same("total_tokens_per_second", "successes", "throughput", "output_tokens_per_sec"), same("output_tokens", "successes", "output_tokens", "total"),
				same("window_seconds", "benchmark_time_seconds"), same("completed_requests", "successes", "count")},
				spread("ttft_ms", 1000, medians, "successes", "latency", "time_to_first_token", "%"),
				spread("time_between_tokens_ms", 1000, medians, "successes", "latency", "time_per_output_token", "%"))},
		{files: []string{"evalscope-1.14.1.benchmark_summary.json", "evalscope-1.14.1.benchmark_percentile.json"}, context: always(256), at: whole("Concurrency"),
			figures: []figureOf{same("total_tokens_per_second", "Output Throughput (tok/s)"), same("window_seconds", "Test Duration (s)"), same("ttft_ms.mean", "Avg TTFT (ms)"),
				same("time_between_tokens_ms.mean", "Avg TPOT (ms)"), same("completed_requests", "Success Requests"), same("failed_requests", "Failed Requests")}},
		{files: []string{"genai-bench-0.0.5.json"}, context: always(286), at: whole("aggregated_metrics", "num_concurrency"),
			figures: slices.Concat([]figureOf{same("total_tokens_per_second", "aggregated_metrics", "mean_output_throughput_tokens_per_s"),
				same("per_request_tokens_per_second", "aggregated_metrics", "stats", "output_inference_speed", "p50"), same("window_seconds", "aggregated_metrics", "run_duration"),
				same("output_tokens", "aggregated_metrics", "stats", "num_output_tokens", "sum")},
				spread("ttft_ms", 1000, named, "aggregated_metrics", "stats", "ttft", "%"), spread("time_between_tokens_ms", 1000, named, "aggregated_metrics", "stats", "tpot", "%"))},
	}
}

// What a tool's file says, the report of the run that is made of it says: each figure of each cell, to the last digit,
// and no number of a cell that the file does not say.
func TestWhatIsImportedIsReportedToTheLastDigit(t *testing.T) {
	for _, s := range sources() {
		t.Run(s.files[0], func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var documents []any
				args := []string{"import", "--out", "run"}
				for _, name := range s.files {
					path := filepath.Join(w.home, "../importer/testdata", name)
					args = append(args, path)
					documents = append(documents, readJSON(t, path))
				}
				w.main(append(args, s.args...)...)
				w.ended(0)
				cells := w.reported("run")
				s.compare(t, documents[0], cells)
				s.onlyTheSources(t, documents, cells)
				w.importedAgain(s)
			})
		})
	}
}

func readJSON(t *testing.T, path string) (v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// reported gives the cells of `report --json`.
func (w *world) reported(dir string) (cells []any) {
	w.t.Helper()
	w.main("report", dir, "--json")
	w.ended(0)
	var document struct {
		Cells []any `json:"cells"`
	}
	if err := json.Unmarshal([]byte(w.out.String()), &document); err != nil {
		w.t.Fatal(err)
	}
	return document.Cells
}

// importedAgain imports the file that was kept beside the run: it is still the tool's, number for number.
func (w *world) importedAgain(s source) {
	w.t.Helper()
	before := w.reported("run")
	args := []string{"import", "--out", "again"}
	for _, name := range s.files {
		args = append(args, filepath.Join("run", "source", name))
	}
	w.main(append(args, s.args...)...)
	w.ended(0)
	if after := w.reported("again"); fmt.Sprint(before) != fmt.Sprint(after) {
		w.t.Errorf("the kept file gives\n%v, not\n%v", after, before)
	}
}

// compare wants each figure of each row of the file in its cell.
func (s source) compare(t *testing.T, document any, cells []any) {
	t.Helper()
	rows := []any{document}
	if s.rows != nil {
		rows = down(document, s.rows...).([]any)
	}
	compared := 0
	for _, row := range rows {
		place := row.(map[string]any)
		compared += compareFigures(t, s.figures, row, findCell(t, cells, "decode", s.context(place), s.at(place)))
	}
	if s.prefill != nil {
		for context, row := range down(document, "prefill").(map[string]any) {
			n, err := strconv.Atoi(context)
			if err != nil {
				t.Fatal(err)
			}
			compared += compareFigures(t, s.prefill, row, findCell(t, cells, "prefill", n, 1))
		}
	}
	if compared < len(rows)*min(len(s.figures), 3) {
		t.Errorf("only %d figures were compared", compared)
	}
	t.Logf("%d figures of %d rows", compared, len(rows))
}

func findCell(t *testing.T, cells []any, phase string, context, at int) any {
	t.Helper()
	for _, c := range cells {
		if down(c, "phase") == phase && down(c, "context") == float64(context) && down(c, "concurrency") == float64(at) {
			return c
		}
	}
	t.Fatalf("there is no cell of %s, context %d at %d", phase, context, at)
	return nil
}

// compareFigures gives how many figures the row has. A tool that does not know a number writes 0, or nothing.
func compareFigures(t *testing.T, figures []figureOf, row, cell any) (compared int) {
	t.Helper()
	for _, f := range figures {
		theirs, known := down(row, f.path...).(float64)
		ours, shown := down(cell, strings.Split(f.name, ".")...).(float64)
		if !known || theirs == 0 && !shown {
			if shown {
				t.Errorf("%s is %v, and the file says nothing", f.name, ours)
			}
			continue
		}
		compared++
		if !shown || ours != theirs*f.factor {
			t.Errorf("%s is %v, the file says %v × %v", f.name, ours, theirs, f.factor)
		}
	}
	return compared
}

// structural are the numbers of a cell that say where it stands and of how much a number is.
var structural = []string{"context", "concurrency", "n", "attempts"}

// onlyTheSources wants every number of the cells to be one of the files', in their unit or in ours.
func (s source) onlyTheSources(t *testing.T, documents, cells []any) {
	t.Helper()
	known := map[float64]bool{}
	for _, d := range documents {
		numbers(d, "", func(_ string, v float64) { known[v], known[v*1000] = true, true })
	}
	for _, c := range cells {
		numbers(c, "", func(path string, v float64) {
			parts := strings.Split(path, ".")
			if slices.Contains(structural, parts[len(parts)-1]) || slices.Contains(s.computed, parts[0]) || known[v] {
				return
			}
			t.Errorf("%v × %v: %s is %v, which the file does not say", down(c, "context"), down(c, "concurrency"), path, v)
		})
	}
}

// numbers goes through the numbers of a JSON value.
func numbers(v any, path string, visit func(path string, v float64)) {
	switch v := v.(type) {
	case float64:
		visit(path, v)
	case []any:
		for _, e := range v {
			numbers(e, path, visit)
		}
	case map[string]any:
		for key, e := range v {
			numbers(e, strings.TrimPrefix(path+"."+key, "."), visit)
		}
	}
}

// The text of a published page, imported and written again by report, is the same text.
func TestAPageThatIsImportedIsReportedAsItWas(t *testing.T) {
	for _, name := range []string{"qwen3-coder-30b-a3b-awq.rtx3090.txt", "agents-a1-4b-fp8.rtx3090.txt"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				path := filepath.Join(w.home, "../report/testdata/seeds", name)
				page, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				w.main("import", path, "--out", "run")
				w.ended(0)
				w.main("report", "run", "--text")
				w.ended(0)
				squeeze := func(text string) string { return strings.Join(strings.Fields(text), "") }
				if got := w.out.String(); squeeze(got) != squeeze(string(page)) {
					t.Errorf("%s becomes\n%s", name, got)
				}
				kept, err := os.ReadFile(filepath.Join("run", "source", name))
				if err != nil || string(kept) != string(page) {
					t.Errorf("the kept text differs: %v", err)
				}
			})
		})
	}
}
