package machine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

// watched samples a recorded machine for a time and gives the rows with times from the start.
func watched(t *testing.T, r recorded, d time.Duration) ([]speedmatrix.MachineRow, *speedmatrix.Telemetry) {
	t.Helper()
	r.t = t
	begun := time.Now()
	s := Watch{
		System: r.system(), Now: func() int64 { return int64(time.Since(begun)) }, Cell: func() string { return "decode-0-x1" },
		Local: true, Port: 8000,
	}.Start(t.Context())
	time.Sleep(d)
	s.Close()
	if r.tool != nil {
		r.tool.ended(t)
	}
	return s.Rows(), s.Describe()
}

func says(lives ...life) *talking { return &talking{lives: map[string][]life{"nvidia-smi": lives}} }

func rtx3090(tool *talking) recorded {
	return recorded{answers: map[string]string{"nvidia-smi --query-gpu": "nvidia-rtx3090.csv"}, tool: tool, process: noProcesses{}}
}

func TestAGPUIsSampledThroughOneProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := says(life{text: read(t, "nvidia-rtx3090-loop.csv"), step: 500 * time.Millisecond, stays: true})
		rows, about := watched(t, rtx3090(tool), 2*time.Second)
		row := func(at time.Duration, clock, power, hot, busy float64) speedmatrix.MachineRow {
			return speedmatrix.MachineRow{
				TimeNS: int64(at), Cell: "decode-0-x1", GPU: new(int32(0)), Clock: &clock, MemoryClock: new(9501.0), Power: &power, Temperature: &hot,
				Utilization: &busy, MemoryUsed: new(int64(22911 << 20)), PowerCap: new(true), Thermal: new(false), HardwareSlowdown: new(false),
				ClocksSet: new(false), PCIeGeneration: new(int32(4)), PCIeWidth: new(int32(16)),
			}
		}
		idle := row(1500*time.Millisecond, 210, 31.45, 46, 0)
		idle.MemoryClock, idle.PowerCap, idle.PCIeGeneration = new(405.0), new(false), new(int32(1))
		want := []speedmatrix.MachineRow{
			row(500*time.Millisecond, 1890, 348.12, 71, 0.99), row(time.Second, 1875, 349.87, 72, 1), idle,
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("wanted (−), sampled (+):\n%s", diff)
		}
		if want := "nvidia-smi --query-gpu=index,clocks.sm,clocks.mem,power.draw,temperature.gpu,temperature.memory,utilization.gpu,memory.used," +
			"clocks_event_reasons.active,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader,nounits --id=0 --loop-ms=500"; !slices.Contains(tool.begun, want) {
			t.Errorf("begun %q", tool.begun)
		}
		wantAbout := &speedmatrix.Telemetry{
			Of: "server", IntervalSeconds: 0.5, Sources: []string{"nvidia-smi"}, Scope: "the machine's only GPU",
			GPUs: []speedmatrix.GPU{{
				Index: 0, Name: "GeForce RTX 3090", MemoryBytes: new(24576.0 * (1 << 20)), PowerLimit: new(350.0), PowerDefault: new(350.0), ClockMax: new(2100.0),
				PCIeGenerationMax: new(4), PCIeWidthMax: new(16),
			}},
			// The only life of the tool is the other one's.
			Missing: []string{},
		}
		about.Missing = []string{}
		if diff := cmp.Diff(wantAbout, about); diff != "" {
			t.Errorf("wanted (−), described (+):\n%s", diff)
		}
	})
}

func TestWhatAGPUDoesNotTellIsNull(t *testing.T) {
	for file, check := range map[string]func(speedmatrix.MachineRow) bool{
		"nvidia-laptop-loop.csv": func(r speedmatrix.MachineRow) bool {
			return *r.Clock == 1980 && r.Power == nil && r.Utilization == nil && r.MemoryUsed == nil && r.PowerCap == nil && r.Thermal == nil && r.ClocksSet == nil
		},
		"nvidia-mig-loop.csv": func(r speedmatrix.MachineRow) bool {
			return r.Utilization == nil && *r.MemoryTemperature == 62 && *r.Power == 305.7
		},
		"nvidia-h100-loop.csv": func(r speedmatrix.MachineRow) bool {
			return *r.PCIeGeneration == 5 && !*r.PowerCap && !*r.HardwareSlowdown
		},
		"nvidia-two-loop.csv": func(r speedmatrix.MachineRow) bool {
			return *r.GPU == 1 && *r.HardwareSlowdown && *r.Thermal && !*r.PowerCap && *r.PCIeWidth == 4
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			tool := says(life{text: read(t, file), step: 100 * time.Millisecond, stays: true})
			rows, _ := watched(t, rtx3090(tool), time.Second)
			if len(rows) == 0 || !check(rows[len(rows)-1]) {
				t.Errorf("%s: %d rows, the last one %+v", file, len(rows), rows[len(rows)-1])
			}
		})
	}
}

func TestAToolThatDiesIsBegunAgainAndGivenUpInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := "0, 1890, 9501, 348.12, 71, [N/A], 99, 22911, 0x0000000000000004, 4, 16\n"
		tool := says(
			life{text: good + good, step: 500 * time.Millisecond}, // dies at 1 s
			life{text: "GPU is lost\n"},                           // from 2 s on: the pauses are 1 and 2 s, each life says one word
			life{text: good, stays: true},                         // at 4 s, then hangs: it is ended after 5 s
			life{text: read(t, "nvidia-lost.txt"), err: errors.New("exit status 15")},
		)
		rows, about := watched(t, rtx3090(tool), 5*time.Minute)
		var at []int64
		for _, r := range rows {
			at = append(at, r.TimeNS/1e6)
		}
		if want := []int64{500, 1000, 4000}; !slices.Equal(at, want) {
			t.Errorf("samples at %v ms, want %v", at, want)
		}
		if want := "no more samples of the GPUs: nvidia-smi ended 5 times: Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"; !slices.Contains(about.Missing, want) {
			t.Errorf("missing: %q", about.Missing)
		}
	})
}

func TestAnOlderToolIsAskedForTheOlderName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := says(life{text: read(t, "nvidia-oldfield.txt")}, life{text: read(t, "nvidia-rtx3090-loop.csv"), step: time.Millisecond, stays: true})
		rows, _ := watched(t, rtx3090(tool), 2*time.Second)
		if len(rows) != 3 || rows[0].PowerCap == nil || !*rows[0].PowerCap {
			t.Errorf("rows %+v", rows)
		}
		if last := tool.begun[len(tool.begun)-1]; !strings.Contains(last, ",clocks_throttle_reasons.active,") {
			t.Errorf("begun %q", tool.begun)
		}
	})
}

func TestRatesAndOthersProcessesJoinTheSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := &talking{lives: map[string][]life{
			"nvidia-smi":      {{text: strings.Repeat(read(t, "nvidia-two-loop.csv"), 4), step: 900 * time.Millisecond, stays: true}},
			"nvidia-smi dmon": {{text: read(t, "nvidia-dmon.txt"), step: 100 * time.Millisecond, stays: true}},
		}}
		rows, about := watched(t, recorded{
			answers: map[string]string{"nvidia-smi --query-gpu": "nvidia-two.csv", "nvidia-smi --query-compute-apps": "nvidia-apps.csv"}, tool: tool,
			process: someProcesses{
				list:      []Process{{1, 0, "init"}, {4000, 1, "vllm"}, {4102, 4000, "VLLM::EngineCore"}, {9001, 1, "blender"}, {9002, 1, "python3"}},
				listening: []int32{4000},
			},
		}, 8*time.Second)
		// The other GPU is nobody's: the tool is told not to list it, and the recorded one does all the same.
		if about.Scope != "GPU 1 of 2, by the server's processes" || len(about.GPUs) != 1 || about.GPUs[0].Index != 1 {
			t.Errorf("scope %q of %+v", about.Scope, about.GPUs)
		}
		var second []speedmatrix.MachineRow
		for _, r := range rows {
			if *r.GPU == 1 {
				second = append(second, r)
			}
		}
		if len(second) != 4 || *second[0].OtherProcesses != 1 || *second[0].OtherMemory != 512<<20 {
			t.Fatalf("%d rows, the first %+v", len(second), second[0])
		}
		if r := rows[0]; r.PCIeReceived == nil || *r.PCIeReceived != 312e6 || *r.PCIeSent != 87e6 {
			t.Errorf("rates %v, %v", r.PCIeReceived, r.PCIeSent)
		}
		if second[0].PCIeReceived != nil {
			t.Error("a rate that the tool did not have is known")
		}
		// dmon has said nothing for more than 3 s.
		if r := rows[len(rows)-2]; r.PCIeReceived != nil {
			t.Errorf("an old rate is still told at %v", time.Duration(r.TimeNS))
		}
	})
}

func TestARemoteServersMachineIsNotThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtx3090(says(life{stays: true}))
		r.t = t
		system := r.system()
		readings := 0.0
		system.Usage = func(context.Context) Counters {
			readings++
			return Counters{CPUBusy: readings, CPUTotal: 4 * readings}
		}
		begun := time.Now()
		s := Watch{System: system, Now: func() int64 { return int64(time.Since(begun)) }}.Start(t.Context())
		time.Sleep(1600 * time.Millisecond)
		s.Close()
		about := s.Describe()
		if about.Of != speedmatrix.TelemetryOfClient || len(about.GPUs) != 0 || !slices.Equal(about.Sources, []string{"system"}) || len(r.tool.begun) != 0 ||
			!slices.Equal(about.Missing, []string{"the server runs on another machine: its GPUs, clocks and power are not known"}) {
			t.Errorf("%+v, begun %q", about, r.tool.begun)
		}
		rows := s.Rows()
		if len(rows) != 3 || rows[2].TimeNS != int64(1500*time.Millisecond) || *rows[2].CPUBusy != 0.25 || rows[2].GPU != nil {
			t.Errorf("rows %+v", rows)
		}
	})
}

func TestTheMachineIsTheDifferenceOfItsCounters(t *testing.T) {
	nan := math.NaN()
	row := between(Counters{10, 100, 5, 1000, 50, 7, 8}, Counters{12, 104, 1 << 30, 1000, 4146, 1007, 8})
	want := speedmatrix.MachineRow{
		CPUBusy: new(0.5), RAMUsed: new(int64(1 << 30)), SwapIn: new(int64(0)), SwapOut: new(int64(4096)), NetworkReceived: new(int64(1000)), NetworkSent: new(int64(0)),
	}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("wanted (−), got (+):\n%s", diff)
	}
	unknown := between(Counters{nan, nan, nan, nan, nan, nan, nan}, Counters{nan, nan, nan, nan, nan, nan, nan})
	if diff := cmp.Diff(speedmatrix.MachineRow{}, unknown); diff != "" {
		t.Errorf("what is unknown became known:\n%s", diff)
	}
	fell := between(Counters{10, 100, 5, 9, 9, 9, 9}, Counters{10, 100, 5, 8, 8, 8, 8})
	if fell.SwapIn != nil || fell.NetworkSent != nil || fell.CPUBusy != nil {
		t.Errorf("counters that fell: %+v", fell)
	}
}

func TestAMDIsSampledFromTheKernelsFiles(t *testing.T) {
	s := recorded{t: t, files: "sysfs-rx7900xtx.txt"}.system()
	found := s.findAMD(t.Context())
	want := speedmatrix.MachineRow{
		Clock: new(2371.0), MemoryClock: new(1249.0), Power: new(318.0), Temperature: new(83.0), MemoryTemperature: new(78.0), Utilization: new(0.99),
		MemoryUsed: new(int64(23622320128)),
	}
	if diff := cmp.Diff(want, s.amdSample(&found.devices[0]), nearly); diff != "" {
		t.Errorf("wanted (−), sampled (+):\n%s", diff)
	}
}

// nearly takes numbers for equal that a change of unit made differ in the last place.
var nearly = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(a) })

func TestIntelsPowerIsTheRiseOfItsEnergy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := tree(t, "sysfs-arc-a770-i915.txt")
		s := &System{Files: files}
		found := s.findIntel(t.Context())
		last := map[int]energyAt{}
		first := s.intelSample(&found.devices[0], last)
		if first.Power != nil || math.Abs(*first.Energy-7843.112048) > 1e-9 || !*first.PowerCap || *first.Thermal || *first.HardwareSlowdown || *first.Clock != 2400 {
			t.Errorf("first %+v", first)
		}
		time.Sleep(500 * time.Millisecond)
		files[found.devices[0].hwmon+"/energy1_input"].Data = []byte("7938112048\n")
		second := s.intelSample(&found.devices[0], last)
		if second.Power == nil || math.Abs(*second.Power-190) > 1e-6 {
			t.Errorf("power %v, want 190 W", second.Power)
		}
	})
	s := recorded{t: t, files: "sysfs-arc-b580-xe.txt"}.system()
	found := s.findIntel(t.Context())
	row := s.intelSample(&found.devices[0], map[int]energyAt{})
	if *row.Temperature != 74 || *row.MemoryTemperature != 80 || !*row.Thermal || *row.PowerCap || *row.Clock != 2850 {
		t.Errorf("%+v", row)
	}
}

func TestCardsAreSampledAtTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, about := watched(t, recorded{files: "sysfs-rx7900xtx.txt", process: noProcesses{}}, 1600*time.Millisecond)
		if len(rows) != 4 || *rows[3].GPU != 0 || rows[3].TimeNS != int64(1500*time.Millisecond) || !slices.Equal(about.Sources, []string{"sysfs amdgpu"}) {
			t.Errorf("%d rows, %+v", len(rows), about)
		}
	})
}

func TestApplesGPUIsSampledByAdministratorsOnly(t *testing.T) {
	apple := func(root bool, tool *talking) recorded {
		return recorded{os: "darwin", root: root, answers: map[string]string{"system_profiler -json": "system_profiler-m3max.json"}, tool: tool, process: noProcesses{}}
	}
	synctest.Test(t, func(t *testing.T) {
		tool := &talking{lives: map[string][]life{"powermetrics": {{text: read(t, "powermetrics-m3max.txt"), step: time.Millisecond, stays: true}}}}
		rows, _ := watched(t, apple(true, tool), time.Second)
		if len(rows) != 2 || *rows[0].Clock != 1380 || *rows[0].Utilization != 0.9705 || rows[0].Thermal != nil || !*rows[1].Thermal || math.Abs(*rows[1].Power-24.12) > 1e-9 {
			t.Errorf("rows %+v", rows)
		}
		if tool.begun[0] != "powermetrics --samplers gpu_power,thermal --sample-rate 500" {
			t.Errorf("begun %q", tool.begun)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		rows, about := watched(t, apple(false, nil), time.Second)
		if len(rows) != 0 || !slices.Equal(about.Missing, []string{"no samples of the GPU: powermetrics may be run by administrators only"}) {
			t.Errorf("%d rows, %q", len(rows), about.Missing)
		}
	})
}

func TestNoIdentityIsInTheSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := says(life{text: read(t, "nvidia-two-loop.csv"), step: time.Millisecond, stays: true})
		r := recorded{answers: map[string]string{"nvidia-smi --query-gpu": "nvidia-two.csv", "nvidia-smi --query-compute-apps": "nvidia-apps.csv"}, tool: tool, process: noProcesses{}}
		rows, about := watched(t, r, time.Second)
		data, err := json.Marshal([]any{rows, about})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(data), secret) {
				t.Errorf("%q stands in %s", secret, data)
			}
		}
	})
}
