package fidelity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// finalCount changes the count of the usage that comes without choices.
func finalCount(change func(n int) int) func(req, event int, data string) []string {
	return func(_, _ int, own string) []string {
		var n int
		head, tail, ok := strings.Cut(own, `"completion_tokens":`)
		if !ok || !strings.Contains(own, `"choices":[]`) {
			return []string{own}
		}
		if _, err := fmt.Sscan(strings.TrimRight(tail[:min(len(tail), 12)], "}, "), &n); err != nil {
			return []string{own}
		}
		return []string{fmt.Sprintf(`%s"completion_tokens":%d}}`, head, change(n))}
	}
}

func TestTimeBetweenTokens(t *testing.T) {
	t.Run("C01 the time to first token is no gap", func(t *testing.T) {
		t.Parallel()
		_, c := measured(t, truth.Script{PrefillBase: 900 * ms}, oneCell("0", "1", "--max-output", "64")...)
		near(t, "longest gap", c.EventGap.Max, 20)
		near(t, "time between tokens", c.TimeBetweenTokens.Max, 20)
	})
	t.Run("C02 a parser that holds tokens back", func(t *testing.T) {
		t.Parallel()
		_, c := measured(t, truth.Script{TokensPerEvent: 7}, oneCell("0", "2", "--max-output", "140")...)
		near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
		near(t, "event gap", c.EventGap.P50, 140)
		near(t, "tokens per event", c.TokensPerEvent, 7)
		near(t, "per request tok/s", c.PerRequestTokensPerSecond, 50)
	})
	t.Run("C04 the role makes no interval", func(t *testing.T) {
		t.Parallel()
		_, c := measured(t, truth.Script{PrefillBase: 50 * ms, RoleFirst: true, RoleEarly: 45 * ms}, oneCell("0", "2", "--max-output", "64")...)
		near(t, "shortest gap", c.EventGap.Min, 20)
		near(t, "longest gap", c.EventGap.Max, 20)
	})
	t.Run("C05 usage and [DONE] come a second after the last token", func(t *testing.T) {
		t.Parallel()
		// The usage at the end counts the end token too, which has no text.
		for _, more := range []int{0, 1, 3} {
			w := bed{script: truth.Script{FinalDelay: second, StopAfter: func(truth.Call) int { return 80 }, Reshape: finalCount(func(n int) int { return n + more })},
				args: oneCell("0", "1", "--max-output", "100", "--duration", "10s")}.measure(t)
			c := w.cell(0, 1)
			w.verified()
			near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
			near(t, "per request tok/s", c.PerRequestTokensPerSecond, 50)
			near(t, "longest gap", c.EventGap.Max, 20)
			for _, list := range w.answers(c.Key()) {
				for _, a := range list[:len(list)-1] {
					if *a.row.LastNS != a.served.LastNS() {
						t.Errorf("request %d ended its text %v late", a.row.Request, time.Duration(*a.row.LastNS-a.served.LastNS()))
					}
				}
			}
		}
	})
	t.Run("C07 the denominator is tokens, without the first", func(t *testing.T) {
		t.Parallel()
		w, c := measured(t, truth.Script{PrefillBase: 400 * ms, Gap: every(50 * ms)}, oneCell("0", "1", "--max-output", "64")...)
		near(t, "time between tokens", c.TimeBetweenTokens.P50, 50)
		for _, list := range w.answers(c.Key()) {
			r := list[0].row
			near(t, "(last − first) ÷ (n − 1)", new(float64(*r.LastNS-*r.FirstNS)/63/1e6), 50)
		}
	})
	t.Run("C08 a stall of 200 ms in one of a hundred gaps", func(t *testing.T) {
		t.Parallel()
		_, c := measured(t, truth.Script{Stall: func(_, token int) time.Duration {
			if token%100 == 99 {
				return 200 * ms
			}
			return 0
		}}, oneCell("0", "2", "--duration", "22s")...)
		near(t, "median gap", c.EventGap.P50, 20)
		near(t, "longest gap", c.EventGap.Max, 220)
		if mean := *c.TimeBetweenTokens.P50; mean < 21.5 || mean > 22.5 {
			t.Errorf("the time between tokens is %v ms, the stalls make it 22 in the long run", mean)
		}
	})
	t.Run("C10 one token has no time between tokens", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{PrefillBase: 40 * ms, StopAfter: func(truth.Call) int { return 1 }}, args: oneCell("0", "1")}.measure(t)
		c := w.valid()
		w.exact(c)
		unknown(t, "per request tok/s", c.PerRequestTokensPerSecond)
		if c.TimeBetweenTokens != nil || c.EventGap != nil {
			t.Errorf("a time between tokens of %+v, gaps of %+v", c.TimeBetweenTokens, c.EventGap)
		}
		if row := w.printedRow("Valid"); strings.Contains(row, " 0 ms") || strings.Contains(row, " 0.0") {
			t.Errorf("what is not known is shown as 0: %q", row)
		}
	})
	t.Run("C11 events of ten tokens, two of them in each read", func(t *testing.T) {
		t.Parallel()
		_, c := measured(t, truth.Script{Gap: every(4 * ms), TokensPerEvent: 10, Framing: truth.Framing{EventsPerWrite: 2}}, oneCell("0", "2")...)
		near(t, "time between tokens", c.TimeBetweenTokens.P50, 4)
		near(t, "shortest gap", c.EventGap.Min, 0)
		near(t, "longest gap", c.EventGap.Max, 80)
		near(t, "tokens per event", c.TokensPerEvent, 10)
		near(t, "events per read", c.Client.EventsPerRead, 2)
		near(t, "coalesced share", c.Client.CoalescedShare, 1)
	})
}

// printedRow is the first line of the tables that holds a text.
func (w *world) printedRow(text string) string {
	_, tables, _ := strings.Cut(w.out.String(), "All measurements")
	for line := range strings.Lines(tables) {
		if strings.Contains(line, text) {
			return line
		}
	}
	w.t.Errorf("no row with %q:\n%s", text, w.out.String())
	return ""
}

func TestOddTimesBetweenTokens(t *testing.T) {
	for name, s := range map[string]truth.Script{
		"tokens that come in pairs":              {Gap: func(s truth.Step) time.Duration { return time.Duration(s.Token%2) * 40 * ms }},
		"all tokens of a second at once":         {Framing: truth.Framing{EventsPerWrite: 50}},
		"every other token without text":         {Channel: func(_, token int) string { return []string{"", truth.Hidden}[token%2] }},
		"a long run of tokens without text":      {Channel: func(_, token int) string { return map[bool]string{true: truth.Hidden}[token > 30 && token < 60] }},
		"a gap that grows with the context":      {Gap: func(s truth.Step) time.Duration { return 10*ms + time.Duration(s.Context)*50*time.Microsecond }},
		"fifty tokens within a microsecond":      {Gap: func(s truth.Step) time.Duration { return 20 + time.Duration(s.Token%50/49)*second }},
		"more tokens in an event than there are": {TokensPerEvent: 33},
		"an engine of speculative steps":         {Burst: func(req, token int) int { return 1 + (req+token*7)%5 }},
		"a step for all streams at once":         {Lockstep: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bed{script: s, args: oneCell("0", "2", "--max-output", "100")}.measure(t)
			c := w.cell(0, 2)
			if c.Status != speedmatrix.StatusValid {
				t.Fatalf("%s: %s", c.Status, c.Reason)
			}
			w.verified()
			w.exact(c)
		})
	}
}

// Tokens may come in events of any size, with any stalls, on any channel, shown or not: the times are the server's.
func TestAnyTokensPerEventGiveTheSameTimes(t *testing.T) {
	check(t, 8, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 40).Draw(rt, "sizes")
		stalls := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 40).Draw(rt, "stalls")
		channels := rapid.SliceOfN(rapid.SampledFrom([]string{wire.Content, wire.Content, wire.Reasoning, truth.Hidden}), 1, 40).Draw(rt, "channels")
		s := truth.Script{
			Usage: truth.UsageEvery, // whatever the first answers look like
			Gap:   every(time.Duration(rapid.IntRange(5_000, 40_000).Draw(rt, "gap")) * time.Microsecond),
			Burst: func(req, token int) int { return sizes[(req+token)%len(sizes)] },
			Stall: func(req, token int) time.Duration {
				return time.Duration(stalls[(req*3+token)%len(stalls)]/40) * 70 * ms
			},
			Channel: func(req, token int) string { return channels[(req+token/9)%len(channels)] },
			Framing: truth.Framing{EventsPerWrite: rapid.IntRange(1, 4).Draw(rt, "events per write")},
		}
		w := bed{script: s, args: oneCell("0", "4", "--max-output", "300")}.measure(t)
		w.t = rt
		c := w.cell(0, 4)
		if c.Status != speedmatrix.StatusValid {
			rt.Skip() // nothing was shown, or not in time
		}
		w.verified()
		w.exact(c)
		w.oneStamp(c)
	})
}
