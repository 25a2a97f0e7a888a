package predict

import (
	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/engine"
)

// charsPerToken is the length that the text of an event is given.
const charsPerToken = 4

// call is one request of the client's and what came back.
type call struct {
	row   speedmatrix.RequestRow
	id    int64
	text  tokens
	max   int
	times []int64
	ended func(*call) // told when the request has ended by itself, may be nil
}

// send writes a request at a time, now or soon: it goes through the front end into the engine.
func (w *world) send(c *call, written int64) {
	c.id = int64(len(w.calls))
	w.calls = append(w.calls, c)
	c.row.PlannedNS, c.row.WrittenNS, c.row.SendNS = written, &written, new(int64)
	c.row.Class = string(speedmatrix.RequestCut)
	w.at(w.desk.Arrive(written, c.text.length), func() { w.arrive(c) })
}

// arrive hands the request to the scheduler, unless it was cut before.
func (w *world) arrive(c *call) {
	if w.calls[c.id] == nil {
		return
	}
	err := w.engine.Add(engine.Request{ID: c.id, Hashed: c.text.hashed(), MaxTokens: c.max})
	if err == nil {
		return
	}
	c.row.Class, c.row.HTTPStatus, c.row.Error = string(speedmatrix.RequestFailed), 400, err.Error()
	c.end(w)
}

// token takes in one token of the answer.
func (c *call) token(w *world, o engine.Output) {
	now := w.now
	c.times = append(c.times, now)
	if len(c.times) == 1 {
		prompt, cached := int32(c.text.length), int32(o.Cached)
		c.row.HeadersNS, c.row.FirstNS, c.row.FirstVisibleNS = &now, &now, &now
		c.row.PromptTokens, c.row.CachedTokens = &prompt, &cached
	}
	if o.Finish == engine.FinishNone {
		return
	}
	completion := int32(len(c.times))
	c.row.Class, c.row.FinishReason, c.row.CompletionTokens = string(speedmatrix.RequestCompleted), o.Finish.String(), &completion
	c.row.HTTPStatus = 200
	c.end(w)
}

// end notes that the request has ended by itself.
func (c *call) end(w *world) {
	c.close(w)
	if c.ended != nil {
		c.ended(c)
	}
}

// cut ends the request from our side.
func (w *world) cut(c *call) {
	if c == nil || w.calls[c.id] == nil {
		return
	}
	w.engine.Abort(c.id)
	if len(c.times) > 0 {
		c.row.HTTPStatus = 200
	}
	c.close(w)
}

func (c *call) close(w *world) {
	w.calls[c.id] = nil
	now := w.now
	c.row.EndedNS = &now
	if n := len(c.times); n > 0 {
		last := c.times[n-1]
		c.row.LastNS = &last
	}
}

// recorded gives the request as a driver would have recorded it: an event per token with a cumulative count.
func (c *call) recorded(counts []int32) bench.Recorded {
	row := speedmatrix.EventRow{Request: c.row.Request, Stream: c.row.Stream, TextLength: charsPerToken, Channel: speedmatrix.ChannelContent.String()}
	return bench.Recorded{Row: c.row, Events: func(yield func(speedmatrix.EventRow) bool) {
		for i, at := range c.times {
			row := row
			row.TimeNS, row.Tokens = at, &counts[i]
			if !yield(row) {
				return
			}
		}
	}}
}

// counting gives the numbers 1, 2, … up to n.
func counting(n int) []int32 {
	counts := make([]int32, n)
	for i := range counts {
		counts[i] = int32(i + 1)
	}
	return counts
}
