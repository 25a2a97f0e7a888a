package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/store/db"
)

// sequenced gives a change its sequence number. The counter's row stays locked until the transaction ends, so numbers become
// visible in their order.
func sequenced(ctx context.Context, q *db.Queries, r *catalog.Record, c catalog.Change) ([]byte, error) {
	n, err := q.NextSequence(ctx)
	if err != nil {
		return nil, err
	}
	r.Entry.Sequence = n
	entry, err := packEntry(&r.Entry)
	if err != nil {
		return nil, err
	}
	err = q.PutRun(ctx, db.PutRunParams{ID: r.Entry.ID, Version: int64(r.Entry.Version), Sequence: n, Entry: entry})
	if err != nil {
		return nil, err
	}
	return entry, q.PutChange(ctx, db.PutChangeParams{Sequence: n, Run: r.Entry.ID, Version: int64(r.Entry.Version), At: micros(c.At), ByAccount: c.By, What: c.What, Why: c.Why})
}

// latest is the version and the sequence number of a run; 0 where it is not there.
func latest(ctx context.Context, q *db.Queries, id string) (db.RunRow, error) {
	now, err := q.Run(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return db.RunRow{}, nil
	}
	return now, err
}

// Put adds a run, or its next version.
func (s *Store) Put(ctx context.Context, r catalog.Record, c catalog.Change) (catalog.Entry, error) {
	document, err := squeeze(r.Document)
	if err != nil {
		return catalog.Entry{}, err
	}
	files, err := json.Marshal(r.Blobs)
	if err != nil {
		return catalog.Entry{}, err
	}
	err = s.change(ctx, func(q *db.Queries) error {
		id, version := r.Entry.ID, int64(r.Entry.Version)
		entry, err := sequenced(ctx, q, &r, c) // first of all: it locks out other writers
		if err != nil {
			return err
		}
		before, err := q.LatestVersion(ctx, id)
		if err != nil {
			return err
		}
		if version != before+1 {
			return fmt.Errorf("run %s has version %d: %w", id, before, catalog.ErrConflict)
		}
		err = q.PutVersion(ctx, db.PutVersionParams{Run: id, Version: version, RunID: r.Entry.RunID, EventsHash: r.Entry.EventsHash,
			Entry: entry, Document: document, Checks: r.Checks, Files: string(files), Why: r.Why})
		if err != nil {
			return err
		}
		for _, b := range r.Blobs {
			if err := q.PutFile(ctx, db.PutFileParams{Hash: b.Hash, Run: id, Version: version}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return catalog.Entry{}, fmt.Errorf("keep run %s: %w", r.Entry.ID, err)
	}
	return r.Entry, nil
}

// Set changes what the site says of the latest version.
func (s *Store) Set(ctx context.Context, r catalog.Record, c catalog.Change) (catalog.Entry, error) {
	id := r.Entry.ID
	was := r.Entry.Sequence
	err := s.change(ctx, func(q *db.Queries) error {
		if _, err := q.Lock(ctx); err != nil {
			return err
		}
		now, err := latest(ctx, q, id)
		if err != nil {
			return err
		}
		if now.Version == 0 {
			return catalog.ErrNotFound
		}
		if now.Sequence != was || now.Version != int64(r.Entry.Version) {
			return catalog.ErrConflict
		}
		v, err := q.Version(ctx, db.VersionParams{Run: id, Version: now.Version})
		if err != nil {
			return err
		}
		e, err := unpackEntry(v.Entry)
		if err != nil {
			return err
		}
		e.Visibility, e.Owner, e.OwnerName = r.Entry.Visibility, r.Entry.Owner, r.Entry.OwnerName
		e.Level, e.Reproductions, e.PublishedAt = r.Entry.Level, r.Entry.Reproductions, r.Entry.PublishedAt
		r.Entry = e
		entry, err := sequenced(ctx, q, &r, c)
		if err != nil {
			return err
		}
		return q.SetVersion(ctx, db.SetVersionParams{Run: id, Version: now.Version, Entry: entry, Checks: r.Checks})
	})
	if err != nil {
		return catalog.Entry{}, fmt.Errorf("change run %s: %w", id, err)
	}
	return r.Entry, nil
}

// Get gives a version of a run, the latest for 0.
func (s *Store) Get(ctx context.Context, id string, version int) (catalog.Record, error) {
	q := s.queries()
	if version == 0 {
		now, err := latest(ctx, q, id)
		if err != nil {
			return catalog.Record{}, fmt.Errorf("read run %s: %w", id, err)
		}
		version = int(now.Version)
	}
	v, err := q.Version(ctx, db.VersionParams{Run: id, Version: int64(version)})
	if err != nil {
		return catalog.Record{}, missing(err, "run", id, catalog.ErrNotFound)
	}
	r := catalog.Record{Checks: v.Checks, Why: v.Why}
	if r.Entry, err = unpackEntry(v.Entry); err != nil {
		return r, fmt.Errorf("read run %s: %w", id, err)
	}
	if r.Document, err = unsqueeze(v.Document); err != nil {
		return r, fmt.Errorf("read run %s: %w", id, err)
	}
	if err := json.Unmarshal([]byte(v.Files), &r.Blobs); err != nil {
		return r, fmt.Errorf("read run %s: %w", id, err)
	}
	return r, nil
}

// Remove takes a run out for good. Its number in the sequence tells followers.
func (s *Store) Remove(ctx context.Context, id string) error {
	err := s.change(ctx, func(q *db.Queries) error {
		n, err := q.NextSequence(ctx)
		if err != nil {
			return err
		}
		now, err := latest(ctx, q, id)
		if err != nil {
			return err
		}
		if now.Version == 0 {
			return catalog.ErrNotFound
		}
		for _, drop := range []func(context.Context, string) error{q.DropVersions, q.DropFiles, q.DropChanges} {
			if err := drop(ctx, id); err != nil {
				return err
			}
		}
		return q.PutRun(ctx, db.PutRunParams{ID: id, Sequence: n, Entry: []byte{}})
	})
	if err != nil {
		return fmt.Errorf("remove run %s: %w", id, err)
	}
	return nil
}

// History gives what happened to a run, oldest first.
func (s *Store) History(ctx context.Context, id string) ([]catalog.Change, error) {
	rows, err := s.queries().Changes(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the history of run %s: %w", id, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("run %s: %w", id, catalog.ErrNotFound)
	}
	list := make([]catalog.Change, len(rows))
	for i, r := range rows {
		list[i] = catalog.Change{Sequence: r.Sequence, Version: int(r.Version), At: instant(r.At), By: r.ByAccount, What: r.What, Why: r.Why}
	}
	return list, nil
}

// Since gives what changed after a sequence number, oldest change first, in batches.
func (s *Store) Since(ctx context.Context, sequence int64) iter.Seq2[catalog.Entry, error] {
	return func(yield func(catalog.Entry, error) bool) {
		for {
			rows, err := s.queries().RunsSince(ctx, db.RunsSinceParams{Sequence: sequence, Limit: sinceBatch})
			if err != nil {
				yield(catalog.Entry{}, err)
				return
			}
			for _, r := range rows {
				e := catalog.Entry{ID: r.ID, Sequence: r.Sequence}
				if r.Version > 0 {
					if e, err = unpackEntry(r.Entry); err != nil {
						err = fmt.Errorf("run %s: %w", r.ID, err)
					}
				}
				if !yield(e, err) || err != nil {
					return
				}
				sequence = r.Sequence
			}
			if len(rows) < sinceBatch {
				return
			}
		}
	}
}

// ByEvents gives the runs with these raw rows.
func (s *Store) ByEvents(ctx context.Context, hash string) ([]string, error) {
	if hash == "" {
		return nil, nil
	}
	return s.queries().RunsByEvents(ctx, hash)
}

// ByRunID gives the runs that call themselves so.
func (s *Store) ByRunID(ctx context.Context, runID string) ([]string, error) {
	return s.queries().RunsByRunID(ctx, runID)
}

// BlobInUse says whether any version of any run names the blob.
func (s *Store) BlobInUse(ctx context.Context, hash string) (bool, error) {
	n, err := s.queries().FileUses(ctx, hash)
	return n > 0, err
}

// PutUpload keeps an upload on its way.
func (s *Store) PutUpload(ctx context.Context, u catalog.Upload) error {
	return s.change(ctx, func(q *db.Queries) error {
		return q.PutUpload(ctx, db.PutUploadParams{ID: u.ID, Owner: u.Owner, Hash: u.Hash, Size: u.Size, Received: u.Received,
			CreatedAt: micros(u.CreatedAt), ExpiresAt: micros(u.ExpiresAt), Run: u.Run})
	})
}

func upload(u db.Upload) catalog.Upload {
	return catalog.Upload{ID: u.ID, Owner: u.Owner, Hash: u.Hash, Size: u.Size, Received: u.Received, CreatedAt: instant(u.CreatedAt), ExpiresAt: instant(u.ExpiresAt), Run: u.Run}
}

// Upload gives an upload on its way.
func (s *Store) Upload(ctx context.Context, id string) (catalog.Upload, error) {
	u, err := s.queries().Upload(ctx, id)
	return upload(u), missing(err, "upload", id, catalog.ErrNotFound)
}

// UploadByHash gives an owner's latest upload of an archive.
func (s *Store) UploadByHash(ctx context.Context, owner, hash string) (catalog.Upload, error) {
	u, err := s.queries().UploadByHash(ctx, db.UploadByHashParams{Hash: hash, Owner: owner})
	return upload(u), missing(err, "upload of", hash, catalog.ErrNotFound)
}

// ExpiredUploads gives the uploads whose time is over.
func (s *Store) ExpiredUploads(ctx context.Context, now time.Time) ([]catalog.Upload, error) {
	rows, err := s.queries().ExpiredUploads(ctx, micros(now))
	if err != nil {
		return nil, err
	}
	list := make([]catalog.Upload, len(rows))
	for i, u := range rows {
		list[i] = upload(u)
	}
	return list, nil
}

// DropUpload forgets an upload.
func (s *Store) DropUpload(ctx context.Context, id string) error {
	return s.change(ctx, func(q *db.Queries) error { return q.DropUpload(ctx, id) })
}
