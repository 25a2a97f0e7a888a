package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// surface tries routes and errors: "ok" or what the client tripped over.
func (u *user) surface(ctx context.Context) map[string]string {
	outcome := map[string]string{}
	for name, try := range map[string]func(context.Context) error{
		"models":                    u.models,
		"chat, not streamed":        u.whole,
		"completions, streamed":     u.completed,
		"three choices, stop, seed": u.choices,
		"unknown model": func(ctx context.Context) error {
			return u.refused(ctx, http.StatusNotFound, openai.ChatCompletionNewParams{Model: "no-such-model", Messages: said("Hello.")})
		},
		"prompt too long": func(ctx context.Context) error {
			return u.refused(ctx, http.StatusBadRequest, openai.ChatCompletionNewParams{Model: u.model, Messages: said(strings.Repeat("word ", 300_000))})
		},
		"negative temperature": func(ctx context.Context) error {
			return u.refused(ctx, http.StatusBadRequest, openai.ChatCompletionNewParams{Model: u.model, Messages: said("Hello."), Temperature: openai.Float(-1)})
		},
	} {
		outcome[name] = "ok"
		if err := try(ctx); err != nil {
			outcome[name] = err.Error()
		}
	}
	return outcome
}

func (u *user) models(ctx context.Context) error {
	m, err := u.client.Models.Get(ctx, u.model)
	if err == nil && m.ID != u.model {
		err = fmt.Errorf("asked for the model %s and got %s", u.model, m.ID)
	}
	return err
}

func (u *user) whole(ctx context.Context) error {
	answer, err := u.client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: u.model, Messages: said("Say something."), MaxTokens: openai.Int(8),
	}, option.WithJSONSet("ignore_eos", true))
	if err != nil {
		return err
	}
	if c := answer.Choices[0]; c.Message.Content == "" || c.FinishReason != "length" || answer.Usage.CompletionTokens != 8 {
		return fmt.Errorf("an answer of 8 tokens is %s", answer.RawJSON())
	}
	return nil
}

func (u *user) completed(ctx context.Context) error {
	stream := u.client.Completions.NewStreaming(ctx, openai.CompletionNewParams{
		Model: openai.CompletionNewParamsModel(u.model), MaxTokens: openai.Int(8),
		Prompt:        openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once upon a time")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}, option.WithJSONSet("ignore_eos", true))
	defer stream.Close()
	var tokens int64
	for stream.Next() {
		tokens = stream.Current().Usage.CompletionTokens
	}
	if err := stream.Err(); err != nil {
		return err
	}
	if tokens != 8 {
		return fmt.Errorf("the usage of a completion of 8 tokens says %d", tokens)
	}
	return nil
}

func (u *user) choices(ctx context.Context) error {
	answer, err := u.client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: u.model, MaxCompletionTokens: openai.Int(8), N: openai.Int(3), Seed: openai.Int(7),
		Stop: openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{"\n\n"}},
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("Be brief."),
			openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{openai.TextContentPart("Hello.")}),
		},
	})
	if err == nil && len(answer.Choices) != 3 {
		err = fmt.Errorf("%d choices instead of 3", len(answer.Choices))
	}
	return err
}

// refused expects an error with a status and a message.
func (u *user) refused(ctx context.Context, status int, p openai.ChatCompletionNewParams) error {
	_, err := u.client.Chat.Completions.New(ctx, p)
	var refusal *openai.Error
	switch {
	case err == nil:
		return errors.New("no error")
	case !errors.As(err, &refusal):
		return err
	case refusal.StatusCode != status || refusal.Message == "":
		return fmt.Errorf("expected status %d with a message, got %w", status, err)
	}
	return nil
}
