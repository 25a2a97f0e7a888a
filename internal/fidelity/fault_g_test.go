package fidelity_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/truth"
)

// cached is a vLLM that keeps prompts, counts tokens for others, and reads 10,000 tokens a second.
func cached() truth.Script {
	return truth.Script{MaxLength: 64 << 10, PrefixCache: true, Tokenize: true, PrefillPerToken: 100 * time.Microsecond}
}

// tailTokens is what the tails of prompts differ by, which are never the same.
const tailTokens = 12

// within fails the test unless a count is as close to its label as that share and the tails allow.
func within(t *testing.T, what string, got *float64, label int, share float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s is unknown, want %d", what, label)
	}
	if off := *got/float64(label) - 1; math.Abs(off) > share+tailTokens/float64(label) {
		t.Errorf("%s is %v, want %d within %v: it is %+.4f off", what, *got, label, share, off)
	}
}

// readCold fails the test unless the samples of a prefill cell took what the server's reading of all their tokens took.
func (w *world) readCold(c *speedmatrix.Cell, s truth.Script, samples int) {
	w.t.Helper()
	w.is(c, speedmatrix.StatusValid)
	if c.TTFT == nil || c.TTFT.N != samples {
		w.t.Fatalf("%s has the samples %+v, want %d: %v", c.Key(), c.TTFT, samples, c.Warnings)
	}
	for _, p := range c.PrefillSamples {
		if p.CachedTokens != nil && *p.CachedTokens > 0 {
			continue // it does not count
		}
		want := 5*ms + time.Duration(p.PromptTokens)*s.PrefillPerToken
		near(w.t, "TTFT of a sample", &p.TTFTMillis, want.Seconds()*1000)
	}
}

func TestPromptLengths(t *testing.T) {
	t.Run("G02 a prompt is as long as the server counts", caseG02APromptIsAsLongAsTheServerCounts)
	t.Run("G03 the head is the same in all requests of a stream", caseG03TheHeadIsTheSameInAllRequestsOfAStream)
	t.Run("G11 prompts of any length take the same time", caseG11PromptsOfAnyLengthTakeTheSameTime)
	t.Run("G12 a prompt longer than the text is refused, not filled up", caseG12APromptLongerThanTheTextIsRefusedNotFilledUp)
	t.Run("G14 what the template adds is part of the length", caseG14WhatTheTemplateAddsIsPartOfTheLength)
	t.Run("G15 prompt and output never exceed the model's length", caseG15PromptAndOutputNeverExceedTheModelsLength)
}

func caseG02APromptIsAsLongAsTheServerCounts(t *testing.T) {
	t.Parallel()
	counting, blind := cached(), cached()
	blind.Tokenize = false
	for _, x := range []struct {
		script truth.Script
		share  float64
	}{{counting, 0.005}, {blind, 0.02}} {
		w := bed{script: x.script, args: []string{"--contexts", "1K,8K,32K", "--concurrency", "2", "--prefill", "1K,8K", "--duration", "5s"}}.measure(t)
		for _, n := range []int{1 << 10, 8 << 10, 32 << 10} {
			c := w.cell(n, 2)
			w.is(c, speedmatrix.StatusValid)
			w.exact(c)
			within(t, c.Key(), c.PromptTokens, n, x.share)
		}
		for _, n := range []int{1 << 10, 8 << 10} {
			w.readCold(w.prefill(n), x.script, 3)
			within(t, "prefill", w.prefill(n).PromptTokens, n, x.share)
		}
	}
}

func caseG03TheHeadIsTheSameInAllRequestsOfAStream(t *testing.T) {
	t.Parallel()
	s := cached()
	s.StopAfter, s.KeepPrompts = short(40), true
	w := bed{script: s, args: oneCell("4K", "3")}.measure(t)
	c := w.cell(4096, 3)
	w.is(c, speedmatrix.StatusValid)
	w.exact(c)
	for stream, list := range w.answers(c.Key()) {
		head := list[0].served.Prompt[:14_000]
		for _, a := range list {
			r := a.served
			if !strings.HasPrefix(r.Prompt, head) {
				t.Errorf("stream %d: the head changed: %.60s…", stream, r.Prompt)
			}
			if whole := (r.PromptTokens - 130) / 16 * 16; r.CachedTokens < whole {
				t.Errorf("%d of %d tokens came from the cache, want %d", r.CachedTokens, r.PromptTokens, whole)
			}
		}
	}
}

func caseG11PromptsOfAnyLengthTakeTheSameTime(t *testing.T) {
	t.Parallel()
	flat := truth.Script{Tokenize: true, MaxLength: 64 << 10, PrefillBase: 200 * ms}
	args := []string{"--contexts", "1K,4K", "--concurrency", "1", "--prefill", "1K,4K", "--duration", "5s"}
	w := bed{script: flat, args: args}.measure(t)
	if got := w.warning("prefill flat"); !strings.Contains(got, "the prefill of 4K took 200 ms, no longer than that of 1K (200 ms)") {
		t.Errorf("the warnings are %v", w.run.Warnings)
	}
	w = bed{script: cached(), args: args}.measure(t)
	if got := w.warning("prefill flat"); got != "" {
		t.Errorf("warned of times that grow: %s", got)
	}
}

func caseG12APromptLongerThanTheTextIsRefusedNotFilledUp(t *testing.T) {
	t.Parallel()
	s := cached()
	s.MaxLength, s.KeepPrompts = 512<<10, true
	w := bed{script: s, args: oneCell("256K", "1")}.measure(t)
	if w.code == 0 || !strings.Contains(w.out.String()+w.errout.String(), "too short") {
		t.Errorf("exit code %d:\n%s%s", w.code, w.out.String(), w.errout.String())
	}
	// Up to its end the text is used once.
	w = bed{script: s, args: oneCell("50K", "1")}.measure(t)
	c := w.cell(50<<10, 1)
	w.is(c, speedmatrix.StatusValid)
	within(t, c.Key(), c.PromptTokens, 50<<10, 0.005)
	for _, list := range w.answers(c.Key()) {
		if n := repeats(list[0].served.Prompt, 12); n > 0 {
			t.Errorf("%d passages of 12 words come twice", n)
		}
	}
}

func caseG14WhatTheTemplateAddsIsPartOfTheLength(t *testing.T) {
	t.Parallel()
	for _, template := range []int{-1, 4, 37, 400} {
		s := cached()
		s.TemplateTokens = template
		w := bed{script: s, args: oneCell("1K", "2")}.measure(t)
		c := w.cell(1024, 2)
		w.is(c, speedmatrix.StatusValid)
		within(t, fmt.Sprintf("with %d tokens of template", template), c.PromptTokens, 1024, 0.005)
		if got := w.run.Server.Habits.TemplateTokens; got != max(template, 0) {
			t.Errorf("the template has %d tokens, want %d", got, template)
		}
	}
}

func caseG15PromptAndOutputNeverExceedTheModelsLength(t *testing.T) {
	t.Parallel()
	s := cached()
	s.MaxLength = 4096
	w := bed{script: s, args: []string{"--contexts", "0,3K,3500,4K,8K", "--concurrency", "2", "--prefill", "4K", "--duration", "5s", "--max-output", "100000"}}.measure(t)
	for context, status := range map[int]speedmatrix.Status{0: speedmatrix.StatusValid, 3 << 10: speedmatrix.StatusValid, 3500: speedmatrix.StatusValid,
		4 << 10: speedmatrix.StatusExceedsModelLength, 8 << 10: speedmatrix.StatusExceedsModelLength} {
		w.is(w.cell(context, 2), status)
	}
	w.is(w.prefill(4096), speedmatrix.StatusExceedsModelLength)
	for _, r := range w.account.Requests {
		if r.PromptTokens == 0 {
			continue // asks only whether an endpoint is there
		}
		if r.Class == truth.Refused || r.PromptTokens+r.MaxTokens > s.MaxLength {
			t.Errorf("%d tokens of prompt and up to %d of output: %s", r.PromptTokens, r.MaxTokens, r.Class)
		}
	}
	w.exited(0)
}

// repeats counts the passages of so many words that come twice in a text.
func repeats(text string, words int) (n int) {
	list := strings.Fields(text)
	seen := map[string]bool{}
	for i := 0; i+words <= len(list); i += words / 2 {
		passage := strings.Join(list[i:i+words], " ")
		if seen[passage] {
			n++
		}
		seen[passage] = true
	}
	return n
}

// twice runs the program twice against one server and gives both runs.
func (b bed) twice(t *testing.T, first, second []string) (one, two *world) {
	t.Helper()
	one = &world{store: newMemory()}
	b.during = func(w *world) {
		one.t, one.net, one.server, one.signals = w.t, w.net, w.server, w.signals
		earlier := b
		earlier.args = first
		one.code = cli.Main(w.t.Context(), earlier.environment(one))
	}
	b.args = second
	two = b.measure(t)
	one.t, one.run, one.account = t, one.store.run, two.account
	return one, two
}

func TestCaches(t *testing.T) {
	args := []string{"--contexts", "1K", "--concurrency", "2", "--prefill", "1K,2K", "--duration", "5s", "--salt"}
	t.Run("G05 the same run twice on one server", func(t *testing.T) { caseG05TheSameRunTwiceOnOneServer(t, args) })
	t.Run("G05 the same prompts twice on one server", func(t *testing.T) { caseG05TheSamePromptsTwiceOnOneServer(t, args) })
	t.Run("G06 streams never share a prompt", func(t *testing.T) { caseG06StreamsNeverShareAPrompt(t, args) })
	t.Run("G08 the first block already differs", func(t *testing.T) { caseG08TheFirstBlockAlreadyDiffers(t, args) })
	t.Run("G09 more samples are no faster prefill", func(t *testing.T) { caseG09MoreSamplesAreNoFasterPrefill(t, args) })
}

func caseG05TheSameRunTwiceOnOneServer(t *testing.T, args []string) {
	t.Parallel()
	one, two := bed{script: cached()}.twice(t, append(args, "a"), append(args, "b"))
	for _, w := range []*world{one, two} {
		w.readCold(w.prefill(1024), cached(), 3)
		w.readCold(w.prefill(2048), cached(), 3)
		w.is(w.cell(1024, 2), speedmatrix.StatusValid)
		w.exact(w.cell(1024, 2))
	}
	if a, b := one.prefill(2048), two.prefill(2048); math.Abs(*a.PromptTokensPerSecond / *b.PromptTokensPerSecond - 1) > 0.001 {
		t.Errorf("%v and %v tokens a second", *a.PromptTokensPerSecond, *b.PromptTokensPerSecond)
	}
	// A salt that nobody gave is a new one each time.
	salts := map[string]bool{}
	for range 2 {
		w := bed{args: oneCell("0", "1"), change: func(env *cli.Env) {
			i := slices.Index(env.Args, "--salt")
			env.Args = slices.Delete(env.Args, i, i+2)
		}}.measure(t)
		w.valid()
		salts[w.run.Method.Salt] = true
	}
	if len(salts) != 2 || salts[""] {
		t.Errorf("the salts are %v", salts)
	}
}

func caseG05TheSamePromptsTwiceOnOneServer(t *testing.T, args []string) {
	t.Parallel()
	_, w := bed{script: cached()}.twice(t, append(args, "a"), append(args, "a"))
	// The heads that the first run did not need are new, three of them.
	w.readCold(w.prefill(1024), cached(), 3)
	if c := w.prefill(1024); len(c.PrefillSamples) != 6 {
		t.Errorf("%d samples", len(c.PrefillSamples))
	}
	for _, n := range []int{2048} {
		c := w.failed(w.prefill(n), "every sample came from the server's prefix cache", "did another run use the same --salt?")
		if c.PromptTokensPerSecond != nil || c.TTFT != nil || len(c.PrefillSamples) == 0 {
			t.Errorf("%s: %v tokens a second by %+v, %d samples", c.Key(), c.PromptTokensPerSecond, c.TTFT, len(c.PrefillSamples))
		}
	}
	c := w.cell(1024, 2)
	w.is(c, speedmatrix.StatusValid)
	w.exact(c)
	if c.TTFTKind == speedmatrix.TTFTCold {
		t.Errorf("the TTFT is called %s", c.TTFTKind)
	}
	w.exited(7, "1 of 3 cells failed")
}

func caseG06StreamsNeverShareAPrompt(t *testing.T, args []string) {
	t.Parallel()
	s := cached()
	s.KeepPrompts, s.StopAfter = true, short(50)
	w := bed{script: s, args: oneCell("1K", "1,4,16")}.measure(t)
	for prompt, times := range w.prompts() {
		if times > 1 && len(prompt) > 1000 {
			t.Errorf("sent %d times: %.60s…", times, prompt)
		}
	}
	for _, n := range []int{1, 4, 16} {
		heads := map[string]int32{}
		for stream, list := range w.answers(w.cell(1024, n).Key()) {
			first := strings.Join(strings.Fields(list[0].served.Prompt)[:2], " ")
			if other, taken := heads[first]; taken {
				t.Errorf("streams %d and %d both begin with %q", stream, other, first)
			}
			heads[first] = stream
		}
	}
}

func caseG08TheFirstBlockAlreadyDiffers(t *testing.T, args []string) {
	t.Parallel()
	s := cached()
	s.TemplateTokens = 16 // one block, which all prompts share
	w := bed{script: s, args: []string{"--contexts", "1K", "--concurrency", "8", "--prefill", "1K,2K", "--duration", "5s"}}.measure(t)
	fills := 0
	for _, r := range w.account.Requests {
		if r.MaxTokens == 1 && r.PromptTokens > 900 {
			fills++
			if r.CachedTokens > 16 {
				t.Errorf("%d tokens of a new prompt came from the cache", r.CachedTokens)
			}
		}
	}
	if fills < 8+3 {
		t.Errorf("%d fills", fills)
	}
	w.is(w.prefill(2048), speedmatrix.StatusValid)
	if c := w.prefill(2048); c.TTFT.N != 3 || c.TTFTKind != speedmatrix.TTFTCold || *c.CachedTokens != 16 {
		t.Errorf("%d %s samples, %v tokens cached", c.TTFT.N, c.TTFTKind, *c.CachedTokens)
	}
}

func caseG09MoreSamplesAreNoFasterPrefill(t *testing.T, args []string) {
	t.Parallel()
	for _, s := range []truth.Script{cached(), {Engine: truth.LlamaCpp, MaxRunning: 4, MaxLength: 64 << 10, PrefixCache: true, Tokenize: true, PrefillPerToken: 100 * time.Microsecond}} {
		w := bed{script: s, args: []string{"--contexts", "1K", "--concurrency", "4", "--prefill", "1K,4K", "--duration", "5s"}}.measure(t)
		for n, samples := range map[int]int{1 << 10: 4, 4 << 10: 3} {
			w.readCold(w.prefill(n), s, samples)
		}
	}
}

// Whatever the server's blocks, template, cache and tokenizer: prompts have their length, samples are cold, and the
// cells' numbers the server's.
func TestAnyServersPromptsHaveTheirLength(t *testing.T) {
	type trial struct {
		Context, Block, Template int
		Keeps, Counts, Hides     bool
	}
	several(t, 4, func(rt *rapid.T) trial {
		return trial{rapid.IntRange(600, 9000).Draw(rt, "context"), rapid.SampledFrom([]int{1, 4, 16, 128, 256}).Draw(rt, "block"), rapid.IntRange(1, 250).Draw(rt, "template"),
			rapid.Bool().Draw(rt, "keeps"), rapid.Bool().Draw(rt, "counts"), rapid.Bool().Draw(rt, "hides")}
	}, func(t *testing.T, x trial) {
		s := cached()
		s.BlockTokens, s.TemplateTokens, s.PrefixCache, s.Tokenize, s.HideCached = x.Block, x.Template, x.Keeps, x.Counts, x.Hides
		s.KVTokens = 1 << 20
		label := fmt.Sprint(x.Context)
		w := bed{script: s, args: []string{"--contexts", label, "--concurrency", "3", "--prefill", label, "--duration", "5s"}}.measure(t)
		share := 0.02
		if x.Counts {
			share = 0.005
		}
		c := w.cell(x.Context, 3)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		within(t, "prompt tokens", c.PromptTokens, x.Context, share)
		w.is(w.prefill(x.Context), speedmatrix.StatusValid)
		for _, r := range w.account.Requests {
			if r.MaxTokens == 1 && r.PromptTokens > 500 && r.CachedTokens > x.Template+x.Block {
				t.Errorf("%d of %d tokens of a fill came from the cache", r.CachedTokens, r.PromptTokens)
			}
		}
	})
}
