package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"speedmatrix/internal/ingest"
	"speedmatrix/internal/siteclient"
)

// fixture is the run that is uploaded under many names.
const fixture = "internal/ingest/testdata/small"

// pause is how long a sender waits after an answer that was lost or that asks to come again.
const pause = 100 * time.Millisecond

// named is the document of the run under another name.
func named(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(fixture, "run.json"))
	if err != nil {
		return nil, fmt.Errorf("run it from the root of the repository: %w", err)
	}
	var run map[string]any
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, err
	}
	run["id"] = name
	return json.Marshal(run)
}

func nameOf(i int) string { return fmt.Sprintf("20261201T000000Z-kill-%04d", i) }

// sender uploads runs until none is left, each until it is acknowledged.
func (t *trial) sender(ctx context.Context, left <-chan int) error {
	for {
		select {
		case i := <-left:
			if err := t.one(ctx, i); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (t *trial) one(ctx context.Context, i int) error {
	name := nameOf(i)
	document, err := named(name)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := ingest.Pack(&archive, os.DirFS(fixture), map[string][]byte{"run.json": document}); err != nil {
		return err
	}
	send := t.atOnceSent
	if i%2 == 1 {
		send = t.inPieces
	}
	for ctx.Err() == nil {
		id, err := send(ctx, archive.Bytes())
		var again *comeAgain
		switch {
		case err == nil:
			t.mu.Lock()
			t.acknowledged[name] = id
			t.mu.Unlock()
			return nil
		case errors.As(err, &again):
		default:
			t.mu.Lock()
			t.lost++
			t.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return ctx.Err()
}

// comeAgain is an answer that asks to try later.
type comeAgain struct{ status int }

func (c *comeAgain) Error() string { return http.StatusText(c.status) }

// refused is an answer that is no acknowledgement.
func refused(r *http.Response, body []byte) error {
	if r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable || r.StatusCode == http.StatusConflict {
		return &comeAgain{r.StatusCode}
	}
	return fmt.Errorf("%s: %.300s", r.Status, body)
}

// atOnceSent uploads an archive with one request.
func (t *trial) atOnceSent(ctx context.Context, archive []byte) (string, error) {
	answer, err := t.client.UploadRunWithBodyWithResponse(ctx, "application/gzip", bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	if answer.JSON201 == nil {
		return "", refused(answer.HTTPResponse, answer.Body)
	}
	return answer.JSON201.ID, nil
}

// inPieces uploads an archive in two pieces, from where an earlier try stopped.
func (t *trial) inPieces(ctx context.Context, archive []byte) (string, error) {
	sum := sha256.Sum256(archive)
	begun, err := t.client.BeginUploadWithResponse(ctx, siteclient.BeginUploadJSONRequestBody{Size: int64(len(archive)), Sha256: hex.EncodeToString(sum[:])})
	if err != nil {
		return "", err
	}
	if begun.JSON201 == nil {
		return "", refused(begun.HTTPResponse, begun.Body)
	}
	id, half := begun.JSON201.ID, int64(len(archive)/2)
	for at := begun.JSON201.Received; at < int64(len(archive)); {
		end := int64(len(archive))
		if at < half {
			end = half
		}
		sent, err := t.client.AppendUploadWithBodyWithResponse(ctx, id, &siteclient.AppendUploadParams{UploadOffset: at}, "application/octet-stream", bytes.NewReader(archive[at:end]))
		if err != nil {
			return "", err
		}
		if sent.JSON200 == nil {
			return "", refused(sent.HTTPResponse, sent.Body)
		}
		at = sent.JSON200.Received
	}
	done, err := t.client.FinishUploadWithResponse(ctx, id)
	if err != nil {
		return "", err
	}
	if done.JSON201 == nil {
		return "", refused(done.HTTPResponse, done.Body)
	}
	return done.JSON201.ID, nil
}

// whole reads every file of a run from the site and compares it with what was sent.
func (t *trial) whole(ctx context.Context, id, name string) (files int, size int64, err error) {
	document, err := named(name)
	if err != nil {
		return 0, 0, err
	}
	err = filepath.WalkDir(fixture, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := filepath.Rel(fixture, path)
		if err != nil {
			return err
		}
		want := document
		if file != "run.json" {
			if want, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		got, err := t.get(ctx, "/runs/"+id+"/files/"+filepath.ToSlash(file))
		if err != nil {
			return err
		}
		if sha256.Sum256(got) != sha256.Sum256(want) {
			return fmt.Errorf("%s has %d bytes, not the %d that were sent", file, len(got), len(want))
		}
		files, size = files+1, size+int64(len(got))
		return nil
	})
	return files, size, err
}
