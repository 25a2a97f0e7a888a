package load

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// contract is what a dialect promises, whatever the server does. Every dialect
// passes every test of this file.
type contract struct {
	dialect dialect.Dialect
	api     wire.API
	// flat: all text is content. counts: events carry the count of tokens so far.
	// cached: the usage says how much of the prompt came from a cache. total: it
	// has the sum of both counts too.
	flat, counts, cached, total bool
	// early: the usage, as far as it is known, comes before the end.
	early bool
}

func contracts() []contract {
	return []contract{
		{dialect: dialect.Chat(), api: wire.Chat, counts: true, early: true, cached: true, total: true},
		{dialect: dialect.Completions(), api: wire.Completions, counts: true, early: true, cached: true, total: true, flat: true},
		{dialect: dialect.Responses(), api: wire.Responses, cached: true, total: true},
		{dialect: dialect.Anthropic(), api: wire.Messages, cached: true, early: true},
		{dialect: dialect.Ollama(), api: wire.OllamaChat},
		{dialect: dialect.TGI(), api: wire.Generate, counts: true, flat: true},
	}
}

func TestEveryDialectHasItsContract(t *testing.T) {
	for i, d := range dialect.All() {
		if c := contracts(); i >= len(c) || c[i].dialect != d || c[i].api.Path() != d.Path() || c[i].api.Templated() != d.Templated() {
			t.Errorf("%s has none", d.Name())
		}
	}
}

// party is a ground truth server and a client that speak one API, in a bubble.
type party struct {
	contract
	t      *testing.T
	script truth.Script
	server *truth.Server
	client *Client
	params dialect.Params
}

// conform runs a test for every dialect, each against a server of its own.
func conform(t *testing.T, script truth.Script, test func(t *testing.T, p *party)) {
	t.Helper()
	for _, c := range contracts() {
		t.Run(c.dialect.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newParty(t, c, script)) })
		})
	}
}

func newParty(t *testing.T, c contract, script truth.Script) *party {
	t.Helper()
	script.APIs = []wire.API{wire.Responses, wire.Messages, wire.OllamaChat, wire.Generate}
	script.KeepPrompts = true
	if !c.api.Templated() {
		script.TemplateTokens = -1
	}
	network := memnet.New()
	p := &party{contract: c, t: t, script: script, server: truth.New(script)}
	l, err := network.Listen("server:80")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.server.Serve(l) })
	t.Cleanup(func() { p.server.Close(); serving.Wait() })
	p.client, err = New(Options{
		BaseURL: &url.URL{Scheme: "http", Host: "server:80"}, Dialect: c.dialect, Dial: network.DialContext, Clock: stamp.NewClock(),
	})
	if err != nil {
		t.Fatal(err)
	}
	warm := 0.5
	p.params = dialect.Params{
		Model: "truth", Prompt: "one two three", MaxTokens: 6, Temperature: &warm, Stream: true, IncludeUsage: true, ContinuousUsage: true,
	}
	return p
}

// do sends one request and gives its log and the server's account of it.
func (p *party) do() (*Log, truth.Request) {
	p.t.Helper()
	return p.doFor(time.Hour)
}

// doFor is do with a cut.
func (p *party) doFor(limit time.Duration) (*Log, truth.Request) {
	p.t.Helper()
	body, err := p.dialect.Body(p.params)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	log := p.client.Do(ctx, Request{Body: body})
	synctest.Wait() // the server books the end of the request
	requests := p.server.Account().Requests
	if len(requests) == 0 {
		return log, truth.Request{}
	}
	return log, requests[len(requests)-1]
}

// channel is the channel on which the client must see text of a server's channel.
func (p *party) channel(of string) speedmatrix.Channel {
	switch {
	case p.flat:
	case of == wire.Reasoning:
		return speedmatrix.ChannelReasoning
	case of == wire.Tool:
		return speedmatrix.ChannelTool
	}
	return speedmatrix.ChannelContent
}

// agrees wants every event with text where and when the server sent it.
func (p *party) agrees(log *Log, r truth.Request) {
	p.t.Helper()
	var got, want []Event
	for e := range log.Events() {
		if e.Length > 0 {
			got = append(got, e)
		}
	}
	for _, e := range r.Events {
		if e.Length > 0 {
			want = append(want, Event{At: e.AtNS, Length: e.Length, Tokens: e.Tokens, Channel: p.channel(e.Channel)})
		}
	}
	for i := range want {
		if !p.counts {
			want[i].Tokens = -1
		}
	}
	got = p.withoutNames(got, want)
	if !slices.Equal(got, want) {
		p.t.Errorf("events\n got %+v\nwant %+v", got, want)
	}
	if log.FirstNS != r.FirstNS() || log.LastNS != r.LastNS() {
		p.t.Errorf("text from %d to %d, want %d to %d", log.FirstNS, log.LastNS, r.FirstNS(), r.LastNS())
	}
	if log.Surprises > 0 {
		p.t.Errorf("%d surprises: %q", log.Surprises, log.Surprising())
	}
}

// withoutNames levels what the APIs do to calls: the name, which the server says
// if its first token is one of a call, comes before the arguments or with them,
// and the arguments may be in JSON again.
func (p *party) withoutNames(got, want []Event) []Event {
	const name = len("write")
	if len(got) == 0 || len(want) == 0 {
		return got
	}
	if want[0].Channel == speedmatrix.ChannelTool {
		if got[0].Length -= name; got[0].Length == 0 {
			got = got[1:]
		}
	}
	for i := range got {
		if p.api == wire.OllamaChat && got[i].Channel == speedmatrix.ChannelTool {
			got[i].Length -= len(`{"text":""}`)
		}
	}
	return got
}

// usage wants what the server counted, as far as the API can say it.
func (p *party) usage(log *Log, r truth.Request, completed bool) {
	p.t.Helper()
	want := dialect.Usage{Prompt: r.PromptTokens, Cached: -1, Completion: r.Tokens, Reasoning: -1}
	if p.script.Usage == truth.UsagePartial && !p.total {
		want.Completion = -1
	}
	if p.cached && p.script.PrefixCache {
		want.Cached = r.CachedTokens
	}
	if !completed && !p.early {
		want.Prompt = -1
	}
	if !completed && !(p.early && p.counts) {
		want.Completion = -1
	}
	if log.Usage != want {
		p.t.Errorf("usage %+v, want %+v", log.Usage, want)
	}
}

func (p *party) ended(log *Log, class speedmatrix.RequestClass, finish string) {
	p.t.Helper()
	if log.Class != class || log.FinishReason != finish {
		p.t.Errorf("%s by %q, want %s by %q (%s: %s)", log.Class, log.FinishReason, class, finish, log.Failure, log.Error)
	}
}

func TestConformTheRequestSaysWhatWasAsked(t *testing.T) {
	conform(t, truth.Script{}, func(t *testing.T, p *party) {
		p.params.Prompt = "Fish & <chips> \"é\U0001F600\"\nno \\ end \u2028"
		log, r := p.do()
		p.ended(log, speedmatrix.RequestCompleted, "length")
		if r.Prompt != p.params.Prompt || r.MaxTokens != 6 || !r.Stream || r.Tokens != 6 {
			t.Errorf("prompt %q, at most %d, streamed %v, %d tokens", r.Prompt, r.MaxTokens, r.Stream, r.Tokens)
		}
		p.params.System = "Be brief."
		if _, r = p.do(); !strings.HasPrefix(r.Prompt, "Be brief.\n") || !strings.HasSuffix(r.Prompt, p.params.Prompt) {
			t.Errorf("with a system text: %q", r.Prompt)
		}
	})
}

func TestConformEventsAreThoseOfTheServer(t *testing.T) {
	channels := map[string]func(_, token int) string{
		"content":            nil,
		"reasoning, content": func(_, token int) string { return []string{wire.Reasoning, wire.Content}[min(token/5, 1)] },
		"calls":              func(_, token int) string { return []string{wire.Content, wire.Tool}[min(token/5, 1)] },
		"a call alone":       func(int, int) string { return wire.Tool },
	}
	for name, channel := range channels {
		for _, burst := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d tokens an event", name, burst), func(t *testing.T) {
				conform(t, truth.Script{Channel: channel, TokensPerEvent: burst, PrefillBase: time.Second}, func(t *testing.T, p *party) {
					p.params.MaxTokens = 12
					log, r := p.do()
					p.ended(log, speedmatrix.RequestCompleted, "length")
					p.agrees(log, r)
					p.usage(log, r, true)
				})
			})
		}
	}
}

// Characters of every kind survive, and several tokens of the hidden kind are counted all the same.
func TestConformTextOfEveryKind(t *testing.T) {
	texts := []string{" a", "\"q\"\\/", "\n\t\r\b\f\x00\x1f", "é\U0001F600", "\u2028<&>", "[DONE]", "{}", " "}
	script := truth.Script{Text: func(_, token int) string { return texts[token%len(texts)] }}
	conform(t, script, func(t *testing.T, p *party) {
		p.params.MaxTokens = 2 * len(texts)
		log, r := p.do()
		p.agrees(log, r)
		if got, want := string(log.Text()), strings.Repeat(strings.Join(texts, ""), 2); got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	})
}

func TestConformHiddenTokensAreCounted(t *testing.T) {
	hidden := func(_, token int) string {
		if token%3 == 2 {
			return truth.Hidden
		}
		return ""
	}
	conform(t, truth.Script{Channel: hidden, ReasoningTokens: true}, func(t *testing.T, p *party) {
		p.params.MaxTokens = 9
		log, r := p.do()
		p.ended(log, speedmatrix.RequestCompleted, "length")
		if r.Tokens != 9 || log.Usage.Completion != 9 {
			t.Errorf("%d tokens, the usage says %d", r.Tokens, log.Usage.Completion)
		}
		p.agrees(log, r)
		last := 0
		for e := range log.Events() {
			last = max(last, e.Tokens)
		}
		if p.counts && last != 9 {
			t.Errorf("counted %d", last)
		}
	})
}

func TestConformUsageInEveryPlaceOrNone(t *testing.T) {
	for _, usage := range []truth.Usage{truth.UsageAsked, truth.UsageFinal, truth.UsageEvery, truth.UsageNone, truth.UsageNull, truth.UsageOnFinish, truth.UsagePartial} {
		t.Run(fmt.Sprint(usage), func(t *testing.T) {
			conform(t, truth.Script{Usage: usage, PrefixCache: true, BlockTokens: 4}, func(t *testing.T, p *party) {
				p.params.Prompt = strings.Repeat("some words of a prompt ", 4)
				p.do()
				log, r := p.do() // from the cache
				p.ended(log, speedmatrix.RequestCompleted, "length")
				if r.CachedTokens == 0 {
					t.Fatal("the cache was of no use")
				}
				if usage != truth.UsageNone {
					p.usage(log, r, true)
					return
				}
				p.counts = p.counts && p.api == wire.Generate
				p.agrees(log, r)
				if want := (dialect.Usage{Prompt: -1, Cached: -1, Completion: -1, Reasoning: -1}); log.Usage != want {
					t.Errorf("usage %+v, want none", log.Usage)
				}
			})
		})
	}
}

func TestConformHowAnAnswerEnds(t *testing.T) {
	conform(t, truth.Script{StopAfter: func(c truth.Call) int { return []int{0, 4}[c.Request%2] }}, func(t *testing.T, p *party) {
		log, r := p.do()
		p.ended(log, speedmatrix.RequestCompleted, "length")
		p.agrees(log, r)
		log, r = p.do()
		p.ended(log, speedmatrix.RequestCompleted, "stop")
		p.agrees(log, r)
		p.usage(log, r, true)
		p.params.MaxTokens = 1000
		log, r = p.doFor(95 * time.Millisecond)
		p.ended(log, speedmatrix.RequestCut, "")
		p.agrees(log, r)
		p.usage(log, r, false)
	})
}

func TestConformErrors(t *testing.T) {
	busy := wire.EngineBusy()
	for _, tt := range []struct {
		name    string
		fail    truth.Failure
		failure Failure
		words   string
	}{
		{"refused", truth.Failure{Kind: truth.FailStatus}, FailureHTTP, busy.Message},
		{"before a token", truth.Failure{Kind: truth.FailEvent}, FailureEvent, busy.Message},
		{"after tokens", truth.Failure{Kind: truth.FailEvent, After: 3}, FailureEvent, busy.Message},
		{"no end", truth.Failure{Kind: truth.FailEnd, After: 3}, FailureLost, "the stream ended without"},
		{"broken off", truth.Failure{Kind: truth.FailDrop, After: 3}, FailureLost, "the stream broke off"},
		{"reset", truth.Failure{Kind: truth.FailReset, After: 3}, FailureLost, "the stream broke off"},
		{"hangs", truth.Failure{Kind: truth.FailHang, After: 3}, FailureIdle, "no event for 2 min"},
		{"nothing", truth.Failure{Kind: truth.FailEnd}, FailureEmpty, "without a token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conform(t, truth.Script{Fail: func(truth.Call) *truth.Failure { return &tt.fail }}, func(t *testing.T, p *party) {
				log, r := p.do()
				p.ended(log, speedmatrix.RequestFailed, "")
				if log.Failure != tt.failure || !strings.Contains(log.Error, tt.words) {
					t.Errorf("%q: %q, want %q: %q", log.Failure, log.Error, tt.failure, tt.words)
				}
				p.agrees(log, r)
				if r.Tokens != tt.fail.After {
					t.Errorf("%d tokens, want %d", r.Tokens, tt.fail.After)
				}
			})
		})
	}
}

// What comes before the first text is no first token: keep-alives, a role, the
// opening of an API.
func TestConformTheFirstTokenIsTheFirstText(t *testing.T) {
	script := truth.Script{
		PrefillBase: 10 * time.Second, RoleFirst: true, RoleEarly: 2 * time.Second,
		Framing: truth.Framing{Ping: 3 * time.Second, Comments: 2},
	}
	conform(t, script, func(t *testing.T, p *party) {
		log, r := p.do()
		p.ended(log, speedmatrix.RequestCompleted, "length")
		p.agrees(log, r)
		if got := time.Duration(log.FirstNS - log.WrittenNS); got != 10*time.Second {
			t.Errorf("the first token after %v", got)
		}
	})
}

// Tokens are counted right by the source that the API supports.
func TestConformTheSourceOfTokens(t *testing.T) {
	conform(t, truth.Script{TokensPerEvent: 2}, func(t *testing.T, p *party) {
		p.params.MaxTokens = 10
		log, r := p.do()
		count, counted := 0, false
		for e := range log.Events() {
			if e.Tokens >= 0 {
				counted, count = true, max(count, e.Tokens)
			}
		}
		if counted != p.counts || counted && count != r.Tokens {
			t.Errorf("counted %v, %d of %d", counted, count, r.Tokens)
		}
		if log.Usage.Completion != r.Tokens {
			t.Errorf("the usage says %d of %d", log.Usage.Completion, r.Tokens)
		}
	})
}

// The end mark is a token that no event shows.
func TestConformTokensPerEvent(t *testing.T) {
	mark := func(_, token int) string {
		if token == 7 {
			return truth.Hidden
		}
		return ""
	}
	for _, tt := range []struct {
		name   string
		script truth.Script
		want   float64
	}{
		{"one token an event", truth.Script{}, 1},
		{"with an end mark", truth.Script{Channel: mark, StopAfter: func(truth.Call) int { return 8 }}, 1},
		{"cut at a hidden token", truth.Script{Channel: mark}, 8. / 7},
		{"no usage", truth.Script{Usage: truth.UsageNone}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conform(t, tt.script, func(t *testing.T, p *party) {
				p.params.MaxTokens = 8
				if log, _ := p.do(); log.TokensPerEvent() != tt.want {
					t.Errorf("%v tokens an event, want %v", log.TokensPerEvent(), tt.want)
				}
				log, _ := p.doFor(55 * time.Millisecond)
				if log.TokensPerEvent() != 0 {
					t.Errorf("%v tokens an event of a request that was cut", log.TokensPerEvent())
				}
			})
		})
	}
}

func TestConformAnAnswerInOneDocument(t *testing.T) {
	conform(t, truth.Script{IgnoreStream: true, PrefillBase: time.Second}, func(t *testing.T, p *party) {
		log, r := p.do()
		p.ended(log, speedmatrix.RequestCompleted, "length")
		if len(log.Text()) != r.Events[0].Length || log.FirstNS != r.EndedNS {
			t.Errorf("%d bytes of text at %d, want %d at %d", len(log.Text()), log.FirstNS, r.Events[0].Length, r.EndedNS)
		}
		p.usage(log, r, true)
	})
}

func TestConformWhatNoRequestMaySay(t *testing.T) {
	conform(t, truth.Script{MaxLength: 32, Auth: "k"}, func(t *testing.T, p *party) {
		if log, _ := p.do(); log.HTTPStatus != 401 || log.Failure != FailureHTTP {
			t.Errorf("without the key: %d, %s", log.HTTPStatus, log.Error)
		}
		for name, value := range p.dialect.Headers("k") {
			p.client.target.header.Set(name, value)
		}
		log, _ := p.do()
		p.ended(log, speedmatrix.RequestCompleted, "length")
		p.params.Prompt = strings.Repeat("word ", 40)
		if log, _ = p.do(); log.HTTPStatus/100 != 4 || !strings.Contains(log.Error, "context length") {
			t.Errorf("a prompt that is too long: %d, %s", log.HTTPStatus, log.Error)
		}
		p.params.Model, p.params.Prompt = "nope", "x"
		if log, _ = p.do(); p.api != wire.Generate && (log.HTTPStatus != 404 || !strings.Contains(log.Error, "nope")) {
			t.Errorf("an unknown model: %d, %s", log.HTTPStatus, log.Error)
		}
	})
}
