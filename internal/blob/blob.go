// Package blob keeps files by the SHA-256 of their bytes, in a folder or in
// storage that speaks S3. What is kept never changes, so equal files are kept
// once and a name says whether its bytes are whole.
package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
)

// ErrNotFound: no blob has that hash. It is fs.ErrNotExist too, for those who know no blobs.
var ErrNotFound = fmt.Errorf("no such blob: %w", fs.ErrNotExist)

// Store keeps blobs. Its methods may be called at the same time.
type Store interface {
	// Put keeps size bytes of r under their SHA-256 in hex, as a whole or not at all, and fails where they have another
	// hash or length. A blob that is there already is left as it is.
	Put(ctx context.Context, hash string, size int64, r io.Reader) error
	// Open gives a blob's bytes; ErrNotFound where it is not there.
	Open(ctx context.Context, hash string) (io.ReadSeekCloser, error)
	// Remove forgets a blob; one that is not there is no error.
	Remove(ctx context.Context, hash string) error
}
