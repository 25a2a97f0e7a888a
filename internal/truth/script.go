package truth

import (
	"time"

	"speedmatrix/internal/wire"
)

// Engine is the kind of server that is played: routes, metrics and words.
type Engine uint8

// The engines.
const (
	// VLLM serves /version, /health, /metrics, /tokenize in vLLM's shapes.
	VLLM Engine = iota
	// LlamaCpp serves /props, /slots, /health, /metrics, /tokenize in llama.cpp's
	// shapes; its token counters move only when a request ends.
	LlamaCpp
	// Plain serves /v1/models and the two text endpoints, nothing else.
	Plain
)

// Usage is when a usage object is sent.
type Usage uint8

// The ways to report usage.
const (
	UsageAsked    Usage = iota // as the engine does when asked: final with include_usage, in every event with continuous_usage_stats (vLLM)
	UsageFinal                 // at the end if include_usage is asked; continuous_usage_stats is ignored
	UsageEvery                 // in every event and at the end, asked or not
	UsageNone                  // never
	UsageNull                  // "usage":null in every event, the object at the end
	UsageOnFinish              // beside choices, in a finish event of its own whose text is ""
	UsageInChoice              // in choices[0] of the last text event
	UsageXGroq                 // under x_groq in the last text event
	UsagePartial               // at the end, without completion_tokens: prompt and total only
)

// Headers is when the status line and headers of a stream are sent.
type Headers uint8

// The times of headers.
const (
	HeadersAtOnce  Headers = iota // on arrival (vLLM)
	HeadersAtStart                // when the prefill begins (llama.cpp)
	HeadersAtToken                // with the first event
)

// Hidden is a channel of tokens that are counted and never sent.
const Hidden = "hidden"

// Script says what the server is and does. The zero value is a vLLM without
// limits that prefills in no time and sends a token each 10 ms for as long as
// the request asks. Its functions are called by several goroutines at once.
type Script struct {
	Engine Engine
	// APIs are served besides chat and completions.
	APIs    []wire.API
	Model   string // default "truth"
	Version string // of GET /version; "" answers 404
	Auth    string // if not "", the bearer key that /v1 requires
	// Loading is how long after the start every route answers 503.
	Loading time.Duration

	// MaxLength is the model's maximum length in tokens, 0 for none; MaxRunning
	// how many requests run at once, 0 for no limit.
	MaxLength, MaxRunning int
	// KVTokens in blocks of BlockTokens (default 16) are advertised and used by the
	// gauge of KV use. With KVLimits a request also waits until its prompt fits.
	KVTokens, BlockTokens int
	KVLimits              bool
	// PrefixCache keeps the blocks of prompts, reuses the longest common run of
	// whole blocks, and reports cached_tokens in final usage unless HideCached.
	PrefixCache, HideCached bool
	// TemplateTokens is what a chat adds to its prompt: 0 means 11, −1 none.
	TemplateTokens int
	// Tokenize serves the tokenizer endpoint of the engine.
	Tokenize bool
	// RejectFields are refused with 400: "ignore_eos", "stream_options.continuous_usage_stats".
	RejectFields []string

	// A cold prefill takes PrefillBase + PrefillPerToken · uncached prompt tokens.
	PrefillBase, PrefillPerToken time.Duration
	// Gap is the time to the given token from the one before it; nil is 10 ms.
	// With Lockstep all requests tick together on one clock of Gap.
	Gap      func(Step) time.Duration
	Lockstep bool
	// Stall is an extra pause before a token (from 0) of a request.
	Stall func(req, token int) time.Duration
	// Preempt lists requests that are paused while they run.
	Preempt []Preemption
	// Spin ends each wait by spinning, for exact times on real sockets.
	Spin bool
	// Now stamps the account: nanoseconds since 1970 on the scale of whoever
	// compares. Nil is the wall clock at New plus the monotonic time since.
	Now func() int64

	// TokensPerEvent (default 1) tokens are sent in one event, when the last of
	// them is due. Burst, if set, says it for the event that begins at a token.
	TokensPerEvent int
	Burst          func(req, token int) int
	// Text gives a token's text; nil gives varied short words of one token each.
	Text func(req, token int) string
	// Channel gives a token's channel: wire.Content (nil, ""), wire.Reasoning, wire.Tool, Hidden.
	Channel func(req, token int) string
	// ReasoningField is "reasoning" (default), "reasoning_content" or "both".
	ReasoningField string
	// StopAfter is the natural end in tokens, 0 for none; where HonourIgnoreEOS is
	// set a request with ignore_eos goes on to its max_tokens.
	StopAfter       func(Call) int
	HonourIgnoreEOS bool
	// Finish replaces the finish reason of every request, such as "content_filter".
	Finish string

	Usage Usage
	// Reported overrides the cumulative token count that usage gives after so many tokens.
	Reported func(req, tokens int) int
	// ReasoningTokens reports the tokens of the reasoning and hidden channels in usage.
	ReasoningTokens bool

	Headers Headers
	// RoleFirst sends a role event with an empty text, RoleEarly before the first
	// token is due, but not before the prefill begins.
	RoleFirst bool
	RoleEarly time.Duration
	// FinalDelay passes between the last token and what follows it.
	FinalDelay time.Duration
	Framing    Framing
	// Reshape, if set, gives what is sent in the place of each event of a stream, [DONE] and errors included:
	// any number of events with these data, in one write. event numbers what a request would have sent, from 0. A
	// token event counts as sent with the last of them; with none it is not sent at all and stays out of the account.
	Reshape func(req, event int, data string) []string
	// IgnoreStream answers every request with one document.
	IgnoreStream bool
	// CloseAfterStream closes the connection CloseDelay after each stream without
	// having said so, as llama.cpp does; requests sent in between are lost.
	CloseAfterStream bool
	CloseDelay       time.Duration

	// Fail says how a request fails; nil, or a nil result, lets it succeed.
	Fail func(Call) *Failure

	Metrics Metrics
	// KeepPrompts keeps the text of every prompt in the account.
	KeepPrompts bool
}

// Step is where a request stands when the time to its next token is asked for.
type Step struct {
	Request int // id, in order of arrival from 0
	Token   int // the next token, from 1
	Context int // prompt and output tokens so far
	Running int // requests that are generating, this one included
	// At is when the token before is due, since the start of the server.
	At time.Duration
}

// Call is a request when it has arrived.
type Call struct {
	Request      int // id, in order of arrival from 0
	At           time.Duration
	PromptTokens int
	Body         *wire.Request
}

// Preemption pauses a request that is generating, as an engine does that runs
// out of KV: the gauges show it as waiting, the counter moves, and every later
// token comes Pause later. It keeps its place among the running.
type Preemption struct {
	Request int
	At      time.Duration // since the start; ignored if the request is not generating then
	Pause   time.Duration
	// CountLate moves the counter when the request runs again, as vLLM does.
	CountLate bool
}

// FailureKind is a way to fail.
type FailureKind uint8

// The ways to fail. Those after a number of tokens happen when the next token would be due.
const (
	FailStatus FailureKind = iota // an HTTP error on arrival
	FailClose                     // the connection is closed on arrival, without a byte
	FailSilent                    // nothing is ever answered
	FailEvent                     // 200, then After tokens, then an error event
	FailDrop                      // After tokens, then the connection ends inside the body
	FailReset                     // After tokens, then a TCP reset
	FailHang                      // After tokens, then nothing more
	FailEnd                       // After tokens, then a proper end of the body without finish reason or usage
)

// Failure is one way to fail.
type Failure struct {
	Kind FailureKind
	// After is the number of tokens sent before.
	After int
	// Problem is what FailStatus answers and FailEvent sends; nil is wire.EngineBusy.
	Problem *wire.Problem
	// Done sends [DONE] after FailEvent and FailEnd.
	Done bool
	// Torn sends the first half of an event before FailDrop, FailReset, FailHang and FailEnd.
	Torn bool
	// Delay passes before FailStatus and FailClose.
	Delay time.Duration
}

// Framing is how events are put on the wire. The zero value is one write for
// each event, "data: {…}" and a blank line, each ended by LF.
type Framing struct {
	Ending string // "\n" (default), "\r\n" or "\r"
	// Endings end the lines in turn, in the place of Ending.
	Endings []string
	NoBlank bool // "data:{…}", without the blank after the colon
	BOM     bool // a byte order mark first
	// Comments is the number of comment lines before each event; Ping sends one
	// each so often until the first token.
	Comments int
	Ping     time.Duration
	// Fields adds event:, id: and retry: lines to each event.
	Fields bool
	// TwoLines cuts the data into two data lines.
	TwoLines bool
	// EventsPerWrite (default 1) token events are held back until the last is due.
	EventsPerWrite int
	// Split cuts what is written into pieces of these sizes, in turn, SplitPause
	// (default 1 ns, so that a reader in a bubble sees each) apart.
	Split      []int
	SplitPause time.Duration
	// LateBlank sends the blank line that ends an event only with the next event.
	LateBlank bool
	// NoDone leaves out [DONE]; NoFinalBlank the last blank line; NoFinalEnding also the last line's end.
	NoDone, NoFinalBlank, NoFinalEnding bool
	// ContentType replaces text/event-stream.
	ContentType string
	// NDJSON sends one JSON a line instead of events, without [DONE].
	NDJSON bool
	// Unchunked ends the body with the connection, as HTTP/1.0 does; Trailers sends fields behind it.
	Unchunked, Trailers bool
}

// Metrics is how /metrics (and /slots) answer.
type Metrics struct {
	Off bool // 404
	// Before and After are how long the answer takes before and after its values are read.
	Before, After time.Duration
	// Fail, if it gives a problem, answers the scrape of that index with it.
	Fail func(scrape int) *wire.Problem
	// Engines is the number of label sets that share the values; default 1.
	Engines int
	// Speculative shows counters as if each event had been one step of drafting.
	Speculative bool
	// Rewrite, if set, gives what the scrape of that index answers in the place of the text.
	Rewrite func(scrape int, text string) string
}
