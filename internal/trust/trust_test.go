package trust

import (
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/verify"
)

func TestAGoodRunPassesEveryCheckUpToReproduced(t *testing.T) {
	in := good()
	r := Evaluate(in)
	if r.Level != catalog.SelfConsistent {
		t.Errorf("level %s", r.Level)
	}
	for _, c := range r.Checks {
		if c.Outcome != Passed && c.Code != "neighbours" && c.Code != "reproduced" {
			t.Errorf("%s: %s, %s", c.Code, c.Outcome, c.Detail)
		}
		if c.What == "" || c.Detail == "" {
			t.Errorf("%s says nothing: %+v", c.Code, c)
		}
	}
	in.Neighbours = append(in.Neighbours, other(in, "bob", 1.005), other(in, "eve", 0.998))
	if r = Evaluate(in); r.Level != catalog.Reproduced || !slices.Equal(r.Reproducers, []string{"run-bob", "run-eve"}) || r.ToReach != "" {
		t.Errorf("level %s by %v, to reach %q", r.Level, r.Reproducers, r.ToReach)
	}
}

// finding is a change of the good run, and what the check of a code must say of it.
type finding struct {
	name   string
	change func(in *Input)
	code   string
	want   Outcome
	// cells are the keys that it names; level is what the run reaches.
	cells []string
	level catalog.Level
	says  string
}

func (f finding) run(t *testing.T) {
	in := good()
	f.change(&in)
	if in.Entry.Owner == "ada" {
		flags := in.Entry.Flags
		neighbours := in.Neighbours
		in.describe()
		in.Entry.Flags, in.Neighbours = flags, neighbours
	}
	r := Evaluate(in)
	c := found(t, r, f.code)
	if c.Outcome != f.want || !slices.Equal(c.Cells, f.cells) || !strings.Contains(c.Detail, f.says) {
		t.Errorf("%s in %v: %s; want %s in %v: …%s…", c.Outcome, c.Cells, c.Detail, f.want, f.cells, f.says)
	}
	if r.Level != f.level {
		t.Errorf("level %s, want %s", r.Level, f.level)
	}
	if c.Bars && r.Level >= c.Level {
		t.Errorf("%s bars %s and the run is %s", c.Code, c.Level, r.Level)
	}
	if r.Level < catalog.Reproduced && !strings.HasSuffix(r.ToReach, ".") {
		t.Errorf("to reach more: %q", r.ToReach)
	}
}

func runAll(t *testing.T, list []finding) {
	for _, f := range list {
		t.Run(f.name, f.run)
	}
}

func TestWhatIsHereAlreadyIsSaid(t *testing.T) {
	runAll(t, []finding{
		{"same rows", func(in *Input) { in.SameRows = []string{"x"} }, "new", Found, nil, catalog.SelfConsistent, "the same raw rows are here as x"},
		{"edited", func(in *Input) { in.SameName, in.SameRows = []string{"x"}, []string{"x"} }, "new", Found, nil, catalog.SelfConsistent, "one of the two was edited"},
		{"same run", func(in *Input) { in.SameNumbers = []string{"a", "b", "c", "d", "e"} }, "new", Found, nil, catalog.SelfConsistent, "the same run is here as a, b, c and 2 more"},
		{"imported", func(in *Input) { in.Run.Origin = speedmatrix.OriginImported }, "read", Passed, nil, catalog.Complete, "9 cells"},
	})
}

func TestWhatIsMissingKeepsARunFromComplete(t *testing.T) {
	runAll(t, []finding{
		{"no version", func(in *Input) { delete(in.Run.Engine, speedmatrix.EngineVersion) }, "facts", Found, nil, catalog.Stated, "missing: version"},
		{"no command", func(in *Input) { in.Run.LaunchCommand = nil }, "facts", Found, nil, catalog.Stated, "missing: launch command"},
		{"nothing at all", func(in *Input) {
			in.Run.Model, in.Run.Hardware, in.Run.Engine = nil, nil, nil
		}, "facts", Found, nil, catalog.Stated, "missing: model, hardware, engine, version"},
		{"no build", func(in *Input) { delete(in.Run.Engine, speedmatrix.EngineBuild) }, "facts", Passed, nil, catalog.SelfConsistent, "no image or build"},
		{"no reason", func(in *Input) { in.cell(0, 8).Status = speedmatrix.StatusFailed }, "reasons", Found, []string{"decode-0-x8"}, catalog.Stated, "no reason in 1 cell"},
		{"with a reason", func(in *Input) {
			c := in.cell(0, 8)
			c.Status, c.Reason = speedmatrix.StatusFailed, "HTTP 500"
		}, "reasons", Passed, nil, catalog.SelfConsistent, "1 Failed"},
		{"Valid without a number", func(in *Input) { in.cell(0, 8).TotalTokensPerSecond = nil }, "reasons", Found, []string{"decode-0-x8"}, catalog.Stated, "has none"},
		{"a cell left out", func(in *Input) { in.Run.Cells = in.Run.Cells[:8] }, "planned", Found, nil, catalog.Stated, "1 planned cell is not among those published"},
		{"a prefill left out", func(in *Input) { in.Run.Cells = in.Run.Cells[1:] }, "planned", Found, nil, catalog.Stated, "1 planned cell"},
		{"a cell too many", func(in *Input) { in.Run.Plan.Concurrency = []int{1, 2, 4} }, "planned", Found, nil, catalog.Stated, "2 cells were not planned"},
		{"best of three", func(in *Input) { in.Run.Method.Repeat = 3 }, "planned", Found, nil, catalog.Stated, "2 planned repeats are not published"},
		{"ended early", func(in *Input) { in.Run.Method.Repeat, in.Run.Ended = 3, "interrupted" }, "planned", Passed, nil, catalog.SelfConsistent, ""},
		{"a thin repeat", func(in *Input) {
			in.Run.Method.Repeat = 2
			in.Run.Repeats = []speedmatrix.Repeat{{Index: 2, Cells: slices.Clone(in.Run.Cells[2:])}}
		}, "planned", Found, nil, catalog.Stated, "1 repeat lacks cells"},
		{"no plan", func(in *Input) { in.Run.Plan = speedmatrix.Plan{} }, "planned", Unknown, nil, catalog.SelfConsistent, "not recorded"},
	})
}

func TestWhatACompleteRunSaysOfItsSetUp(t *testing.T) {
	runAll(t, []finding{
		{"main", func(in *Input) {
			in.Run.Model[speedmatrix.ModelRevision] = speedmatrix.Fact{Value: "main"}
		}, "revision", Found, nil, catalog.SelfConsistent, "main can point to other weights tomorrow"},
		{"no revision", func(in *Input) { delete(in.Run.Model, speedmatrix.ModelRevision) }, "revision", Unknown, nil, catalog.SelfConsistent, ""},
		{"unlocked", func(in *Input) { in.Run.LaunchCommand.Value = "# gpu-unlock\nvllm serve x" }, "stock", Found, nil, catalog.SelfConsistent, "kept apart"},
		{"power limit", func(in *Input) {
			in.Run.Hardware[speedmatrix.HardwareGPUPowerLimit] = speedmatrix.Fact{Value: 450.0}
			in.Run.Hardware[speedmatrix.HardwareGPUPowerDefault] = speedmatrix.Fact{Value: 350.0}
		}, "stock", Found, nil, catalog.SelfConsistent, "power limit raised to 450 W"},
		{"not sampled", func(in *Input) { in.Run.Telemetry = nil }, "throttling", Unknown, nil, catalog.SelfConsistent, "not recorded"},
		{"no verdict", func(in *Input) {
			for i := range in.Run.Cells {
				in.Run.Cells[i].Throttle = nil
			}
		}, "throttling", Unknown, nil, catalog.SelfConsistent, "not measured"},
		{"hot", func(in *Input) { in.cell(0, 4).Throttle.Verdict = speedmatrix.ThrottleThermal }, "throttling", Found, []string{"decode-0-x4"}, catalog.SelfConsistent, "slowed down in 1 cell"},
	})
}

func TestOnlyRowsMakeARunRecomputed(t *testing.T) {
	runAll(t, []finding{
		{"no rows", func(in *Input) { in.Recomputed = nil }, "recomputed", Unknown, nil, catalog.Complete, "no raw events"},
		{"rows of no cell", func(in *Input) { in.Recomputed = &verify.Report{} }, "recomputed", Unknown, nil, catalog.Complete, "no cell with a number"},
		{"imported", func(in *Input) { in.Run.Origin = speedmatrix.OriginImported }, "recomputed", Unknown, nil, catalog.Complete, "another tool's table"},
		{"predicted", func(in *Input) { in.Run.Origin = speedmatrix.OriginPredicted }, "recomputed", Unknown, nil, catalog.Complete, "predicted"},
		{"other numbers", func(in *Input) {
			for _, field := range []string{"a", "b", "c", "d"} {
				in.Recomputed.Disagreements = append(in.Recomputed.Disagreements, verify.Disagreement{Cell: "decode-0-x1", Field: field, Published: "2", Recomputed: "1"})
			}
		}, "recomputed", Found, []string{"decode-0-x1"}, catalog.Complete, "decode-0-x1 a is published as 2, the rows give 1"},
		{"a cell without rows", func(in *Input) { in.Recomputed.Unchecked = []string{"decode-0-x8: no rows"} }, "recomputed", Found, nil, catalog.Complete, "1 cell has numbers and no rows"},
		{"a bad client", func(in *Input) { in.Run.Client.StampErrorP99Micros = new(5000.0) }, "client", Found, nil, catalog.SelfConsistent, "5,000 µs"},
		{"an unknown client", func(in *Input) { in.Run.Client.StampErrorP99Micros = nil }, "client", Unknown, nil, catalog.SelfConsistent, ""},
		{"client limited", func(in *Input) {
			c := in.cell(0, 8)
			c.Status, c.Reason = speedmatrix.StatusClientLimited, "reader lag"
		}, "client", Found, []string{"decode-0-x8"}, catalog.SelfConsistent, "1 cell is Client limited"},
		{"a clock that stepped", func(in *Input) { in.Run.Client.ClockSteps = 2 }, "client", Found, nil, catalog.SelfConsistent, "stepped 2 times"},
	})
}
