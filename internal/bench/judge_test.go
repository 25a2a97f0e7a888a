package bench_test

import (
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/bench"
)

// quiet is the evidence of a cell with nothing wrong: one stream, a token every 10 ms.
func quiet() (*bench.Evidence, *speedmatrix.Cell) {
	const begin = int64(1e18)
	row := speedmatrix.RequestRow{Request: 0, Stream: 0, Purpose: bench.PurposeLaunch, Class: string(speedmatrix.RequestCut),
		PlannedNS: begin, WrittenNS: new(begin), FirstNS: new(begin + 1e7), EndedNS: new(begin + 20e9)}
	events := func(yield func(speedmatrix.EventRow) bool) {
		for i := range int64(1900) {
			if !yield(speedmatrix.EventRow{TimeNS: begin + (i+1)*1e7, TextLength: 4, Channel: "content", Tokens: new(int32(i + 1))}) {
				return
			}
		}
	}
	e := &bench.Evidence{Concurrency: 1, Requests: []bench.Recorded{{Row: row, Events: events}},
		Outcome: bench.Outcome{Ending: bench.EndedMeasured, LaunchNS: begin, PlannedStartNS: begin + 1e9, PlannedEndNS: begin + 11e9, StopNS: begin + 11e9, DrainedAfter: true}}
	return e, &speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Concurrency: 1}
}

func TestAClientThatCannotKeepUpIsTheLimit(t *testing.T) {
	us := func(x float64) *float64 { return &x }
	tests := []struct {
		name   string
		q      speedmatrix.ClientQuality
		server float64 // its own share of coalesced reads
		status speedmatrix.Status
		reason string
	}{
		{"nothing late", speedmatrix.ClientQuality{StampSource: "kernel", ReaderLagP99Micros: us(300)}, 0, speedmatrix.StatusValid, ""},
		{"late reads under kernel stamps", speedmatrix.ClientQuality{StampSource: "kernel", ReaderLagP99Micros: us(8000)}, 0, speedmatrix.StatusValid, ""},
		{"and reads together", speedmatrix.ClientQuality{StampSource: "kernel", ReaderLagP99Micros: us(8000), CoalescedShare: us(0.2)}, 0, speedmatrix.StatusClientLimited, "8.0 ms (p99) late"},
		{"as the server does by itself", speedmatrix.ClientQuality{StampSource: "kernel", ReaderLagP99Micros: us(8000), CoalescedShare: us(0.2)}, 0.18, speedmatrix.StatusValid, ""},
		{"late reads in user space", speedmatrix.ClientQuality{StampSource: "user", ReaderLagP99Micros: us(6000)}, 0, speedmatrix.StatusClientLimited, "6.0 ms"},
		{"a little late in user space", speedmatrix.ClientQuality{StampSource: "user", ReaderLagP99Micros: us(900)}, 0, speedmatrix.StatusValid, ""},
		{"more than a tenth of a gap", speedmatrix.ClientQuality{StampSource: "user", ReaderLagP99Micros: us(1100)}, 0, speedmatrix.StatusClientLimited, "1.1 ms"},
		{"half a gap under kernel stamps, and not more", speedmatrix.ClientQuality{StampSource: "kernel", ReaderLagP99Micros: us(5000), CoalescedShare: us(0.2)}, 0, speedmatrix.StatusValid, ""},
		{"reads together without being late", speedmatrix.ClientQuality{StampSource: "kernel", ReaderLagP99Micros: us(300), CoalescedShare: us(0.2)}, 0, speedmatrix.StatusValid, ""},
		{"requests that left late", speedmatrix.ClientQuality{StampSource: "kernel", SendLateP99Micros: us(5100)}, 0, speedmatrix.StatusClientLimited, "requests left 5.1 ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, c := quiet()
			e.Client = &tt.q
			bench.Summarize(e, c)
			near(t, "total tok/s", c.TotalTokensPerSecond, 100)
			status, reason := bench.Judge(e, c, bench.Judgement{ServerCoalesced: tt.server})
			if status != tt.status || !strings.Contains(reason, tt.reason) {
				t.Errorf("%s: %q, want %s: …%s…", status, reason, tt.status, tt.reason)
			}
		})
	}
}

// Each cause alone gives its status; with any later cause beside it, it still does.
func TestOfTwoCausesTheEarlierStatusStands(t *testing.T) {
	scrape := func(waiting, kv float64) speedmatrix.ServerRow {
		at := int64(1e18 + 2e9)
		return speedmatrix.ServerRow{SentNS: at, ReceivedNS: at, Running: new(1.0), Waiting: &waiting, KVUsage: &kv}
	}
	causes := []struct {
		status speedmatrix.Status
		apply  func(e *bench.Evidence)
	}{
		{speedmatrix.StatusSkipped, func(e *bench.Evidence) { e.Outcome.Ending = bench.EndedSkipped }},
		{speedmatrix.StatusInterrupted, func(e *bench.Evidence) { e.Outcome.Ending = bench.EndedInterrupted }},
		{speedmatrix.StatusOverCapacity, func(e *bench.Evidence) { e.Scrapes = append(e.Scrapes, scrape(1, 0.99)) }},
		{speedmatrix.StatusFailed, func(e *bench.Evidence) {
			failed := e.Requests[0].Row
			failed.Class, failed.Error, failed.Purpose = string(speedmatrix.RequestFailed), "broken", bench.PurposeRestart
			failed.FirstNS = nil
			failed.WrittenNS, failed.EndedNS = new(int64(1e18+20e9)), new(int64(1e18+20e9))
			e.Requests = append(e.Requests, bench.Recorded{Row: failed, Events: func(func(speedmatrix.EventRow) bool) {}})
		}},
		{speedmatrix.StatusClientLimited, func(e *bench.Evidence) {
			e.Client = &speedmatrix.ClientQuality{StampSource: "user", SendLateP99Micros: new(9000.0)}
		}},
		{speedmatrix.StatusLooped, func(e *bench.Evidence) { e.Outcome.Looping = []int{0} }},
		{speedmatrix.StatusRequestsQueued, func(e *bench.Evidence) { e.Scrapes = append(e.Scrapes, scrape(2, 0.1)) }},
		{speedmatrix.StatusNotReady, func(e *bench.Evidence) { e.Outcome.Unready = true }},
	}
	for i, first := range causes {
		for _, second := range causes[i:] {
			if first.status == speedmatrix.StatusSkipped && second.status == speedmatrix.StatusInterrupted {
				continue // a cell ends once
			}
			e, c := quiet()
			second.apply(e)
			first.apply(e)
			bench.Summarize(e, c)
			status, reason := bench.Judge(e, c, bench.Judgement{})
			if status != first.status || reason == "" {
				t.Errorf("%s beside %s: %s: %q", first.status, second.status, status, reason)
			}
		}
	}
}
