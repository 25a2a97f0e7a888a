package speedmatrix

// EventRow is one recorded event of a request, as it stands in a cell's event
// file: cells/decode-16k-x8.parquet.
type EventRow struct {
	// Request and Stream say whose event it is.
	Request int32 `parquet:"request,delta"`
	Stream  int32 `parquet:"stream"`
	// TimeNS is the arrival, in nanoseconds since 1970 (UTC), on a scale that does not step.
	TimeNS int64 `parquet:"t_ns,delta"`
	// TextLength is the text's length in bytes; 0 for an event that only moved the token count.
	TextLength int32 `parquet:"text_length"`
	// Tokens is the cumulative count of the request that the event carried; null without one.
	Tokens *int32 `parquet:"tokens,optional"`
	// Channel is "content", "reasoning" or "tool".
	Channel string `parquet:"channel,dict"`
	// Continued marks the second channel of the same event: it is not an event of its own.
	Continued bool `parquet:"continued"`
}

// RequestRow is one request of a cell, as it stands in requests-….parquet. Times are
// nanoseconds since 1970 (UTC) on the same scale as EventRow.TimeNS; null is unknown.
type RequestRow struct {
	Request int32 `parquet:"request"`
	// Stream is −1 for a request that belongs to no stream (a fill, a ping).
	Stream int32 `parquet:"stream"`
	// Purpose is "fill", "launch", "restart" or "ping".
	Purpose string `parquet:"purpose,dict"`
	// Head numbers the head of the prompt, Tail the tail.
	Head int32 `parquet:"head"`
	Tail int32 `parquet:"tail"`

	PlannedNS      int64  `parquet:"planned_ns"`
	WrittenNS      *int64 `parquet:"written_ns,optional"`       // last byte of the request in the socket
	HeadersNS      *int64 `parquet:"headers_ns,optional"`       // answer's headers read
	FirstNS        *int64 `parquet:"first_ns,optional"`         // first event with text of any channel
	FirstVisibleNS *int64 `parquet:"first_visible_ns,optional"` // the same for content only
	LastNS         *int64 `parquet:"last_ns,optional"`          // last event with text
	EndedNS        *int64 `parquet:"ended_ns,optional"`         // the stream's end, or our cut

	Class        string `parquet:"class,dict"`
	HTTPStatus   int32  `parquet:"http_status"`
	FinishReason string `parquet:"finish_reason,dict"`
	// Error is the failure in the server's own words.
	Error string `parquet:"error,optional"`

	PromptTokens     *int32 `parquet:"prompt_tokens,optional"`
	CachedTokens     *int32 `parquet:"cached_tokens,optional"`
	CompletionTokens *int32 `parquet:"completion_tokens,optional"`
	// ReasoningTokens are those of CompletionTokens that are reasoning.
	ReasoningTokens *int32 `parquet:"reasoning_tokens,optional"`
	// WindowTokens is what the server's tokenizer made of the text that arrived in the window.
	WindowTokens *int32 `parquet:"window_tokens,optional"`

	// SendNS is from the start of the request to its last byte in the socket; ConnectNS the time
	// to open its connection, null when one was open already.
	SendNS    *int64 `parquet:"send_ns,optional"`
	ConnectNS *int64 `parquet:"connect_ns,optional"`
	Replays   int32  `parquet:"replays"`
}

// ServerRow is one scrape of the server, as it stands in server.parquet. A value
// that the server did not give is null, never zero.
type ServerRow struct {
	SentNS     int64 `parquet:"sent_ns,delta"`
	ReceivedNS int64 `parquet:"received_ns,delta"`
	// Cell is the key of the cell being measured, "" between cells.
	Cell string `parquet:"cell,dict"`
	// Error says why the scrape failed; all values are null then.
	Error string `parquet:"error,optional"`

	Running     *float64 `parquet:"running,optional"`
	Waiting     *float64 `parquet:"waiting,optional"`
	KVUsage     *float64 `parquet:"kv_usage,optional"` // 0–1
	Preemptions *float64 `parquet:"preemptions,optional"`
	// GenerationTokens is a live counter of generated tokens; PromptTokens of prompt tokens read.
	GenerationTokens *float64 `parquet:"generation_tokens,optional"`
	PromptTokens     *float64 `parquet:"prompt_tokens,optional"`
	PrefixHits       *float64 `parquet:"prefix_hits,optional"`
	PrefixQueries    *float64 `parquet:"prefix_queries,optional"`
	Drafts           *float64 `parquet:"drafts,optional"`
	DraftsAccepted   *float64 `parquet:"drafts_accepted,optional"`
}

// MiddleNS is the instant that the scrape is taken to speak of.
func (r *ServerRow) MiddleNS() int64 { return r.SentNS + (r.ReceivedNS-r.SentNS)/2 }
