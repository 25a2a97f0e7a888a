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
	sum, err := hashRows(ctx, dir, keys)
	if err != nil {
		return Examination{}, err
	}
	report, err := verify.Check(run, dir)
	if err != nil {
		return Examination{}, err
	}
	return Examination{EventsHash: sum, Report: report}, nil
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

func hashRows(ctx context.Context, dir *runfile.Dir, keys []string) (string, error) {
	sum := sha256.New()
	for _, key := range keys {
		fmt.Fprintf(sum, "cell %s\n", key)
		requests, err := dir.Requests(key)
		if err != nil {
			return "", err
		}
		if err := json.NewEncoder(sum).Encode(requests); err != nil {
			return "", err
		}
		if err := hashEvents(ctx, sum, dir.Events(key)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func hashEvents(ctx context.Context, sum hash.Hash, events iter.Seq2[speedmatrix.EventRow, error]) error {
	buffer := make([]byte, 0, 64)
	n := 0
	for e, err := range events {
		if err != nil {
			return err
		}
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		tokens := int64(-1)
		if e.Tokens != nil {
			tokens = int64(*e.Tokens)
		}
		buffer = binary.AppendVarint(buffer[:0], int64(e.Request))
		buffer = binary.AppendVarint(buffer, int64(e.Stream))
		buffer = binary.AppendVarint(buffer, e.TimeNS)
		buffer = binary.AppendVarint(buffer, int64(e.TextLength))
		buffer = binary.AppendVarint(buffer, tokens)
		buffer = append(append(buffer, e.Channel...), 0, map[bool]byte{true: 1}[e.Continued])
		sum.Write(buffer)
	}
	return nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
