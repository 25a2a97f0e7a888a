package verify

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
)

// zero is the instant from which the tests count milliseconds.
const zero = int64(1_800_000_000_000_000_000)

func ms(x float64) int64 { return zero + int64(x*1e6) }

func at(x float64) *int64 { return new(ms(x)) }

func whole(n int) *int32 { return new(int32(n)) }

// memory holds the rows of a run.
type memory struct {
	requests map[string][]speedmatrix.RequestRow
	events   map[string][]speedmatrix.EventRow
	server   []speedmatrix.ServerRow
	machine  []speedmatrix.MachineRow
	damaged  string
}

func newMemory() *memory {
	return &memory{requests: map[string][]speedmatrix.RequestRow{}, events: map[string][]speedmatrix.EventRow{}}
}

func (m *memory) HasCell(key string) bool { return m.requests[key] != nil }

func (m *memory) Events(key string) iter.Seq2[speedmatrix.EventRow, error] {
	return func(yield func(speedmatrix.EventRow, error) bool) {
		for _, row := range m.events[key] {
			if !yield(row, nil) {
				return
			}
		}
		if key == m.damaged {
			yield(speedmatrix.EventRow{}, errors.New("the file is damaged"))
		}
	}
}

func (m *memory) Requests(key string) ([]speedmatrix.RequestRow, error) { return m.requests[key], nil }

func (m *memory) Machine() ([]speedmatrix.MachineRow, error) { return m.machine, nil }

func (m *memory) Server() ([]speedmatrix.ServerRow, error) { return m.server, nil }

// put adds a request with its events, and the times that follow from them.
func (m *memory) put(key string, r speedmatrix.RequestRow, events ...speedmatrix.EventRow) {
	for i := range events {
		e := &events[i]
		e.Request, e.Stream = r.Request, r.Stream
		if e.TextLength == 0 {
			continue
		}
		if r.FirstNS == nil {
			r.FirstNS = &e.TimeNS
		}
		if r.FirstVisibleNS == nil && e.Channel == "content" {
			r.FirstVisibleNS = &e.TimeNS
		}
		r.LastNS = &e.TimeNS
	}
	m.requests[key] = append(m.requests[key], r)
	m.events[key] = append(m.events[key], events...)
}

// every gives n events of so many bytes from a time on, in ms.
func every(from, step float64, n int, length int32) []speedmatrix.EventRow {
	var list []speedmatrix.EventRow
	for k := range n {
		list = append(list, speedmatrix.EventRow{TimeNS: ms(from + step*float64(k)), TextLength: length, Channel: "content"})
	}
	return list
}

// counted puts cumulative counts on events.
func counted(perEvent int, list []speedmatrix.EventRow) []speedmatrix.EventRow {
	for i := range list {
		list[i].Tokens = whole(perEvent * (i + 1))
	}
	return list
}

// launch, restart and fill are requests that were cut at 6,150 ms.
func launch(id, stream int32, written float64) speedmatrix.RequestRow {
	return speedmatrix.RequestRow{Request: id, Stream: stream, Purpose: "launch", Head: stream, PlannedNS: ms(0),
		WrittenNS: at(written), EndedNS: at(6150), Class: "cut", HTTPStatus: 200}
}

func restart(id, stream int32, written float64) speedmatrix.RequestRow {
	r := launch(id, stream, written)
	r.Purpose, r.PlannedNS = "restart", ms(written-1)
	return r
}

func completedAt(r speedmatrix.RequestRow, end float64, tokens int) speedmatrix.RequestRow {
	r.Class, r.FinishReason, r.EndedNS, r.CompletionTokens = "completed", "length", at(end), whole(tokens)
	return r
}

func scrape(cell string, middle float64) speedmatrix.ServerRow {
	return speedmatrix.ServerRow{SentNS: ms(middle - 2), ReceivedNS: ms(middle + 2), Cell: cell}
}

func check(t *testing.T, run *speedmatrix.Run, rows Rows) *Report {
	t.Helper()
	report, err := Check(run, rows)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func wantNone(t *testing.T, report *Report) {
	t.Helper()
	for _, d := range report.Disagreements {
		t.Errorf("%s %s: published %s, recomputed %s", d.Cell, d.Field, d.Published, d.Recomputed)
	}
}

// wantOne asserts that some disagreement is about the field.
func wantOne(t *testing.T, report *Report, field string) {
	t.Helper()
	if !slices.ContainsFunc(report.Disagreements, func(d Disagreement) bool { return strings.HasPrefix(d.Field, field) }) {
		t.Errorf("no disagreement about %q, only %+v", field, report.Disagreements)
	}
}

// bare is a run of one decode cell with its window from 1,210 to 5,210 ms and no numbers.
func bare(concurrency int) (*speedmatrix.Run, *speedmatrix.Cell, string) {
	run := &speedmatrix.Run{Schema: speedmatrix.Schema, Origin: speedmatrix.OriginMeasured}
	run.Cells = []speedmatrix.Cell{{
		Phase: speedmatrix.PhaseDecode, ContextLabel: "1K", Context: 1024, Concurrency: concurrency,
		Status: speedmatrix.StatusFailed, Reason: "a test", WindowStartedAt: new(time.Unix(0, ms(1210))), WindowSeconds: new(4.0),
	}}
	return run, &run.Cells[0], run.Cells[0].Key()
}

// recompute gives the cell as its rows have it.
func recompute(t *testing.T, run *speedmatrix.Run, rows *memory) (*speedmatrix.Cell, *measurement) {
	t.Helper()
	c := &checker{run: run, rows: rows, server: rows.server, machine: rows.machine, report: &Report{}}
	c.fills = c.findFills()
	m, err := c.load(run.Cells[0].Key(), &run.Cells[0])
	if err != nil {
		t.Fatal(err)
	}
	if run.Cells[0].Phase == speedmatrix.PhasePrefill {
		return c.prefill(m), m
	}
	return c.decode(m), m
}
