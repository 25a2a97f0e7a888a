package prompt

import (
	"context"
	"fmt"
	"math"
	"unicode/utf8"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

const (
	mostCounts   = 6     // of one fit; each is a request to the server
	tolerance    = 0.005 // of the wanted tokens
	leastTokens  = 2     // that the tolerance always allows
	leastApart   = 8     // tokens between two tries that tell the density
	leastDensity = 0.25  // characters per token that any text has
	mostDensity  = 64
	usualDensity = 4.2 // characters per token of English where none is known
)

// Counter counts the tokens of a whole prompt (head and tail) as the server
// would see it, template included.
type Counter func(ctx context.Context, prompt string) (int, error)

// FitRequest says which head is wanted and how long.
type FitRequest struct {
	Head          HeadID
	Tokens        int     // of the whole prompt, tail and template included
	CharsPerToken float64 // of heads, known so far; 0: 4.2
	Overhead      int     // tokens of template and tail
	Count         Counter // nil: by the ratio alone
}

// Fitted is a head of a wanted length.
type Fitted struct {
	Head   string
	Tokens int // of the whole prompt as counted; 0 unknown
}

// Fit gives the head for a prompt of f.Tokens tokens. Without a counter its
// length follows from CharsPerToken. With one, the prompt (the head and tail 0)
// is counted at most 6 times until it is within 0.5 %, or 2 tokens where that
// is more. If no head that ends with a word has that many (a word can have 6
// tokens, which matters below 1,000 tokens), or the counter never agrees, the
// nearest one is given: look at Tokens. A library that is too short, or a prompt without
// room for a head, is an error of kind usage.
func (w *Writer) Fit(ctx context.Context, f FitRequest) (Fitted, error) {
	if f.CharsPerToken <= 0 {
		f.CharsPerToken = usualDensity
	}
	if f.Tokens <= f.Overhead {
		return Fitted{}, &speedmatrix.Error{
			Kind: speedmatrix.KindUsage,
			What: fmt.Sprintf("a prompt of %s tokens has no room for text: template and instruction alone take %s",
				unit.Count(f.Tokens), unit.Count(f.Overhead)),
			Next: "Choose longer contexts, or context 0 for a prompt without a head.",
		}
	}
	chars := max(1, int(math.Round(float64(f.Tokens-f.Overhead)*f.CharsPerToken)))
	s := &search{writer: w, request: f, density: f.CharsPerToken}
	if f.Count == nil {
		if err := s.enough(chars); err != nil {
			return Fitted{}, err
		}
		return Fitted{Head: w.Head(f.Head, chars)}, nil
	}
	return s.run(ctx, chars)
}

// search looks for the length in characters that has the wanted tokens.
type search struct {
	writer  *Writer
	request FitRequest

	density      float64 // characters per token, by the tries so far
	below, above try     // longest one too short, shortest one too long
	last         try
}

// try is a length and its tokens; without characters it was not made.
type try struct{ chars, tokens int }

func (s *search) run(ctx context.Context, chars int) (Fitted, error) {
	f := s.request
	allowed := max(leastTokens, int(tolerance*float64(f.Tokens)))
	tail := s.writer.Tail(f.Head, 0)
	best, bestMiss, head := Fitted{}, math.MaxInt, ""
	for range mostCounts {
		if err := s.enough(chars); err != nil {
			return Fitted{}, err
		}
		var ok bool
		if head, chars, ok = s.another(head, chars); !ok {
			break
		}
		tokens, err := f.Count(ctx, head+tail)
		if err != nil {
			return Fitted{}, fmt.Errorf("counting the tokens of a prompt: %w", err)
		}
		if miss := max(tokens-f.Tokens, f.Tokens-tokens); miss < bestMiss {
			best, bestMiss = Fitted{Head: head, Tokens: tokens}, miss
		}
		if bestMiss <= allowed {
			break
		}
		s.learn(try{chars, tokens}, utf8.RuneCountInString(head))
		chars = s.next()
	}
	return best, nil
}

// another writes the head of the length to try, a word longer or shorter, as
// needed, if it came out as the last one did. It is not ok when no head is left
// between those known to be too short and too long.
func (s *search) another(last string, chars int) (head string, length int, ok bool) {
	step := 1
	if s.last.tokens > s.request.Tokens {
		step = -1
	}
	for ; s.between(chars); chars += step {
		if head = s.writer.Head(s.request.Head, chars); head != last {
			return head, chars, true
		}
	}
	return "", 0, false
}

// between tells whether a length can be had and is not known yet to be too
// short or too long.
func (s *search) between(chars int) bool {
	most := s.writer.room(s.request.Head)
	if s.above.chars > 0 {
		most = s.above.chars - 1
	}
	return chars > s.below.chars && chars <= most
}

// learn takes what a try tells. The head may be shorter than the length tried,
// for it ends with a word: all lengths from its own on give the same head.
func (s *search) learn(now try, length int) {
	if now.tokens < s.request.Tokens && now.chars > s.below.chars {
		s.below = now
	}
	if now.tokens > s.request.Tokens && (length < s.above.chars || s.above.chars == 0) {
		s.above = try{length, now.tokens}
	}
	density, text := s.density, now.tokens-s.request.Overhead
	switch apart := now.tokens - s.last.tokens; {
	case s.last.chars > 0 && max(apart, -apart) >= leastApart:
		density = float64(now.chars-s.last.chars) / float64(apart)
	case s.last.chars == 0 && text > 0:
		density = float64(now.chars) / float64(text)
	}
	s.density = min(max(density, leastDensity), mostDensity)
	s.last = now
}

// next is the length to try: between the nearest tries on both sides, else
// from the last one on by the density.
func (s *search) next() int {
	want := s.request.Tokens
	if s.below.chars > 0 && s.above.chars > 0 {
		share := float64(want-s.below.tokens) / float64(s.above.tokens-s.below.tokens)
		guess := s.below.chars + int(math.Round(share*float64(s.above.chars-s.below.chars)))
		return max(min(guess, s.above.chars-1), s.below.chars+1)
	}
	return max(1, s.last.chars+int(math.Round(float64(want-s.last.tokens)*s.density)))
}

// enough is an error when the library has less than chars characters.
func (s *search) enough(chars int) error {
	f, l := s.request, s.writer.library
	if room := s.writer.room(f.Head); chars <= room {
		return nil
	}
	return &speedmatrix.Error{
		Kind: speedmatrix.KindUsage,
		What: fmt.Sprintf("the text %q is too short for a prompt of %s tokens: its %s characters are about %s tokens",
			l.Name(), unit.Count(f.Tokens), unit.Count(l.Chars()), unit.Count(int(float64(l.Chars())/s.density))),
		Next: "Name a longer text, or leave out contexts of that length. A text is never repeated within a prompt, for that would make the prompt easy.",
	}
}
