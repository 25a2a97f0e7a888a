package bench

import (
	"context"
	"runtime"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stamp"
)

// The self-check's load: 100 tok/s a stream, 50 from 256 streams on, for a second.
const (
	selfCheckTime     = time.Second
	selfCheckMost     = 1024
	selfCheckRate     = 100
	selfCheckSlowRate = 50
	selfCheckSlow     = 256
)

// SelfCheck measures this program against a ground truth server over real loopback, with tokens in lockstep: how
// far its stamps are from the server's send times. The client record is filled in as far as it is known even where
// the check fails.
func SelfCheck(ctx context.Context, clock *stamp.Clock, streams int) (speedmatrix.Client, error) {
	out := speedmatrix.Client{StampSource: StampUser, CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0)}
	if stamp.Kernel() {
		out.StampSource = StampKernel
	}
	r, err := SelfTest(ctx, clock, UsualLoad(min(max(streams, 1), selfCheckMost)))
	if err != nil {
		return out, err
	}
	out.StampSource = r.Client.StampSource
	out.StampErrorP50Micros, out.StampErrorP99Micros = r.StampErrorP50Micros, r.StampErrorP99Micros
	out.SelfCheckStreams, out.SelfCheckRate = r.Streams, float64(r.Tokens)/r.Seconds
	if r.TokensPerSecond != nil {
		out.SelfCheckRate = *r.TokensPerSecond
	}
	return out, nil
}

// UsualLoad is the self-check's load of so many streams.
func UsualLoad(streams int) SelfLoad {
	rate := float64(selfCheckRate)
	if streams > selfCheckSlow {
		rate = selfCheckSlowRate
	}
	return SelfLoad{Streams: streams, Rate: rate, Time: selfCheckTime}
}
