package engine

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix/internal/profile"
)

// plain is a small machine with round numbers: 10 ms a decode step, 20 ms one with prefill.
func plain() Config {
	return Config{StepTokens: 64, MaxRunning: 8, MaxLength: 256, BlockTokens: 4, Blocks: 65, PrefixCaching: true,
		Timing: Timing{Base: 10e6, PrefillBase: 20e6, Wave: 1, Norm: 1}}
}

func prompt(seed, n int) []uint32 {
	p := make([]uint32, n)
	for i := range p {
		p[i] = uint32(seed*100_003 + i)
	}
	return p
}

func start(t testing.TB, c Config) *Engine {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func add(t testing.TB, e *Engine, r Request) {
	t.Helper()
	if err := e.Add(r); err != nil {
		t.Fatal(err)
	}
}

// drain steps until nothing is left and gives the tokens of each request.
func drain(t testing.TB, e *Engine) map[int64]int {
	t.Helper()
	got := map[int64]int{}
	for range 100_000 {
		step, some := e.Step()
		if !some {
			if !e.Idle() {
				t.Fatalf("nothing to compute, but %+v", e.Gauges())
			}
			return got
		}
		for _, o := range step.Outputs {
			if o.Index != got[o.ID] {
				t.Fatalf("request %d got token %d after %d", o.ID, o.Index, got[o.ID])
			}
			got[o.ID]++
		}
	}
	t.Fatal("100,000 steps and not done")
	return nil
}

func TestALongPromptIsReadInChunksBesideDecodes(t *testing.T) {
	e := start(t, plain())
	add(t, e, Request{ID: 1, Prompt: prompt(1, 10), MaxTokens: 20})
	if step, _ := e.Step(); step.PromptTokens != 10 || len(step.Outputs) != 1 || step.Duration != 20*time.Millisecond {
		t.Fatalf("first step %+v", step)
	}
	add(t, e, Request{ID: 2, Prompt: prompt(2, 100), MaxTokens: 5})
	step, _ := e.Step()
	if step.Decodes != 1 || step.PromptTokens != 63 || len(step.Outputs) != 1 || !slices.Equal(step.Admitted, []int64{2}) {
		t.Errorf("mixed step %+v", step)
	}
	step, _ = e.Step()
	if step.Decodes != 1 || step.PromptTokens != 37 || len(step.Outputs) != 2 {
		t.Errorf("step that ends the prompt %+v", step)
	}
	if step, _ = e.Step(); step.Decodes != 2 || step.Duration != 10*time.Millisecond {
		t.Errorf("decode step %+v", step)
	}
}

func TestAPromptIsFoundAgainUpToItsLastFullBlock(t *testing.T) {
	e := start(t, plain())
	add(t, e, Request{ID: 1, Prompt: prompt(1, 16), MaxTokens: 1})
	drain(t, e)
	add(t, e, Request{ID: 2, Prompt: prompt(1, 16), MaxTokens: 1})
	step, _ := e.Step()
	if step.PromptTokens != 4 || step.Outputs[0].Cached != 12 {
		t.Errorf("the same prompt computes %d tokens, %d cached", step.PromptTokens, step.Outputs[0].Cached)
	}
	c := e.Counters()
	if c.PrefixQueries != 32 || c.PrefixHits != 12 || c.PromptTokens != 32 || c.GenerationTokens != 2 || c.Length != 2 {
		t.Errorf("counters %+v", c)
	}
	if !e.ResetPrefixCache() {
		t.Error("an idle engine does not forget its cache")
	}
	add(t, e, Request{ID: 3, Prompt: prompt(1, 16), MaxTokens: 2, CacheSalt: 7})
	if step, _ = e.Step(); step.Outputs[0].Cached != 0 {
		t.Error("a forgotten prompt is found")
	}
	if e.ResetPrefixCache() {
		t.Error("the cache is forgotten while a request runs")
	}
}

func TestAnAnswerIsFoundInTheNextTurn(t *testing.T) {
	e := start(t, plain())
	answer := func(i int) uint32 { return uint32(9000 + i) }
	add(t, e, Request{ID: 1, Prompt: prompt(1, 6), MaxTokens: 8, Output: answer})
	drain(t, e)
	next := prompt(1, 6)
	for i := range 8 {
		next = append(next, answer(i))
	}
	add(t, e, Request{ID: 2, Prompt: append(next, 1, 2, 3), MaxTokens: 1})
	if step, _ := e.Step(); step.Outputs[0].Cached != 12 {
		t.Errorf("%d tokens of the first turn are found, want 12 (13 were computed)", step.Outputs[0].Cached)
	}
}

func TestAHybridModelFindsAPrefixOnlyWhereAChunkEnded(t *testing.T) {
	c := plain()
	c.Hybrid, c.BlockTokens, c.Blocks, c.StepTokens = true, 16, 20, 40
	e := start(t, c)
	add(t, e, Request{ID: 1, Prompt: prompt(1, 90), MaxTokens: 1})
	var chunks []int
	for step, some := e.Step(); some; step, some = e.Step() {
		chunks = append(chunks, step.PromptTokens)
	}
	if want := []int{32, 32, 16, 10}; !slices.Equal(chunks, want) {
		t.Errorf("chunks %v, want %v", chunks, want)
	}
	for _, tt := range []struct{ same, want int }{{90, 80}, {79, 64}, {60, 32}, {31, 0}} {
		p := append(prompt(1, tt.same), prompt(2+tt.same, 90-tt.same)...)
		add(t, e, Request{ID: 2, Prompt: p, MaxTokens: 1})
		cached := -1
		for step, some := e.Step(); some; step, some = e.Step() {
			for _, o := range step.Outputs {
				cached = o.Cached
			}
		}
		if cached != tt.want {
			t.Errorf("a prompt that shares %d tokens finds %d, want %d", tt.same, cached, tt.want)
		}
	}
}

func TestTheLastRequestMakesRoomAndComesBackFirst(t *testing.T) {
	c := plain()
	c.Blocks, c.PrefixCaching = 9, false // 32 tokens
	e := start(t, c)
	add(t, e, Request{ID: 1, Prompt: prompt(1, 12), MaxTokens: 16})
	add(t, e, Request{ID: 2, Prompt: prompt(2, 12), MaxTokens: 16})
	add(t, e, Request{ID: 3, Prompt: prompt(3, 12), MaxTokens: 4})
	var preempted, admitted []int64
	got := map[int64]int{}
	for step, some := e.Step(); some; step, some = e.Step() {
		preempted, admitted = append(preempted, step.Preempted...), append(admitted, step.Admitted...)
		for _, o := range step.Outputs {
			got[o.ID]++
		}
	}
	if !slices.Equal(preempted, []int64{2, 3}) || !slices.Equal(admitted, []int64{1, 2, 2, 3, 3}) {
		t.Errorf("preempted %v, admitted %v", preempted, admitted)
	}
	if got[1] != 16 || got[2] != 16 || got[3] != 4 || e.Counters().Preemptions != 2 {
		t.Errorf("tokens %v, counters %+v", got, e.Counters())
	}
}

func TestWhatCanNeverRunIsRefused(t *testing.T) {
	c := plain()
	c.Blocks = 9
	e := start(t, c)
	tests := []struct {
		r    Request
		want error
	}{
		{Request{ID: 1, MaxTokens: 1}, ErrEmpty},
		{Request{ID: 1, Prompt: prompt(1, 3)}, ErrEmpty},
		{Request{ID: 1, Prompt: prompt(1, 250), MaxTokens: 7}, ErrTooLong},
		{Request{ID: 1, Prompt: prompt(1, 30), MaxTokens: 3}, ErrNeverFits},
		{Request{ID: 1, Hashed: Hash(prompt(1, 30), 0, 8), MaxTokens: 2}, ErrBlocks},
		{Request{ID: 1, Hashed: Hash(prompt(1, 30), 0, 4), MaxTokens: 2}, nil},
		{Request{ID: 1, Prompt: prompt(1, 30), MaxTokens: 2}, ErrDuplicate},
	}
	for _, tt := range tests {
		if err := e.Add(tt.r); !errors.Is(err, tt.want) {
			t.Errorf("%d + %d tokens: %v, want %v", len(tt.r.Prompt), tt.r.MaxTokens, err, tt.want)
		}
	}
	for _, spoil := range []func(*Config){
		func(c *Config) { c.StepTokens = 0 }, func(c *Config) { c.Blocks = 1 }, func(c *Config) { c.Timing.Base = 0 },
		func(c *Config) { c.Hybrid, c.BlockTokens = true, 128 }, func(c *Config) { c.Timing.Pair = math.NaN() },
		func(c *Config) { c.Noise = 1 }, func(c *Config) { c.Watermark = 1 }, func(c *Config) { c.MaxRunning = 0 },
	} {
		c := plain()
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("an engine is made of %+v", c)
		}
	}
}

func TestAnAbortedRequestGetsNoTokenAndLeavesItsBlocks(t *testing.T) {
	e := start(t, plain())
	add(t, e, Request{ID: 1, Prompt: prompt(1, 10), MaxTokens: 20})
	add(t, e, Request{ID: 2, Prompt: prompt(2, 10), MaxTokens: 20})
	e.Step()
	if _, some := e.Begin(); !some {
		t.Fatal("no step")
	}
	if !e.Abort(1) || e.Abort(1) || e.Abort(9) {
		t.Error("aborting does not say what it did")
	}
	if e.Gauges().Running != 2 {
		t.Error("the request left in the middle of a step")
	}
	step := e.End()
	if len(step.Outputs) != 1 || step.Outputs[0].ID != 2 || e.Gauges().Running != 1 {
		t.Errorf("after the abort %+v, %+v", step, e.Gauges())
	}
	e.Stop(2)
	if g := e.Gauges(); g != (Gauges{}) || !e.Idle() {
		t.Errorf("empty engine: %+v", g)
	}
	if c := e.Counters(); c.Aborted != 1 || c.Stopped != 1 {
		t.Errorf("%+v", c)
	}
}

func TestSharedBlocksAreReadOnce(t *testing.T) {
	c := plain()
	c.Timing.Base, c.Timing.Unique = 1, 1
	e := start(t, c)
	for id := range int64(3) {
		add(t, e, Request{ID: id, Prompt: prompt(1, 17), MaxTokens: 40})
		e.Step()
	}
	// Each knows 17 prompt tokens, of which 16 are in the same four blocks, and its own answer.
	step, _ := e.Step()
	total := 20 + 19 + 18
	if want := time.Duration(1 + total - 2*16); step.Duration != want {
		t.Errorf("a step of %d ns, want %d", step.Duration, want)
	}
	e.Abort(1)
	step, _ = e.Step()
	if want := time.Duration(1 + 21 + 19 - 16); step.Duration != want {
		t.Errorf("a step of %d ns, want %d", step.Duration, want)
	}
}

func TestNoiseIsDecidedByTheSeedAndKeepsTheMean(t *testing.T) {
	run := func(seed uint64, noise float64) (times []time.Duration) {
		c := plain()
		c.Noise, c.Seed = noise, seed
		e := start(t, c)
		add(t, e, Request{ID: 1, Prompt: prompt(1, 10), MaxTokens: 240})
		for step, some := e.Step(); some; step, some = e.Step() {
			times = append(times, step.Duration)
		}
		return times[1:]
	}
	a, b, other := run(1, 0.005), run(1, 0.005), run(2, 0.005)
	if !slices.Equal(a, b) || slices.Equal(a, other) {
		t.Error("the seed does not decide the noise")
	}
	sum, squares := 0.0, 0.0
	for _, d := range a {
		x := d.Seconds()*100 - 1
		sum += x
		squares += x * x
	}
	n := float64(len(a))
	if mean, sd := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.001 || sd < 0.004 || sd > 0.006 {
		t.Errorf("noise of mean %g and deviation %g, want 0 and 0.005", mean, sd)
	}
}

func TestTheFrontEndDelaysABurst(t *testing.T) {
	d := Desk{FrontEnd: FrontEnd{Serial: 3e6, SerialToken: 1e3, Delay: 1e6, DelayToken: 500}}
	for k := range int64(3) {
		if got, want := d.Arrive(5, 1000), 5+(k+1)*4e6+1.5e6; float64(got) != float64(want) {
			t.Errorf("request %d reaches the scheduler at %d, want %v", k+1, got, want)
		}
	}
	if got := d.Arrive(1e9, 0); got != 1e9+4e6 {
		t.Errorf("after a pause: %d", got)
	}
}

// A machine of any small size serves any requests to their last token, keeps its books, and does it the same way twice.
func TestEveryRequestGetsItsTokensWhateverTheMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{StepTokens: rapid.IntRange(1, 50).Draw(t, "step"), MaxRunning: rapid.IntRange(1, 6).Draw(t, "running"), MaxLength: 60,
			BlockTokens: rapid.IntRange(1, 9).Draw(t, "block"), Blocks: rapid.IntRange(3, 30).Draw(t, "blocks"),
			PrefixCaching: rapid.Bool().Draw(t, "cache"), Hybrid: rapid.Bool().Draw(t, "hybrid"),
			LongPrefillTokens: rapid.SampledFrom([]int{0, 9, 20}).Draw(t, "long"),
			Watermark:         rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "watermark"),
			Timing:            Timing{Base: 1e6, Unique: 3, Total: 2, PrefillBase: 2e6, Wave: 1, Norm: 1}}
		if c.Hybrid {
			c.StepTokens += c.BlockTokens + c.MaxRunning
		}
		plan := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 25).Draw(t, "requests")
		first := play(t, c, plan)
		if again := play(t, c, plan); !slices.Equal(first, again) {
			t.Fatal("the same requests give another course")
		}
	})
}

type planned struct {
	after, prompt, shared, max, ends int
	abortAfter                       int
}

func drawRequest(t *rapid.T) planned {
	return planned{after: rapid.IntRange(0, 12).Draw(t, "after"), prompt: rapid.IntRange(1, 40).Draw(t, "prompt"),
		shared: rapid.IntRange(0, 40).Draw(t, "shared"), max: rapid.IntRange(1, 20).Draw(t, "max"),
		ends: rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(t, "ends"), abortAfter: rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "abort")}
}

// play runs the plan and checks the books after every step; it gives the course as numbers.
func play(t *rapid.T, c Config, plan []planned) (course []int64) {
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[int64]int{}, map[int64]int{}
	next, steps := 0, 0
	for next < len(plan) || !e.Idle() {
		if steps++; steps > 20_000 {
			t.Fatalf("it stands still: %+v", e.Gauges())
		}
		for next < len(plan) && (plan[next].after <= steps || e.Idle()) {
			r := plan[next]
			p := append(prompt(1, min(r.shared, r.prompt)), prompt(next+2, r.prompt-min(r.shared, r.prompt))...)
			if e.Add(Request{ID: int64(next), Prompt: p, MaxTokens: r.max, EndsAfter: r.ends}) == nil {
				want[int64(next)] = r.max
				if r.ends > 0 {
					want[int64(next)] = min(r.max, r.ends)
				}
			}
			next++
		}
		step, _ := e.Begin()
		if step.Tokens > c.StepTokens || e.Gauges().Running > c.MaxRunning {
			t.Fatalf("a step of %d tokens, %d requests", step.Tokens, e.Gauges().Running)
		}
		if step.Tokens == 0 {
			if len(step.Preempted) == 0 && !e.Idle() {
				t.Fatalf("nothing to compute, but %+v", e.Gauges())
			}
			continue
		}
		for id, n := range got {
			if a := plan[id].abortAfter; a > 0 && n >= a && n < want[id] {
				want[id] = n
				e.Abort(id)
			}
		}
		step = e.End()
		course = append(course, int64(step.Duration), int64(step.Tokens))
		for _, o := range step.Outputs {
			got[o.ID]++
			if (o.Finish != FinishNone) != (got[o.ID] == want[o.ID]) {
				t.Fatalf("request %d: %d of %d tokens, finish %q", o.ID, got[o.ID], want[o.ID], o.Finish)
			}
		}
		checkBooks(t, e)
	}
	for id, n := range want {
		if got[id] != n {
			t.Fatalf("request %d got %d tokens, want %d", id, got[id], n)
		}
	}
	if e.pool.free != c.Usable() || e.pool.shared != 0 {
		t.Fatalf("an empty engine has %d of %d blocks free, %d shared", e.pool.free, c.Usable(), e.pool.shared)
	}
	return course
}

// checkBooks counts references, decoding holders and the free queue anew.
func checkBooks(t *rapid.T, e *Engine) {
	p := e.pool
	refs, users := make([]int32, len(p.refs)), make([]int32, len(p.refs))
	for _, s := range e.running {
		if len(s.blocks) < e.blocksFor(s.computed) {
			t.Fatalf("request %d has %d blocks for %d tokens", s.id, len(s.blocks), s.computed)
		}
		for _, b := range s.blocks {
			refs[b]++
			if s.decoding {
				users[b]++
			}
		}
	}
	if !slices.Equal(refs, p.refs) || !slices.Equal(users, p.users) {
		t.Fatal("the counts of the blocks are wrong")
	}
	free, shared := 0, 0
	for b := p.next[p.ring()]; b != p.ring(); b = p.next[b] {
		if refs[b] != 0 {
			t.Fatal("a used block is free")
		}
		free++
	}
	for _, n := range users {
		shared += int(max(n-1, 0))
	}
	if free != p.free || shared != p.shared {
		t.Fatalf("%d free, counted %d; %d shared, counted %d", p.free, free, p.shared, shared)
	}
	for b, hash := range p.hash {
		if other, there := p.index.get(hash); hash != 0 && (!there || other != int32(b)) {
			t.Fatal("a cached block is not in the index")
		}
	}
}

// Decoding in the steady state allocates nothing, neither while blocks fill nor when they are taken.
func TestASteadyStepAllocatesNothing(t *testing.T) {
	e := steady(t, 128)
	if n := testing.AllocsPerRun(2000, func() { e.Step() }); n != 0 {
		t.Errorf("%g allocations per step", n)
	}
}

func steady(t testing.TB, sequences int) *Engine {
	p, err := profile.Named("rtx3090-agents-a1-4b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	c := FromProfile(p)
	c.BlockTokens, c.Blocks, c.Hybrid, c.MaxRunning, c.Noise = 16, 1<<17, false, sequences, 0.005
	e := start(t, c)
	for i := range sequences {
		add(t, e, Request{ID: int64(i), Prompt: prompt(i, 100), MaxTokens: 16_000})
	}
	for range 50 {
		e.Step()
	}
	return e
}

func BenchmarkStep128(b *testing.B) {
	b.ReportAllocs()
	e := steady(b, 128)
	n := 0
	for b.Loop() {
		if n++; n == 15_000 {
			n = 0
			b.StopTimer()
			e = steady(b, 128)
			b.StartTimer()
		}
		e.Step()
	}
}
