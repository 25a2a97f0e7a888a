// Command openaigo streams chats with the official OpenAI client for Go and
// stamps every piece of text.
//
//	openaigo URL STREAMS REQUESTS TOKENS > FILE
//
// The file has, for each request, when it was sent, when its pieces came and
// the tokens of its usage; and what the client made of the routes and errors
// that it has types for. It is a module of its own, so that speedmatrix does
// not depend on the client.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// plan is what to send.
type plan struct {
	url                       string
	streams, requests, tokens int
}

// result is one request as the client saw it; times are in seconds since 1970.
type result struct {
	Sent   float64   `json:"sent"`
	Stamps []float64 `json:"stamps"`
	Tokens int64     `json:"tokens"`
}

// report is the file.
type report struct {
	Version  string            `json:"version"`
	Checks   map[string]string `json:"checks"`
	Requests []result          `json:"requests"`
}

var topics = [...]string{"a lighthouse", "an old mill", "two rivers", "the winter sea", "a clockmaker", "the last train", "a walled garden"}

func main() {
	p, err := readPlan(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "openaigo: %v\nusage: openaigo URL STREAMS REQUESTS TOKENS\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := measure(ctx, p)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "openaigo: %v\n", err)
		os.Exit(1)
	}
}

func readPlan(args []string) (plan, error) {
	if len(args) != 4 {
		return plan{}, fmt.Errorf("%d arguments instead of 4", len(args))
	}
	p := plan{url: args[0]}
	for i, into := range []*int{&p.streams, &p.requests, &p.tokens} {
		n, err := strconv.Atoi(args[i+1])
		if err != nil || n < 1 {
			return plan{}, fmt.Errorf("%q is no number from 1", args[i+1])
		}
		*into = n
	}
	return p, nil
}

func measure(ctx context.Context, p plan) (*report, error) {
	client := openai.NewClient(option.WithBaseURL(p.url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	models, err := client.Models.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(models.Data) == 0 {
		return nil, fmt.Errorf("%s lists no model", p.url)
	}
	u := user{client: &client, model: models.Data[0].ID, tokens: int64(p.tokens)}
	checks := u.surface(ctx)
	time.Sleep(time.Second) // the watcher tells the checks from the load by the pause
	requests, err := u.load(ctx, p)
	if err != nil {
		return nil, err
	}
	return &report{Version: version(), Checks: checks, Requests: requests}, nil
}

// version is the client module's.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if strings.HasPrefix(d.Path, "github.com/openai/openai-go") {
			return strings.TrimPrefix(d.Version, "v")
		}
	}
	return "unknown"
}

// user sends requests for one model.
type user struct {
	client *openai.Client
	model  string
	tokens int64
}

// load keeps p.streams requests going until p.requests have ended.
func (u *user) load(ctx context.Context, p plan) ([]result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]result, p.requests)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range p.streams {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(p.requests) && ctx.Err() == nil; n = next.Add(1) - 1 {
				var err error
				if results[n], err = u.one(ctx, n); err != nil {
					cancel(fmt.Errorf("request %d: %w", n, err))
				}
			}
		})
	}
	wg.Wait()
	return results, context.Cause(ctx)
}

// one streams a chat.
func (u *user) one(ctx context.Context, number int64) (result, error) {
	text := fmt.Sprintf("Tale %d: write a long story of %s, in plain words, for chapter %d.",
		number, topics[number%int64(len(topics))], number*7919%1000)
	r := result{Sent: now()}
	stream := u.client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: u.model, Messages: said(text), MaxTokens: openai.Int(u.tokens),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}, option.WithJSONSet("ignore_eos", true))
	defer stream.Close()
	for stream.Next() {
		part := stream.Current()
		if len(part.Choices) > 0 && part.Choices[0].Delta.Content != "" {
			r.Stamps = append(r.Stamps, now())
		}
		r.Tokens = max(r.Tokens, part.Usage.CompletionTokens)
	}
	return r, stream.Err()
}

func said(text string) []openai.ChatCompletionMessageParamUnion {
	return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }
