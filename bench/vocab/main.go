// Command vocab makes the simulated engine's vocabulary from the texts that
// prompts are made of: the commonest words, the commonest beginnings and parts
// of the others, and signs beyond ASCII. The list decides every token
// count, so it is made once and changes only on purpose.
//
//	go run ./bench/vocab > internal/simserver/vocab.txt
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"speedmatrix/internal/prompt"
)

// The sizes of the list. With them a token of the texts is 4.3 characters.
const (
	wholeWords = 14000
	wordParts  = 3200
	longest    = 14 // bytes of a word or part
)

// roles open the messages of a chat and are tokens of their own.
var roles = []string{"assistant", "system", "tool", "user"}

// piece is what the tokenizer cuts from: a word or a run of other signs, with the blank before it.
var piece = regexp.MustCompile(` ?(?:[\p{L}\p{M}]+|[^\p{L}\p{M}0-9 \n]+)`)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "vocab:", err)
		os.Exit(1)
	}
}

func write() error {
	library, err := prompt.Embedded()
	if err != nil {
		return err
	}
	text := prompt.NewWriter(library, "vocabulary", prompt.ModeDistinct).Head(prompt.HeadID{}, library.Chars())
	out := bufio.NewWriter(os.Stdout)
	for _, token := range list(text) {
		fmt.Fprintln(out, token)
	}
	return out.Flush()
}

// list gives the tokens, none twice.
func list(text string) []string {
	pieces := map[string]int{}
	for _, p := range piece.FindAllString(text, -1) {
		pieces[p]++
	}
	words := commonest(pieces, wholeWords)
	chosen := map[string]bool{}
	for _, w := range words {
		chosen[w] = true
	}
	parts := map[string]int{}
	for p, n := range pieces {
		if !chosen[p] {
			countParts(parts, p, n)
		}
	}
	tokens := slices.Concat(roles, words, commonest(parts, wordParts), signs(text))
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// countParts counts the beginnings of a word and the shorter runs within it.
func countParts(parts map[string]int, word string, n int) {
	for from := range word {
		for to := range word[from:] {
			part := word[from : from+to]
			if size := utf8.RuneCountInString(part); size > 1 && (size <= 4 || from == 0 && size <= 6) {
				parts[part] += n
			}
		}
	}
}

// signs are the characters beyond ASCII, each by itself: those of the texts,
// and the letters of Latin, Greek and Cyrillic.
func signs(text string) []string {
	all := map[string]bool{}
	for r := rune(0xa1); r <= 0x45f; r++ {
		if unicode.IsPrint(r) {
			all[string(r)] = true
		}
	}
	for _, r := range text {
		if r >= utf8.RuneSelf {
			all[string(r)] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// commonest are the most frequent texts of more than one byte.
func commonest(counts map[string]int, n int) []string {
	var all []string
	for text := range counts {
		if len(text) > 1 && len(text) <= longest {
			all = append(all, text)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	return all[:min(n, len(all))]
}
