package load

import (
	"context"
	"time"

	"speedmatrix/internal/stamp"
)

// watch ends requests that have gone beyond a limit, until ctx ends. It looks
// once a second, so that a stream needs no timer per read.
func watch(ctx context.Context, clock *stamp.Clock, limits Limits, streams []*stream) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := clock.Now()
		for _, s := range streams {
			if l := s.current.Load(); l != nil && !l.over.Load() {
				l.check(now, limits)
			}
		}
	}
}

// check ends the request if it has gone beyond a limit. Before the first text
// an event proves nothing: some servers open the stream long before they begin.
func (l *live) check(now int64, limits Limits) {
	if l.first.Load() == 0 {
		since := max(l.start, l.writtenNS(), l.headers.Load())
		if now-since > int64(limits.Header) {
			l.cancel(errTimeout)
		}
		return
	}
	if now-max(l.first.Load(), l.event.Load()) > int64(limits.Idle) {
		l.cancel(errIdle)
	}
}
