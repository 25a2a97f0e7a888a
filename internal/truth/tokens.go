package truth

import (
	"hash/fnv"
	"unicode"
	"unicode/utf8"

	"speedmatrix/internal/wire"
)

// The longest runs of one class that are one token, in characters.
const (
	lettersPerToken = 8
	digitsPerToken  = 3
	othersPerToken  = 4
)

type class uint8

const (
	letter class = iota
	digit
	space
	other
)

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsDigit(r):
		return digit
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// nextToken gives the length in bytes of the first token of a text that is not
// empty: at most 8 letters, 3 digits or 4 other characters of one class, with
// the single blank before them. So a text cut before a blank has as many
// tokens as its parts.
func nextToken(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	first := classOf(r)
	if first == space {
		after, n := utf8.DecodeRuneInString(text[size:])
		if r != ' ' || n == 0 || classOf(after) == space {
			return spaceRun(text)
		}
		return size + run(text[size:], classOf(after))
	}
	return run(text, first)
}

// run gives the length of the characters of a class at the start of text, up to a token's limit.
func run(text string, of class) int {
	limit := [...]int{letter: lettersPerToken, digit: digitsPerToken, space: othersPerToken, other: othersPerToken}[of]
	length := 0
	for range limit {
		r, size := utf8.DecodeRuneInString(text[length:])
		if size == 0 || classOf(r) != of {
			break
		}
		length += size
	}
	return length
}

// spaceRun is run for white space, which leaves the last blank to the word after it.
func spaceRun(text string) int {
	length := run(text, space)
	if length > 1 && text[length-1] == ' ' {
		if r, size := utf8.DecodeRuneInString(text[length:]); size > 0 && classOf(r) != space {
			return length - 1
		}
	}
	return length
}

// CountTokens is the number of tokens of a text, by the server's tokenizer.
func CountTokens(text string) int {
	n := 0
	for len(text) > 0 {
		text = text[nextToken(text):]
		n++
	}
	return n
}

// tokenIDs gives a made-up id for each token.
func tokenIDs(text string) []int {
	ids := []int{}
	for len(text) > 0 {
		n := nextToken(text)
		h := fnv.New32a()
		_, _ = h.Write([]byte(text[:n])) // a hash never fails
		ids = append(ids, int(h.Sum32()%49152))
		text = text[n:]
	}
	return ids
}

// promptTexts gives the texts of a prompt, to be counted each on its own.
func promptTexts(r *wire.Request) []string {
	if !r.API.Templated() {
		return []string{r.Prompt}
	}
	return messageTexts(r.Messages)
}

func messageTexts(messages []wire.Message) []string {
	texts := make([]string, len(messages))
	for i, m := range messages {
		texts[i] = m.Content
	}
	return texts
}

// measured is a prompt in tokens, with the chain of hashes of its whole blocks.
type measured struct {
	tokens int
	blocks []uint64
}

// FNV-1a, 64 bits.
const (
	hashStart uint64 = 14695981039346656037
	hashPrime uint64 = 1099511628211
)

// measure counts a prompt: template tokens in front, then the texts (or ids).
// Blocks are hashed only where a cache wants them.
func (s *Server) measure(r *wire.Request) measured {
	m := measured{}
	block, hash := s.script.BlockTokens, hashStart
	add := func(token string) {
		m.tokens++
		if !s.script.PrefixCache {
			return
		}
		for i := range len(token) {
			hash = (hash ^ uint64(token[i])) * hashPrime
		}
		hash = (hash ^ 0xff) * hashPrime // a border that no UTF-8 text contains
		if m.tokens%block == 0 {
			m.blocks = append(m.blocks, hash)
		}
	}
	if r.API.Templated() {
		for range s.script.TemplateTokens {
			add("\x00")
		}
	}
	for _, id := range r.PromptIDs {
		add(string(rune(id)))
	}
	for _, text := range promptTexts(r) {
		for len(text) > 0 {
			n := nextToken(text)
			add(text[:n])
			text = text[n:]
		}
	}
	return m
}

// prefixCache knows the blocks of all prompts read so far.
type prefixCache map[uint64]struct{}

// lookup gives how many tokens of a prompt are there, in whole blocks. As in
// vLLM at least the last token is always read again.
func (c prefixCache) lookup(m measured, block int) int {
	n := 0
	for _, h := range m.blocks {
		if _, ok := c[h]; !ok {
			break
		}
		n++
	}
	return min(n, max(m.tokens-1, 0)/block) * block
}

func (c prefixCache) insert(m measured) {
	for _, h := range m.blocks {
		c[h] = struct{}{}
	}
}

// words are the texts of Word: a blank and at most five letters each.
var words = [...]string{
	" about", " above", " added", " after", " again", " air", " all", " also", " an", " and", " are", " arm",
	" as", " at", " away", " back", " base", " be", " been", " best", " black", " blue", " body", " book",
	" both", " box", " but", " by", " call", " came", " can", " care", " case", " cast", " cause", " city",
	" clear", " close", " cold", " cloth", " come", " could", " count", " cut", " dark", " day", " deep", " did",
	" do", " does", " done", " door", " down", " draw", " drawn", " each", " early", " earth", " east", " easy",
	" end", " even", " ever", " every", " eye", " face", " fact", " fall", " far", " farm", " fast", " few",
	" field", " fine", " fire", " first", " five", " fly", " food", " foot", " for", " form", " found", " four",
	" free", " from", " full", " game", " gave", " get", " girl", " give", " go", " gold", " good", " great",
	" green", " grow", " had", " half", " hand", " hard", " has", " have", " he", " head", " hear", " heat",
	" help", " her", " here", " high", " him", " his", " hold", " home",
}

// Word is the default text of a token: a blank and a short word, one token by
// CountTokens, drawn from the request's and the token's number so that nothing repeats.
func Word(req, token int) string {
	x := uint64(req)<<32 ^ uint64(token)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return words[(x^x>>31)%uint64(len(words))]
}
