package catalog

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors that a Store gives, wrapped.
var (
	// ErrNotFound: no run, version or upload has that name.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the run changed since it was read, or the name is taken.
	ErrConflict = errors.New("changed meanwhile")
)

// Blob is a file of a run: its name in the run directory ("run.json", "cells/decode-16k-x8.parquet"), and the SHA-256 in
// hex under which its bytes are kept.
type Blob struct {
	Name string `json:"name"`
	Hash string `json:"sha256"`
	Size int64  `json:"size"`
}

// Record is one version of a run as a Store keeps it, as a whole or not at all.
type Record struct {
	Entry Entry
	// Document is run.json as it was taken, JSON in UTF-8.
	Document []byte
	// Checks is what was checked and found, in the JSON of the package that checked.
	Checks []byte
	Blobs  []Blob
	// Why is the uploader's or moderator's sentence on this version, shown in its history.
	Why string
}

// Change is one line of a run's history.
type Change struct {
	Sequence int64     `json:"sequence"`
	Version  int       `json:"version"`
	At       time.Time `json:"at"`
	// By is an account's ID, "" for nobody or the site itself.
	By string `json:"by"`
	// What is "received", "published", "unlisted", "edited", "withdrawn", "restored", "checked again", "claimed".
	What string `json:"what"`
	Why  string `json:"why"`
}

// Upload is a body on its way in, piece by piece.
type Upload struct {
	ID    string
	Owner string
	// Hash is the SHA-256 in hex that the whole will have, Size its length; Received is how much is there.
	Hash           string
	Size, Received int64
	CreatedAt      time.Time
	ExpiresAt      time.Time
	// Run is the run that it became, "" before.
	Run string
}

// Store keeps runs. Every method that writes is atomic and on the disk when it returns; an acknowledged run is there after
// a crash, any other is absent as a whole. Its errors are for operators; ErrNotFound and ErrConflict may be asked for.
type Store interface {
	// Put adds a run, or its next version (Entry.Version one above the latest, else ErrConflict), and gives the entry with
	// its sequence number.
	Put(ctx context.Context, r Record, c Change) (Entry, error)
	// Set changes an entry's Visibility, Owner, OwnerName, Level, Reproductions, PublishedAt and the record's Checks, without a
	// new version.
	// ErrConflict if the run's sequence number is no longer that of r.
	Set(ctx context.Context, r Record, c Change) (Entry, error)
	// Get gives a version of a run, the latest for 0.
	Get(ctx context.Context, id string, version int) (Record, error)
	// Remove takes a run with all versions and history out for good; Blobs that no other run names may then be removed.
	Remove(ctx context.Context, id string) error
	History(ctx context.Context, id string) ([]Change, error)
	// Since gives the latest version of every run that changed after a sequence number, oldest change first; a removed
	// run comes as an entry with its ID and Sequence alone.
	Since(ctx context.Context, sequence int64) iter.Seq2[Entry, error]
	// ByEvents gives the IDs of all runs, whatever their visibility, with these raw rows; ByRunID those that call
	// themselves so.
	ByEvents(ctx context.Context, hash string) ([]string, error)
	ByRunID(ctx context.Context, runID string) ([]string, error)
	// BlobInUse says whether any version of any run names the blob.
	BlobInUse(ctx context.Context, hash string) (bool, error)

	PutUpload(ctx context.Context, u Upload) error
	Upload(ctx context.Context, id string) (Upload, error)
	// UploadByHash gives an owner's upload of an archive, so that one that broke off goes on.
	UploadByHash(ctx context.Context, owner, hash string) (Upload, error)
	// ExpiredUploads gives those whose time is over; DropUpload forgets one.
	ExpiredUploads(ctx context.Context, now time.Time) ([]Upload, error)
	DropUpload(ctx context.Context, id string) error
}
