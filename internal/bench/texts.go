package bench

import (
	"context"
	"sync"
	"unicode/utf8"

	"speedmatrix/internal/prompt"
)

// PromptTexts makes the prompts of a run with a prompt.Writer, each head once.
type PromptTexts struct {
	Writer *prompt.Writer
	// Count asks the server's tokenizer; nil where it has none.
	Count prompt.Counter
	// CharsPerToken is the ratio from the warm-up; it follows the last exact count.
	CharsPerToken float64
	// Overhead is what the template and a tail add, in tokens.
	Overhead int

	mu    sync.Mutex
	heads map[Head]string
}

func (h Head) id() prompt.HeadID {
	return prompt.HeadID{Context: h.Context, Stream: h.Stream, Attempt: h.Attempt}
}

// leastForRatio is the least length of a prompt whose characters per token hold for others.
const leastForRatio = 1024

// Prepare makes the head of that length, exact where the server can count.
func (t *PromptTexts) Prepare(ctx context.Context, h Head) error {
	if h.Context == 0 {
		return nil
	}
	t.mu.Lock()
	_, there := t.heads[h]
	ratio := t.CharsPerToken
	t.mu.Unlock()
	if there {
		return nil
	}
	request := prompt.FitRequest{Head: h.id(), Tokens: h.Context, CharsPerToken: ratio, Overhead: t.Overhead}
	if t.Count != nil {
		request.Count = t.Count
	}
	fitted, err := t.Writer.Fit(ctx, request)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heads == nil {
		t.heads = map[Head]string{}
	}
	t.heads[h] = fitted.Head
	if text := fitted.Tokens - t.Overhead; text > 0 && h.Context >= leastForRatio {
		t.CharsPerToken = float64(utf8.RuneCountInString(fitted.Head)) / float64(text)
	}
	return nil
}

// Prompt is the head with that tail.
func (t *PromptTexts) Prompt(h Head, tail int) string {
	if h.Context == 0 {
		return t.Writer.Short(h.id(), tail)
	}
	t.mu.Lock()
	head := t.heads[h]
	t.mu.Unlock()
	return head + t.Writer.Tail(h.id(), tail)
}

// Forget drops the heads of a context.
func (t *PromptTexts) Forget(context int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.heads {
		if h.Context == context {
			delete(t.heads, h)
		}
	}
}
