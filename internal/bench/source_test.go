package bench_test

import (
	"slices"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/truth"
)

// final asks for the usage at the end alone, ends for requests that end by themselves.
func final() dialect.Params { return dialect.Params{Model: "truth", IncludeUsage: true} }

func TestEachSourceOfTokensCountsRight(t *testing.T) {
	short := func(truth.Call) int { return 100 }
	tests := []struct {
		name   string
		s      setting
		source speedmatrix.TokenSource
		// slack is how far the sum may be off, in tokens; lower says that it may be any less.
		slack float64
		lower bool
	}{
		{name: "a count in every event", source: speedmatrix.TokensPerEventUsage,
			s: setting{script: truth.Script{TokensPerEvent: 3}}},
		{name: "a count in every event, text apart", source: speedmatrix.TokensPerEventUsage,
			s: setting{script: truth.Script{Channel: func(_, token int) string {
				if token%5 == 4 {
					return truth.Hidden
				}
				return ""
			}}}},
		{name: "usage at the end", source: speedmatrix.TokensFinalUsage, slack: 8,
			s: setting{params: final(), script: truth.Script{Usage: truth.UsageFinal, StopAfter: short, TokensPerEvent: 2, Tokenize: true,
				Text: func(int, int) string { return " word" }}}},
		{name: "tokenizer", source: speedmatrix.TokensTokenizer,
			s: setting{params: dialect.Params{Model: "truth"}, habits: speedmatrix.Habits{Tokenizer: true},
				script: truth.Script{Usage: truth.UsageNone, Tokenize: true, TokensPerEvent: 3}}},
		{name: "engine counters", source: speedmatrix.TokensCounters, slack: 8,
			s: setting{params: dialect.Params{Model: "truth"}, script: truth.Script{Usage: truth.UsageNone, TokensPerEvent: 3, Gap: every(7 * ms)}}},
		{name: "warm-up", source: speedmatrix.TokensWarmUp,
			s: setting{params: dialect.Params{Model: "truth"}, noCounter: true, habits: speedmatrix.Habits{TokensPerEvent: 3},
				script: truth.Script{Usage: truth.UsageNone, TokensPerEvent: 3}}},
		{name: "warm-up and counters agree", source: speedmatrix.TokensWarmUp,
			s: setting{params: dialect.Params{Model: "truth"}, habits: speedmatrix.Habits{TokensPerEvent: 3},
				script: truth.Script{Usage: truth.UsageNone, TokensPerEvent: 3}}},
		{name: "warm-up and counters do not agree", source: speedmatrix.TokensCounters, slack: 8,
			s: setting{params: dialect.Params{Model: "truth"}, habits: speedmatrix.Habits{TokensPerEvent: 2},
				script: truth.Script{Usage: truth.UsageNone, TokensPerEvent: 3}}},
		{name: "events", source: speedmatrix.TokensEvents, lower: true,
			s: setting{params: dialect.Params{Model: "truth"}, deadCounter: true, script: truth.Script{Usage: truth.UsageNone, TokensPerEvent: 3}}},
		{name: "mixed: the last requests have no usage yet", source: speedmatrix.TokensWarmUp, slack: 8,
			s: setting{params: final(), noCounter: true, habits: speedmatrix.Habits{TokensPerEvent: 2},
				script: truth.Script{Usage: truth.UsageFinal, StopAfter: func(c truth.Call) int { return 70 + 10*c.Request }, TokensPerEvent: 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.settings = one(0, 4)
			if tt.s.script.Gap == nil {
				tt.s.script.Gap = every(10 * ms)
			}
			w := measure(t, tt.s)
			c := w.cell(0, 4)
			if c.Status != speedmatrix.StatusValid {
				t.Fatalf("%s: %s", c.Status, c.Reason)
			}
			w.verified()
			from, to := windowOf(c)
			want, got := float64(w.account.TokensBetween(from, to)), *c.OutputTokens
			if worst := c.TokenSource; tt.name != "usage at the end" && worst != tt.source {
				t.Errorf("the source is %q, want %q", worst, tt.source)
			}
			if d := got - want; d > tt.slack+1e-6 || d < -tt.slack-1e-6 && !tt.lower {
				t.Errorf("%v tokens in the window, want %v", got, want)
			}
			if tt.lower && got >= want {
				t.Errorf("%v events for %v tokens are no lower bound", got, want)
			}
		})
	}
}

// Restarts with usage at the end alone: every finished request counts by it, and the completions are counted.
func TestUsageAtTheEndWithRestarts(t *testing.T) {
	w := measure(t, setting{settings: one(0, 2), params: final(), noCounter: true, habits: speedmatrix.Habits{TokensPerEvent: 1},
		script: truth.Script{Usage: truth.UsageFinal, Gap: every(10 * ms), StopAfter: func(truth.Call) int { return 100 }, Text: func(int, int) string { return " word" }}})
	c := w.cell(0, 2)
	if c.Status != speedmatrix.StatusValid {
		t.Fatalf("%s: %s", c.Status, c.Reason)
	}
	w.matches(t, c)
	w.verified()
	if *c.CompletedRequests < 10 {
		t.Errorf("%d requests completed", *c.CompletedRequests)
	}
}

// The window ends at 1,024 tokens of the slowest stream, not before 5 s, and waits for 64 tokens, at most 4 × the duration.
func TestTheWindowIsBoundedByTokens(t *testing.T) {
	tests := []struct {
		name string
		gap  time.Duration
		want time.Duration
	}{
		{"1,024 tokens", 20 * ms, 1024 * 20 * ms},
		{"not before 5 s", ms, 5 * second},
		{"the duration", 100 * ms, 30 * second},
		{"64 tokens", second, 64 * second},
		{"4 × the duration", 10 * second, 120 * second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := measure(t, setting{settings: one(0, 2), script: truth.Script{Gap: every(tt.gap), Lockstep: true}})
			c := w.cell(0, 2)
			if c.Status != speedmatrix.StatusValid {
				t.Fatalf("%s: %s", c.Status, c.Reason)
			}
			w.verified()
			got := time.Duration(*c.WindowSeconds * 1e9)
			if got < tt.want-tt.gap-25*ms || got > tt.want+tt.gap+50*ms {
				t.Errorf("the window took %v, want %v", got, tt.want)
			}
			if tt.gap < 2*second { // else no arrival closes the window
				near(t, "total tok/s", c.TotalTokensPerSecond, 2/tt.gap.Seconds())
			}
		})
	}
}

func TestPrecisionEndsASteadyWindowEarlyAndNoOther(t *testing.T) {
	measured := func(gap func(truth.Step) time.Duration) float64 {
		s := one(0, 4)
		s.Precision = 0.01
		w := measure(t, setting{settings: s, script: truth.Script{Gap: gap}})
		w.verified()
		return *w.cell(0, 4).WindowSeconds
	}
	if got := measured(every(40 * ms)); got < 4.9 || got > 20 {
		t.Errorf("a steady window took %.2f s", got)
	}
	if got := measured(func(s truth.Step) time.Duration { return 30*ms + time.Duration(s.Token)*100*time.Microsecond }); got < 25 {
		t.Errorf("a window that slows down took %.2f s", got)
	}
}

func TestDriftIsSignificantOnlyBeyondTheIntervalsAndOnePercent(t *testing.T) {
	for _, tt := range []struct {
		gap         time.Duration
		significant bool
	}{{20 * ms, false}, {20 * ms * 1008 / 1000, false}, {20 * ms * 1012 / 1000, true}, {22 * ms, true}} {
		s := bench.Settings{Contexts: []int{0}, Concurrency: []int{1, 2}, NoPrefill: true}
		w := measure(t, setting{settings: s, script: truth.Script{Gap: func(s truth.Step) time.Duration {
			if s.Request > 2 {
				return tt.gap
			}
			return 20 * ms
		}}})
		d := w.run.Drift
		if d == nil || d.Change == nil || d.Significant != tt.significant {
			t.Fatalf("then %v: drift %+v", tt.gap, d)
		}
		near(t, "change", d.Change, float64(20*ms)/float64(tt.gap)-1)
		if len(w.run.Warnings) > 0 != tt.significant {
			t.Errorf("then %v: warnings %v", tt.gap, w.run.Warnings)
		}
		w.verified()
	}
}

func TestRepeatsAreMeasuredAndSummarized(t *testing.T) {
	s := bench.Settings{Contexts: []int{0, 1024}, Concurrency: []int{1, 2}, Prefill: []int{1024}, Repeat: 3}
	w := measure(t, setting{settings: s, limits: bench.Limits{KVBlockTokens: 16}, script: truth.Script{PrefixCache: true, PrefillPerToken: 100 * time.Microsecond, Gap: func(s truth.Step) time.Duration {
		return 20*ms + time.Duration(s.Request/8)*ms
	}}})
	if w.err != nil || len(w.run.Repeats) != 2 {
		t.Fatalf("%v, %d repeats", w.err, len(w.run.Repeats))
	}
	w.verified()
	for i := range w.run.Cells {
		c := &w.run.Cells[i]
		if c.Phase != speedmatrix.PhaseDecode {
			continue
		}
		total := []float64{*c.TotalTokensPerSecond}
		for _, r := range w.run.Repeats {
			j := slices.IndexFunc(r.Cells, func(o speedmatrix.Cell) bool { return o.Key() == c.Key() })
			total = append(total, *r.Cells[j].TotalTokensPerSecond)
			if !w.store.HasCell("repeat-" + string(rune('0'+r.Index)) + "-" + c.Key()) {
				t.Errorf("no rows of repeat %d of %s", r.Index, c.Key())
			}
		}
		if c.Repeats == nil {
			t.Fatalf("%s has no summary", c.Key())
		}
		sameSamples(t, c.Key(), c.Repeats.TotalTokensPerSecond, total)
	}
}
