package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/findings"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// Telemetry samples the machine while a run goes on; *machine.Sampler is one.
type Telemetry interface {
	// Rows gives all samples so far, in order of time.
	Rows() []speedmatrix.MachineRow
	Describe() *speedmatrix.Telemetry
}

// The rules by which samples count: how far apart they may be, and how long a prefill must take.
const (
	largestSampleGap = 2 * time.Second
	leastPrefillSpan = 5 * time.Second
)

// The shares of samples from which clocks count as held down.
const (
	slowdownShare = 0.05
	powerCapShare = 0.20
)

// ContinueMachine takes the samples of the run's earlier part over.
func (s *Session) ContinueMachine(rows []speedmatrix.MachineRow) { s.machineFrom = rows }

// saveMachine writes the samples and takes the cells' figures and the run's findings from just those, so that the
// document and the rows agree at every moment.
func (s *Session) saveMachine() error {
	var rows []speedmatrix.MachineRow
	if s.Telemetry != nil {
		rows = append(s.machineFrom[:len(s.machineFrom):len(s.machineFrom)], s.Telemetry.Rows()...)
		s.Run.Telemetry = s.Telemetry.Describe()
		if len(rows) > 0 {
			if err := s.Store.SaveMachine(rows); err != nil {
				return err
			}
		}
		s.measureMachine(rows)
	}
	s.Run.Findings = findings.Of(s.Run, rows)
	return nil
}

// measureMachine puts the machine's figures into every cell that was measured.
func (s *Session) measureMachine(rows []speedmatrix.MachineRow) {
	m := newMachineRows(rows)
	cells := []*speedmatrix.Cell{}
	for i := range s.Run.Cells {
		cells = append(cells, &s.Run.Cells[i])
	}
	for i := range s.Run.Repeats {
		for j := range s.Run.Repeats[i].Cells {
			cells = append(cells, &s.Run.Repeats[i].Cells[j])
		}
	}
	if s.Run.Drift != nil {
		cells = append(cells, &s.Run.Drift.Cell)
	}
	for _, c := range cells {
		if p, ok := s.prefillSpans[c.Context]; ok && c.Phase == speedmatrix.PhasePrefill {
			m.measure(c, p.spans)
			c.EnergyPerPromptToken = perToken(c.GPUPower, p.spans, p.tokens)
			continue
		}
		if c.Phase == speedmatrix.PhaseDecode && c.WindowStartedAt != nil && c.WindowSeconds != nil {
			start := c.WindowStartedAt.UnixNano()
			spans := []window{{start, start + int64(*c.WindowSeconds*1e9+0.5)}}
			m.measure(c, spans)
			m.doubts(c, spans[0])
			if c.OutputTokens != nil {
				c.EnergyPerOutputToken = perToken(c.GPUPower, spans, *c.OutputTokens)
			}
		}
	}
}

// prefillSpan is the time of a context's cold samples that lasted long enough, and their prompt tokens.
type prefillSpan struct {
	spans  []window
	tokens float64
}

// notePrefill remembers when the cold samples of a row were read, for the energy that they took.
func (s *Session) notePrefill(context int, f *Prefilled, tokens float64) {
	row := &f.Recorded.Row
	if *row.FirstNS-*row.WrittenNS < int64(leastPrefillSpan) {
		return
	}
	p := s.prefillSpans[context]
	p.spans, p.tokens = append(p.spans, window{*row.WrittenNS, *row.FirstNS}), p.tokens+tokens
	s.prefillSpans[context] = p
}

// perToken is the energy of a mean power over some time for each token.
func perToken(watts *float64, spans []window, tokens float64) *float64 {
	if watts == nil || tokens <= 0 {
		return nil
	}
	return new(*watts * total(spans) / tokens)
}

// total is the length of some spans in seconds.
func total(spans []window) (seconds float64) {
	for _, w := range spans {
		seconds += w.seconds()
	}
	return seconds
}

// machineRows are samples in order of time, apart by what they are of.
type machineRows struct {
	host []speedmatrix.MachineRow
	gpus map[int32][]speedmatrix.MachineRow
}

func newMachineRows(rows []speedmatrix.MachineRow) *machineRows {
	m := &machineRows{gpus: map[int32][]speedmatrix.MachineRow{}}
	for _, r := range rows {
		if r.GPU == nil {
			m.host = append(m.host, r)
			continue
		}
		m.gpus[*r.GPU] = append(m.gpus[*r.GPU], r)
	}
	return m
}

// within are the rows in a span.
func within(rows []speedmatrix.MachineRow, w window) []speedmatrix.MachineRow {
	at := func(t int64) int {
		i, _ := slices.BinarySearchFunc(rows, t, func(r speedmatrix.MachineRow, t int64) int { return cmp.Compare(r.TimeNS, t) })
		return i
	}
	return rows[at(w.start+1):at(w.end+1)]
}

// measure takes power, clocks and what held them down over some spans.
func (m *machineRows) measure(c *speedmatrix.Cell, spans []window) {
	c.GPUPower, c.GPUClock, c.Throttle = m.power(spans), m.clock(spans), m.throttle(spans)
}

// power is the mean power of all GPUs together in watts; nil where one of them was not watched all the time.
func (m *machineRows) power(spans []window) *float64 {
	if len(m.gpus) == 0 || len(spans) == 0 {
		return nil
	}
	var joules float64
	// In order of their numbers, so that the sum is the same each time.
	for _, gpu := range sortedKeys(m.gpus) {
		for _, w := range spans {
			e, ok := energy(within(m.gpus[gpu], w), w)
			if !ok {
				return nil
			}
			joules += e
		}
	}
	return new(joules / total(spans))
}

func sortedKeys(m map[int32][]speedmatrix.MachineRow) []int32 {
	var keys []int32
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// energy is that of one GPU over a span in joules: by its counter between the first and the last sample, where it has
// one, else by its power, which is taken to change evenly from one sample to the next.
func energy(rows []speedmatrix.MachineRow, w window) (joules float64, ok bool) {
	counted := slices.DeleteFunc(slices.Clone(rows), func(r speedmatrix.MachineRow) bool { return r.Energy == nil })
	if n := len(counted); watched(counted, w) && n > 1 && *counted[n-1].Energy >= *counted[0].Energy {
		first, last := &counted[0], &counted[n-1]
		return (*last.Energy - *first.Energy) / (float64(last.TimeNS-first.TimeNS) / 1e9) * w.seconds(), true
	}
	drawn := slices.DeleteFunc(slices.Clone(rows), func(r speedmatrix.MachineRow) bool { return r.Power == nil })
	if !watched(drawn, w) {
		return 0, false
	}
	at, before := w.start, *drawn[0].Power
	for _, r := range drawn {
		joules += (before + *r.Power) / 2 * float64(r.TimeNS-at) / 1e9
		at, before = r.TimeNS, *r.Power
	}
	return joules + before*float64(w.end-at)/1e9, true
}

// watched says whether samples leave no large gap in a span.
func watched(rows []speedmatrix.MachineRow, w window) bool {
	at := w.start
	for _, r := range rows {
		if r.TimeNS-at > int64(largestSampleGap) {
			return false
		}
		at = r.TimeNS
	}
	return len(rows) > 0 && w.end-at <= int64(largestSampleGap)
}

// busy are the samples of a GPU in some spans in which it was not idle.
func busy(rows []speedmatrix.MachineRow, spans []window) []speedmatrix.MachineRow {
	var list []speedmatrix.MachineRow
	for _, w := range spans {
		for _, r := range within(rows, w) {
			if r.Utilization == nil || *r.Utilization > 0 {
				list = append(list, r)
			}
		}
	}
	return list
}

// clock summarises the clocks of all GPUs; nil without a sample.
func (m *machineRows) clock(spans []window) *speedmatrix.ClockSummary {
	var all []float64
	s := &speedmatrix.ClockSummary{}
	for _, gpu := range sortedKeys(m.gpus) {
		var own []float64
		for _, r := range busy(m.gpus[gpu], spans) {
			if r.Clock != nil {
				own = append(own, *r.Clock)
			}
		}
		if len(own) == 0 {
			continue
		}
		if highest := slices.Max(own); highest > 0 {
			s.DropShare = max(s.DropShare, (highest-slices.Min(own))/highest)
		}
		all = append(all, own...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	s.Median, s.Min, s.Max, s.N = stats.Quantile(all, 0.5), all[0], all[len(all)-1], len(all)
	return s
}

// throttle says what held the clocks of the GPUs down; nil where no sample tells.
func (m *machineRows) throttle(spans []window) *speedmatrix.Throttle {
	var n, hardware, thermal, power int
	for _, rows := range m.gpus {
		for _, r := range busy(rows, spans) {
			if r.PowerCap == nil || r.Thermal == nil || r.HardwareSlowdown == nil {
				continue
			}
			n++
			hardware, thermal, power = hardware+one(*r.HardwareSlowdown), thermal+one(*r.Thermal), power+one(*r.PowerCap)
		}
	}
	if n == 0 {
		return nil
	}
	share := func(k int) float64 { return float64(k) / float64(n) }
	t := &speedmatrix.Throttle{HardwareSlowdownShare: share(hardware), ThermalShare: share(thermal), PowerCapShare: share(power), N: n}
	switch {
	case t.HardwareSlowdownShare > slowdownShare:
		t.Verdict = speedmatrix.ThrottleHardware
	case t.ThermalShare > slowdownShare:
		t.Verdict = speedmatrix.ThrottleThermal
	case t.PowerCapShare > powerCapShare:
		t.Verdict = speedmatrix.ThrottlePowerCap
	default:
		t.Verdict = speedmatrix.ThrottleNone
	}
	return t
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The codes of the warnings that the samples give a cell.
const (
	doubtThrottled = "throttled"
	doubtSwapped   = "swapped"
	doubtCPU       = "cpu saturated"
)

// doubts attaches what the samples say against a cell's numbers, anew each time.
func (m *machineRows) doubts(c *speedmatrix.Cell, w window) {
	own := []string{doubtThrottled, doubtSwapped, doubtCPU}
	c.Warnings = slices.DeleteFunc(c.Warnings, func(x speedmatrix.Warning) bool { return slices.Contains(own, x.Code) })
	warn := func(code, message string) {
		c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: code, Message: message})
	}
	if t := c.Throttle; t != nil {
		switch t.Verdict {
		case speedmatrix.ThrottleHardware:
			warn(doubtThrottled, fmt.Sprintf("the GPU protected itself by lower clocks in %s of the samples", unit.Percent(t.HardwareSlowdownShare)))
		case speedmatrix.ThrottleThermal:
			warn(doubtThrottled, fmt.Sprintf("heat held the GPU's clocks down in %s of the samples", unit.Percent(t.ThermalShare)))
		case speedmatrix.ThrottlePowerCap:
			warn(doubtThrottled, fmt.Sprintf("the power limit held the GPU's clocks down in %s of the samples", unit.Percent(t.PowerCapShare)))
		}
	}
	host := within(m.host, w)
	if swapped := findings.Swapped(host); swapped > findings.LeastSwapped {
		warn(doubtSwapped, fmt.Sprintf("the machine swapped %s to or from its disk in the window", unit.Bytes(swapped)))
	}
	if share, ok := findings.CPUBusy(host); ok && share > findings.SaturatedShare {
		warn(doubtCPU, fmt.Sprintf("the machine's CPU was %s busy in the window", unit.Percent(share)))
	}
}
