package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"speedmatrix/internal/blob"
	"speedmatrix/internal/memnet"
)

const s3Place = "s3://runs/of/2026?endpoint=http://s3.example.org"

// overS3 runs a test in a bubble with an S3 server in it.
func overS3(t *testing.T, test func(t *testing.T, server *s3Server, open func(place string, keys blob.Keys) (blob.Store, error))) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		l, err := network.Listen("s3.example.org:80")
		if err != nil {
			t.Fatal(err)
		}
		s := &s3Server{t: t, bucket: "runs", key: "ann", objects: map[string][]byte{}}
		server := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		transport := &http.Transport{DialContext: network.DialContext}
		t.Cleanup(func() {
			transport.CloseIdleConnections()
			_ = server.Close()
			serving.Wait()
		})
		test(t, s, func(place string, keys blob.Keys) (blob.Store, error) {
			return blob.OpenS3(t.Context(), place, keys, transport)
		})
	})
}

// withBlob runs a test with a store that holds one blob.
func withBlob(t *testing.T, test func(t *testing.T, server *s3Server, s blob.Store, data []byte)) {
	overS3(t, func(t *testing.T, server *s3Server, open func(string, blob.Keys) (blob.Store, error)) {
		s, err := open(s3Place, blob.Keys{ID: "ann", Secret: "sesame"})
		if err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("rows "), 50_000)
		if err := s.Put(t.Context(), hashOf(data), int64(len(data)), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		test(t, server, s, data)
	})
}

func TestS3KeepsBlobs(t *testing.T) {
	overS3(t, func(t *testing.T, server *s3Server, open func(string, blob.Keys) (blob.Store, error)) {
		for _, place := range []string{s3Place, "s3://runs?endpoint=http://s3.example.org&region=eu-west-1"} {
			s, err := open(place, blob.Keys{ID: "ann", Secret: "sesame"})
			if err != nil {
				t.Fatal(err)
			}
			conform(t, s)
			if len(server.objects) != 0 {
				t.Errorf("left: %d objects", len(server.objects))
			}
		}
	})
}

func TestS3KeepsBlobsUnderTheirPrefixOnce(t *testing.T) {
	withBlob(t, func(t *testing.T, server *s3Server, s blob.Store, data []byte) {
		hash := hashOf(data)
		if got := server.objects["of/2026/"+hash[:2]+"/"+hash[2:]]; !bytes.Equal(got, data) || len(server.objects) != 1 {
			t.Errorf("%d bytes, %d objects", len(got), len(server.objects))
		}
		if err := s.Put(t.Context(), hash, int64(len(data)), struct{ io.Reader }{failing{}}); err != nil {
			t.Errorf("what is there already: %v", err)
		}
		if n := server.times("PUT"); n != 1 {
			t.Errorf("%d times sent", n)
		}
	})
}

// Bytes of another hash never reach the bucket, not for a moment, and a broken body takes nothing away that another sender
// kept meanwhile.
func TestS3IsSentWholeBlobsAlone(t *testing.T) {
	overS3(t, func(t *testing.T, server *s3Server, open func(string, blob.Keys) (blob.Store, error)) {
		s, err := open(s3Place, blob.Keys{ID: "ann", Secret: "sesame"})
		if err != nil {
			t.Fatal(err)
		}
		right, wrong := []byte("right"), []byte("wrong")
		for name, body := range map[string]io.Reader{
			"seekable": bytes.NewReader(wrong), "a stream": struct{ io.Reader }{bytes.NewReader(wrong)}, "too long": strings.NewReader("right and more"),
			"broken": io.MultiReader(bytes.NewReader(right[:2]), failing{}),
		} {
			if err := s.Put(t.Context(), hashOf(right), int64(len(right)), body); err == nil || !strings.HasPrefix(err.Error(), "keep a file: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := server.times("PUT") + server.times("DELETE"); n != 0 {
			t.Errorf("the bucket was changed %d times", n)
		}
		if err := s.Put(t.Context(), hashOf(right), int64(len(right)), struct{ io.Reader }{bytes.NewReader(right)}); err != nil {
			t.Error(err)
		}
		empty := hashOf(nil)
		if err := s.Put(t.Context(), empty, 0, bytes.NewReader(nil)); err != nil {
			t.Error(err)
		}
		r, err := s.Open(t.Context(), empty)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || len(got) != 0 || r.Close() != nil {
			t.Errorf("%d bytes of none, %v", len(got), err)
		}
	})
}

func TestAWrongBucketOrKeyIsToldWhenItIsOpened(t *testing.T) {
	overS3(t, func(t *testing.T, server *s3Server, open func(string, blob.Keys) (blob.Store, error)) {
		good := blob.Keys{ID: "ann", Secret: "sesame"}
		for _, tt := range []struct {
			place string
			keys  blob.Keys
			says  string
		}{
			{"s3://other?endpoint=http://s3.example.org", good, "open the files at s3.example.org: there is no bucket other"},
			{s3Place, blob.Keys{ID: "eve", Secret: "sesame"}, "open the files at s3.example.org: the keys do not open the bucket runs"},
			{"s3://runs?endpoint=http://nowhere.example.org", good, "open the files at nowhere.example.org: ask for the bucket runs: "},
			{"s3://runs?endpoint=s3.example.org", good, `the endpoint "s3.example.org" of the files is no address`},
		} {
			_, err := open(tt.place, tt.keys)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s: %v", tt.place, err)
			}
		}
		if n := server.times("PUT"); n != 0 {
			t.Errorf("%d blobs were sent", n)
		}
	})
}

func TestABucketThatIsGoneIsNoBlobThatIsMissing(t *testing.T) {
	withBlob(t, func(t *testing.T, server *s3Server, s blob.Store, data []byte) {
		server.bucket = "renamed"
		if _, err := s.Open(t.Context(), hashOf(data)); errors.Is(err, blob.ErrNotFound) || err == nil || !strings.Contains(err.Error(), "there is no bucket runs") {
			t.Errorf("open: %v", err)
		}
		if err := s.Put(t.Context(), hashOf([]byte("x")), 1, strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "keep a file: The specified bucket does not exist") {
			t.Errorf("put: %v", err)
		}
		server.bucket, server.key = "runs", "bob"
		if _, err := s.Open(t.Context(), hashOf(data)); errors.Is(err, blob.ErrNotFound) || err == nil {
			t.Errorf("with a key that was taken away: %v", err)
		}
	})
}

// A fault that passes is not felt, whatever request it meets.
func TestS3IsAskedAgainAfterAFault(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete} {
		withBlob(t, func(t *testing.T, server *s3Server, s blob.Store, data []byte) {
			failed := false
			server.spoil(func(w http.ResponseWriter, r *http.Request) bool {
				if failed || r.Method != method {
					return false
				}
				failed = true
				_, _ = io.CopyN(io.Discard, r.Body, 10)
				refuse(w, r, http.StatusInternalServerError, "InternalError", "We encountered an internal error.")
				return true
			})
			for _, body := range []io.Reader{strings.NewReader("new"), struct{ io.Reader }{strings.NewReader("new")}} {
				if err := s.Put(t.Context(), hashOf([]byte("new")), 3, body); err != nil {
					t.Errorf("%s: put: %v", method, err)
				}
			}
			if got, err := readAll(t, s, hashOf(data)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, %v", method, len(got), err)
			}
			if err := s.Remove(t.Context(), hashOf([]byte("new"))); err != nil {
				t.Errorf("%s: remove: %v", method, err)
			}
			if !failed || len(server.objects) != 1 {
				t.Errorf("%s: failed %v, %d objects", method, failed, len(server.objects))
			}
		})
	}
}

func readAll(t *testing.T, s blob.Store, hash string) ([]byte, error) {
	t.Helper()
	r, err := s.Open(t.Context(), hash)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

func TestAFaultThatStaysIsAnError(t *testing.T) {
	withBlob(t, func(t *testing.T, server *s3Server, s blob.Store, data []byte) {
		server.spoil(func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			refuse(w, r, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
			return true
		})
		if _, err := s.Open(t.Context(), hashOf(data)); err == nil || errors.Is(err, blob.ErrNotFound) {
			t.Errorf("open: %v", err)
		}
		if err := s.Put(t.Context(), hashOf([]byte("x")), 1, strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "Please reduce your request rate.") {
			t.Errorf("put: %v", err)
		}
		if err := s.Remove(t.Context(), hashOf(data)); err == nil {
			t.Error("removed")
		}
	})
}

// A connection that is cut within a blob is an error where its bytes end, never a shorter blob.
func TestACutConnectionGivesNoShorterBlob(t *testing.T) {
	for _, cut := range []int{0, 1, 100_000, 249_999} {
		withBlob(t, func(t *testing.T, server *s3Server, s blob.Store, data []byte) {
			server.spoil(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet {
					return false
				}
				out := &cutAnswer{ResponseWriter: w, left: cut}
				server.object(out, r, strings.TrimPrefix(r.URL.Path, "/runs/"))
				panic(http.ErrAbortHandler)
			})
			got, err := readAll(t, s, hashOf(data))
			if err == nil || !bytes.HasPrefix(data, got) || len(got) > cut {
				t.Errorf("cut at %d: %d bytes, %v", cut, len(got), err)
			}
		})
	}
}

// cutAnswer lets so many bytes of a body through.
type cutAnswer struct {
	http.ResponseWriter
	left int
}

// Write drops what is beyond the cut.
func (c *cutAnswer) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if n > 0 {
		if _, err := c.ResponseWriter.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), http.NewResponseController(c.ResponseWriter).Flush()
}

// An answer cut in the middle of a PUT leaves no half object, and what ends in the middle is told.
func TestAnEndedContextEndsS3(t *testing.T) {
	withBlob(t, func(t *testing.T, server *s3Server, s blob.Store, data []byte) {
		ctx, cancel := context.WithCancel(t.Context())
		server.spoil(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut {
				return false
			}
			_, _ = io.CopyN(io.Discard, r.Body, 100)
			cancel()
			panic(http.ErrAbortHandler)
		})
		more := slices.Concat(data, data)
		if err := s.Put(ctx, hashOf(more), int64(len(more)), bytes.NewReader(more)); !errors.Is(err, context.Canceled) {
			t.Errorf("put: %v", err)
		}
		if _, err := s.Open(ctx, hashOf(data)); !errors.Is(err, context.Canceled) {
			t.Errorf("open: %v", err)
		}
		if len(server.objects) != 1 {
			t.Errorf("%d objects", len(server.objects))
		}
	})
}
