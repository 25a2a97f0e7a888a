package blob

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// Keys are those of S3.
type Keys struct{ ID, Secret string }

// Open opens the place of blobs: a folder by its path, or S3 by s3://BUCKET/PREFIX?endpoint=https://HOST&region=NAME.
// What is wrong with a bucket or a key is told at once.
func Open(ctx context.Context, place string, keys Keys) (Store, error) {
	if !strings.HasPrefix(place, "s3://") {
		return NewFolder(place)
	}
	u, err := url.Parse(place)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is no place of files: it is s3://BUCKET/PREFIX?endpoint=https://HOST", place)
	}
	return newS3(ctx, u, keys, nil)
}
