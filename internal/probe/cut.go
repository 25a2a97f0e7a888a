package probe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/unit"
)

const (
	// cutTokens is what the request asks for that is cut: more than any server makes before the cut.
	cutTokens = 1024
	cutPrompt = "Write a long story about a harbour."
	cutPoll   = 50 * time.Millisecond
	cutLimit  = 10 * time.Second
)

// tryCut closes the connection of a request that runs, and sees by the server's figures
// whether it ends there. It is not tried where others use the server, where it costs money,
// or where nothing tells what runs.
func (s *Server) tryCut(ctx context.Context) {
	if s.options.Shared || s.Hosted || !s.Gauges() || s.late() {
		return
	}
	if running, waiting, known := s.Busy(ctx); !known || running+waiting > 0 {
		return
	}
	cut, ran := s.cutOnceItRuns(ctx)
	if !ran {
		return
	}
	for since := time.Now(); ctx.Err() == nil; {
		if running, waiting, known := s.Busy(ctx); known && running+waiting == 0 {
			// The time stands in the source: it differs from run to run, the fact does not.
			took := max(time.Since(cut).Truncate(cutPoll), cutPoll)
			s.Facts.Engine.Set(speedmatrix.EngineAbort, "by closing the connection", "tried, within "+unit.Fine(took))
			return
		}
		if time.Since(since) >= cutLimit {
			s.Facts.Engine.Set(speedmatrix.EngineAbort, "not by closing the connection", "tried")
			s.warn("runs_on", "a request whose connection was closed still ran %s later: the server works on for nobody between cells", cutLimit)
			return
		}
		if pause(ctx, cutPoll) != nil {
			return
		}
	}
}

// cutOnceItRuns gives when the connection was closed; ran is false when the request ended, or
// the limit came, before the server's figures showed it.
func (s *Server) cutOnceItRuns(ctx context.Context) (cut time.Time, ran bool) {
	requesting, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	var log *load.Log
	var request sync.WaitGroup
	request.Go(func() {
		defer close(ended)
		log, _ = s.send(requesting, "trial", s.request(cutPrompt, cutTokens))
	})
	for since := time.Now(); !ran && time.Since(since) < cutLimit; {
		running, _, _ := s.Busy(ctx)
		if ran = running > 0; ran {
			break
		}
		select {
		case <-ended:
		case <-time.After(cutPoll):
			continue
		}
		break
	}
	cut = time.Now()
	stop()
	request.Wait()
	return cut, ran && (log == nil || log.Class == speedmatrix.RequestCut)
}

// tryReuse sends one prompt twice in a row: cached tokens of the second show a prefix cache.
// None show nothing, since a cache may keep whole blocks only.
func (s *Server) tryReuse(ctx context.Context) {
	if _, known := s.Facts.Engine.Bool(speedmatrix.EnginePrefixCaching); known || !s.Habits.CachedTokens {
		return
	}
	for range 2 {
		if s.late() {
			return
		}
		again, err := s.send(ctx, "trial", s.request(longerPrompt(), 1))
		if err != nil {
			return
		}
		if cached, prompt := again.Usage.Cached, again.Usage.Prompt; prompt > 0 && cached*2 > prompt {
			s.Facts.Engine.Set(speedmatrix.EnginePrefixCaching, true, fmt.Sprintf("tried, %d of %d tokens", cached, prompt))
			return
		}
	}
}

// drainFact says how it is seen that nothing runs any more.
func (s *Server) drainFact() {
	engine := s.Facts.Engine
	switch {
	case s.slots.on && s.metrics.waiting != "":
		engine.Set(speedmatrix.EngineDrain, "running and waiting at 0", "GET /slots, /metrics")
	case s.slots.on:
		engine.Set(speedmatrix.EngineDrain, "running at 0; waiting is not told", "GET /slots")
	case s.metrics.running != "" && s.metrics.waiting != "":
		engine.Set(speedmatrix.EngineDrain, "running and waiting at 0", "GET "+s.metrics.at())
	case s.metrics.running != "":
		engine.Set(speedmatrix.EngineDrain, "running at 0; waiting is not told", "GET "+s.metrics.at())
	}
}
