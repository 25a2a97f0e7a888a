package bench_test

import (
	"slices"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/truth"
)

// steady is a machine with two GPUs, sampled every half second until its sampler dies: one draws 300 W and tells
// of its power, the other counts 200 J a second and is held down by its power limit in every third sample.
type steady struct {
	now   func() int64
	begun int64
	dies  time.Duration // 0: never
}

func (s *steady) Describe() *speedmatrix.Telemetry {
	return &speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfServer, IntervalSeconds: 0.5, Scope: "all 2 GPUs", GPUs: []speedmatrix.GPU{{Index: 0}, {Index: 1}}}
}

func (s *steady) Rows() []speedmatrix.MachineRow {
	var rows []speedmatrix.MachineRow
	for i := int64(1); ; i++ {
		at := s.begun + i*int64(500*ms)
		if at > s.now() || s.dies > 0 && at > s.begun+int64(s.dies) {
			return rows
		}
		rows = append(rows,
			speedmatrix.MachineRow{TimeNS: at, CPUBusy: new(0.95), SwapIn: new(int64(0)), SwapOut: new(int64(400_000))},
			speedmatrix.MachineRow{TimeNS: at, GPU: new(int32(0)), Power: new(300.0), Clock: new(1900 - float64(i%2)*100), Utilization: new(1.0)},
			speedmatrix.MachineRow{TimeNS: at, GPU: new(int32(1)), Energy: new(float64(i) * 100), PowerCap: new(i%3 == 0), Thermal: new(false), HardwareSlowdown: new(false)})
	}
}

// sampled is a setting whose machine is sampled.
func sampled(m *steady) setting {
	return setting{
		settings: bench.Settings{Contexts: []int{0, 4096}, Concurrency: []int{1, 4}, Prefill: []int{1024, 4096}, Quick: true},
		script: truth.Script{
			PrefixCache: true, Tokenize: true, PrefillPerToken: 2 * ms, Lockstep: true, Gap: func(truth.Step) time.Duration { return 20 * ms },
		},
		limits: bench.Limits{MaxLength: 32768, KVBlockTokens: 16},
		prepared: func(w *world) {
			m.now, m.begun = w.clock.Now, w.clock.Now()
			w.session.Telemetry = m
		},
	}
}

func doubt(c *speedmatrix.Cell, code string) string {
	i := slices.IndexFunc(c.Warnings, func(w speedmatrix.Warning) bool { return w.Code == code })
	if i < 0 {
		return ""
	}
	return c.Warnings[i].Message
}

func TestEnergyClocksAndThrottlingFollowFromTheSamples(t *testing.T) {
	m := &steady{}
	w := measure(t, sampled(m))
	if w.err != nil {
		t.Fatal(w.err)
	}
	for _, context := range []int{0, 4096} {
		for _, concurrency := range []int{1, 4} {
			c := w.cell(context, concurrency)
			near(t, c.Key()+" power", c.GPUPower, 500)
			near(t, c.Key()+" energy per token", c.EnergyPerOutputToken, 500*0.02/float64(concurrency))
			if k := c.GPUClock; k == nil || k.Max != 1900 || k.Min != 1800 || k.DropShare != 100.0/1900 || k.N < 9 {
				t.Errorf("%s: clocks %+v", c.Key(), k)
			}
			if x := c.Throttle; x == nil || x.Verdict != speedmatrix.ThrottlePowerCap || x.PowerCapShare < 0.2 || x.PowerCapShare > 0.4 {
				t.Errorf("%s: throttle %+v", c.Key(), x)
			}
			for code, says := range map[string]string{"cpu saturated": "the machine's CPU was 95 % busy in the window"} {
				if got := doubt(c, code); got != says {
					t.Errorf("%s: %s: %q", c.Key(), code, got)
				}
			}
			if doubt(c, "throttled") == "" || doubt(c, "swapped") == "" {
				t.Errorf("%s: warnings %v", c.Key(), c.Warnings)
			}
			if n := len(c.Warnings); n != len(slices.Compact(slices.Clone(c.Warnings))) {
				t.Errorf("%s: a warning twice: %v", c.Key(), c.Warnings)
			}
		}
	}
	long := w.prefill(4096)
	near(t, "energy per prompt token", long.EnergyPerPromptToken, 500*0.002)
	if short := w.prefill(1024); short.GPUPower != nil || short.EnergyPerPromptToken != nil {
		t.Errorf("a prefill of 2 s has a power of %v", *short.GPUPower)
	}
	var codes []string
	for _, f := range w.run.Findings {
		codes = append(codes, f.Code)
	}
	if want := []string{"power_cap", "cpu_saturated"}; !slices.Equal(codes, want) {
		t.Errorf("findings %q, want %q", codes, want)
	}
	if w.run.Telemetry == nil || w.run.Telemetry.Scope != "all 2 GPUs" || len(w.store.machine) < 100 {
		t.Errorf("telemetry %+v, %d rows", w.run.Telemetry, len(w.store.machine))
	}
	w.verified()
}

func TestASamplerThatDiesLeavesTheRestUnknown(t *testing.T) {
	m := &steady{dies: 40 * second}
	w := measure(t, sampled(m))
	if w.err != nil {
		t.Fatal(w.err)
	}
	if w.cell(0, 1).GPUPower == nil {
		t.Error("the first cell has no power")
	}
	last := w.cell(4096, 4)
	if last.WindowStartedAt.UnixNano() < m.begun+int64(m.dies) {
		t.Fatal("the sampler did not die before the last cell")
	}
	if last.GPUPower != nil || last.EnergyPerOutputToken != nil || last.Throttle != nil || last.GPUClock != nil {
		t.Errorf("the last cell has %v W, %v, %v", last.GPUPower, last.GPUClock, last.Throttle)
	}
	w.verified()
}

func TestEarlierSamplesStayWhenARunGoesOn(t *testing.T) {
	m := &steady{}
	s := sampled(m)
	begin := s.prepared
	earlier := []speedmatrix.MachineRow{{TimeNS: 1, CPUBusy: new(0.25)}}
	s.prepared = func(w *world) {
		begin(w)
		w.session.ContinueMachine(earlier)
	}
	w := measure(t, s)
	if w.err != nil {
		t.Fatal(w.err)
	}
	if len(w.store.machine) < 100 || w.store.machine[0].TimeNS != 1 {
		t.Errorf("%d rows, the first %+v", len(w.store.machine), w.store.machine[0])
	}
	w.verified()
}

func TestWithoutASamplerNothingIsKnownOfTheMachine(t *testing.T) {
	s := sampled(&steady{})
	s.prepared = nil
	w := measure(t, s)
	if w.err != nil || w.run.Telemetry != nil || w.store.machine != nil || w.cell(0, 1).GPUPower != nil {
		t.Errorf("%v, %+v, %d rows", w.err, w.run.Telemetry, len(w.store.machine))
	}
	w.verified()
}
