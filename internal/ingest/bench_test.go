package ingest_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/unit"
)

// fullMatrix writes a run of 6 contexts × 8 numbers of requests, 1 to 128, with the rows of every cell: each stream gets a
// thousand tokens, one an event, some 1.6 million events in all. Its numbers are not those of its rows.
func fullMatrix(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	dir, err := runfile.Create(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // the lock of a folder that goes
	run, err := runfile.DecodeStrict(document(t, func(map[string]any) {}))
	if err != nil {
		t.Fatal(err)
	}
	one := *run.FindCell(speedmatrix.PhaseDecode, 0, 1)
	run.Cells, run.Plan.Contexts, run.Plan.Concurrency = nil, []int{0, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 136 << 10}, []int{1, 2, 4, 8, 16, 32, 64, 128}
	at := run.StartedAt.UnixNano()
	for _, context := range run.Plan.Contexts {
		for _, n := range run.Plan.Concurrency {
			c := one
			c.Context, c.ContextLabel, c.Concurrency = context, unit.FormatTokens(context), n
			started := time.Unix(0, at+2e9).UTC()
			c.WindowStartedAt, c.WindowSeconds = &started, new(10.0)
			run.Cells = append(run.Cells, c)
			requests, events := streams(at, n, 1000)
			if err := dir.SaveCell(c.Key(), requests, slices.Values(events)); err != nil {
				t.Fatal(err)
			}
			at += 20e9
		}
	}
	if err := dir.SaveRun(run); err != nil {
		t.Fatal(err)
	}
	return folder
}

// streams are n streams of one request of so many tokens, one every 12 ms or so.
func streams(at int64, n, tokens int) (requests []speedmatrix.RequestRow, events []speedmatrix.EventRow) {
	for s := range int32(n) {
		written := at + int64(s)*50_000
		first, last := written+40e6, written+40e6+int64(tokens-1)*12e6
		requests = append(requests, speedmatrix.RequestRow{Request: s, Stream: s, Purpose: "launch", Head: s, PlannedNS: at, WrittenNS: &written, FirstNS: &first,
			FirstVisibleNS: &first, LastNS: &last, EndedNS: new(last + 1e6), Class: "cut", HTTPStatus: 200, PromptTokens: new(int32(90)), CachedTokens: new(int32(0))})
		for k := range tokens {
			jitter := int64(k*7919+int(s)*104729) % 200_000
			if k == 0 || k == tokens-1 {
				jitter = 0
			}
			events = append(events, speedmatrix.EventRow{Request: s, Stream: s, TimeNS: first + int64(k)*12e6 + jitter, TextLength: int32(3 + k%6), Tokens: new(int32(k + 1)), Channel: "content"})
		}
	}
	return requests, events
}

// peak watches the heap while f runs, and gives the most that was in use beyond what was before.
func peak(f func()) uint64 {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				runtime.ReadMemStats(&now)
				most.Store(max(most.Load(), now.HeapInuse))
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most.Load() - min(most.Load(), before.HeapInuse)
}

// BenchmarkUpload takes in a run of 48 cells with all its rows: a second or two, and the most memory in use.
func BenchmarkUpload(b *testing.B) {
	folder := fullMatrix(b)
	var archive bytes.Buffer
	if err := ingest.Pack(&archive, os.DirFS(folder), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(archive.Len())/1e6, "MB/archive")
	var most uint64
	for b.Loop() {
		w := newWorld(b)
		most = max(most, peak(func() {
			if r, err := w.Receive(context.Background(), member("ada"), bytes.NewReader(archive.Bytes())); err != nil || r.ID == "" {
				b.Fatal(err)
			}
		}))
	}
	b.ReportMetric(float64(most)/1e6, "MB/heap")
}
