package blob_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// s3Server speaks as much S3 as is asked of it, over objects in memory.
type s3Server struct {
	t           *testing.T
	bucket, key string
	// fault may answer a request in place of the server.
	fault func(w http.ResponseWriter, r *http.Request) (done bool)

	mu      sync.Mutex
	objects map[string][]byte
	asked   []string
}

// ServeHTTP answers a request that carries a signature.
func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	signed := r.Header.Get("Authorization")
	if !strings.HasPrefix(signed, "AWS4-HMAC-SHA256 Credential=") || !strings.Contains(signed, "Signature=") || r.Header.Get("X-Amz-Date") == "" {
		s.t.Errorf("%s %s is not signed: %q", r.Method, r.URL, signed)
	}
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !strings.HasPrefix(signed, "AWS4-HMAC-SHA256 Credential="+s.key+"/"):
		refuse(w, r, http.StatusForbidden, "InvalidAccessKeyId", "The key does not exist.")
	case bucket != s.bucket:
		refuse(w, r, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case name == "" && r.URL.Query().Has("location"):
		_, _ = io.WriteString(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">eu-west-1</LocationConstraint>`)
	case name == "":
	default:
		s.object(w, r, name)
	}
}

// refuse answers with an error of S3; a HEAD has no body.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
	}
}

func (s *s3Server) object(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	data, there := s.objects[name]
	s.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		s.put(w, r, name)
	case http.MethodDelete:
		s.mu.Lock()
		delete(s.objects, name)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		if !there {
			refuse(w, r, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
			return
		}
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), bytes.NewReader(data))
	}
}

// put keeps a body that came whole, as S3 does.
func (s *s3Server) put(w http.ResponseWriter, r *http.Request, name string) {
	body := io.Reader(r.Body)
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		body = &signedChunks{lines: bufio.NewReader(r.Body)}
	}
	data, err := io.ReadAll(body)
	size := r.Header.Get("X-Amz-Decoded-Content-Length")
	if size == "" {
		size = strconv.FormatInt(r.ContentLength, 10)
	}
	if err != nil || size != strconv.Itoa(len(data)) {
		refuse(w, r, http.StatusBadRequest, "IncompleteBody", "The body broke off.")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = data
	w.Header().Set("ETag", `"one"`)
}

// signedChunks are the bytes in the chunks of a body of which each is signed (aws-chunked).
type signedChunks struct {
	lines *bufio.Reader
	left  int64
	ended bool
}

// Read gives what stands in the chunks.
func (c *signedChunks) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	if c.left == 0 {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return 0, errors.Join(io.ErrUnexpectedEOF, err)
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		if size == "" { // the end of the chunk before
			return 0, nil
		}
		if c.left, err = strconv.ParseInt(size, 16, 64); err != nil {
			return 0, err
		}
		if c.left == 0 {
			c.ended = true
			_, err = io.Copy(io.Discard, c.lines)
			return 0, err
		}
	}
	n, err := c.lines.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// times is how often something was asked for.
func (s *s3Server) times(request string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if strings.HasPrefix(a, request) {
			n++
		}
	}
	return n
}

// spoil sets what happens to requests from now on.
func (s *s3Server) spoil(fault func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}
