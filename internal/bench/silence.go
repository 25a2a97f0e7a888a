package bench

import (
	"context"
	"time"

	"speedmatrix/internal/load"
)

// A server is lost when nothing was heard of it and so many connections in a row, a second apart, could not be opened.
const (
	lostAfter  = 3
	lostPause  = time.Second
	silentFrom = 2 // scrapes that fail in a row
)

// connect opens a connection and closes it.
func (d *Driver) connect(ctx context.Context) error {
	streams, err := d.o.Client.Open(ctx, 1, func(int, bool) load.Request { return load.Request{} })
	if err == nil {
		streams.Stop()
	}
	return err
}

// silence says why the server does not tell what it runs, while an empty one is waited for, and whether it can be
// reached at all.
func (w *watcher) silence(ctx context.Context, g Gauges) (words, lost string) {
	if step := w.p.Step(); step != StepDrain && step != StepEmpty {
		return "", ""
	}
	failed, failure := w.d.scraper.failing()
	switch {
	case w.pingErr != nil:
		words = w.pingErr.Error()
	case failed >= silentFrom:
		words = failure
	default:
		w.unreached, w.lost = 0, ""
		if !g.Known {
			words = w.pingWords
		}
		return words, ""
	}
	if now := w.d.Now(); now-w.triedNS >= int64(lostPause) {
		w.triedNS = now
		w.tryReach(ctx)
	}
	if g.Known && failed < mostFailures {
		words = "" // the last figures still speak
	}
	return words, w.lost
}

// tryReach opens one connection; the time that this takes counts.
func (w *watcher) tryReach(ctx context.Context) {
	err := w.d.connect(ctx)
	if err == nil || ctx.Err() != nil {
		w.unreached, w.lost = 0, ""
		return
	}
	if w.unreached++; w.unreached >= lostAfter {
		w.lost = err.Error()
	}
}
