package bench

import (
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/loop"
)

const guardEvery = 250 * time.Millisecond

// guard watches one stream's text for loops.
type guard struct {
	follower *load.Follower
	request  int32
	g        *loop.Guard
	loops    int
	reported bool
}

// lookForLoops feeds what the streams wrote since the last look to their guards.
func (w *watcher) lookForLoops() {
	for i := range w.guards {
		g := &w.guards[i]
		for piece, ok := g.follower.Next(); ok; piece, ok = g.follower.Next() {
			if g.g == nil || piece.Request != g.request {
				g.g, g.request, g.reported = loop.NewGuard(), piece.Request, false
			}
			if g.reported {
				continue
			}
			g.g.Write(uint8(piece.Channel), piece.Text)
			if f, found := g.g.Finding(); found {
				g.reported = true
				g.loops++
				w.loopEvidence = append(w.loopEvidence, speedmatrix.LoopEvidence{Stream: i, Request: int(piece.Request),
					Channel: speedmatrix.Channel(f.Channel).String(), PeriodChars: f.PeriodChars, Cycles: f.Cycles, Excerpt: f.Excerpt})
			}
		}
	}
}
