package trust

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/catalog"
)

func TestWhatCountsAsReproduced(t *testing.T) {
	for name, tt := range map[string]struct {
		factor float32
		change func(in *Input, o *catalog.Entry)
		want   bool
		why    string
	}{
		"within the intervals": {factor: 1.012, want: true},
		"beyond them":          {factor: 1.05, why: "meets the intervals"},
		"narrow intervals, machines of one kind": {factor: 1.015, want: true, change: func(in *Input, o *catalog.Entry) {
			narrow(in.Entry, 0.002)
			narrow(o, 0.002)
		}},
		"narrow intervals, too far apart": {factor: 1.03, why: "meets the intervals", change: func(in *Input, o *catalog.Entry) {
			narrow(in.Entry, 0.002)
			narrow(o, 0.002)
		}},
		"intervals that say nothing": {factor: 1.2, why: "meets the intervals", change: func(in *Input, o *catalog.Entry) {
			narrow(in.Entry, 0.5)
			narrow(o, 0.5)
		}},
		"one cell off":                 {factor: 1, want: true, change: func(_ *Input, o *catalog.Entry) { o.Cells = append(o.Cells[:0:0], o.Cells[:7]...); o.Cells[0].Half = 0 }},
		"two cells of eight off":       {factor: 1, why: "meets the intervals", change: func(_ *Input, o *catalog.Entry) { o.Cells[0].Total *= 2; o.Cells[1].Total *= 2 }},
		"three cells":                  {factor: 1, why: "meets the intervals", change: func(_ *Input, o *catalog.Entry) { o.Cells = o.Cells[:3] }},
		"without intervals":            {factor: 1, why: "so there is no interval to meet", change: func(in *Input, _ *catalog.Entry) { narrow(in.Entry, float32(math.NaN())) }},
		"the same owner":               {factor: 1, why: "nobody else", change: func(_ *Input, o *catalog.Entry) { o.Owner = "ada" }},
		"nobody's run":                 {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.Owner = "" }},
		"an unclaimed run":             {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.Owner = catalog.ClaimPrefix + "abc" }},
		"for nobody":                   {factor: 1, why: "nobody signed in", change: func(in *Input, _ *catalog.Entry) { in.Entry.Owner = catalog.ClaimPrefix + "abc" }},
		"the same rows":                {factor: 1, why: "meets", change: func(in *Input, o *catalog.Entry) { o.EventsHash = in.Entry.EventsHash }},
		"the same run":                 {factor: 1, why: "meets", change: func(in *Input, o *catalog.Entry) { o.RunID = in.Entry.RunID }},
		"a table":                      {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.Origin = "imported" }},
		"other weights":                {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.Weights = "fedcba9876543210" }},
		"weights unknown":              {factor: 1, want: true, change: func(_ *Input, o *catalog.Entry) { o.Weights = "" }},
		"another version":              {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.EngineVersion = "0.33.0" }},
		"another method":               {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.Method = "quick/1" }},
		"with drafts":                  {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.Speculative = "eagle3" }},
		"on a modified card":           {factor: 1, why: "other uploaders are on modified hardware", change: func(_ *Input, o *catalog.Entry) { o.Modified = "unlocked" }},
		"on stock, this modified":      {factor: 1, why: "is on stock hardware, so it does not count", change: func(in *Input, _ *catalog.Entry) { in.Entry.Modified = "unlocked" }},
		"both modified":                {factor: 1, why: "no two are modified alike", change: func(in *Input, o *catalog.Entry) { in.Entry.Modified, o.Modified = "unlocked", "unlocked" }},
		"a run that is not consistent": {factor: 1, why: "meets", change: func(_ *Input, o *catalog.Entry) { o.Level = catalog.Recomputed }},
	} {
		t.Run(name, func(t *testing.T) {
			in := good()
			o := other(in, "bob", tt.factor)
			if tt.change != nil {
				tt.change(&in, o)
			}
			in.Neighbours = []*catalog.Entry{o}
			r := Evaluate(in)
			c := found(t, r, "reproduced")
			if got := r.Level == catalog.Reproduced; got != tt.want || !strings.Contains(c.Detail, tt.why) {
				t.Errorf("reproduced: %v (%s), want %v (…%s…)", got, c.Detail, tt.want, tt.why)
			}
		})
	}
}

// narrow makes every interval that share of its total on each side.
func narrow(e *catalog.Entry, share float32) {
	e.Cells = slices.Clone(e.Cells)
	for i := range e.Cells {
		e.Cells[i].Half = share * e.Cells[i].Total
	}
}

func TestAnUploaderCountsOnce(t *testing.T) {
	in := good()
	again := other(in, "bob", 1.001)
	again.ID, again.RunID, again.EventsHash = "run-bob-2", "again", "rows-bob-2"
	in.Neighbours = []*catalog.Entry{other(in, "bob", 1), again}
	if r := Evaluate(in); !slices.Equal(r.Reproducers, []string{"run-bob"}) {
		t.Errorf("reproduced by %v", r.Reproducers)
	}
}

func TestWhenOthersComeAndGoTheRestOfTheLadderStays(t *testing.T) {
	in := good()
	r := Evaluate(in)
	before := len(r.Checks)
	r.Reproduce(in.Entry, []*catalog.Entry{other(in, "bob", 1)})
	if r.Level != catalog.Reproduced || len(r.Reproducers) != 1 || len(r.Checks) != before {
		t.Errorf("with another: %s by %v, %d checks of %d", r.Level, r.Reproducers, len(r.Checks), before)
	}
	r.Reproduce(in.Entry, nil)
	if r.Level != consistent || len(r.Reproducers) != 0 || len(r.Checks) != before {
		t.Errorf("without: %s by %v, %d checks of %d", r.Level, r.Reproducers, len(r.Checks), before)
	}
}

func TestACellFarFromOthersIsFlaggedAndCostsNothing(t *testing.T) {
	in := good()
	for i, owner := range []string{"b", "c", "d", "e", "f"} {
		in.Neighbours = append(in.Neighbours, other(in, owner, 0.8+0.005*float32(i)))
	}
	in.Neighbours[4].Method = "quick/1" // no neighbour
	c := found(t, Evaluate(in), "neighbours")
	if c.Outcome != Found || c.Bars || len(c.Cells) != 8 || !strings.Contains(c.Detail, "8 cells lie outside") {
		t.Errorf("%+v", c)
	}
	for _, e := range in.Neighbours {
		for i := range e.Cells {
			e.Cells[i].Total = in.Entry.Cells[i].Total * (1 + 0.01*float32(i%3))
		}
	}
	if c := found(t, Evaluate(in), "neighbours"); c.Outcome != Passed || c.Detail != "8 cells against 4 runs" {
		t.Errorf("%+v", c)
	}
	in.Neighbours = in.Neighbours[:3]
	if c := found(t, Evaluate(in), "neighbours"); c.Outcome != Unknown {
		t.Errorf("%+v", c)
	}
}

// anyNumber is a number as an upload may have it, or none.
func anyNumber(t *rapid.T) *float64 {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return new(rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), 1e15, 5e-324}).Draw(t, "odd"))
	}
	return new(rapid.Float64Range(0, 1e4).Draw(t, "number"))
}

func anyRun(t *rapid.T) Input {
	in := good()
	in.Run.Origin = rapid.SampledFrom([]speedmatrix.Origin{speedmatrix.OriginMeasured, speedmatrix.OriginImported, speedmatrix.OriginPredicted}).Draw(t, "origin")
	for i := range in.Run.Cells {
		c := &in.Run.Cells[i]
		if rapid.Bool().Draw(t, "as it is") {
			continue
		}
		c.Status = rapid.SampledFrom(speedmatrix.Statuses()).Draw(t, "status")
		for _, v := range []**float64{&c.TotalTokensPerSecond, &c.PerRequestTokensPerSecond, &c.OutputTokens, &c.WindowSeconds, &c.ActiveRequestsMean,
			&c.QueuedShare, &c.CachedTokens, &c.PromptTokensPerSecond, &c.AcceptedTokensPerStep, &c.PromptTokens} {
			*v = anyNumber(t)
		}
		c.TTFT, c.TimeBetweenTokens = &speedmatrix.Distribution{P50: anyNumber(t)}, &speedmatrix.Distribution{P50: anyNumber(t)}
	}
	in.describe()
	return in
}

func TestTheLadderHoldsForAnyNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyRun(t)
		in.Neighbours = []*catalog.Entry{other(in, "bob", rapid.Float32Range(0.5, 2).Draw(t, "factor"))}
		r := Evaluate(in)
		if r.Level < catalog.Stated || r.Level > catalog.Reproduced {
			t.Fatalf("level %d", r.Level)
		}
		for _, c := range r.Checks {
			if c.Bars && (c.Outcome == Passed || r.Level >= c.Level && c.Level > catalog.Stated) {
				t.Fatalf("%s bars %s, has %s, and the run is %s", c.Code, c.Level, c.Outcome, r.Level)
			}
			if strings.Contains(c.Detail, "NaN") || strings.Contains(c.Detail, "Inf") {
				t.Fatalf("%s says %q", c.Code, c.Detail)
			}
		}
		if in.Run.Origin != speedmatrix.OriginMeasured && r.Level > catalog.Complete {
			t.Fatalf("%s and %s", in.Run.Origin, r.Level)
		}
		if Reproduces(in.Entry, in.Neighbours[0]) != Reproduces(in.Neighbours[0], in.Entry) {
			t.Fatal("one reproduces the other, and not the other way round")
		}
		if again := Evaluate(in); string(outcome(again)) != string(outcome(r)) {
			t.Fatal("judged twice, with two outcomes")
		}
	})
}
