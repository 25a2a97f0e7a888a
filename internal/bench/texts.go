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
	// CharsPerToken is the ratio known before the first prompt is sent; from then on it is that of the longest prompt
	// which the server counted.
	CharsPerToken float64
	// Overhead is what the template and a tail add, in tokens.
	Overhead int

	mu    sync.Mutex
	heads map[Head]string
	// longest is the context of the prompt that gave the ratio.
	longest int
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
	t.count(h, fitted.Tokens)
	return nil
}

// Counted takes in how many tokens the server counted in a prompt of a head.
func (t *PromptTexts) Counted(h Head, tokens int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(h, tokens)
}

// count is Counted with the lock held.
func (t *PromptTexts) count(h Head, tokens int) {
	head, text := t.heads[h], tokens-t.Overhead
	if head == "" || text <= 0 || h.Context < max(leastForRatio, t.longest) {
		return
	}
	t.CharsPerToken, t.longest = float64(utf8.RuneCountInString(head))/float64(text), h.Context
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
