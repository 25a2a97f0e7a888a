package report

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/golden"
)

// machineRows are samples of a machine, and no other rows.
type machineRows struct {
	samples []speedmatrix.MachineRow
	err     error
}

func (machineRows) HasCell(string) bool { return false }

func (machineRows) Events(string) iter.Seq2[speedmatrix.EventRow, error] {
	return func(func(speedmatrix.EventRow, error) bool) {}
}

func (machineRows) Requests(string) ([]speedmatrix.RequestRow, error) { return nil, nil }

func (machineRows) Server() ([]speedmatrix.ServerRow, error) { return nil, nil }

func (r machineRows) Machine() ([]speedmatrix.MachineRow, error) { return r.samples, r.err }

// cellSeconds is how long a cell of a watched run takes, its window being in the middle.
const cellSeconds = 40

// watchedRun is a full run of some GPUs that are held to their power limit where they work hard, with its samples.
func watchedRun(gpus int) (*speedmatrix.Run, machineRows) {
	run := fullRun()
	run.Client.CPUs = 24
	run.Telemetry = &speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfServer, IntervalSeconds: 0.5, Sources: []string{"nvidia-smi", "system"}, Scope: "the machine's only GPU"}
	for i := range gpus {
		run.Telemetry.GPUs = append(run.Telemetry.GPUs, speedmatrix.GPU{Index: i, Name: "GeForce RTX 3090", PowerLimit: new(350.0), PowerDefault: new(350.0), ClockMax: new(2100.0)})
	}
	run.Findings = []speedmatrix.Finding{{
		Code: "power_cap", Message: "The power limit held the GPU's clocks down in 12 of 23 cells",
		Evidence: "350 W limit; up to 76 % of the samples, in decode 0 × 32, where the clock went from 1,890 MHz down to 1,740 MHz",
		Fix:      "Name the limit wherever you show the numbers: they are the speeds of that limit.",
	}}
	begun := run.StartedAt.Add(20 * time.Second)
	load := map[string]float64{}
	for i := range run.Cells {
		c := &run.Cells[i]
		if !c.Status.ShowsSpeed() {
			continue
		}
		n := float64(len(load))
		work := 0.6 + 0.4*math.Min(1, float64(c.Concurrency)/16)
		load[c.Key()] = work
		watch(c, work, float64(gpus))
		if c.Phase == speedmatrix.PhaseDecode {
			c.WindowStartedAt = new(begun.Add(time.Duration((n*cellSeconds + 5) * 1e9)))
		}
	}
	return run, machineRows{samples: sampled(run, load, gpus)}
}

// watch puts the machine's figures into a cell that works so hard, 0–1.
func watch(c *speedmatrix.Cell, work, gpus float64) {
	power := 350 * work * gpus
	c.GPUPower = &power
	c.GPUClock = &speedmatrix.ClockSummary{Median: 1890 - 120*work, Min: 1890 - 150*work, Max: 1890, DropShare: 150 * work / 1890, N: 60}
	c.Throttle = &speedmatrix.Throttle{Verdict: speedmatrix.ThrottleNone, PowerCapShare: 0.1, N: 60}
	if work > 0.8 {
		c.Throttle.Verdict, c.Throttle.PowerCapShare = speedmatrix.ThrottlePowerCap, 0.76
	}
	if c.Phase == speedmatrix.PhasePrefill {
		c.EnergyPerPromptToken = new(power / *c.PromptTokensPerSecond)
		return
	}
	c.EnergyPerOutputToken = new(power / *c.TotalTokensPerSecond)
}

// sampled are the samples of the cells one after the other, two a second.
func sampled(run *speedmatrix.Run, load map[string]float64, gpus int) []speedmatrix.MachineRow {
	var rows []speedmatrix.MachineRow
	at, hot := run.StartedAt, 45.0
	add := func(key string, work float64, k int) {
		at = at.Add(500 * time.Millisecond)
		hot += (45 + 38*work - hot) / 60
		rows = append(rows, speedmatrix.MachineRow{TimeNS: at.UnixNano(), Cell: key, CPUBusy: new(0.05 + 0.1*work)})
		for gpu := range int32(gpus) {
			wave := 8 * math.Sin(float64(k*7)+float64(gpu))
			clock, power := 1890-120*work+wave-25*float64(gpu), 350*work+wave/4
			if work == 0 {
				clock, power = 210, 31+wave/8
			}
			rows = append(rows, speedmatrix.MachineRow{
				TimeNS: at.UnixNano(), Cell: key, GPU: new(gpu), Clock: &clock, Power: new(math.Min(power, 351)), Temperature: new(math.Round(hot) + 3*float64(gpu)), Utilization: new(math.Min(1, work)),
			})
		}
	}
	for k := range 40 {
		add("", 0, k)
	}
	for i := range run.Cells {
		key := run.Cells[i].Key()
		work, ran := load[key]
		for k := 0; ran && k < 2*cellSeconds; k++ {
			switch {
			case k < 4:
				add("", 0.1, k)
			default:
				add(key, work, k)
			}
		}
	}
	return rows
}

func watchedPage(t *testing.T, gpus int) []byte {
	t.Helper()
	run, rows := watchedRun(gpus)
	var out strings.Builder
	if err := HTML(&out, Build(run), HTMLOptions{Rows: rows}); err != nil {
		t.Fatal(err)
	}
	return []byte(out.String())
}

func TestAWatchedRunLooksLikeItsGoldenFiles(t *testing.T) {
	run, _ := watchedRun(1)
	golden.Check(t, "watched.80.txt", render(t, run, terminal(0, false)))
	golden.Check(t, "watched.md", render(t, run, Markdown))
	golden.Check(t, "watched.csv", render(t, run, CSV))
	golden.Check(t, "watched.text.txt", render(t, run, Text))
}

func TestTheMachineIsOnThePageWhereItWasWatchedAlone(t *testing.T) {
	page := string(watchedPage(t, 2))
	for _, want := range []string{
		`<section class="full" id="machine">`, `href="#machine"`, ">GPU clock</text>", ">GPU power</text>", ">limit 350 W</text>", ">GPU temperature</text>", ">CPU busy</text>",
		"power limit, 76 %", "only-w", "only-n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	run, _ := watchedRun(1)
	if html := string(render(t, run, htmlPage)); !strings.Contains(html, `id="machine"`) || strings.Contains(html, "GPU clock</text>") {
		t.Error("without rows the page has no table of the machine, or a drawing")
	}
	if html := string(render(t, fullRun(), htmlPage)); strings.Contains(html, `id="machine"`) {
		t.Error("a run that was not watched has the section")
	}
	var out strings.Builder
	if err := HTML(&out, Build(fullRun()), HTMLOptions{Rows: machineRows{err: errors.New("it <ends> early")}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "The samples of the machine could not be read: it &lt;ends&gt; early") {
		t.Error("the page hides that the samples could not be read")
	}
}

func TestTheCourseOfARunShowsItsCells(t *testing.T) {
	run, rows := watchedRun(2)
	c, ok := course(Build(run), rows.samples)
	if !ok || len(c.Lanes) != 4 || len(c.Lanes[0].Series) != 2 || len(c.Lanes[3].Series) != 1 {
		t.Fatalf("%v, %d lanes", ok, len(c.Lanes))
	}
	if first := c.Bands[0]; first.Name != "8K" || first.From != 22 || first.To != 59.5 {
		t.Errorf("the first band is %+v", first)
	}
	if c.Lanes[1].Limit == nil || *c.Lanes[1].Limit != 350 || !strings.HasSuffix(c.Lanes[0].Range, " MHz") || c.Lanes[3].Range != "5–15 %" {
		t.Errorf("limit %v, ranges %q and %q", c.Lanes[1].Limit, c.Lanes[0].Range, c.Lanes[3].Range)
	}
	if _, ok := course(Build(run), nil); ok {
		t.Error("a run without samples has a course")
	}
	if n := len(Build(run).Machine); n != 26 {
		t.Errorf("%d lines, want the 26 cells with a speed", n)
	}
	shuffled := slices.Clone(rows.samples)
	slices.Reverse(shuffled)
	if again, _ := course(Build(run), shuffled); again.Seconds != c.Seconds || len(again.Bands) != len(c.Bands) {
		t.Error("samples of a run that went on later are not put in order")
	}
	drawn := c.Draw(courseNarrow)
	if drawn.Width != 358 || len(drawn.Inline()) > 80_000 {
		t.Errorf("%d bytes of a drawing %d wide", len(drawn.Inline()), drawn.Width)
	}
}

func TestBandsOfSecondMeasurementsHaveNamesOfTheirOwn(t *testing.T) {
	for key, want := range map[string]string{"decode-0-x1": "0", "drift-decode-0-x1": "again", "repeat-2-decode-0-x1": "repeat 2", "ping": "ping"} {
		if got := bandName(key, map[string]string{"decode-0-x1": "0"}); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestACellWithoutASpeedShowsNoEnergy(t *testing.T) {
	run := everyStatusRun()
	for i := range run.Cells {
		watch(&run.Cells[i], 0.9, 1)
		for _, v := range []**float64{&run.Cells[i].EnergyPerOutputToken, &run.Cells[i].EnergyPerPromptToken} {
			if *v != nil && !run.Cells[i].Status.ShowsSpeed() {
				*v = new(77.7)
			}
		}
	}
	for name, r := range map[string]renderer{"terminal": terminal(200, false), "markdown": Markdown, "csv": CSV, "page": htmlPage} {
		if out := string(render(t, run, r)); strings.Contains(out, "77.7 J") || strings.Contains(out, ",77.7,,315") {
			t.Errorf("%s shows the energy of a cell without a speed", name)
		}
	}
}
