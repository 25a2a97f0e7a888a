package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 keeps blobs as objects of a bucket.
type S3 struct {
	client         *minio.Client
	bucket, prefix string
}

// defaultEndpoint is Amazon's.
const defaultEndpoint = "https://s3.amazonaws.com"

// newS3 opens a bucket; transport is nil for the system's network.
func newS3(ctx context.Context, u *url.URL, keys Keys, transport http.RoundTripper) (*S3, error) {
	query := u.Query()
	endpoint := query.Get("endpoint")
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	e, err := url.Parse(endpoint)
	if err != nil || e.Host == "" || e.Scheme != "https" && e.Scheme != "http" {
		return nil, fmt.Errorf("the endpoint %q of the files is no address", endpoint)
	}
	client, err := minio.New(e.Host, &minio.Options{Creds: credentials.NewStaticV4(keys.ID, keys.Secret, ""), Secure: e.Scheme == "https",
		Region: query.Get("region"), BucketLookup: minio.BucketLookupAuto, Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", u.Host, err)
	}
	s := &S3{client: client, bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	if err := s.there(ctx); err != nil {
		return nil, fmt.Errorf("open the files at %s: %w", e.Host, err)
	}
	return s, nil
}

// there says whether the bucket is there and the keys open it.
func (s *S3) there(ctx context.Context) error {
	there, err := s.client.BucketExists(ctx, s.bucket)
	switch {
	case err != nil && minio.ToErrorResponse(err).StatusCode == http.StatusForbidden:
		return fmt.Errorf("the keys do not open the bucket %s: %w", s.bucket, err)
	case err != nil:
		return fmt.Errorf("ask for the bucket %s: %w", s.bucket, err)
	case !there:
		return fmt.Errorf("there is no bucket %s", s.bucket)
	}
	return nil
}

func (s *S3) name(hash string) (string, error) {
	if !hashForm.MatchString(hash) {
		return "", fmt.Errorf("%q is no SHA-256: %w", hash, ErrNotFound)
	}
	return path.Join(s.prefix, hash[:2], hash[2:]), nil
}

// Put keeps the bytes of r. They are read to their end and checked before any of them leaves, so that nothing else can ever
// stand under their hash.
func (s *S3) Put(ctx context.Context, hash string, size int64, r io.Reader) error {
	name, err := s.name(hash)
	if err != nil {
		return err
	}
	if _, err := s.client.StatObject(ctx, s.bucket, name, minio.StatObjectOptions{}); err == nil {
		return nil
	}
	body, ok := r.(io.ReadSeeker)
	if !ok {
		file, err := os.CreateTemp("", "speedmatrix-file-")
		if err != nil {
			return fmt.Errorf("keep a file: %w", err)
		}
		defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }() // it was a copy
		if _, err := io.Copy(file, io.LimitReader(&ended{ctx, r}, size+1)); err != nil {
			return fmt.Errorf("keep a file: %w", err)
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("keep a file: %w", err)
		}
		body = file
	}
	if err := whole(ctx, hash, size, body); err != nil {
		return fmt.Errorf("keep a file: %w", err)
	}
	_, err = s.client.PutObject(ctx, s.bucket, name, body, size, minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: size < 1<<30})
	if err != nil {
		return fmt.Errorf("keep a file: %w", err)
	}
	return nil
}

// whole reads bytes to their end, goes back to where it began, and says whether they are what was promised.
func whole(ctx context.Context, hash string, size int64, body io.ReadSeeker) error {
	start, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(&ended{ctx, body}, size+1))
	if err != nil {
		return err
	}
	if err := match(hash, size, hex.EncodeToString(sum.Sum(nil)), n); err != nil {
		return err
	}
	_, err = body.Seek(start, io.SeekStart)
	return err
}

// Open gives a blob's bytes.
func (s *S3) Open(ctx context.Context, hash string) (io.ReadSeekCloser, error) {
	name, err := s.name(hash)
	if err != nil {
		return nil, err
	}
	object, err := s.client.GetObject(ctx, s.bucket, name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := object.Stat(); err != nil {
		if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound {
			// The answer is the same for a bucket that is gone.
			if err = s.there(ctx); err == nil {
				err = fmt.Errorf("%s: %w", hash, ErrNotFound)
			}
		}
		return nil, errors.Join(err, object.Close())
	}
	return object, nil
}

// Remove forgets a blob.
func (s *S3) Remove(ctx context.Context, hash string) error {
	name, err := s.name(hash)
	if err != nil {
		return err
	}
	return s.client.RemoveObject(ctx, s.bucket, name, minio.RemoveObjectOptions{})
}
