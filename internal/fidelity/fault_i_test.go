package fidelity_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/loop"
	"speedmatrix/internal/report"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// circling cuts a text that goes round after so many characters into pieces of that many, one for each token.
func circling(cycle string, piece int) func(req, token int) string {
	runes := []rune(cycle)
	return func(_, token int) string {
		out := make([]rune, piece)
		for i := range out {
			out[i] = runes[(token*piece+i)%len(runes)]
		}
		return string(out)
	}
}

// unlike gives a text of that many characters in which nothing repeats.
func unlike(seed, chars int) string {
	var b strings.Builder
	for i := 0; b.Len() < chars; i++ {
		b.WriteString(truth.Word(1<<24+seed, i))
	}
	return b.String()[:chars]
}

// late is a server that loops in some requests of decode cells and is faster then.
type late struct {
	mu     sync.Mutex
	cells  map[int]int // requests of cells, in order
	loops  func(nth int) bool
	text   func(req, token int) string
	prefix int // tokens before the loop
}

func (l *late) fail(c truth.Call) *truth.Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ofCell(c) {
		l.cells[c.Request] = len(l.cells)
	}
	return nil
}

func (l *late) looping(req int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	nth, ofCell := l.cells[req]
	return ofCell && l.loops(nth)
}

func (l *late) word(req, token int) string {
	if token < l.prefix || !l.looping(req) {
		return unlike(req*10_000+token, 40)
	}
	return l.text(req, token)
}

// script is the server.
func (l *late) script() truth.Script {
	l.cells = map[int]int{}
	return truth.Script{Fail: l.fail, Text: l.word, Gap: func(s truth.Step) time.Duration {
		if l.looping(s.Request) {
			return 15 * ms // a third more tok/s, as every draft is right
		}
		return 20 * ms
	}}
}

func always(int) bool { return true }

func TestLoopedOutput(t *testing.T) {
	cycle := unlike(1, 120)
	t.Run("I02 a loop that makes the server faster gives no speed", func(t *testing.T) { caseI02ALoopThatMakesTheServerFasterGivesNoSpeed(t, cycle) })
	t.Run("I02 a loop that another prompt's end ends", func(t *testing.T) { caseI02ALoopThatAnotherPromptsEndEnds(t, cycle) })
	t.Run("I02 a loop in the ramp restarts its stream alone", func(t *testing.T) { caseI02ALoopInTheRampRestartsItsStreamAlone(t, cycle) })
	t.Run("I02 one stream of eight", func(t *testing.T) { caseI02OneStreamOfEight(t, cycle) })
	t.Run("I03 what is a loop, in pieces of any size", caseI03WhatIsALoopInPiecesOfAnySize)
	t.Run("I03 the same by way of the stream", caseI03TheSameByWayOfTheStream)
	t.Run("I05 prompts are natural text", caseI05PromptsAreNaturalText)
}

func caseI02ALoopThatMakesTheServerFasterGivesNoSpeed(t *testing.T, cycle string) {
	t.Parallel()
	for _, channel := range []string{wire.Content, wire.Reasoning} {
		l := &late{loops: always, text: circling(cycle, 40), prefix: 60}
		s := l.script()
		s.Channel = func(int, int) string { return channel }
		w := bed{script: s}.measure(t)
		c := w.cell(0, 2)
		w.is(c, speedmatrix.StatusLooped, "2 of 2 streams repeated the same text")
		if c.Attempts != 3 || len(c.Loops) == 0 || c.Loops[0].PeriodChars != 120 || c.Loops[0].Channel != channel {
			t.Errorf("%d attempts, %+v", c.Attempts, c.Loops)
		}
		if m := report.Build(w.run).Measurements[0]; m.ShowsSpeed || strings.ContainsAny(m.Total, "0123456789") {
			t.Errorf("the table shows %q", m.Total)
		}
	}
}

func caseI02ALoopThatAnotherPromptsEndEnds(t *testing.T, cycle string) {
	t.Parallel()
	l := &late{loops: func(nth int) bool { return nth < 2 }, text: circling(cycle, 40), prefix: 60}
	w := bed{script: l.script()}.measure(t)
	c := w.valid("loops")
	w.exact(c)
	near(t, "total tok/s", c.TotalTokensPerSecond, 100)
	if c.Attempts != 2 {
		t.Errorf("%d attempts", c.Attempts)
	}
}

func caseI02ALoopInTheRampRestartsItsStreamAlone(t *testing.T, cycle string) {
	t.Parallel()
	// The second stream begins 10 s after the first, which loops meanwhile.
	l := &late{loops: func(nth int) bool { return nth == 0 }, text: circling(cycle, 40)}
	s := l.script()
	inner := s.Fail
	s.Stall = func(req, token int) time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		if nth, ok := l.cells[req]; ok && nth == 1 && token == 0 {
			return 10 * second
		}
		return 0
	}
	s.Fail = inner
	w := bed{script: s}.measure(t)
	c := w.valid()
	w.exact(c)
	if c.Attempts != 1 || c.Requests.Sent != 3 || len(c.Loops) != 1 {
		t.Errorf("%d attempts, %+v, %+v", c.Attempts, *c.Requests, c.Loops)
	}
}

func caseI02OneStreamOfEight(t *testing.T, cycle string) {
	t.Parallel()
	l := &late{loops: func(nth int) bool { return nth%8 == 3 }, text: circling(cycle, 40), prefix: 60}
	w := bed{script: l.script(), args: oneCell("0", "8")}.measure(t)
	c := w.valid("loops")
	w.exact(c)
}

func caseI03WhatIsALoopInPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	for _, x := range turns() {
		for _, size := range []int{1, 7, 256, 901, 1 << 20} {
			finding, found := look(x.text, slices.Repeat([]int{size}, 1+len(x.text)/size))
			if found != (x.period > 0) || found && finding.PeriodChars != x.period {
				t.Errorf("%s in pieces of %d: %v, period %d", x.name, size, found, finding.PeriodChars)
			}
		}
	}
}

func caseI03TheSameByWayOfTheStream(t *testing.T) {
	t.Parallel()
	for _, size := range []int{9, 33} {
		for _, x := range turns() {
			if n := utf8.RuneCountInString(x.text); n > 8000 || n/size > 500 || !strings.Contains(x.name, " times") {
				continue
			}
			pieces := cutRunes(x.text, size)
			l := &late{loops: always, text: func(req, token int) string {
				if token < 60 || token-60 >= len(pieces) {
					return unlike(req*10_000+token, 9) + "|"
				}
				return pieces[token-60]
			}}
			w := bed{script: l.script(), args: oneCell("0", "1", "--duration", "10s")}.measure(t)
			if c := w.cell(0, 1); (c.Status == speedmatrix.StatusLooped) != (x.period > 0) {
				t.Errorf("%s in pieces of %d: %s: %s", x.name, size, c.Status, c.Reason)
			}
		}
	}
}

func caseI05PromptsAreNaturalText(t *testing.T) {
	t.Parallel()
	s := cached()
	s.KeepPrompts = true
	b := bed{script: s, args: oneCell("8K", "2")}
	b.change = func(env *cli.Env) {
		i := slices.Index(env.Args, "--text")
		env.Args = slices.Delete(env.Args, i, i+2)
	}
	w := b.measure(t)
	w.exact(w.valid())
	if w.run.Method.Prompts != "distinct" {
		t.Errorf("the prompts are called %q", w.run.Method.Prompts)
	}
	words := map[string]bool{}
	for _, list := range w.answers("decode-8k-x2") {
		prompt := list[0].served.Prompt
		if _, found := look(prompt, []int{1 << 20}); found || repeats(prompt, 10) > 0 {
			t.Errorf("the prompt repeats itself %d times: %.80s…", repeats(prompt, 10), prompt)
		}
		for word := range strings.FieldsSeq(prompt) {
			words[word] = true
		}
	}
	if len(words) < 2500 {
		t.Errorf("only %d different words", len(words))
	}
}

// turn is a text and the length of its cycle, 0 where it is no loop.
type turn struct {
	name, text string
	period     int
}

// turns are texts on either side of the border of a loop: 4 cycles and 4,096 characters.
func turns() []turn {
	var numbered, growing, sections, table strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&numbered, "%d. the next thing to say\n", i+1)
		fmt.Fprintf(&growing, "%s\n", strings.Repeat("x", i%97+i/97))
	}
	for i := range 60 {
		fmt.Fprintf(&sections, "## Part\n\nThe same words in every part of it, but for one: %s.\n\n", unlike(i, 30))
		fmt.Fprintf(&table, "| row | %s | yes | no |\n", unlike(i, 60))
	}
	large := unlike(2, 1500)
	return []turn{
		{"4 characters 1,023 times", strings.Repeat("abc ", 1023), 0},
		{"4 characters 1,024 times", strings.Repeat("abc ", 1024), 4},
		{"1,500 characters 3 times", strings.Repeat(large, 3), 0},
		{"1,500 characters 4 times", strings.Repeat(large, 4), 1500},
		{"5 letters beyond ASCII 819 times", strings.Repeat("žluť ", 819), 0},
		{"5 letters beyond ASCII 820 times", strings.Repeat("žluť ", 820), 5},
		{"emoji", strings.Repeat("🙂🙃", 2048), 2},
		{"numbered lines", numbered.String()[:9000], 0},
		{"lines that grow", growing.String()[:9000], 0},
		{"sections that differ in a word", sections.String(), 0},
		{"rows of a table", table.String(), 0},
		{"white space", strings.Repeat(" \n\t ", 3000), 0},
		{"text behind a loop that was too short", strings.Repeat("abc ", 1000) + unlike(3, 4000), 0},
		{"a loop behind text", unlike(4, 3000) + strings.Repeat("over and over; ", 300), 15},
	}
}

// look feeds a text to a guard in pieces of those sizes, the rest at once.
func look(text string, sizes []int) (loop.Finding, bool) {
	guard := loop.NewGuard()
	rest := []byte(text)
	for _, size := range sizes {
		n := min(size, len(rest))
		guard.Write(0, rest[:n])
		rest = rest[n:]
	}
	guard.Write(0, rest)
	return guard.Finding()
}

// cutRunes cuts a text into pieces of so many characters.
func cutRunes(text string, size int) (pieces []string) {
	for runes := []rune(text); len(runes) > 0; runes = runes[min(size, len(runes)):] {
		pieces = append(pieces, string(runes[:min(size, len(runes))]))
	}
	return pieces
}

// A loop is found by its cycle and length, whatever the pieces it comes in, and is not found a character early.
func TestALoopDoesNotDependOnItsPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// The mark makes sure that the cycle is no cycle of a shorter one, and the start that the text before is no part of it.
		cycle := rapid.StringOfN(rapid.RuneFrom([]rune("abcdefgh éü你好🙂\n")), 0, 800, -1).Draw(rt, "cycle") + "§"
		period := utf8.RuneCountInString(cycle)
		need := max(4096, 4*period)
		runes := []rune(strings.Repeat(cycle, need/period+1))
		before := unlike(rapid.IntRange(0, 99).Draw(rt, "before"), rapid.IntRange(1, 5000).Draw(rt, "length")) + "¤"
		sizes := rapid.SliceOfN(rapid.IntRange(1, 1200), 0, 60).Draw(rt, "sizes")
		if _, found := look(before+string(runes[:need-1]), sizes); found {
			rt.Error("found a character early")
		}
		finding, found := look(before+string(runes[:need]), sizes)
		if !found || finding.PeriodChars != period {
			rt.Errorf("found %v, period %d, want %d", found, finding.PeriodChars, period)
		}
	})
}
