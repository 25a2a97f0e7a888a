package blob

import (
	"context"
	"net/http"
	"net/url"
)

// OpenS3 is Open for S3 over a network of the test's own.
func OpenS3(ctx context.Context, place string, keys Keys, transport http.RoundTripper) (Store, error) {
	u, err := url.Parse(place)
	if err != nil {
		return nil, err
	}
	return newS3(ctx, u, keys, transport)
}
