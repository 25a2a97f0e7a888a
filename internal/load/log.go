package load

import (
	"iter"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
)

// Failure says what made a request fail.
type Failure string

// The kinds of failure.
const (
	FailureNone    Failure = ""
	FailureConnect Failure = "connect"     // no connection
	FailureTLS     Failure = "tls"         // no TLS session
	FailureHTTP    Failure = "http"        // an HTTP status other than 2xx
	FailureEvent   Failure = "error event" // an error inside the stream of a 200
	FailureLost    Failure = "lost"        // the connection or the stream ended too early
	FailureEmpty   Failure = "empty"       // the answer ended properly, without a token
	FailureIdle    Failure = "idle"        // Limits.Idle passed between two events
	FailureTimeout Failure = "timeout"     // Limits.Header passed
)

// Log is what is known of one request that has ended. Times are on the scale of
// the client's clock; 0 is never.
type Log struct {
	Request       // without its Body
	Stream  int32 // −1 for a single request

	StartNS        int64 // begun, before its connection was looked for
	DepartedNS     int64 // first byte handed to a connection, the first time if it was sent again
	WrittenNS      int64 // last byte in the socket of the connection that answered
	HeadersNS      int64 // arrival of the answer's headers
	FirstNS        int64 // first event with text of any channel
	FirstVisibleNS int64 // first event with content
	LastNS         int64 // last event with text
	FinishNS       int64 // first event with a finish reason
	EndedNS        int64 // the end of the stream, or our cut
	SendNS         int64 // WrittenNS − StartNS, a duration
	ConnectNS      int64 // time to open a connection, −1 when one was open

	Class        speedmatrix.RequestClass
	HTTPStatus   int
	FinishReason string
	// Error is the failure in the server's own words where it gave any.
	Error   string
	Failure Failure

	// Usage is the newest the server gave, field by field; what it left out is
	// taken from Timings, and −1 is unknown.
	Usage      dialect.Usage
	HasTimings bool
	Timings    dialect.Timings

	// Replays counts how often it was sent again because its connection was dead.
	Replays int
	// Surprises counts events that could not be understood.
	Surprises int
	// Misnamed is the content type of an event stream that claims to be something else, "" of all other answers.
	Misnamed string
	// RetryAfter is what a refusing server asked to wait, 0 if nothing.
	RetryAfter time.Duration

	record    *record
	surprises []string
}

// Event is one recorded event: one that carried text, or raised the cumulative
// token count.
type Event struct {
	At      int64
	Length  int // of the text in bytes, 0 for an event that only raised the count
	Tokens  int // cumulative count of the request, −1 none
	Channel speedmatrix.Channel
	// Continued marks a further channel of the same event.
	Continued bool
}

// Events gives the recorded events in order of arrival.
func (l *Log) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		if l.record == nil {
			return
		}
		for e := range l.record.entries() {
			if !yield(e.event()) {
				return
			}
		}
	}
}

// fewEvents are too few for a mean of tokens per event.
const fewEvents = 3

// TokensPerEvent is the completion tokens that the server counted ÷ events with
// text, of a completed request; 0 is unknown. The mark by which a model ends is a
// token without text: where it alone makes the difference, an event is a token. A count
// of less than half the events is not believed.
func (l *Log) TokensPerEvent() float64 {
	events := 0
	for e := range l.Events() {
		if e.Length > 0 && !e.Continued {
			events++
		}
	}
	tokens := l.Usage.Completion
	if l.Class != speedmatrix.RequestCompleted || tokens <= 0 || events == 0 || 2*tokens < events {
		return 0
	}
	if l.FinishReason == "stop" && tokens == events+1 && events >= fewEvents {
		tokens--
	}
	return float64(tokens) / float64(events)
}

// Text is all text of the request, the channels in order of arrival. A stream
// keeps at most 4 MiB of text; what came after that is missing.
func (l *Log) Text() []byte {
	return l.text(func(Event) bool { return true })
}

// TextBetween is the text of the events with from < At ≤ to.
func (l *Log) TextBetween(from, to int64) []byte {
	return l.text(func(e Event) bool { return from < e.At && e.At <= to })
}

// text joins the text of the events that are wanted.
func (l *Log) text(wanted func(Event) bool) []byte {
	if l.record == nil {
		return nil
	}
	var out []byte
	at := l.record.text.start()
	for e := range l.Events() {
		if wanted(e) {
			out = at.copy(out, e.Length)
		} else {
			at.skip(e.Length)
		}
	}
	return out
}

// Surprising gives the raw bytes of the first few events that could not be
// understood, each shortened.
func (l *Log) Surprising() []string { return l.surprises }

// Row is the request as it stands in a run's files: what never happened and
// what is unknown is null.
func (l *Log) Row() speedmatrix.RequestRow {
	return speedmatrix.RequestRow{
		Request: l.ID, Stream: l.Stream, Purpose: l.Purpose, Head: l.Head, Tail: l.Tail,
		PlannedNS:      l.PlannedNS,
		WrittenNS:      happened(l.WrittenNS),
		HeadersNS:      happened(l.HeadersNS),
		FirstNS:        happened(l.FirstNS),
		FirstVisibleNS: happened(l.FirstVisibleNS),
		LastNS:         happened(l.LastNS),
		EndedNS:        happened(l.EndedNS),
		Class:          string(l.Class), HTTPStatus: int32(l.HTTPStatus), FinishReason: l.FinishReason, Error: l.Error,
		PromptTokens:     known(l.Usage.Prompt),
		CachedTokens:     known(l.Usage.Cached),
		CompletionTokens: known(l.Usage.Completion),
		ReasoningTokens:  known(l.Usage.Reasoning),
		SendNS:           happened(l.SendNS),
		ConnectNS:        connected(l.ConnectNS),
		Replays:          int32(l.Replays),
	}
}

func happened(ns int64) *int64 {
	if ns == 0 {
		return nil
	}
	return &ns
}

func connected(ns int64) *int64 {
	if ns < 0 {
		return nil
	}
	return &ns
}

func known(n int) *int32 {
	if n < 0 {
		return nil
	}
	v := int32(n)
	return &v
}
