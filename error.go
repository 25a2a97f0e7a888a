package speedmatrix

import "errors"

// ErrorKind sorts errors for programs: it decides the exit code.
type ErrorKind int

// The kinds of error, each with its exit code.
const (
	KindInternal    ErrorKind = iota // exit 1: a fault of this program, or none of the kinds below
	KindUsage                        // exit 2: a flag, an argument or a file is wrong
	KindNoServer                     // exit 3: nothing answers, or not an LLM server
	KindRefused                      // exit 4: the server refuses us: key, model, limit, certificate
	KindBusy                         // exit 5: the server runs others' requests, or is still loading
	KindOutput                       // exit 6: the run directory cannot be made, read or written
	KindMeasured                     // exit 7: the run is complete, but cells failed or numbers disagree
	KindInterrupted                  // exit 130: ended by the user
)

// ExitCode is the exit code of a kind.
func (k ErrorKind) ExitCode() int {
	switch k {
	case KindInternal:
		return 1
	case KindInterrupted:
		return 130
	}
	return int(k) + 1
}

// Error is an error that a user can act on: what happened and to what, and what to do next.
type Error struct {
	Kind ErrorKind
	// What happened, to what: one sentence without a final stop.
	What string
	// Next is what to do about it: whole sentences, may be empty.
	Next string
	// Err is the cause, may be nil.
	Err error
}

func (e *Error) Error() string { return e.What }

func (e *Error) Unwrap() error { return e.Err }

// KindOf gives the kind of the first Error in the chain.
func KindOf(err error) ErrorKind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}
