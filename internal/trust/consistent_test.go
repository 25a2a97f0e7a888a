package trust

import (
	"testing"

	"speedmatrix"
	"speedmatrix/internal/catalog"
)

const consistent, below = catalog.SelfConsistent, catalog.Recomputed

// times makes a number of a cell so many times as large.
func times(v *float64, factor float64) { *v *= factor }

func TestNumbersThatFollowFromEachOther(t *testing.T) {
	runAll(t, []finding{
		{"total", func(in *Input) { times(in.cell(0, 8).OutputTokens, 1.006) }, "identity-total", Found, []string{"decode-0-x8"}, below, "7 of 8 cells, up to 0.6 % off at decode-0-x8"},
		{"total, rounded", func(in *Input) { times(in.cell(0, 8).OutputTokens, 1.004) }, "identity-total", Passed, nil, consistent, "8 of 8 cells"},
		{"no tokens", func(in *Input) {
			for i := range in.Run.Cells {
				in.Run.Cells[i].OutputTokens = nil
			}
		}, "identity-total", Unknown, nil, consistent, "no cell has both"},
		{"between", func(in *Input) { times(in.cell(16384, 1).TimeBetweenTokens.P50, 1.02) }, "identity-per-request", Found, []string{"decode-16k-x1"}, below, "7 of 8"},
		{"sum", func(in *Input) {
			times(in.cell(0, 4).TotalTokensPerSecond, 0.96)
			times(in.cell(0, 4).OutputTokens, 0.96)
		}, "identity-sum", Found, []string{"decode-0-x4"}, consistent, "7 of 8 cells, up to 4.2 % off at decode-0-x4"},
		{"sum, far off", func(in *Input) {
			times(in.cell(0, 4).TotalTokensPerSecond, 0.7)
			times(in.cell(0, 4).OutputTokens, 0.7)
		}, "identity-sum", Found, []string{"decode-0-x4"}, below, ""},
		{"sum of a queue", func(in *Input) {
			c := in.cell(0, 8)
			times(c.TotalTokensPerSecond, 0.7)
			times(c.OutputTokens, 0.7)
			c.Status, c.QueuedShare, c.ActiveRequestsMean, c.Reason = speedmatrix.StatusRequestsQueued, new(0.4), new(5.6), "waited"
		}, "identity-sum", Found, []string{"decode-0-x8"}, consistent, ""},
		{"prefill", func(in *Input) { times(in.Run.Cells[0].TTFT.P50, 0.5) }, "identity-prefill", Found, []string{"prefill-16k"}, below, "0 of 1 contexts"},
		{"a short prefill", func(in *Input) {
			in.Run.Cells[0].Context, in.Run.Cells[0].PromptTokens, in.Run.Plan.Prefill = 512, new(512.0), []int{512}
		}, "identity-prefill", Unknown, nil, consistent, ""},
		{"falls", func(in *Input) {
			c := in.cell(0, 8)
			for _, v := range []*float64{c.TotalTokensPerSecond, c.OutputTokens, c.PerRequestTokensPerSecond} {
				times(v, 0.4)
			}
			times(c.TimeBetweenTokens.P50, 2.5)
		}, "rises", Found, []string{"decode-0-x8"}, consistent, "falls at 1 cell"},
		{"faster among more", func(in *Input) {
			c := in.cell(0, 8)
			for _, v := range []*float64{c.TotalTokensPerSecond, c.OutputTokens, c.PerRequestTokensPerSecond} {
				times(v, 1.2)
			}
			times(c.TimeBetweenTokens.P50, 1/1.2)
		}, "rises", Found, []string{"decode-0-x8"}, below, "faster among more"},
		{"one column", func(in *Input) {
			for i := range in.Run.Cells {
				if c := &in.Run.Cells[i]; c.Concurrency > 1 {
					c.Status, c.Reason = speedmatrix.StatusSkipped, "time"
				}
			}
		}, "rises", Unknown, nil, consistent, ""},
	})
}

// faster makes a cell's speeds so many times as high, each in agreement with the others.
func faster(c *speedmatrix.Cell, factor float64) {
	for _, v := range []*float64{c.TotalTokensPerSecond, c.OutputTokens, c.PerRequestTokensPerSecond} {
		times(v, factor)
	}
	times(c.TimeBetweenTokens.P50, 1/factor)
}

func allFaster(in *Input, factor float64) {
	for i := range in.Run.Cells {
		if c := &in.Run.Cells[i]; c.Phase == speedmatrix.PhaseDecode {
			faster(c, factor)
		}
	}
}

func TestNoRunIsFasterThanItsHardware(t *testing.T) {
	every := []string{"decode-0-x1", "decode-0-x2", "decode-0-x4", "decode-0-x8", "decode-16k-x1", "decode-16k-x2", "decode-16k-x4", "decode-16k-x8"}
	drafting := func(in *Input, method string, accepted float64) {
		in.Run.Engine[speedmatrix.EngineSpeculative] = speedmatrix.Fact{Value: method}
		for i := range in.Run.Cells {
			in.Run.Cells[i].AcceptedTokensPerStep = new(accepted)
		}
	}
	runAll(t, []finding{
		{"at half", func(*Input) {}, "ceiling", Passed, nil, consistent, "at most 50 % of memory bandwidth or compute, at decode-0-x1"},
		{"beyond", func(in *Input) { allFaster(in, 2.1) }, "ceiling", Found, every, below, "at most 105 %"},
		{"beyond, unlocked", func(in *Input) {
			allFaster(in, 2.1)
			in.Run.LaunchCommand.Value = "# gpu-unlock"
		}, "ceiling", Found, every, consistent, "its data sheet does not hold"},
		{"a mixture's active experts", func(in *Input) {
			allFaster(in, 2.1)
			in.Run.Model[speedmatrix.ModelReadBytes] = speedmatrix.Fact{Value: 3e9}
			in.Run.Model[speedmatrix.ModelKVBytes] = speedmatrix.Fact{Value: 1e4}
		}, "ceiling", Passed, nil, consistent, ""},
		{"prefill beyond", func(in *Input) {
			in.Run.Cells[0].PromptTokensPerSecond, in.Run.Cells[0].TTFT.P50 = new(8192.0), new(2000.0)
		}, "ceiling", Found, []string{"prefill-16k"}, below, "prefill-16k"},
		{"prefill with 8 bits", func(in *Input) {
			in.Run.Cells[0].PromptTokensPerSecond, in.Run.Cells[0].TTFT.P50 = new(8192.0), new(2000.0)
			in.Run.Model[speedmatrix.ModelQuantization] = speedmatrix.Fact{Value: "FP8"}
		}, "ceiling", Passed, nil, consistent, ""},
		{"nothing known", func(in *Input) { delete(in.Run.Model, speedmatrix.ModelFLOP) }, "ceiling", Unknown, nil, consistent, ""},
		{"drafts", func(in *Input) {
			allFaster(in, 4)
			drafting(in, "eagle3, 5 tokens", 4)
		}, "ceiling", Passed, nil, consistent, "50 %"},
		{"more accepted than drafted", func(in *Input) {
			allFaster(in, 20)
			drafting(in, "eagle3, 5 tokens", 40)
		}, "ceiling", Found, every, below, ""},
		{"accepted", func(in *Input) { drafting(in, "eagle3, 5 tokens", 6) }, "drafts", Passed, nil, consistent, "at most 6 of a step"},
		{"too many accepted", func(in *Input) { drafting(in, "eagle3, 5 tokens", 6.5) }, "drafts", Found, append([]string{"prefill-16k"}, every...), below, "more than the 6"},
		{"accepted without drafts", func(in *Input) { in.cell(0, 1).AcceptedTokensPerStep = new(3.0) }, "drafts", Found, []string{"decode-0-x1"}, below, "more than the 1"},
		{"drafts unknown", func(in *Input) {
			in.Run.Engine[speedmatrix.EngineSpeculative] = speedmatrix.Fact{Value: "ngram"}
		}, "drafts", Unknown, nil, consistent, "ngram"},
	})
}

func TestCellsThatCannotHaveRun(t *testing.T) {
	limit := func(facts speedmatrix.Facts, key string, v float64) { facts[key] = speedmatrix.Fact{Value: v} }
	runAll(t, []finding{
		{"fit", func(*Input) {}, "fits", Passed, nil, consistent, "65,536 tokens of length, 128 requests at once, 200,000 tokens of KV cache"},
		{"too long", func(in *Input) { limit(in.Run.Model, speedmatrix.ModelMaxLength, 8192) }, "fits", Found,
			[]string{"prefill-16k", "decode-16k-x1", "decode-16k-x2", "decode-16k-x4", "decode-16k-x8"}, below, "5 cells"},
		{"too long by the command", func(in *Input) {
			delete(in.Run.Model, speedmatrix.ModelMaxLength)
			in.Entry.Flags = []string{"--max-model-len=8192"}
		}, "fits", Found, []string{"prefill-16k", "decode-16k-x1", "decode-16k-x2", "decode-16k-x4", "decode-16k-x8"}, below, ""},
		{"more at once than run", func(in *Input) { limit(in.Run.Engine, speedmatrix.EngineRunningLimit, 4) }, "fits", Found, []string{"decode-0-x8", "decode-16k-x8"}, below, ""},
		{"no room", func(in *Input) { limit(in.Run.Engine, speedmatrix.EngineKVTokens, 70_000) }, "fits", Found, []string{"decode-16k-x8"}, below, ""},
		{"no room, shared", func(in *Input) {
			limit(in.Run.Engine, speedmatrix.EngineKVTokens, 70_000)
			in.Run.Method.Prompts = "shared"
		}, "fits", Passed, nil, consistent, ""},
		{"nothing known", func(in *Input) {
			delete(in.Run.Model, speedmatrix.ModelMaxLength)
			in.Run.Engine = speedmatrix.Facts{speedmatrix.EngineName: in.Run.Engine[speedmatrix.EngineName], speedmatrix.EngineVersion: in.Run.Engine[speedmatrix.EngineVersion]}
			in.Entry.Flags = nil
		}, "fits", Unknown, nil, consistent, ""},
		{"none refused", func(*Input) {}, "budget", Passed, nil, consistent, "no cell is Over capacity"},
		{"refused, and a larger one ran", func(in *Input) { refuse(in, 0, 2) }, "budget", Found, nil, consistent, "a cell that ran needed 131,072 tokens, and one that needed 16,384 was left out"},
		{"refused by the plan", func(in *Input) {
			in.Run.Method.KVPlan, in.Run.Method.Prompts = "reserve", "shared"
			refuse(in, 16384, 8)
			refuse(in, 0, 8)
		}, "budget", Found, nil, consistent, "needed 98,304 tokens, and one that needed 65,536"},
		{"one budget", func(in *Input) {
			in.Run.Method.KVPlan = "reserve"
			refuse(in, 16384, 8)
		}, "budget", Passed, nil, consistent, "between 98,304 and 196,608 tokens, in 1 cell"},
		{"no rule", func(in *Input) { in.Run.Method.Prompts = "shared" }, "budget", Unknown, nil, consistent, ""},
	})
}

// refuse makes a cell Over capacity.
func refuse(in *Input, context, n int) {
	c := in.cell(context, n)
	*c = speedmatrix.Cell{Phase: c.Phase, Context: c.Context, ContextLabel: c.ContextLabel, Concurrency: c.Concurrency, Status: speedmatrix.StatusOverCapacity, Reason: "no room"}
}

// queued says of a cell that requests waited.
func queued(c *speedmatrix.Cell, active float64, share *float64) {
	c.Status, c.Reason, c.ActiveRequestsMean, c.QueuedShare = speedmatrix.StatusRequestsQueued, "waited", &active, share
}

func TestLabelsThatCannotBeTrue(t *testing.T) {
	runAll(t, []finding{
		{"all ran", func(in *Input) { queued(in.cell(0, 8), 8, nil) }, "queued", Found, []string{"decode-0-x8"}, below, "cannot be true"},
		{"all but one in two hundred ran", func(in *Input) { queued(in.cell(0, 8), 7.97, nil) }, "queued", Found, []string{"decode-0-x8"}, below, ""},
		{"fewer ran", func(in *Input) { queued(in.cell(0, 8), 7.4, nil) }, "queued", Passed, nil, consistent, ""},
		{"the wait was seen", func(in *Input) { queued(in.cell(0, 8), 8, new(0.2)) }, "queued", Passed, nil, consistent, ""},
		{"not known how many ran", func(in *Input) {
			queued(in.cell(0, 8), 0, nil)
			in.cell(0, 8).ActiveRequestsMean = nil
		}, "queued", Passed, nil, consistent, ""},
		{"corrected", func(in *Input) { in.Corrected = []string{"decode-0-x8"} }, "corrected", Found, []string{"decode-0-x8"}, consistent, "label corrected by the uploader"},
		{"taken back", func(in *Input) {
			queued(in.cell(0, 8), 8, nil)
			c := in.cell(0, 8)
			c.TotalTokensPerSecond, c.PerRequestTokensPerSecond, c.ActiveRequestsMean, in.Corrected = nil, nil, nil, []string{c.Key()}
		}, "reasons", Passed, nil, consistent, ""},
		{"loops", func(in *Input) {
			in.cell(0, 8).Loops = []speedmatrix.LoopEvidence{{Stream: 1}, {Stream: 1}, {Stream: 5}}
		}, "loops", Found, []string{"decode-0-x8"}, below, "1 cell"},
		{"one loop", func(in *Input) { in.cell(0, 8).Loops = []speedmatrix.LoopEvidence{{Stream: 1}} }, "loops", Passed, nil, consistent, ""},
		{"Looped", func(in *Input) {
			c := in.cell(0, 8)
			c.Status, c.Reason = speedmatrix.StatusLooped, "it looped"
		}, "loops", Passed, nil, consistent, "1 cell is Looped"},
		{"nobody looked", func(in *Input) { in.Run.Origin = speedmatrix.OriginImported }, "loops", Unknown, nil, catalog.Complete, ""},
		{"events", func(in *Input) { in.cell(0, 8).TokenSource = speedmatrix.TokensEvents }, "tokens", Found, []string{"decode-0-x8"}, consistent, "lower bounds"},
		{"counted somehow", func(in *Input) {
			for i := range in.Run.Cells {
				in.Run.Cells[i].TokenSource = ""
			}
		}, "tokens", Unknown, nil, consistent, ""},
		{"shared prompts", func(in *Input) { in.Run.Method.Prompts = "shared" }, "prompts", Unknown, nil, consistent, "shared a prompt"},
		{"prompts unknown", func(in *Input) { in.Run.Method.Prompts = "" }, "prompts", Unknown, nil, consistent, "not recorded"},
		{"cached", func(in *Input) { in.Run.Cells[0].CachedTokens = new(15000.0) }, "cold", Found, []string{"prefill-16k"}, below, "1 context"},
		{"warm", func(in *Input) {
			in.Run.Cells[0].CachedTokens, in.Run.Cells[0].TTFTKind = nil, speedmatrix.TTFTWarm
		}, "cold", Found, []string{"prefill-16k"}, below, ""},
		{"cache unknown", func(in *Input) { in.Run.Cells[0].CachedTokens = nil }, "cold", Unknown, nil, consistent, ""},
	})
}

func TestADoubtfulCellIsNamedWithItsReason(t *testing.T) {
	in := good()
	queued(in.cell(0, 8), 8, nil)
	queued(in.cell(16384, 1), 1, nil)
	in.describe()
	r := Evaluate(in)
	want := []Doubt{
		{"decode-0-x8", "“Requests queued” says that some requests had to wait; 8 requests were sent and 8.0 ran on average, so none can have waited"},
		{"decode-16k-x1", "“Requests queued” says that some requests had to wait; one request was sent and 1.0 ran on average, so none can have waited"},
	}
	if len(r.Doubts) != 2 || r.Doubts[0] != want[0] || r.Doubts[1] != want[1] {
		t.Errorf("%+v", r.Doubts)
	}
}
