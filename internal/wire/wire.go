// Package wire is the server side of the OpenAI-compatible surface, in the
// words of vLLM and llama.cpp: decoded requests, encoded stream chunks and
// documents, error bodies, the framing of server-sent events and the
// Prometheus text of /metrics. It knows how things are written, and nothing
// about when or why.
package wire

// API is one of the two ways to ask for text.
type API string

// The APIs, with their paths below /v1.
const (
	Chat        API = "chat"        // POST /v1/chat/completions
	Completions API = "completions" // POST /v1/completions
)

// Done is the data of the last event of a stream.
const Done = "[DONE]"

// The channels of a chunk's text.
const (
	Content   = "content"
	Reasoning = "reasoning"
	Tool      = "tool"
)

// The finish reasons.
const (
	FinishStop   = "stop"   // the model ended by itself
	FinishLength = "length" // the limit of output tokens or of the context
	FinishAbort  = "abort"  // ended by the server's abort endpoint
)
