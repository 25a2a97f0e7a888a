// Package catalogtest is for tests: a store in memory, and runs of invented machines.
package catalogtest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"speedmatrix/internal/catalog"
)

// Memory is a catalog.Store that keeps everything in memory.
type Memory struct {
	mu       sync.Mutex
	sequence int64
	versions map[string][]catalog.Record
	history  map[string][]catalog.Change
	removed  map[string]int64
	uploads  map[string]catalog.Upload
}

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{versions: map[string][]catalog.Record{}, history: map[string][]catalog.Change{}, removed: map[string]int64{}, uploads: map[string]catalog.Upload{}}
}

// Len is the number of runs.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.versions)
}

func missing(id string) error { return fmt.Errorf("run %s: %w", id, catalog.ErrNotFound) }

// Put adds a run, or its next version.
func (m *Memory) Put(_ context.Context, r catalog.Record, c catalog.Change) (catalog.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := r.Entry.ID
	if r.Entry.Version != len(m.versions[id])+1 {
		return catalog.Entry{}, fmt.Errorf("run %s version %d: %w", id, r.Entry.Version, catalog.ErrConflict)
	}
	return m.keep(r, c, true), nil
}

func (m *Memory) keep(r catalog.Record, c catalog.Change, fresh bool) catalog.Entry {
	m.sequence++
	r.Entry.Sequence, c.Sequence, c.Version = m.sequence, m.sequence, r.Entry.Version
	id := r.Entry.ID
	if fresh {
		m.versions[id] = append(m.versions[id], r)
	} else {
		m.versions[id][r.Entry.Version-1] = r
	}
	m.history[id] = append(m.history[id], c)
	return r.Entry
}

// Set changes the latest version in place.
func (m *Memory) Set(_ context.Context, r catalog.Record, c catalog.Change) (catalog.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.versions[r.Entry.ID]
	if len(all) == 0 {
		return catalog.Entry{}, missing(r.Entry.ID)
	}
	now := all[len(all)-1]
	if now.Entry.Sequence != r.Entry.Sequence || now.Entry.Version != r.Entry.Version {
		return catalog.Entry{}, fmt.Errorf("run %s: %w", r.Entry.ID, catalog.ErrConflict)
	}
	now.Entry.Visibility, now.Entry.Owner, now.Entry.OwnerName = r.Entry.Visibility, r.Entry.Owner, r.Entry.OwnerName
	now.Entry.Level, now.Entry.Reproductions, now.Entry.PublishedAt, now.Checks = r.Entry.Level, r.Entry.Reproductions, r.Entry.PublishedAt, r.Checks
	return m.keep(now, c, false), nil
}

// Get gives a version of a run.
func (m *Memory) Get(_ context.Context, id string, version int) (catalog.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.versions[id]
	if version = cmp.Or(version, len(all)); version < 1 || version > len(all) {
		return catalog.Record{}, missing(id)
	}
	return all[version-1], nil
}

// Remove takes a run out.
func (m *Memory) Remove(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.versions[id]) == 0 {
		return missing(id)
	}
	delete(m.versions, id)
	delete(m.history, id)
	m.sequence++
	m.removed[id] = m.sequence
	return nil
}

// History gives the changes of a run.
func (m *Memory) History(_ context.Context, id string) ([]catalog.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.versions[id]) == 0 {
		return nil, missing(id)
	}
	return slices.Clone(m.history[id]), nil
}

// Since gives what changed after a sequence number.
func (m *Memory) Since(_ context.Context, sequence int64) iter.Seq2[catalog.Entry, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []catalog.Entry
	for _, all := range m.versions {
		if e := all[len(all)-1].Entry; e.Sequence > sequence {
			list = append(list, e)
		}
	}
	for id, s := range m.removed {
		if s > sequence {
			list = append(list, catalog.Entry{ID: id, Sequence: s})
		}
	}
	slices.SortFunc(list, func(a, b catalog.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return func(yield func(catalog.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *Memory) ids(pass func(catalog.Entry) bool) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []string
	for id, all := range m.versions {
		if slices.ContainsFunc(all, func(r catalog.Record) bool { return pass(r.Entry) }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// ByEvents gives the runs with these raw rows.
func (m *Memory) ByEvents(_ context.Context, hash string) ([]string, error) {
	return m.ids(func(e catalog.Entry) bool { return hash != "" && e.EventsHash == hash }), nil
}

// ByRunID gives the runs that call themselves so.
func (m *Memory) ByRunID(_ context.Context, runID string) ([]string, error) {
	return m.ids(func(e catalog.Entry) bool { return e.RunID == runID }), nil
}

// BlobInUse says whether any run names the blob.
func (m *Memory) BlobInUse(_ context.Context, hash string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, all := range m.versions {
		for _, r := range all {
			if slices.ContainsFunc(r.Blobs, func(b catalog.Blob) bool { return b.Hash == hash }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// PutUpload keeps an upload on its way.
func (m *Memory) PutUpload(_ context.Context, u catalog.Upload) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uploads[u.ID] = u
	return nil
}

// Upload gives an upload on its way.
func (m *Memory) Upload(_ context.Context, id string) (catalog.Upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.uploads[id]
	if !ok {
		return u, fmt.Errorf("upload %s: %w", id, catalog.ErrNotFound)
	}
	return u, nil
}

// UploadByHash gives an owner's upload of an archive.
func (m *Memory) UploadByHash(_ context.Context, owner, hash string) (catalog.Upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.uploads {
		if u.Owner == owner && u.Hash == hash {
			return u, nil
		}
	}
	return catalog.Upload{}, fmt.Errorf("upload of %s: %w", hash, catalog.ErrNotFound)
}

// ExpiredUploads gives the uploads whose time is over.
func (m *Memory) ExpiredUploads(_ context.Context, now time.Time) (list []catalog.Upload, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.uploads {
		if u.ExpiresAt.Before(now) {
			list = append(list, u)
		}
	}
	return list, nil
}

// DropUpload forgets an upload.
func (m *Memory) DropUpload(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.uploads, id)
	return nil
}
