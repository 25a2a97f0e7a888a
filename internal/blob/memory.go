package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
)

// Memory keeps blobs in memory: for tests.
type Memory struct {
	mu   sync.Mutex
	blob map[string][]byte
}

// Len is the number of blobs.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.blob)
}

// Put keeps the bytes of r.
func (m *Memory) Put(ctx context.Context, hash string, size int64, r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(&ended{ctx, r}, size+1))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if err := match(hash, size, hex.EncodeToString(sum[:]), int64(len(data))); err != nil {
		return fmt.Errorf("keep a file: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blob == nil {
		m.blob = map[string][]byte{}
	}
	m.blob[hash] = data
	return nil
}

// Open gives a blob's bytes.
func (m *Memory) Open(_ context.Context, hash string) (io.ReadSeekCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.blob[hash]
	if !ok {
		return nil, fmt.Errorf("%s: %w", hash, ErrNotFound)
	}
	return readCloser{bytes.NewReader(data)}, nil
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// Remove forgets a blob.
func (m *Memory) Remove(_ context.Context, hash string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blob, hash)
	return nil
}
