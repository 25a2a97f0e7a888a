package bench

import (
	"context"
	"fmt"
	"net/url"
	"runtime"
	"strconv"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/unit"
)

// The self-check's load: 100 tok/s a stream, 50 from 256 streams on, for a second.
const (
	selfCheckTime    = time.Second
	selfCheckMost    = 1024
	selfCheckGap     = 10 * time.Millisecond
	selfCheckSlowGap = 20 * time.Millisecond
	selfCheckSlow    = 256
	selfCheckLimit   = 10 * time.Second
)

// SelfCheck measures this program against a ground truth server in the same process, over real loopback, with
// tokens in lockstep: how far its stamps are from the server's send times. The client record is filled in as far
// as it is known even where the check fails.
func SelfCheck(ctx context.Context, clock *stamp.Clock, streams int) (speedmatrix.Client, error) {
	out := speedmatrix.Client{StampSource: "user", CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0)}
	if stamp.Kernel() {
		out.StampSource = "kernel"
	}
	streams = min(max(streams, 1), selfCheckMost)
	gap := selfCheckGap
	if streams > selfCheckSlow {
		gap = selfCheckSlowGap
	}
	ctx, cancel := context.WithTimeout(ctx, selfCheckLimit)
	defer cancel()
	server, err := truth.Start(truth.Script{Now: clock.Now, Lockstep: true, Usage: truth.UsageAsked,
		Gap: func(truth.Step) time.Duration { return gap }})
	if err != nil {
		return out, err
	}
	defer server.Close()
	logs, seconds, err := selfCheckLoad(ctx, clock, server.URL(), selfCheckRequest{streams: streams, tokens: int(selfCheckTime / gap)})
	if err != nil {
		return out, err
	}
	errors := stampErrors(logs, server.Account())
	if len(errors) == 0 {
		return out, fmt.Errorf("no token of %d streams arrived within %s", streams, unit.Duration(selfCheckLimit))
	}
	s := stats.Summarize(errors)
	out.StampErrorP50Micros, out.StampErrorP99Micros = s.P50, s.P99
	out.SelfCheckStreams, out.SelfCheckRate = streams, float64(len(errors))/seconds
	return out, nil
}

// selfCheckRequest is how many streams ask for how many tokens.
type selfCheckRequest struct{ streams, tokens int }

// selfCheckLoad runs the streams until each has ended its request, and gives the seconds from the first to the last event.
func selfCheckLoad(ctx context.Context, clock *stamp.Clock, address string, r selfCheckRequest) ([]*load.Log, float64, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, 0, err
	}
	client, err := load.New(load.Options{BaseURL: base, Dialect: dialect.Chat(), Clock: clock})
	if err != nil {
		return nil, 0, err
	}
	bodies := make([][]byte, r.streams+1)
	for i := range bodies {
		tokens := r.tokens
		if i == 0 {
			tokens = 1
		}
		if bodies[i], err = selfCheckBody(tokens, i); err != nil {
			return nil, 0, err
		}
	}
	streams, err := client.Open(ctx, r.streams, func(stream int, restart bool) load.Request {
		if restart {
			return load.Request{Body: bodies[0], Purpose: PurposeRestart}
		}
		return load.Request{Body: bodies[stream+1], Purpose: PurposeLaunch}
	})
	if err != nil {
		return nil, 0, err
	}
	streams.Launch(clock.Now(), launchSpacing)
	for ctx.Err() == nil && !everyStream(streams, r.streams) {
		pause(ctx, pollEvery)
	}
	streams.Stop()
	logs := streams.Logs()
	first, last := int64(0), int64(0)
	for _, l := range logs {
		for e := range l.Events() {
			if first == 0 || e.At < first {
				first = e.At
			}
			last = max(last, e.At)
		}
	}
	return logs, max(float64(last-first)/1e9, 1e-9), nil
}

// stampErrors compares arrivals with the server's own send times, event by event, in µs. The seed that each
// stream's first request carries says which request of the server's is its.
func stampErrors(logs []*load.Log, account truth.Account) (errors []float64) {
	bySeed := map[string]*truth.Request{}
	for i := range account.Requests {
		r := &account.Requests[i]
		bySeed[string(r.Fields["seed"])] = r
	}
	for _, l := range logs {
		match := bySeed[strconv.Itoa(int(l.Stream)+1)]
		if l.Purpose != PurposeLaunch || match == nil {
			continue
		}
		i := 0
		for e := range l.Events() {
			if i < len(match.Events) {
				errors = append(errors, float64(e.At-match.Events[i].AtNS)/1e3)
			}
			i++
		}
	}
	return errors
}

// selfCheckBody asks for tokens; seed marks it, 0 for a request that follows a stream's first one.
func selfCheckBody(tokens, seed int) ([]byte, error) {
	return dialect.Chat().Body(dialect.Params{Model: "truth", Prompt: "go", MaxTokens: tokens, Stream: true, IncludeUsage: true,
		ContinuousUsage: true, Extra: map[string]any{"seed": seed}})
}
