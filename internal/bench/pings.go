package bench

import (
	"fmt"
	"slices"
	"time"

	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// The pings that tell what is usual: those at the start, and at most the last ones that an empty server answered.
const (
	firstPings = 5
	mostPings  = 31
)

// pings are the times that a server without gauges took for one token when it was empty.
type pings struct{ usual []float64 }

// empty takes in a ping and says whether the server is empty by it: it took no more than 20 % and a millisecond longer
// than is usual. The usual time is a median, since the least of many is an accident that hardly any other comes near. The
// first pings come before any load.
func (p *pings) empty(took time.Duration) bool {
	ns := float64(took)
	if len(p.usual) < firstPings {
		p.usual = append(p.usual, ns)
		return len(p.usual) == firstPings && p.near(ns)
	}
	if !p.near(ns) {
		return false
	}
	p.usual = append(p.usual, ns)
	p.usual = slices.Delete(p.usual, 0, max(len(p.usual)-mostPings, 0))
	return true
}

func (p *pings) near(ns float64) bool {
	return ns <= 1.2*stats.Median(p.usual)+float64(time.Millisecond)
}

// words say why the server does not count as empty.
func (p *pings) words(took time.Duration) string {
	return fmt.Sprintf("one token took %s, when it is empty %s", unit.Fine(took), unit.Fine(time.Duration(stats.Median(p.usual))))
}
