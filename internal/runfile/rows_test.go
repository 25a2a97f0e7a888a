package runfile

import (
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"speedmatrix"
)

func optional[T any](g *rapid.Generator[T]) *rapid.Generator[*T] { return rapid.Ptr(g, true) }

func eventRows() *rapid.Generator[speedmatrix.EventRow] {
	return rapid.Custom(func(t *rapid.T) speedmatrix.EventRow {
		return speedmatrix.EventRow{
			Request: rapid.Int32().Draw(t, "request"), Stream: rapid.Int32Min(-1).Draw(t, "stream"),
			TimeNS: rapid.Int64().Draw(t, "time"), TextLength: rapid.Int32Min(0).Draw(t, "length"),
			Tokens:    optional(rapid.Int32()).Draw(t, "tokens"),
			Channel:   rapid.SampledFrom([]string{"content", "reasoning", "tool", ""}).Draw(t, "channel"),
			Continued: rapid.Bool().Draw(t, "continued"),
		}
	})
}

func requestRows() *rapid.Generator[speedmatrix.RequestRow] {
	return rapid.Custom(func(t *rapid.T) speedmatrix.RequestRow {
		when := optional(rapid.Int64())
		count := optional(rapid.Int32())
		text := rapid.String()
		return speedmatrix.RequestRow{
			Request: rapid.Int32().Draw(t, "request"), Stream: rapid.Int32().Draw(t, "stream"),
			Purpose: text.Draw(t, "purpose"), Head: rapid.Int32().Draw(t, "head"), Tail: rapid.Int32().Draw(t, "tail"),
			PlannedNS: rapid.Int64().Draw(t, "planned"), WrittenNS: when.Draw(t, "written"), HeadersNS: when.Draw(t, "headers"),
			FirstNS: when.Draw(t, "first"), FirstVisibleNS: when.Draw(t, "visible"), LastNS: when.Draw(t, "last"), EndedNS: when.Draw(t, "ended"),
			Class: text.Draw(t, "class"), HTTPStatus: rapid.Int32().Draw(t, "status"), FinishReason: text.Draw(t, "finish"),
			// An optional text column keeps "" as null: both are no error.
			Error:        text.Draw(t, "error"),
			PromptTokens: count.Draw(t, "prompt"), CachedTokens: count.Draw(t, "cached"),
			CompletionTokens: count.Draw(t, "completion"), WindowTokens: count.Draw(t, "window"),
			SendNS: when.Draw(t, "send"), ConnectNS: when.Draw(t, "connect"), Replays: rapid.Int32().Draw(t, "replays"),
		}
	})
}

func serverRows() *rapid.Generator[speedmatrix.ServerRow] {
	return rapid.Custom(func(t *rapid.T) speedmatrix.ServerRow {
		value := optional(rapid.Float64())
		return speedmatrix.ServerRow{
			SentNS: rapid.Int64().Draw(t, "sent"), ReceivedNS: rapid.Int64().Draw(t, "received"),
			Cell: rapid.String().Draw(t, "cell"), Error: rapid.String().Draw(t, "error"),
			Running: value.Draw(t, "running"), Waiting: value.Draw(t, "waiting"), KVUsage: value.Draw(t, "kv"),
			Preemptions: value.Draw(t, "preemptions"), GenerationTokens: value.Draw(t, "generation"),
			PromptTokens: value.Draw(t, "prompt"), PrefixHits: value.Draw(t, "hits"), PrefixQueries: value.Draw(t, "queries"),
			Drafts: value.Draw(t, "drafts"), DraftsAccepted: value.Draw(t, "accepted"),
		}
	})
}

func TestRowsComeBackAsTheyWere(t *testing.T) {
	d := create(t)
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(eventRows(), 0, 40).Draw(t, "events")
		requests := rapid.SliceOfN(requestRows(), 0, 10).Draw(t, "requests")
		server := rapid.SliceOfN(serverRows(), 0, 10).Draw(t, "server")
		if err := d.SaveCell("decode-0-x1", requests, slices.Values(events)); err != nil {
			t.Fatal(err)
		}
		if err := d.SaveServer(server); err != nil {
			t.Fatal(err)
		}
		gotEvents, err := collect(d.Events("decode-0-x1"))
		same(t, events, gotEvents, err)
		gotRequests, err := d.Requests("decode-0-x1")
		same(t, requests, gotRequests, err)
		gotServer, err := d.Server()
		same(t, server, gotServer, err)
	})
}

func same[T any](t rapid.TB, want, got []T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 && len(got) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// manyEvents are n rows whose values depend on their place.
func manyEvents(n int) iter.Seq[speedmatrix.EventRow] {
	return func(yield func(speedmatrix.EventRow) bool) {
		for i := range n {
			row := speedmatrix.EventRow{
				Request: int32(i / 1000), Stream: int32(i % 7), TimeNS: 1_790_000_000_000_000_000 + int64(i)*1_000_003,
				TextLength: int32(i % 9), Channel: "content", Continued: i%11 == 0,
			}
			if i%3 != 0 {
				row.Tokens = new(int32(i))
			}
			if !yield(row) {
				return
			}
		}
	}
}

func TestRowsOfSeveralGroupsAreTheCallersToKeep(t *testing.T) {
	const n = 2*groupRows + 5000
	d := create(t)
	if err := d.SaveCell("decode-0-x1", nil, manyEvents(n)); err != nil {
		t.Fatal(err)
	}
	got, err := collect(d.Events("decode-0-x1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Collect(manyEvents(n)), got); diff != "" {
		t.Errorf("%.2000s", diff)
	}
	file, err := os.Open(d.eventsPath("decode-0-x1"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, _ := file.Stat()
	table, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if groups := len(table.RowGroups()); groups != 3 {
		t.Errorf("%d row groups, want 3 of at most %d rows", groups, groupRows)
	}
	for _, column := range table.Metadata().RowGroups[0].Columns {
		if codec := column.MetaData.Codec.String(); codec != "ZSTD" {
			t.Errorf("column %v is compressed by %s", column.MetaData.PathInSchema, codec)
		}
	}
}

func TestReadingStopsWhenTheCallerDoes(t *testing.T) {
	d := create(t)
	if err := d.SaveCell("decode-0-x1", nil, manyEvents(5000)); err != nil {
		t.Fatal(err)
	}
	read := 0
	for range d.Events("decode-0-x1") {
		if read++; read == 1500 {
			break
		}
	}
	if read != 1500 {
		t.Errorf("%d rows read", read)
	}
}

func TestWritingHoldsNoMoreThanAFewRowGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 1.5 million rows")
	}
	d := create(t)
	var most uint64
	events := func(yield func(speedmatrix.EventRow) bool) {
		i := 0
		for row := range manyEvents(1_500_000) {
			if i++; i%250_000 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
			if !yield(row) {
				return
			}
		}
	}
	if err := d.SaveCell("decode-0-x1", nil, events); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.eventsPath("decode-0-x1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("heap %d MiB, file %d MiB", most>>20, info.Size()>>20)
	if most > 64<<20 {
		t.Errorf("%d MiB of heap while writing", most>>20)
	}
}

func TestACellIsThereOnlyWithBothFiles(t *testing.T) {
	d := create(t)
	if d.HasCell("decode-0-x1") {
		t.Error("a cell that was never saved")
	}
	if err := d.SaveCell("decode-0-x1", nil, manyEvents(0)); err != nil {
		t.Fatal(err)
	}
	if !d.HasCell("decode-0-x1") || d.HasCell("decode-0-x2") || d.HasCell("") {
		t.Error("the wrong cells are there")
	}
	wantFiles(t, filepath.Join(d.Path(), cellsName), "decode-0-x1.parquet", "requests-decode-0-x1.parquet")
	if err := os.Remove(d.eventsPath("decode-0-x1")); err != nil {
		t.Fatal(err)
	}
	if d.HasCell("decode-0-x1") {
		t.Error("a cell without events")
	}
	_, err := collect(d.Events("decode-0-x1"))
	wantOutput(t, err, "cannot read", "no such file")
}

func TestASecondAttemptReplacesTheFirst(t *testing.T) {
	d := create(t)
	for n := 3; n >= 1; n-- {
		if err := d.SaveCell("decode-0-x1", make([]speedmatrix.RequestRow, n), manyEvents(n)); err != nil {
			t.Fatal(err)
		}
	}
	events, err := collect(d.Events("decode-0-x1"))
	requests, err2 := d.Requests("decode-0-x1")
	if len(events) != 1 || len(requests) != 1 || err != nil || err2 != nil {
		t.Errorf("%d events, %d requests, %v, %v", len(events), len(requests), err, err2)
	}
}

func TestAKeyCannotLeaveTheDirectory(t *testing.T) {
	d := create(t)
	for _, key := range []string{"", "../x", "a/b", `a\b`, ".x", "c:x"} {
		wantOutput(t, d.SaveCell(key, nil, manyEvents(1)), "cannot name a file")
		_, err := d.Requests(key)
		wantOutput(t, err, "cannot name a file")
		_, err = collect(d.Events(key))
		wantOutput(t, err, "cannot name a file")
	}
}

func TestARunWithoutScrapesHasNone(t *testing.T) {
	rows, err := create(t).Server()
	if rows != nil || err != nil {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestADamagedRowFileIsAClearError(t *testing.T) {
	d := create(t)
	const key, n = "decode-0-x1", 3000
	if err := d.SaveCell(key, nil, manyEvents(n)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(d.eventsPath(key))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(d.eventsPath(key), data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := collect(d.Events(key))
		if err == nil {
			t.Errorf("%s: no error", name)
			return
		}
		wantOutput(t, err, "decode-0-x1.parquet is damaged")
	}
	check("empty", nil)
	check("text", []byte("not a table at all, but long enough to be one"))
	for _, cut := range []int{1, 5, 100, len(whole) / 2, len(whole) - 10} {
		check("cut short", whole[:len(whole)-cut])
	}
	for at := 64; at < len(whole)/2; at += 509 {
		flipped := slices.Clone(whole)
		flipped[at] ^= 0x10
		check("one bit", flipped)
	}
}

func TestARowFileWithOtherColumnsIsAClearError(t *testing.T) {
	d := create(t)
	if err := d.SaveServer([]speedmatrix.ServerRow{{SentNS: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(d.Path(), serverName), d.requestsPath("decode-0-x1")); err != nil {
		t.Fatal(err)
	}
	_, err := d.Requests("decode-0-x1")
	wantOutput(t, err, "requests-decode-0-x1.parquet is damaged", `no column "request"`)
}

func BenchmarkEvents(b *testing.B) {
	d, err := Create(b.TempDir() + "/run")
	if err != nil {
		b.Fatal(err)
	}
	const n = 200_000
	if err := d.SaveCell("x", nil, manyEvents(n)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range d.Events("x") {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
