package probe

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix/internal/memnet"
)

// slotScrape is what a server says at one scrape, and what the count must be then.
type slotScrape struct {
	finished int // of /metrics
	slots    string
	want     int
}

// running, idle and unused are slots of one server.
func running(task, n int) string {
	return fmt.Sprintf(`[{"id":0,"is_processing":true,"id_task":%d,"next_token":[{"n_decoded":%d}]}]`, task, n)
}

func idle(task, n int) string {
	return fmt.Sprintf(`[{"id":0,"is_processing":false,"id_task":%d,"next_token":[{"n_decoded":%d}]}]`, task, n)
}

const unused = `[{"id":0,"is_processing":false}]`

func TestTokensBetweenTheLastScrapeAndTheEndOfATaskAreMadeGood(t *testing.T) {
	tests := []struct {
		name    string
		scrapes []slotScrape
	}{
		{"the next task follows at once", []slotScrape{{100, running(1, 17), 17}, {100, running(1, 49), 49}, {170, running(2, 3), 73}, {170, running(2, 30), 100}}},
		{"the slot keeps the task's last count", []slotScrape{{100, running(1, 17), 17}, {170, idle(1, 70), 70}, {170, idle(1, 70), 70}, {170, running(2, 5), 75}}},
		{"the slot forgets the task", []slotScrape{{100, running(1, 17), 17}, {170, unused, 70}, {170, running(2, 5), 75}}},
		{"a task that no scrape saw", []slotScrape{{100, running(1, 17), 17}, {190, running(3, 4), 94}}},
		{"a task that was cut moves nothing", []slotScrape{{100, running(1, 17), 17}, {100, running(2, 3), 20}, {100, running(2, 5), 22}, {140, running(3, 1), 58}}},
		{"it ended between the two answers", []slotScrape{{100, running(1, 17), 17}, {100, unused, 17}, {170, running(2, 5), 75}}},
		{"tasks that ended before the first scrape", []slotScrape{{100, idle(1, 70), 70}, {100, idle(1, 70), 70}, {130, idle(2, 30), 100}}},
		{"the server was started again", []slotScrape{{100, running(1, 17), 17}, {0, running(1, 2), 19}, {20, running(2, 1), 38}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				var now atomic.Pointer[slotScrape]
				now.Store(&slotScrape{100, unused, 0})
				f := llamaFake(propsLlama)
				f.mux.HandleFunc("GET /slots", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, now.Load().slots) })
				f.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprintf(w, "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total %d\n", now.Load().finished)
				})
				s := found(t, n, f, nil)
				for i, scrape := range tt.scrapes {
					now.Store(&scrape)
					if row := s.Scrape(t.Context()); row.Error != "" || *row.GenerationTokens != float64(scrape.want) {
						t.Fatalf("scrape %d: %v tokens (%s), want %d", i, *row.GenerationTokens, row.Error, scrape.want)
					}
				}
			})
		})
	}
}

// slotServer is llama.cpp as a counter sees it: slots, and a counter that moves when a task ends.
type slotServer struct {
	slots    []slotTask
	finished int
	truth    int
	next     int
	cuts     bool // a task was cut
}

type slotTask struct {
	task, decoded int
	running       bool
}

// step lets something happen in a slot.
func (s *slotServer) step(t *rapid.T, mayCut bool) {
	slot := &s.slots[rapid.IntRange(0, len(s.slots)-1).Draw(t, "slot")]
	switch action := rapid.IntRange(0, 5).Draw(t, "step"); {
	case !slot.running:
		s.next++
		*slot = slotTask{task: s.next, running: true}
	case action == 0:
		slot.running = false
		s.finished += slot.decoded
	case action == 1 && mayCut:
		slot.running, s.cuts = false, true
	default:
		n := rapid.IntRange(1, 40).Draw(t, "tokens")
		slot.decoded += n
		s.truth += n
	}
}

func (s *slotServer) states() (states []slotState) {
	for i := range s.slots {
		slot := s.slots[i]
		state := slotState{ID: i, Processing: slot.running}
		if slot.task > 0 {
			state.Task, state.Next = &slot.task, fmt.Appendf(nil, `[{"n_decoded":%d}]`, slot.decoded)
		}
		states = append(states, state)
	}
	return states
}

// Whatever tasks do between the scrapes and between the two answers of one: the count never falls and never
// exceeds the truth, and where no task is cut it is exact as soon as both answers speak of the same instant twice.
func TestTheSettledSlotCountIsExactUnlessTasksAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c slotCounter
		c.start()
		server := &slotServer{slots: make([]slotTask, rapid.IntRange(1, 4).Draw(t, "slots"))}
		mayCut := rapid.Bool().Draw(t, "may cut")
		last := 0.0
		scrape := func(between int) float64 {
			finished := server.finished
			for range between {
				server.step(t, mayCut)
			}
			got := c.count(server.states())
			got += c.settle(float64(finished))
			if got < last || got > float64(server.truth) {
				t.Fatalf("count %v after %v, the truth is %d", got, last, server.truth)
			}
			last = got
			return got
		}
		scrape(0)
		for range rapid.IntRange(1, 30).Draw(t, "scrapes") {
			for range rapid.IntRange(0, 8).Draw(t, "steps") {
				server.step(t, mayCut)
			}
			scrape(rapid.IntRange(0, 2).Draw(t, "between"))
		}
		scrape(0)
		if got := scrape(0); !server.cuts && got != float64(server.truth) {
			t.Fatalf("count %v at rest, the truth is %d", got, server.truth)
		}
	})
}
