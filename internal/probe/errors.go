package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// usualPlaces is said when no server is where one was expected.
const usualPlaces = "Servers usually listen on 8000 (vLLM), 30000 (SGLang), 8080 (llama.cpp), 11434 (Ollama), 1234 (LM Studio)."

func fail(kind speedmatrix.ErrorKind, next, what string, args ...any) *speedmatrix.Error {
	return &speedmatrix.Error{Kind: kind, What: fmt.Sprintf(what, args...), Next: next}
}

// failing makes errors of one kind and one cause.
func failing(kind speedmatrix.ErrorKind, cause error) func(next, what string, args ...any) error {
	return func(next, what string, args ...any) error {
		e := fail(kind, next, what, args...)
		e.Err = cause
		return e
	}
}

// unreached turns an error without an HTTP answer into one that a user can act on. It
// looks at the usual ports when nothing listens at the address given.
func unreached(ctx context.Context, o Options, base string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if known := unreachedTLS(base, err); known != nil {
		return known
	}
	var away *redirectError
	var late *timeoutError
	var name *net.DNSError
	no := failing(speedmatrix.KindNoServer, err)
	switch {
	case errors.Is(err, errPlainOnTLS):
		return no("Try "+strings.Replace(base, "http://", "https://", 1), "the server at %s speaks HTTPS, not plain HTTP", base)
	case refused(err):
		return no("Nothing listens there. "+elsewhere(ctx, o), "no LLM server at %s (connection refused)", base)
	case errors.As(err, &away):
		return no(fmt.Sprintf("If that is the server you mean, give its URL: %s", siteOf(away)),
			"%s redirects to another host, %s, and is not followed there", base, away.to.Host)
	case errors.As(err, &name):
		return no("Check the spelling, or give an address instead of the name.", "no host has the name %q", name.Name)
	case errors.As(err, &late) && late.began:
		return no("It may be overloaded, or no LLM server. Check with: curl -m 10 "+base+"/v1/models",
			"the server at %s is too slow: its list of models was not complete within %s", base, late.limit)
	case errors.As(err, &late):
		return no("It may be stuck, or still starting: its log says. Check with: curl -m 10 "+base+"/v1/models",
			"the server at %s takes connections but sent no answer within %s", base, unit.Duration(late.limit))
	case timedOut(err):
		return no("Check the address and the port, and whether a firewall stands between.",
			"no LLM server at %s (the connection timed out)", base)
	case strings.Contains(err.Error(), "response headers exceeded"):
		return no(usualPlaces, "what answers at %s is no LLM server: it sends more than %d KiB of headers", base, headerMost>>10)
	case strings.Contains(err.Error(), "malformed HTTP"):
		return no(usualPlaces, "what listens at %s does not speak HTTP", base)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return no("It may be starting or crashing: its log says. If it speaks HTTPS, say https://.",
			"the server at %s closed the connection without an answer", base)
	case errors.Is(err, errTooLong):
		return no("Give the URL of the server's API.", "what answers at %s is no LLM server: its list of models is over 4 MiB", base)
	}
	return no("Check the address. "+usualPlaces, "no LLM server at %s (%s)", base, plain(err))
}

func siteOf(r *redirectError) string { return r.to.Scheme + "://" + r.to.Host }

func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "refused")
}

func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout() || errors.Is(err, syscall.ETIMEDOUT)
}

// plain drops the method and URL that net/http puts before a cause.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

func unreachedTLS(base string, err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	refuse := failing(speedmatrix.KindRefused, err)
	const around = "or go on without checking it with --insecure."
	switch {
	case errors.As(err, &authority):
		return refuse("Give the authority's certificate with --ca-file FILE, "+around,
			"the certificate of %s is signed by an authority that this machine does not know", base)
	case errors.As(err, &host):
		return refuse("Use the name that the certificate is for, "+around,
			"the certificate of %s is for another name: %s", base, host.Error())
	case errors.As(err, &invalid):
		return refuse("Renew it, "+around, "the certificate of %s is not valid: %s", base, invalid.Error())
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return failing(speedmatrix.KindNoServer, err)("Try "+strings.Replace(base, "https://", "http://", 1),
			"the server at %s does not speak HTTPS", base)
	case strings.Contains(err.Error(), "certificate"), strings.Contains(err.Error(), "tls:"):
		return refuse("Give the authority's certificate with --ca-file FILE, "+around,
			"no secure connection to %s: %s", base, plain(err))
	}
	return nil
}

// elsewhere says what answers on this machine's usual ports.
func elsewhere(ctx context.Context, o Options) string {
	found, err := Find(ctx, o)
	var places []string
	for _, f := range found {
		if f.Serves() {
			places = append(places, f.String())
		}
	}
	if err != nil || len(places) == 0 {
		return usualPlaces + " None of these answers on this machine either."
	}
	return "On this machine " + list(places) + " answers: give that URL."
}

// refusal turns an HTTP status that is a refusal into an error; nil for others. route
// says what was asked, words is the server's own text.
func (s *Server) refusal(status int, route, words string, wait time.Duration) error {
	at, said := s.Base.String(), says(status, words)
	refuse := speedmatrix.KindRefused
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		variable := s.Dialect.KeyVariable()
		next := "Give its key in the variable " + variable + ", or with --api-key or --api-key-file."
		if s.options.Header.Get("Authorization") != "" || s.options.Header.Get("X-Api-Key") != "" {
			next = "A key was sent and not taken: check " + variable + " or --api-key, and what the key may do."
		}
		return fail(refuse, next, "the server at %s wants a valid key (%s)", at, said)
	case http.StatusTooManyRequests:
		next := "Try again later; a service with such limits cannot be measured at high concurrency."
		if wait > 0 {
			next = fmt.Sprintf("It asks to wait %s. ", unit.Duration(wait)) + next
		}
		return fail(refuse, next, "the server at %s refuses more requests for now (%s)", at, said)
	case http.StatusPaymentRequired:
		return fail(refuse, "Check the account of the key.", "the server at %s wants to be paid (%s)", at, said)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fail(speedmatrix.KindNoServer, "Give the URL up to where /v1 begins. "+usualPlaces,
			"no LLM server at %s: it has no %s (%s)", at, route, said)
	}
	return nil
}

// says gives a status with the server's own words: "404 Not Found: no such route".
func says(status int, words string) string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	if words == "" || words == http.StatusText(status) {
		return text
	}
	return text + ": " + words
}

// list joins names as a sentence does: "a, b and c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
