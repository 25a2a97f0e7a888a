package bench_test

import (
	"testing"

	"speedmatrix/internal/bench"
	"speedmatrix/internal/stamp"
)

func TestTheSelfCheckComparesEveryTokenWithItsSendTime(t *testing.T) {
	client, err := bench.SelfCheck(t.Context(), stamp.NewClock(), 4)
	if err != nil {
		t.Fatal(err)
	}
	// A busy machine sends later than planned, never earlier.
	if client.SelfCheckStreams != 4 || client.SelfCheckRate <= 0 || client.SelfCheckRate > 450 {
		t.Errorf("%d streams at %.0f tok/s, want 4 at no more than about 400", client.SelfCheckStreams, client.SelfCheckRate)
	}
	if client.StampErrorP50Micros == nil || client.StampErrorP99Micros == nil || *client.StampErrorP50Micros < 0 {
		t.Errorf("stamp errors %v and %v µs", client.StampErrorP50Micros, client.StampErrorP99Micros)
	}
	if client.CPUs < 1 || client.GOMAXPROCS < 1 || client.StampSource == "" {
		t.Errorf("%+v", client)
	}
}

// The figure to watch is p99 of stamp − send time at 128 streams × 100 tok/s: at most 20 µs with kernel stamps.
func BenchmarkStampError(b *testing.B) {
	clock := stamp.NewClock()
	p50, p99, n := 0.0, 0.0, 0
	for b.Loop() {
		client, err := bench.SelfCheck(b.Context(), clock, 128)
		if err != nil {
			b.Fatal(err)
		}
		p50, p99, n = p50+*client.StampErrorP50Micros, p99+*client.StampErrorP99Micros, n+1
	}
	b.ReportMetric(p50/float64(n), "p50-µs")
	b.ReportMetric(p99/float64(n), "p99-µs")
	b.ReportMetric(0, "ns/op")
}
