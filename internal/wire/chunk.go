package wire

import "strconv"

// Stream is what all chunks of one answer have in common.
type Stream struct {
	API     API
	ID      string
	Model   string
	Created int64 // seconds since 1970
	// ReasoningField names the field of reasoning text: "reasoning" (the
	// default), "reasoning_content", or "both" for the same text in both.
	ReasoningField string
	// TokenIDs adds vLLM's "token_ids":null to every choice.
	TokenIDs bool
}

// UsagePlace is where in a chunk the usage object stands.
type UsagePlace uint8

// The places of a usage object.
const (
	UsageTop    UsagePlace = iota // beside choices
	UsageChoice                   // inside choices[0]
	UsageXGroq                    // inside x_groq
)

// Usage is a usage object. −1 leaves a field out.
type Usage struct {
	Prompt     int
	Completion int
	// Total is Prompt + Completion where it is 0.
	Total int
	// Cached and Reasoning stand in the details objects, which are left out with them.
	Cached    int
	Reasoning int
}

// Timings is llama.cpp's timings object.
type Timings struct {
	// Prompt tokens read, without the Cached ones; Predicted tokens generated.
	Cached, Prompt, Predicted     int
	PromptMillis, PredictedMillis float64
}

// Chunk is one event of a stream. The zero value has one choice with an empty text.
type Chunk struct {
	// Role says the assistant's role; RoleNull with a content of null (llama.cpp)
	// and not "" (vLLM).
	Role, RoleNull bool
	// Channel is Content (or ""), Reasoning or Tool.
	Channel string
	Text    string
	// ToolName opens a tool call.
	ToolName string
	// Finish is the finish reason; "" is sent as null.
	Finish string
	// Bare leaves the text out altogether: a delta of {}.
	Bare bool
	// NoChoices sends an empty list of choices, as in the event of final usage.
	NoChoices bool

	Usage      *Usage
	UsagePlace UsagePlace
	// UsageNull sends "usage":null where Usage is nil.
	UsageNull bool
	Timings   *Timings
}

// Encoder writes the chunks of one answer. What they share is encoded once.
type Encoder struct {
	api       API
	head      []byte
	reasoning []string
	tokenIDs  bool
}

// NewEncoder makes an encoder for one answer.
func NewEncoder(s Stream) *Encoder {
	object := "chat.completion.chunk"
	if s.API == Completions {
		object = "text_completion"
	}
	e := &Encoder{api: s.API, tokenIDs: s.TokenIDs, reasoning: []string{s.ReasoningField}}
	switch s.ReasoningField {
	case "":
		e.reasoning[0] = "reasoning"
	case "both":
		e.reasoning = []string{"reasoning", "reasoning_content"}
	}
	e.head = append(e.head, `{"id":`...)
	e.head = AppendString(e.head, s.ID)
	e.head = append(e.head, `,"object":"`+object+`","created":`...)
	e.head = strconv.AppendInt(e.head, s.Created, 10)
	e.head = append(e.head, `,"model":`...)
	e.head = AppendString(e.head, s.Model)
	e.head = append(e.head, `,"choices":[`...)
	return e
}

// Append appends the JSON of a chunk, without framing. It does not allocate
// where dst has room.
func (e *Encoder) Append(dst []byte, c *Chunk) []byte {
	dst = append(dst, e.head...)
	if !c.NoChoices {
		dst = e.appendChoice(dst, c)
	}
	dst = append(dst, ']')
	switch {
	case c.Usage == nil && c.UsageNull:
		dst = append(dst, `,"usage":null`...)
	case c.Usage != nil && c.UsagePlace == UsageTop:
		dst = append(dst, `,"usage":`...)
		dst = AppendUsage(dst, c.Usage)
	case c.Usage != nil && c.UsagePlace == UsageXGroq:
		dst = append(dst, `,"x_groq":{"usage":`...)
		dst = AppendUsage(dst, c.Usage)
		dst = append(dst, '}')
	}
	if c.Timings != nil {
		dst = append(dst, `,"timings":`...)
		dst = AppendTimings(dst, c.Timings)
	}
	return append(dst, '}')
}

func (e *Encoder) appendChoice(dst []byte, c *Chunk) []byte {
	if e.api == Completions {
		dst = append(dst, `{"index":0,"text":`...)
		dst = AppendString(dst, c.Text)
	} else {
		dst = append(dst, `{"index":0,"delta":{`...)
		dst = e.appendDelta(dst, c)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	if c.Finish == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, c.Finish)
		dst = append(dst, `,"stop_reason":null`...)
	}
	if e.tokenIDs {
		dst = append(dst, `,"token_ids":null`...)
	}
	if c.Usage != nil && c.UsagePlace == UsageChoice {
		dst = append(dst, `,"usage":`...)
		dst = AppendUsage(dst, c.Usage)
	}
	return append(dst, '}')
}

// appendDelta appends the fields of a chat delta.
func (e *Encoder) appendDelta(dst []byte, c *Chunk) []byte {
	if c.Bare {
		return dst
	}
	if c.Role || c.RoleNull {
		dst = append(dst, `"role":"assistant",`...)
	}
	switch {
	case c.RoleNull:
		return append(dst, `"content":null`...)
	case c.Channel == Tool:
		return appendTool(dst, c)
	case c.Channel == Reasoning:
		for i, field := range e.reasoning {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			dst = append(dst, field...)
			dst = append(dst, `":`...)
			dst = AppendString(dst, c.Text)
		}
		return dst
	}
	dst = append(dst, `"content":`...)
	return AppendString(dst, c.Text)
}

func appendTool(dst []byte, c *Chunk) []byte {
	dst = append(dst, `"tool_calls":[{"index":0,`...)
	if c.ToolName != "" {
		dst = append(dst, `"id":"call-0","type":"function","function":{"name":`...)
		dst = AppendString(dst, c.ToolName)
		dst = append(dst, ',')
	} else {
		dst = append(dst, `"function":{`...)
	}
	dst = append(dst, `"arguments":`...)
	dst = AppendString(dst, c.Text)
	return append(dst, `}}]`...)
}

// AppendUsage appends a usage object.
func AppendUsage(dst []byte, u *Usage) []byte {
	total := u.Total
	if total == 0 {
		total = max(u.Prompt, 0) + max(u.Completion, 0)
	}
	dst = append(dst, '{')
	dst = appendCount(dst, `"prompt_tokens":`, u.Prompt)
	dst = appendCount(dst, `"total_tokens":`, total)
	dst = appendCount(dst, `"completion_tokens":`, u.Completion)
	if u.Cached >= 0 {
		dst = appendCount(dst, `"prompt_tokens_details":{"cached_tokens":`, u.Cached)
		dst = append(dst, '}')
	}
	if u.Reasoning >= 0 {
		dst = appendCount(dst, `"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendCount appends one member of an object, after a comma unless it is the first.
func appendCount(dst []byte, name string, n int) []byte {
	if n < 0 {
		return dst
	}
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, name...)
	return strconv.AppendInt(dst, int64(n), 10)
}

// AppendTimings appends llama.cpp's timings object, speeds included. As there,
// the time of predicted tokens begins at the first, so that one token alone
// has a speed of 0.
func AppendTimings(dst []byte, t *Timings) []byte {
	dst = append(dst, '{')
	dst = appendCount(dst, `"cache_n":`, t.Cached)
	dst = appendCount(dst, `"prompt_n":`, t.Prompt)
	dst = appendFloat(dst, `,"prompt_ms":`, t.PromptMillis)
	dst = appendFloat(dst, `,"prompt_per_token_ms":`, ratio(t.PromptMillis, float64(t.Prompt)))
	dst = appendFloat(dst, `,"prompt_per_second":`, ratio(1000*float64(t.Prompt), t.PromptMillis))
	dst = appendCount(dst, `"predicted_n":`, t.Predicted)
	dst = appendFloat(dst, `,"predicted_ms":`, t.PredictedMillis)
	dst = appendFloat(dst, `,"predicted_per_token_ms":`, ratio(t.PredictedMillis, float64(t.Predicted)))
	dst = appendFloat(dst, `,"predicted_per_second":`, ratio(1000*float64(t.Predicted-1), t.PredictedMillis))
	return append(dst, '}')
}

func appendFloat(dst []byte, name string, v float64) []byte {
	dst = append(dst, name...)
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

// ratio is a ÷ b, 0 where b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
