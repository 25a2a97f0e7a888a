package wire

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Problem is an error answer of a server.
type Problem struct {
	Status  int
	Message string
	Type    string
	// Param names the field at fault; "" is sent as null.
	Param string
	// Raw, if not "", is the whole body instead of the OpenAI error object, of type ContentType.
	Raw         string
	ContentType string
	// RetryAfter and Location are the headers of these names, "" for none.
	RetryAfter, Location string
}

// Body is the JSON of the problem (or Raw). It is also the data of an error
// event inside a stream.
func (p *Problem) Body() []byte {
	if p.Raw != "" {
		return []byte(p.Raw)
	}
	b := append([]byte(nil), `{"error":{"message":`...)
	b = AppendString(b, p.Message)
	b = append(b, `,"type":`...)
	b = AppendString(b, p.Type)
	b = append(b, `,"param":`...)
	if p.Param == "" {
		b = append(b, "null"...)
	} else {
		b = AppendString(b, p.Param)
	}
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	return append(b, "}}"...)
}

// Write answers with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	kind := p.ContentType
	if kind == "" {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	if p.RetryAfter != "" {
		w.Header().Set("Retry-After", p.RetryAfter)
	}
	if p.Location != "" {
		w.Header().Set("Location", p.Location)
	}
	body := p.Body()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may be gone; there is nobody to tell
}

// UnknownModel is vLLM's answer to a model that it does not serve.
func UnknownModel(asked string, served ...string) *Problem {
	return &Problem{
		Status: http.StatusNotFound, Type: "NotFoundError", Param: "model",
		Message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", asked, strings.Join(served, ", ")),
	}
}

// PromptTooLong is vLLM's answer to a prompt text beyond its context of limit tokens.
func PromptTooLong(limit int) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Type: "BadRequestError", Param: "input_tokens",
		Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "+
			"(parameter=input_tokens, value=%d)", limit, limit+1, limit+1),
	}
}

// MaxTokensTooSmall is vLLM's answer when nothing could be generated: the
// request says so, or its prompt fills the context (got 0).
func MaxTokensTooSmall(got int) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Type: "BadRequestError", Param: "max_tokens",
		Message: fmt.Sprintf("max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%d)", got, got),
	}
}

// MaxTokensTooLarge is vLLM's answer to a limit of output tokens beyond its context.
func MaxTokensTooLarge(asked, limit int) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Type: "BadRequestError", Param: "max_tokens",
		Message: fmt.Sprintf("max_tokens=%d cannot be greater than max_model_len=%d. (parameter=max_tokens, value=%d)", asked, limit, asked),
	}
}

// EngineBusy is vLLM's answer beyond its limit of queued requests. In a stream
// it comes as an event of an answer with status 200, followed by [DONE].
func EngineBusy() *Problem {
	return &Problem{
		Status: http.StatusServiceUnavailable, Type: "Service Unavailable",
		Message: "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
	}
}

// UnknownField is a strict server's answer to a field that it does not know.
func UnknownField(name string) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Param: name,
		Message: "Unrecognized request argument supplied: " + name,
	}
}

// Unauthorized is vLLM's answer to a missing or wrong key.
func Unauthorized() *Problem {
	return &Problem{Status: http.StatusUnauthorized, Raw: `{"error":"Unauthorized"}`}
}

// NotFound is vLLM's answer to a path that it does not route.
func NotFound() *Problem {
	return &Problem{Status: http.StatusNotFound, Raw: `{"detail":"Not Found"}`}
}

// Loading is llama.cpp's answer on every route while it loads the model.
func Loading() *Problem {
	return &Problem{
		Status: http.StatusServiceUnavailable,
		Raw:    `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`,
	}
}

// ContextExceeded is llama.cpp's answer to a prompt beyond the context of a slot.
func ContextExceeded(prompt, limit int) *Problem {
	return &Problem{
		Status: http.StatusBadRequest,
		Raw: fmt.Sprintf(`{"error":{"code":400,"message":"request (%d tokens) exceeds the available context size (%d tokens), try increasing it",`+
			`"type":"exceed_context_size_error","n_prompt_tokens":%d,"n_ctx":%d}}`, prompt, limit, prompt, limit),
	}
}

// ContextFull is the event with which llama.cpp ends every running stream when
// the KV cache that its slots share is full: no usage and no [DONE] follow.
func ContextFull() *Problem {
	return &Problem{
		Status: http.StatusInternalServerError,
		Raw:    `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`,
	}
}
