package bench

import "speedmatrix"

// EventKind says what an Event tells.
type EventKind string

// The kinds of events of a run.
const (
	EventPlan     EventKind = "plan"     // the plan is made
	EventWarmUp   EventKind = "warm-up"  // the warm-up goes on
	EventCell     EventKind = "cell"     // a cell begins
	EventProgress EventKind = "progress" // a cell goes on; about once a second
	EventDone     EventKind = "done"     // a cell has ended
	EventWarning  EventKind = "warning"  // a doubt about the run
	EventEnd      EventKind = "end"      // the run has ended
)

// Event is one line of `run --events`, and what the terminal shows.
type Event struct {
	Event EventKind `json:"event"`
	// Time is RFC 3339 in UTC.
	Time string `json:"time"`
	// Cell is the cell's key, Step the step it is in.
	Cell string `json:"cell,omitempty"`
	Step string `json:"step,omitempty"`
	// TokensPerSecond is the running rate, Share the share of the window that is over.
	TokensPerSecond *float64 `json:"tokens_per_second,omitempty"`
	Share           *float64 `json:"share,omitempty"`
	Producing       int      `json:"producing,omitempty"`
	// Done and Total count the cells that run, SecondsLeft is the expected time left.
	Done        int      `json:"done"`
	Total       int      `json:"total"`
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
	Message     string   `json:"message,omitempty"`
	// Result is the cell that has ended.
	Result *speedmatrix.Cell `json:"result,omitempty"`
}
