package simserver

import "strings"

// stopFinder looks for stop strings in a growing text and keeps only as much
// of it as a string that has begun can need.
type stopFinder struct {
	stops []string
	tail  string
	past  int // bytes of the text before tail
}

// longestStop is the length in bytes of the longest string.
func longestStop(stops []string) int {
	n := 0
	for _, s := range stops {
		n = max(n, len(s))
	}
	return n
}

// add takes more text and gives where the first stop string begins, and which it is.
func (f *stopFinder) add(text string) (at int, stop string, found bool) {
	f.tail += text
	at = len(f.tail)
	for _, s := range f.stops {
		if i := strings.Index(f.tail, s); i >= 0 && i < at {
			at, stop, found = i, s, true
		}
	}
	if found {
		return f.past + at, stop, true
	}
	if keep := longestStop(f.stops) - 1; len(f.tail) > keep {
		f.past += len(f.tail) - keep
		f.tail = f.tail[len(f.tail)-keep:]
	}
	return 0, "", false
}

// skip takes text in which nothing is looked for.
func (f *stopFinder) skip(text string) { f.past += len(text) }
