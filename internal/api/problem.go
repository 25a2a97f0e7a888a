package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"speedmatrix/internal/account"
	"speedmatrix/internal/blob"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
)

// Problem is an answer of RFC 9457 with the rule that refused, for programs.
type Problem struct {
	Type    string `json:"type,omitempty" doc:"Always about:blank, where it is given."`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail" doc:"What happened and what to do, for people."`
	Code    string `json:"code" doc:"The rule that refused, for programs."`
	Pointer string `json:"pointer,omitempty" doc:"The place: a file of the upload, or a JSON pointer into run.json behind #."`
	// Errors are the parts of a request that the contract does not allow.
	Errors []*huma.ErrorDetail `json:"errors,omitempty"`
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus gives the status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of problems.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Configure sets what the library keeps for the whole process: the contract's form of an error, and lists that are never
// null. It is called once, before New.
func Configure() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := &Problem{Title: http.StatusText(status), Status: status, Detail: message, Code: strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "-"))}
		for _, err := range errs {
			detail := &huma.ErrorDetail{Message: err.Error()}
			if d, ok := err.(huma.ErrorDetailer); ok { //nolint:errorlint // as huma itself asks
				detail = d.ErrorDetail()
			}
			p.Errors = append(p.Errors, detail)
		}
		return p
	}
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func refuse(status int, code, detail string) error {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

// worded turns an error of the parts behind into an answer. What is not known here is told to the operator, not to the
// visitor.
func (s *Server) worded(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*ingest.Problem](err); ok {
		answer := &Problem{Title: p.Title, Status: p.Status, Detail: p.Detail, Code: p.Code, Pointer: p.Pointer}
		if p.Status == http.StatusServiceUnavailable {
			return huma.ErrorWithHeaders(answer, http.Header{"Retry-After": {"5"}})
		}
		return answer
	}
	if d, ok := errors.AsType[*account.Denied](err); ok {
		code := "forbidden"
		switch {
		case d.SignIn:
			code = "sign-in"
		case d.ReadOnly:
			code = "read-only"
		}
		return refuse(d.Status(), code, capital(d.Error())+".")
	}
	switch {
	case errors.Is(err, account.ErrPending):
		return refuse(http.StatusBadRequest, "authorization_pending", "The user has not answered yet. Ask again after the interval.")
	case errors.Is(err, account.ErrSlowDown):
		return refuse(http.StatusBadRequest, "slow_down", "Wait five seconds longer between two questions.")
	case errors.Is(err, account.ErrRefused):
		return refuse(http.StatusForbidden, "access_denied", "The user refused.")
	case errors.Is(err, catalog.ErrNotFound), errors.Is(err, account.ErrNotFound), errors.Is(err, blob.ErrNotFound):
		return refuse(http.StatusNotFound, "not-found", "There is nothing here under that name, or not for you.")
	case errors.Is(err, catalog.ErrConflict):
		return refuse(http.StatusConflict, "changed-meanwhile", "The run changed since it was read. Get it again and repeat what you want to change.")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refuse(http.StatusServiceUnavailable, "ended", "The request ended before its answer.")
	}
	var known huma.StatusError
	if errors.As(err, &known) {
		return err
	}
	s.o.Log.ErrorContext(ctx, "an answer failed", "error", err)
	return refuse(http.StatusInternalServerError, "internal", "This site has a fault. Its operator finds the cause in its log.")
}
