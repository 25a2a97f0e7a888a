package bench_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix/internal/bench"
)

// simulated is a made-up server that a protocol is stepped against: anything may happen to it at any time.
type simulated struct {
	now      int64
	o        bench.Observation
	launched bool
	fills    int
	launches int
	stops    int

	random                 *rand.Rand // rapid's own draws favour their edges, which would end every cell at once
	busy                   bool       // never empty
	interruptNS, skipNS    int64
	tokens, fails, loopsAt int // chances in 1,000 a look
}

func (s *simulated) likely(inThousand int) bool { return s.random.IntN(1000) < inThousand }

func (s *simulated) upTo(n int) int { return s.random.IntN(n + 1) }

func drawRules(t *rapid.T) bench.Rules {
	c := rapid.IntRange(1, 6).Draw(t, "concurrency")
	return bench.Rules{Concurrency: c, Fills: rapid.IntRange(0, c).Draw(t, "fills"), DrainLimit: time.Minute, FillLimit: 20 * time.Second,
		Hold: time.Second, Allowance: time.Duration(rapid.IntRange(1, 90).Draw(t, "allowance")) * time.Second,
		MeasureUnready: rapid.Bool().Draw(t, "measure unready"), FromFill: rapid.Bool().Draw(t, "from fill"),
		Saturation: time.Duration(rapid.IntRange(0, 9).Draw(t, "saturation")) * time.Second, Spacing: 50 * time.Microsecond,
		Window: bench.WindowRules{Duration: 30 * time.Second, Min: 5 * time.Second, Tokens: 1024, MinTokens: 64, MaxExtension: 4,
			Precision: rapid.SampledFrom([]float64{0, 0.01}).Draw(t, "precision")},
		EndOnLoop: rapid.Bool().Draw(t, "end on loop")}
}

// observe changes what is known in any way that can be.
func (s *simulated) observe() bench.Observation {
	s.scrape()
	s.o.Empty = s.likely(300) && !s.busy
	if s.busy {
		s.o.Gauges.Running = 3
	}
	if s.o.Fill == bench.FillRunning && s.likely(500) {
		s.o.Fill = bench.FillDone
		if s.likely(20) {
			s.o.Fill = bench.FillFailed
		}
	}
	for i := range s.o.Streams {
		s.stream(&s.o.Streams[i])
	}
	s.o.AllStopped = s.stops > 0 && s.likely(500)
	s.o.Interval, s.o.Drift = s.random.Float64()*0.05-0.001, s.random.Float64()*0.02-0.001
	s.o.Interrupted = s.o.Interrupted || s.now > s.interruptNS
	s.o.Skip = s.o.Skip || s.now > s.skipNS
	return s.o
}

// scrape renews the gauges, now and then.
func (s *simulated) scrape() {
	if !s.o.Gauges.Known || !s.likely(300) {
		return
	}
	s.o.Gauges.SentNS = s.now - int64(s.upTo(300))*1e6
	s.o.Gauges.Running, s.o.Gauges.Waiting = float64(s.upTo(len(s.o.Streams))), 0
	if s.likely(200) {
		s.o.Gauges.Waiting = 1
	}
	if s.launched && s.stops == 0 && s.likely(500) {
		s.o.Gauges.Running = float64(len(s.o.Streams))
	} else if s.likely(700) {
		s.o.Gauges.Running = 0
	}
}

func (s *simulated) stream(x *bench.StreamState) {
	switch {
	case !s.launched || s.stops > 0:
	case s.likely(s.tokens):
		x.EverFirst, x.Producing, x.LastNS, x.Failures = true, true, s.now, 0
		x.Tokens += float64(s.upTo(10))
	case s.likely(s.fails):
		x.Producing = false
		x.Failures++
	case x.EverFirst && s.likely(s.loopsAt):
		x.Loops++
	}
}

// newSimulated makes a server whose nature is drawn.
func newSimulated(t *rapid.T, concurrency int) *simulated {
	s := &simulated{now: 1e18, random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))}
	s.o.Streams = make([]bench.StreamState, concurrency)
	s.o.Gauges.Known, s.o.Gauges.WaitingKnown = s.likely(700), true
	s.busy = s.likely(50)
	s.tokens = []int{0, 5, 100, 700}[s.upTo(3)]
	s.fails, s.loopsAt = []int{0, 5, 200}[s.upTo(2)], []int{0, 0, 1}[s.upTo(2)]
	s.interruptNS, s.skipNS = s.now+int64(s.upTo(1000))*1e9, s.now+int64(s.upTo(1000))*1e9
	return s
}

// Whatever happens, a cell ends in bounded time, once, in order, and its window lies where it may.
func TestTheProtocolAlwaysEndsAndNeverBreaksItsOrder(t *testing.T) {
	endings := map[bench.Ending]int{}
	for range 25 { // of rapid's hundred
		rapid.Check(t, func(t *rapid.T) { endings[stepThrough(t)]++ })
	}
	for _, e := range []bench.Ending{bench.EndedMeasured, bench.EndedInterrupted, bench.EndedSkipped, bench.EndedNotDrained,
		bench.EndedFillFailed, bench.EndedNotReady, bench.EndedFailing, bench.EndedLooped} {
		if endings[e] == 0 {
			t.Errorf("none of the cells ended %s: %v", e, endings)
		}
	}
}

// stepThrough steps a protocol to its end.
func stepThrough(t *rapid.T) bench.Ending {
	rules := drawRules(t)
	s := newSimulated(t, rules.Concurrency)
	p := bench.NewProtocol(rules, s.now)
	began := s.now
	// Drain, fills, allowance with what may hold it up, window, settle, stop, drain.
	most := int64(2*time.Minute) + int64(rules.FillLimit)*int64(max(rules.Fills, 1)) + int64(rules.Allowance) + int64(140*time.Second) + int64(40*time.Second)
	step := p.Step()
	for {
		before := p.Step()
		a := p.Next(s.now, s.observe())
		if p.Step() < step {
			t.Fatalf("from %v back to %v", step, p.Step())
		}
		step = p.Step()
		s.check(t, p, rules, a)
		if before != bench.StepWindow && step == bench.StepWindow {
			s.checkOpening(t, p.Outcome())
		}
		if a.Kind == bench.ActionDone {
			break
		}
		if s.now-began > most {
			t.Fatalf("still in %v after %v", step, time.Duration(s.now-began))
		}
		s.now = max(a.WakeNS, s.now+1e6)
		if a.Kind == bench.ActionWait && s.likely(100) {
			s.now += int64(s.upTo(500)) * 1e6
		}
	}
	checkOutcome(t, p.Outcome(), rules, s)
	ending := p.Outcome().Ending
	if again := p.Next(s.now+1, s.o); again.Kind != bench.ActionDone || p.Outcome().Ending != ending {
		t.Fatalf("it went on with %v after its end", again.Kind)
	}
	return p.Outcome().Ending
}

func (s *simulated) check(t *rapid.T, p *bench.Protocol, rules bench.Rules, a bench.Action) {
	switch a.Kind {
	case bench.ActionFill:
		s.fills++
		s.o.Fill = bench.FillRunning
		if s.launched {
			t.Fatal("a fill after the launch")
		}
	case bench.ActionLaunch:
		s.launches++
		s.launched = true
		if s.launches > 1 || s.fills < rules.Fills {
			t.Fatalf("launch %d after %d of %d fills", s.launches, s.fills, rules.Fills)
		}
	case bench.ActionStop:
		if s.stops++; s.stops > 1 || !s.launched {
			t.Fatalf("stop %d, launched %v", s.stops, s.launched)
		}
	case bench.ActionRestart:
		if p.Step() != bench.StepRamp {
			t.Fatalf("a restart in %v", p.Step())
		}
	}
	if share, _ := p.WindowProgress(s.now, s.o); share < 0 || share > 1 {
		t.Fatalf("the window is %v over", share)
	}
}

// checkOpening wants a first token of every stream before the window, unless the protocol says why not.
func (s *simulated) checkOpening(t *rapid.T, out bench.Outcome) {
	for i := range s.o.Streams {
		if !s.o.Streams[i].EverFirst && !out.Saturated && !out.Unready {
			t.Fatalf("the window opened before the first token of stream %d", i)
		}
	}
}

func checkOutcome(t *rapid.T, out bench.Outcome, rules bench.Rules, s *simulated) {
	if out.Ending == "" {
		t.Fatal("no ending")
	}
	if s.launches > 0 && s.stops != 1 {
		t.Fatalf("%d launches, %d stops", s.launches, s.stops)
	}
	if out.PlannedEndNS != 0 && (out.PlannedStartNS == 0 || out.PlannedEndNS < out.PlannedStartNS || out.StopNS < out.PlannedEndNS) {
		t.Fatalf("the window's times are out of order: %+v", out)
	}
	if out.Ending == bench.EndedMeasured {
		length := time.Duration(out.PlannedEndNS - out.PlannedStartNS)
		if length < rules.Window.Min || length > 4*rules.Window.Duration+time.Second {
			t.Fatalf("a window of %v", length)
		}
	}
	var sum time.Duration
	for _, d := range out.Steps {
		if d < 0 {
			t.Fatalf("a step of negative length: %v", out.Steps)
		}
		sum += d
	}
	if sum > time.Duration(s.now-1e18) {
		t.Fatalf("the steps took %v of %v", sum, time.Duration(s.now-1e18))
	}
}
