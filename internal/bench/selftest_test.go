package bench

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stamp"
)

// plain is a connection whose socket nobody sees, so that the kernel cannot be asked for stamps.
type plain struct{ net.Conn }

func dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return plain{conn}, err
}

func TestASelfTestHoldsEveryTokenAgainstItsSending(t *testing.T) {
	tests := []struct {
		name   string
		client load.Options
		source string
		reader load.Engine
	}{
		{"a goroutine for each stream", load.Options{Engine: load.EngineNetHTTP}, "", load.EngineNetHTTP},
		{"one for all", load.Options{Engine: load.EngineEpoll}, "", ""},
		{"without kernel stamps", load.Options{Dial: dialPlain}, StampUser, load.EngineNetHTTP},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := SelfTest(t.Context(), stamp.NewClock(), SelfLoad{Streams: 3, Rate: 200, Time: 100 * time.Millisecond, Client: tt.client})
			if err != nil {
				t.Fatal(err)
			}
			if r.Streams != 3 || r.Tokens != 60 || r.Missing != 0 || r.PlannedRate != 600 {
				t.Errorf("%+v", r)
			}
			if *r.StampErrorP50Micros < 0 || *r.TTFTErrorP99Micros < 0 || *r.ArrivedLateP99Micros < 0 || r.TotalError == nil || r.Seconds <= 0 {
				t.Errorf("%+v", r)
			}
			if tt.source != "" && r.Client.StampSource != tt.source {
				t.Errorf("stamps by %s", r.Client.StampSource)
			}
			if tt.reader != "" && r.Client.Reader != string(tt.reader) {
				t.Errorf("read by %s", r.Client.Reader)
			}
			if r.Client.ReaderLagP99Micros == nil || r.Client.CoalescedShare == nil || r.Client.SendLateP99Micros == nil {
				t.Errorf("quality %+v", r.Client)
			}
		})
	}
}

func TestASelfTestWithoutATokenSaysSo(t *testing.T) {
	_, err := SelfTest(t.Context(), stamp.NewClock(), SelfLoad{Streams: 1, Rate: 0.01, Time: time.Second, Limit: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no token of 1 streams arrived within 200ms") {
		t.Errorf("%v", err)
	}
}

// held answers loads as a machine would that holds a rate.
func held(most float64, failing func(r *SelfResult)) Measure {
	return func(_ context.Context, l SelfLoad) (*SelfResult, error) {
		rate := float64(l.Streams) * l.Rate
		r := &SelfResult{Streams: l.Streams, PlannedRate: rate, TokensPerSecond: &rate, TrueTokensPerSecond: &rate, TotalError: new(0.0001),
			StampErrorP99Micros: new(9.0), Status: speedmatrix.StatusValid}
		if rate > most {
			failing(r)
		}
		return r, nil
	}
}

func TestTheCeilingIsTheHighestRateThatWasHeld(t *testing.T) {
	late := func(r *SelfResult) { r.StampErrorP99Micros = new(5100.0) }
	tests := []struct {
		name    string
		most    float64
		failing func(r *SelfResult)
		want    float64 // 0: none
		limit   string
	}{
		{"late stamps", 170_000, late, 153_600, "at 204800 tok/s the stamps are 5.1 ms (p99) off"},
		{"the step between is not held either", 110_000, late, 102_400, "at 204800 tok/s the stamps are 5.1 ms (p99) off"},
		{"a wrong total", 30_000, func(r *SelfResult) { r.TotalError = new(0.0021) }, 25_600, "at 51200 tok/s the total is 0.21 % off"},
		{"a server that cannot", 60_000, func(r *SelfResult) { r.TrueTokensPerSecond = new(0.9 * r.PlannedRate) }, 51_200, "sent only 92160 of 102400 tok/s"},
		{"lost tokens", 60_000, func(r *SelfResult) { r.Missing = 2 }, 51_200, "2 tokens were not recorded"},
		{"nothing is held", 1, func(r *SelfResult) { r.TotalError = nil }, 0, "not all streams produced at once"},
		{"everything is held", math.Inf(1), late, 819_200, "no higher rate was tried"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			report, err := SelfTests(t.Context(), []int{1, 2048}, held(tt.most, tt.failing), nil)
			if err != nil {
				t.Fatal(err)
			}
			c := report.Ceiling
			if c.Streams != 1024 || !strings.Contains(c.Limit, tt.limit) {
				t.Errorf("%d streams, limit %q", c.Streams, c.Limit)
			}
			if got := c.TokensPerSecond; (got == nil) != (tt.want == 0) || got != nil && *got != tt.want {
				t.Errorf("ceiling %v, want %v", got, tt.want)
			}
			if len(report.Loads) != 2 || report.Loads[0].PlannedRate != 100 || report.Loads[1].PlannedRate != 102_400 || report.CPUs < 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

func TestTheStatedErrorIsTheWorstOfTheLoadsThatCount(t *testing.T) {
	measure := func(_ context.Context, l SelfLoad) (*SelfResult, error) {
		r, _ := held(math.Inf(1), nil)(t.Context(), l)
		r.StampErrorP99Micros = new(float64(l.Streams))
		if l.Streams > 8 {
			r.Status = speedmatrix.StatusClientLimited
		}
		return r, nil
	}
	heard := 0
	report, err := SelfTests(t.Context(), []int{1, 8, 64}, measure, func(*SelfResult) { heard++ })
	if err != nil || *report.StampErrorP99Micros != 8 || heard != 3 {
		t.Errorf("%v, %v µs, heard %d", err, *report.StampErrorP99Micros, heard)
	}
	broken := errors.New("broken")
	_, err = SelfTests(t.Context(), []int{3}, func(context.Context, SelfLoad) (*SelfResult, error) { return nil, broken }, nil)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "3 streams") {
		t.Errorf("%v", err)
	}
}

func TestARateIsSnappedToTokens(t *testing.T) {
	ms := func(list ...int64) (ns []int64) {
		for _, at := range list {
			ns = append(ns, at*1e6)
		}
		return ns
	}
	tests := []struct {
		name     string
		times    []int64
		from, to int64
		want     float64
		ok       bool
	}{
		{"one stream", ms(0, 10, 20, 30, 40, 50), 5, 35, 100, true},
		{"two in lockstep", ms(0, 0, 10, 10, 20, 20, 30, 30), 5, 25, 200, true},
		{"the end is missing", ms(0, 10, 20, 30), 5, 99, 100, true},
		{"one token", ms(10), 0, 99, 0, false},
		{"none", nil, 0, 99, 0, false},
		{"the wrong way round", ms(0, 10, 20), 15, 5, 0, false},
	}
	for _, tt := range tests {
		if got, ok := snappedRate(tt.times, tt.from*1e6, tt.to*1e6); ok != tt.ok || math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v %t, want %v", tt.name, got, ok, tt.want)
		}
	}
}
