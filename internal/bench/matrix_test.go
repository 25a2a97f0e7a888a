package bench_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/truth"
)

// near compares a published number with its exact value; a float64 has 15 digits.
func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is unknown, want %v", what, want)
		return
	}
	if math.Abs(*got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

func matrixSettings() bench.Settings {
	return bench.Settings{Contexts: []int{0, 1024, 4096}, Concurrency: []int{1, 2, 4, 8}, Prefill: []int{1024, 2048, 4096}}
}

// Every number of a matrix on a server in lockstep equals the script's.
func TestAMatrixInLockstepEqualsTheScript(t *testing.T) {
	gap := 20 * ms
	s := setting{
		settings: matrixSettings(),
		script: truth.Script{
			PrefixCache: true, Tokenize: true, PrefillBase: 5 * ms, PrefillPerToken: 100 * time.Microsecond,
			Lockstep: true, Gap: func(truth.Step) time.Duration { return gap },
		},
		limits: bench.Limits{MaxLength: 32768, KVBlockTokens: 16},
	}
	w := measure(t, s)
	if w.err != nil {
		t.Fatal(w.err)
	}
	for _, context := range []int{0, 1024, 4096} {
		for _, concurrency := range []int{1, 2, 4, 8} {
			c := w.cell(context, concurrency)
			t.Run(c.Key(), func(t *testing.T) {
				if c.Status != speedmatrix.StatusValid {
					t.Fatalf("%s: %s", c.Status, c.Reason)
				}
				w.matches(t, c)
				near(t, "total tok/s", c.TotalTokensPerSecond, float64(concurrency)/gap.Seconds())
				near(t, "per request tok/s", c.PerRequestTokensPerSecond, 1/gap.Seconds())
				near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
				near(t, "event gap", c.EventGap.P50, 20)
			})
		}
	}
	w.verified()
}

// windowOf gives the ends of a cell's window.
func windowOf(c *speedmatrix.Cell) (from, to int64) {
	from = c.WindowStartedAt.UnixNano()
	return from, from + int64(math.Round(*c.WindowSeconds*1e9))
}

// matches compares a cell with what the server says that it did: its own account of every request of the cell.
func (w *world) matches(t *testing.T, c *speedmatrix.Cell) {
	t.Helper()
	from, to := windowOf(c)
	streams := w.answered(t, c.Key())
	var tokens, completed float64
	var ttft, prompts, between, gaps []float64
	for _, stream := range slices.Sorted(maps.Keys(streams)) {
		var nanos, after float64
		for i, r := range streams[stream] {
			prompts = append(prompts, float64(r.PromptTokens))
			if i == 0 && r.FirstNS() > 0 {
				ttft = append(ttft, float64(r.FirstNS()-r.ArrivedNS)/1e6)
			}
			if r.Class == truth.Completed && r.EndedNS > from && r.EndedNS <= to {
				completed++
			}
			before, first, last := 0, int64(0), int64(0)
			for _, e := range r.Events {
				if e.AtNS > from && e.AtNS <= to {
					tokens += float64(e.Tokens - before)
					if first == 0 {
						first = e.AtNS
					} else {
						if e.AtNS > first {
							after += float64(e.Tokens - before)
						}
						gaps = append(gaps, float64(e.AtNS-last)/1e6)
					}
					last = e.AtNS
				}
				before = e.Tokens
			}
			nanos += float64(last - first)
		}
		if after > 0 {
			between = append(between, nanos/after/1e6)
		}
	}
	near(t, "output tokens", c.OutputTokens, tokens)
	near(t, "total tok/s", c.TotalTokensPerSecond, tokens/float64(to-from)*1e9)
	near(t, "prompt tokens", c.PromptTokens, middle(prompts))
	sameSamples(t, "TTFT", c.TTFT, ttft)
	sameSamples(t, "time between tokens", c.TimeBetweenTokens, between)
	sameSamples(t, "event gap", c.EventGap, gaps)
	speeds := make([]float64, len(between))
	for i, b := range between {
		speeds[i] = 1000 / b
	}
	near(t, "per request tok/s", c.PerRequestTokensPerSecond, middle(speeds))
	if float64(*c.CompletedRequests) != completed {
		t.Errorf("%d requests completed, want %v", *c.CompletedRequests, completed)
	}
}

// answered finds the requests of a cell in the server's account: in virtual time a request arrives when it was written.
func (w *world) answered(t *testing.T, key string) map[int32][]*truth.Request {
	t.Helper()
	streams := map[int32][]*truth.Request{}
	for _, row := range w.store.requests[key] {
		if row.Stream < 0 || row.WrittenNS == nil {
			continue
		}
		i := slices.IndexFunc(w.account.Requests, func(r truth.Request) bool { return r.ArrivedNS == *row.WrittenNS })
		if i < 0 {
			t.Fatalf("request %d of %s never arrived", row.Request, key)
		}
		streams[row.Stream] = append(streams[row.Stream], &w.account.Requests[i])
	}
	return streams
}

// middle is the median.
func middle(values []float64) float64 {
	list := slices.Sorted(slices.Values(values))
	n := len(list)
	if n == 0 {
		return math.NaN()
	}
	return (list[(n-1)/2] + list[n/2]) / 2
}

// sameSamples compares a distribution with its samples.
func sameSamples(t *testing.T, what string, d *speedmatrix.Distribution, samples []float64) {
	t.Helper()
	if d == nil {
		t.Errorf("%s is unknown, want %d samples", what, len(samples))
		return
	}
	if d.N != len(samples) {
		t.Errorf("%s has %d samples, want %d", what, d.N, len(samples))
	}
	near(t, what+" p50", d.P50, middle(samples))
	near(t, what+" min", d.Min, slices.Min(samples))
	near(t, what+" max", d.Max, slices.Max(samples))
	if (d.P90 != nil) != (len(samples) >= 10) || (d.P99 != nil) != (len(samples) >= 100) {
		t.Errorf("%s of %d samples: p90 %v, p99 %v", what, len(samples), d.P90, d.P99)
	}
}

// Streams that begin one after the other stay apart; two machines, one slow and one fast, the speed falling with
// context and load.
func TestAMatrixWithStreamsApartEqualsTheScript(t *testing.T) {
	profiles := map[string]func(truth.Step) time.Duration{
		"fast": func(s truth.Step) time.Duration {
			return 7*ms + time.Duration(s.Running)*100*time.Microsecond + time.Duration(s.Context)*100*time.Nanosecond
		},
		"slow": func(s truth.Step) time.Duration { return 150*ms + time.Duration(s.Running)*10*ms },
	}
	for name, gap := range profiles {
		t.Run(name, func(t *testing.T) {
			w := measure(t, setting{
				settings: matrixSettings(), warm: true,
				script: truth.Script{PrefixCache: true, Tokenize: true, Gap: gap, PrefillBase: 3 * ms, PrefillPerToken: 33 * time.Microsecond},
				limits: bench.Limits{MaxLength: 32768, KVBlockTokens: 16},
			})
			if w.err != nil {
				t.Fatal(w.err)
			}
			for i := range w.run.Cells {
				c := &w.run.Cells[i]
				t.Run(c.Key(), func(t *testing.T) {
					if c.Status != speedmatrix.StatusValid {
						t.Fatalf("%s: %s", c.Status, c.Reason)
					}
					if c.Phase == speedmatrix.PhaseDecode {
						w.matches(t, c)
					} else {
						w.matchesPrefill(t, c, 3*ms, 33*time.Microsecond)
					}
				})
			}
			w.verified()
		})
	}
}

// Behind a proxy a short model does not tell its length: the warm-up takes a prompt that fits, and no third that does not.
func TestTheWarmUpFindsAPromptForAServerThatDoesNotTellItsLength(t *testing.T) {
	w := measure(t, setting{settings: one(0, 1), warm: true,
		script: truth.Script{MaxLength: 1024, Gap: every(10 * ms), PrefillBase: 3 * ms, PrefillPerToken: 100 * time.Microsecond}})
	if got := w.warmUp; len(got.Prompts) != 1 || got.Prompts[0] < 400 || got.Prompts[0] > 640 || len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0].Message, "a prefill of 2048 tokens in the warm-up failed: ") {
		t.Errorf("prompts of %v tokens, warnings %v", got.Prompts, got.Warnings)
	}
}

// matchesPrefill wants every sample cold and as slow as the script says.
func (w *world) matchesPrefill(t *testing.T, c *speedmatrix.Cell, base, perToken time.Duration) {
	t.Helper()
	if len(c.PrefillSamples) < 3 {
		t.Errorf("%d samples, want at least 3", len(c.PrefillSamples))
	}
	var speeds, ttft []float64
	for _, s := range c.PrefillSamples {
		// Tails differ by some tokens.
		if math.Abs(s.PromptTokens-float64(c.Context)) > 12+0.005*float64(c.Context) {
			t.Errorf("a prompt of %v tokens for %d", s.PromptTokens, c.Context)
		}
		if s.CachedTokens == nil || *s.CachedTokens > 16 {
			t.Errorf("a sample has cached tokens %v", s.CachedTokens)
			continue
		}
		took := base + perToken*time.Duration(s.PromptTokens-*s.CachedTokens)
		ttft, speeds = append(ttft, took.Seconds()*1e3), append(speeds, s.PromptTokens/took.Seconds())
	}
	near(t, "prefill tok/s", c.PromptTokensPerSecond, middle(speeds))
	sameSamples(t, "TTFT", c.TTFT, ttft)
	if c.TTFTKind != speedmatrix.TTFTCold {
		t.Errorf("the TTFT is %s", c.TTFTKind)
	}
}

// A pause before the window's first token is not in the window; one before its last is, up to 2 s.
func TestAPauseAtEitherEdgeOfTheWindow(t *testing.T) {
	gap := 50 * ms
	run := func(stall func(req, token int) time.Duration) (*world, *speedmatrix.Cell) {
		w := measure(t, setting{settings: bench.Settings{Contexts: []int{0}, Concurrency: []int{1}, NoPrefill: true},
			script: truth.Script{Gap: func(truth.Step) time.Duration { return gap }, Stall: stall}})
		return w, w.cell(0, 1)
	}
	plain, c := run(nil)
	near(t, "total tok/s", c.TotalTokensPerSecond, 20)
	from, to := windowOf(c)
	first := plain.answered(t, c.Key())[0][0].FirstNS()
	atStart, atEnd := int((from-first)/int64(gap)), int((to-first)/int64(gap))
	at := func(n int, pause time.Duration) func(req, token int) time.Duration {
		return func(_, token int) time.Duration {
			if token == n {
				return pause
			}
			return 0
		}
	}
	t.Run("start", func(t *testing.T) {
		w, c := run(at(atStart, 1500*ms))
		w.matches(t, c)
		near(t, "total tok/s", c.TotalTokensPerSecond, 20)
		w.verified()
	})
	for pause, extra := range map[time.Duration]float64{1500 * ms: 1.5, 4 * second: 0} {
		t.Run("end "+pause.String(), func(t *testing.T) {
			w, c := run(at(atEnd, pause))
			w.verified()
			if extra > 0 {
				w.matches(t, c)
				near(t, "window", c.WindowSeconds, float64(to-from)/1e9+extra)
				near(t, "output tokens", c.OutputTokens, float64(to-from)/float64(gap))
				return
			}
			planned := from + int64(30*second)
			if _, end := windowOf(c); end > planned+int64(gap) || end < planned-int64(gap) {
				t.Errorf("the window ends %v after its start, want the planned end", time.Duration(end-from))
			}
		})
	}
}
