package compare

import (
	"errors"
	"math"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// document is a run without cells.
func document(id string) *speedmatrix.Run {
	return &speedmatrix.Run{Schema: speedmatrix.Schema, ID: id, Origin: speedmatrix.OriginMeasured, StartedAt: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		Method: speedmatrix.Method{Name: speedmatrix.MethodStandard, DurationSeconds: 30, Prompts: "distinct", Text: "books", TextSHA256: "aaaa"},
		Model:  speedmatrix.Facts{speedmatrix.ModelName: {Value: "Tiny", Source: "log"}},
		Engine: speedmatrix.Facts{speedmatrix.EngineVersion: {Value: "1.0", Source: "log"}}}
}

// decode is a Valid decode cell with a speed.
func decode(context, concurrency int, total float64) speedmatrix.Cell {
	each := total / float64(concurrency)
	return speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Context: context, ContextLabel: unit.FormatTokens(context), Concurrency: concurrency,
		Status: speedmatrix.StatusValid, TotalTokensPerSecond: &total, PerRequestTokensPerSecond: &each, TTFTKind: speedmatrix.TTFTCold,
		TTFT: &speedmatrix.Distribution{P50: new(100.0)}, TimeBetweenTokens: &speedmatrix.Distribution{P50: new(1000 / each)}}
}

// runOf is a run of one decode cell, measured with these results.
func runOf(id string, totals ...float64) *speedmatrix.Run {
	run := document(id)
	for i, total := range totals {
		cells := []speedmatrix.Cell{decode(0, 1, total)}
		if i == 0 {
			run.Cells = cells
			continue
		}
		run.Repeats = append(run.Repeats, speedmatrix.Repeat{Index: i + 1, Cells: cells})
	}
	return run
}

// ofRuns compares single runs.
func ofRuns(t testing.TB, o Options, runs ...*speedmatrix.Run) *Comparison {
	t.Helper()
	var inputs []Input
	for _, run := range runs {
		inputs = append(inputs, Input{Runs: []*speedmatrix.Run{run}})
	}
	c, err := New(inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// the is a pair's verdict on a metric.
func the(t testing.TB, p *Pair, m Metric) Verdict {
	t.Helper()
	for _, v := range p.Verdicts {
		if v.Metric == m {
			return v
		}
	}
	t.Fatalf("there is no verdict on %s", m)
	return Verdict{}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// refused demands an error for a user, and gives it.
func refused(t testing.TB, err error) *speedmatrix.Error {
	t.Helper()
	e, ok := errors.AsType[*speedmatrix.Error](err)
	if !ok || e.Kind != speedmatrix.KindUsage {
		t.Fatalf("%v (%T), want an error of the user's", err, err)
	}
	return e
}
