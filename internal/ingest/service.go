package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/blob"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/trust"
	"speedmatrix/internal/unit"
)

// Index is what a site knows of its other runs.
type Index interface {
	Apply(e catalog.Entry)
	Get(id string) (*catalog.Entry, bool)
	Neighbours(e *catalog.Entry) []*catalog.Entry
}

// Options are what a Service stands on.
type Options struct {
	Store catalog.Store
	Blobs blob.Store
	Index Index
	Rules account.Rules
	// Examine reads the rows of an unpacked run; nil is Examine, in this process.
	Examine func(ctx context.Context, folder string) (Examination, error)
	Limits  Limits
	// Folder is where uploads are unpacked and resumable ones grow.
	Folder  string
	Now     func() time.Time
	Entropy io.Reader
	// AtOnce is how many uploads are worked on at a time; the others wait for Patience and are then asked to come again.
	// Incoming is how many may be on their way in at a time, 0 is 16 for each that is worked on.
	AtOnce, Incoming int
	Patience         time.Duration
	// KeepUploads is how long an unfinished upload may rest.
	KeepUploads time.Duration
}

// doorsPerSeat is how many uploads may come in for each that is worked on.
const doorsPerSeat = 16

// Service takes runs in and changes them.
type Service struct {
	o Options
	// seats are for uploads that are worked on, doors for those that come in: who sends slowly keeps nobody from a seat.
	seats, doors chan struct{}
	// busy are the uploads that are written to now.
	busy *locks
	// files is held for reading from when a file is kept until a run names it, so that none is dropped between.
	files sync.RWMutex
}

// New makes a service; its folder is made where it is missing.
func New(o Options) (*Service, error) {
	if o.Examine == nil {
		o.Examine = Examine
	}
	if err := os.MkdirAll(filepath.Join(o.Folder, piecesFolder), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of uploads: %w", err)
	}
	seats := max(1, o.AtOnce)
	doors := cmp.Or(max(0, o.Incoming), doorsPerSeat*seats)
	return &Service{o: o, seats: make(chan struct{}, seats), doors: make(chan struct{}, doors), busy: newLocks()}, nil
}

// candidate is an upload that was read and judged.
type candidate struct {
	record   catalog.Record
	run      *speedmatrix.Run
	document []byte
	report   trust.Report
	// same are the runs with the same rows, then those of the same name with the same numbers.
	same   []string
	folder string
}

// seat waits for a place among the uploads that are worked on.
func (s *Service) seat(ctx context.Context) (leave func(), err error) {
	timer := time.NewTimer(s.o.Patience)
	defer timer.Stop()
	select {
	case s.seats <- struct{}{}:
		return func() { <-s.seats }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, busy()
	}
}

func busy() *Problem {
	return refuse(http.StatusServiceUnavailable, "busy", "Too many uploads at once", "Come again in a few seconds.")
}

// arrive takes a body as it comes, into a file of its own, and then waits for a seat. Both are given back by leave.
func (s *Service) arrive(ctx context.Context, body io.Reader) (archive *os.File, leave func() error, err error) {
	select {
	case s.doors <- struct{}{}:
	default:
		return nil, nil, busy()
	}
	defer func() { <-s.doors }()
	if archive, err = os.CreateTemp(s.o.Folder, "in-"); err != nil {
		return nil, nil, fmt.Errorf("make a file for an upload: %w", err)
	}
	drop := func() error { return errors.Join(archive.Close(), os.Remove(archive.Name())) }
	in := &counted{ctx: ctx, r: body, limit: s.o.Limits.Archive}
	if _, err = io.Copy(archive, in); err == nil {
		_, err = archive.Seek(0, io.SeekStart)
	} else {
		err = (&unpacker{limits: s.o.Limits, source: in}).unreadable(err)
	}
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	stand, err := s.seat(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return archive, func() error {
		stand()
		return drop()
	}, nil
}

// read unpacks and judges an upload; the folder of the candidate is the caller's to remove.
func (s *Service) read(ctx context.Context, by account.Visitor, body io.Reader) (*candidate, error) {
	folder, err := os.MkdirTemp(s.o.Folder, "run-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for an upload: %w", err)
	}
	c, err := s.judge(ctx, by, body, folder)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return c, nil
}

func (s *Service) judge(ctx context.Context, by account.Visitor, body io.Reader, folder string) (*candidate, error) {
	files, err := unpack(ctx, body, folder, s.o.Limits)
	if err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(folder, documentName))
	if err != nil {
		return nil, err
	}
	run, err := decode(document, s.o.Limits, s.o.Now())
	if err != nil {
		return nil, err
	}
	if err := rowsOfCells(run, files); err != nil {
		return nil, err
	}
	log, err := os.ReadFile(filepath.Join(folder, logName))
	if err == nil {
		err = secretLog(ctx, log)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	examined, err := s.examine(ctx, folder, files)
	if err != nil {
		return nil, err
	}
	e := describe(run, document)
	e.EventsHash, e.Owner, e.OwnerName = examined.EventsHash, by.Account.ID, by.Account.Name
	c := &candidate{record: catalog.Record{Entry: e, Document: document, Blobs: files}, run: run, document: document, folder: folder}
	return c, s.evaluate(ctx, c, examined)
}

// rowsOfCells wants every file of rows to be a cell's, and both of a cell's or none.
func rowsOfCells(run *speedmatrix.Run, files []catalog.Blob) error {
	keys, there := rowKeys(run), map[string]int{}
	for _, f := range files {
		key, ok := rowKey(f.Name)
		switch {
		case !ok:
		case !keys[key]:
			return bad("foreign-rows", "The archive holds rows of no cell", "Rows stand under the name of a cell of run.json.", f.Name)
		default:
			there[key]++
		}
	}
	for _, f := range files {
		if key, ok := rowKey(f.Name); ok && there[key] != 2 {
			return bad("half-rows", "The archive holds half of a cell's rows", "A cell has a file of events and one of requests.", f.Name)
		}
	}
	return nil
}

// examine reads the rows, where there are any.
func (s *Service) examine(ctx context.Context, folder string, files []catalog.Blob) (Examination, error) {
	if !slices.ContainsFunc(files, func(b catalog.Blob) bool { return filepath.Ext(b.Name) == ".parquet" }) {
		return Examination{}, nil
	}
	examined, err := s.o.Examine(ctx, folder)
	if err == nil {
		return examined, nil
	}
	if ctx.Err() != nil {
		return examined, ctx.Err()
	}
	return examined, bad("rows-unreadable", "The raw rows cannot be read", "speedmatrix verify says which file is damaged ("+plain(err)+").", "cells")
}

// evaluate makes the checks of trust.
func (s *Service) evaluate(ctx context.Context, c *candidate, examined Examination) error {
	e := &c.record.Entry
	sameRows, err := s.o.Store.ByEvents(ctx, e.EventsHash)
	if err != nil {
		return err
	}
	sameName, err := s.o.Store.ByRunID(ctx, e.RunID)
	if err != nil {
		return err
	}
	in := trust.Input{Run: c.run, Recomputed: examined.Report, Entry: e, Neighbours: s.o.Index.Neighbours(e), SameRows: s.others(e, sameRows)}
	for _, id := range s.others(e, sameName) {
		if other, ok := s.o.Index.Get(id); ok && other.SameNumbers(e) {
			in.SameNumbers = append(in.SameNumbers, id)
		} else {
			in.SameName = append(in.SameName, id)
		}
	}
	c.same = append(slices.Clone(in.SameRows), in.SameNumbers...)
	c.report = trust.Evaluate(in)
	e.Level, e.Reproductions = c.report.Level, len(c.report.Reproducers)
	c.record.Checks, err = json.Marshal(c.report)
	return err
}

// others are the runs among those that are not this one and that its uploader may hear of.
func (s *Service) others(e *catalog.Entry, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return id == e.ID || s.hidden(id) })
}

// hidden says whether others must not learn of a run: drafts of other people do not show through.
func (s *Service) hidden(id string) bool {
	e, ok := s.o.Index.Get(id)
	return !ok || e.Visibility == catalog.Draft || e.Visibility == catalog.Withdrawn
}

func (c *candidate) receipt() *Receipt {
	e := &c.record.Entry
	r := &Receipt{ID: e.ID, Version: e.Version, Visibility: e.Visibility, Title: e.Title(), Report: c.report}
	if len(c.same) > 0 {
		r.Duplicate = c.same[0]
	}
	return r
}

// Check judges an upload and keeps nothing.
func (s *Service) Check(ctx context.Context, by account.Visitor, body io.Reader) (*Receipt, error) {
	if err := s.o.Rules.May(by, account.Check, ""); err != nil {
		return nil, err
	}
	archive, leave, err := s.arrive(ctx, body)
	if err != nil {
		return nil, err
	}
	c, err := s.read(ctx, by, archive)
	if err = errors.Join(err, leave()); err != nil {
		return nil, err
	}
	return c.receipt(), os.RemoveAll(c.folder)
}

// Receive judges an upload and keeps it, as a draft of its owner's, or in quarantine without one. The same run of the same
// owner again gives the run that is there.
func (s *Service) Receive(ctx context.Context, by account.Visitor, body io.Reader) (*Receipt, error) {
	if err := s.o.Rules.May(by, account.Upload, ""); err != nil {
		return nil, err
	}
	archive, leave, err := s.arrive(ctx, body)
	if err != nil {
		return nil, err
	}
	receipt, err := s.receive(ctx, by, archive)
	return receipt, errors.Join(err, leave())
}

func (s *Service) receive(ctx context.Context, by account.Visitor, body io.Reader) (receipt *Receipt, err error) {
	c, err := s.read(ctx, by, body)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.folder)) }()
	if there, err := s.already(ctx, by, c); there != nil || err != nil {
		return there, err
	}
	e := &c.record.Entry
	if e.ID, err = unit.NewID(s.o.Now(), s.o.Entropy); err != nil {
		return nil, err
	}
	e.Version, e.ReceivedAt, e.Visibility = 1, s.o.Now(), catalog.Draft
	claim := ""
	if !by.SignedIn() {
		e.Visibility = catalog.Quarantined
		if claim, e.Owner, err = s.newClaim(); err != nil {
			return nil, err
		}
	}
	kept, err := s.keep(ctx, c, by.Account.ID)
	if err != nil {
		return nil, err
	}
	s.o.Index.Apply(kept)
	receipt = c.receipt()
	receipt.Claim = claim
	return receipt, nil
}

// already finds the run that the owner's own upload of the same document and rows became.
func (s *Service) already(ctx context.Context, by account.Visitor, c *candidate) (*Receipt, error) {
	if !by.SignedIn() {
		return nil, nil
	}
	ids, err := s.o.Store.ByRunID(ctx, c.record.Entry.RunID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		e, ok := s.o.Index.Get(id)
		if !ok || e.Owner != by.Account.ID || e.DocumentHash != c.record.Entry.DocumentHash || e.EventsHash != c.record.Entry.EventsHash || e.Visibility == catalog.Withdrawn {
			continue
		}
		r := c.receipt()
		r.ID, r.Version, r.Visibility, r.Duplicate = e.ID, e.Version, e.Visibility, ""
		return r, nil
	}
	return nil, nil
}

func (s *Service) newClaim() (secret, owner string, err error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(s.o.Entropy, raw); err != nil {
		return "", "", err
	}
	secret = "smc_" + hex.EncodeToString(raw)
	sum := sha256.Sum256([]byte(secret))
	return secret, catalog.ClaimPrefix + hex.EncodeToString(sum[:]), nil
}
