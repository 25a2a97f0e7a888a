// Package dialect knows how the APIs of LLM servers are asked for text and what
// their answers mean: it builds request bodies and decodes the events of a
// streamed answer, in every variation that servers send.
package dialect

import (
	"fmt"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/sse"
)

// Dialect is one API, that is one way to ask a server for text.
type Dialect interface {
	// Name is what users call it: "chat", "completions", "responses",
	// "anthropic", "ollama" or "tgi".
	Name() string
	// Path is the path of the endpoint, such as "/v1/chat/completions", to be
	// joined to a base URL that may end in its first part or not.
	Path() string
	// Framing is how the events of an answer are put on the wire.
	Framing() sse.Framing
	// Templated says that the server puts the prompt into the model's chat
	// template; else the model reads it as it is.
	Templated() bool
	// KeyVariable is the environment variable in which users keep the key.
	KeyVariable() string
	// Headers are those that the API asks for, the key among them unless it is "".
	Headers(key string) map[string]string
	// Accept clears in p what the API has no field for, so that nobody waits
	// for its effect. Body leaves the same out.
	Accept(p Params) Params
	// Body is the JSON body of a request. It fails only for a value in
	// Params.Extra or a temperature that JSON cannot carry.
	Body(p Params) ([]byte, error)
	// NewDecoder gives a decoder for the answers of one stream.
	NewDecoder() *Decoder
}

// Params is what a request asks for. A zero field is not sent.
type Params struct {
	Model  string
	System string // optional; in front of the prompt where the endpoint knows no roles
	// Prompt is the whole user text, or the prompt where there are no roles.
	Prompt      string
	MaxTokens   int
	Temperature *float64 // nil: left to the server
	Seed        *int     // nil: left to the server

	IgnoreEOS bool // generate on to the limit
	// IncludeUsage and ContinuousUsage ask for the usage at the end and in every
	// event. They are stream options, sent only with Stream.
	IncludeUsage, ContinuousUsage bool
	TimingsPerToken               bool // timings_per_token: llama.cpp's counts in every event
	Stream                        bool

	// Extra are top-level fields of the body; they replace those above. Where the
	// API keeps its settings in an object of their own, Extra's object of that name
	// is merged into ours.
	Extra map[string]any
}

// All gives every dialect.
func All() []Dialect {
	return []Dialect{Chat(), Completions(), Responses(), Anthropic(), Ollama(), TGI()}
}

// Names gives the names of all dialects.
func Names() []string {
	var names []string
	for _, d := range All() {
		names = append(names, d.Name())
	}
	return names
}

// ByName gives the dialect of a name.
func ByName(name string) (Dialect, error) {
	for _, d := range All() {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, &speedmatrix.Error{
		Kind: speedmatrix.KindUsage,
		What: fmt.Sprintf("unknown API %q", name),
		Next: "Use " + listed(Names()) + ".",
	}
}

// listed joins words as in a sentence: "a, b or c".
func listed(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// openAIKey is the variable that most programs of this kind take their key from.
const openAIKey = "OPENAI_API_KEY"

// bearer is the header in which most servers want their key.
func bearer(key string) map[string]string {
	if key == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + key}
}
