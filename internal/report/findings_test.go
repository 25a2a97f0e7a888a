package report

import (
	"slices"
	"strings"
	"testing"

	"speedmatrix"
)

// importedRun is a run of another tool with two contexts at two concurrencies.
func importedRun() *speedmatrix.Run {
	run := baseRun()
	run.Origin, run.Findings = speedmatrix.OriginImported, nil
	run.Method = speedmatrix.Method{Name: speedmatrix.MethodCompat, DurationSeconds: 30, MaxOutput: 8192, Prompts: "distinct", KVPlan: "observe"}
	delete(run.Engine, speedmatrix.EngineKVTokens)
	run.Model[speedmatrix.ModelReadBytes], run.Model[speedmatrix.ModelKVBytes], run.Model[speedmatrix.ModelFLOP] = from("profile", 4e9), from("profile", 32768.0), from("profile", 7e9)
	for _, context := range []int{0, 16 << 10} {
		for i, c := range []int{1, 2, 4} {
			run.Cells = append(run.Cells, decodeCell(context, c, speedOfMatrix[context][i]))
		}
	}
	for i, x := range [][2]float64{{9000, 910.8}, {8000, 2048.6}} {
		cell := prefillCell([]int{8 << 10, 16 << 10}[i], x[0], x[1])
		cell.TTFT.N = 3
		run.Cells = append(run.Cells, cell)
	}
	return run
}

// ruleTest is a change of importedRun, the code of the finding that it makes ("" for none), and
// words of it.
type ruleTest struct {
	name, code, says string
	change           func(*speedmatrix.Run)
}

func ruleTests() []ruleTest {
	cell := func(run *speedmatrix.Run, context, concurrency int) *speedmatrix.Cell {
		return run.FindCell(speedmatrix.PhaseDecode, context, concurrency)
	}
	refuse := func(run *speedmatrix.Run) {
		run.Method.KVPlan = "reserve"
		run.Cells = append(run.Cells, stoppedCell(0, 8, speedmatrix.StatusOverCapacity, ""), stoppedCell(16<<10, 64, speedmatrix.StatusOverCapacity, ""))
	}
	return []ruleTest{
		{"nothing to find", "", "", func(*speedmatrix.Run) {}},
		{"queued although all ran", "status_contradicted", "Requests queued at 16K is doubtful: one request was sent and 1.0 ran", func(r *speedmatrix.Run) {
			cell(r, 16<<10, 1).Status, cell(r, 16<<10, 1).QueuedShare = speedmatrix.StatusRequestsQueued, nil
		}},
		{"queued with a share", "", "", func(r *speedmatrix.Run) {
			cell(r, 16<<10, 4).Status, cell(r, 16<<10, 4).QueuedShare = speedmatrix.StatusRequestsQueued, new(0.3)
		}},
		{"queued and fewer ran", "", "", func(r *speedmatrix.Run) {
			cell(r, 16<<10, 4).Status, cell(r, 16<<10, 4).QueuedShare, cell(r, 16<<10, 4).ActiveRequestsMean = speedmatrix.StatusRequestsQueued, nil, new(3.0)
		}},
		{"a refused cell that fits", "would_fit", "2 of 8 decode cells were not run because the tool set aside 8,192 output tokens for every request, which a window of 30 s does not use. One of them", refuse},
		{"a refused cell that fits by the engine's own budget", "would_fit", "At least 2 of them", func(r *speedmatrix.Run) {
			refuse(r)
			r.Engine[speedmatrix.EngineKVTokens] = from("log", 2e6)
		}},
		{"refused, tried", "", "", func(r *speedmatrix.Run) {
			refuse(r)
			for i := range r.Cells {
				r.Cells[i].Attempts = 1
			}
		}},
		{"above the bandwidth", "beyond_hardware", "Decode of one request runs at up to", func(r *speedmatrix.Run) { r.Model[speedmatrix.ModelReadBytes] = from("profile", 16e9) }},
		{"above the compute limit of an unlocked card", "beyond_hardware", "Prefill runs at up to 127 % of the card's compute limit. The launch command names an unlocked card", func(r *speedmatrix.Run) {
			r.Model[speedmatrix.ModelFLOP] = from("profile", 10e9)
			r.LaunchCommand.Value = "# gpu-unlock\nserve"
		}},
		{"an unknown card", "", "", func(r *speedmatrix.Run) {
			r.Model[speedmatrix.ModelFLOP], r.Hardware[speedmatrix.HardwareGPU] = from("profile", 10e9), user("RTX 30900")
		}},
		{"cached prefill", "prefill_not_cold", "Prefill at 16K was not cold", func(r *speedmatrix.Run) { r.Cells[7].CachedTokens = new(9000.0) }},
		{"prefill out of order", "prefill_order", "The prompt of 16K was read faster than that of 8K (500 ms against 911 ms)", func(r *speedmatrix.Run) { *r.Cells[7].TTFT.P50 = 500 }},
		{"a gap by a loop", "looped_gap", "0 with 2 requests was discarded because a stream repeated itself. 4 requests at the same context ran", func(r *speedmatrix.Run) {
			cell(r, 0, 2).Status = speedmatrix.StatusLooped
		}},
		{"a loop at the end", "", "", func(r *speedmatrix.Run) { cell(r, 0, 4).Status = speedmatrix.StatusLooped }},
		{"different spans", "different_spans", "At 0 context, per request times requests is up to 5.0 % more than the total", func(r *speedmatrix.Run) {
			*cell(r, 0, 2).PerRequestTokensPerSecond = 225.7 * 1.05 / 2
		}},
		{"a label corrected", "remarked", "0 × 2: label corrected by the uploader.", func(r *speedmatrix.Run) {
			cell(r, 0, 2).Status, cell(r, 0, 2).Reason = speedmatrix.StatusValid, "label corrected by the uploader"
		}},
		{"a shared prompt", "shared_prompt", "All requests at once shared one prompt.", func(r *speedmatrix.Run) { r.Method.Prompts = "shared" }},
		{"single samples", "single_samples", "1 of 2 prefill numbers are one sample each", func(r *speedmatrix.Run) { r.Cells[6].TTFT.N = 1 }},
		{"long prompts", "labels", "The prompt behind “16K” was 3.8 % longer than its label.", func(r *speedmatrix.Run) {
			for i := range r.Cells {
				if r.Cells[i].Context == 16<<10 {
					r.Cells[i].PromptTokens = new(17000.0)
				}
			}
		}},
		{"short prompts, derived", "labels", "“8K” was about 45 % shorter than its label", func(r *speedmatrix.Run) {
			for i := range r.Cells {
				r.Cells[i].PromptTokens = nil
			}
			*r.Cells[6].TTFT.P50 = 500
		}},
		{"measured once", "no_repeats", "Every cell was measured once.", func(r *speedmatrix.Run) { r.Origin = speedmatrix.OriginMeasured }},
	}
}

func TestEachRuleFindsWhatItIsForAndNothingElse(t *testing.T) {
	covered := map[string]bool{}
	for _, test := range ruleTests() {
		run := importedRun()
		test.change(run)
		var codes, texts []string
		for _, f := range Build(run).Findings {
			codes, texts = append(codes, f.Code), append(texts, f.Text)
		}
		covered[test.code] = true
		if want := strings.Fields(test.code); !slices.Equal(codes, want) || !strings.Contains(strings.Join(texts, ""), test.says) {
			t.Errorf("%s: %v %q, want %v with %q", test.name, codes, texts, want, test.says)
		}
	}
	for _, r := range rules {
		if !covered[r.code] {
			t.Errorf("the rule %s has no test", r.code)
		}
	}
}

func TestWhatStandsBesideAValidCellIsANote(t *testing.T) {
	run, _ := readSeed(t, seeds[0])
	for i := range run.Cells {
		if c := &run.Cells[i]; c.Status == speedmatrix.StatusRequestsQueued {
			c.Status, c.Reason = speedmatrix.StatusValid, "label corrected by the uploader; it was “Requests queued”"
		}
	}
	want := Finding{KindNote, "remarked", "128K × 1, 136K × 1: label corrected by the uploader; it was “Requests queued”."}
	if got := Build(run).Findings; !slices.Contains(got, want) {
		t.Errorf("%+v", got)
	}
}
