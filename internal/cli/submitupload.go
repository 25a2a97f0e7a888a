package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"speedmatrix"
	"speedmatrix/internal/siteclient"
)

// The pieces of an upload, and how long a site that does not answer is waited for.
const (
	pieceBytes = 4 << 20
	mostTries  = 8
	firstPause = 500 * time.Millisecond
	mostPause  = 30 * time.Second
)

// refusal is the site's answer other than a success.
func (s *submission) refusal(r *http.Response, p *siteclient.Problem) error {
	kind := speedmatrix.KindRefused
	if p == nil {
		return &speedmatrix.Error{Kind: kind, What: fmt.Sprintf("%s answered %s, and not as a results site does", s.base, r.Status), Next: "Is it the address of a site of `speedmatrix serve`?"}
	}
	e := &speedmatrix.Error{Kind: kind, What: fmt.Sprintf("%s refused the run (%s)", s.base, p.Code), Next: p.Detail}
	if p.Pointer != nil {
		e.What += " at " + *p.Pointer
	}
	if r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden {
		e.Next += " A token comes from " + s.base.String() + "/me/tokens: give it as $SPEEDMATRIX_TOKEN or with --token-file."
	}
	return e
}

// again repeats a request while the site does not answer, or asks to come later.
func (s *submission) again(ctx context.Context, what string, try func() (*http.Response, error)) (*http.Response, error) {
	pause := firstPause
	for n := 1; ; n++ {
		r, err := try()
		if err == nil && r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable && r.StatusCode != http.StatusBadGateway {
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, interruptedOr(ctx, ctx.Err())
		}
		if n == mostTries {
			if err == nil {
				return r, nil
			}
			return nil, &speedmatrix.Error{Kind: speedmatrix.KindNoServer, What: fmt.Sprintf("%s did not answer: %v", s.base, err),
				Next: "Repeat the command: an upload goes on where it stopped.", Err: err}
		}
		wait := pause + rand.N(pause/2)
		if err == nil {
			wait = max(wait, asked(r))
		} else if n == 1 {
			s.say("%s: %v. Trying again.\n", what, err)
		}
		select {
		case <-ctx.Done():
			return nil, interruptedOr(ctx, ctx.Err())
		case <-time.After(wait):
		}
		pause = min(2*pause, mostPause)
	}
}

// asked is how long the site asks to wait.
func asked(r *http.Response) time.Duration {
	var seconds int
	if _, err := fmt.Sscan(r.Header.Get("Retry-After"), &seconds); err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, mostPause)
}

// checkThere has the site check the run without keeping it; at a terminal it logs in where that is needed.
func (s *submission) checkThere(ctx context.Context, p *packed) (*siteclient.Receipt, error) {
	for {
		var answer *siteclient.CheckRunResponse
		r, err := s.again(ctx, "The check", func() (*http.Response, error) {
			var err error
			answer, err = s.client.CheckRunWithBodyWithResponse(ctx, "application/gzip", bytes.NewReader(p.data))
			if err != nil {
				return nil, err
			}
			return answer.HTTPResponse, nil
		})
		switch {
		case err != nil:
			return nil, err
		case answer.JSON200 != nil:
			return answer.JSON200, nil
		case r.StatusCode == http.StatusUnauthorized && s.token == "" && s.env.StdinTerminal:
			if err := s.login(ctx); err != nil {
				return nil, err
			}
		default:
			return nil, s.refusal(r, answer.ApplicationProblemJSONDefault)
		}
	}
}

// upload sends the archive in pieces, from where an earlier try stopped, and has the site make a run of it.
func (s *submission) upload(ctx context.Context, p *packed) (*siteclient.Receipt, error) {
	var begun *siteclient.BeginUploadResponse
	r, err := s.again(ctx, "The upload", func() (*http.Response, error) {
		var err error
		begun, err = s.client.BeginUploadWithResponse(ctx, siteclient.BeginUploadJSONRequestBody{Size: int64(len(p.data)), Sha256: p.hash})
		if err != nil {
			return nil, err
		}
		return begun.HTTPResponse, nil
	})
	if err != nil {
		return nil, err
	}
	if begun.JSON201 == nil {
		return nil, s.refusal(r, begun.ApplicationProblemJSONDefault)
	}
	id, at := begun.JSON201.ID, begun.JSON201.Received
	if at > 0 {
		s.say("Going on at %d of %d bytes.\n", at, len(p.data))
	}
	for at < int64(len(p.data)) {
		if at, err = s.piece(ctx, p, id, at); err != nil {
			return nil, err
		}
	}
	var done *siteclient.FinishUploadResponse
	r, err = s.again(ctx, "The end of the upload", func() (*http.Response, error) {
		var err error
		done, err = s.client.FinishUploadWithResponse(ctx, id)
		if err != nil {
			return nil, err
		}
		return done.HTTPResponse, nil
	})
	if err != nil {
		return nil, err
	}
	if done.JSON201 == nil {
		return nil, s.refusal(r, done.ApplicationProblemJSONDefault)
	}
	return done.JSON201, nil
}

// piece sends the next piece and gives where the one after it begins. A piece whose answer was lost may be there: the site
// is asked.
func (s *submission) piece(ctx context.Context, p *packed, id string, at int64) (int64, error) {
	end := min(at+pieceBytes, int64(len(p.data)))
	failed := false
	var sent *siteclient.AppendUploadResponse
	r, err := s.again(ctx, "A piece of the upload", func() (*http.Response, error) {
		if failed {
			if known, err := s.client.GetUploadWithResponse(ctx, id); err == nil && known.JSON200 != nil && known.JSON200.Received >= at {
				at = known.JSON200.Received
				end = min(at+pieceBytes, int64(len(p.data)))
			}
		}
		failed = true
		var err error
		sent, err = s.client.AppendUploadWithBodyWithResponse(ctx, id, &siteclient.AppendUploadParams{UploadOffset: at}, "application/octet-stream", bytes.NewReader(p.data[at:end]))
		if err != nil {
			return nil, err
		}
		return sent.HTTPResponse, nil
	})
	if err != nil {
		return at, err
	}
	if sent.JSON200 == nil {
		return at, s.refusal(r, sent.ApplicationProblemJSONDefault)
	}
	return sent.JSON200.Received, nil
}
