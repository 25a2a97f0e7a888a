package runfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// pages walks over the pages of one column chunk.
type pages struct {
	*inspection
	column
	codec  format.CompressionCodec
	values int64
	// dictionary are the lengths of the dictionary's texts, 0 for numbers; nil before there is one.
	dictionary []int64
}

// page walks over the page that begins at an offset, and gives the offset of the next.
func (p *pages) page(at, end int64) (next int64, err error) {
	head, err := p.at(at, min(mostHeader, end-at))
	if err != nil {
		return 0, err
	}
	length, err := thriftLength(head)
	if err != nil {
		return 0, err
	}
	var h format.PageHeader
	protocol := &thrift.CompactProtocol{}
	if err := thrift.Unmarshal(protocol, head[:length], &h); err != nil {
		return 0, err
	}
	begin := at + int64(length)
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || h.UncompressedPageSize > mostPage || int64(h.CompressedPageSize) > end-begin {
		return 0, errSize
	}
	if p.left.Bytes -= int64(h.UncompressedPageSize); p.left.Bytes < 0 {
		return 0, fmt.Errorf("%w: too many bytes in all", errTooMany)
	}
	data, err := p.at(begin, int64(h.CompressedPageSize))
	if err != nil {
		return 0, err
	}
	switch h.Type {
	case format.DictionaryPage:
		err = p.dictionaryPage(&h, data)
	case format.DataPage:
		err = p.dataPage(&h, data)
	case format.DataPageV2:
		err = p.dataPageV2(&h, data)
	default:
		err = errors.New("it has a page of another kind")
	}
	return begin + int64(h.CompressedPageSize), err
}

// unpack gives the bytes of a page, of which there must be as many as it says.
func (p *pages) unpack(data []byte, size int) ([]byte, error) {
	if p.codec == format.Zstd {
		if err := checkZstd(data, size); err != nil {
			return nil, err
		}
		var err error
		if data, err = parquet.Zstd.Decode(make([]byte, 0, size), data); err != nil {
			return nil, err
		}
	}
	if len(data) != size {
		return nil, errSize
	}
	return data, nil
}

// olderDictionary is what the first versions of the format call the encoding of dictionaries; its name in the library says
// that nothing new should use it.
const olderDictionary format.Encoding = 2

func (p *pages) dictionaryPage(h *format.PageHeader, data []byte) error {
	d := h.DictionaryPageHeader.V
	if !h.DictionaryPageHeader.Valid || p.dictionary != nil || p.values > 0 || d.NumValues < 0 || d.Encoding != format.Plain && d.Encoding != olderDictionary {
		return errSize
	}
	data, err := p.unpack(data, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	return p.plain(data, int(d.NumValues), func(length int64) error {
		p.dictionary = append(p.dictionary, length)
		return nil
	})
}

// dataPage walks over a page whose levels are packed with its values.
func (p *pages) dataPage(h *format.PageHeader, data []byte) error {
	d := h.DataPageHeader.V
	if !h.DataPageHeader.Valid || d.NumValues < 0 || int64(d.NumValues) > p.footer.NumRows {
		return errSize
	}
	data, err := p.unpack(data, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	there := int(d.NumValues)
	if p.optional {
		if len(data) < 4 || d.DefinitionLevelEncoding != format.RLE {
			return errSize
		}
		length := int64(binary.LittleEndian.Uint32(data))
		if length > int64(len(data)-4) {
			return errSize
		}
		if there, err = levels(data[4:4+length], int(d.NumValues)); err != nil {
			return err
		}
		data = data[4+length:]
	}
	p.values += int64(d.NumValues)
	return p.encoded(d.Encoding, data, there)
}

// dataPageV2 walks over a page whose levels stand before its values.
func (p *pages) dataPageV2(h *format.PageHeader, data []byte) error {
	d := h.DataPageHeaderV2.V
	length := int(d.DefinitionLevelsByteLength)
	if !h.DataPageHeaderV2.Valid || !p.holds(&d) || length < 0 || length > len(data) || length > int(h.UncompressedPageSize) {
		return errSize
	}
	there := int(d.NumValues)
	if p.optional {
		var err error
		if there, err = levels(data[:length], int(d.NumValues)); err != nil {
			return err
		}
	}
	if there != int(d.NumValues-d.NumNulls) {
		return errSize
	}
	data, size := data[length:], int(h.UncompressedPageSize)-length
	if d.IsCompressed.Valid && !d.IsCompressed.V {
		if len(data) != size {
			return errSize
		}
	} else {
		var err error
		if data, err = p.unpack(data, size); err != nil {
			return err
		}
	}
	p.values += int64(d.NumValues)
	return p.encoded(d.Encoding, data, there)
}

// holds says whether a page's numbers of values are those that a column of this file may have.
func (p *pages) holds(d *format.DataPageHeaderV2) bool {
	nulls := d.DefinitionLevelsByteLength > 0 || d.NumNulls != 0
	return d.NumValues >= 0 && int64(d.NumValues) <= p.footer.NumRows && d.NumRows == d.NumValues && d.RepetitionLevelsByteLength == 0 && (p.optional || !nulls)
}

// encoded walks over n values.
func (p *pages) encoded(encoding format.Encoding, data []byte, n int) error {
	switch {
	case encoding == format.Plain:
		return p.plain(data, n, func(int64) error { return nil })
	case encoding == format.RLEDictionary || encoding == olderDictionary:
		return p.indexes(data, n)
	case encoding == format.DeltaBinaryPacked && (p.kind == format.Int32 || p.kind == format.Int64):
		_, err := deltas(data, n, nil)
		return err
	case encoding == format.DeltaLengthByteArray && p.kind == format.ByteArray:
		return p.texts(data, n)
	}
	return fmt.Errorf("it is encoded as %s, which this program does not write", encoding)
}

// plain walks over n values that stand as they are; each is told the length of every text, and 0 for every number.
func (p *pages) plain(data []byte, n int, each func(length int64) error) error {
	if p.kind == format.ByteArray {
		return p.plainTexts(data, n, each)
	}
	size := map[format.Type]int{format.Boolean: 1, format.Int32: 32, format.Int64: 64, format.Double: 64}[p.kind]
	if size == 0 || (int64(n)*int64(size)+7)/8 != int64(len(data)) {
		return errSize
	}
	for range n {
		if err := each(0); err != nil {
			return err
		}
	}
	return nil
}

func (p *pages) plainTexts(data []byte, n int, each func(length int64) error) error {
	for range n {
		if len(data) < 4 {
			return errSize
		}
		length := int64(binary.LittleEndian.Uint32(data))
		if err := p.text(length); err != nil {
			return err
		}
		if length > int64(len(data)-4) {
			return errSize
		}
		if err := each(length); err != nil {
			return err
		}
		data = data[4+length:]
	}
	if len(data) > 0 {
		return errSize
	}
	return nil
}

// text refuses a text that is too long.
func (p *pages) text(length int64) error {
	if length < 0 || length > int64(p.left.Text) {
		return fmt.Errorf("%w: a text of %d bytes", errTooMany, length)
	}
	return nil
}

// indexes walks over n places in the dictionary.
func (p *pages) indexes(data []byte, n int) error {
	if len(data) == 0 && n == 0 {
		return nil
	}
	if p.dictionary == nil || len(data) == 0 {
		return errSize
	}
	return hybrid(data[1:], uint(data[0]), n, func(v uint64, times int) error {
		if v >= uint64(len(p.dictionary)) {
			return errSize
		}
		// Every row has its own copy of the text.
		if p.left.Bytes -= p.dictionary[v] * int64(times); p.left.Bytes < 0 {
			return fmt.Errorf("%w: too many bytes of text in all", errTooMany)
		}
		return nil
	})
}

// texts walks over n texts whose lengths stand before them.
func (p *pages) texts(data []byte, n int) error {
	total := int64(0)
	used, err := deltas(data, n, func(length int64) error {
		total += length
		return p.text(length)
	})
	if err != nil {
		return err
	}
	if total != int64(len(data)-used) {
		return errSize
	}
	return nil
}
