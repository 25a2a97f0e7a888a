package verify

import (
	"slices"
	"strings"
	"testing"

	"speedmatrix"
)

// goodKey names the rows of the good run's decode cell.
const goodKey = "decode-1k-x2"

func TestABrokenInvariantOfTheRowsIsDetected(t *testing.T) {
	tests := map[string]struct {
		breakRows func(rows *memory, requests []speedmatrix.RequestRow, events []speedmatrix.EventRow)
		field     string
	}{
		"an unknown class": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) { r[0].Class = "done" }, "request 0 class"},
		"two requests of one number": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[2].Request = 1
		}, "requests"},
		"events of no request": {func(_ *memory, _ []speedmatrix.RequestRow, e []speedmatrix.EventRow) { e[5].Request = 77 }, "events"},
		"events of another stream": {func(_ *memory, _ []speedmatrix.RequestRow, e []speedmatrix.EventRow) {
			e[5].Stream = 1
		}, "events"},
		"an event before the one before it": {func(_ *memory, _ []speedmatrix.RequestRow, e []speedmatrix.EventRow) {
			e[5].TimeNS, e[6].TimeNS = e[6].TimeNS, e[5].TimeNS
		}, "request 0 events"},
		"more tokens than the cap": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[0].CompletionTokens = whole(8193)
		}, "request 0 tokens"},
		"a count above the cap": {func(_ *memory, _ []speedmatrix.RequestRow, e []speedmatrix.EventRow) { e[59].Tokens = whole(8193) }, "request 0 tokens"},
		"completed without a token": {func(rows *memory, _ []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			rows.put(goodKey, completedAt(restart(3, 0, 6200), 6300, 0))
		}, "request 3 class"},
		"a first token that no event has": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[0].FirstNS = at(200)
		}, "request 0 first_ns"},
		"latency that is not the sum of gaps": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[0].LastNS = at(6111)
		}, "request 0 latency − TTFT"},
		"no first text for the reader": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[1].FirstVisibleNS = nil
		}, "request 1 first_visible_ns"},
		"a token before the request": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[0].WrittenNS = at(211)
		}, "request 0 written_ns"},
		"a token without a request": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[0].WrittenNS = nil
		}, "request 0 written_ns"},
		"an end before the request": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[0].EndedNS = at(5)
		}, "request 0 written_ns"},
		"two requests of a stream at once": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[1].EndedNS = at(3051)
		}, "stream 1"},
		"more in flight than the concurrency": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[1].EndedNS = at(3051)
		}, "requests in flight"},
		"a stream beyond the concurrency": {func(rows *memory, _ []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			rows.put(goodKey, launch(3, 2, 10))
		}, "stream 2"},
		"a stream that is launched twice": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[2].Purpose = "launch"
		}, "stream 1"},
		"a stream that is not launched": {func(_ *memory, r []speedmatrix.RequestRow, _ []speedmatrix.EventRow) {
			r[0].Purpose = "restart"
		}, "stream 0"},
		"final usage booked at the end": {func(_ *memory, _ []speedmatrix.RequestRow, e []speedmatrix.EventRow) {
			for i := range 59 {
				e[i].Tokens = nil
			}
			e[59].TextLength = 0
		}, "request 0 events"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run, rows := goodRun()
			test.breakRows(rows, rows.requests[goodKey], rows.events[goodKey])
			wantOne(t, check(t, run, rows), test.field)
		})
	}
}

func TestRequestsThatFollowEachOtherAtOneInstantAreNotTwoInFlight(t *testing.T) {
	run, rows := goodRun()
	rows.requests[goodKey][1].EndedNS = rows.requests[goodKey][2].WrittenNS
	report := check(t, run, rows)
	if slices.ContainsFunc(report.Disagreements, func(d Disagreement) bool {
		return d.Field == "requests in flight" || strings.HasPrefix(d.Field, "stream")
	}) {
		t.Errorf("%+v", report.Disagreements)
	}
}

func TestTheEndsOfTheWindowAreArrivals(t *testing.T) {
	tests := map[string]struct {
		from, seconds float64
		stopped       float64 // the streams' end; the last arrival comes at 5,000 ms
		field         string
	}{
		"both arrivals":                    {1210, 3, 6150, ""},
		"the start is none":                {1211, 2.999, 6150, "window_started_at"},
		"the end is none":                  {1210, 3.001 - 0.2, 6150, "window_seconds"},
		"no arrival within 2 s of the end": {1210, 4, 7300, ""},
		"not watched for 2 s":              {1210, 4, 7200, "window_seconds"},
		"no length":                        {1210, 0, 6150, "window_seconds window_started_at window_seconds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run, cell, key := bare(1)
			cell.WindowStartedAt, cell.WindowSeconds = new(timeAt(test.from)), &test.seconds
			rows := newMemory()
			r := launch(0, 0, 10)
			r.EndedNS = at(test.stopped)
			rows.put(key, r, every(210, 100, 41, 4)...)
			report := check(t, run, rows)
			var got []string
			for _, d := range report.Disagreements {
				if strings.HasPrefix(d.Field, "window") {
					got = append(got, d.Field)
				}
			}
			if want := strings.Fields(test.field); !slices.Equal(got, want) {
				t.Errorf("disagreements about %q, want %q", got, want)
			}
		})
	}
}

func TestTheCompatWindowNeedNotBeginAtAnArrival(t *testing.T) {
	run, cell, key := bare(1)
	run.Method.Name = speedmatrix.MethodCompat
	cell.WindowStartedAt, cell.WindowSeconds = new(timeAt(1200)), new(4.01)
	rows := newMemory()
	rows.put(key, launch(0, 0, 10), every(210, 100, 60, 4)...)
	wantNone(t, check(t, run, rows))
}
