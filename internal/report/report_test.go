package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/golden"
)

type renderer func(io.Writer, *Document) error

func terminal(width int, color bool) renderer {
	return func(w io.Writer, d *Document) error {
		return Terminal(w, d, TerminalOptions{Width: width, Color: color})
	}
}

func render(t *testing.T, run *speedmatrix.Run, r renderer) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := r(&out, Build(run)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRunsLookLikeTheirGoldenFiles(t *testing.T) {
	runs := map[string]*speedmatrix.Run{
		"full": fullRun(), "every-status": everyStatusRun(), "one-cell": oneCellRun(), "wide": wideRun(), "hostile": hostileRun(), "empty": {},
	}
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, name+".80.txt", render(t, run, terminal(0, false)))
			golden.Check(t, name+".160.txt", render(t, run, terminal(160, false)))
			golden.Check(t, name+".md", render(t, run, Markdown))
			golden.Check(t, name+".csv", render(t, run, CSV))
		})
	}
	golden.Check(t, "every-status.color.txt", render(t, everyStatusRun(), terminal(0, true)))
}

func TestTheSameRunGivesTheSameBytes(t *testing.T) {
	for name, r := range map[string]renderer{"terminal": terminal(80, true), "markdown": Markdown, "csv": CSV} {
		want := render(t, fullRun(), r)
		for range 20 {
			if got := render(t, fullRun(), r); !bytes.Equal(got, want) {
				t.Fatalf("%s differs between two renderings: %s", name, golden.Diff(want, got))
			}
		}
	}
}

func TestTerminalLinesFitTheWidth(t *testing.T) {
	for name, run := range map[string]*speedmatrix.Run{"full": fullRun(), "statuses": everyStatusRun(), "wide": wideRun(), "hostile": hostileRun()} {
		for _, width := range []int{0, 56, 60, 80, 100, 200} {
			limit := width
			if width == 0 {
				limit = 80
			}
			for i, line := range strings.Split(string(render(t, run, terminal(width, false))), "\n") {
				if displayWidth(line) > limit {
					t.Errorf("%s at width %d: line %d takes %d columns: %q", name, width, i+1, displayWidth(line), line)
				}
				if strings.HasSuffix(line, " ") {
					t.Errorf("%s at width %d: line %d ends in blanks: %q", name, width, i+1, line)
				}
			}
		}
	}
}

func TestColorAddsEscapesAndNothingElse(t *testing.T) {
	for name, run := range map[string]*speedmatrix.Run{"full": fullRun(), "statuses": everyStatusRun()} {
		colored := string(render(t, run, terminal(80, true)))
		if name == "statuses" && !strings.Contains(colored, "\x1b[31mFailed") {
			t.Error("Failed is not red")
		}
		for _, escape := range escapes {
			colored = strings.ReplaceAll(colored, "\x1b["+escape+"m", "")
		}
		colored = strings.ReplaceAll(colored, "\x1b[0m", "")
		if want := string(render(t, run, terminal(80, false))); colored != want {
			t.Errorf("%s: %s", name, golden.Diff([]byte(want), []byte(colored)))
		}
	}
}

// The speeds of everyStatusRun are the same in all cells, so a cell that must not show one
// adds to the number of times that they are found.
func TestACellWithoutAPublishedSpeedShowsNoneAnywhere(t *testing.T) {
	run := everyStatusRun()
	for name, r := range map[string]renderer{"terminal": terminal(300, false), "markdown": Markdown, "csv": CSV} {
		out := string(render(t, run, r))
		for number, want := range map[string]int{"98.8K": 4, "12.3K": 2, "4,321 ms": 4, "77.7 ms": 2} {
			if name == "csv" {
				number = map[string]string{"98.8K": "98765.4,", "12.3K": "12345.6,", "4,321 ms": ",4321,", "77.7 ms": ",77.7,"}[number]
				want = 2
			}
			if got := strings.Count(out, number); got != want {
				t.Errorf("%s shows %q %d times, want %d", name, number, got, want)
			}
		}
		for _, status := range speedmatrix.Statuses() {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), string(status)) {
				t.Errorf("%s does not name the status %q", name, status)
			}
		}
	}
	for i := range run.Cells {
		c := &run.Cells[i]
		if line := CellLine(c); strings.Contains(line, "tok/s") != c.Status.ShowsSpeed() || !strings.Contains(line, string(c.Status)) {
			t.Errorf("%s: %q", c.Status, line)
		}
	}
}

func TestEveryPlannedCellStandsInTheMatrix(t *testing.T) {
	run := fullRun()
	run.Cells = slices.DeleteFunc(run.Cells, func(c speedmatrix.Cell) bool { return c.Context == 32<<10 })
	d := Build(run)
	if len(d.Matrix.Rows) != 6 || len(d.Measurements) != 48+5 || len(d.Prefill) != 5 {
		t.Fatalf("%d rows, %d measurements, %d prefill sizes", len(d.Matrix.Rows), len(d.Measurements), len(d.Prefill))
	}
	for _, row := range d.Matrix.Rows {
		if len(row.Cells) != 8 {
			t.Errorf("row %s has %d cells", row.Label, len(row.Cells))
		}
		for _, m := range row.Cells {
			if missing := row.Label == "32K"; missing != (m.Status == "") {
				t.Errorf("%s has the status %q", m.Name, m.Status)
			}
		}
	}
}

func TestNotesComeWithNumbersFirstAndSayWhetherCellsWereTried(t *testing.T) {
	d := Build(fullRun())
	if len(d.Notes) != 1 || d.Notes[0].Text != refusedBeforehand {
		t.Errorf("notes of a run with refused cells only: %v", d.Notes)
	}
	var order []speedmatrix.Status
	for _, note := range Build(everyStatusRun()).Notes {
		order = append(order, note.Status)
		if note.Status == speedmatrix.StatusOverCapacity && note.Text != note.Status.Explanation() {
			t.Errorf("a cell that was tried is called %q", note.Text)
		}
	}
	if i, j, k := slices.Index(order, speedmatrix.StatusRequestsQueued), slices.Index(order, speedmatrix.StatusLooped), slices.Index(order, speedmatrix.StatusOverCapacity); i < 0 || i > j || j > k {
		t.Errorf("order of the notes: %v", order)
	}
}

func TestTTFTNoteFollowsTheKindsOfTheRows(t *testing.T) {
	tests := []struct {
		kinds []speedmatrix.TTFTKind // of 16K, 32K and 32K
		want  string
	}{
		{[]speedmatrix.TTFTKind{"warm", "warm"}, "mostly excludes prefill"},
		{[]speedmatrix.TTFTKind{"cold", "cold"}, "includes reading the whole prompt"},
		{[]speedmatrix.TTFTKind{"mixed", "mixed"}, "some found it"},
		{[]speedmatrix.TTFTKind{"unknown", "unknown"}, "not known"},
		{[]speedmatrix.TTFTKind{"warm", "cold"}, "TTFT is warm in 16K; cold in 32K ("},
		{[]speedmatrix.TTFTKind{"warm", "cold", "unknown"}, "TTFT is warm in 16K; cold in some cells of 32K; unknown in some cells of 32K ("},
	}
	for _, test := range tests {
		run := baseRun()
		for i, kind := range test.kinds {
			c := decodeCell((min(i, 1)+1)*16<<10, 1+i, [4]float64{1, 1, 1, 1})
			c.TTFTKind = kind
			run.Cells = append(run.Cells, c)
		}
		if got := Build(run).TTFTNote; !strings.Contains(got, test.want) {
			t.Errorf("%v: %q, want %q in it", test.kinds, got, test.want)
		}
	}
}

func TestTrustNamesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name   string
		change func(*speedmatrix.Run)
		label  string
		want   string
		doubt  bool
	}{
		{"nothing wrong", func(*speedmatrix.Run) {}, "Counters", "every cell agrees with the engine's counters within 0.05 %", false},
		{"counters disagree", func(r *speedmatrix.Run) { r.Cells[7].CounterCheck.ClientTokens *= 1.05 }, "Counters", "differ by up to 5.1 % (decode 0 × 4)", true},
		{"some unchecked", func(r *speedmatrix.Run) { r.Cells[7].CounterCheck = nil }, "Counters", "20 of 21 cells agree", false},
		{"no drift", func(*speedmatrix.Run) {}, "Drift", "decode 0 × 1 again at the end: −0.2 %, within the intervals; a change counts from 1.0 % on", false},
		{"drift", func(r *speedmatrix.Run) { r.Drift.Significant = true }, "Drift", "beyond both intervals", true},
		{"no second look", func(r *speedmatrix.Run) { r.Drift = nil }, "Drift", "not measured again", false},
		{"long prompts", func(r *speedmatrix.Run) { r.Cells[14].PromptTokens = new(18000.0) }, "Prompts", "within 9.9 % of their labels (decode 16K × 2: 18,000 tokens)", true},
		{"a lower bound", func(r *speedmatrix.Run) { r.Cells[7].TokenSource = speedmatrix.TokensEvents }, "Tokens", "events (lower bound) (1 cell)", true},
		{"stamps", func(*speedmatrix.Run) {}, "Client", "p99 stamp error 9 µs at 128 streams and 12.8K tok/s, stamps by the kernel", false},
		{"a step", func(r *speedmatrix.Run) { r.Client.ClockSteps = 1 }, "Client", "1 step of the wall clock", true},
		{"reads", func(r *speedmatrix.Run) { r.Cells[7].Client.UnstampedReads = 3 }, "Reads", "0.00 % coalesced reads, 6 % of one core, reader lag p99 0.1 ms, in all 3 reads without a kernel stamp", false},
		{"late requests, pauses and the reader", func(r *speedmatrix.Run) {
			q := r.Cells[7].Client
			q.SendLateP99Micros, q.GCPauseMaxMicros, q.Reader = new(1200.0), new(300.0), "epoll"
		}, "Reads", "sent late p99 1.2 ms, longest pause 0.3 ms, read by epoll", false},
		{"one machine for both", func(r *speedmatrix.Run) { r.Server.SameMachine = true }, "Sharing", "client and server share the machine", false},
		{"another machine", func(r *speedmatrix.Run) { r.Server.SameMachine = false }, "Sharing", "the client has a machine of its own", false},
		{"a full machine", func(r *speedmatrix.Run) { r.Cells[7].Client.MachineCPUShare = new(0.97) }, "Sharing", "97 % of its CPU in use", true},
		{"one window", func(*speedmatrix.Run) {}, "Intervals", "±0.3 % (95 %), one window a cell, no repeats", false},
		{"a wide one", func(r *speedmatrix.Run) { r.Cells[7].Interval95.High *= 1.02 }, "Intervals", "±0.3 … 1.3 % (95 %)", false},
	}
	for _, test := range tests {
		run := fullRun()
		test.change(run)
		list := Build(run).Trust
		i := slices.IndexFunc(list, func(x Trust) bool { return x.Label == test.label })
		if i < 0 {
			t.Errorf("%s: no line %s", test.name, test.label)
			continue
		}
		if got := list[i]; !strings.Contains(got.Text, test.want) || got.Doubt != test.doubt {
			t.Errorf("%s: %q (doubt %v), want %q in it (doubt %v)", test.name, got.Text, got.Doubt, test.want, test.doubt)
		}
	}
}

func TestCellLine(t *testing.T) {
	valid := decodeCell(16<<10, 4, [4]float64{375.5, 94.1, 105, 10.6})
	queued := valid
	queued.Status, queued.Reason = speedmatrix.StatusRequestsQueued, "requests waited for 31 % of the window"
	refused := stoppedCell(128<<10, 128, speedmatrix.StatusOverCapacity, "128 prompts need more\nthan there is\x1b[0m")
	cold := prefillCell(16<<10, 10004, 1639)
	for want, c := range map[string]*speedmatrix.Cell{
		"decode 16K × 4   375.5 tok/s  94.1 each  TTFT 105 ms  10.6 ms/token  Valid":                                                   &valid,
		"decode 16K × 4   375.5 tok/s  94.1 each  TTFT 105 ms  10.6 ms/token  Requests queued: requests waited for 31 % of the window": &queued,
		"decode 128K × 128  Over capacity: 128 prompts need more than there is�[0m":                                                    &refused,
		"prefill 16K        10K tok/s  TTFT 1,639 ms  1 sample  Valid":                                                                 &cold,
	} {
		if got := CellLine(c); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestPlanScreen(t *testing.T) {
	v := planView()
	for _, width := range []int{0, 60} {
		v.Terminal.Width = width
		var out bytes.Buffer
		if err := Plan(&out, v); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, fmt.Sprintf("plan.%d.txt", width), out.Bytes())
	}
	var out bytes.Buffer
	if err := Plan(&out, PlanView{Engine: hostileText, Found: hostileText, Machine: []string{hostileText}, Cells: []PlanCell{
		{Phase: speedmatrix.PhaseDecode, Verdict: PlanRefused, Status: speedmatrix.StatusSkipped, Reason: hostileText},
	}}); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "plan.hostile.txt", out.Bytes())
	checkNoControls(t, out.String())
}

func planView() PlanView {
	run := fullRun()
	v := PlanView{
		Engine: "vLLM", Version: "0.32.0", URL: "http://127.0.0.1:8000", Found: "found on port 8000",
		Model: "Agents-A1-4B-FP8", ServedName: "bench", Quantization: "FP8", MaxLength: 262144,
		KVTokens: 459360, RunningLimit: 128, PrefixCaching: new(true),
		Machine:  []string{"RTX 3090 24 GB at 350 W", "Ryzen 9 7900X", "32 GB", "NVIDIA 595.99"},
		Client:   PlanClient{SameMachine: new(true), StampErrorP99: 9 * time.Microsecond, TokensPerSecond: 150000},
		Contexts: run.Plan.Contexts, Concurrency: run.Plan.Concurrency,
		Expected: 11 * time.Minute, PromptTokens: 2_000_000,
	}
	for _, c := range run.Cells {
		p := PlanCell{Phase: c.Phase, Context: c.Context, Concurrency: c.Concurrency, Reason: c.Reason}
		if c.Status != speedmatrix.StatusValid {
			p.Verdict, p.Status = PlanRefused, c.Status
		}
		if c.Phase == speedmatrix.PhaseDecode && c.Context == 0 && c.Concurrency > 32 {
			p.Verdict = PlanTried
		}
		if c.Context == 248<<10 && c.Concurrency == 128 {
			p.Status, p.Reason = speedmatrix.StatusSkipped, "--max-time 10m"
		}
		v.Cells = append(v.Cells, p)
	}
	return v
}

func TestCSVHasTheSameColumnsForEveryRunAndRawNumbers(t *testing.T) {
	for _, run := range []*speedmatrix.Run{fullRun(), {}, hostileRun()} {
		rows, err := csv.NewReader(bytes.NewReader(render(t, run, CSV))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if want := max(len(Build(run).Measurements), 0) + 1; len(rows) != want {
			t.Errorf("%d rows, want %d", len(rows), want)
		}
		golden.Check(t, "columns.txt", []byte(strings.Join(rows[0], "\n")+"\n"))
	}
	c := decodeCell(0, 1, [4]float64{117.31234567890122, 1, 1, 1})
	rows, _ := csv.NewReader(bytes.NewReader(render(t, &speedmatrix.Run{Cells: []speedmatrix.Cell{c}}, CSV))).ReadAll()
	if i := slices.Index(rows[0], "total_tokens_per_second"); rows[1][i] != "117.31234567890122" {
		t.Errorf("total tok/s is written %s", rows[1][i])
	}
}

func TestAFailingWriterIsReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	d := Build(wideRun())
	for name, r := range map[string]renderer{"terminal": terminal(80, false), "markdown": Markdown, "csv": CSV} {
		if r(full, d) == nil {
			t.Errorf("%s hides that nothing could be written", name)
		}
	}
	if Plan(full, planView()) == nil {
		t.Error("the plan hides that nothing could be written")
	}
}

func checkNoControls(t rapid.TB, out string) {
	for i, r := range out {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("control character %U at byte %d", r, i)
			return
		}
	}
}

func TestMarkdownEscapesWhatWouldBeginABlockAndNothingWithoutNeed(t *testing.T) {
	for text, want := range map[string]string{
		"0.32.0": "0.32.0", "1. a": `1\. a`, "12)": `12\)`, "12": "12", "- a": `\- a`, "a - b": "a - b", "=": `\=`,
		"# a": `\# a`, "a|b": `a\|b`, `\`: `\\`, "&lt;": `\&lt;`, "a_b*c": `a\_b\*c`, "": "",
	} {
		if got := escape(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestWrapKeepsEveryWordAndTheWidth(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"one two three", 8, "one two/three"},
		{"one two three", 100, "one two three"},
		{"abcdefghij k", 4, "abcd/efgh/ij k"},
		{"a abcdefghi", 4, "a/abcd/efgh/i"},
		{"世界世界 x", 5, "世界/世界/x"},
		{"", 5, ""},
		{"ab", 0, "a/b"},
	} {
		if got := strings.Join(wrap(test.text, test.width), "/"); got != test.want {
			t.Errorf("%q at %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
}
