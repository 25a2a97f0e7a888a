// Package dialect knows how the completion endpoints of the OpenAI surface are
// asked and what their answers mean: it builds request bodies and decodes the
// events of a streamed answer, in every variation that servers send.
package dialect

import (
	"fmt"

	"speedmatrix"
)

// Dialect is one endpoint of the OpenAI surface.
type Dialect interface {
	// Name is "chat" or "completions".
	Name() string
	// Path is the path of the endpoint, "/v1/chat/completions" or
	// "/v1/completions", to be joined to a base URL that may end in /v1 or not.
	Path() string
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
	// Prompt is the whole user text (chat) or the prompt (completions).
	Prompt      string
	MaxTokens   int
	Temperature *float64 // nil: left to the server

	IgnoreEOS bool // ignore_eos: generate on to the limit
	// IncludeUsage and ContinuousUsage ask for the usage at the end and in every
	// event. They are stream options, sent only with Stream.
	IncludeUsage, ContinuousUsage bool
	TimingsPerToken               bool // timings_per_token: llama.cpp's counts in every event
	Stream                        bool

	// Extra are top-level fields of the body; they replace those above.
	Extra map[string]any
}

// ByName gives the dialect of a name, "chat" or "completions".
func ByName(name string) (Dialect, error) {
	for _, d := range []Dialect{Chat(), Completions()} {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, &speedmatrix.Error{
		Kind: speedmatrix.KindUsage,
		What: fmt.Sprintf("unknown API %q", name),
		Next: "Use chat or completions.",
	}
}

// Chat is the chat endpoint: the server applies the model's template.
func Chat() Dialect { return chat{} }

// Completions is the endpoint of raw prompts, without a template.
func Completions() Dialect { return completions{} }

type chat struct{}

func (chat) Name() string         { return "chat" }
func (chat) Path() string         { return "/v1/chat/completions" }
func (chat) NewDecoder() *Decoder { return new(Decoder) }

func (chat) Body(p Params) ([]byte, error) {
	messages := make([]message, 0, 2)
	if p.System != "" {
		messages = append(messages, message{Role: "system", Content: p.System})
	}
	messages = append(messages, message{Role: "user", Content: p.Prompt})
	return body(p, member{"messages", messages})
}

type completions struct{}

func (completions) Name() string         { return "completions" }
func (completions) Path() string         { return "/v1/completions" }
func (completions) NewDecoder() *Decoder { return new(Decoder) }

func (completions) Body(p Params) ([]byte, error) {
	prompt := p.Prompt
	if p.System != "" {
		prompt = p.System + "\n\n" + prompt
	}
	return body(p, member{"prompt", prompt})
}
