package speedmatrix

import (
	"fmt"
	"strings"
	"time"
)

// Origin says where the numbers of a run come from.
type Origin string

// The origins of a run.
const (
	OriginMeasured  Origin = "measured"
	OriginPredicted Origin = "predicted"
	OriginImported  Origin = "imported"
)

// Run is the document run.json: one measurement of one server set-up.
type Run struct {
	Schema string `json:"schema"`
	// ID sorts by time: "20261130T201500Z-qwen3-coder-30b-rtx3090-x7k2".
	ID         string     `json:"id"`
	Tool       Tool       `json:"tool"`
	Origin     Origin     `json:"origin"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	// Ended says why a run that is not complete ended: "" while it runs and when it is complete.
	Ended string `json:"ended,omitempty"`

	Method        Method    `json:"method"`
	Model         Facts     `json:"model"`
	Hardware      Facts     `json:"hardware"`
	Engine        Facts     `json:"engine"`
	LaunchCommand *Fact     `json:"launch_command"`
	Server        Server    `json:"server"`
	Plan          Plan      `json:"plan"`
	Client        Client    `json:"client"`
	Warnings      []Warning `json:"warnings"`
	Findings      []Finding `json:"findings"`
	// Telemetry is null where the machine was not sampled.
	Telemetry *Telemetry `json:"telemetry"`

	Cells   []Cell   `json:"cells"`
	Drift   *Drift   `json:"drift"`
	Repeats []Repeat `json:"repeats"`
	// Interleaved is set where another server was measured in alternation with this one.
	Interleaved *Interleaved `json:"interleaved,omitempty"`
}

// Interleaved says with which run this one was measured in alternation, cell by cell: the
// measurements of the same round belong together.
type Interleaved struct {
	// With is the other run's id; Side is "A" or "B", this run's place in the comparison.
	With string `json:"with"`
	Side string `json:"side"`
}

// Tool is the program that wrote a run.
type Tool struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go,omitempty"`
	Platform string `json:"platform,omitempty"`
}

// Server is what the run found out about the endpoint itself.
type Server struct {
	// URL has no credentials and no query.
	URL string `json:"url"`
	API string `json:"api"`
	// RoundTripMillis is the median time of a small request to the server and back.
	RoundTripMillis *float64 `json:"round_trip_ms"`
	// SameMachine says whether client and server share the machine.
	SameMachine bool   `json:"same_machine"`
	Habits      Habits `json:"habits"`
}

// Habits is what a trial showed of the way the server streams.
type Habits struct {
	// UsageEveryEvent: a cumulative token count in every event. FinalUsage: usage at the end.
	UsageEveryEvent bool `json:"usage_every_event"`
	FinalUsage      bool `json:"final_usage"`
	CachedTokens    bool `json:"cached_tokens"`
	IgnoresEOS      bool `json:"ignores_eos"`
	Tokenizer       bool `json:"tokenizer"`
	// TokensPerEvent of a finished request of the warm-up; 0 is unknown.
	TokensPerEvent float64 `json:"tokens_per_event"`
	// TokensPerRead is how many events the server flushes at once at one request.
	EventsPerRead  float64 `json:"events_per_read"`
	CoalescedShare float64 `json:"coalesced_share"`
	// KeepsConnections says whether a connection could be used again after a stream.
	KeepsConnections bool `json:"keeps_connections"`
	// LeastOutputTokens is the least limit of output tokens that the server takes, 0 for 1: what times a prompt asks for it.
	LeastOutputTokens int `json:"least_output_tokens,omitempty"`
	// TemplateTokens is what the chat template adds to a prompt.
	TemplateTokens int `json:"template_tokens"`
	// CharsPerToken of the prompt text, from the warm-up.
	CharsPerToken float64 `json:"chars_per_token"`
}

// Method is every setting that can change a number.
type Method struct {
	// Name is "standard/1", "quick/1" or "compat/llm-inference-bench".
	Name            string  `json:"name"`
	DurationSeconds float64 `json:"duration_seconds"`
	// MinWindowSeconds, WindowTokens, MinTokens and MaxExtension shape the window: it ends at
	// DurationSeconds or WindowTokens by the slowest stream, not before MinWindowSeconds, and is
	// extended to MinTokens per stream, at most MaxExtension × DurationSeconds.
	MinWindowSeconds float64 `json:"min_window_seconds"`
	WindowTokens     int     `json:"window_tokens"`
	MinTokens        int     `json:"min_tokens"`
	MaxExtension     float64 `json:"max_extension"`
	// Precision, if above 0, is the half width of the 95 % interval, as a share, at which a window may end early.
	Precision float64 `json:"precision"`
	MaxOutput int     `json:"max_output"`
	// Prompts is "distinct", "shared" or "shared-prefix"; Text names the source and TextSHA256 its bytes.
	Prompts    string `json:"prompts"`
	Text       string `json:"text"`
	TextSHA256 string `json:"text_sha256"`
	Salt       string `json:"salt"`
	// Temperature is a number as text, or "server".
	Temperature  string         `json:"temperature"`
	Body         map[string]any `json:"body,omitempty"`
	KVPlan       string         `json:"kv_plan"`
	API          string         `json:"api"`
	SharedServer bool           `json:"shared_server"`
	Repeat       int            `json:"repeat"`
}

// The methods.
const (
	MethodStandard = "standard/1"
	MethodQuick    = "quick/1"
	MethodCompat   = "compat/llm-inference-bench"
)

// Plan is what the run set out to measure.
type Plan struct {
	Contexts    []int   `json:"contexts"`
	Concurrency []int   `json:"concurrency"`
	Prefill     []int   `json:"prefill"`
	MaxSeconds  float64 `json:"max_seconds"`
	// ExpectedSeconds and PromptTokens are the estimates at the start.
	ExpectedSeconds float64 `json:"expected_seconds"`
	PromptTokens    float64 `json:"prompt_tokens"`
	// Resumed counts how often the run was gone on with.
	Resumed int `json:"resumed"`
	// TakenSeconds is the time from start to end, SeparateSeconds what the same cells would have taken with prefill
	// samples apart from the fills and with windows of the method's whole duration. Both are nil unless a run of
	// method standard/1 went from start to end by itself.
	TakenSeconds    *float64 `json:"taken_seconds,omitempty"`
	SeparateSeconds *float64 `json:"separate_seconds,omitempty"`
}

// Client is how well this program could measure on this machine.
type Client struct {
	StampSource string `json:"stamp_source"`
	// StampErrorP50Micros and StampErrorP99Micros are the self-check's (stamp − server's send time), in µs.
	StampErrorP50Micros *float64 `json:"stamp_error_p50_us"`
	StampErrorP99Micros *float64 `json:"stamp_error_p99_us"`
	SelfCheckStreams    int      `json:"self_check_streams"`
	SelfCheckRate       float64  `json:"self_check_tokens_per_second"`
	CPUs                int      `json:"cpus"`
	GOMAXPROCS          int      `json:"gomaxprocs"`
	// ClockSteps counts steps of the wall clock during the run.
	ClockSteps int `json:"clock_steps"`
}

// Warning is a doubt about a number, attached to it.
type Warning struct {
	// Code is stable and for programs; Message is a sentence for people.
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Finding is something that makes the run unrepresentative, with its evidence and a way to mend it.
type Finding struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Evidence string `json:"evidence,omitempty"`
	Fix      string `json:"fix,omitempty"`
}

// Drift is the first cell measured again at the end.
type Drift struct {
	Cell Cell `json:"cell"`
	// Change is (again − first) ÷ first of total tok/s; Significant when beyond both intervals and at least LeastDrift.
	Change      *float64 `json:"change"`
	Significant bool     `json:"significant"`
}

// LeastDrift is the change, as a share, below which a drift is none: the intervals are those of a window each, and what
// another measurement differs by anyway is outside of them.
const LeastDrift = 0.01

// Repeat is one more measurement of the decode matrix.
type Repeat struct {
	Index int    `json:"index"`
	Cells []Cell `json:"cells"`
}

// CellKey names a cell in files and links: lower case, "decode-16k-x8".
func CellKey(phase Phase, label string, concurrency int) string {
	key := fmt.Sprintf("%s-%s", phase, strings.ToLower(strings.ReplaceAll(label, ",", "")))
	if phase == PhasePrefill {
		return key
	}
	return fmt.Sprintf("%s-x%d", key, concurrency)
}

// FindCell gives the cell of that place in the matrix, or nil.
func (r *Run) FindCell(phase Phase, context, concurrency int) *Cell {
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Phase == phase && c.Context == context && c.Concurrency == concurrency {
			return c
		}
	}
	return nil
}

// CapsOutput says whether the user's own fields of a request's body decide how many tokens it may have, so that
// Method.MaxOutput does not.
func CapsOutput(body map[string]any) bool {
	for _, field := range []string{"max_tokens", "max_completion_tokens", "n"} {
		if _, there := body[field]; there {
			return true
		}
	}
	return false
}
