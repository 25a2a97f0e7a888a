package unit

import "strings"

// Nearest gives the candidate most like word, for "did you mean": the fewest
// changed, added, dropped or swapped letters, whatever the case; the first of
// equals. It is empty when none is near, which is more than a third of the
// word's letters changed, or when word is one of the candidates.
func Nearest(word string, candidates []string) string {
	target := []rune(strings.ToLower(word))
	best, fewest := "", max(1, len(target)/3)+1
	for _, candidate := range candidates {
		if candidate == word {
			return ""
		}
		letters := []rune(strings.ToLower(candidate))
		if d := distance(target, letters); d < fewest && d < len(letters) {
			best, fewest = candidate, d
		}
	}
	return best
}

// distance is the optimal string alignment distance: insert, delete, change
// and swap of neighbours cost one each.
func distance(a, b []rune) int {
	before, previous, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		previous[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(previous[j]+cost, previous[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, previous, row = previous, row, before
	}
	return previous[len(b)]
}
