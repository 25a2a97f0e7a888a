package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// Folder keeps blobs as files: FOLDER/ab/cdef… for the hash abcdef….
type Folder struct{ path string }

// NewFolder makes the folder where it is missing, and removes what a killed process left half written.
func NewFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(filepath.Join(path, halfWritten), 0o750); err != nil {
		return nil, fmt.Errorf("make the folder of the files: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(path, halfWritten, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return &Folder{path}, nil
}

// halfWritten holds files until they are whole.
const halfWritten = "tmp"

var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// at is the place of a blob.
func (f *Folder) at(hash string) (string, error) {
	if !hashForm.MatchString(hash) {
		return "", fmt.Errorf("%q is no SHA-256: %w", hash, ErrNotFound)
	}
	return filepath.Join(f.path, hash[:2], hash[2:]), nil
}

// Put keeps the bytes of r, on the disk when it returns.
func (f *Folder) Put(ctx context.Context, hash string, size int64, r io.Reader) error {
	place, err := f.at(hash)
	if err != nil {
		return err
	}
	if info, err := os.Stat(place); err == nil && info.Size() == size {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Join(f.path, halfWritten), hash[:8])
	if err != nil {
		return fmt.Errorf("keep a file: %w", err)
	}
	err = fill(ctx, temporary, hash, size, r)
	if err == nil {
		err = moveTo(temporary.Name(), place)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep a file: %w", err), ignoreMissing(os.Remove(temporary.Name())))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fill writes a whole file and closes it, and checks what was written.
func fill(ctx context.Context, file *os.File, hash string, size int64, r io.Reader) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(&ended{ctx, r}, size+1))
	if err == nil {
		err = match(hash, size, hex.EncodeToString(sum.Sum(nil)), n)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// match says whether what came is what was promised.
func match(hash string, size int64, gotHash string, got int64) error {
	if got != size {
		return fmt.Errorf("there are %d bytes of %d, or more", got, size)
	}
	if gotHash != hash {
		return fmt.Errorf("the bytes have the hash %s, not %s", gotHash, hash)
	}
	return nil
}

// ended stops reading when its context ends.
type ended struct {
	ctx context.Context
	r   io.Reader
}

func (e *ended) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}

// moveTo puts a whole file in its place, on the disk.
func moveTo(from, place string) error {
	folder := filepath.Dir(place)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	if err := os.Rename(from, place); err != nil {
		return err
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open gives a blob's bytes.
func (f *Folder) Open(_ context.Context, hash string) (io.ReadSeekCloser, error) {
	place, err := f.at(hash)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", hash, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Remove forgets a blob.
func (f *Folder) Remove(_ context.Context, hash string) error {
	place, err := f.at(hash)
	if err != nil {
		return err
	}
	return ignoreMissing(os.Remove(place))
}
