package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
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

// reply is what the site answered: problem is nil where it is a success, or no answer of a results site.
type reply struct {
	response *http.Response
	problem  *siteclient.Problem
}

// refusal is the site's answer other than a success.
func (s *submission) refusal(r reply) error {
	kind, status, p := speedmatrix.KindRefused, r.response.StatusCode, r.problem
	if p == nil {
		return s.noSite(r.response.Status, nil)
	}
	e := &speedmatrix.Error{Kind: kind, What: fmt.Sprintf("%s refused the run (%s)", s.base, p.Code), Next: p.Detail}
	if status == http.StatusUnauthorized && s.token != "" {
		e.What = fmt.Sprintf("%s refused the token (%s)", s.base, p.Code)
	}
	if p.Pointer != nil {
		e.What += " at " + *p.Pointer
	}
	if (status == http.StatusUnauthorized || status == http.StatusForbidden) && p.Code != codeReadOnly {
		e.Next += " A token comes from " + s.base.String() + "/me/tokens: give it as $SPEEDMATRIX_TOKEN or with --token-file."
	}
	return e
}

// The codes of a site's problems that say more than a refusal.
const (
	codeReadOnly    = "read-only"
	codeUploadBusy  = "upload-busy"
	codeOffset      = "offset"
	codePieceBroken = "piece-broken"
)

// later says whether the same request may succeed after a while: the site is busy, or it has not seen the end of a piece
// whose line broke.
func (r reply) later() bool {
	switch r.response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return r.problem != nil && (r.problem.Code == codeUploadBusy || r.problem.Code == codeOffset || r.problem.Code == codePieceBroken)
}

// again repeats a request while the site does not answer, or asks to come later.
func (s *submission) again(ctx context.Context, what string, try func() (reply, error)) (reply, error) {
	pause := firstPause
	for n := 1; ; n++ {
		r, err := try()
		if err == nil && !r.later() {
			s.answered = true
			return r, nil
		}
		if ctx.Err() != nil {
			return r, s.interruptedOr(ctx, ctx.Err())
		}
		switch {
		case err == nil:
			s.answered = true
			if n == mostTries {
				return r, nil
			}
		case n == mostTries || s.hopeless(err):
			return r, s.noAnswer(err)
		}
		wait := pause + rand.N(pause/2)
		if err == nil {
			wait = max(wait, asked(r.response))
		}
		if n == 1 {
			s.sayAgain(what, r, err)
		}
		select {
		case <-ctx.Done():
			return r, s.interruptedOr(ctx, ctx.Err())
		case <-time.After(wait):
		}
		pause = min(2*pause, mostPause)
	}
}

// sayAgain says once why a request is repeated.
func (s *submission) sayAgain(what string, r reply, err error) {
	if err == nil {
		err = fmt.Errorf("%s answered %s", s.base, r.response.Status)
	}
	s.say("%s: %v. Trying again.\n", what, cause(err))
}

// away is the end of a request that the site sent elsewhere.
type away struct{ to *url.URL }

// Error says whereto.
func (a *away) Error() string { return "it sends to " + a.to.String() }

// hopeless says whether a request fails the next time as well: the site sends elsewhere, or it never answered and the line
// did not break either, as with a wrong address or certificate.
func (s *submission) hopeless(err error) bool {
	if _, ok := errors.AsType[*away](err); ok || foreign(err) {
		return true
	}
	var slow net.Error
	broke := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &slow) && slow.Timeout()
	return !s.answered && !broke
}

// cause is an error without the request around it.
func cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// foreign says whether an answer was no document of a site's.
func foreign(err error) bool {
	_, form := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	return form || kind
}

// noSite is the error of a server that is something else.
func (s *submission) noSite(answered string, err error) error {
	return &speedmatrix.Error{Kind: speedmatrix.KindRefused, What: fmt.Sprintf("%s answered %s, and not as a results site does", s.base, answered),
		Next: "Is it the address of a site of `speedmatrix serve`?", Err: err}
}

// noAnswer is the error of a site that does not answer.
func (s *submission) noAnswer(err error) error {
	if a, ok := errors.AsType[*away](err); ok {
		to := a.to.Scheme + "://" + a.to.Host
		return &speedmatrix.Error{Kind: speedmatrix.KindNoServer, What: fmt.Sprintf("%s sends to %s", s.base, to), Next: "Nothing was sent there. If it is the site you mean, name it: --to " + to, Err: err}
	}
	if foreign(err) {
		return s.noSite("with another document", err)
	}
	next := "Is its address right, and is the site served there?"
	if s.answered {
		next = "Repeat the command: an upload goes on where it stopped."
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindNoServer, What: fmt.Sprintf("%s did not answer: %v", s.base, cause(err)), Next: next, Err: err}
}

// interruptedOr is the error of an interrupt, or err where there was none.
func (s *submission) interruptedOr(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case !s.began:
		return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "interrupted; nothing was uploaded", Err: err}
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "interrupted; what was uploaded stays at " + s.base.String(),
		Next: "Repeat the command: it goes on where it stopped.", Err: err}
}

// asked is how long the site asks to wait, within reason.
func asked(r *http.Response) time.Duration {
	text := r.Header.Get("Retry-After")
	if at, err := http.ParseTime(text); err == nil {
		return min(time.Until(at), mostPause)
	}
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(seconds, uint64(mostPause/time.Second))) * time.Second
}

// checkThere has the site check the run without keeping it; at a terminal it logs in where that is needed.
func (s *submission) checkThere(ctx context.Context, p *packed) (*siteclient.Receipt, error) {
	for {
		var answer *siteclient.CheckRunResponse
		r, err := s.again(ctx, "The check", func() (r reply, err error) {
			if answer, err = s.client.CheckRunWithBodyWithResponse(ctx, "application/gzip", bytes.NewReader(p.data)); err == nil {
				r = reply{answer.HTTPResponse, answer.ApplicationProblemJSONDefault}
			}
			return r, err
		})
		switch {
		case err != nil:
			return nil, err
		case answer.JSON200 != nil:
			return answer.JSON200, nil
		case r.response.StatusCode == http.StatusUnauthorized && (s.token == "" || s.fromLogin) && s.env.StdinTerminal:
			s.token, s.fromLogin = "", false // a login that was revoked
			if err := s.login(ctx); err != nil {
				return nil, err
			}
		default:
			return nil, s.refusal(r)
		}
	}
}

// upload sends the archive in pieces, from where an earlier try stopped, and has the site make a run of it.
func (s *submission) upload(ctx context.Context, p *packed) (*siteclient.Receipt, error) {
	s.began = true
	var begun *siteclient.BeginUploadResponse
	r, err := s.again(ctx, "The upload", func() (r reply, err error) {
		if begun, err = s.client.BeginUploadWithResponse(ctx, siteclient.BeginUploadJSONRequestBody{Size: int64(len(p.data)), Sha256: p.hash}); err == nil {
			r = reply{begun.HTTPResponse, begun.ApplicationProblemJSONDefault}
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	if begun.JSON201 == nil {
		return nil, s.refusal(r)
	}
	id, at := begun.JSON201.ID, begun.JSON201.Received
	if at > 0 && at < int64(len(p.data)) {
		s.say("Going on at %d of %d bytes.\n", at, len(p.data))
	}
	for size := int64(len(p.data)); at != size; {
		if at < 0 || at > size {
			return nil, &speedmatrix.Error{Kind: speedmatrix.KindRefused, What: fmt.Sprintf("%s says that it has %d of %d bytes", s.base, at, size), Next: "Its operator has to look at it."}
		}
		if at, err = s.piece(ctx, p, id, at); err != nil {
			return nil, err
		}
	}
	var done *siteclient.FinishUploadResponse
	r, err = s.again(ctx, "The end of the upload", func() (r reply, err error) {
		if done, err = s.client.FinishUploadWithResponse(ctx, id); err == nil {
			r = reply{done.HTTPResponse, done.ApplicationProblemJSONDefault}
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	if done.JSON201 == nil {
		return nil, s.refusal(r)
	}
	return done.JSON201, nil
}

// piece sends the next piece and gives where the one after it begins. A piece whose answer was lost may be there: the site
// is asked.
func (s *submission) piece(ctx context.Context, p *packed, id string, at int64) (int64, error) {
	end := min(at+pieceBytes, int64(len(p.data)))
	failed := false
	var sent *siteclient.AppendUploadResponse
	r, err := s.again(ctx, "A piece of the upload", func() (r reply, err error) {
		if failed {
			if known, err := s.client.GetUploadWithResponse(ctx, id); err == nil && known.JSON200 != nil && known.JSON200.Received >= at && known.JSON200.Received <= int64(len(p.data)) {
				at = known.JSON200.Received
				end = min(at+pieceBytes, int64(len(p.data)))
			}
		}
		failed = true
		if sent, err = s.client.AppendUploadWithBodyWithResponse(ctx, id, &siteclient.AppendUploadParams{UploadOffset: at}, "application/octet-stream", bytes.NewReader(p.data[at:end])); err == nil {
			r = reply{sent.HTTPResponse, sent.ApplicationProblemJSONDefault}
		}
		return r, err
	})
	if err != nil {
		return at, err
	}
	if sent.JSON200 == nil {
		return at, s.refusal(r)
	}
	if sent.JSON200.Received <= at && end > at {
		return at, &speedmatrix.Error{Kind: speedmatrix.KindRefused, What: fmt.Sprintf("%s took a piece of the upload and does not have it", s.base), Next: "Its operator has to look at its disk."}
	}
	return sent.JSON200.Received, nil
}
