package truth

import (
	"encoding/json"

	"speedmatrix/internal/wire"
)

// Class is how a request ended, as the server saw it.
type Class string

// The classes.
const (
	Running   Class = ""          // not yet ended
	Completed Class = "completed" // answered in full
	Aborted   Class = "aborted"   // the client went away
	Refused   Class = "refused"   // an HTTP error, by the rules of the engine
	Failed    Class = "failed"    // as the script said
	Closed    Class = "closed"    // by Close
)

// Account is what the server did until now. All times are nanoseconds since
// 1970 by Script.Now, 0 where the instant has not come.
type Account struct {
	// Requests for text, in order of arrival: a request's index is its id.
	Requests []Request
	// Aborts counts requests that the client left; Preemptions those of the script that happened.
	Aborts, Preemptions int
	// PeakRunning and PeakWaiting are the most that ran and waited at once.
	PeakRunning, PeakWaiting int
	// Connections accepted so far, and OpenConnections now (served by Serve or Start).
	Connections, OpenConnections int
	// Scrapes of /metrics and /slots, and calls of the tokenizer.
	Scrapes, Tokenized int
}

// Request is the account of one request for text.
type Request struct {
	ID int
	// Connection is the index of the connection in order of accepting, −1 if unknown.
	Connection int
	API        wire.API
	Stream     bool
	// MaxTokens as asked, −1 if not; Limit is what could be generated at most.
	MaxTokens, Limit int
	// Fields has the top-level fields as sent, messages and prompt left out.
	Fields map[string]json.RawMessage
	// Prompt is kept with Script.KeepPrompts only.
	Prompt string

	PromptTokens, CachedTokens int
	// Tokens generated and due, the hidden ones included.
	Tokens int
	// Events carry tokens; role, usage and [DONE] are not among them.
	Events []Event

	Class        Class
	Status       int
	FinishReason string

	ArrivedNS  int64 // last byte of the body read
	AdmittedNS int64 // left the queue
	PrefillNS  int64 // began to read the prompt
	RoleNS     int64 // role event sent
	EndedNS    int64

	job *job // counts Tokens while the request runs; nil in a copy
}

// FirstNS is when the first event with text was sent, 0 if none was.
func (r *Request) FirstNS() int64 {
	for _, e := range r.Events {
		if e.Length > 0 {
			return e.AtNS
		}
	}
	return 0
}

// LastNS is when the last event with text was sent, 0 if none was.
func (r *Request) LastNS() int64 {
	for i := len(r.Events) - 1; i >= 0; i-- {
		if r.Events[i].Length > 0 {
			return r.Events[i].AtNS
		}
	}
	return 0
}

// Event is one event with tokens.
type Event struct {
	// AtNS is taken right before the write that ends the event's last data line.
	AtNS int64
	// Tokens is the cumulative count, this event's (and hidden ones before it) included.
	Tokens int
	// Length of the text in bytes.
	Length  int
	Channel string
}

// TokensBetween counts the tokens of all requests in events with from < time ≤ to.
func (a *Account) TokensBetween(from, to int64) int {
	sum := 0
	for i := range a.Requests {
		before := 0
		for _, e := range a.Requests[i].Events {
			if from < e.AtNS && e.AtNS <= to {
				sum += e.Tokens - before
			}
			before = e.Tokens
		}
	}
	return sum
}
