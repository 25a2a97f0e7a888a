package probe

import (
	"context"
	"encoding/json"
	"maps"

	"speedmatrix"
)

// slotsCounter names the count made from llama.cpp's slots.
const slotsCounter = "/slots n_decoded"

// slotCounter makes one counter that never falls out of the slots' own: n_decoded of a
// slot starts at 0 with each task. A task that is gone counts with the last value seen.
// The tokens between that and its end are made good from the counter in /metrics, which
// moves by all tokens of a task when it ends; without /metrics, and for tasks that were
// cut, they are missed: the more often it is scraped, the fewer.
type slotCounter struct {
	on bool // the server has /slots

	// turn holds its one token while a scrape is under way: two answers counted in the
	// wrong order would look like a slot that began again.
	turn  chan struct{}
	ended float64
	slots map[int]slotSeen

	// finished is the counter of /metrics at the last scrape, nil before the first.
	finished *float64
	// gone sums up the last values of the tasks found gone since the last settling; owed is
	// what earlier ones left that finished has not moved by yet.
	gone, owed float64
}

// slotSeen is what a slot last said of its task, and whether the task has ended.
type slotSeen struct {
	task, decoded int
	over          bool
}

// slotState is one entry of /slots. A slot that was never used has no task.
type slotState struct {
	ID          int             `json:"id"`
	Processing  bool            `json:"is_processing"`
	Speculative *bool           `json:"speculative"`
	Task        *int            `json:"id_task"`
	Next        json.RawMessage `json:"next_token"`
}

// decoded is the number of tokens generated in the slot's task. Newer servers give a
// list of one element, older the element itself.
func (s *slotState) decoded() (int, bool) {
	type next struct {
		Decoded *int `json:"n_decoded"`
	}
	var list []next
	if json.Unmarshal(s.Next, &list) != nil || len(list) == 0 {
		var one next
		if len(s.Next) == 0 || json.Unmarshal(s.Next, &one) != nil {
			return 0, false
		}
		list = []next{one}
	}
	if list[0].Decoded == nil {
		return 0, false
	}
	return *list[0].Decoded, true
}

// start makes the counter ready for scrapes.
func (c *slotCounter) start() {
	c.on, c.turn, c.slots = true, make(chan struct{}, 1), map[int]slotSeen{}
}

// count takes the slots as they are now and gives the tokens generated so far. The
// caller has the turn.
func (c *slotCounter) count(slots []slotState) float64 {
	for i := range slots {
		old := c.slots[slots[i].ID]
		decoded, ok := slots[i].decoded()
		if slots[i].Task == nil || !ok {
			if !slots[i].Processing {
				c.slots[slots[i].ID] = c.over(old)
			}
			continue
		}
		now := slotSeen{task: *slots[i].Task, decoded: decoded}
		// The same task with fewer tokens is another one behind the same number.
		if old.task != now.task || now.decoded < old.decoded {
			c.ended += float64(c.over(old).decoded)
			old.over = false
		}
		if now.over = old.over; !slots[i].Processing {
			now = c.over(now)
		}
		c.slots[slots[i].ID] = now
	}
	total := c.ended
	for seen := range maps.Values(c.slots) {
		total += float64(seen.decoded)
	}
	return total
}

// over notes that a task has ended.
func (c *slotCounter) over(t slotSeen) slotSeen {
	if !t.over {
		c.gone += float64(t.decoded)
	}
	t.over = true
	return t
}

// settle makes good what was not seen of tasks that ended, and gives by how much the
// count rises. finished is the counter of /metrics from before the slots were read: a
// task that it has moved by is gone from the slots, one that is gone from them has moved
// it by the next scrape, unless it was cut.
func (c *slotCounter) settle(finished float64) (more float64) {
	before := c.finished
	c.finished = &finished
	gone := c.gone
	c.gone = 0
	if before == nil || finished < *before {
		c.owed = 0
		return 0
	}
	moved := finished - *before
	switch owed := c.owed + gone; {
	case moved >= owed:
		c.owed, more = 0, moved-owed
	default:
		c.owed = min(gone, owed-moved)
	}
	c.ended += more
	return more
}

// readSlots asks for the slots; servers may have the route switched off.
func (s *Server) readSlots(ctx context.Context) (slots []slotState, err error) {
	a, err := s.http.get(ctx, "/slots")
	if err != nil {
		return nil, err
	}
	if !a.decode(&slots) {
		return nil, &statusError{route: "/slots", status: a.status, words: a.words()}
	}
	return slots, nil
}

// scrapeSlots reads /slots, after /metrics where the server has that too.
func (s *Server) scrapeSlots(ctx context.Context, row *speedmatrix.ServerRow) error {
	select {
	case s.slots.turn <- struct{}{}:
		defer func() { <-s.slots.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.metrics.tells() != "" {
		if err := s.scrapeMetrics(ctx, row); err != nil {
			return err
		}
	}
	slots, err := s.readSlots(ctx)
	if err != nil {
		return err
	}
	var running float64
	for _, slot := range slots {
		if slot.Processing {
			running++
		}
	}
	tokens := s.slots.count(slots)
	if row.GenerationTokens != nil {
		tokens += s.slots.settle(*row.GenerationTokens)
	}
	// What /slots says rules: it is live where /metrics is not.
	row.Running, row.GenerationTokens = &running, &tokens
	return nil
}
