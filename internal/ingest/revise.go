package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/trust"
)

// The choices about doubtful cells.
const (
	// KeepLabel leaves the words of the source, with the doubt beside them.
	KeepLabel = "keep"
	// ReadValid makes the cells Valid, “label corrected by the uploader”.
	ReadValid = "valid"
	// NoSpeed takes the numbers of the cells away.
	NoSpeed = "none"
)

// Decide makes the next version of a run, in which its doubtful cells are what the uploader chose.
func (s *Service) Decide(ctx context.Context, by account.Visitor, id string, choice string) (catalog.Entry, error) {
	r, err := s.own(ctx, by, id, account.Edit)
	if err != nil {
		return catalog.Entry{}, err
	}
	var report trust.Report
	if err := json.Unmarshal(r.Checks, &report); err != nil {
		return r.Entry, err
	}
	if choice == KeepLabel || len(report.Doubts) == 0 {
		return r.Entry, nil
	}
	if choice != ReadValid && choice != NoSpeed {
		return r.Entry, bad("choice", "There is no such choice", "It is keep, valid or none.", "")
	}
	leave, err := s.seat(ctx)
	if err != nil {
		return r.Entry, err
	}
	defer leave()
	run, err := runfile.DecodeStrict(r.Document)
	if err != nil {
		return r.Entry, err
	}
	var keys []string
	for _, d := range report.Doubts {
		keys = append(keys, d.Cell)
	}
	correct(run, keys, choice)
	why := "label corrected by the uploader"
	if choice == NoSpeed {
		why = "numbers of doubtful cells taken back by the uploader"
	}
	return s.revise(ctx, by, r, edit{run: run, corrected: keys, why: why})
}

// correct changes the doubtful cells of a run.
func correct(run *speedmatrix.Run, keys []string, choice string) {
	for i := range run.Cells {
		c := &run.Cells[i]
		if !slices.Contains(keys, c.Key()) {
			continue
		}
		if choice == ReadValid {
			c.Status, c.Reason = speedmatrix.StatusValid, "label corrected by the uploader; it was “Requests queued”"
			continue
		}
		// The words of the source stay, its numbers go: whoever wants them finds them in the version before.
		*c = speedmatrix.Cell{Phase: c.Phase, Context: c.Context, ContextLabel: c.ContextLabel, Concurrency: c.Concurrency, Status: c.Status,
			Reason: "its numbers were taken back by the uploader, as the label cannot be true; they are in the history", TTFTKind: c.TTFTKind}
	}
}

// edit is what a next version of a run says: the cells whose label was corrected, and why.
type edit struct {
	run       *speedmatrix.Run
	corrected []string
	why       string
}

// revise keeps a next version of a run whose raw rows stay what they are.
func (s *Service) revise(ctx context.Context, by account.Visitor, was catalog.Record, change edit) (catalog.Entry, error) {
	var document bytes.Buffer
	if err := runfile.Encode(&document, change.run); err != nil {
		return was.Entry, err
	}
	next, err := s.judgeAgain(ctx, was, change, document.Bytes())
	if err != nil {
		return was.Entry, err
	}
	s.files.RLock()
	err = s.o.Blobs.Put(ctx, next.Entry.DocumentHash, int64(document.Len()), bytes.NewReader(document.Bytes()))
	var kept catalog.Entry
	if err == nil {
		kept, err = s.o.Store.Put(ctx, next, catalog.Change{At: s.o.Now(), By: by.Account.ID, What: "edited", Why: change.why})
	}
	s.files.RUnlock()
	if err != nil {
		return was.Entry, err
	}
	s.o.Index.Apply(kept)
	return kept, s.lookAgain(ctx, &kept)
}

// judgeAgain makes the record of a next version, recomputed from the rows that are kept.
func (s *Service) judgeAgain(ctx context.Context, was catalog.Record, change edit, document []byte) (catalog.Record, error) {
	e, old := describe(change.run, document), was.Entry
	e.ID, e.Version, e.EventsHash, e.Visibility, e.Owner, e.OwnerName = old.ID, old.Version+1, old.EventsHash, old.Visibility, old.Owner, old.OwnerName
	e.ReceivedAt, e.PublishedAt = old.ReceivedAt, old.PublishedAt
	examined, err := s.examineKept(ctx, was.Blobs, document)
	if err != nil {
		return was, err
	}
	report := trust.Evaluate(trust.Input{Run: change.run, Recomputed: examined.Report, Entry: &e, Neighbours: s.o.Index.Neighbours(&e), Corrected: change.corrected})
	e.Level, e.Reproductions = report.Level, len(report.Reproducers)
	checks, err := json.Marshal(report)
	if err != nil {
		return was, err
	}
	blobs := slices.Clone(was.Blobs)
	for i := range blobs {
		if blobs[i].Name == documentName {
			blobs[i].Hash, blobs[i].Size = e.DocumentHash, int64(len(document))
		}
	}
	return catalog.Record{Entry: e, Document: document, Checks: checks, Blobs: blobs, Why: change.why}, nil
}

// examineKept reads the rows of a run that is kept, beside a document.
func (s *Service) examineKept(ctx context.Context, blobs []catalog.Blob, document []byte) (Examination, error) {
	folder, err := os.MkdirTemp(s.o.Folder, "run-")
	if err != nil {
		return Examination{}, fmt.Errorf("make a folder for a run: %w", err)
	}
	err = os.WriteFile(filepath.Join(folder, documentName), document, 0o600)
	for _, b := range blobs {
		if err == nil && filepath.Ext(b.Name) == ".parquet" {
			err = s.fetch(ctx, b, filepath.Join(folder, filepath.FromSlash(b.Name)))
		}
	}
	var examined Examination
	if err == nil {
		examined, err = s.examine(ctx, folder, blobs)
	}
	return examined, errors.Join(err, os.RemoveAll(folder))
}

// fetch copies a kept file to a place.
func (s *Service) fetch(ctx context.Context, b catalog.Blob, place string) error {
	from, err := s.o.Blobs.Open(ctx, b.Hash)
	if err != nil {
		return fmt.Errorf("read %s: %w", b.Name, err)
	}
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	to, err := os.OpenFile(place, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
