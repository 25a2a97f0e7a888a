package simserver

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"speedmatrix/internal/prompt"
)

// anyText draws texts with all that a tokenizer meets.
func anyText() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOf(rapid.OneOf(
		rapid.SampledFrom([]string{" ", "  ", "\n", "\n\n\n", "         ", " 1900", "12345", "don't", " house", " Unbelievable", "?—", "äöü", "漢字", "🦜", " \t", ".\n  x"}),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }),
	)), func(parts []string) string { return strings.Join(parts, "") })
}

func TestTokensAreTheirTextWhateverItIs(t *testing.T) {
	words := vocabulary()
	rapid.Check(t, func(r *rapid.T) {
		text := anyText().Draw(r, "text")
		if got := words.join(words.encode(nil, text)); got != text {
			r.Fatalf("%q came back as %q", text, got)
		}
	})
}

func TestATextCutWhereATokenEndsHasTheTokensOfItsParts(t *testing.T) {
	words := vocabulary()
	rapid.Check(t, func(r *rapid.T) {
		ids := words.encode(nil, anyText().Draw(r, "text"))
		n := rapid.IntRange(0, len(ids)).Draw(r, "n")
		if got := words.encode(nil, words.join(ids[:n])); !slices.Equal(got, ids[:n]) {
			r.Fatalf("the first %d tokens of %q are %q as a text of their own", n, words.pieces(ids), words.pieces(got))
		}
	})
}

// pieces are the texts of tokens.
func (t *tokenizer) pieces(ids []uint32) []string {
	var list []string
	for _, id := range ids {
		list = append(list, t.text(id))
	}
	return list
}

func TestTokensOfPromptsAreAsLongAsThoseOfRealModels(t *testing.T) {
	library, err := prompt.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	text := prompt.NewWriter(library, "x", prompt.ModeDistinct).Head(prompt.HeadID{Context: 1}, 400_000)
	perToken := float64(utf8.RuneCountInString(text)) / float64(len(vocabulary().encode(nil, text)))
	if perToken < 4.2 || perToken > 4.4 {
		t.Errorf("%.2f characters a token, want about 4.3", perToken)
	}
}

func TestTheVocabularyIsFixed(t *testing.T) {
	words := vocabulary()
	if words.size() != 19257 {
		t.Errorf("%d tokens: a changed vocabulary changes every count", words.size())
	}
	seen := map[string]bool{}
	for _, text := range words.texts {
		if seen[text] {
			t.Errorf("%q is there twice", text)
		}
		seen[text] = true
	}
	got := words.pieces(words.encode(nil, "The Café cost 12345 marks — didn't it?\n\n  Yes."))
	want := []string{"The", " Ca", "f", "é", " cost", " ", "123", "45", " marks", " —", " didn", "'", "t", " it", "?", "\n\n", "  ", "Yes", "."}
	if !slices.Equal(got, want) {
		t.Errorf("tokens %q, want %q", got, want)
	}
}

func TestAnswersAreReadableVariedAndTheirOwnTokens(t *testing.T) {
	pages, err := passages()
	if err != nil {
		t.Fatal(err)
	}
	words := vocabulary()
	texts := map[string]bool{}
	for seed := range uint64(20) {
		a := answer{words: words, pages: pages, seed: seed}
		a.token(2000)
		text := words.join(a.tokens[:2000])
		if !utf8.ValidString(text) || strings.TrimSpace(text) == "" {
			t.Errorf("seed %d: %q", seed, text)
		}
		if !slices.Equal(words.encode(nil, text), a.tokens[:2000]) {
			t.Errorf("seed %d: the text has other tokens than were generated", seed)
		}
		texts[text[:80]] = true
		again := answer{words: words, pages: pages, seed: seed}
		if again.token(1500) != a.tokens[1500] {
			t.Errorf("seed %d: token 1500 is another one when it is asked for first", seed)
		}
	}
	if len(texts) != 20 {
		t.Errorf("20 answers begin in %d ways", len(texts))
	}
	for id := range words.size() {
		if id >= firstBlank && !utf8.ValidString(words.text(uint32(id))) {
			t.Errorf("token %d splits a character", id)
		}
	}
}

func TestAnAnswerEndsWithAPassage(t *testing.T) {
	pages, err := passages()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		a := answer{words: vocabulary(), pages: pages, seed: seed}
		n := a.natural()
		a.token(n - 1)
		for !a.endsPassage(n) {
			n++
			a.token(n - 1)
		}
		text := a.words.join(a.tokens[:n])
		if n < shortestAnswer || !strings.ContainsAny(text[len(text)-1:], ".!?") {
			t.Errorf("seed %d: %d tokens, ending in %q", seed, n, text[max(0, len(text)-40):])
		}
	}
}
