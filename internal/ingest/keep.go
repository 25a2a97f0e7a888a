package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"speedmatrix/internal/catalog"
)

// keep puts a run and its files where they stay: all of it, or nothing.
func (s *Service) keep(ctx context.Context, c *candidate, by string) (catalog.Entry, error) {
	s.files.RLock()
	err := s.keepFiles(ctx, c)
	var kept catalog.Entry
	if err == nil {
		kept, err = s.o.Store.Put(ctx, c.record, catalog.Change{At: s.o.Now(), By: by, What: "received"})
	}
	s.files.RUnlock()
	if err != nil {
		err = errors.Join(err, s.dropFiles(context.WithoutCancel(ctx), c.record.Blobs))
	}
	return kept, err
}

// keepFiles puts the files of a run where they stay, before the run that names them.
func (s *Service) keepFiles(ctx context.Context, c *candidate) error {
	for _, b := range c.record.Blobs {
		file, err := os.Open(filepath.Join(c.folder, filepath.FromSlash(b.Name)))
		if err != nil {
			return err
		}
		err = s.o.Blobs.Put(ctx, b.Hash, b.Size, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("keep %s: %w", b.Name, err)
		}
	}
	return nil
}

// dropFiles removes the files that no run names.
func (s *Service) dropFiles(ctx context.Context, blobs []catalog.Blob) error {
	s.files.Lock()
	defer s.files.Unlock()
	for _, b := range blobs {
		used, err := s.o.Store.BlobInUse(ctx, b.Hash)
		if err == nil && !used {
			err = s.o.Blobs.Remove(ctx, b.Hash)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
