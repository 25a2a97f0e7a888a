package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Trust is one thing that says how far the numbers can be trusted.
type Trust struct {
	Label, Text string
	// Doubt marks a check that failed.
	Doubt bool
}

// counterTolerance is how far client and engine may disagree, beyond what reading the
// counter leaves open, before the check counts as failed.
const counterTolerance = 0.01

// trust gives the error budget of a run in the order in which a reader asks.
func trust(d *Document) []Trust {
	list := []Trust{originTrust(d.Run), counterTrust(d), tokenTrust(d), intervalTrust(d), driftTrust(d.Run), promptTrust(d)}
	if d.Run.Origin == speedmatrix.OriginMeasured {
		list = append(list, stampTrust(d.Run), readTrust(d), sharingTrust(d))
	}
	list = append(list, machineTrust(d.Run), checkTrust(d), repeatTrust(d.Run))
	list = append(list, missing(d.Run, list, "Tokens"), missing(d.Run, list, "Client"))
	return slices.DeleteFunc(list, func(t Trust) bool { return t.Text == "" })
}

// shown gives the cells whose speed is shown.
func shown(d *Document, phase speedmatrix.Phase) []*Measurement {
	var list []*Measurement
	for _, m := range d.Measurements {
		if m.Cell.Phase == phase && m.ShowsSpeed {
			list = append(list, m)
		}
	}
	return list
}

// originTrust says of a run that was not measured here why there is less to check.
func originTrust(run *speedmatrix.Run) Trust {
	t := Trust{Label: "Origin"}
	switch run.Origin {
	case speedmatrix.OriginPredicted:
		t.Text = "predicted: the simulated engine in virtual time, not a measurement"
	case speedmatrix.OriginImported:
		t.Text = "imported: no raw events to check the numbers against"
	}
	return t
}

// counterAgreement is how far our token counts are from the engine's own.
type counterAgreement struct {
	checked int
	// worst is off by most, a share; unsure is the largest share that reading the counter leaves open.
	worst        *Measurement
	most, unsure float64
	broken       bool
}

func compareCounters(cells []*Measurement) counterAgreement {
	var a counterAgreement
	for _, m := range cells {
		check := m.Cell.CounterCheck
		if check == nil || check.ServerTokens <= 0 || check.SpanSeconds <= 0 {
			continue
		}
		a.checked++
		off := math.Abs(check.ClientTokens/check.ServerTokens - 1)
		unsure := check.UncertaintySeconds / check.SpanSeconds
		a.broken = a.broken || off > counterTolerance+unsure
		a.unsure = max(a.unsure, unsure)
		if a.worst == nil || off > a.most {
			a.worst, a.most = m, off
		}
	}
	return a
}

// counterTrust compares our token counts with the engine's own.
func counterTrust(d *Document) Trust {
	cells := shown(d, speedmatrix.PhaseDecode)
	a := compareCounters(cells)
	t := Trust{Label: "Counters", Doubt: a.broken}
	switch {
	case len(cells) == 0, a.checked == 0 && d.Run.Origin != speedmatrix.OriginMeasured:
		return Trust{}
	case a.checked == 0:
		t.Text = "no cell could be checked against a counter of the engine"
		return t
	case a.broken:
		t.Text = fmt.Sprintf("our count and the engine's differ by up to %s (%s)", unit.PercentFine(a.most), a.worst.Name)
		return t
	case a.checked == len(cells):
		t.Text = "every cell agrees"
	default:
		t.Text = fmt.Sprintf("%s of %s agree", unit.Count(a.checked), plural(len(cells), "cell"))
	}
	t.Text += " with the engine's counters within " + unit.PercentFine(a.most)
	if a.unsure > 0 {
		t.Text += fmt.Sprintf(" (counters can be read to %s)", unit.PercentFine(a.unsure))
	}
	if a.checked < len(cells) {
		t.Text += "; the others have no check"
	}
	return t
}

// tokenTrust says how tokens were counted.
func tokenTrust(d *Document) Trust {
	var sources []string
	cells := map[string]int{}
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		if m.TokenSource == "" {
			continue
		}
		if cells[m.TokenSource] == 0 {
			sources = append(sources, m.TokenSource)
		}
		cells[m.TokenSource]++
	}
	for i, source := range sources {
		if len(sources) > 1 {
			sources[i] = fmt.Sprintf("%s (%s)", source, plural(cells[source], "cell"))
		}
	}
	return Trust{Label: "Tokens", Text: strings.Join(sources, " · "), Doubt: cells[string(speedmatrix.TokensEvents)] > 0}
}

func intervalTrust(d *Document) Trust {
	least, most, n := math.Inf(1), 0.0, 0
	cells := shown(d, speedmatrix.PhaseDecode)
	for _, m := range cells {
		if half, ok := halfWidth(m.Cell); ok {
			least, most, n = min(least, half), max(most, half), n+1
		}
	}
	t := Trust{Label: "Intervals"}
	switch {
	case len(cells) == 0, n == 0 && d.Run.Origin != speedmatrix.OriginMeasured:
		return Trust{}
	case n == 0:
		t.Text = "none: the spread within the windows is not known"
	case unit.PlusMinus(least) == unit.PlusMinus(most):
		t.Text = unit.PlusMinus(most)
	default:
		t.Text = strings.TrimSuffix(unit.PlusMinus(least), " %") + " … " + strings.TrimPrefix(unit.PlusMinus(most), "±")
	}
	if n > 0 {
		t.Text += " (95 %)"
	}
	if repeats := len(d.Run.Repeats); repeats > 0 {
		t.Text += ", measured " + plural(1+repeats, "time")
	} else if d.Run.Origin == speedmatrix.OriginMeasured {
		t.Text += ", one window a cell, no repeats"
	}
	return t
}

func driftTrust(run *speedmatrix.Run) Trust {
	t := Trust{Label: "Drift"}
	drift := run.Drift
	switch {
	case run.Origin != speedmatrix.OriginMeasured && drift == nil:
		return Trust{}
	case drift == nil:
		t.Text = "the first cell was not measured again"
	case drift.Change == nil || !drift.Cell.Status.ShowsSpeed():
		t.Text = fmt.Sprintf("the first cell again at the end: %s, no comparison", clip(Clean(string(drift.Cell.Status)), 24))
	default:
		t.Text = fmt.Sprintf("%s again at the end: %s, ", cellName(&drift.Cell), unit.Change(*drift.Change))
		if t.Doubt = drift.Significant; t.Doubt {
			t.Text += "beyond both intervals: something changed during the run"
		} else {
			t.Text += withinIntervals(run.FindCell(drift.Cell.Phase, drift.Cell.Context, drift.Cell.Concurrency), drift)
		}
	}
	return t
}

// withinIntervals says that a change is none, and from which one on it would be: one at which the intervals of two
// measurements of a cell do not meet, and not a small one.
func withinIntervals(first *speedmatrix.Cell, drift *speedmatrix.Drift) string {
	const within = "within the intervals"
	if first == nil || first.Interval95 == nil || drift.Cell.Interval95 == nil || first.TotalTokensPerSecond == nil || *first.TotalTokensPerSecond <= 0 {
		return within
	}
	half := (first.Interval95.High - first.Interval95.Low + drift.Cell.Interval95.High - drift.Cell.Interval95.Low) / 2 / *first.TotalTokensPerSecond
	text := within
	if math.Abs(*drift.Change) > half {
		text = "too small to count"
	}
	return text + "; a change counts from " + unit.PercentFine(max(half, speedmatrix.LeastDrift)) + " on"
}

// promptTrust compares measured prompt lengths with their labels.
func promptTrust(d *Document) Trust {
	var worst *Measurement
	most, n := 0.0, 0
	for _, m := range d.Measurements {
		c := m.Cell
		if !m.ShowsSpeed || c.PromptTokens == nil || c.Context == 0 {
			continue
		}
		n++
		if off := *c.PromptTokens/float64(c.Context) - 1; worst == nil || math.Abs(off) > math.Abs(most) {
			worst, most = m, off
		}
	}
	if n == 0 {
		return Trust{}
	}
	if most == 0 {
		return Trust{Label: "Prompts", Text: "exactly as long as their labels"}
	}
	t := Trust{Label: "Prompts", Doubt: math.Abs(most) > 0.02}
	t.Text = fmt.Sprintf("within %s of their labels (%s: %s tokens)", unit.PercentFine(math.Abs(most)), worst.Name, worst.PromptTokens)
	return t
}

// stampTrust is the client's own error, from the self-check.
func stampTrust(run *speedmatrix.Run) Trust {
	c := run.Client
	t := Trust{Label: "Client", Text: "stamp error not measured"}
	if c.StampErrorP99Micros != nil {
		t.Text = "p99 stamp error " + micros(*c.StampErrorP99Micros)
		if c.SelfCheckRate > 0 && c.SelfCheckStreams > 0 {
			t.Text += fmt.Sprintf(" at %s and %s tok/s", plural(c.SelfCheckStreams, "stream"), unit.Rate(c.SelfCheckRate))
		}
	}
	switch c.StampSource {
	case "kernel":
		t.Text += ", stamps by the kernel"
	case "user":
		t.Text += ", stamps taken when a read returns"
	}
	if c.ClockSteps > 0 {
		t.Text += fmt.Sprintf(", %s of the wall clock", plural(c.ClockSteps, "step"))
		t.Doubt = true
	}
	return t
}

// readings are the client's quality over all windows: the worst cell of each.
type readings struct {
	cells, timed                             int
	unstamped, replays                       int
	coalesced, cores, lag, late, pause, busy float64
	readers                                  []string
}

func readingsOf(d *Document) (r readings) {
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		q := m.Cell.Client
		if q == nil {
			continue
		}
		r.cells++
		r.unstamped, r.replays = r.unstamped+q.UnstampedReads, r.replays+q.Replays
		if q.CoalescedShare != nil {
			r.coalesced, r.timed = max(r.coalesced, *q.CoalescedShare), r.timed+1
		}
		r.cores, r.busy = max(r.cores, value(q.CPUShare)), max(r.busy, value(q.MachineCPUShare))
		r.lag, r.late, r.pause = max(r.lag, value(q.ReaderLagP99Micros)), max(r.late, value(q.SendLateP99Micros)), max(r.pause, value(q.GCPauseMaxMicros))
		if known := q.Reader == "net/http" || q.Reader == "epoll"; known && !slices.Contains(r.readers, q.Reader) {
			r.readers = append(r.readers, q.Reader)
		}
	}
	return r
}

// readTrust is how the client read and sent.
func readTrust(d *Document) Trust {
	r := readingsOf(d)
	if r.cells == 0 {
		return Trust{}
	}
	var parts []string
	if r.timed > 0 {
		parts = append(parts, unit.Fixed(r.coalesced*100, 2)+" % coalesced reads")
	}
	if r.cores > 0 {
		parts = append(parts, unit.Percent(r.cores)+" of one core")
	}
	if r.lag > 0 {
		parts = append(parts, "reader lag p99 "+micros(r.lag))
	}
	if r.late > 0 {
		parts = append(parts, "sent late p99 "+micros(r.late))
	}
	if r.pause > 0 {
		parts = append(parts, "longest pause "+micros(r.pause))
	}
	if len(parts) > 0 {
		parts[0] = "in the worst cell " + parts[0]
	}
	if r.unstamped > 0 {
		parts = append(parts, "in all "+plural(r.unstamped, "read")+" without a kernel stamp")
	}
	if r.replays > 0 {
		parts = append(parts, plural(r.replays, "request")+" sent again on a new connection")
	}
	if len(r.readers) > 0 {
		parts = append(parts, "read by "+strings.Join(r.readers, " and "))
	}
	return Trust{Label: "Reads", Text: strings.Join(parts, ", ")}
}

// busyMachine is the share of the machine's processors from which it may slow a server that shares it.
const busyMachine = 0.9

// sharingTrust says whether client and server share the machine, and how busy it was.
func sharingTrust(d *Document) Trust {
	r := readingsOf(d)
	t := Trust{Label: "Sharing", Text: "the client has a machine of its own"}
	if d.Run.Server.SameMachine {
		t.Text = "client and server share the machine"
	}
	if r.busy > 0 {
		t.Text += ", in the worst cell " + unit.Percent(r.busy) + " of its CPU in use"
		t.Doubt = r.busy > busyMachine
	}
	return t
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func micros(us float64) string { return unit.Fine(time.Duration(us * 1e3)) }
