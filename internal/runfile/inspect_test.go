package runfile

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"speedmatrix"
)

func generous() RowLimits {
	return RowLimits{Rows: 1 << 20, File: 1 << 19, Bytes: 64 << 20, Text: 4096}
}

func inspectBytes(data []byte, want *parquet.Schema, limits RowLimits) error {
	return guarded(func() error { return inspect(bytes.NewReader(data), int64(len(data)), want, &limits) })
}

var eventSchema = parquet.SchemaOf(new(speedmatrix.EventRow))

// someEvents are rows with every kind of value: counts that are missing here and there, three channels, steps of all sizes.
func someEvents(n int) []speedmatrix.EventRow {
	rows := make([]speedmatrix.EventRow, n)
	for i := range rows {
		rows[i] = speedmatrix.EventRow{Request: int32(i / 7), Stream: int32(i % 3), TimeNS: 1_800_000_000_000_000_000 + int64(i)*int64(i)*977, TextLength: int32(i % 11),
			Channel: []string{"content", "reasoning", "tool"}[i/5%3], Continued: i%13 == 0}
		if i%3 != 0 {
			rows[i].Tokens = new(int32(i))
		}
	}
	return rows
}

func TestWhatThisProgramWritesPassesInspection(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 8, 9, 1000, 70_000} {
		d := create(t)
		requests := []speedmatrix.RequestRow{{Request: 1, Purpose: "launch", Class: "failed", Error: strings.Repeat("é", 900)}, {Request: 2, Purpose: "restart", Class: "cut", WrittenNS: new(int64(5))}}
		if err := d.SaveCell("decode-1k-x1", requests, slices.Values(someEvents(n))); err != nil {
			t.Fatal(err)
		}
		if err := d.SaveServer([]speedmatrix.ServerRow{{SentNS: 1, Cell: "a", Running: new(2.5)}, {SentNS: -4, Error: "refused"}}); err != nil {
			t.Fatal(err)
		}
		if err := d.SaveMachine([]speedmatrix.MachineRow{{TimeNS: 1, GPU: new(int32(0)), Power: new(350.0), PowerCap: new(true)}, {TimeNS: 2}}); err != nil {
			t.Fatal(err)
		}
		if err := d.Inspect(generous()); err != nil {
			t.Errorf("%d events: %v", n, err)
		}
	}
}

// Others may write the rows anew, as a table of the same columns.
func TestTheSameRowsInOtherFormsPassInspection(t *testing.T) {
	for name, options := range map[string][]parquet.WriterOption{
		"uncompressed":     {parquet.Compression(&parquet.Uncompressed)},
		"pages of another": {parquet.DataPageVersion(1)},
		"small pages":      {parquet.PageBufferSize(200)},
		"small groups":     {parquet.MaxRowsPerRowGroup(100)},
		"all of it":        {parquet.DataPageVersion(1), parquet.Compression(&parquet.Uncompressed), parquet.PageBufferSize(64), parquet.MaxRowsPerRowGroup(33)},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w := parquet.NewGenericWriter[speedmatrix.EventRow](&out, append([]parquet.WriterOption{parquet.Compression(&parquet.Zstd)}, options...)...)
			if _, err := w.Write(someEvents(2000)); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := inspectBytes(out.Bytes(), eventSchema, generous()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInspectionKeepsToItsLimits(t *testing.T) {
	d := create(t)
	requests := []speedmatrix.RequestRow{{Purpose: "launch", Error: strings.Repeat("x", 500)}}
	if err := d.SaveCell("a", requests, slices.Values(someEvents(1000))); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*RowLimits){
		"rows": func(l *RowLimits) { l.Rows = 1000 }, "rows of a file": func(l *RowLimits) { l.File = 999 },
		"bytes": func(l *RowLimits) { l.Bytes = 5000 }, "text": func(l *RowLimits) { l.Text = 499 },
	} {
		limits := generous()
		change(&limits)
		err := d.Inspect(limits)
		if err == nil || !strings.Contains(err.Error(), "more than a run may") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.Inspect(RowLimits{Rows: 1001, File: 1000, Bytes: 1 << 20, Text: 500}); err != nil {
		t.Error(err)
	}
}

// forged is a file of one row group, of the columns of events, in which parts are lies.
type forged struct {
	rows   int64
	pages  map[string][]byte // of a column, header and all; the others are honest
	chunk  func(name string, c *format.ColumnChunk)
	footer func(m *format.FileMetaData)
	after  func(file []byte) []byte
	raw    []byte // in the place of the footer
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := thrift.Marshal(&thrift.CompactProtocol{}, v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// onePage is a page of version 2 with its values as given; edit may lie in its header.
func onePage(t testing.TB, n int32, encoding format.Encoding, values []byte, edit ...func(h *format.PageHeader)) []byte {
	h := &format.PageHeader{Type: format.DataPageV2, UncompressedPageSize: int32(len(values)), CompressedPageSize: int32(len(values)),
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{NumValues: n, NumRows: n, Encoding: encoding, IsCompressed: thrift.New(false)})}
	for _, f := range edit {
		f(h)
	}
	return append(marshal(t, h), values...)
}

func dictionaryPage(t testing.TB, n int32, values []byte) []byte {
	return append(marshal(t, &format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(values)), CompressedPageSize: int32(len(values)),
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: n, Encoding: format.Plain})}), values...)
}

// text is a text as it stands in a page.
func text(s string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(s))), s...)
}

// run is a run of equal numbers of at most 8 bits.
func equal(n uint64, v byte) []byte { return append(binary.AppendUvarint(nil, n<<1), v) }

func (f forged) file(t testing.TB) []byte {
	t.Helper()
	out := []byte("PAR1")
	n := int32(f.rows)
	m := &format.FileMetaData{Version: 2, NumRows: f.rows, Schema: thrift.Slice[format.SchemaElement]{{Name: "EventRow", NumChildren: thrift.New(int32(7))}}}
	group := format.RowGroup{NumRows: f.rows}
	for _, c := range []struct {
		name string
		kind format.Type
		size int
	}{{"request", format.Int32, 4}, {"stream", format.Int32, 4}, {"t_ns", format.Int64, 8}, {"text_length", format.Int32, 4}, {"tokens", format.Int32, 0}, {"channel", format.ByteArray, 0}, {"continued", format.Boolean, 0}} {
		e := format.SchemaElement{Name: c.name, Type: thrift.New(c.kind), RepetitionType: thrift.New(format.Required)}
		var data []byte
		switch c.name {
		case "tokens":
			e.RepetitionType = thrift.New(format.Optional)
			levels := equal(uint64(n), 0)
			data = onePage(t, n, format.Plain, levels, func(h *format.PageHeader) {
				h.DataPageHeaderV2.V.NumNulls, h.DataPageHeaderV2.V.DefinitionLevelsByteLength = n, int32(len(levels))
			})
		case "channel":
			data = append(dictionaryPage(t, 1, text("content")), onePage(t, n, format.RLEDictionary, append([]byte{1}, equal(uint64(n), 0)...))...)
		case "continued":
			data = onePage(t, n, format.Plain, make([]byte, (n+7)/8))
		default:
			data = onePage(t, n, format.Plain, make([]byte, int(n)*c.size))
		}
		if own, ok := f.pages[c.name]; ok {
			data = own
		}
		chunk := format.ColumnChunk{MetaData: format.ColumnMetaData{Type: c.kind, PathInSchema: thrift.Slice[string]{c.name}, Codec: format.Uncompressed,
			NumValues: f.rows, DataPageOffset: int64(len(out)), TotalCompressedSize: int64(len(data)), TotalUncompressedSize: int64(len(data))}}
		if f.chunk != nil {
			f.chunk(c.name, &chunk)
		}
		out = append(out, data...)
		m.Schema, group.Columns = append(m.Schema, e), append(group.Columns, chunk)
	}
	m.RowGroups = thrift.Slice[format.RowGroup]{group}
	if f.footer != nil {
		f.footer(m)
	}
	footer := f.raw
	if footer == nil {
		footer = marshal(t, m)
	}
	out = append(append(out, footer...), binary.LittleEndian.AppendUint32(nil, uint32(len(footer)))...)
	out = append(out, "PAR1"...)
	if f.after != nil {
		out = f.after(out)
	}
	return out
}

func TestAForgedFileThatIsHonestIsReadAsRows(t *testing.T) {
	data := forged{rows: 20}.file(t)
	if err := inspectBytes(data, eventSchema, generous()); err != nil {
		t.Fatal(err)
	}
	n := 0
	readFrom(bytes.NewReader(data), int64(len(data)), "x", func(row speedmatrix.EventRow, err error) bool {
		if err != nil || row.Channel != "content" || row.Tokens != nil {
			t.Errorf("%+v %v", row, err)
		}
		n++
		return true
	})
	if n != 20 {
		t.Errorf("%d rows", n)
	}
}

// list is a struct of a footer whose first field is a list of so many structs.
func list(n uint64) []byte {
	return append(append([]byte{0x19, 0xFC}, binary.AppendUvarint(nil, n)...), 0, 0)
}

func TestBombsAndLiesDoNotPassInspection(t *testing.T) {
	page := func(n int32, encoding format.Encoding, values []byte, edit ...func(h *format.PageHeader)) []byte {
		return onePage(t, n, encoding, values, edit...)
	}
	column := func(name string, data []byte) forged { return forged{rows: 8, pages: map[string][]byte{name: data}} }
	zipped, err := parquet.Zstd.Encode(nil, make([]byte, 16<<20))
	if err != nil {
		t.Fatal(err)
	}
	zstd := func(data []byte, size int32) forged {
		f := column("t_ns", page(8, format.Plain, data, func(h *format.PageHeader) {
			h.UncompressedPageSize, h.DataPageHeaderV2.V.IsCompressed = size, thrift.New(true)
		}))
		f.chunk = func(name string, c *format.ColumnChunk) {
			if name == "t_ns" {
				c.MetaData.Codec = format.Zstd
			}
		}
		return f
	}
	counts := func(total uint64) []byte {
		return append(binary.AppendUvarint(append(binary.AppendUvarint(nil, 128), 4), total), 0)
	}
	for name, f := range map[string]forged{
		"a billion rows":                    {rows: 8, footer: func(m *format.FileMetaData) { m.NumRows, m.RowGroups[0].NumRows = 1e9, 1e9 }},
		"rows below zero":                   {rows: 8, footer: func(m *format.FileMetaData) { m.NumRows = -1 }},
		"more rows than groups":             {rows: 8, footer: func(m *format.FileMetaData) { m.NumRows = 9 }},
		"groups without end":                {rows: 8, footer: func(m *format.FileMetaData) { m.RowGroups = append(m.RowGroups, m.RowGroups[0]) }},
		"a group without columns":           {rows: 8, footer: func(m *format.FileMetaData) { m.RowGroups[0].Columns = nil }},
		"values than rows":                  {rows: 8, chunk: func(_ string, c *format.ColumnChunk) { c.MetaData.NumValues = 1e9 }},
		"a list of two billion in a footer": {raw: list(1<<31 - 1)},
		"a list of a hundred thousand":      {raw: list(100_000)},
		"a footer that nests without end":   {raw: bytes.Repeat([]byte{0x1C}, 10_000)},
		"a footer that is none":             {raw: []byte{0xFF, 0xFF, 0xFF}},
		"a footer longer than the file":     {rows: 8, after: func(b []byte) []byte { binary.LittleEndian.PutUint32(b[len(b)-8:], 1<<31); return b }},
		"a foreign column":                  {rows: 8, footer: func(m *format.FileMetaData) { m.Schema[1].Name = "extra" }},
		"a column twice":                    {rows: 8, footer: func(m *format.FileMetaData) { m.Schema[1].Name = "stream" }},
		"a column of another type":          {rows: 8, footer: func(m *format.FileMetaData) { m.Schema[1].Type = thrift.New(format.ByteArray) }},
		"a column that repeats":             {rows: 8, footer: func(m *format.FileMetaData) { m.Schema[1].RepetitionType = thrift.New(format.Repeated) }},
		"columns within columns":            {rows: 8, footer: func(m *format.FileMetaData) { m.Schema[1].NumChildren = thrift.New(int32(2)) }},
		"snappy":                            {rows: 8, chunk: func(_ string, c *format.ColumnChunk) { c.MetaData.Codec = format.Snappy }},
		"a column in another file":          {rows: 8, chunk: func(_ string, c *format.ColumnChunk) { c.FilePath = "/etc/passwd" }},
		"pages beyond the file":             {rows: 8, chunk: func(_ string, c *format.ColumnChunk) { c.MetaData.TotalCompressedSize = 1 << 40 }},
		"pages before the file":             {rows: 8, chunk: func(_ string, c *format.ColumnChunk) { c.MetaData.DataPageOffset = -5 }},
		"a page of two gigabytes":           column("t_ns", page(8, format.Plain, nil, func(h *format.PageHeader) { h.UncompressedPageSize = 1<<31 - 1 })),
		"a page longer than the file":       column("t_ns", page(8, format.Plain, nil, func(h *format.PageHeader) { h.CompressedPageSize = 1 << 30 })),
		"a page of negative length":         column("t_ns", page(8, format.Plain, nil, func(h *format.PageHeader) { h.CompressedPageSize = -1 })),
		"a page with a billion values":      column("t_ns", page(1e9, format.Plain, make([]byte, 64))),
		"a page with a value too few":       column("t_ns", page(7, format.Plain, make([]byte, 56))),
		"values shorter than said":          column("t_ns", page(8, format.Plain, make([]byte, 60))),
		"a zstd bomb":                       zstd(zipped, 64),
		"a zstd bomb that says so":          zstd(zipped, 16<<20),
		"two frames of zstd":                zstd(append(bytes.Clone(zipped), zipped...), 16<<20),
		"zstd that is none":                 zstd([]byte("no zstd at all"), 64),
		"zstd without a size":               zstd([]byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58, 2, 0, 16, 0, 3, 0, 16, 0}, 64),
		"a billion of deltas":               column("t_ns", page(8, format.DeltaBinaryPacked, counts(1e9))),
		"deltas without blocks":             column("t_ns", page(8, format.DeltaBinaryPacked, counts(8))),
		"deltas in blocks of nothing":       column("t_ns", page(8, format.DeltaBinaryPacked, []byte{0, 4, 8, 0})),
		"levels for a billion":              column("tokens", page(8, format.Plain, equal(1e9, 0), lyingLevels(8))),
		"levels without end":                column("tokens", page(8, format.Plain, bytes.Repeat(equal(4, 0), 1000), lyingLevels(8))),
		"levels of nothing":                 column("tokens", page(8, format.Plain, bytes.Repeat([]byte{0, 0}, 1000), lyingLevels(8))),
		"more values than levels":           column("tokens", page(8, format.Plain, equal(8, 1), lyingLevels(8))),
		"fewer nulls than none":             column("tokens", page(8, format.Plain, equal(8, 0), lyingLevels(-5))),
		"levels longer than the page":       column("tokens", page(8, format.Plain, nil, func(h *format.PageHeader) { h.DataPageHeaderV2.V.DefinitionLevelsByteLength = 1 << 30 })),
		"repeated levels":                   column("t_ns", page(8, format.Plain, make([]byte, 64), func(h *format.PageHeader) { h.DataPageHeaderV2.V.RepetitionLevelsByteLength = 4 })),
		"a dictionary of long texts":        column("channel", append(dictionaryPage(t, 1, text(strings.Repeat("x", 1<<20))), page(8, format.RLEDictionary, append([]byte{1}, equal(8, 0)...))...)),
		"a place outside the dictionary":    column("channel", append(dictionaryPage(t, 1, text("x")), page(8, format.RLEDictionary, append([]byte{8}, equal(8, 200)...))...)),
		"a place of 200 bits":               column("channel", append(dictionaryPage(t, 1, text("x")), page(8, format.RLEDictionary, append([]byte{200}, equal(8, 0)...))...)),
		"places for a billion":              column("channel", append(dictionaryPage(t, 1, text("x")), page(8, format.RLEDictionary, append([]byte{1}, equal(1e9, 0)...))...)),
		"no dictionary":                     column("channel", page(8, format.RLEDictionary, append([]byte{1}, equal(8, 0)...))),
		"two dictionaries":                  column("channel", append(append(dictionaryPage(t, 1, text("x")), dictionaryPage(t, 1, text("x"))...), page(8, format.RLEDictionary, append([]byte{1}, equal(8, 0)...))...)),
		"a dictionary of a billion":         column("channel", append(dictionaryPage(t, 1e9, text("x")), page(8, format.RLEDictionary, append([]byte{1}, equal(8, 0)...))...)),
		"texts that build on each other":    column("channel", page(8, format.DeltaByteArray, counts(8))),
		"texts of negative length":          column("channel", page(8, format.DeltaLengthByteArray, append(counts(8)[:3], 0x01))),
		"an index page":                     column("t_ns", page(8, format.Plain, make([]byte, 64), func(h *format.PageHeader) { h.Type = format.IndexPage })),
		"a header without end":              column("t_ns", bytes.Repeat([]byte{0x1C}, 40_000)),
	} {
		t.Run(name, func(t *testing.T) {
			data := f.file(t)
			if err := inspectBytes(data, eventSchema, generous()); err == nil {
				t.Error("it passes")
			} else if strings.Contains(err.Error(), "unreadable:") {
				t.Errorf("the library was given it: %v", err)
			}
		})
	}
}

// lyingLevels says that all of the page are levels, and how many values are missing.
func lyingLevels(nulls int32) func(h *format.PageHeader) {
	return func(h *format.PageHeader) {
		h.DataPageHeaderV2.V.DefinitionLevelsByteLength, h.DataPageHeaderV2.V.NumNulls = h.UncompressedPageSize, nulls
	}
}

func TestTextsThatRowsTakeFromADictionaryCount(t *testing.T) {
	f := forged{rows: 100_000}
	f.pages = map[string][]byte{"channel": append(dictionaryPage(t, 1, text(strings.Repeat("x", 4000))), onePage(t, 100_000, format.RLEDictionary, append([]byte{1}, equal(100_000, 0)...))...)}
	if err := inspectBytes(f.file(t), eventSchema, generous()); err == nil || !strings.Contains(err.Error(), "bytes of text") {
		t.Errorf("400 MB of text out of 4 kB: %v", err)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add(forged{rows: 20}.file(f))
	var out bytes.Buffer
	if err := writeTable(&out, slices.Values(someEvents(300))); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := RowLimits{Rows: 5000, File: 5000, Bytes: 1 << 20, Text: 1000}
		if inspectBytes(data, eventSchema, limits) != nil {
			return
		}
		n := 0
		readFrom(bytes.NewReader(data), int64(len(data)), "x", func(_ speedmatrix.EventRow, err error) bool {
			if err == nil {
				n++
			}
			return err == nil
		})
		if n > 5000 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestInspectionNamesTheFile(t *testing.T) {
	d := create(t)
	if err := d.SaveServer([]speedmatrix.ServerRow{{SentNS: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path(), "cells", "requests-a.parquet"), []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Inspect(generous()); err == nil || !strings.HasPrefix(err.Error(), "cells/requests-a.parquet is damaged") {
		t.Error(err)
	}
}
