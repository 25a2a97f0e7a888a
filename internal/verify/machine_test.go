package verify

import (
	"testing"

	"speedmatrix"
)

// drawn is a sample of GPU 0 that draws so many watts.
func drawn(at, watts float64) speedmatrix.MachineRow {
	return speedmatrix.MachineRow{TimeNS: ms(at), GPU: new(int32(0)), Power: &watts}
}

func TestEnergyIsUnknownWhereAGPUWasNotWatched(t *testing.T) {
	// The window lasts from 1,210 to 5,210 ms.
	for name, c := range map[string]struct {
		rows []speedmatrix.MachineRow
		want *float64
	}{
		"no sample":                {nil, nil},
		"samples before and after": {[]speedmatrix.MachineRow{drawn(1210, 100), drawn(5211, 100)}, nil},
		"two seconds apart":        {[]speedmatrix.MachineRow{drawn(3210, 100)}, new(100.0)},
		"a hair more":              {[]speedmatrix.MachineRow{drawn(3211, 100)}, nil},
		"the end is not covered":   {[]speedmatrix.MachineRow{drawn(2000, 100), drawn(3000, 100)}, nil},
		"a sample without power":   {[]speedmatrix.MachineRow{drawn(2000, 100), {TimeNS: ms(3500), GPU: new(int32(0))}, drawn(5000, 100)}, nil},
		"one of two GPUs":          {[]speedmatrix.MachineRow{drawn(2000, 100), drawn(4000, 100), {TimeNS: ms(2500), GPU: new(int32(1)), Clock: new(1.0)}}, nil},
		"zero watts are watts":     {[]speedmatrix.MachineRow{drawn(2000, 0), drawn(4000, 0)}, new(0.0)},
	} {
		run, cell, _ := bare(1)
		rows := newMemory()
		rows.machine = c.rows
		m := &measurement{cell: cell, from: ms(1210), to: ms(5210)}
		got := &speedmatrix.Cell{}
		(&checker{run: run, rows: rows, machine: c.rows, report: &Report{}}).overMachine(got, []stretch{{m.from, m.to}})
		if (got.GPUPower == nil) != (c.want == nil) || got.GPUPower != nil && *got.GPUPower != *c.want {
			t.Errorf("%s: %v, want %v", name, orNull(got.GPUPower), orNull(c.want))
		}
	}
}

func orNull(v *float64) string {
	if v == nil {
		return "null"
	}
	return number(*v)
}

func TestTheEnergyOfAPrefillIsThatOfItsLongSamples(t *testing.T) {
	run, rows := goodRun()
	cell := &run.Cells[0]
	key := cell.Key()
	list := rows.requests[key]
	// The third sample took 10.4 s instead of 0.52; from 100 W it went straight to 300 W.
	written := *list[2].WrittenNS
	first := written + 10_400_000_000
	list[2].FirstNS, list[2].FirstVisibleNS, list[2].LastNS, list[2].EndedNS = &first, &first, &first, &first
	for i := range 11 {
		rows.machine = append(rows.machine, speedmatrix.MachineRow{TimeNS: written + int64(i)*1_040_000_000, GPU: new(int32(0)), Power: new(100 + 20*float64(i))})
	}
	got, _ := recompute(t, &speedmatrix.Run{Cells: []speedmatrix.Cell{*cell}}, rows)
	// GPU 1 of the good run was not watched then.
	if got.GPUPower != nil {
		t.Errorf("power %v although a GPU was not watched", *got.GPUPower)
	}
	rows.machine = rows.machine[len(rows.machine)-11:]
	got, _ = recompute(t, &speedmatrix.Run{Cells: []speedmatrix.Cell{*cell}}, rows)
	// The sample at the start is not in it: 120 W hold up to the first one.
	joules := 1.04 * (120 + (130 + 150 + 170 + 190 + 210 + 230 + 250 + 270 + 290))
	if got.EnergyPerPromptToken == nil || !nearTo(*got.EnergyPerPromptToken, joules/1040) || !nearTo(*got.GPUPower, joules/10.4) {
		t.Errorf("%s J a token at %s W, want %v J in all", orNull(got.EnergyPerPromptToken), orNull(got.GPUPower), joules)
	}
}

func nearTo(a, b float64) bool { return a-b <= exactly*b && b-a <= exactly*b }

func TestWhatHoldsTheClocksDownIsJudgedByItsWeight(t *testing.T) {
	for _, c := range []struct {
		hardware, thermal, power float64
		want                     speedmatrix.ThrottleVerdict
	}{
		{0, 0, 0, speedmatrix.ThrottleNone}, {5, 5, 20, speedmatrix.ThrottleNone}, {0, 0, 21, speedmatrix.ThrottlePowerCap},
		{0, 6, 90, speedmatrix.ThrottleThermal}, {6, 90, 90, speedmatrix.ThrottleHardware},
	} {
		got := judged(&speedmatrix.Throttle{HardwareSlowdownShare: c.hardware, ThermalShare: c.thermal, PowerCapShare: c.power, N: 100})
		if got.Verdict != c.want {
			t.Errorf("%v: %s", c, got.Verdict)
		}
	}
}

func TestSamplesThatCannotBeAreFound(t *testing.T) {
	for field, change := range map[string]func(rows []speedmatrix.MachineRow){
		"order": func(rows []speedmatrix.MachineRow) { rows[0].TimeNS = rows[len(rows)-1].TimeNS + 1 },
		"share": func(rows []speedmatrix.MachineRow) { rows[0].CPUBusy = new(1.01) },
		"watts": func(rows []speedmatrix.MachineRow) { rows[0].Power = new(-1.0) },
	} {
		run, rows := goodRun()
		change(rows.machine)
		t.Run(field, func(t *testing.T) { wantOne(t, check(t, run, rows), "machine.parquet") })
	}
}
