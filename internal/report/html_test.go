package report

import (
	"bytes"
	"io"
	"math"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/golden"
	"speedmatrix/internal/unit"
)

// largestPage is what the page of a run of 48 cells may weigh, without timelines.
const largestPage = 250_000

func TestAPageIsSmallAndTheSameForTheSameRun(t *testing.T) {
	first := render(t, fullRun(), htmlPage)
	for range 5 {
		if !bytes.Equal(render(t, fullRun(), htmlPage), first) {
			t.Fatal("the same run gives other bytes")
		}
	}
	measured, _ := measuredRun()
	for _, run := range []*speedmatrix.Run{fullRun(), measured} {
		if n := len(render(t, run, htmlPage)); n >= largestPage {
			t.Errorf("the page weighs %d bytes", n)
		}
	}
}

var (
	loads = regexp.MustCompile(`(?i)<(?:img|iframe|object|embed|link|script|source|video|audio|base|form)\b[^>]*`)
	links = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	ids   = regexp.MustCompile(` id="([^"]*)"`)
)

func TestAPageLoadsNothingAndItsLinksLeadSomewhere(t *testing.T) {
	for name, run := range everyRun() {
		html := string(render(t, run, htmlPage))
		for _, tag := range loads.FindAllString(html, -1) {
			if tag != "<script" && tag != `<link rel="icon" href="data:,"` {
				t.Errorf("%s: %s", name, tag)
			}
		}
		if strings.Contains(html, "url(") || strings.Contains(html, "@import") || strings.Contains(html, "ZgotmplZ") {
			t.Errorf("%s: the page loads something, or the template refused a value", name)
		}
		there := map[string]bool{}
		for _, m := range ids.FindAllStringSubmatch(html, -1) {
			if there[m[1]] || strings.ContainsAny(m[1], " \t\n") {
				t.Errorf("%s: id %q is there twice, or no id", name, m[1])
			}
			there[m[1]] = true
		}
		for _, m := range links.FindAllStringSubmatch(html, -1) {
			if m[1] != "data:," && (!strings.HasPrefix(m[1], "#") || !there[m[1][1:]]) {
				t.Errorf("%s: a link to %q", name, m[1])
			}
		}
	}
}

func TestHostileTextStaysTextOnAPage(t *testing.T) {
	for _, piece := range []string{"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "'}}{{.Doc}}", "</style><b>", "-->", "javascript:alert(1)", "x", "\u202e", hostileText} {
		run := everyStatusRun()
		poison(reflect.ValueOf(run), strings.Repeat(piece, 10_000/len(piece)))
		var out bytes.Buffer
		if err := HTML(&out, Build(run), HTMLOptions{}); err != nil {
			t.Fatal(err)
		}
		html := out.String()
		if strings.Count(html, "<script") != 1 || strings.Count(html, "</style>") != 1 || strings.Contains(html, "<img") || strings.Contains(html, "<b>alert") {
			t.Errorf("%.20q became markup", piece)
		}
		checkNoControls(t, strings.ReplaceAll(html, "\t", ""))
		d := Build(run)
		for _, p := range pictures {
			var svg bytes.Buffer
			if err := SVG(&svg, d, p.Name); err == nil && (strings.Contains(svg.String(), "<script") || strings.Contains(svg.String(), "<img")) {
				t.Errorf("%s: %.20q became markup", p.Name, piece)
			}
		}
	}
}

func TestACellWithoutASpeedShowsNoneOnThePage(t *testing.T) {
	run := everyStatusRun()
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Status.ShowsSpeed() {
			continue
		}
		c.TotalTokensPerSecond, c.PerRequestTokensPerSecond, c.PromptTokensPerSecond = new(45454.0), new(45454.0), new(45454.0)
		c.TTFT, c.TimeBetweenTokens, c.EventGap = single(new(6767.0), 1, ""), single(new(6767.0), 1, ""), single(new(6767.0), 1, "")
		for _, d := range []*speedmatrix.Distribution{c.TTFT, c.TimeBetweenTokens, c.EventGap} {
			d.Min, d.Max = d.P50, d.P50
		}
	}
	html := string(render(t, run, htmlPage))
	for _, number := range []string{"45.5K", "45,454", "45454", "6,767", "6767", "6.8 s"} {
		if strings.Contains(html, number) {
			t.Errorf("the page shows %s, which belongs to cells without a speed", number)
		}
	}
	for _, status := range speedmatrix.Statuses() {
		if !strings.Contains(html, string(status)) {
			t.Errorf("the page does not name %s", status)
		}
	}
}

func TestEveryDrawingCanBeHadByName(t *testing.T) {
	d := Build(fullRun())
	for _, p := range Pictures() {
		var out bytes.Buffer
		if err := SVG(&out, d, p.Name); err != nil || !strings.HasPrefix(out.String(), "<svg xmlns=") || p.Shows == "" {
			t.Errorf("%s: %v", p.Name, err)
		}
		if p.Name == "matrix" || p.Name == "users" {
			golden.Check(t, p.Name+".svg", out.Bytes())
		}
		if err := SVG(io.Discard, Build(&speedmatrix.Run{}), p.Name); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
			t.Errorf("%s of an empty run: %v", p.Name, err)
		}
	}
	if err := SVG(io.Discard, d, "matix"); err == nil || !strings.Contains(err.(*speedmatrix.Error).Next, "did you mean matrix?") {
		t.Errorf("a misspelt name: %v", err)
	}
}

func TestCardsOfAllKindsOfRuns(t *testing.T) {
	for name, run := range everyRun() {
		var out bytes.Buffer
		if err := Card(&out, Build(run)); err != nil || !bytes.HasPrefix(out.Bytes(), []byte("\x89PNG")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimitsFollowFromTheFacts(t *testing.T) {
	d := Build(importedRun())
	if len(d.Limits) != 2 || d.Limits[0].Rows[1].Value != "109.1 of 206" || d.Limits[0].Rows[1].Percent != "53 %" || d.Limits[1].Rows[0].Value != "63 of 71" {
		t.Errorf("limits %+v", d.Limits)
	}
	run := importedRun()
	run.Hardware[speedmatrix.HardwareGPUCount] = user(2.0)
	if got := Build(run).Limits[0]; got.Device != "2× RTX 3090" || math.Abs(got.Rows[0].Share*2/d.Limits[0].Rows[0].Share-1) > 1e-9 {
		t.Errorf("two cards: %+v", got)
	}
	run.Hardware[speedmatrix.HardwareBandwidth] = user(4e12)
	if got := Build(run).Limits[0].Assumptions; !strings.Contains(got, "at 4,000 GB/s (2× RTX 3090, as stated)") {
		t.Errorf("a stated limit: %s", got)
	}
}

func TestALaunchCommandBreaksWhereAReaderWould(t *testing.T) {
	for command, want := range map[string]string{
		"# a # b vllm serve m --x 1 --y": "# a|# b|vllm serve m·--x 1·--y",
		"vllm serve m \\\n  --x 1":       `vllm serve m \|--x 1`,
		"./server -m a.gguf":             "./server -m a.gguf",
		"":                               "",
	} {
		var lines []string
		for _, l := range commandLines(command) {
			lines = append(lines, strings.Join(l.Parts, "·"))
		}
		if got := strings.Join(lines, "|"); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

func TestAPageSaysHowToMeasureTheSameAgain(t *testing.T) {
	want := "speedmatrix run http://127.0.0.1:8000 --contexts 0,16K,32K,64K,128K,248K --concurrency 1,2,4,8,16,32,64,128 --prefill 8K,16K,32K,64K,128K"
	if got := strings.Join(reproduce(Build(fullRun())), " "); got != want {
		t.Errorf("got %s", got)
	}
	run := fullRun()
	run.Server.URL, run.Method.Name = "http://x/$(rm)'", speedmatrix.MethodCompat
	if got := strings.Join(reproduce(Build(run)), " "); !strings.Contains(got, `'http://x/$(rm)'\''' --method compat/llm-inference-bench`) {
		t.Errorf("got %s", got)
	}
}

func TestDetailsSayWhatTheTablesLeaveOut(t *testing.T) {
	run, _ := measuredRun()
	d := Build(run)
	for _, m := range d.Measurements {
		v, ok := detail(d, m)
		if ok != m.ShowsSpeed {
			t.Errorf("%s has details: %v", m.Name, ok)
		}
		if m.Key == "decode-16k-x8" {
			var lines []string
			for _, p := range v.More {
				lines = append(lines, p.Label+": "+p.Text)
			}
			all := strings.Join(lines, "\n")
			for _, want := range []string{"95 % interval: ±0.3 %", "Requests: 8 sent, 0 completed, 8 cut at the end, 0 failed", "Warning: only 7.8 requests ran"} {
				if !strings.Contains(all, want) {
					t.Errorf("no %q in\n%s", want, all)
				}
			}
			if len(v.Quantiles) != 2 || v.Quantiles[0][2] != "230 ms" || v.Quantiles[0][4] != unit.Dash {
				t.Errorf("quantiles %v", v.Quantiles)
			}
		}
	}
}

func TestAFailingWriterOfAPageIsReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	d := Build(fullRun())
	for name, r := range map[string]renderer{"page": htmlPage, "text": Text, "card": Card, "svg": func(w io.Writer, d *Document) error { return SVG(w, d, "matrix") }} {
		if r(full, d) == nil {
			t.Errorf("%s hides that nothing could be written", name)
		}
	}
}
