package simserver

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"

	"speedmatrix/internal/prompt"
)

// The lengths of answers that end by themselves, in tokens: drawn evenly on a
// logarithmic scale, then to the end of the passage.
const (
	shortestAnswer = 48
	answerOctaves  = 4.5
)

// The passages that answers are made of, in bytes.
const (
	shortestPassage = 120
	longestPassage  = 1600
)

// prose is one line that begins as a sentence does and ends one.
var prose = regexp.MustCompile(`^[A-Z][a-z ’'][^\n]*[.!?]$`)

// passages are the paragraphs of prose in the prompts' library.
var passages = sync.OnceValues(func() ([]string, error) {
	library, err := prompt.Embedded()
	if err != nil {
		return nil, fmt.Errorf("the texts of the answers: %w", err)
	}
	text := prompt.NewWriter(library, "answers", prompt.ModeDistinct).Head(prompt.HeadID{}, library.Chars())
	var list []string
	for p := range strings.SplitSeq(text, "\n\n") {
		if len(p) >= shortestPassage && len(p) <= longestPassage && prose.MatchString(p) {
			list = append(list, p)
		}
	}
	return list, nil
})

// answer is the text of one choice: passages in an order that its seed decides,
// as tokens. Tokens once made stay, because the engine asks for them again.
type answer struct {
	words *tokenizer
	pages []string
	seed  uint64

	tokens []uint32
	page   uint64
	ends   []int // the number of tokens at the end of each passage so far
}

// token is the n-th token, from 0.
func (a *answer) token(n int) uint32 {
	for n >= len(a.tokens) {
		a.turn()
	}
	return a.tokens[n]
}

// turn adds a passage and the empty line after it.
func (a *answer) turn() {
	a.page++
	text := a.pages[mix(a.seed, a.page)%uint64(len(a.pages))]
	a.tokens = a.words.encode(a.tokens, text)
	a.ends = append(a.ends, len(a.tokens))
	a.tokens = a.words.encode(a.tokens, "\n\n")
}

// natural is the length that the model would give the answer, at least; it then ends with a passage.
func (a *answer) natural() int {
	return int(shortestAnswer * math.Exp2(answerOctaves*uniform(a.seed, 0)))
}

// endsPassage says whether a passage ends after n tokens, all of them made.
func (a *answer) endsPassage(n int) bool {
	for len(a.ends) > 1 && a.ends[0] < n {
		a.ends = a.ends[1:]
	}
	return len(a.ends) > 0 && a.ends[0] == n
}

// mix is a hash of two numbers.
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// uniform is a number in [0, 1) that two numbers decide.
func uniform(a, b uint64) float64 { return float64(mix(a, b)>>11) / (1 << 53) }

// hashTokens is a hash of a prompt.
func hashTokens(h uint64, ids []uint32) uint64 {
	for _, id := range ids {
		h = mix(h, uint64(id))
	}
	return h
}
