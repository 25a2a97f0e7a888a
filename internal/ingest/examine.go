package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/verify"
)

// Examination is what the raw rows of a run gave.
type Examination struct {
	// EventsHash is the SHA-256 in hex of the rows themselves, however the files hold them; "" without any.
	EventsHash string         `json:"events_hash"`
	Report     *verify.Report `json:"report"`
}

// rowLimits bound the rows of a run: some sixteen times those of a hundred cells of a hundred streams.
func rowLimits() runfile.RowLimits {
	return runfile.RowLimits{Rows: 20_000_000, File: 5_000_000, Bytes: 1 << 30, Text: 16 << 10}
}

// Examine reads the rows of an unpacked run, recomputes its numbers from them and hashes them. Rows from outside are inspected
// first, and a site runs it in a process of its own, whose memory and time are bounded: what reads them is others' code.
func Examine(ctx context.Context, folder string) (Examination, error) {
	dir, err := runfile.Open(folder)
	if err != nil {
		return Examination{}, err
	}
	run, _, err := dir.LoadRun()
	if err != nil {
		return Examination{}, err
	}
	if err := dir.Inspect(rowLimits()); err != nil {
		return Examination{}, err
	}
	keys, err := cellKeys(folder)
	if err != nil || len(keys) == 0 {
		return Examination{}, err
	}
	rows := &hashed{Dir: dir, ctx: ctx, sums: map[string]hash.Hash{}}
	report, err := verify.Check(run, rows)
	if err != nil {
		return Examination{}, err
	}
	sum, err := rows.sum(keys)
	return Examination{EventsHash: sum, Report: report}, err
}

// cellKeys are the cells that have both files of rows.
func cellKeys(folder string) (keys []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "cells", "*.parquet"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		key := strings.TrimSuffix(filepath.Base(file), ".parquet")
		if strings.HasPrefix(key, "requests-") {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, "cells", "requests-"+key+".parquet")); err == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// hashed are the rows of a run that are hashed as they are read: the requests of a cell, then its events.
type hashed struct {
	*runfile.Dir
	ctx  context.Context
	sums map[string]hash.Hash
}

// Events gives the events of a cell; once the last was taken its rows have a sum.
func (h *hashed) Events(key string) iter.Seq2[speedmatrix.EventRow, error] {
	return func(yield func(speedmatrix.EventRow, error) bool) {
		sum := sha256.New()
		requests, err := h.Requests(key)
		if err == nil {
			err = json.NewEncoder(sum).Encode(requests)
		}
		if err != nil {
			yield(speedmatrix.EventRow{}, err)
			return
		}
		buffer, n := make([]byte, 0, 4096), 0
		for e, err := range h.Dir.Events(key) {
			if n++; err == nil && n%4096 == 0 {
				err = h.ctx.Err()
			}
			if buffer = appendEvent(buffer, &e); len(buffer) > 4000 {
				sum.Write(buffer)
				buffer = buffer[:0]
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		sum.Write(buffer)
		h.sums[key] = sum
	}
}

// appendEvent appends an event's values.
func appendEvent(b []byte, e *speedmatrix.EventRow) []byte {
	tokens := int64(-1)
	if e.Tokens != nil {
		tokens = int64(*e.Tokens)
	}
	for _, v := range [...]int64{int64(e.Request), int64(e.Stream), e.TimeNS, int64(e.TextLength), tokens} {
		b = binary.AppendVarint(b, v)
	}
	b = append(append(b, e.Channel...), 0, 0)
	if e.Continued {
		b[len(b)-1] = 1
	}
	return b
}

// sum is that of all rows of the cells of these keys, in order; what was not read before is read now.
func (h *hashed) sum(keys []string) (string, error) {
	all := sha256.New()
	for _, key := range keys {
		if h.sums[key] == nil {
			for _, err := range h.Events(key) {
				if err != nil {
					return "", err
				}
			}
		}
		fmt.Fprintf(all, "%s %x\n", key, h.sums[key].Sum(nil))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
