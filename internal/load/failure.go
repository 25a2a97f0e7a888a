package load

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
	"syscall"
)

// whyUnanswered sorts an error of the transport that we did not cause.
func whyUnanswered(err error) (Failure, string) {
	var dial *dialError
	if errors.As(err, &dial) {
		return dial.failure, dial.Error()
	}
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &record) || errors.As(err, &certificate) {
		return FailureTLS, err.Error()
	}
	return FailureLost, lostWords("the connection was lost before the answer", err)
}

// lostWords adds to what happened how it showed.
func lostWords(what string, err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return what + ": closed by the server"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return what + ": reset by the server"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return what + ": timed out"
	}
	return what + ": " + err.Error()
}
