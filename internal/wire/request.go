package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Message is one message of a chat.
type Message struct {
	Role string
	// Content is the text; parts of a list are joined without a separator.
	Content string
}

// Request is a decoded request for text.
type Request struct {
	API API
	// Model is "" if the request does not name one.
	Model string
	// Messages of a chat; Prompt or PromptIDs of a completion.
	Messages  []Message
	Prompt    string
	PromptIDs []int
	// MaxTokens is max_tokens or max_completion_tokens, −1 if not given.
	MaxTokens   int
	MinTokens   int
	Temperature *float64

	Stream          bool
	IncludeUsage    bool // stream_options.include_usage
	ContinuousUsage bool // stream_options.continuous_usage_stats
	IgnoreEOS       bool
	TimingsPerToken bool // llama.cpp
	ReturnTokenIDs  bool // vLLM
	Truncate        bool // Ollama may cut a prompt that is too long

	// Fields has every top-level field as it was sent.
	Fields map[string]json.RawMessage
}

// requestBody is the JSON of both APIs.
type requestBody struct {
	Model               string          `json:"model"`
	Messages            []messageBody   `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	Temperature         *float64        `json:"temperature"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	IgnoreEOS       bool `json:"ignore_eos"`
	TimingsPerToken bool `json:"timings_per_token"`
	ReturnTokenIDs  bool `json:"return_token_ids"`
}

type messageBody struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Decode reads the body of a request for text. What is wrong with it comes
// back as the problem to answer with.
func Decode(api API, body []byte) (*Request, *Problem) {
	var b requestBody
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, badRequest("JSON decode error: "+err.Error(), "")
	}
	if api != Chat && api != Completions {
		r := &Request{API: api, MaxTokens: -1, Fields: fields}
		if problem := decodeAsk(r); problem != nil {
			return nil, problem
		}
		return r, nil
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badRequest(err.Error(), "body")
	}
	r := &Request{
		API: api, Model: b.Model, MaxTokens: -1, MinTokens: b.MinTokens, Temperature: b.Temperature, Stream: b.Stream,
		IncludeUsage: b.StreamOptions.IncludeUsage, ContinuousUsage: b.StreamOptions.ContinuousUsage,
		IgnoreEOS: b.IgnoreEOS, TimingsPerToken: b.TimingsPerToken, ReturnTokenIDs: b.ReturnTokenIDs, Fields: fields,
	}
	for _, limit := range []*int{b.MaxTokens, b.MaxCompletionTokens} {
		if limit != nil {
			r.MaxTokens = *limit
		}
	}
	if r.MaxTokens < 1 && r.MaxTokens != -1 {
		return nil, MaxTokensTooSmall(r.MaxTokens)
	}
	if problem := r.readPrompt(&b); problem != nil {
		return nil, problem
	}
	return r, nil
}

func (r *Request) readPrompt(b *requestBody) *Problem {
	if r.API == Completions {
		return r.readText(b.Prompt)
	}
	if len(b.Messages) == 0 {
		return missing("messages")
	}
	for _, m := range b.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return badRequest(err.Error(), "body.messages")
		}
		r.Messages = append(r.Messages, Message{Role: m.Role, Content: text})
	}
	return nil
}

// readText takes a prompt that is a text, a list of token ids, or a list of one of those.
func (r *Request) readText(raw json.RawMessage) *Problem {
	if len(raw) == 0 || string(raw) == "null" {
		return missing("prompt")
	}
	var (
		text string
		ids  []int
		list []json.RawMessage
	)
	switch {
	case json.Unmarshal(raw, &text) == nil:
		r.Prompt = text
		return nil
	case json.Unmarshal(raw, &ids) == nil:
		r.PromptIDs = ids
		return nil
	case json.Unmarshal(raw, &list) == nil && len(list) == 1:
		return r.readText(list[0])
	}
	return badRequest("prompt must be one text or one list of token ids", "body.prompt")
}

// contentText gives the text of a message's content: a text, null, or a list of parts.
func contentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content is neither a text nor a list of parts: %w", err)
	}
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
	}
	return all.String(), nil
}

// Has says whether the request carries a field: "ignore_eos", or one a level
// down as "stream_options.continuous_usage_stats".
func (r *Request) Has(path string) bool {
	name, inner, nested := strings.Cut(path, ".")
	raw, ok := r.Fields[name]
	if !ok || !nested {
		return ok
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	_, ok = fields[inner]
	return ok
}

// Text is the whole text of the prompt, messages joined by line ends.
func (r *Request) Text() string {
	if !r.API.Templated() {
		return r.Prompt
	}
	texts := make([]string, len(r.Messages))
	for i, m := range r.Messages {
		texts[i] = m.Content
	}
	return strings.Join(texts, "\n")
}

// TokenizeRequest is the body of POST /tokenize: a prompt or a chat (vLLM), or
// a content (llama.cpp).
type TokenizeRequest struct {
	Model    string
	Messages []Message
	// Text is the prompt or content where there are no messages.
	Text string
}

// DecodeTokenize reads the body of POST /tokenize.
func DecodeTokenize(body []byte) (*TokenizeRequest, *Problem) {
	var b struct {
		Model    string        `json:"model"`
		Prompt   *string       `json:"prompt"`
		Content  *string       `json:"content"`
		Messages []messageBody `json:"messages"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badRequest("JSON decode error: "+err.Error(), "")
	}
	r := &TokenizeRequest{Model: b.Model}
	for _, m := range b.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return nil, badRequest(err.Error(), "body.messages")
		}
		r.Messages = append(r.Messages, Message{Role: m.Role, Content: text})
	}
	switch {
	case b.Prompt != nil:
		r.Text = *b.Prompt
	case b.Content != nil:
		r.Text = *b.Content
	case len(r.Messages) == 0:
		return nil, missing("prompt")
	}
	return r, nil
}

func badRequest(message, param string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Message: message, Type: "BadRequestError", Param: param}
}

func missing(field string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Message: "Field required: " + field, Type: "Bad Request", Param: "body." + field}
}
