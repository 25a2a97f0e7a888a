package dialect

// Event is what one event of a stream says. The caller owns and reuses it; its
// slices, Usage and Timings belong to the decoder and are valid until the next
// call of Decode or Document.
type Event struct {
	// Content, Reasoning and Tool are the text that the event brought on each
	// channel, unescaped, valid UTF-8. Several may be there at once; empty means
	// absent. Tool is names and arguments of calls. A refusal is Content.
	Content, Reasoning, Tool []byte
	// Tokens is the cumulative count of completion tokens that the event carries,
	// −1 if none.
	Tokens int
	// Usage is set when the event says how many tokens prompt or answer have.
	Usage *Usage
	// Timings is set when the event says how long the server took (llama.cpp, Ollama).
	Timings *Timings
	// FinishReason is empty as long as the answer goes on. What the APIs call
	// otherwise is said in OpenAI's words: "stop", "length", "tool_calls".
	FinishReason []byte
	// Done says that this was the last event of the answer.
	Done bool
	// Error is the server's own words when the event is or has an error:
	// message, type, code. Empty if it has none.
	Error string
	// ErrorCode is the numeric code of that error, 0 if it has none.
	ErrorCode int
	// Surprise says that the event was no JSON (then nothing else is set), or had
	// a shape that no known server sends.
	Surprise bool
}

// Usage is what a server says of the tokens of a request. Each count is −1
// where it did not say it.
type Usage struct {
	Prompt     int // all tokens of the prompt, cached ones included
	Cached     int // of Prompt, those taken from a cache
	Completion int // all generated tokens, those of Reasoning included
	Reasoning  int // of Completion, those of the reasoning
}

// Timings is the server's own times: the timings object of llama.cpp, the
// durations of Ollama. A value is −1 where it was missing.
type Timings struct {
	PromptTokens    int // prompt tokens computed, cached ones excluded
	CachedTokens    int
	PredictedTokens int // tokens generated so far
	PromptMillis    float64
	PredictedMillis float64 // from the first token on
}
