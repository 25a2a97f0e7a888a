package bench

import (
	"context"

	"speedmatrix"
)

// Lab does what a run needs done: the real one sends HTTP requests to a server, a simulated one steps an
// engine in virtual time.
type Lab interface {
	// Now is the time in nanoseconds since 1970.
	Now() int64
	// Prefill sends one prompt for one token, on an empty server.
	Prefill(ctx context.Context, spec PrefillSpec) Prefilled
	// Decode measures one attempt at a decode cell by stepping a Protocol.
	Decode(ctx context.Context, spec *DecodeSpec) *DecodeResult
	// Alive says whether the server still answers.
	Alive(ctx context.Context) error
	// Scrapes gives all scrapes so far.
	Scrapes() []speedmatrix.ServerRow
}

// Head numbers a prompt's head within the run.
type Head struct {
	Context, Stream, Attempt int
}

// PrefillSpec is one prefill.
type PrefillSpec struct {
	Key  string
	Head Head
	Tail int
	// Request numbers the request in its cell's file.
	Request int32
	Rules   Rules
}

// Prefilled is what came of one prefill.
type Prefilled struct {
	Recorded Recorded
	// Drained is false when the server was not empty before it; Left says what ran, or why it is not known.
	Drained bool
	Left    string
	// Skipped: the user skipped the cell while it was under way.
	Skipped bool
	Head    Head
}

// OK says whether the prefill gave a first token.
func (p *Prefilled) OK() bool {
	return p.Drained && p.Recorded.Row.FirstNS != nil && p.Recorded.Row.WrittenNS != nil &&
		p.Recorded.Row.Class != string(speedmatrix.RequestFailed)
}

// cut says whether the prefill was ended by us before its token.
func (p *Prefilled) cut() bool {
	return p.Recorded.Row.FirstNS == nil && p.Recorded.Row.Class == string(speedmatrix.RequestCut)
}

// DecodeSpec is one attempt at a decode cell.
type DecodeSpec struct {
	Key                  string
	Context, Concurrency int
	Rules                Rules
	// Heads gives each stream's head; Fill lists the streams whose heads are to be filled before the launch.
	Heads []Head
	Fill  []int
	// NextTail gives the next tail of a stream, never the same twice; it must be safe for concurrent use.
	NextTail  func(stream int) int
	MaxTokens int
	// FirstFill numbers the first fill: from 0 in the row's prefill file, below 0 in the cell's own.
	FirstFill int32
	// WholeLife: see Evidence.
	WholeLife bool
}

// DecodeResult is what came of one attempt.
type DecodeResult struct {
	Evidence *Evidence
	Fills    []Prefilled
	Loops    []speedmatrix.LoopEvidence
	Warnings []speedmatrix.Warning
}
