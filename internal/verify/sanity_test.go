package verify

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

func timeAt(millis float64) time.Time { return time.Unix(0, ms(millis)).UTC() }

func TestACellThatContradictsItselfIsDetected(t *testing.T) {
	tests := map[string]struct {
		change func(c *speedmatrix.Cell)
		field  string
	}{
		"skipped with a speed":            {func(c *speedmatrix.Cell) { c.Status = speedmatrix.StatusSkipped }, "total_tokens_per_second"},
		"too long with a TTFT":            {func(c *speedmatrix.Cell) { c.Status = speedmatrix.StatusExceedsModelLength }, "ttft_ms"},
		"valid without a speed":           {func(c *speedmatrix.Cell) { c.TotalTokensPerSecond = nil }, "total_tokens_per_second"},
		"an unknown status":               {func(c *speedmatrix.Cell) { c.Status = "Fine" }, "status"},
		"an unknown phase":                {func(c *speedmatrix.Cell) { c.Phase = "burst" }, "phase"},
		"not valid without a reason":      {func(c *speedmatrix.Cell) { c.Reason = "" }, "reason"},
		"preempted but not over capacity": {func(c *speedmatrix.Cell) { c.Preemptions = new(1) }, "status"},
		"failures but not failed": {func(c *speedmatrix.Cell) {
			c.Requests.Sent, c.Requests.Failed = 99, 1
		}, "status"},
		"queued but valid":          {func(c *speedmatrix.Cell) { c.Status = speedmatrix.StatusValid }, "status"},
		"classes that do not sum":   {func(c *speedmatrix.Cell) { c.Requests.Cut++ }, "requests.sent"},
		"two counts of failures":    {func(c *speedmatrix.Cell) { c.FailedRequests = new(1) }, "failed_requests"},
		"a rate of other tokens":    {func(c *speedmatrix.Cell) { c.OutputTokens = new(104.0) }, "total_tokens_per_second"},
		"an interval elsewhere":     {func(c *speedmatrix.Cell) { c.Interval95.High = 25 }, "interval_95"},
		"p90 of 9 samples":          {func(c *speedmatrix.Cell) { c.TTFT.N, c.TTFT.P90 = 9, new(199.0) }, "ttft_ms.p90"},
		"a median above the most":   {func(c *speedmatrix.Cell) { c.Send.P50 = new(5.0) }, "send_ms"},
		"prefill of two at once":    {func(c *speedmatrix.Cell) { c.Phase = speedmatrix.PhasePrefill }, "concurrency"},
		"prefill without its speed": {func(c *speedmatrix.Cell) { c.Phase = speedmatrix.PhasePrefill }, "prompt_tokens_per_second"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			// Without rows, so that nothing but the cell itself can tell.
			run, _ := goodRun()
			cell := run.Cells[1]
			test.change(&cell)
			report := check(t, &speedmatrix.Run{Cells: []speedmatrix.Cell{cell}}, newMemory())
			wantOne(t, report, test.field)
		})
	}
}

func TestFailuresUpToOnePercentAreNoContradiction(t *testing.T) {
	cell := goodDecode()
	cell.Requests = &speedmatrix.RequestCounts{Sent: 100, Cut: 99, Failed: 1}
	cell.FailedRequests = new(1)
	wantNone(t, check(t, &speedmatrix.Run{Cells: []speedmatrix.Cell{cell}}, newMemory()))
}

func TestCellsWithoutRowsAreListedWithTheReason(t *testing.T) {
	reasons := map[speedmatrix.Origin]string{
		speedmatrix.OriginMeasured:  "decode-1k-x2: its raw events are not in the run directory",
		speedmatrix.OriginPredicted: "decode-1k-x2: predicted, not measured: there are no raw events",
		speedmatrix.OriginImported:  "decode-1k-x2: imported from another tool's results, which have no raw events",
	}
	for origin, want := range reasons {
		run := &speedmatrix.Run{Origin: origin, Cells: []speedmatrix.Cell{
			goodDecode(),
			{Phase: speedmatrix.PhaseDecode, ContextLabel: "1K", Context: 1024, Concurrency: 4, Status: speedmatrix.StatusSkipped, Reason: "by --max-time"},
		}}
		report := check(t, run, newMemory())
		wantNone(t, report)
		if diff := cmp.Diff([]string{want}, report.Unchecked); diff != "" {
			t.Error(diff)
		}
		if report.Cells != 0 {
			t.Errorf("%d cells without rows were checked", report.Cells)
		}
	}
}

func TestImportedNumbersAreNotHeldToOurFormulas(t *testing.T) {
	cell := goodDecode()
	cell.TotalTokensPerSecond = new(26.0)
	cell.TTFT.P99 = new(200.0)
	wantNone(t, check(t, &speedmatrix.Run{Origin: speedmatrix.OriginImported, Cells: []speedmatrix.Cell{cell}}, newMemory()))
}

func TestACellThatShowsNoSpeedMayKeepOrDropItsNumbers(t *testing.T) {
	run, rows := goodRun()
	cell := &run.Cells[1]
	cell.Status = speedmatrix.StatusLooped
	cell.Interval95, cell.EventGap, cell.TokenSource = nil, nil, ""
	wantNone(t, check(t, run, rows))
	cell.OutputTokens = new(104.0)
	wantOne(t, check(t, run, rows), "output_tokens")
}

func TestDamagedRowsAreADisagreementOfTheirCellAlone(t *testing.T) {
	run, rows := goodRun()
	rows.damaged = goodKey
	report := check(t, run, rows)
	want := []Disagreement{{Cell: goodKey, Field: "rows", Published: "readable", Recomputed: "the file is damaged"}}
	if diff := cmp.Diff(want, report.Disagreements); diff != "" {
		t.Error(diff)
	}
	if report.Cells != 3 {
		t.Errorf("%d cells checked, want the other 3", report.Cells)
	}
}

func TestDriftIsSignificantWhenTheIntervalsDoNotMeet(t *testing.T) {
	tests := map[string]struct {
		first, again *speedmatrix.Interval
		rate         float64 // of the second; the first has 100
		want         bool
	}{
		"they do not meet":   {&speedmatrix.Interval{Low: 95, High: 105}, &speedmatrix.Interval{Low: 86, High: 94}, 90, true},
		"they meet":          {&speedmatrix.Interval{Low: 92, High: 108}, &speedmatrix.Interval{Low: 86, High: 94}, 90, false},
		"one inside another": {&speedmatrix.Interval{Low: 89, High: 111}, &speedmatrix.Interval{Low: 89.5, High: 90.5}, 90, false},
		"a rate alone":       {nil, &speedmatrix.Interval{Low: 85, High: 95}, 90, true},
		"they touch":         {&speedmatrix.Interval{Low: 95, High: 105}, &speedmatrix.Interval{Low: 85, High: 95}, 90, false},
		"too small to count": {&speedmatrix.Interval{Low: 99.9, High: 100.1}, &speedmatrix.Interval{Low: 99.1, High: 99.3}, 99.2, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cell := speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, ContextLabel: "0", Concurrency: 1, Status: speedmatrix.StatusValid}
			first, again := cell, cell
			first.TotalTokensPerSecond, first.Interval95 = new(100.0), test.first
			again.TotalTokensPerSecond, again.Interval95 = new(test.rate), test.again
			run := &speedmatrix.Run{Cells: []speedmatrix.Cell{first}, Drift: &speedmatrix.Drift{Cell: again, Change: new(test.rate/100 - 1), Significant: test.want}}
			wantNone(t, check(t, run, newMemory()))
			run.Drift.Significant = !test.want
			report := check(t, run, newMemory())
			if name == "they touch" {
				// A rounding could part them.
				wantNone(t, report)
				return
			}
			wantOne(t, report, "drift.significant")
		})
	}
}

func TestADriftThatIsNotValidNeedsNoChange(t *testing.T) {
	run, rows := goodRun()
	run.Drift.Change = nil
	wantNone(t, check(t, run, rows))
	run.Drift.Cell.Status, run.Drift.Cell.QueuedShare = speedmatrix.StatusValid, nil
	wantOne(t, check(t, run, rows), "drift.change")
}

func TestAPrefillCellWithAFailureMayBeValid(t *testing.T) {
	run, rows := goodRun()
	key := run.Cells[0].Key()
	rows.put(key, speedmatrix.RequestRow{Request: 4, Stream: -1, Purpose: "fill", Class: "failed", HTTPStatus: 500})
	run.Cells[0].Requests.Sent, run.Cells[0].Requests.Failed, run.Cells[0].FailedRequests = 5, 1, new(1)
	wantNone(t, check(t, run, rows))
}

func TestPrefillSamplesAreThoseOfTheirRequests(t *testing.T) {
	run, rows := goodRun()
	key := run.Cells[0].Key()
	samples := run.Cells[0].PrefillSamples

	run.Cells[0].PrefillSamples = append(slices.Clone(samples), speedmatrix.PrefillSample{Request: 9})
	wantOne(t, check(t, run, rows), "prefill_samples[4].request")
	run.Cells[0].PrefillSamples = append(slices.Clone(samples[:3]), samples[2])
	wantOne(t, check(t, run, rows), "prefill_samples[3].request")
	run.Cells[0].PrefillSamples = samples
	rows.requests[key][0].FirstNS = nil
	wantOne(t, check(t, run, rows), "prefill_samples[0].request")
}

func TestAServerThatDoesNotCountPromptsLeavesTheSamplesOwnCount(t *testing.T) {
	run, rows := goodRun()
	for i := range rows.requests[run.Cells[0].Key()] {
		rows.requests[run.Cells[0].Key()][i].PromptTokens = nil
	}
	wantNone(t, check(t, run, rows))
}

func TestACheckNeedsARunAndReadableScrapes(t *testing.T) {
	if _, err := Check(nil, newMemory()); err == nil {
		t.Error("no run is no error")
	}
	if _, err := Check(&speedmatrix.Run{}, nil); err == nil {
		t.Error("no rows are no error")
	}
}
