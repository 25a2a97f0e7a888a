package runfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"speedmatrix"
)

// RowLimits bound what the rows of a run may hold, over all of its files but where it says otherwise.
type RowLimits struct {
	// Rows is the greatest number of rows, File that of one file.
	Rows, File int64
	// Bytes is how many bytes the pages have when they are unpacked, and the texts that rows take from dictionaries.
	Bytes int64
	// Text is the longest text of a row, in bytes.
	Text int
}

// Inspect walks over the files of rows of a run from outside, and says why one must not be read: because it would take more
// than the limits, has columns that are not ours, or does not hold together. A file may claim to have any number of values and
// still be small; nothing is decoded here, and room is made only for what is there. What passes is safe to read, and takes
// memory and time in proportion to the limits.
func (d *Dir) Inspect(limits RowLimits) error {
	left := limits
	files, err := filepath.Glob(filepath.Join(d.path, cellsName, "*"+rowsSuffix))
	if err != nil {
		return readError(d.path, err)
	}
	for _, file := range append(files, filepath.Join(d.path, serverName), filepath.Join(d.path, machineName)) {
		if !isFile(file) {
			continue
		}
		name, err := filepath.Rel(d.path, file)
		if err == nil {
			err = inspectFile(file, schemaFor(filepath.ToSlash(name)), &left)
		}
		if err != nil {
			return damaged(filepath.ToSlash(name), "", err)
		}
	}
	return nil
}

// schemaFor is the schema of the file of that name in a run directory.
func schemaFor(name string) *parquet.Schema {
	switch {
	case name == serverName:
		return parquet.SchemaOf(new(speedmatrix.ServerRow))
	case name == machineName:
		return parquet.SchemaOf(new(speedmatrix.MachineRow))
	case strings.HasPrefix(name, cellsName+"/"+requestsPrefix):
		return parquet.SchemaOf(new(speedmatrix.RequestRow))
	}
	return parquet.SchemaOf(new(speedmatrix.EventRow))
}

func inspectFile(path string, want *parquet.Schema, left *RowLimits) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return guarded(func() error { return inspect(file, info.Size(), want, left) })
}

// The bounds of what a file says of itself, in bytes.
const (
	mostFooter = 1 << 20
	mostHeader = 16 << 10
	mostPage   = 8 << 20
)

var (
	errTooMany = errors.New("it holds more than a run may")
	errSize    = errors.New("a size in it does not hold")
)

// inspection is the walk over one file.
type inspection struct {
	file   io.ReaderAt
	size   int64
	want   *parquet.Schema
	left   *RowLimits
	footer *format.FileMetaData
}

func inspect(file io.ReaderAt, size int64, want *parquet.Schema, left *RowLimits) error {
	x := &inspection{file: file, size: size, want: want, left: left}
	if err := x.readFooter(); err != nil {
		return err
	}
	columns, err := x.columns()
	if err != nil {
		return err
	}
	if x.footer.NumRows < 0 || x.footer.NumRows > left.File {
		return fmt.Errorf("%w: %d rows", errTooMany, x.footer.NumRows)
	}
	if left.Rows -= x.footer.NumRows; left.Rows < 0 {
		return fmt.Errorf("%w: too many rows in all", errTooMany)
	}
	rows := int64(0)
	for i := range x.footer.RowGroups {
		g := &x.footer.RowGroups[i]
		if g.NumRows < 0 || g.NumRows > x.footer.NumRows || len(g.Columns) != len(columns) {
			return errSize
		}
		rows += g.NumRows
		for j := range g.Columns {
			if err := x.chunk(&g.Columns[j], columns[j], g.NumRows); err != nil {
				return fmt.Errorf("column %s: %w", columns[j].name, err)
			}
		}
	}
	if rows != x.footer.NumRows {
		return errSize
	}
	return nil
}

// at reads some bytes of the file.
func (x *inspection) at(offset, length int64) ([]byte, error) {
	if offset < 0 || length < 0 || offset > x.size || length > x.size-offset {
		return nil, errSize
	}
	data := make([]byte, length)
	_, err := x.file.ReadAt(data, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data, err
}

func (x *inspection) readFooter() error {
	const ends = 8
	tail, err := x.at(x.size-ends, ends)
	if err != nil || string(tail[4:]) != "PAR1" {
		return errors.New("it is no Parquet file")
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	if length > mostFooter {
		return fmt.Errorf("%w: %d bytes about itself", errTooMany, length)
	}
	data, err := x.at(x.size-ends-length, length)
	if err != nil {
		return err
	}
	if n, err := thriftLength(data); err != nil || n != len(data) {
		return errors.Join(errThrift, err)
	}
	x.footer = &format.FileMetaData{}
	protocol := &thrift.CompactProtocol{}
	return thrift.Unmarshal(protocol, data, x.footer)
}

// column is a column of a file; all of ours are flat.
type column struct {
	name     string
	kind     format.Type
	optional bool
}

// columns are those of the file, each of which must be one of ours.
func (x *inspection) columns() ([]column, error) {
	schema := x.footer.Schema
	if len(schema) < 2 || !schema[0].NumChildren.Valid || int(schema[0].NumChildren.V) != len(schema)-1 {
		return nil, errors.New("its columns are not those of a run")
	}
	seen := map[string]bool{}
	var list []column
	for i := range schema[1:] {
		e := &schema[1+i]
		ours, ok := x.want.Lookup(e.Name)
		c := column{name: e.Name, kind: e.Type.V, optional: e.RepetitionType.V == format.Optional}
		switch {
		case !ok || seen[e.Name]:
			return nil, fmt.Errorf("the column %.40q is not one of ours", e.Name)
		case !e.Type.Valid || e.NumChildren.V != 0 || e.RepetitionType.V == format.Repeated || int(e.Type.V) != int(ours.Node.Type().Kind()):
			return nil, fmt.Errorf("its column %q is not %s", e.Name, ours.Node)
		}
		seen[e.Name] = true
		list = append(list, c)
	}
	return list, nil
}

// chunkIs wants a chunk to be of its column, in this file, in a form that this program writes.
func chunkIs(chunk *format.ColumnChunk, c column, rows int64) error {
	m := &chunk.MetaData
	switch {
	case chunk.FilePath != "" || len(chunk.EncryptedColumnMetadata) > 0:
		return errors.New("it lies in another file")
	case len(m.PathInSchema) != 1 || m.PathInSchema[0] != c.name || m.Type != c.kind || m.NumValues != rows:
		return errSize
	case m.Codec != format.Uncompressed && m.Codec != format.Zstd:
		return errors.New("it is compressed by another method than zstd")
	}
	return nil
}

// chunk walks over the pages of a column in a row group.
func (x *inspection) chunk(chunk *format.ColumnChunk, c column, rows int64) error {
	m := &chunk.MetaData
	if err := chunkIs(chunk, c, rows); err != nil {
		return err
	}
	start := m.DataPageOffset
	if m.DictionaryPageOffset > 0 {
		start = min(start, m.DictionaryPageOffset)
	}
	end := start + m.TotalCompressedSize
	if start < 4 || m.TotalCompressedSize < 0 || end > x.size {
		return errSize
	}
	p := &pages{inspection: x, column: c, codec: m.Codec}
	for at := start; at < end; {
		next, err := p.page(at, end)
		if err != nil {
			return err
		}
		at = next
	}
	if p.values != rows {
		return fmt.Errorf("%w: %d values in %d rows", errSize, p.values, rows)
	}
	return nil
}
