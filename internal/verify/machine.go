package verify

import (
	"fmt"
	"math"
	"slices"

	"speedmatrix"
)

// The rules of samples of the machine: how far apart they may stand in a span (ns), and how long a prefill
// has to take (ns) for its energy to be told.
const (
	farApart    = int64(2_000_000_000)
	longPrefill = int64(5_000_000_000)
)

// stretch is a time, its start excluded and its end included, in ns.
type stretch struct{ from, to int64 }

func (s stretch) holds(at int64) bool { return s.from < at && at <= s.to }

func (s stretch) seconds() float64 { return float64(s.to-s.from) / 1e9 }

// checkMachine wants samples in order of time, and no share or amount that cannot be.
func (c *checker) checkMachine() {
	for i, r := range c.machine {
		if i > 0 && r.TimeNS < c.machine[i-1].TimeNS {
			c.disagree("", "machine.parquet", fmt.Sprintf("row %d is before row %d", i, i-1), "in order of time")
			return
		}
		for _, v := range []*float64{r.Utilization, r.CPUBusy} {
			if v != nil && !(*v >= 0 && *v <= 1) {
				c.disagree("", "machine.parquet", fmt.Sprintf("a share of %s in row %d", number(*v), i), "between 0 and 1")
			}
		}
		for _, v := range []*float64{r.Clock, r.MemoryClock, r.Power, r.Energy, r.PCIeReceived, r.PCIeSent} {
			if v != nil && !(*v >= 0) {
				c.disagree("", "machine.parquet", fmt.Sprintf("%s in row %d", number(*v), i), "not below zero")
			}
		}
	}
}

// overMachine recomputes what the samples tell of a cell over some spans.
func (c *checker) overMachine(got *speedmatrix.Cell, spans []stretch) {
	samples := map[int32][]speedmatrix.MachineRow{}
	for _, r := range c.machine {
		if r.GPU != nil {
			samples[*r.GPU] = append(samples[*r.GPU], r)
		}
	}
	if len(spans) == 0 || len(samples) == 0 {
		return
	}
	got.GPUPower = meanPower(samples, spans)
	var clocks []float64
	summary := &speedmatrix.ClockSummary{}
	throttled := &speedmatrix.Throttle{}
	for _, rows := range samples {
		lowest, highest := math.Inf(1), 0.0
		for _, r := range rows {
			if !slices.ContainsFunc(spans, func(s stretch) bool { return s.holds(r.TimeNS) }) || r.Utilization != nil && *r.Utilization == 0 {
				continue
			}
			if r.Clock != nil {
				clocks = append(clocks, *r.Clock)
				lowest, highest = min(lowest, *r.Clock), max(highest, *r.Clock)
			}
			countReasons(throttled, r)
		}
		if highest > 0 {
			summary.DropShare = max(summary.DropShare, 1-lowest/highest)
		}
	}
	if len(clocks) > 0 {
		slices.Sort(clocks)
		summary.Median, summary.Min, summary.Max, summary.N = quantile(clocks, 0.5), clocks[0], clocks[len(clocks)-1], len(clocks)
		got.GPUClock = summary
	}
	if throttled.N > 0 {
		got.Throttle = judged(throttled)
	}
}

// countReasons counts one sample that tells all three reasons.
func countReasons(t *speedmatrix.Throttle, r speedmatrix.MachineRow) {
	if r.HardwareSlowdown == nil || r.Thermal == nil || r.PowerCap == nil {
		return
	}
	t.N++
	for _, x := range []struct {
		on  bool
		sum *float64
	}{{*r.HardwareSlowdown, &t.HardwareSlowdownShare}, {*r.Thermal, &t.ThermalShare}, {*r.PowerCap, &t.PowerCapShare}} {
		if x.on {
			*x.sum++
		}
	}
}

// judged turns counts into shares and says which of them holds.
func judged(t *speedmatrix.Throttle) *speedmatrix.Throttle {
	n := float64(t.N)
	t.HardwareSlowdownShare, t.ThermalShare, t.PowerCapShare = t.HardwareSlowdownShare/n, t.ThermalShare/n, t.PowerCapShare/n
	t.Verdict = speedmatrix.ThrottleNone
	for _, x := range []struct {
		share, limit float64
		verdict      speedmatrix.ThrottleVerdict
	}{
		{t.PowerCapShare, 0.2, speedmatrix.ThrottlePowerCap}, {t.ThermalShare, 0.05, speedmatrix.ThrottleThermal},
		{t.HardwareSlowdownShare, 0.05, speedmatrix.ThrottleHardware},
	} {
		if x.share > x.limit {
			t.Verdict = x.verdict // what weighs more comes later
		}
	}
	return t
}

// meanPower is the mean draw of all GPUs together; nil where one was not watched.
func meanPower(samples map[int32][]speedmatrix.MachineRow, spans []stretch) *float64 {
	var watts, seconds float64
	for _, s := range spans {
		seconds += s.seconds()
	}
	for _, rows := range samples {
		for _, s := range spans {
			mean, ok := meanOver(rows, s)
			if !ok {
				return nil
			}
			watts += mean * s.seconds() / seconds
		}
	}
	return &watts
}

// meanOver is the mean draw of one GPU over a span: the slope of its counter, or the mean of its power along time,
// which goes straight from sample to sample and stays at the ends.
func meanOver(rows []speedmatrix.MachineRow, s stretch) (float64, bool) {
	var times []int64
	var counter, power []float64
	var powerTimes []int64
	for _, r := range rows {
		if !s.holds(r.TimeNS) {
			continue
		}
		if r.Energy != nil {
			times, counter = append(times, r.TimeNS), append(counter, *r.Energy)
		}
		if r.Power != nil {
			powerTimes, power = append(powerTimes, r.TimeNS), append(power, *r.Power)
		}
	}
	if n := len(counter); n > 1 && covers(times, s) && counter[n-1] >= counter[0] {
		return (counter[n-1] - counter[0]) * 1e9 / float64(times[n-1]-times[0]), true
	}
	if !covers(powerTimes, s) {
		return 0, false
	}
	// Each sample weighs half of the time to either neighbour; the first and the last all of it to the ends.
	var sum float64
	for i, p := range power {
		left, right := float64(powerTimes[i]-s.from), float64(s.to-powerTimes[i])
		if i > 0 {
			left = float64(powerTimes[i]-powerTimes[i-1]) / 2
		}
		if i+1 < len(power) {
			right = float64(powerTimes[i+1]-powerTimes[i]) / 2
		}
		sum += p * (left + right)
	}
	return sum / float64(s.to-s.from), true
}

// covers says whether no part of the span is far from a sample.
func covers(times []int64, s stretch) bool {
	if len(times) == 0 {
		return false
	}
	all := slices.Concat([]int64{s.from}, times, []int64{s.to})
	for i := range len(all) - 1 {
		if all[i+1]-all[i] > farApart {
			return false
		}
	}
	return true
}

// energyPerToken is mean power × time ÷ tokens.
func energyPerToken(watts *float64, spans []stretch, tokens float64) *float64 {
	if watts == nil || tokens <= 0 {
		return nil
	}
	var seconds float64
	for _, s := range spans {
		seconds += s.seconds()
	}
	return new(*watts / (tokens / seconds))
}
