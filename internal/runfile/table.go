package runfile

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// The shape of a Parquet file: rows per row group and rows handed over at a time.
const (
	groupRows = 64 << 10
	batchRows = 1 << 10
)

// writeTable writes rows as a Parquet file, compressed with zstd, and holds no more
// than one row group of them.
func writeTable[T any](w io.Writer, rows iter.Seq[T]) error {
	out := parquet.NewGenericWriter[T](w,
		parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(groupRows),
		parquet.CreatedBy("speedmatrix", "1", ""),
	)
	batch := make([]T, 0, batchRows)
	for row := range rows {
		batch = append(batch, row)
		if len(batch) < cap(batch) {
			continue
		}
		if _, err := out.Write(batch); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		batch = batch[:0]
	}
	if _, err := out.Write(batch); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("finish rows: %w", err)
	}
	return nil
}

// readTable reads a Parquet file in batches. Each row is the caller's to keep.
func readTable[T any](path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		file, err := os.Open(path)
		if err != nil {
			yield(none, readError(path, err))
			return
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			yield(none, readError(path, err))
			return
		}
		readFrom(file, info.Size(), path, yield)
	}
}

// readFrom reads the rows of a Parquet file of a size; path names it in errors.
func readFrom[T any](file io.ReaderAt, size int64, path string, yield func(T, error) bool) {
	reader, err := openTable[T](file, size)
	if err != nil {
		var none T
		yield(none, damaged(path, "", err))
		return
	}
	defer guarded(reader.Close) //nolint:errcheck // a reader that fails to close has given its rows
	yieldRows(reader, path, yield)
}

func yieldRows[T any](reader *parquet.GenericReader[T], path string, yield func(T, error) bool) {
	batch := make([]T, batchRows)
	for left := reader.NumRows(); left > 0; {
		// The reader would write through the pointers of rows that the caller keeps.
		clear(batch)
		var n int
		err := guarded(func() (err error) {
			n, err = reader.Read(batch)
			return err
		})
		for _, row := range batch[:n] {
			if !yield(row, nil) {
				return
			}
		}
		left -= int64(n)
		if err == nil && n == 0 || errors.Is(err, io.EOF) && left > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && !errors.Is(err, io.EOF) {
			var none T
			yield(none, damaged(path, "", err))
			return
		}
	}
}

func openTable[T any](file io.ReaderAt, size int64) (reader *parquet.GenericReader[T], err error) {
	err = guarded(func() error {
		table, err := parquet.OpenFile(file, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
		if err != nil {
			return err
		}
		if err := checkColumns(table.Schema(), parquet.SchemaOf(new(T))); err != nil {
			return err
		}
		if err := checkCodecs(table.Metadata()); err != nil {
			return err
		}
		reader = parquet.NewGenericReader[T](table)
		return nil
	})
	return reader, err
}

// checkCodecs wants the methods of compression that are used for such tables; with a damaged name of another, a reader may take
// any amount of memory for a few bytes.
func checkCodecs(m *format.FileMetaData) error {
	for i := range m.RowGroups {
		for j := range m.RowGroups[i].Columns {
			switch c := m.RowGroups[i].Columns[j].MetaData.Codec; c {
			case format.Uncompressed, format.Snappy, format.Zstd:
			default:
				return fmt.Errorf("it is compressed by %s, not by zstd or snappy", c)
			}
		}
	}
	return nil
}

// checkColumns wants every column of ours in the file, with its type, but for those that may be null; more are welcome.
func checkColumns(have, want *parquet.Schema) error {
	for _, path := range want.Columns() {
		ours, _ := want.Lookup(path...)
		theirs, ok := have.Lookup(path...)
		switch {
		case !ok && ours.Node.Optional():
			// Files of before the column was thought of: its values are unknown.
		case !ok:
			return fmt.Errorf("it has no column %q", path[0])
		case theirs.Node.Type().Kind() != ours.Node.Type().Kind(), theirs.Node.Repeated() != ours.Node.Repeated():
			return fmt.Errorf("its column %q is %s, not %s", path[0], theirs.Node, ours.Node)
		}
	}
	return nil
}

// guarded turns a panic of the Parquet library over damaged bytes into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("unreadable: %v", p)
		}
	}()
	return f()
}
