package bench

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/machine"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
)

// Where stamps come from, as the client record says it.
const (
	StampKernel = "kernel"
	StampUser   = "user"
)

// selfTestGrace is the time beyond a load's own after which it is given up.
const selfTestGrace = 10 * time.Second

// SelfLoad is a load that this program is measured with against a ground truth server.
type SelfLoad struct {
	Streams int
	// Rate is the tokens a second of each stream, Time how long each stream produces.
	Rate float64
	Time time.Duration
	// Spread sends the tokens of the streams evenly through the gap instead of all together.
	Spread bool
	// Server is the base URL of a truth.BeatServer in another process with that gap; "" starts one in this process.
	Server string
	// Limit ends a load that takes longer; 0 is the load's own time and 10 s.
	Limit time.Duration
	// Client is how requests are sent; its base URL, dialect and clock are set by the self-test.
	Client load.Options `json:"-"`
	// Ended, if set, is called when the load has ended, before it is compared.
	Ended func() `json:"-"`
}

// Gap is the time between two tokens of a stream.
func (l SelfLoad) Gap() time.Duration { return time.Duration(float64(time.Second) / l.Rate) }

// tokens is how many each stream asks for.
func (l SelfLoad) tokens() int { return max(int(l.Time.Seconds()*l.Rate), 2) }

// SelfResult is what this program made of a load, held against the server's account. Errors and lateness are in µs;
// null is unknown.
type SelfResult struct {
	Streams     int     `json:"streams"`
	PlannedRate float64 `json:"planned_tokens_per_second"`
	// Status and Reason are what a cell measured like this would be called.
	Status speedmatrix.Status `json:"status"`
	Reason string             `json:"reason,omitempty"`
	// TokensPerSecond is the total as a cell would publish it, TrueTokensPerSecond as the server sent it, TotalError
	// the distance as a share of the latter.
	TokensPerSecond     *float64 `json:"tokens_per_second"`
	TrueTokensPerSecond *float64 `json:"true_tokens_per_second"`
	TotalError          *float64 `json:"total_error"`
	Tokens              int      `json:"tokens"`
	// Missing counts tokens that were sent and never recorded.
	Missing int `json:"missing_tokens"`
	// A stamp's error is its distance from the beginning of the system call that sent the token. Untimed counts tokens
	// stamped within a call that took more than 100 µs: the server was put aside in it, and when the token left is not known.
	StampErrorP50Micros *float64 `json:"stamp_error_p50_us"`
	StampErrorP99Micros *float64 `json:"stamp_error_p99_us"`
	Untimed             int      `json:"untimed_tokens"`
	// The error of a TTFT is its distance from the server's own: the first token sent − the request arrived.
	TTFTErrorP50Micros *float64 `json:"ttft_error_p50_us"`
	TTFTErrorP99Micros *float64 `json:"ttft_error_p99_us"`
	// TTFTP50Micros is the median TTFT, TrueTTFTP50Micros the server's.
	TTFTP50Micros     *float64 `json:"ttft_p50_us"`
	TrueTTFTP50Micros *float64 `json:"true_ttft_p50_us"`
	// ArrivedLateP99Micros is how much later than planned requests arrived at the server.
	ArrivedLateP99Micros *float64 `json:"arrived_late_p99_us"`
	// Client is the quality as a cell would publish it; its use of the CPU includes the server where that runs in this process.
	Client *speedmatrix.ClientQuality `json:"client"`
	// ServerCPUCores is the server's own use where it runs in a process of its own.
	ServerCPUCores *float64 `json:"server_cpu_cores,omitempty"`
	Seconds        float64  `json:"seconds"`
}

// SelfTest measures this program with a load against a ground truth server over real loopback.
func SelfTest(ctx context.Context, clock *stamp.Clock, l SelfLoad) (*SelfResult, error) {
	if l.Limit == 0 {
		l.Limit = l.Time + selfTestGrace
	}
	ctx, cancel := context.WithTimeout(ctx, l.Limit)
	defer cancel()
	account := func() ([]truth.BeatRequest, error) { return truth.FetchAccount(l.Server) }
	if l.Server == "" {
		server, err := truth.StartBeat(truth.Beat{Gap: l.Gap(), Spread: l.Spread, Clock: clock})
		if err != nil {
			return nil, err
		}
		defer server.Close()
		l.Server = server.URL()
		account = func() ([]truth.BeatRequest, error) { return server.Account(), nil }
	}
	run := &selfRun{load: l, begunNS: clock.Now(), begun: sampleUsage()}
	if err := run.streamsOf(ctx, clock); err != nil {
		return nil, err
	}
	run.ended, run.endedNS = sampleUsage(), clock.Now()
	if l.Ended != nil {
		l.Ended()
	}
	said, err := account()
	if err != nil {
		return nil, err
	}
	return run.result(said)
}

// selfRun is a load under way.
type selfRun struct {
	load             SelfLoad
	streams          *load.Streams
	wakes            stamp.Histogram
	begunNS, endedNS int64
	begun, ended     *machine.Usage
}

// result compares what was recorded with the account.
func (s *selfRun) result(said []truth.BeatRequest) (*SelfResult, error) {
	logs := s.streams.Logs()
	c := compareSelf(logs, said)
	c.within(s.load.Gap() / 2)
	if c.tokens == 0 {
		return nil, fmt.Errorf("no token of %d streams arrived within %s", s.load.Streams, s.load.Limit)
	}
	quality := qualityOf(s.streams.Quality(), &s.wakes, logs)
	addUsage(quality, s.begun, s.ended)
	r := &SelfResult{Streams: s.load.Streams, PlannedRate: float64(s.load.Streams) * s.load.Rate, Tokens: c.tokens, Untimed: c.untimed,
		Missing: c.missing, Client: quality, Seconds: float64(s.endedNS-s.begunNS) / 1e9}
	r.StampErrorP50Micros, r.StampErrorP99Micros = micros(c.stampErrors, 0.5), micros(c.stampErrors, 0.99)
	r.TTFTErrorP50Micros, r.TTFTErrorP99Micros = micros(c.ttftErrors, 0.5), micros(c.ttftErrors, 0.99)
	r.TTFTP50Micros, r.TrueTTFTP50Micros = micros(c.ttfts, 0.5), micros(c.trueTTFTs, 0.5)
	r.ArrivedLateP99Micros = micros(c.late, 0.99)
	e, cell := c.evidence(s.load, logs, quality), &speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Concurrency: s.load.Streams}
	Summarize(e, cell)
	r.Status, r.Reason = Judge(e, cell, Judgement{})
	r.TokensPerSecond = cell.TotalTokensPerSecond
	if rate, ok := snappedRate(c.sent, c.allFirst, c.anyLast); ok && r.TokensPerSecond != nil {
		r.TrueTokensPerSecond, r.TotalError = &rate, new(math.Abs(*r.TokensPerSecond/rate-1))
	}
	return r, nil
}

// streamsOf runs the streams until each has ended its first request; who ends early goes on with another one, so
// that the load stays the same.
func (s *selfRun) streamsOf(ctx context.Context, clock *stamp.Clock) error {
	l := s.load
	base, err := url.Parse(l.Server)
	if err != nil {
		return err
	}
	o := l.Client
	o.BaseURL, o.Dialect, o.Clock = base, dialect.Chat(), clock
	client, err := load.New(o)
	if err != nil {
		return err
	}
	bodies := make([][]byte, l.Streams+1)
	for i := range bodies {
		if bodies[i], err = selfTestBody(l.tokens(), i); err != nil {
			return err
		}
	}
	s.streams, err = client.Open(ctx, l.Streams, func(stream int, restart bool) load.Request {
		if restart {
			return load.Request{Body: bodies[0], Purpose: PurposeRestart}
		}
		return load.Request{Body: bodies[stream+1], Purpose: PurposeLaunch}
	})
	if err != nil {
		return err
	}
	s.streams.Launch(clock.Now(), launchSpacing)
	for ctx.Err() == nil && !everyStream(s.streams, l.Streams) {
		due := clock.Now() + int64(pollEvery)
		pause(ctx, pollEvery)
		s.wakes.Add(time.Duration(clock.Now() - due))
	}
	s.streams.Stop()
	return nil
}

// selfTestBody asks for tokens; seed marks it, 0 for a request that follows a stream's first one.
func selfTestBody(tokens, seed int) ([]byte, error) {
	return dialect.Chat().Body(dialect.Params{Model: "truth", Prompt: "go", MaxTokens: tokens, Stream: true, IncludeUsage: true,
		ContinuousUsage: true, Extra: map[string]any{"seed": seed}})
}
