package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"speedmatrix/internal/blob"
)

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestAFolderKeepsBlobs(t *testing.T) {
	f, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	conform(t, f)
}

func TestMemoryKeepsBlobs(t *testing.T) { conform(t, &blob.Memory{}) }

// conform is what every store of blobs must do.
func conform(t *testing.T, s blob.Store) {
	ctx := context.Background()
	data := bytes.Repeat([]byte("rows "), 50_000)
	hash := hashOf(data)
	for _, c := range []struct {
		name string
		hash string
		size int64
		data []byte
	}{
		{"too short", hash, int64(len(data)), data[1:]}, {"too long", hash, int64(len(data)), append([]byte("x"), data...)},
		{"other bytes", hashOf([]byte("other")), int64(len(data)), data}, {"no hash", "../" + hash[3:], 3, []byte("abc")},
	} {
		if err := s.Put(ctx, c.hash, c.size, bytes.NewReader(c.data)); err == nil {
			t.Errorf("%s: kept", c.name)
		}
		if _, err := s.Open(ctx, c.hash); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	broken := io.MultiReader(bytes.NewReader(data[:100]), failing{})
	if err := s.Put(ctx, hash, int64(len(data)), broken); !errors.Is(err, errBroken) {
		t.Errorf("a broken body: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.Put(ctx, hash, int64(len(data)), bytes.NewReader(data)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r, err := s.Open(ctx, hash)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Seek(7, io.SeekStart); err != nil {
		t.Error(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, data[7:]) || r.Close() != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for range 2 {
		if err := s.Remove(ctx, hash); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Open(ctx, hash); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("removed: %v", err)
	}
}

var errBroken = errors.New("the line broke")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken }

func TestNothingHalfWrittenStays(t *testing.T) {
	path := t.TempDir()
	if _, err := blob.NewFolder(path); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(path, "tmp", "half")
	if err := os.WriteFile(left, []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := blob.NewFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(context.Background(), hashOf([]byte("x")), 3, strings.NewReader("abc")); err == nil {
		t.Error("kept")
	}
	files, err := filepath.Glob(filepath.Join(path, "tmp", "*"))
	if err != nil || len(files) != 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}
