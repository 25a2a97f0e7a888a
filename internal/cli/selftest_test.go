package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/cli"
)

// steadyMachine is a machine that holds 100,000 tok/s, and whose stamps are off by 8 µs; 512 streams are too many for it.
func steadyMachine(_ context.Context, l bench.SelfLoad) (*bench.SelfResult, error) {
	time.Sleep(time.Second)
	rate := float64(l.Streams) * l.Rate
	r := &bench.SelfResult{Streams: l.Streams, PlannedRate: rate, Status: speedmatrix.StatusValid, TokensPerSecond: &rate, TrueTokensPerSecond: &rate,
		TotalError: new(0.00012), StampErrorP50Micros: new(2.5), StampErrorP99Micros: new(8.0), TTFTErrorP99Micros: new(31.0),
		ArrivedLateP99Micros: new(1400.0), Client: &speedmatrix.ClientQuality{StampSource: "kernel", CPUShare: new(0.5), MachineCPUShare: new(0.99)}}
	if rate > 100_000 {
		r.StampErrorP99Micros = new(9000.0)
	}
	if l.Streams == 512 {
		r.Status, r.Reason = speedmatrix.StatusClientLimited, "requests left 7.0 ms (p99) later than planned"
	}
	return r, nil
}

func selftest(w *world, measure bench.Measure, args ...string) int {
	w.out.buffer.Reset()
	w.err.buffer.Reset()
	env := w.environment(append([]string{"selftest"}, args...))
	env.SelfTest = measure
	w.code = cli.Main(w.t.Context(), env)
	return w.code
}

func TestASelftestSaysWhatThisMachineCanMeasure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		selftest(w, steadyMachine)
		w.ended(0, "Measuring this program for about")
		text := strings.Join(strings.Fields(w.out.String()), " ")
		for _, part := range []string{
			"streams sent p50 p99 p99 p99 tok/s error cores verdict",
			"128 12.8K 3 µs 8 µs 31 µs 1.4 ms 0.01 % 0.50 Valid",
			"Ceiling this machine can measure up to 76.8K tokens/s (1,024 streams; at 102400 tok/s the stamps are 9.0 ms (p99) off)",
			"Times right to ±8 µs (p99)",
			"server and client share it",
			"Took 9 s",
			"Note other programs took up to",
			"Note 512 streams: Client limited: requests left 7.0 ms (p99) later than planned",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in\n%s", part, w.out.String())
			}
		}
	})
}

func TestASelftestAsJSONIsNothingElse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		selftest(w, steadyMachine, "--json", "--streams", "4, 8")
		w.ended(0)
		var report bench.SelfReport
		if err := json.Unmarshal([]byte(w.out.String()), &report); err != nil {
			t.Fatalf("%v in\n%s", err, w.out.String())
		}
		if len(report.Loads) != 2 || report.Loads[1].Streams != 8 || report.Ceiling.Streams != 8 || *report.StampErrorP99Micros != 8 {
			t.Errorf("%+v", report)
		}
	})
}

func TestASelftestThatCannotBeDoneSaysWhy(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for args, words := range map[string]string{
			"--streams 0": "0 streams cannot be tested; give from 1 to 8192", "--streams 1,x": `"x" is no whole number`, "more": `selftest takes no argument, but was given "more"`,
		} {
			selftest(w, steadyMachine, strings.Fields(args)...)
			w.ended(2, words)
		}
		selftest(w, func(context.Context, bench.SelfLoad) (*bench.SelfResult, error) {
			return nil, errors.New("no loopback")
		})
		w.ended(1, "the self-test failed: 1 streams: no loopback", "try fewer streams")
	})
}
