package report

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
)

// madeRows is the raw rows of one cell, as a server with steady steps would make them.
type madeRows struct {
	key      string
	cell     speedmatrix.Cell
	eventErr error
	// uncounted leaves the cumulative counts out.
	uncounted bool
}

func (r madeRows) HasCell(key string) bool { return key == r.key }

const madeStep = 12.6e6 // ns between two events of a stream

func (r madeRows) start() int64 { return r.cell.WindowStartedAt.UnixNano() }

func (r madeRows) Events(string) iter.Seq2[speedmatrix.EventRow, error] {
	return func(yield func(speedmatrix.EventRow, error) bool) {
		for stream := range int32(r.cell.Concurrency) {
			for k := range int32(2500) {
				late := 0.4e6 * math.Sin(float64(k*7+stream))
				row := speedmatrix.EventRow{Request: stream, Stream: stream, TimeNS: r.start() + int64(float64(k-20)*madeStep+late), TextLength: 4, Channel: "content"}
				if !r.uncounted {
					row.Tokens = new(k + 1)
				}
				if !yield(row, nil) {
					return
				}
			}
		}
		if r.eventErr != nil {
			yield(speedmatrix.EventRow{}, r.eventErr)
		}
	}
}

func (r madeRows) Requests(string) ([]speedmatrix.RequestRow, error) {
	var rows []speedmatrix.RequestRow
	for stream := range int32(r.cell.Concurrency) {
		written := r.start() - 3e8
		rows = append(rows, speedmatrix.RequestRow{Request: stream, Stream: stream, Purpose: "launch", WrittenNS: &written, FirstNS: new(written + int64(150+10*stream)*1e6)})
	}
	return append(rows, speedmatrix.RequestRow{Request: 99, Stream: 0, Purpose: "restart", WrittenNS: new(r.start()), FirstNS: new(r.start() + 9e9)}), nil
}

func (r madeRows) Server() ([]speedmatrix.ServerRow, error) {
	var rows []speedmatrix.ServerRow
	for i := range int64(60) {
		at := r.start() + (i-15)*1e9
		row := speedmatrix.ServerRow{SentNS: at, ReceivedNS: at + 2e6, Running: new(8.0), Waiting: new(0.0), KVUsage: new(0.3 + float64(i)/1000)}
		if i == 20 {
			row = speedmatrix.ServerRow{SentNS: at, ReceivedNS: at, Error: "timeout"}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Machine has no samples: those of a watched run stand in machine_test.go.
func (r madeRows) Machine() ([]speedmatrix.MachineRow, error) { return nil, nil }

// measuredRun is a complete run with distributions, and the raw rows of one of its cells.
func measuredRun() (*speedmatrix.Run, Rows) {
	run := fullRun()
	var rows madeRows
	for i := range run.Cells {
		c := &run.Cells[i]
		for _, d := range []*speedmatrix.Distribution{c.TTFT, c.TimeBetweenTokens} {
			if d != nil && d.P50 != nil {
				d.Min, d.Max, d.Mean, d.P90 = new(*d.P50*0.8), new(*d.P50*1.5), new(*d.P50*1.02), new(*d.P50*1.3)
			}
		}
		if c.Key() == "decode-16k-x8" {
			c.Warnings = []speedmatrix.Warning{{Code: "underfilled", Message: "only 7.8 requests ran on average"}}
			rows = madeRows{key: c.Key(), cell: *c}
		}
	}
	return run, rows
}

// everyRun is a run of each kind that a page has to show.
func everyRun() map[string]*speedmatrix.Run {
	huge := everyStatusRun()
	for i := range huge.Cells {
		huge.Cells[i].TotalTokensPerSecond, huge.Cells[i].TTFT = new(1e300), &speedmatrix.Distribution{P50: new(-1e300)}
	}
	return map[string]*speedmatrix.Run{
		"full": fullRun(), "statuses": everyStatusRun(), "one cell": oneCellRun(), "wide": wideRun(), "hostile": hostileRun(), "empty": {}, "huge": huge,
	}
}

func TestTheWindowOfACellIsDrawnFromItsRows(t *testing.T) {
	run, rows := measuredRun()
	m := Build(run).Measurements[slices.IndexFunc(Build(run).Measurements, func(m *Measurement) bool { return m.Key == "decode-16k-x8" })]
	made := rows.(madeRows)
	for _, uncounted := range []bool{false, true} {
		made.uncounted = uncounted
		w := newWindow(m.Cell)
		for e := range made.Events("") {
			w.add(e)
		}
		rates := w.rates()
		if len(rates) != 60 || w.events < 8*2379 || w.events > 8*2382 {
			t.Fatalf("%d parts, %d events", len(rates), w.events)
		}
		for _, r := range rates {
			want := 8 / 12.6e-3
			if uncounted {
				want = *m.Cell.TotalTokensPerSecond
			}
			if math.Abs(r.Value/want-1) > 0.03 {
				t.Errorf("uncounted %v: %.1f tok/s at %.1f s, want about %.1f", uncounted, r.Value, r.Seconds, want)
			}
		}
		slices.Sort(w.gaps)
		if p50 := quantile(w.gaps, 0.5); math.Abs(p50-12.6) > 0.5 || len(w.gaps) >= w.events {
			t.Errorf("median gap %.2f ms of %d", p50, len(w.gaps))
		}
		server, _ := made.Server()
		if lanes := w.timeline(m, server).Lanes; len(lanes) != 4 || len(lanes[1].Samples) != 29 || lanes[3].Last != "34 %" {
			t.Errorf("%d lanes, the second with %d samples, the last ends at %s", len(lanes), len(lanes[1].Samples), lanes[len(lanes)-1].Last)
		}
	}
	requests, _ := made.Requests("")
	if got := firstTokens(requests); len(got) != 8 || got[0] != 150 || got[7] != 220 {
		t.Errorf("TTFT of the launch: %v", got)
	}
}

func TestRowsThatCannotBeReadAreNamedOnThePage(t *testing.T) {
	run, rows := measuredRun()
	made := rows.(madeRows)
	made.eventErr = errors.New("the file <ends> early")
	var out strings.Builder
	if err := HTML(&out, Build(run), HTMLOptions{Rows: made}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "The raw rows could not be read: the file &lt;ends&gt; early") {
		t.Error("the page hides that rows could not be read")
	}
}

func TestATimelineOfAShortWindowHasPartsOfSomeTokens(t *testing.T) {
	for tokens, parts := range map[float64]int{0: 10, 100: 10, 400: 20, 1e6: 60} {
		c := speedmatrix.Cell{WindowStartedAt: new(time.Unix(1, 0)), WindowSeconds: new(5.0), OutputTokens: &tokens}
		if got := len(newWindow(&c).tokens); got != parts {
			t.Errorf("%v tokens: %d parts, want %d", tokens, got, parts)
		}
	}
}
