package wire

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// The further APIs, with their whole paths.
const (
	Responses  API = "responses" // POST /v1/responses
	Messages   API = "messages"  // POST /v1/messages
	OllamaChat API = "ollama"    // POST /api/chat
	Generate   API = "generate"  // POST /generate_stream
)

// Path is the path of an API.
func (a API) Path() string {
	return map[API]string{
		Chat: "/v1/chat/completions", Completions: "/v1/completions", Responses: "/v1/responses", Messages: "/v1/messages",
		OllamaChat: "/api/chat", Generate: "/generate_stream",
	}[a]
}

// Templated says that the prompt is put into the model's chat template.
func (a API) Templated() bool { return a != Completions && a != Generate }

// ask is a body that is being read, its fields one by one. The first fault ends it.
type ask struct {
	fields  map[string]json.RawMessage
	under   string // where the fields stand, "" at the top
	problem *Problem
}

// take reads a field into a value; false if it is not there.
func (a *ask) take(name string, into any) bool {
	raw, there := a.fields[name]
	if a.problem != nil || !there || string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		a.problem = badRequest(a.under+name+": "+err.Error(), a.under+name)
	}
	return a.problem == nil
}

// need is take for a field that must be there.
func (a *ask) need(name string, into any) {
	if !a.take(name, into) && a.problem == nil {
		a.problem = missing(a.under + name)
	}
}

// inner gives the fields of an object; an empty one if it is not there.
func (a *ask) inner(name string) *ask {
	in := &ask{under: name + "."}
	a.take(name, &in.fields)
	in.problem = a.problem
	return in
}

// only refuses fields of other names.
func (a *ask) only(names ...string) {
	for name := range a.fields {
		if !slices.Contains(names, name) && a.problem == nil {
			a.problem = badRequest(a.under+name+": Extra inputs are not permitted", a.under+name)
		}
	}
}

// decodeAsk reads the body of a request to one of the further APIs.
func decodeAsk(r *Request) *Problem {
	a := &ask{fields: r.Fields}
	switch r.API {
	case Responses:
		r.askResponse(a)
	case Messages:
		r.askMessage(a)
	case OllamaChat:
		r.askOllama(a)
	case Generate:
		r.askGenerate(a)
	}
	if a.problem == nil && r.MaxTokens < 1 && r.MaxTokens != -1 {
		a.problem = MaxTokensTooSmall(r.MaxTokens)
	}
	return a.problem
}

// askResponse: input is a text, or a list of messages.
func (r *Request) askResponse(a *ask) {
	var instructions string
	var input json.RawMessage
	a.take("model", &r.Model)
	a.take("stream", &r.Stream)
	a.take("max_output_tokens", &r.MaxTokens)
	a.take("temperature", &r.Temperature)
	a.take("ignore_eos", &r.IgnoreEOS)
	if a.take("instructions", &instructions) {
		r.Messages = append(r.Messages, Message{"system", instructions})
	}
	a.need("input", &input)
	var text string
	if json.Unmarshal(input, &text) == nil {
		r.Messages = append(r.Messages, Message{"user", text})
		return
	}
	r.readMessages(a, "input")
}

// readMessages reads a list of messages.
func (r *Request) readMessages(a *ask, name string) {
	var list []messageBody
	if a.need(name, &list); a.problem == nil && len(list) == 0 {
		a.problem = missing(name)
	}
	for _, m := range list {
		text, err := contentText(m.Content)
		if err != nil {
			a.problem = badRequest(name+": "+err.Error(), name)
			return
		}
		r.Messages = append(r.Messages, Message{m.Role, text})
	}
}

// askMessage is as strict as the API: fields that it does not know are refused.
func (r *Request) askMessage(a *ask) {
	var system json.RawMessage
	a.need("model", &r.Model)
	a.need("max_tokens", &r.MaxTokens)
	a.take("stream", &r.Stream)
	a.take("temperature", &r.Temperature)
	if a.take("system", &system) {
		text, err := contentText(system)
		if err != nil {
			a.problem = badRequest("system: "+err.Error(), "system")
		}
		r.Messages = append(r.Messages, Message{"system", text})
	}
	r.readMessages(a, "messages")
	for _, m := range r.Messages {
		if m.Role == "system" && a.fields["system"] == nil {
			a.problem = badRequest(`messages: role "system" is not supported`, "messages")
		}
	}
	a.only("model", "max_tokens", "messages", "system", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "thinking",
		"tools", "tool_choice", "service_tier")
}

// askOllama: it streams unless told not to.
func (r *Request) askOllama(a *ask) {
	r.Stream, r.Truncate = true, true
	a.need("model", &r.Model)
	a.take("stream", &r.Stream)
	a.take("truncate", &r.Truncate)
	r.readMessages(a, "messages")
	options := a.inner("options")
	options.take("num_predict", &r.MaxTokens)
	options.take("temperature", &r.Temperature)
	a.problem = options.problem
}

// askGenerate: the path streams whatever the body says.
func (r *Request) askGenerate(a *ask) {
	r.Stream = true
	a.need("inputs", &r.Prompt)
	p := a.inner("parameters")
	p.take("max_new_tokens", &r.MaxTokens)
	if p.take("temperature", &r.Temperature) && *r.Temperature <= 0 {
		p.problem = &Problem{Status: http.StatusUnprocessableEntity, Message: "Input validation error: `temperature` must be strictly positive"}
	}
	a.problem = p.problem
}

// In is the problem in the words of an API; one that is Raw stays as it is.
func (p *Problem) In(api API) *Problem {
	if p.Raw != "" {
		return p
	}
	said := *p
	switch api {
	case Messages:
		fault := object(nil).text("type", anthropicFault(p.Status)).text("message", p.Message).end()
		said.Raw = string(object(nil).text("type", "error").raw("error", string(fault)).text("request_id", "req-0").end())
	case OllamaChat:
		said.Raw = string(object(nil).text("error", p.Message).end())
	case Generate:
		kind := "generation"
		switch {
		case p.Status == http.StatusServiceUnavailable:
			kind, said.Status = "overloaded", http.StatusTooManyRequests
		case p.Status < 500:
			kind, said.Status = "validation", http.StatusUnprocessableEntity
		}
		said.Raw = string(object(nil).text("error", p.Message).text("error_type", kind).end())
	}
	return &said
}

func anthropicFault(status int) string {
	names := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 503: "overloaded_error",
	}
	if name, ok := names[status]; ok {
		return name
	}
	return "api_error"
}

// InputTooLong is Ollama's answer to a prompt beyond its context that it may not cut.
func InputTooLong() *Problem {
	return &Problem{Status: http.StatusBadRequest, Message: "the input length exceeds the context length"}
}

// NoVersion is Anthropic's answer to a request that does not name the version of the API.
func NoVersion() *Problem {
	return &Problem{Status: http.StatusBadRequest, Message: "anthropic-version: header is required"}
}

// Key is the key that a request's headers carry, "" for none: Anthropic's API
// has a header of its own, all others take a bearer.
func Key(api API, h http.Header) string {
	if api == Messages {
		return h.Get("x-api-key")
	}
	bearer, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return bearer
}
