package report

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/golden"
)

// repeatedRun is a full run, measured three times, whose speeds are so many times those of fullRun.
func repeatedRun(times float64) *speedmatrix.Run {
	run := fullRun()
	run.ID = fmt.Sprintf("times-%v", times)
	scale := func(cells []speedmatrix.Cell, by float64) []speedmatrix.Cell {
		var scaled []speedmatrix.Cell
		for i, c := range cells {
			by := by * (1 + 0.001*float64(i%3))
			if c.TotalTokensPerSecond != nil {
				c.TotalTokensPerSecond = new(*c.TotalTokensPerSecond * by)
				c.PerRequestTokensPerSecond = new(*c.PerRequestTokensPerSecond * by)
			}
			scaled = append(scaled, c)
		}
		return scaled
	}
	original := run.Cells
	run.Cells = scale(original, times)
	for i, noise := range []float64{0.998, 1.003} {
		run.Repeats = append(run.Repeats, speedmatrix.Repeat{Index: i + 2, Cells: scale(original[5:], times*noise)})
	}
	return run
}

// comparisons are comparisons of every kind.
func comparisons(t testing.TB) map[string]*Comparison {
	t.Helper()
	made := map[string]*Comparison{}
	add := func(name string, runs ...*speedmatrix.Run) {
		var inputs []compare.Input
		for _, run := range runs {
			inputs = append(inputs, compare.Input{Runs: []*speedmatrix.Run{run}})
		}
		c, err := compare.New(inputs, compare.Options{Allow: []string{"method"}})
		if err != nil {
			t.Fatal(err)
		}
		made[name] = BuildComparison(c)
	}
	a, _ := readSeed(t, seeds[1])
	b, _ := readSeed(t, seeds[0])
	every := everyRun()
	add("seeds", a, b)
	add("repeats", repeatedRun(1), repeatedRun(0.97))
	add("itself", fullRun(), fullRun())
	add("three", fullRun(), repeatedRun(1.5), everyStatusRun())
	add("hostile", every["hostile"], every["hostile"])
	add("huge", every["huge"], fullRun())
	add("empty", every["empty"], every["empty"])
	add("wide", every["wide"], every["one cell"])
	return made
}

func written(t testing.TB, write func(w io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func comparisonPage(t testing.TB, d *Comparison) []byte {
	t.Helper()
	return written(t, func(w io.Writer) error { return ComparisonHTML(w, d, nil) })
}

func TestComparisonsInWords(t *testing.T) {
	made := comparisons(t)
	for _, name := range []string{"seeds", "repeats", "itself"} {
		for _, width := range []int{80, 140} {
			golden.Check(t, fmt.Sprintf("compare-%s.%d.txt", name, width), written(t, func(w io.Writer) error {
				return ComparisonTerminal(w, made[name], TerminalOptions{Width: width})
			}))
		}
		golden.Check(t, "compare-"+name+".csv", written(t, func(w io.Writer) error { return ComparisonCSV(w, made[name]) }))
		golden.Check(t, "compare-"+name+".md", written(t, func(w io.Writer) error { return ComparisonMarkdown(w, made[name]) }))
	}
	golden.Check(t, "compare-seeds.svg", written(t, func(w io.Writer) error { return ComparisonSVG(w, made["seeds"]) }))
	if err := ComparisonSVG(io.Discard, made["empty"]); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
		t.Errorf("a map of nothing: %v", err)
	}
}

// TestTheMapOfTheSeedsIsThatOfTheMockUp holds the words of the map against those of the design.
func TestTheMapOfTheSeedsIsThatOfTheMockUp(t *testing.T) {
	p := comparisons(t)["seeds"].Pairs[0]
	if want := "of 12 cells that ran in both, B is slower in 11, faster in 1, the same in 0; 9 ran only in A, 1 only in B"; p.Counts != want {
		t.Errorf("%s", p.Counts)
	}
	var got []string
	for _, row := range p.Rows {
		var line strings.Builder
		line.WriteString(row.Label)
		for _, c := range row.Cells[:2] {
			n := c.Numbers[compare.Total]
			line.WriteString(" | " + joinFacts(" ", n.Change, n.Both, c.State, c.Why, c.Words))
		}
		got = append(got, line.String())
	}
	want := []string{
		"0 | +4 % 117 → 123 | −6 % 226 → 213",
		"16K | −33 % 109 → 73 | only in A B: looped",
		"32K | −50 % 103 → 52 | −52 % 181 → 86",
		"64K | −65 % 91 → 32 | −65 % 151 → 53",
		"128K | −75 % 75 → 18.4 B: Requests queued | only in A B: over capacity",
		"136K | only in B A: not planned | neither",
		"248K | only in A B: not planned | neither",
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	if n := p.Rows[0].Cells[0].Numbers[compare.TTFT]; n.Change != "−44 %" || n.Step != 7 || n.Both != "54 → 30" {
		t.Errorf("a shorter TTFT is not faster: %+v", n)
	}
}

func TestLinesOfAComparisonFit(t *testing.T) {
	for name, d := range comparisons(t) {
		for _, width := range []int{80, 120} {
			text := written(t, func(w io.Writer) error { return ComparisonTerminal(w, d, TerminalOptions{Width: width}) })
			for line := range strings.Lines(string(text)) {
				if n := displayWidth(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%s at %d: a line of %d: %s", name, width, n, line)
				}
			}
		}
	}
}

func TestACommentHoldsEveryComparison(t *testing.T) {
	for name, d := range comparisons(t) {
		if n := len(written(t, func(w io.Writer) error { return ComparisonMarkdown(w, d) })); n > commentRoom {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
	big := fullRun()
	for i := range 150 {
		for k := range 10 {
			big.Cells = append(big.Cells, decodeCell(1<<20+i*1024, 1<<k, [4]float64{100, 100, 100, 10}))
		}
	}
	c, err := compare.New([]compare.Input{{Runs: []*speedmatrix.Run{big}}, {Runs: []*speedmatrix.Run{big}}}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(written(t, func(w io.Writer) error { return ComparisonMarkdown(w, BuildComparison(c)) }))
	if len(text) > commentRoom || !strings.Contains(text, "The cell by cell table is left out") || strings.Contains(text, "<details>") {
		t.Errorf("%d bytes", len(text))
	}
}

func TestComparisonPagesLoadNothing(t *testing.T) {
	class := regexp.MustCompile(`ZgotmplZ|url\(|@import|<script|<img`)
	for name, d := range comparisons(t) {
		html := string(comparisonPage(t, d))
		if found := class.FindString(html); found != "" {
			t.Errorf("%s: the page has %s", name, found)
		}
		there := map[string]bool{}
		for _, m := range ids.FindAllStringSubmatch(html, -1) {
			if there[m[1]] || m[1] == "" || strings.ContainsAny(m[1], " \t\n") {
				t.Errorf("%s: id %q is there twice, or no id", name, m[1])
			}
			there[m[1]] = true
		}
		for _, m := range links.FindAllStringSubmatch(html, -1) {
			if target, inside := strings.CutPrefix(m[1], "#"); inside && !there[target] {
				t.Errorf("%s: a link to %s, which is not there", name, m[1])
			}
		}
		if !bytes.Equal(comparisonPage(t, d), []byte(html)) {
			t.Errorf("%s: the same comparison gives other bytes", name)
		}
	}
}

func TestTextOfAComparisonIsClean(t *testing.T) {
	d := comparisons(t)["hostile"]
	for name, write := range map[string]func(w io.Writer) error{
		"terminal": func(w io.Writer) error { return ComparisonTerminal(w, d, TerminalOptions{}) },
		"markdown": func(w io.Writer) error { return ComparisonMarkdown(w, d) },
		"page":     func(w io.Writer) error { return ComparisonHTML(w, d, nil) },
	} {
		text := string(written(t, write))
		for _, r := range text {
			if r != '\n' && r != '\u00a0' && cleanRune(r) != r {
				t.Errorf("%s: the character %U", name, r)
				break
			}
		}
		if name != "terminal" && regexp.MustCompile(`[^\\]<script`).MatchString(text) {
			t.Errorf("%s: markup of others", name)
		}
	}
}
