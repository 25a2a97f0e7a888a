package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"speedmatrix"
)

// agreement is how far a tokenizer may be from the server's own count of a prompt.
const agreement = 2

// tokenCounter is a way to count tokens through the server.
type tokenCounter struct {
	name   string
	prompt func(ctx context.Context, prompt string) (int, error)
	text   func(ctx context.Context, text string) (int, error)
	// offset is added to the count of a prompt: what it leaves out, always the same.
	offset int
}

// errNoTokenizer is a server that cannot count tokens for us.
var errNoTokenizer = errors.New("the server has no tokenizer endpoint that agrees with its own counts")

// CountTokens gives the exact number of tokens of a user's prompt, the chat template
// included where there is one. It needs Habits.Tokenizer.
func (s *Server) CountTokens(ctx context.Context, prompt string) (int, error) {
	if s.counter == nil {
		return 0, errNoTokenizer
	}
	n, err := s.counter.prompt(ctx, prompt)
	if err != nil {
		return 0, err
	}
	return n + s.counter.offset, nil
}

// CountText gives the number of tokens of generated text: no template, no token that
// marks the beginning. It needs Habits.Tokenizer.
func (s *Server) CountText(ctx context.Context, text string) (int, error) {
	if s.counter == nil {
		return 0, errNoTokenizer
	}
	return s.counter.text(ctx, text)
}

// findTokenizer takes the first endpoint that is off by the same number of tokens for both
// trial prompts: what is constant is calibrated away, what is not cannot be trusted.
func (s *Server) findTokenizer(ctx context.Context, short, long int) {
	for _, c := range s.tokenizers() {
		first, err := c.prompt(ctx, trialPrompt)
		if err != nil {
			continue
		}
		second, err := c.prompt(ctx, longerPrompt())
		if err != nil {
			continue
		}
		if _, err := c.text(ctx, trialPrompt); err != nil {
			continue
		}
		offset := long - second
		if drift := offset - (short - first); drift < -agreement || drift > agreement {
			s.warn("tokenizer_disagrees", "%s counts %d and %d tokens where the server's usage says %d and %d: not used",
				c.name, first, second, short, long)
			continue
		}
		if c.offset = offset; offset >= -agreement && offset <= agreement && offset != short-first {
			c.offset = 0 // noise of a token, not a constant
		}
		s.counter = &c
		s.Habits.Tokenizer = true
		s.Facts.Engine.Set(speedmatrix.EngineTokenizer, c.name, "tried")
		return
	}
}

// tokenizers are the endpoints worth trying, the most exact first.
func (s *Server) tokenizers() []tokenCounter {
	if s.engine.tokenizers == nil {
		return nil
	}
	return s.engine.tokenizers(s)
}

// vllmTokenizer applies the chat template as a chat request does.
func (s *Server) vllmTokenizer() tokenCounter {
	c := s.plainTokenizer()
	if s.Dialect.Templated() {
		c.prompt = s.tokenizeMessages
	}
	return c
}

// plainTokenizer counts the text; what a template adds to it is found by comparison.
func (s *Server) plainTokenizer() tokenCounter {
	return tokenCounter{name: "POST /tokenize", prompt: s.tokenizePrompt, text: s.tokenizeText}
}

func (s *Server) llamaTokenizers() []tokenCounter {
	if s.Dialect.Templated() {
		return []tokenCounter{
			{name: "POST /v1/chat/completions/input_tokens", prompt: s.llamaInputTokens, text: s.llamaText},
			{name: "POST /apply-template, /tokenize", prompt: s.llamaTemplate, text: s.llamaText},
		}
	}
	return []tokenCounter{{name: "POST /tokenize", prompt: s.llamaPrompt, text: s.llamaText}}
}

func (s *Server) tgiTokenizers() []tokenCounter {
	list := []tokenCounter{{name: "POST /tokenize", prompt: s.tgiTokenize, text: s.tgiTokenize}}
	if s.Dialect.Templated() {
		list = append([]tokenCounter{{name: "POST /chat_tokenize", prompt: s.tgiChat, text: s.tgiTokenize}}, list...)
	}
	return list
}

func (s *Server) tgiTokenize(ctx context.Context, text string) (int, error) {
	return s.askTokens(ctx, "/tokenize", map[string]any{"inputs": text})
}

func (s *Server) tgiChat(ctx context.Context, prompt string) (int, error) {
	return s.askTokens(ctx, "/chat_tokenize", map[string]any{"model": s.Model.Name, "messages": s.messages(prompt)})
}

func (s *Server) messages(prompt string) []map[string]string {
	return []map[string]string{{"role": "user", "content": prompt}}
}

// tokenizeMessages: vLLM applies the chat template as it does for a chat request.
func (s *Server) tokenizeMessages(ctx context.Context, prompt string) (int, error) {
	return s.askTokens(ctx, "/tokenize", map[string]any{
		"model": s.Model.Name, "messages": s.messages(prompt), "add_generation_prompt": true,
	})
}

func (s *Server) tokenizePrompt(ctx context.Context, prompt string) (int, error) {
	return s.askTokens(ctx, "/tokenize", map[string]any{"model": s.Model.Name, "prompt": prompt})
}

func (s *Server) tokenizeText(ctx context.Context, text string) (int, error) {
	return s.askTokens(ctx, "/tokenize", map[string]any{
		"model": s.Model.Name, "prompt": text, "add_special_tokens": false,
	})
}

func (s *Server) llamaInputTokens(ctx context.Context, prompt string) (int, error) {
	return s.askTokens(ctx, "/v1/chat/completions/input_tokens", map[string]any{
		"model": s.Model.Name, "messages": s.messages(prompt),
	})
}

func (s *Server) llamaTemplate(ctx context.Context, prompt string) (int, error) {
	a, err := s.http.do(ctx, call{route: "/apply-template", body: map[string]any{"messages": s.messages(prompt)}, limit: tokenizeLimit, most: metricsMost})
	if err != nil {
		return 0, err
	}
	var applied struct {
		Prompt string `json:"prompt"`
	}
	if !a.decode(&applied) || applied.Prompt == "" {
		return 0, &statusError{route: "/apply-template", status: a.status, words: a.words()}
	}
	return s.llamaPrompt(ctx, applied.Prompt)
}

func (s *Server) llamaPrompt(ctx context.Context, prompt string) (int, error) {
	return s.askTokens(ctx, "/tokenize", map[string]any{"content": prompt, "add_special": true})
}

func (s *Server) llamaText(ctx context.Context, text string) (int, error) {
	return s.askTokens(ctx, "/tokenize", map[string]any{"content": text})
}

// shortBody is a request to count that is answered at once, or by a server that is stuck.
const shortBody = 16 << 10

// askTokens reads a count in any of the shapes that the engines give it.
func (s *Server) askTokens(ctx context.Context, route string, body map[string]any) (int, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, fmt.Errorf("encode the body of %s: %w", route, err)
	}
	limit := tokenizeLimit
	if len(data) <= shortBody {
		limit = callLimit
	}
	a, err := s.http.do(ctx, call{route: route, body: rawJSON(data), limit: limit, most: tokenizeMost})
	if err != nil {
		return 0, err
	}
	if a.status != http.StatusOK {
		return 0, &statusError{route: route, status: a.status, words: a.words()}
	}
	var counted struct {
		Count       *int              `json:"count"`
		InputTokens *int              `json:"input_tokens"`
		Tokens      []json.RawMessage `json:"tokens"`
		Chat        []json.RawMessage `json:"tokenize_response"`
	}
	var list []json.RawMessage
	switch ok := a.decode(&counted); {
	case ok && counted.Count != nil:
		return *counted.Count, nil
	case ok && counted.InputTokens != nil:
		return *counted.InputTokens, nil
	case ok && counted.Tokens != nil:
		return len(counted.Tokens), nil
	case ok && counted.Chat != nil:
		return len(counted.Chat), nil
	case !ok && a.decode(&list):
		return len(list), nil
	}
	return 0, fmt.Errorf("%s: no count of tokens in the answer", route)
}
