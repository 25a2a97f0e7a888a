package prompt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/loop"
)

var unpacked = sync.OnceValues(Embedded)

func embedded(t testing.TB) *Library {
	t.Helper()
	l, err := unpacked()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheEmbeddedTextsAreLargeCleanAndVaried(t *testing.T) {
	l := embedded(t)
	if l.Chars() < 8_000_000 || len(l.SHA256()) != 64 || l.Name() == "" {
		t.Errorf("%q: %d characters, hash %q", l.Name(), l.Chars(), l.SHA256())
	}
	if len(packed) > 3_000_000 {
		t.Errorf("%d bytes packed, more than the 3 MB set aside", len(packed))
	}
	unwanted := []string{"gutenberg", "copyright", "http:", "https:", "www.", "world english", "transcriber", " etext", "e-text", "  ", "\t", "\n"}
	for _, p := range l.paragraphs {
		if !utf8.ValidString(p.text) || p.chars < 200 || p.chars > longest {
			t.Errorf("paragraph of %d characters: %.100q", p.chars, p.text)
		}
		lower := strings.ToLower(p.text)
		for _, part := range unwanted {
			if strings.Contains(lower, part) {
				t.Errorf("%q occurs in %.100q", part, p.text)
			}
		}
	}
}

func TestTheGuardFindsNoLoopInTheEmbeddedTexts(t *testing.T) {
	g := loop.NewGuard()
	for _, p := range embedded(t).paragraphs {
		g.Write(0, []byte(p.text))
	}
	if f, ok := g.Finding(); ok {
		t.Errorf("%+v", f)
	}
}

func TestAHeadFollowsFromSaltAndNameAlone(t *testing.T) {
	l := embedded(t)
	h := HeadID{Context: 16384, Stream: 3, Attempt: 1}
	again, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	a, b := NewWriter(l, "salt", ModeDistinct), NewWriter(again, "salt", ModeDistinct)
	if a.Head(h, 50_000) != b.Head(h, 50_000) {
		t.Error("two writers of one salt wrote different heads")
	}
	const want = "Bankanku"
	if got, _, _ := strings.Cut(a.Head(h, 100), " "); got != want {
		t.Errorf("the first word is %q, in earlier runs it was %q: old runs cannot be made again", got, want)
	}
}

func TestHeadsDifferFromTheFirstTokensOn(t *testing.T) {
	l := embedded(t)
	seen := map[string]string{}
	for _, salt := range []string{"", "a", "b"} {
		w := NewWriter(l, salt, ModeDistinct)
		for _, context := range []int{8192, 16384, 131072} {
			for attempt := range 3 {
				for stream := range 1024 {
					name := fmt.Sprint(salt, context, attempt, stream)
					start := w.opening(HeadID{context, stream, attempt})[:16]
					if other, ok := seen[start]; ok {
						t.Errorf("%s and %s both begin with %q", name, other, start)
					}
					seen[start] = name
				}
			}
		}
	}
}

func TestNeighbouringStreamsDifferInTheFirstSyllable(t *testing.T) {
	w := NewWriter(embedded(t), "x", ModeDistinct)
	rapid.Check(t, func(t *rapid.T) {
		h := HeadID{rapid.IntRange(0, 1<<20).Draw(t, "context"), rapid.IntRange(0, 5000).Draw(t, "stream"), rapid.IntRange(0, 9).Draw(t, "attempt")}
		seen := map[string]bool{}
		for range 128 {
			seen[syllable.FindString(w.name(h))] = true
			h.Stream++
		}
		if len(seen) != 128 {
			t.Fatalf("%d first syllables among 128 streams", len(seen))
		}
	})
}

// syllable is the first one of a word of the openings: a closing n, l or r
// belongs to it unless a vowel follows.
var syllable = regexp.MustCompile(`^[A-Z](?:an[^aeiou]|el[^aeiou]|or[^aeiou]|[aeiou])`)

func TestDifferentNumbersAreSpeltDifferently(t *testing.T) {
	seen := make(map[string]uint64, 1<<21)
	for n := range uint64(1 << 21) {
		s := word(n)
		if other, ok := seen[s]; ok {
			t.Fatalf("%d and %d are both %q", n, other, s)
		}
		seen[s] = n
	}
}

func TestALongerHeadBeginsWithTheShorterOne(t *testing.T) {
	l := embedded(t)
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{ModeDistinct, ModeShared}).Draw(t, "mode")
		w := NewWriter(l, rapid.String().Draw(t, "salt"), mode)
		h := HeadID{rapid.IntRange(0, 1<<20).Draw(t, "context"), rapid.IntRange(0, 2000).Draw(t, "stream"), 0}
		short, long := rapid.IntRange(1, 20_000).Draw(t, "short"), rapid.IntRange(1, 40_000).Draw(t, "long")
		short, long = min(short, long), max(short, long)
		a, b := w.Head(h, short), w.Head(h, long)
		if !strings.HasPrefix(b, a) || a == "" {
			t.Fatalf("%d characters are not the beginning of %d", short, long)
		}
		if n := utf8.RuneCountInString(a); short >= 20 && (n > short || n < short-40) {
			t.Fatalf("wanted %d characters, got %d", short, n)
		}
		last, _ := utf8.DecodeLastRuneInString(a)
		if rest := []rune(b[len(a):]); len(rest) > 0 && unicode.IsLetter(last) && unicode.IsLetter(rest[0]) {
			t.Fatalf("cut inside a word: %q | %.20q", a[max(0, len(a)-20):], string(rest))
		}
	})
}

func TestAHeadRepeatsNoPassage(t *testing.T) {
	l := embedded(t)
	for _, mode := range []Mode{ModeDistinct, ModeSharedPrefix} {
		head := NewWriter(l, "repeat", mode).Head(HeadID{262_144, 5, 0}, 1_200_000)
		const passage = 200
		seen := map[string]bool{}
		for i := 0; i+passage <= len(head); i++ {
			// Of two equal passages of 200 bytes the first words inside are
			// equal too: every word's next 100 bytes are enough to look at.
			if i > 0 && head[i-1] != ' ' {
				continue
			}
			part := head[i : i+passage/2]
			if seen[part] {
				t.Fatalf("%s: occurs twice: %q", mode, part)
			}
			seen[part] = true
		}
	}
}

func TestStreamsShareWhatTheModeSays(t *testing.T) {
	l := embedded(t)
	const chars = 40_000
	one, two := HeadID{8192, 1, 0}, HeadID{8192, 2, 0}
	for mode, shared := range map[Mode][2]int{
		ModeDistinct: {0, 0}, ModeShared: {chars, chars}, ModeSharedPrefix: {chars/2 - 30, chars / 2},
	} {
		w := NewWriter(l, "s", mode)
		a, b := w.Head(one, chars), w.Head(two, chars)
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		same = utf8.RuneCountInString(a[:same])
		if mode == ModeShared && a == b {
			same = chars
		}
		if same < shared[0] || same > shared[1]+len(between)+1 {
			t.Errorf("%s: the first %d of %d characters are the same", mode, same, chars)
		}
		again := w.Head(HeadID{8192, 1, 1}, chars)
		if again[:16] == a[:16] {
			t.Errorf("%s: another attempt begins with the same %q", mode, again[:16])
		}
	}
}

func TestTailsAndShortPromptsDifferAndKeepTheirLength(t *testing.T) {
	w := NewWriter(embedded(t), "tails", ModeDistinct)
	shorts, longestShort := map[string]bool{}, 0
	for stream := range 200 {
		tails := map[string]bool{}
		for n := range 100 {
			tail, short := w.Tail(HeadID{0, stream, 0}, n), w.Short(HeadID{0, stream, 0}, n)
			if tails[tail] || shorts[short] {
				t.Fatalf("twice: %q or %q", tail, short)
			}
			tails[tail], shorts[short] = true, true
			longestShort = max(longestShort, len(short))
			if words := len(strings.Fields(tail)); words < 30 || words > 50 || !strings.HasPrefix(tail, between) {
				t.Fatalf("%d words: %q", words, tail)
			}
		}
	}
	if longestShort > 200 {
		t.Errorf("a short prompt has %d characters", longestShort)
	}
}

// tokens is a deterministic tokenizer: a token for every 4 letters of a word
// or part of it, and one for each other sign but the blank.
func tokens(s string) int {
	n, letters := 0, 0
	for _, r := range s {
		switch {
		case r == ' ':
			letters = 0
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			if letters%4 == 0 {
				n++
			}
			letters++
		default:
			n++
			letters = 0
		}
	}
	return n
}

func TestFitMeetsTheWantedTokensInAtMostSixCounts(t *testing.T) {
	l := embedded(t)
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{ModeDistinct, ModeShared, ModeSharedPrefix}).Draw(t, "mode")
		w := NewWriter(l, rapid.StringN(1, 3, 9).Draw(t, "salt"), mode)
		f := FitRequest{
			Head:          HeadID{rapid.IntRange(256, 30_000).Draw(t, "context"), rapid.IntRange(0, 99).Draw(t, "stream"), 0},
			CharsPerToken: rapid.Float64Range(2, 6).Draw(t, "characters per token"),
			Overhead:      rapid.IntRange(0, 120).Draw(t, "overhead"),
		}
		f.Tokens = f.Head.Context
		template := rapid.IntRange(0, 40).Draw(t, "template")
		counts := 0
		f.Count = func(_ context.Context, prompt string) (int, error) {
			counts++
			return tokens(prompt) + template, nil
		}
		got, err := w.Fit(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		// A last word can have 6 tokens; in a short prompt that is more than 0.5 %.
		allowed := max(8, int(0.005*float64(f.Tokens)))
		miss := func(n int) int { return max(n-f.Tokens, f.Tokens-n) }
		if counts > 6 || miss(got.Tokens) > allowed {
			t.Fatalf("wanted %d tokens, got %d in %d counts", f.Tokens, got.Tokens, counts)
		}
		if n := tokens(got.Head+w.Tail(f.Head, 0)) + template; n != got.Tokens {
			t.Fatalf("says %d tokens, has %d", got.Tokens, n)
		}
	})
}

func TestFitMeetsTwoTokensOfAShortPromptWhoseOverheadIsKnown(t *testing.T) {
	w := NewWriter(embedded(t), "short", ModeDistinct)
	missed := 0
	for stream := range 500 {
		h := HeadID{400, stream, 0}
		f := FitRequest{Head: h, Tokens: 400, CharsPerToken: 3.4, Overhead: tokens(w.Tail(h, 0))}
		f.Count = func(_ context.Context, prompt string) (int, error) { return tokens(prompt), nil }
		got, err := w.Fit(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if max(got.Tokens-400, 400-got.Tokens) > 2 {
			missed++
		}
	}
	if missed > 10 {
		t.Errorf("%d of 500 heads miss 400 tokens by more than 2", missed)
	}
}

func TestFitWithoutACounterGoesByTheRatio(t *testing.T) {
	w := NewWriter(embedded(t), "s", ModeDistinct)
	got, err := w.Fit(t.Context(), FitRequest{Tokens: 4096, Overhead: 96, CharsPerToken: 4.5})
	if n := utf8.RuneCountInString(got.Head); err != nil || got.Tokens != 0 || math.Abs(float64(n)-18_000) > 30 {
		t.Errorf("%d characters, %d tokens, %v; want 18000, 0", n, got.Tokens, err)
	}
}

func TestFitSaysWhenTheTextIsTooShort(t *testing.T) {
	l, err := FromText("notes.txt", []byte(strings.Repeat("Some words of a short text. ", 40)))
	if err != nil {
		t.Fatal(err)
	}
	count := func(_ context.Context, prompt string) (int, error) { return tokens(prompt), nil }
	for name, f := range map[string]FitRequest{
		"by ratio":                   {Tokens: 8192, CharsPerToken: 4},
		"by counting":                {Tokens: 8192, CharsPerToken: 4, Count: count},
		"found too short in between": {Tokens: 600, CharsPerToken: 1, Count: count},
	} {
		_, err := NewWriter(l, "s", ModeDistinct).Fit(t.Context(), f)
		e, ok := errors.AsType[*speedmatrix.Error](err)
		if !ok || e.Kind != speedmatrix.KindUsage || !strings.Contains(e.What, `"notes.txt" is too short`) ||
			!strings.Contains(e.What, "1,119 characters") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewWriter(l, "s", ModeDistinct).Fit(t.Context(), FitRequest{Tokens: 50, Overhead: 50}); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
		t.Errorf("no room for a head: %v", err)
	}
}

func TestFitPassesOnTheErrorOfACounter(t *testing.T) {
	broken := errors.New("no answer")
	f := FitRequest{Tokens: 1000, Count: func(context.Context, string) (int, error) { return 0, broken }}
	if _, err := NewWriter(embedded(t), "s", ModeDistinct).Fit(t.Context(), f); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestAHeadBeyondTheLibraryEndsWithIt(t *testing.T) {
	l, err := FromText("two", []byte("First one.\n\nSecond one."))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(l, "s", ModeDistinct)
	head := w.Head(HeadID{}, 10_000)
	if strings.Count(head, "First") != 1 || strings.Count(head, "Second") != 1 || len(head) != w.room(HeadID{}) {
		t.Errorf("got %q, room for %d", head, w.room(HeadID{}))
	}
}

func TestTextWithoutBlanksIsCutToo(t *testing.T) {
	for name, text := range map[string]string{
		"Chinese": strings.Repeat("天地玄黃宇宙洪荒日月盈昃辰宿列張", 200), "one endless word": strings.Repeat("x", 3000),
	} {
		l, err := FromText(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for chars := 200; chars < 300; chars += 7 {
			head := NewWriter(l, "s", ModeDistinct).Head(HeadID{}, chars)
			if n := utf8.RuneCountInString(head); n > chars || n < chars-longestWord-1 {
				t.Errorf("%s: wanted %d characters, got %d", name, chars, n)
			}
		}
	}
}

func TestAUsersTextKeepsItsLines(t *testing.T) {
	text := "\ufefffunc main() {\r\n\tprint()  \r\n}\r\n \r\n\r\nfunc main() {\n\tprint()\n}\n\nend"
	l, err := FromText("code", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.paragraphs) != 2 || l.paragraphs[0].text != "func main() {\n\tprint()\n}" || l.paragraphs[1].text != "end" || l.Chars() != 27 {
		t.Errorf("got %d characters in %+v", l.Chars(), l.paragraphs)
	}
}

func TestLongParagraphsOfAUserAreCut(t *testing.T) {
	for name, text := range map[string]string{
		"sentences": strings.Repeat("One sentence stands here. ", 1000),
		"lines":     strings.Repeat("a line\n", 3000),
		"no border": strings.Repeat("é", 9000),
	} {
		l, err := FromText(name, []byte(strings.TrimSpace(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range l.paragraphs {
			if len(p.text) > longest || !utf8.ValidString(p.text) {
				t.Errorf("%s: a paragraph of %d bytes", name, len(p.text))
			}
		}
		if name == "no border" && l.Chars() < 2000 {
			t.Errorf("%s: %d characters are left", name, l.Chars())
		}
	}
}

func TestATextThatCannotBeUsedIsAUsageError(t *testing.T) {
	for name, text := range map[string]string{"empty": " \n\n\t", "binary": "\xff\xfe\x00"} {
		if _, err := FromText(name, []byte(text)); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkHeadOf256K(b *testing.B) {
	w := NewWriter(embedded(b), "s", ModeDistinct)
	for b.Loop() {
		w.Head(HeadID{262_144, 1, 0}, 1_100_000)
	}
}
