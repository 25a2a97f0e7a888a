package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// piecesFolder holds the uploads that come in pieces, each under its name.
const piecesFolder = "pieces"

// locks are held by name.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

func newLocks() *locks { return &locks{held: map[string]bool{}} }

// take takes a lock, or says that another has it.
func (l *locks) take(name string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, false
	}
	l.held[name] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
	}, true
}

func (s *Service) pieces(id string) string { return filepath.Join(s.o.Folder, piecesFolder, id) }

// uploader names who an upload belongs to; those without an account share a name, and the upload's own is their secret.
func uploader(by account.Visitor) string {
	if by.SignedIn() {
		return by.Account.ID
	}
	return "nobody"
}

// Begin begins an upload in pieces, or finds the one of the same archive that broke off.
func (s *Service) Begin(ctx context.Context, by account.Visitor, size int64, hash string) (catalog.Upload, error) {
	if err := s.o.Rules.May(by, account.Upload, ""); err != nil {
		return catalog.Upload{}, err
	}
	if size < 1 || size > s.o.Limits.Archive {
		return catalog.Upload{}, tooLarge("archive-too-large", "An archive", s.o.Limits.Archive, "")
	}
	now := s.o.Now()
	if by.SignedIn() {
		u, err := s.o.Store.UploadByHash(ctx, uploader(by), hash)
		if err == nil && u.Size == size && now.Before(u.ExpiresAt) {
			var goesOn bool
			if goesOn, err = s.goesOn(ctx, u); goesOn {
				return s.grown(u), nil
			}
		}
		if err != nil && !errors.Is(err, catalog.ErrNotFound) {
			return u, err
		}
	}
	id, err := unit.NewID(now, s.o.Entropy)
	if err != nil {
		return catalog.Upload{}, err
	}
	u := catalog.Upload{ID: id, Owner: uploader(by), Hash: hash, Size: size, CreatedAt: now, ExpiresAt: now.Add(s.o.KeepUploads)}
	return u, s.o.Store.PutUpload(ctx, u)
}

// goesOn says whether an upload is the way to its run still: one that became a run that was deleted or withdrawn is over.
func (s *Service) goesOn(ctx context.Context, u catalog.Upload) (bool, error) {
	if u.Run == "" {
		return true, nil
	}
	r, err := s.o.Store.Get(ctx, u.Run, 0)
	return err == nil && r.Entry.Visibility != catalog.Withdrawn, err
}

// grown says how much of an upload is on the disk.
func (s *Service) grown(u catalog.Upload) catalog.Upload {
	if u.Run != "" {
		u.Received = u.Size
		return u
	}
	u.Received = 0
	if info, err := os.Stat(s.pieces(u.ID)); err == nil {
		u.Received = min(info.Size(), u.Size)
	}
	return u
}

// Upload gives one's own upload on its way.
func (s *Service) Upload(ctx context.Context, by account.Visitor, id string) (catalog.Upload, error) {
	if err := s.o.Rules.May(by, account.Upload, ""); err != nil {
		return catalog.Upload{}, err
	}
	u, err := s.o.Store.Upload(ctx, id)
	if err != nil {
		return u, err
	}
	if u.Owner != uploader(by) || s.o.Now().After(u.ExpiresAt) {
		return catalog.Upload{}, fmt.Errorf("upload %s: %w", id, catalog.ErrNotFound)
	}
	return s.grown(u), nil
}

// Append takes the next piece of an upload, which must begin where the last one ended. What came of a piece that broke off
// stays.
func (s *Service) Append(ctx context.Context, by account.Visitor, id string, offset int64, body io.Reader) (catalog.Upload, error) {
	release, ok := s.busy.take(id)
	if !ok {
		return catalog.Upload{}, refuse(http.StatusConflict, "upload-busy", "Another piece of this upload is on its way", "Wait for its end, then ask how much is here.")
	}
	defer release()
	u, err := s.Upload(ctx, by, id)
	if err != nil {
		return u, err
	}
	if offset != u.Received || u.Run != "" {
		return u, refuse(http.StatusConflict, "offset", "The piece begins at the wrong place", fmt.Sprintf("%d bytes are here: go on there.", u.Received))
	}
	file, err := os.OpenFile(s.pieces(id), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return u, err
	}
	n, err := io.Copy(file, io.LimitReader(&counted{ctx: ctx, r: body, limit: s.o.Limits.Archive}, u.Size-u.Received+1))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return s.grown(u), refuse(http.StatusBadRequest, "piece-broken", "A piece of the upload broke off", "Ask how much is here and go on there.")
	}
	if u.Received+n > u.Size {
		return u, errors.Join(tooLarge("more-than-promised", "This upload", u.Size, ""), os.Remove(s.pieces(id)))
	}
	return s.grown(u), nil
}

// Finish makes a run of an upload that is whole. Again, it gives the same run.
func (s *Service) Finish(ctx context.Context, by account.Visitor, id string) (*Receipt, error) {
	release, ok := s.busy.take(id)
	if !ok {
		return nil, refuse(http.StatusConflict, "upload-busy", "Another piece of this upload is on its way", "Wait for its end, then ask how much is here.")
	}
	defer release()
	u, err := s.Upload(ctx, by, id)
	if err != nil {
		return nil, err
	}
	if u.Run != "" {
		return s.receiptOf(ctx, u.Run)
	}
	if u.Received != u.Size {
		return nil, refuse(http.StatusConflict, "not-whole", "The upload is not whole yet", fmt.Sprintf("%d of %d bytes are here.", u.Received, u.Size))
	}
	leave, err := s.seat(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	receipt, err := s.finish(ctx, by, u)
	if _, refused := errors.AsType[*Problem](err); refused {
		// What was refused once is refused again: it need not be kept.
		err = errors.Join(err, os.Remove(s.pieces(id)), s.o.Store.DropUpload(ctx, id))
	}
	return receipt, err
}

func (s *Service) finish(ctx context.Context, by account.Visitor, u catalog.Upload) (*Receipt, error) {
	if err := s.hashMatches(u); err != nil {
		return nil, err
	}
	file, err := os.Open(s.pieces(u.ID))
	if err != nil {
		return nil, err
	}
	receipt, err := s.receive(ctx, by, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	u.Received, u.Run = u.Size, receipt.ID
	if err := s.o.Store.PutUpload(ctx, u); err != nil {
		return nil, err
	}
	return receipt, os.Remove(s.pieces(u.ID))
}

func (s *Service) hashMatches(u catalog.Upload) error {
	file, err := os.Open(s.pieces(u.ID))
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != u.Hash {
		return bad("wrong-hash", "The upload is not what was promised", "Its bytes have the SHA-256 "+got+". Send it again.", "")
	}
	return nil
}

// abandoned is how long after its last change a file or folder of an upload that is worked on belongs to a process that ended.
const abandoned = time.Hour

// Sweep forgets the uploads whose time is over and what was left of them, and of those that a process was killed over.
func (s *Service) Sweep(ctx context.Context) error {
	if err := s.sweepFolder(); err != nil {
		return err
	}
	old, err := s.o.Store.ExpiredUploads(ctx, s.o.Now())
	if err != nil {
		return err
	}
	for _, u := range old {
		if err := os.Remove(s.pieces(u.ID)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := s.o.Store.DropUpload(ctx, u.ID); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) sweepFolder() error {
	entries, err := os.ReadDir(s.o.Folder)
	if err != nil {
		return fmt.Errorf("look at the folder of uploads: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.Name() == piecesFolder || s.o.Now().Sub(info.ModTime()) < abandoned {
			continue // also one that ended just now
		}
		if err := os.RemoveAll(filepath.Join(s.o.Folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
