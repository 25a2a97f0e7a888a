// Package loop finds out that a model repeats itself: that the newest text of
// a channel is one passage over and over, character for character.
//
// The rule: the text ends with at least 4 identical cycles that together have
// at least 4,096 characters, the cycle has at most 32,768 characters, and it
// is not white space alone. Characters are Unicode code points. Whether text
// arrives in one piece or byte by byte makes no difference.
package loop

import (
	"strings"
	"unicode/utf8"
)

// The rule in numbers; all but the first in characters.
const (
	MinCycles = 4
	MinChars  = 4096
	MaxPeriod = 32_768
	History   = MinCycles * MaxPeriod // 131,072: what is kept of a channel
)

// excerptChars bounds Finding.Excerpt.
const excerptChars = 200

// Finding is a confirmed loop.
type Finding struct {
	Channel     uint8  // the channel it was seen in
	PeriodChars int    // characters of one cycle, the shortest that fits
	Cycles      int    // full cycles at the moment of confirmation
	Excerpt     string // the cycle as it ended last, at most 200 characters of it
}

// Guard watches the text of one request, each channel on its own. It keeps at
// most the last 131,072 characters of a channel, and memory grows with the
// text up to that. Not for use from several goroutines at once.
type Guard struct {
	tracks  []channelTrack
	finding Finding
	found   bool
}

type channelTrack struct {
	channel uint8
	track   *track
}

// NewGuard gives a guard that has seen nothing.
func NewGuard() *Guard { return &Guard{} }

// Write feeds the next piece of UTF-8 text of a channel; pieces may split
// characters anywhere. After a finding it does nothing: the first one counts.
func (g *Guard) Write(channel uint8, text []byte) {
	if g.found || len(text) == 0 {
		return
	}
	t := g.of(channel)
	for _, b := range text {
		if !t.push(b) {
			continue
		}
		if f, ok := t.confirm(); ok {
			f.Channel = channel
			g.finding, g.found = f, true
			g.tracks = nil
			return
		}
	}
}

// Finding gives the first loop that was confirmed, in any channel.
func (g *Guard) Finding() (Finding, bool) { return g.finding, g.found }

func (g *Guard) of(channel uint8) *track {
	for _, c := range g.tracks {
		if c.channel == channel {
			return c.track
		}
	}
	t := newTrack()
	g.tracks = append(g.tracks, channelTrack{channel, t})
	return t
}

// describe makes a finding of a cycle of bytes and the bytes of whole
// characters that repeat it.
func describe(cycle []byte, tail int) Finding {
	cycle = cycle[:primitive(cycle)]
	f := Finding{
		PeriodChars: utf8.RuneCount(cycle),
		Cycles:      tail / len(cycle),
	}
	excerpt, n := string(cycle), 0
	for i := range excerpt {
		if n == excerptChars {
			excerpt = excerpt[:i]
			break
		}
		n++
	}
	f.Excerpt = strings.ToValidUTF8(excerpt, "\uFFFD")
	return f
}

// primitive is the length of the shortest part of which cycle is a repetition
// (Knuth, Morris, Pratt).
func primitive(cycle []byte) int {
	border := make([]int, len(cycle))
	for i := 1; i < len(cycle); i++ {
		k := border[i-1]
		for k > 0 && cycle[i] != cycle[k] {
			k = border[k-1]
		}
		if cycle[i] == cycle[k] {
			k++
		}
		border[i] = k
	}
	if p := len(cycle) - border[len(cycle)-1]; len(cycle)%p == 0 {
		return p
	}
	return len(cycle)
}
