package simserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"speedmatrix/internal/wire"
)

// completionTokens is the output limit of a completion that names none; a chat's is the model's length.
const completionTokens = 16

// mostChoices bounds the choices of one request, over all its prompts.
const mostChoices = 1024

// call is a request for text that was found right.
type call struct {
	*wire.Request
	choices int // of each prompt
	stops   []string
	jobs    []*job
}

// extras are the fields that package wire leaves in Request.Fields.
type extras struct {
	N              *int            `json:"n"`
	Stop           json.RawMessage `json:"stop"`
	Seed           *uint64         `json:"seed"`
	TopP           *float64        `json:"top_p"`
	TruncatePrompt *int            `json:"truncate_prompt_tokens"`
	CacheSalt      string          `json:"cache_salt"`
}

// readCall decodes a body and checks it as vLLM does.
func (s *Server) readCall(api wire.API, body []byte) (*call, *wire.Problem) {
	request, prompts, problem := decode(api, body)
	if problem != nil {
		return nil, problem
	}
	if problem := s.checkModel(request.Model); problem != nil {
		return nil, problem
	}
	var x extras
	if problem := x.read(request); problem != nil {
		return nil, problem
	}
	c := &call{Request: request, choices: 1}
	if x.N != nil {
		c.choices = *x.N
	}
	if problem := c.check(&x); problem != nil {
		return nil, problem
	}
	if len(prompts)*c.choices > mostChoices {
		return nil, invalid("n", fmt.Sprintf("%d prompts with n=%d are more than the %d answers of one request.", len(prompts), c.choices, mostChoices))
	}
	for _, p := range prompts {
		if problem := s.addPrompt(c, p, &x); problem != nil {
			return nil, problem
		}
	}
	return c, nil
}

// decode reads a body with one prompt or, for completions, several.
func decode(api wire.API, body []byte) (*wire.Request, []*wire.Request, *wire.Problem) {
	request, problem := wire.Decode(api, body)
	if problem == nil {
		return request, []*wire.Request{request}, nil
	}
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	if api != wire.Completions || json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["prompt"], &list) != nil || len(list) < 2 {
		return nil, nil, problem
	}
	prompts := make([]*wire.Request, len(list))
	for i, p := range list {
		fields["prompt"] = p
		one, err := json.Marshal(fields)
		if err != nil {
			return nil, nil, problem
		}
		if prompts[i], problem = wire.Decode(api, one); problem != nil {
			return nil, nil, problem
		}
	}
	return prompts[0], prompts, nil
}

// read takes the fields out of a request.
func (x *extras) read(r *wire.Request) *wire.Problem {
	for name, into := range map[string]any{
		"n": &x.N, "stop": &x.Stop, "seed": &x.Seed, "top_p": &x.TopP,
		"truncate_prompt_tokens": &x.TruncatePrompt, "cache_salt": &x.CacheSalt,
	} {
		raw, there := r.Fields[name]
		if !there {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return &wire.Problem{Status: http.StatusBadRequest, Type: "Bad Request", Param: "body." + name, Message: err.Error()}
		}
	}
	return nil
}

// check finds what is wrong with the sampling parameters.
func (c *call) check(x *extras) *wire.Problem {
	switch {
	case c.choices < 1:
		return invalid("n", fmt.Sprintf("n must be at least 1, got %d.", c.choices))
	case c.Temperature != nil && *c.Temperature < 0:
		return invalid("temperature", fmt.Sprintf("temperature must be non-negative, got %g.", *c.Temperature))
	case x.TopP != nil && (*x.TopP <= 0 || *x.TopP > 1):
		return invalid("top_p", fmt.Sprintf("top_p must be in (0, 1], got %g.", *x.TopP))
	case c.MinTokens < 0:
		return invalid("min_tokens", fmt.Sprintf("min_tokens must be greater than or equal to 0, got %d.", c.MinTokens))
	case !c.Stream && (c.IncludeUsage || c.ContinuousUsage):
		return invalid("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	return c.readStops(x.Stop)
}

// readStops takes one stop string or a list of them.
func (c *call) readStops(raw json.RawMessage) *wire.Problem {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &text) == nil:
		c.stops = []string{text}
	case json.Unmarshal(raw, &c.stops) != nil:
		return invalid("stop", "stop must be a text or a list of texts.")
	}
	if slices.Contains(c.stops, "") {
		return invalid("stop", "stop cannot contain an empty string.")
	}
	return nil
}

func invalid(param, message string) *wire.Problem {
	return &wire.Problem{Status: http.StatusBadRequest, Type: "BadRequestError", Param: param, Message: message}
}

func (s *Server) checkModel(asked string) *wire.Problem {
	if asked == "" || asked == s.served {
		return nil
	}
	return wire.UnknownModel(asked, s.served)
}

// addPrompt makes the choices of one prompt.
func (s *Server) addPrompt(c *call, p *wire.Request, x *extras) *wire.Problem {
	ids, problem := s.promptTokens(p)
	if problem != nil {
		return problem
	}
	if n := x.TruncatePrompt; n != nil && *n > 0 && len(ids) > *n {
		ids = ids[len(ids)-*n:]
	}
	limit, problem := s.limit(c, len(ids), p.PromptIDs != nil)
	if problem != nil {
		return problem
	}
	salt := uint64(0)
	if x.CacheSalt != "" {
		salt = hashTokens(1, s.loop.model.words.encode(nil, x.CacheSalt))
	}
	j := job{
		prompt: ids, n: c.choices, max: limit, min: c.MinTokens, ignoreEOS: c.IgnoreEOS, stops: c.stops, salt: salt,
		fixed: x.Seed != nil || c.Temperature != nil && *c.Temperature == 0,
	}
	if x.Seed != nil {
		j.seed = *x.Seed
	}
	for range c.choices {
		choice := j
		c.jobs = append(c.jobs, &choice)
	}
	return nil
}

// promptTokens are the tokens of a prompt, with the chat template around messages.
func (s *Server) promptTokens(p *wire.Request) ([]uint32, *wire.Problem) {
	words := s.loop.model.words
	switch {
	case p.API == wire.Chat:
		return words.chat(p.Messages, true), nil
	case p.PromptIDs == nil:
		return words.encode(make([]uint32, 0, len(p.Prompt)/4+8), p.Prompt), nil
	}
	return s.checkIDs(p.PromptIDs)
}

// checkIDs refuses ids that the vocabulary does not have.
func (s *Server) checkIDs(list []int) ([]uint32, *wire.Problem) {
	ids := make([]uint32, len(list))
	for i, id := range list {
		if id < 0 || id >= s.loop.model.words.size() {
			return nil, invalid("", fmt.Sprintf("Token id %d is out of vocabulary", id))
		}
		ids[i] = uint32(id)
	}
	return ids, nil
}

// chat puts the template around messages: <|im_start|>role, content<|im_end|>,
// and the opening of an answer if that is wanted.
func (t *tokenizer) chat(messages []wire.Message, open bool) []uint32 {
	size := 8
	for _, m := range messages {
		size += len(m.Content)/4 + 8
	}
	ids := make([]uint32, 0, size)
	for _, m := range messages {
		ids = append(ids, tokenStart)
		ids = t.encode(ids, m.Role+"\n")
		ids = t.encode(ids, m.Content)
		ids = append(ids, tokenEnd)
		ids = t.encode(ids, "\n")
	}
	if open {
		ids = append(ids, tokenStart)
		ids = t.encode(ids, "assistant\n")
	}
	return ids
}

// limit is how many tokens an answer to a prompt of that length may have, or why there can be none.
func (s *Server) limit(c *call, prompt int, exact bool) (int, *wire.Problem) {
	longest, asked := s.config.MaxLength, c.MaxTokens
	room := s.config.Usable() * s.config.BlockTokens
	switch {
	case asked > longest:
		return 0, wire.MaxTokensTooLarge(asked, longest)
	case prompt == 0:
		return 0, invalid("", "The decoder prompt cannot be empty")
	case prompt > longest && exact:
		return 0, tooManyIDs(longest, prompt)
	case prompt > longest:
		return 0, wire.PromptTooLong(longest)
	case prompt == longest:
		return 0, wire.MaxTokensTooSmall(0)
	case prompt >= room:
		return 0, invalid("input_tokens", fmt.Sprintf("The prompt of %d tokens can never run: the KV cache holds %d tokens. (parameter=input_tokens, value=%d)", prompt, room, prompt))
	case asked < 0 && c.API == wire.Completions:
		asked = completionTokens
	case asked < 0:
		asked = longest
	}
	limit := min(asked, longest-prompt, room-prompt)
	if c.MinTokens > limit {
		return 0, invalid("", fmt.Sprintf("min_tokens must be less than or equal to max_tokens=%d, got %d.", limit, c.MinTokens))
	}
	return limit, nil
}

// tooManyIDs is PromptTooLong for a prompt whose length is known exactly.
func tooManyIDs(limit, n int) *wire.Problem {
	return invalid("input_tokens", fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains %d input tokens, "+
		"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "+
		"(parameter=input_tokens, value=%d)", limit, n, n))
}
