package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

func newS3(u *url.URL, keys Keys) (*S3, error) {
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
		Region: query.Get("region"), BucketLookup: minio.BucketLookupAuto})
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", u.Host, err)
	}
	return &S3{client: client, bucket: u.Host, prefix: strings.Trim(u.Path, "/")}, nil
}

func (s *S3) name(hash string) (string, error) {
	if !hashForm.MatchString(hash) {
		return "", fmt.Errorf("%q is no SHA-256: %w", hash, ErrNotFound)
	}
	return path.Join(s.prefix, hash[:2], hash[2:]), nil
}

// Put keeps the bytes of r. The service checks their hash, and keeps nothing of a body that is another.
func (s *S3) Put(ctx context.Context, hash string, size int64, r io.Reader) error {
	name, err := s.name(hash)
	if err != nil {
		return err
	}
	if _, err := s.client.StatObject(ctx, s.bucket, name, minio.StatObjectOptions{}); err == nil {
		return nil
	}
	whole := &checked{r: io.LimitReader(r, size+1), hash: hash, size: size}
	whole.reset()
	_, err = s.client.PutObject(ctx, s.bucket, name, whole, size, minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: size < 1<<30})
	if err = errors.Join(err, whole.verdict()); err != nil {
		return errors.Join(fmt.Errorf("keep a file: %w", err), s.Remove(context.WithoutCancel(ctx), hash))
	}
	return nil
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
			err = fmt.Errorf("%s: %w", hash, ErrNotFound)
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

// gotHash is what came so far.
func (c *checked) gotHash() string { return hex.EncodeToString(c.sum.Sum(nil)) }
