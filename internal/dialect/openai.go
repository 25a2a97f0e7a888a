package dialect

import "speedmatrix/internal/sse"

// Chat is the chat endpoint of the OpenAI surface: the server applies the
// model's template.
func Chat() Dialect { return chat{} }

// Completions is the endpoint of raw prompts of the OpenAI surface, without a
// template.
func Completions() Dialect { return completions{} }

// openAI is what both endpoints have in common.
type openAI struct{}

func (openAI) Framing() sse.Framing                 { return sse.EventStream }
func (openAI) KeyVariable() string                  { return openAIKey }
func (openAI) Headers(key string) map[string]string { return bearer(key) }
func (openAI) Accept(p Params) Params               { return p }
func (openAI) NewDecoder() *Decoder                 { return new(Decoder) }

type chat struct{ openAI }

func (chat) Name() string    { return "chat" }
func (chat) Path() string    { return "/v1/chat/completions" }
func (chat) Templated() bool { return true }

func (chat) Body(p Params) ([]byte, error) {
	return openAIBody(p, member{"messages", messages(p)})
}

type completions struct{ openAI }

func (completions) Name() string    { return "completions" }
func (completions) Path() string    { return "/v1/completions" }
func (completions) Templated() bool { return false }

func (completions) Body(p Params) ([]byte, error) {
	return openAIBody(p, member{"prompt", untemplated(p)})
}

// streamOptions is the stream_options object.
type streamOptions struct {
	IncludeUsage    bool `json:"include_usage,omitzero"`
	ContinuousUsage bool `json:"continuous_usage_stats,omitzero"`
}

func openAIBody(p Params, text member) ([]byte, error) {
	b := newBody(p)
	options := streamOptions{p.IncludeUsage, p.ContinuousUsage}
	b.add(p.Model != "", "model", p.Model)
	b.add(true, text.key, text.value)
	b.add(p.MaxTokens > 0, "max_tokens", p.MaxTokens)
	b.add(p.Temperature != nil, "temperature", p.Temperature)
	b.add(p.Seed != nil, "seed", p.Seed)
	b.add(p.Stream, "stream", true)
	b.add(p.Stream && options != streamOptions{}, "stream_options", options)
	b.add(p.IgnoreEOS, "ignore_eos", true)
	b.add(p.TimingsPerToken, "timings_per_token", true)
	return b.encode()
}
