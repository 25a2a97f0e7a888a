package speedmatrix

import "time"

// Phase says what a cell measures.
type Phase string

// The phases of a run.
const (
	// PhasePrefill measures how fast a prompt is read: cold, one request at a time.
	PhasePrefill Phase = "prefill"
	// PhaseDecode measures sustained generation by C simultaneous requests.
	PhaseDecode Phase = "decode"
)

// Status says how a cell ended: exactly one per cell, the first that applies
// in the order of Statuses.
type Status string

// The statuses, in the order in which they are tested.
const (
	StatusSkipped            Status = "Skipped"
	StatusInterrupted        Status = "Interrupted"
	StatusExceedsModelLength Status = "Exceeds model length"
	StatusOverCapacity       Status = "Over capacity"
	StatusFailed             Status = "Failed"
	StatusClientLimited      Status = "Client limited"
	StatusLooped             Status = "Looped"
	StatusRequestsQueued     Status = "Requests queued"
	StatusNotReady           Status = "Not ready"
	StatusValid              Status = "Valid"
)

// Statuses lists every status in the order of precedence.
func Statuses() []Status {
	return []Status{
		StatusSkipped, StatusInterrupted, StatusExceedsModelLength, StatusOverCapacity, StatusFailed,
		StatusClientLimited, StatusLooped, StatusRequestsQueued, StatusNotReady, StatusValid,
	}
}

// ShowsSpeed says whether a cell of this status may show a speed in a table.
func (s Status) ShowsSpeed() bool { return s == StatusValid || s == StatusRequestsQueued }

// Explanation is the sentence a reader needs under a table in which the status occurs.
func (s Status) Explanation() string { return explanations[s] }

var explanations = map[Status]string{
	StatusSkipped:            "not run, because the user, the plan or the time limit said so.",
	StatusInterrupted:        "the run ended before this measurement was complete.",
	StatusExceedsModelLength: "not run because the prompt and 512 tokens of output do not fit the model's maximum length.",
	StatusOverCapacity:       "this many requests at this context exceed the server's KV cache.",
	StatusFailed:             "too many requests failed, so there is no number to show.",
	StatusClientLimited:      "this program was the bottleneck, so the measurement was discarded.",
	StatusLooped:             "the model kept repeating the same text, so the benchmark discarded this measurement.",
	StatusRequestsQueued:     "the server could not run all requests at once, so some waited in a queue.",
	StatusNotReady:           "not all requests were producing output within the time allowed.",
}

// TTFTKind says how much of the prompt the server already held when the time
// to first token was measured.
type TTFTKind string

// The kinds of time to first token.
const (
	TTFTCold    TTFTKind = "cold"    // nothing but the chat template came from a cache
	TTFTWarm    TTFTKind = "warm"    // the head came from the prefix cache
	TTFTMixed   TTFTKind = "mixed"   // some of the requests were cold, some warm
	TTFTUnknown TTFTKind = "unknown" // the server does not say, and the times do not tell
)

// TokenSource says how the output tokens of a cell were counted, best first.
type TokenSource string

// The token sources, best first.
const (
	TokensPerEventUsage TokenSource = "usage in every event"      // a cumulative count in every event
	TokensFinalUsage    TokenSource = "final usage"               // final usage spread over the request's events by length of text
	TokensTokenizer     TokenSource = "tokenizer"                 // the window's text through the server's tokenizer
	TokensCounters      TokenSource = "engine counters"           // tokens per event from the engine's live counters
	TokensWarmUp        TokenSource = "tokens per event, warm-up" // events × tokens per event of a finished warm-up request
	TokensEvents        TokenSource = "events (lower bound)"      // events alone: a lower bound
)

// Channel is the part of an answer that a piece of text belongs to.
type Channel uint8

// The channels of an answer.
const (
	ChannelContent Channel = iota
	ChannelReasoning
	ChannelTool
)

func (c Channel) String() string {
	switch c {
	case ChannelReasoning:
		return "reasoning"
	case ChannelTool:
		return "tool"
	}
	return "content"
}

// RequestClass is how a request ended: exactly one per request.
type RequestClass string

// The classes of a finished request.
const (
	RequestCompleted RequestClass = "completed" // a finish reason or [DONE], after at least one token
	RequestCut       RequestClass = "cut"       // ended by us
	RequestFailed    RequestClass = "failed"    // everything else
)

// Distribution summarises samples. Percentiles that the number of samples
// cannot support (p90 under 10, p95 under 20, p99 under 100) are null.
type Distribution struct {
	P50  *float64 `json:"p50"`
	P90  *float64 `json:"p90"`
	P95  *float64 `json:"p95"`
	P99  *float64 `json:"p99"`
	Min  *float64 `json:"min"`
	Max  *float64 `json:"max"`
	Mean *float64 `json:"mean"`
	N    int      `json:"n"`
	// Of says what one sample is: "requests", "streams", "events".
	Of string `json:"of,omitempty"`
}

// Interval is a 95 % confidence interval of a cell's total tokens per second.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// ContextTokens is the mean context of the streams in tokens (prompt and output
// so far) at the start, over, and at the end of the window.
type ContextTokens struct {
	Start float64 `json:"start"`
	Mean  float64 `json:"mean"`
	End   float64 `json:"end"`
}

// StepSeconds is how long each step of a cell took, in seconds.
type StepSeconds struct {
	Drain  float64 `json:"drain"`
	Fill   float64 `json:"fill"`
	Launch float64 `json:"launch"`
	Ramp   float64 `json:"ramp"`
	Window float64 `json:"window"`
	Stop   float64 `json:"stop"`
}

// RequestCounts counts the requests of a cell from launch to stop; the three
// classes sum to Sent.
type RequestCounts struct {
	Sent      int `json:"sent"`
	Completed int `json:"completed"`
	Cut       int `json:"cut"`
	Failed    int `json:"failed"`
}

// ClientQuality says how well this program could time one cell.
type ClientQuality struct {
	// StampSource is "kernel" or "user".
	StampSource string `json:"stamp_source"`
	// Reader says how the streams were read: "net/http", a goroutine for each, or "epoll", one for thousands.
	Reader string `json:"reader,omitempty"`
	// EventsPerRead is the mean number of events per read that carried any.
	EventsPerRead *float64 `json:"events_per_read"`
	// CoalescedShare is the share of those reads that carried more than one event.
	CoalescedShare *float64 `json:"coalesced_share"`
	// UnstampedReads is the number of reads without a kernel stamp.
	UnstampedReads int `json:"unstamped_reads"`
	// ReaderLagP99Micros is p99 of (return of the read − stamp), in µs.
	ReaderLagP99Micros *float64 `json:"reader_lag_p99_us"`
	// StampBoundP99Micros is p99, over the events, of the most that a stamp can be late because several events
	// came with one read, in µs: 0 where fewer than 1 in 200 did.
	StampBoundP99Micros *float64 `json:"stamp_bound_p99_us,omitempty"`
	// SendLateP99Micros is p99 of (first byte handed to the connection − planned), over the launch, in µs.
	SendLateP99Micros *float64 `json:"send_late_p99_us"`
	// Replays counts requests that were sent again because a reused connection was dead.
	Replays int `json:"replays"`
	// CPUShare is the CPU time of this process over the window, in cores.
	CPUShare *float64 `json:"cpu_cores"`
	// MachineCPUShare is the busy share (0–1) of this machine's CPU over the window.
	MachineCPUShare *float64 `json:"machine_cpu_share"`
	// GCPauseMaxMicros is the longest stop of this program by its garbage collector over the window, in µs.
	GCPauseMaxMicros *float64 `json:"gc_pause_max_us"`
}

// LoopEvidence keeps what the loop guard saw of one stream.
type LoopEvidence struct {
	Stream  int    `json:"stream"`
	Request int    `json:"request"`
	Channel string `json:"channel"`
	// PeriodChars is the length of the repeated piece in characters, Cycles how often it came.
	PeriodChars int    `json:"period_chars"`
	Cycles      int    `json:"cycles"`
	Excerpt     string `json:"excerpt"`
}

// CounterCheck compares the client's token count with the engine's own counter
// over the same span.
type CounterCheck struct {
	// Counter names the engine's counter.
	Counter string `json:"counter"`
	// SpanSeconds is the time between the two scrapes used; UncertaintySeconds is how far
	// from those instants the counter may have been read.
	SpanSeconds        float64 `json:"span_seconds"`
	UncertaintySeconds float64 `json:"uncertainty_seconds"`
	ServerTokens       float64 `json:"server_tokens"`
	ClientTokens       float64 `json:"client_tokens"`
}

// Cell is one measurement: one phase at one context and one concurrency.
// An unknown number is null, never zero.
type Cell struct {
	Phase        Phase  `json:"phase"`
	ContextLabel string `json:"context_label"`
	// Context is the planned prompt length in tokens; Concurrency the number of requests at once.
	Context     int    `json:"context"`
	Concurrency int    `json:"concurrency"`
	Status      Status `json:"status"`
	// Reason says why the status is not Valid, with the numbers that decided it.
	Reason string `json:"reason"`

	ContextTokens *ContextTokens `json:"context_tokens"`
	// PromptTokens and CachedTokens are medians per request, as the server reported them.
	PromptTokens *float64 `json:"prompt_tokens"`
	CachedTokens *float64 `json:"cached_tokens"`

	TotalTokensPerSecond      *float64  `json:"total_tokens_per_second"`
	Interval95                *Interval `json:"interval_95"`
	PerRequestTokensPerSecond *float64  `json:"per_request_tokens_per_second"`
	PromptTokensPerSecond     *float64  `json:"prompt_tokens_per_second"`

	TTFT              *Distribution `json:"ttft_ms"`
	TTFTKind          TTFTKind      `json:"ttft_kind"`
	VisibleTTFT       *Distribution `json:"visible_ttft_ms"`
	TimeBetweenTokens *Distribution `json:"time_between_tokens_ms"`
	EventGap          *Distribution `json:"event_gap_ms"`

	ActiveRequestsMean *float64       `json:"active_requests_mean"`
	CompletedRequests  *int           `json:"completed_requests"`
	FailedRequests     *int           `json:"failed_requests"`
	Requests           *RequestCounts `json:"requests"`

	// OutputTokens arrived in the window, which began at WindowStartedAt (UTC) and
	// lasted WindowSeconds.
	OutputTokens    *float64    `json:"output_tokens"`
	TokenSource     TokenSource `json:"token_source"`
	WindowStartedAt *time.Time  `json:"window_started_at"`
	WindowSeconds   *float64    `json:"window_seconds"`

	// QueuedShare is the share of the window (0–1) in which requests waited.
	QueuedShare *float64 `json:"queued_share"`
	// Preemptions is the engine's count from launch to the end of the cell.
	Preemptions *int         `json:"preemptions"`
	StepSeconds *StepSeconds `json:"step_seconds"`

	TokensPerEvent        *float64 `json:"tokens_per_event"`
	AcceptedTokensPerStep *float64 `json:"accepted_tokens_per_step"`

	// EnergyPerOutputToken and EnergyPerPromptToken (prefill) are joules of the server's GPUs, GPUPower their
	// mean draw together in watts; null where they were not measured.
	EnergyPerOutputToken *float64      `json:"energy_joules_per_output_token"`
	EnergyPerPromptToken *float64      `json:"energy_joules_per_prompt_token"`
	GPUPower             *float64      `json:"gpu_power_watts_mean"`
	GPUClock             *ClockSummary `json:"gpu_clock_mhz"`
	Throttle             *Throttle     `json:"throttle"`

	// Send is the time from the start of a request to its last byte in the socket;
	// Connect the time to open a connection where one had to be opened.
	Send    *Distribution `json:"send_ms"`
	Connect *Distribution `json:"connect_ms"`

	// PrefillSamples are the single cold samples of a prefill cell.
	PrefillSamples []PrefillSample `json:"prefill_samples,omitempty"`
	Loops          []LoopEvidence  `json:"loops,omitempty"`
	CounterCheck   *CounterCheck   `json:"counter_check,omitempty"`
	Client         *ClientQuality  `json:"client,omitempty"`
	// Repeats is the spread over all measurements of the cell, where it was measured more than once.
	Repeats *RepeatSummary `json:"repeats,omitempty"`
	// Attempts is how often the cell was measured; the numbers are those of the last.
	Attempts int `json:"attempts,omitempty"`
	// FirstError is the first failed request's error in the server's own words.
	FirstError string `json:"first_error,omitempty"`
	// TextSample is one line of what the model wrote.
	TextSample string    `json:"text_sample,omitempty"`
	Warnings   []Warning `json:"warnings,omitempty"`
}

// Attempted says whether any request of the cell was sent.
func (c *Cell) Attempted() bool {
	return c.Attempts > 0 || c.Requests != nil && c.Requests.Sent > 0 || c.WindowStartedAt != nil || c.StepSeconds != nil
}

// Key names the cell within its run: "decode-16k-x8".
func (c *Cell) Key() string { return CellKey(c.Phase, c.ContextLabel, c.Concurrency) }

// RepeatSummary is the spread of a cell's figures over its measurement in the matrix and those of Run.Repeats
// that showed a speed; one sample is one measurement.
type RepeatSummary struct {
	TotalTokensPerSecond      *Distribution `json:"total_tokens_per_second"`
	PerRequestTokensPerSecond *Distribution `json:"per_request_tokens_per_second"`
	// TTFT is over the medians of the measurements, in ms.
	TTFT *Distribution `json:"ttft_ms"`
}

// PrefillSample is one cold prefill: a request for one token.
type PrefillSample struct {
	PromptTokens float64  `json:"prompt_tokens"`
	CachedTokens *float64 `json:"cached_tokens"`
	TTFTMillis   float64  `json:"ttft_ms"`
	// Request is the id of the request in the cell's requests file.
	Request int `json:"request"`
}
