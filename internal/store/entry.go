package store

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"speedmatrix"
	"speedmatrix/internal/catalog"
)

// packEntry writes an entry in little room: its facts as JSON behind their length, then the cells and prefill sizes in
// binary, so that a hundred thousand are read in seconds.
func packEntry(e *catalog.Entry) ([]byte, error) {
	head := *e
	head.Cells, head.Prefill = nil, nil
	facts, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("pack the entry of run %s: %w", e.ID, err)
	}
	out := binary.AppendUvarint(make([]byte, 0, len(facts)+48*len(e.Cells)), uint64(len(facts)))
	out = append(out, facts...)
	out = binary.AppendUvarint(out, uint64(len(e.Cells)))
	for _, c := range e.Cells {
		out = appendText(binary.AppendUvarint(binary.AppendUvarint(out, uint64(c.Context)), uint64(c.Concurrency)), c.Label, string(c.Status))
		for _, v := range []float32{c.Total, c.Half, c.PerRequest, c.TTFT, c.Between} {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	out = binary.AppendUvarint(out, uint64(len(e.Prefill)))
	for _, p := range e.Prefill {
		out = appendText(binary.AppendUvarint(out, uint64(p.Context)), p.Label)
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(p.TokensPerSecond))
	}
	return out, nil
}

func appendText(out []byte, texts ...string) []byte {
	for _, t := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(t))), t...)
	}
	return out
}

// unpacker reads what packEntry wrote; after a fault it gives zeros.
type unpacker struct {
	rest []byte
	err  error
}

var errDamaged = errors.New("the entry is damaged")

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.rest)
	if size <= 0 {
		u.rest, u.err = nil, errDamaged
		return 0
	}
	u.rest = u.rest[size:]
	return n
}

func (u *unpacker) bytes(n uint64) []byte {
	if n > uint64(len(u.rest)) {
		u.rest, u.err = nil, errDamaged
		return nil
	}
	out := u.rest[:n]
	u.rest = u.rest[n:]
	return out
}

func (u *unpacker) text() string { return string(u.bytes(u.number())) }

// count is a number of things that follow, of a byte at least each.
func (u *unpacker) count() int {
	n := u.number()
	if n > uint64(len(u.rest)) {
		u.rest, u.err = nil, errDamaged
		return 0
	}
	return int(n)
}

func (u *unpacker) speed() float32 {
	b := u.bytes(4)
	if b == nil {
		return 0
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}

func unpackEntry(data []byte) (catalog.Entry, error) {
	u := &unpacker{rest: data}
	var e catalog.Entry
	if facts := u.bytes(u.number()); u.err == nil {
		u.err = json.Unmarshal(facts, &e)
	}
	if n := u.count(); n > 0 {
		e.Cells = make([]catalog.Cell, n)
	}
	for i := range e.Cells {
		c := &e.Cells[i]
		c.Context, c.Concurrency = int(u.number()), int(u.number())
		c.Label, c.Status = u.text(), speedmatrix.Status(u.text())
		c.Total, c.Half, c.PerRequest, c.TTFT, c.Between = u.speed(), u.speed(), u.speed(), u.speed(), u.speed()
	}
	if n := u.count(); n > 0 {
		e.Prefill = make([]catalog.Prefill, n)
	}
	for i := range e.Prefill {
		e.Prefill[i] = catalog.Prefill{Context: int(u.number()), Label: u.text(), TokensPerSecond: u.speed()}
	}
	if u.err != nil {
		return e, fmt.Errorf("unpack an entry: %w", u.err)
	}
	return e, nil
}

// squeeze compresses a document; equal documents give equal bytes.
func squeeze(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func unsqueeze(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a stored document is damaged: %w", err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("a stored document is damaged: %w", err)
	}
	return out, nil
}
