package loop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// feed writes text in fragments of that many bytes.
func feed(g *Guard, channel uint8, text string, size int) {
	for b := []byte(text); len(b) > 0; {
		n := min(size, len(b))
		g.Write(channel, b[:n])
		b = b[n:]
	}
}

// varied gives text of that many characters in which no passage of 30
// characters occurs twice.
func varied(seed uint64, chars int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for i := range chars {
		if i%7 == 6 {
			b.WriteByte(' ')
			continue
		}
		b.WriteByte(byte('a' + r.IntN(26)))
	}
	return b.String()
}

func TestALoopNeedsFourCyclesAnd4096Characters(t *testing.T) {
	long := varied(1, 1500)
	largest := varied(2, MaxPeriod)
	tooLarge := varied(3, MaxPeriod+1)
	mixed := varied(4, 9000) + chinese(MaxPeriod-9001) + "é"
	tests := []struct {
		name   string
		text   string
		period int
		cycles int
	}{
		{"4 characters 1,023 times", strings.Repeat("abc ", 1023), 0, 0},
		{"4 characters 1,024 times", strings.Repeat("abc ", 1024), 4, 1024},
		{"1 character 4,095 times", strings.Repeat("x", 4095), 0, 0},
		{"1 character 4,096 times", strings.Repeat("x", 4096), 1, 4096},
		{"1,500 characters 3 times", strings.Repeat(long, 3), 0, 0},
		{"1,500 characters 4 times less one character", strings.Repeat(long, 4)[:5999], 0, 0},
		{"1,500 characters 4 times", strings.Repeat(long, 4), 1500, 4},
		{"the largest period 4 times less one character", strings.Repeat(largest, 4)[:4*MaxPeriod-1], 0, 0},
		{"the largest period 4 times", strings.Repeat(largest, 4), MaxPeriod, 4},
		{"the largest period in letters of two widths", strings.Repeat(mixed, 4), MaxPeriod, 4},
		{"the largest period in letters of two widths, less one character", strings.TrimSuffix(strings.Repeat(mixed, 4), "é"), 0, 0},
		{"one character more than the largest period", strings.Repeat(tooLarge, 5), 0, 0},
		{"Unicode, 5 characters 819 times", strings.Repeat("Žluť—", 819), 0, 0},
		{"Unicode, 5 characters 820 times", strings.Repeat("Žluť—", 820), 5, 819},
		{"emoji, 2 characters 2,047 times", strings.Repeat("🙂🙃", 2047), 0, 0},
		{"emoji, 2 characters 2,048 times", strings.Repeat("🙂🙃", 2048), 2, 2048},
		{"Chinese, 1,024 characters 4 times", strings.Repeat(chinese(1024), 4), 1024, 4},
		{"Chinese, 1,023 characters 4 times", strings.Repeat(chinese(1023), 4), 0, 0},
		{"white space alone", strings.Repeat(" \n\t", 60_000), 0, 0},
		{"wide white space alone", strings.Repeat("\u3000\u00a0", 20_000), 0, 0},
	}
	for _, test := range tests {
		for _, size := range []int{1, 7, 256, 901, 1 << 20} {
			t.Run(fmt.Sprintf("%s in pieces of %d", test.name, size), func(t *testing.T) {
				g := NewGuard()
				feed(g, 0, test.text, size)
				f, ok := g.Finding()
				if ok != (test.period > 0) || f.PeriodChars != test.period || f.Cycles != test.cycles {
					t.Errorf("got %v, period %d, cycles %d; want period %d, cycles %d",
						ok, f.PeriodChars, f.Cycles, test.period, test.cycles)
				}
			})
		}
	}
}

// chinese gives that many different characters of three bytes.
func chinese(chars int) string {
	var b strings.Builder
	for i := range chars {
		b.WriteRune(rune(0x4e00 + i*7%20000))
	}
	return b.String()
}

func randomChinese(chars int) string {
	r := rand.New(rand.NewPCG(8, 8))
	var b strings.Builder
	for range chars {
		b.WriteRune(rune(0x4e00 + r.IntN(20000)))
	}
	return b.String()
}

func TestALoopIsFoundBehindOrdinaryText(t *testing.T) {
	for _, before := range []int{0, 1, 5000, 140_000} {
		for _, period := range []int{1, 2, 31, 32, 33, 64, 65, 1024, 1025, 9000, MaxPeriod} {
			cycle := varied(uint64(period), period-1) + "§"
			need := max(MinChars, MinCycles*period)
			loop := []rune(strings.Repeat(cycle, need/period+1))
			g := NewGuard()
			feed(g, 1, varied(77, before)+"¤", 1000)
			feed(g, 1, string(loop[:need-1]), 1000)
			if f, ok := g.Finding(); ok {
				t.Errorf("period %d behind %d: found one character early: %+v", period, before, f)
			}
			feed(g, 1, string(loop[need-1:need]), 1000)
			f, ok := g.Finding()
			if !ok || f.PeriodChars != period || f.Channel != 1 {
				t.Errorf("period %d behind %d: got %v %d", period, before, ok, f.PeriodChars)
			}
		}
	}
}

func TestACycleMadeOfSimilarPartsIsFound(t *testing.T) {
	row := "| yes | " + varied(5, 90) + " | no |\n"
	dashes := strings.Repeat("-", 300)
	tests := map[string]string{
		"equal rows and one other":    strings.Repeat(row, 12) + "| end |\n",
		"a long run of one character": varied(6, 800) + dashes + varied(7, 200) + dashes,
		"a run longer than the rest":  varied(8, 100) + strings.Repeat("=", 3000),
		"a passage twice":             row + row + varied(9, 40),
		"rows in two orders":          row + varied(10, 100) + row + varied(11, 100) + varied(10, 100),
	}
	for name, cycle := range tests {
		for _, times := range []int{3, 4} {
			need := max(times, (MinChars+len(cycle)-1)/len(cycle))
			if times == 3 && need > 3 {
				continue
			}
			g := NewGuard()
			feed(g, 0, varied(12, 999)+strings.Repeat(cycle, need), 33)
			f, ok := g.Finding()
			if ok != (times == 4) || ok && f.PeriodChars != len(cycle) {
				t.Errorf("%s %d times: got %v, period %d of %d", name, need, ok, f.PeriodChars, len(cycle))
			}
		}
	}
}

func TestTextThatGoesOnIsNoLoop(t *testing.T) {
	var numbered, growing, sections, table strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&numbered, "%d. The same words stand in every line of this list, again and again.\n", i)
		fmt.Fprintf(&table, "| %6d | the same cell in every row of the table, without any change | ok |\n", i)
	}
	for i := range 400 {
		growing.WriteString(strings.Repeat("and then ", i) + "it ended.\n")
	}
	for i := range 200 {
		fmt.Fprintf(&sections, "%s\nSection %d ends here.\n", varied(3, 1500), i)
	}
	tests := map[string]string{
		"numbered lines": numbered.String(), "a growing section": growing.String(),
		"sections that differ in a number": sections.String(), "a numbered table": table.String(),
		"random text": varied(4, 500_000),
	}
	for name, text := range tests {
		g := NewGuard()
		feed(g, 0, text, 13)
		if f, ok := g.Finding(); ok {
			t.Errorf("%s: found %+v", name, f)
		}
	}
}

func TestChannelsAreWatchedApart(t *testing.T) {
	g := NewGuard()
	for range 1024 {
		g.Write(1, []byte("abc "))
		g.Write(2, []byte("ab"))
	}
	f, ok := g.Finding()
	if !ok || f.Channel != 1 || f.PeriodChars != 4 || f.Excerpt != "abc " {
		t.Errorf("got %v %+v", ok, f)
	}
	before := f
	feed(g, 2, strings.Repeat("ab", 5000), 100)
	if f, _ := g.Finding(); f != before {
		t.Errorf("a later loop replaced the first: %+v", f)
	}
}

func TestTheExcerptIsOneCycleOfAtMost200Characters(t *testing.T) {
	g := NewGuard()
	feed(g, 0, strings.Repeat(chinese(1500), 4), 5)
	f, _ := g.Finding()
	if n := utf8.RuneCountInString(f.Excerpt); n != excerptChars || !strings.HasPrefix(chinese(1500), f.Excerpt) {
		t.Errorf("excerpt of %d characters: %q", n, f.Excerpt)
	}
}

func TestFragmentsMakeNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab é世🙂\n]{1,40}`)
		var text strings.Builder
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			text.WriteString(strings.Repeat(word.Draw(t, "cycle"), rapid.IntRange(1, 1500).Draw(t, "times")))
			text.WriteString(word.Draw(t, "between"))
		}
		whole, pieces := NewGuard(), NewGuard()
		whole.Write(0, []byte(text.String()))
		for b := []byte(text.String()); len(b) > 0; {
			n := min(len(b), rapid.IntRange(1, 5000).Draw(t, "size"))
			pieces.Write(0, b[:n])
			b = b[n:]
		}
		a, okA := whole.Finding()
		b, okB := pieces.Finding()
		if a != b || okA != okB {
			t.Fatalf("whole: %v %+v, in pieces: %v %+v", okA, a, okB, b)
		}
		want, wantOK := slow(text.String())
		if wantOK != okA || wantOK && (a.PeriodChars != want.PeriodChars || a.Cycles != want.Cycles) {
			t.Fatalf("got %v %+v, by definition %v %+v", okA, a, wantOK, want)
		}
	})
}

// slow finds the first loop by the definition, for periods up to 64.
func slow(text string) (Finding, bool) {
	runes := []rune(text)
	var run [65]int // characters equal to the one a period before, by period
	for i, r := range runes {
		for p := 1; p < len(run); p++ {
			if i < p || runes[i-p] != r {
				run[p] = 0
				continue
			}
			run[p]++
			tail := run[p] + p
			if tail >= MinChars && tail >= MinCycles*p && strings.TrimSpace(string(runes[i-p+1:i+1])) != "" {
				return Finding{PeriodChars: p, Cycles: tail / p}, true
			}
		}
	}
	return Finding{}, false
}

func TestMemoryIsBounded(t *testing.T) {
	for _, test := range []struct {
		name  string
		text  string
		bytes int
	}{
		{"ASCII", varied(1, 300_000), History},
		{"Chinese", randomChinese(200_000), 4 * History},
	} {
		g := NewGuard()
		feed(g, 0, test.text, 4096)
		if n := len(g.of(0).ring); n != test.bytes {
			t.Errorf("%s: %d bytes of history, want %d", test.name, n, test.bytes)
		}
		if n := g.of(0).count(g.of(0).n-len(g.of(0).ring), g.of(0).n); n != g.of(0).chars || n < History {
			t.Errorf("%s: %d characters of history, counted %d", test.name, n, g.of(0).chars)
		}
	}
}

func FuzzGuard(f *testing.F) {
	f.Add([]byte("abc "), 1100, 7)
	f.Add([]byte("é世🙂"), 2000, 1)
	f.Add([]byte("\xff\x80\xc3"), 5000, 2)
	f.Add([]byte(" \n"), 5000, 1000)
	f.Fuzz(func(t *testing.T, cycle []byte, times, size int) {
		if len(cycle) == 0 || len(cycle)*times > 1<<20 || times < 0 || size < 1 {
			return
		}
		text := strings.Repeat(string(cycle), times)
		whole, pieces := NewGuard(), NewGuard()
		feed(whole, 3, text, len(text)+1)
		feed(pieces, 3, text, size)
		a, okA := whole.Finding()
		b, okB := pieces.Finding()
		if a != b || okA != okB {
			t.Fatalf("whole %v %+v, pieces of %d: %v %+v", okA, a, size, okB, b)
		}
		if !utf8.ValidString(text) {
			return
		}
		chars := utf8.RuneCountInString(text)
		long := chars >= MinChars && chars >= MinCycles*utf8.RuneCount(cycle)
		if blank := strings.TrimSpace(string(cycle)) == ""; utf8.RuneCount(cycle) <= MaxPeriod && long && okA == blank {
			t.Fatalf("%d characters, %d times: %v", utf8.RuneCount(cycle), times, okA)
		}
		if chars < MinChars && okA {
			t.Fatalf("found in %d characters: %+v", chars, a)
		}
	})
}

func BenchmarkGuard(b *testing.B) {
	var list strings.Builder
	for i := range 16_000 {
		fmt.Fprintf(&list, "%d. The same words stand in every line of this list, again and again.\n", i)
	}
	var sections strings.Builder
	for i := range 60 {
		fmt.Fprintf(&sections, "%s %d\n", varied(3, 20_000), i)
	}
	texts := map[string]string{
		"sections": sections.String(),
		"natural":  varied(1, 1<<20), "list": list.String(), "blank": strings.Repeat(" ", 1<<20),
		"late loop": strings.Repeat(varied(2, MaxPeriod+10), 30),
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				g := NewGuard()
				feed(g, 0, text, 6)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
		})
	}
}
