package bench

import (
	"fmt"
	"time"

	"speedmatrix/internal/unit"
)

// Observation is what is known at one instant. Times are nanoseconds on the run's scale.
type Observation struct {
	Gauges  Gauges
	Fill    FillState
	Streams []StreamState
	// AllStopped says that no stream has a request in flight after a stop.
	AllStopped bool
	// Empty is the answer to ActionAskEmpty: the server, which has no gauges, seems to be empty.
	Empty bool
	// Interval is the half width of the 95 % interval so far, as a share; Drift the share by which
	// the speed is still predicted to change. Both negative when unknown.
	Interval, Drift float64
	// Silence is why the server does not tell what it runs, Lost why no connection to it can be opened any more; ""
	// while neither is so.
	Silence, Lost string
	// Interrupted ends the run; Skip ends this cell.
	Interrupted, Skip bool
}

// Gauges is the last scrape of the engine's queue.
type Gauges struct {
	// Known: the engine tells how many requests run; WaitingKnown: and how many wait.
	Known, WaitingKnown bool
	SentNS              int64
	Running, Waiting    float64
	// KVUsage is the share (0–1) of the KV cache in use, nil where the engine does not tell.
	KVUsage *float64
}

// FillState is how the fill that was asked for last is getting on.
type FillState int

// The states of a fill.
const (
	FillNone FillState = iota
	FillRunning
	FillDone
	FillFailed
)

// StreamState is a glance at one stream.
type StreamState struct {
	// EverFirst: some request of it has had text; Producing: the request in flight has.
	EverFirst, Producing bool
	LastNS               int64
	// Tokens counts all tokens of the stream so far, by the best live source.
	Tokens float64
	// Failures counts requests that failed in a row without a token.
	Failures int
	// Loops counts the loops confirmed so far.
	Loops int
}

// ActionKind says what the driver has to do.
type ActionKind int

// The actions.
const (
	ActionWait     ActionKind = iota // nothing until Wake
	ActionFill                       // prefill the next head
	ActionLaunch                     // start all streams
	ActionRestart                    // cut the request of Stream; it goes on with the next tail
	ActionStop                       // cut all requests
	ActionAskEmpty                   // find out, without gauges, whether the server is empty
	ActionDone                       // the cell has ended; see Outcome
)

// Action is what the driver has to do, and when to call again at the latest.
type Action struct {
	Kind   ActionKind
	Stream int
	WakeNS int64
}

// Ending says why a cell's protocol ended.
type Ending string

// The endings.
const (
	EndedMeasured    Ending = "measured"
	EndedInterrupted Ending = "interrupted"
	EndedSkipped     Ending = "skipped"
	EndedNotDrained  Ending = "not drained"
	EndedFillFailed  Ending = "fill failed"
	EndedNotReady    Ending = "not ready"
	EndedFailing     Ending = "failing"
	EndedLooped      Ending = "looped"
)

// Outcome is what the protocol says of a cell when it is done.
type Outcome struct {
	Ending Ending
	// LaunchNS, PlannedStartNS and PlannedEndNS are 0 when that point was not reached.
	LaunchNS, PlannedStartNS, PlannedEndNS, StopNS int64
	// Saturated: the window opened although some streams waited; Unready: it opened at the allowance's end.
	Saturated, Unready bool
	// DrainedAfter is false when the engine was not empty in time after the cell.
	DrainedAfter bool
	// DrainCut: an interruption came while the engine was waited for after the cell.
	DrainCut bool
	// LeftRunning and LeftWaiting are the gauges when a drain gave up; where the server did not tell them Silence says
	// why, and where it can no longer be reached Lost does.
	LeftRunning, LeftWaiting float64
	Silence, Lost            string
	// Seconds spent in each step.
	Steps map[Step]time.Duration
	// Looping lists the streams whose loop was confirmed in the window.
	Looping []int
}

// stillRunning says that the engine was watched after the cell's requests were cut and did not become empty.
func (o *Outcome) stillRunning() bool { return o.StopNS != 0 && !o.DrainedAfter && !o.DrainCut }

// left says what a drain that gave up had before it; when is "" before a cell, else what came before the drain.
func (o *Outcome) left(when string) string {
	after := unit.Duration(drainLimit) + when
	switch {
	case o.Lost != "":
		return "the server can no longer be reached: " + o.Lost
	case o.Silence != "":
		return fmt.Sprintf("the server did not tell within %s whether it is empty: %s", after, o.Silence)
	case when != "":
		return fmt.Sprintf("the server still ran requests %s: running %.0f, waiting %.0f, ours 0", after, o.LeftRunning, o.LeftWaiting)
	}
	return fmt.Sprintf("the server was not empty after %s: running %.0f, waiting %.0f, ours 0", after, o.LeftRunning, o.LeftWaiting)
}
