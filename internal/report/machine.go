package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/unit"
)

// MachineLine is what the samples of the machine tell of a cell that shows its speed.
type MachineLine struct {
	*Measurement
	// Power is the mean draw of the server's GPUs, Energy what one token took: an output token, or one of the prompt.
	Power, Energy string
	// Clock is the median, Drop how far the clock fell from its highest value, Held what held it down.
	Clock, Drop, Held string
}

// Words of the table of the machine's figures.
const machineCaption = "Power of the GPUs, energy and clocks in each window. A token is one of the output; for prefill of the prompt. Drop: the lowest clock against the highest."

var machineHeads = []string{"Cell", "Power", "Per token", "Clock, median", "Drop", "Clocks held down by"}

func (l MachineLine) values() []string {
	return []string{l.Name, l.Power, l.Energy, l.Clock, l.Drop, l.Held}
}

// machineLines are the lines of all cells of which something is known.
func machineLines(list []*Measurement) []MachineLine {
	var lines []MachineLine
	for _, m := range list {
		c := m.Cell
		if !m.ShowsSpeed || c.GPUPower == nil && c.GPUClock == nil && c.Throttle == nil {
			continue
		}
		l := MachineLine{Measurement: m, Power: number(c.GPUPower, watts), Energy: unit.Dash, Clock: unit.Dash, Drop: unit.Dash, Held: heldBy(c.Throttle)}
		for _, joules := range []*float64{c.EnergyPerOutputToken, c.EnergyPerPromptToken} {
			if joules != nil {
				l.Energy = unit.Energy(*joules)
			}
		}
		if k := c.GPUClock; k != nil {
			l.Clock, l.Drop = megahertz(k.Median), unit.Change(-k.DropShare)
		}
		lines = append(lines, l)
	}
	return lines
}

func watts(w float64) string { return unit.Fixed(w, 0) + " W" }

func megahertz(mhz float64) string { return unit.Fixed(mhz, 0) + " MHz" }

// heldBy is what held clocks down, and in which share of the samples.
func heldBy(t *speedmatrix.Throttle) string {
	if t == nil {
		return "not known"
	}
	switch t.Verdict {
	case speedmatrix.ThrottleHardware:
		return "hardware slowdown, " + unit.Percent(t.HardwareSlowdownShare)
	case speedmatrix.ThrottleThermal:
		return "heat, " + unit.Percent(t.ThermalShare)
	case speedmatrix.ThrottlePowerCap:
		return "power limit, " + unit.Percent(t.PowerCapShare)
	}
	return "nothing"
}

// machineOf are the figures of the machine among the details of a cell.
func machineOf(m *Measurement) []pairView {
	lines := machineLines([]*Measurement{m})
	if len(lines) == 0 {
		return nil
	}
	l := lines[0]
	return []pairView{
		{"GPU power", l.Power}, {"Energy per token", l.Energy}, {"GPU clock", joinFacts(", lowest against highest ", strings.Trim(l.Clock, unit.Dash), strings.Trim(l.Drop, unit.Dash))},
		{"Clocks held down by", l.Held},
	}
}

// machineTrust says what of the machine was watched, and what could not be.
func machineTrust(run *speedmatrix.Run) Trust {
	t := run.Telemetry
	if t == nil {
		return Trust{}
	}
	what := Clean(t.Scope)
	if len(t.GPUs) > 0 {
		what += fmt.Sprintf(", every %s s", plainNumber(t.IntervalSeconds))
	}
	if t.Of == speedmatrix.TelemetryOfClient {
		what = "only the client's"
	}
	parts := []string{"watched: " + what}
	for _, missing := range t.Missing {
		parts = append(parts, clip(Clean(missing), 240))
	}
	if run.Server.SameMachine && run.Client.CPUs > 0 {
		most := 0.0
		for i := range run.Cells {
			if q := run.Cells[i].Client; q != nil && q.CPUShare != nil {
				most = max(most, *q.CPUShare/float64(run.Client.CPUs))
			}
		}
		parts = append(parts, "the client took up to "+unit.PercentFine(most)+" of its CPU")
	}
	return Trust{Label: "Machine", Text: strings.Join(parts, "; ")}
}

// The widths of the courses of a run.
const (
	courseWide   = 562
	courseNarrow = 358
)

// setMachine draws the samples of the machine and lists the cells' figures.
func (v *pageView) setMachine(d *Document, o HTMLOptions) {
	for _, l := range d.Machine {
		v.Machine.Rows = append(v.Machine.Rows, machineRow{l.values()})
	}
	v.Machine.Heads, v.Machine.Caption = machineHeads, machineCaption
	if o.Drawing != nil {
		v.Machine.Image = o.Drawing("", DrawingMachine)
	}
	if o.Rows == nil {
		return
	}
	samples, err := o.Rows.Machine()
	if err != nil {
		v.Machine.Trouble = "The samples of the machine could not be read: " + clip(Clean(err.Error()), 300)
		return
	}
	if c, ok := course(d, samples); ok {
		v.Machine.Picture = template.HTML(`<div class="only-w">` + c.Draw(courseWide).Inline() + `</div><div class="only-n">` + c.Draw(courseNarrow).Inline() + `</div>`)
	}
}

// machineView is the section of the machine.
type machineView struct {
	Picture          template.HTML
	Image            string
	Heads            []string
	Rows             []machineRow
	Caption, Trouble string
}

type machineRow struct{ Values []string }

// Shown says whether there is anything of the machine to show.
func (m machineView) Shown() bool {
	return m.Picture != "" || m.Image != "" || len(m.Rows) > 0 || m.Trouble != ""
}

// sampleGap is the longest time between two samples over which a line is drawn on, in seconds.
const sampleGap = 3

// course is the machine over the run; ok is false where the samples show nothing.
func course(d *Document, rows []speedmatrix.MachineRow) (chart.Course, bool) {
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b speedmatrix.MachineRow) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	if len(rows) < 2 {
		return chart.Course{}, false
	}
	begun := rows[0].TimeNS
	c := chart.Course{
		Label: "GPU clock, power and temperature, and CPU over the run; shaded: the cells", Gap: sampleGap,
		Seconds: float64(rows[len(rows)-1].TimeNS-begun) / 1e9, Bands: cellBands(d, rows),
	}
	for _, lane := range []struct {
		name, unit string
		factor     float64
		of         func(*speedmatrix.MachineRow) *float64
		main       bool
	}{
		{"GPU clock", "MHz", 1, func(r *speedmatrix.MachineRow) *float64 { return r.Clock }, true},
		{"GPU power", "W", 1, func(r *speedmatrix.MachineRow) *float64 { return r.Power }, true},
		{"GPU temperature", "°C", 1, func(r *speedmatrix.MachineRow) *float64 { return r.Temperature }, true},
		{"CPU busy", "%", 100, func(r *speedmatrix.MachineRow) *float64 { return r.CPUBusy }, false},
	} {
		l := chart.CourseLane{Name: lane.name, Main: lane.main}
		lo, hi := 0.0, 0.0
		for _, series := range seriesOf(rows, begun, lane.of) {
			for i := range series {
				series[i].Value *= lane.factor
				if v := series[i].Value; len(l.Series) == 0 && i == 0 {
					lo, hi = v, v
				} else {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
			l.Series = append(l.Series, series)
		}
		if len(l.Series) == 0 {
			continue
		}
		l.Range = span(unit.Fixed(lo, 0), unit.Fixed(hi, 0)) + " " + lane.unit
		if lane.unit == "W" {
			l.Limit, l.LimitName = powerLimit(d.Run)
		}
		c.Lanes = append(c.Lanes, l)
	}
	return c, len(c.Lanes) > 0
}

// powerLimit is the limit of the run's GPUs where it is one and the same.
func powerLimit(run *speedmatrix.Run) (limit *float64, name string) {
	if run.Telemetry == nil || len(run.Telemetry.GPUs) == 0 {
		return nil, ""
	}
	for _, g := range run.Telemetry.GPUs {
		if g.PowerLimit == nil || limit != nil && *limit != *g.PowerLimit {
			return nil, ""
		}
		limit = g.PowerLimit
	}
	return limit, "limit " + watts(*limit)
}

// seriesOf are the known values of each GPU, and of the machine, over time; one of fewer than two values is left out.
func seriesOf(rows []speedmatrix.MachineRow, begun int64, of func(*speedmatrix.MachineRow) *float64) [][]chart.Sample {
	byGPU := map[int32][]chart.Sample{}
	var order []int32
	for i := range rows {
		v := of(&rows[i])
		if v == nil {
			continue
		}
		gpu := int32(-1)
		if rows[i].GPU != nil {
			gpu = *rows[i].GPU
		}
		if byGPU[gpu] == nil {
			order = append(order, gpu)
		}
		byGPU[gpu] = append(byGPU[gpu], chart.Sample{Seconds: float64(rows[i].TimeNS-begun) / 1e9, Value: *v})
	}
	slices.Sort(order)
	var list [][]chart.Sample
	for _, gpu := range order {
		if len(byGPU[gpu]) > 1 {
			list = append(list, byGPU[gpu])
		}
	}
	return list
}

// cellBands are the times in which cells were measured, named by their context.
func cellBands(d *Document, rows []speedmatrix.MachineRow) []chart.Band {
	context := map[string]string{}
	for _, m := range d.Measurements {
		context[m.Cell.Key()] = m.Context
	}
	var bands []chart.Band
	begun, before := rows[0].TimeNS, ""
	for _, r := range rows {
		at := float64(r.TimeNS-begun) / 1e9
		if r.Cell != "" && r.Cell == before {
			bands[len(bands)-1].To = at
		} else if r.Cell != "" {
			bands = append(bands, chart.Band{From: at, To: at, Name: bandName(r.Cell, context)})
		}
		before = r.Cell
	}
	return bands
}

// bandName is the context of a cell; what is measured once more at the end has a name of its own.
func bandName(key string, context map[string]string) string {
	if name, ok := context[key]; ok {
		return name
	}
	if strings.HasPrefix(key, "drift-") {
		return "again"
	}
	if rest, ok := strings.CutPrefix(key, "repeat-"); ok {
		number, _, _ := strings.Cut(rest, "-")
		return "repeat " + clip(Clean(number), 4)
	}
	return clip(Clean(key), 20)
}
