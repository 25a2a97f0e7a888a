package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"speedmatrix/internal/stamp"
)

// The limits of the ceiling: where one of them is passed a rate is not held.
const (
	ceilingStampError = 5 * time.Millisecond // p99
	ceilingTotalError = 0.002
	ceilingDelivered  = 0.98 // of the planned rate, by the server's own account
)

// The search for the ceiling begins at 25 tok/s a stream, doubles while the rate is held, and halves the last step once.
const (
	ceilingFirst = 25.0
	ceilingSteps = 6
)

// SelfReport is this machine's own ceiling and error.
type SelfReport struct {
	StampSource string       `json:"stamp_source"`
	CPUs        int          `json:"cpus"`
	GOMAXPROCS  int          `json:"gomaxprocs"`
	Loads       []SelfResult `json:"loads"`
	Ceiling     Ceiling      `json:"ceiling"`
	// StampErrorP99Micros is the largest p99 of the loads that would be Valid, in µs; null without any.
	StampErrorP99Micros *float64 `json:"stamp_error_p99_us"`
	Seconds             float64  `json:"seconds"`
}

// Ceiling is the highest rate that was held: p99 of the stamps' error at most 5 ms and the total within 0.2 %.
type Ceiling struct {
	Streams int `json:"streams"`
	// TokensPerSecond is null where the lowest rate tried was not held.
	TokensPerSecond *float64 `json:"tokens_per_second"`
	// Limit is what ended the search: why the next rate was not held, or that none was higher.
	Limit string       `json:"limit"`
	Tried []SelfResult `json:"tried"`
}

// Measure measures one load; bench.SelfTest with a clock is one.
type Measure func(ctx context.Context, l SelfLoad) (*SelfResult, error)

// SelfTests measures a load for each number of streams and then searches for the ceiling at most 1,024 streams. tell,
// unless nil, hears of each result as it comes.
func SelfTests(ctx context.Context, streams []int, measure Measure, tell func(*SelfResult)) (*SelfReport, error) {
	begun := time.Now()
	out := &SelfReport{StampSource: StampUser, CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0)}
	if stamp.Kernel() {
		out.StampSource = StampKernel
	}
	for _, n := range streams {
		r, err := measure(ctx, UsualLoad(n))
		if err != nil {
			return nil, fmt.Errorf("%d streams: %w", n, err)
		}
		if tell != nil {
			tell(r)
		}
		out.Loads = append(out.Loads, *r)
		out.Ceiling.Streams = max(out.Ceiling.Streams, min(n, selfCheckMost))
		if p99 := r.StampErrorP99Micros; r.Status.ShowsSpeed() && p99 != nil && (out.StampErrorP99Micros == nil || *p99 > *out.StampErrorP99Micros) {
			out.StampErrorP99Micros = p99
		}
	}
	if err := out.Ceiling.search(ctx, measure); err != nil {
		return nil, err
	}
	out.Seconds = time.Since(begun).Seconds()
	return out, nil
}

// search raises the rate until it is not held.
func (c *Ceiling) search(ctx context.Context, measure Measure) error {
	rate, held, limit := ceilingFirst, 0.0, ""
	for range ceilingSteps {
		ok, err := c.try(ctx, measure, rate)
		if err != nil {
			return err
		}
		if !ok {
			limit = c.Limit
			break
		}
		held, rate = rate, 2*rate
	}
	if limit == "" {
		c.Limit = "no higher rate was tried"
		return nil
	}
	if held > 0 {
		if _, err := c.try(ctx, measure, 1.5*held); err != nil {
			return err
		}
	}
	c.Limit = limit
	return nil
}

// try measures one rate and keeps it as the ceiling if it is held.
func (c *Ceiling) try(ctx context.Context, measure Measure, rate float64) (bool, error) {
	r, err := measure(ctx, SelfLoad{Streams: c.Streams, Rate: rate, Time: selfCheckTime, Spread: true})
	if err != nil {
		return false, fmt.Errorf("%d streams at %.0f tok/s each: %w", c.Streams, rate, err)
	}
	c.Tried = append(c.Tried, *r)
	if c.Limit = r.notHeld(); c.Limit != "" {
		return false, nil
	}
	c.TokensPerSecond = r.TokensPerSecond
	return true, nil
}

// notHeld says why the rate was not held; "" if it was.
func (r *SelfResult) notHeld() string {
	switch {
	case r.TrueTokensPerSecond == nil || r.TotalError == nil || r.StampErrorP99Micros == nil:
		return "not all streams produced at once"
	case *r.TrueTokensPerSecond < ceilingDelivered*r.PlannedRate:
		return fmt.Sprintf("the ground truth server beside it sent only %.0f of %.0f tok/s", *r.TrueTokensPerSecond, r.PlannedRate)
	case r.Missing > 0:
		return fmt.Sprintf("%d tokens were not recorded", r.Missing)
	case *r.StampErrorP99Micros > float64(ceilingStampError.Microseconds()):
		return fmt.Sprintf("at %.0f tok/s the stamps are %.1f ms (p99) off", r.PlannedRate, *r.StampErrorP99Micros/1e3)
	case *r.TotalError > ceilingTotalError:
		return fmt.Sprintf("at %.0f tok/s the total is %.2f %% off", r.PlannedRate, 100**r.TotalError)
	}
	return ""
}
