package findings

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

const second = int64(time.Second)

// zero is the instant from which the tests count.
const zero = 1_800_000_000 * second

// well is a run of two cells on a machine that nothing is wrong with, with 20 samples in each window.
func well() (*speedmatrix.Run, []speedmatrix.MachineRow) {
	run := &speedmatrix.Run{
		Origin: speedmatrix.OriginMeasured,
		Engine: speedmatrix.Facts{
			speedmatrix.EngineName: {Value: "vLLM"}, speedmatrix.EngineMetrics: {Value: "queue, tokens"}, speedmatrix.EnginePrefixCaching: {Value: true, Source: "GET /metrics"},
		},
		LaunchCommand: &speedmatrix.Fact{Value: "# --enforce-eager is not used\nvllm serve m \\\n  --max-model-len 4096"},
		Server:        speedmatrix.Server{SameMachine: true}, Client: speedmatrix.Client{CPUs: 16},
		Telemetry: &speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfServer, Sources: []string{"nvidia-smi", "system"}, GPUs: []speedmatrix.GPU{{
			Index: 0, Name: "GeForce RTX 3090", MemoryBytes: new(24.0 * (1 << 30)), PowerLimit: new(350.0), PowerDefault: new(350.0), ClockMax: new(2100.0),
			PCIeGenerationMax: new(4), PCIeWidthMax: new(16), ECC: new(false),
		}}},
	}
	var rows []speedmatrix.MachineRow
	for i, concurrency := range []int{1, 8} {
		begun := zero + int64(i)*100*second
		run.Cells = append(run.Cells, speedmatrix.Cell{
			Phase: speedmatrix.PhaseDecode, ContextLabel: "16K", Context: 16384, Concurrency: concurrency, Status: speedmatrix.StatusValid,
			WindowStartedAt: new(time.Unix(0, begun)), WindowSeconds: new(10.0),
			Throttle: &speedmatrix.Throttle{Verdict: speedmatrix.ThrottleNone, N: 20}, GPUClock: &speedmatrix.ClockSummary{Median: 1900, Min: 1800, Max: 1950, N: 20},
			Client: &speedmatrix.ClientQuality{CPUShare: new(0.1)},
		})
		for k := range int64(20) {
			at := begun + (k+1)*second/2
			rows = append(rows,
				speedmatrix.MachineRow{TimeNS: at, Cell: "decode", CPUBusy: new(0.2), SwapIn: new(int64(0)), SwapOut: new(int64(0))},
				speedmatrix.MachineRow{
					TimeNS: at, Cell: "decode", GPU: new(int32(0)), Clock: new(1900.0), Power: new(340.0), Temperature: new(70.0), Utilization: new(1.0), MemoryUsed: new(int64(22 << 30)),
					PowerCap: new(false), Thermal: new(false), HardwareSlowdown: new(false), ClocksSet: new(false),
					PCIeGeneration: new(int32(4)), PCIeWidth: new(int32(16)), OtherProcesses: new(int32(0)), OtherMemory: new(int64(0)),
				})
		}
		// Between the cells the GPU sleeps: its link and its clocks are low, which means nothing.
		rows = append(rows, speedmatrix.MachineRow{TimeNS: begun + 50*second, GPU: new(int32(0)), Clock: new(210.0), Utilization: new(0.0), PCIeGeneration: new(int32(1)), PCIeWidth: new(int32(16))})
	}
	return run, rows
}

func TestAMachineThatIsWellHasNoFindings(t *testing.T) {
	if list := Of(well()); len(list) != 0 || list == nil {
		t.Errorf("%+v", list)
	}
	run, _ := well()
	run.Telemetry = nil
	if list := Of(run, nil); len(list) != 0 {
		t.Errorf("without samples: %+v", list)
	}
}

// eachGPU changes all samples of GPUs.
func eachGPU(rows []speedmatrix.MachineRow, change func(r *speedmatrix.MachineRow)) {
	for i := range rows {
		if rows[i].GPU != nil {
			change(&rows[i])
		}
	}
}

func launch(command string) func(*speedmatrix.Run, []speedmatrix.MachineRow) {
	return func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) {
		r.LaunchCommand = &speedmatrix.Fact{Value: command}
	}
}

// trouble is one change for the worse, and what is to be found.
type trouble struct {
	change func(*speedmatrix.Run, []speedmatrix.MachineRow)
	want   speedmatrix.Finding
}

// throttled gives a cell a verdict.
func throttled(i int, x speedmatrix.Throttle) func(*speedmatrix.Run, []speedmatrix.MachineRow) {
	return func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) { r.Cells[i].Throttle = &x }
}

func clocksAndPower() map[string]trouble {
	return map[string]trouble{
		"limit below default": {func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) { r.Telemetry.GPUs[0].PowerLimit = new(280.0) }, speedmatrix.Finding{
			Code: CodePowerLimit, Message: "The GPU may draw 280 W, 20 % less than as delivered, so these are not its usual speeds",
			Evidence: "limit 280 W, default 350 W; it drew up to 340 W in the windows",
			Fix:      "Set the limit back with: nvidia-smi -i 0 -pl 350 (as administrator). Or name it wherever you show the numbers.",
		}},
		"limit above default, of a card of another maker": {func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) {
			r.Telemetry.GPUs[0].PowerLimit, r.Telemetry.Sources = new(385.0), []string{"sysfs amdgpu"}
		}, speedmatrix.Finding{
			Code: CodePowerLimit, Message: "The GPU may draw 385 W, 10 % more than as delivered, so these are not its usual speeds",
			Evidence: "limit 385 W, default 350 W; it drew up to 340 W in the windows", Fix: "Set the limit back, or name it wherever you show the numbers.",
		}},
		"power cap": {throttled(1, speedmatrix.Throttle{Verdict: speedmatrix.ThrottlePowerCap, PowerCapShare: 0.38, N: 20}), speedmatrix.Finding{
			Code: CodePowerCap, Message: "The power limit held the GPU's clocks down in 1 of 2 cells",
			Evidence: "350 W limit; up to 38 % of the samples, in decode 16K × 8, where the clock went from 1,950 MHz down to 1,800 MHz",
			Fix:      "Name the limit wherever you show the numbers: they are the speeds of that limit.",
		}},
		"heat": {throttled(0, speedmatrix.Throttle{Verdict: speedmatrix.ThrottleThermal, ThermalShare: 0.5, N: 20}), speedmatrix.Finding{
			Code: CodeThermal, Message: "Heat held the GPU's clocks down in 1 of 2 cells",
			Evidence: "up to 50 % of the samples, in decode 16K × 1, where the clock went from 1,950 MHz down to 1,800 MHz; up to 70 °C",
			Fix:      "Give it more air or a cooler room, and measure again; a colder machine of the same kind is faster.",
		}},
		"emergency": {throttled(0, speedmatrix.Throttle{Verdict: speedmatrix.ThrottleHardware, HardwareSlowdownShare: 0.5, ThermalShare: 0.4, N: 20}), speedmatrix.Finding{
			Code: CodeHardwareSlowdown, Message: "The GPU protected itself by much lower clocks in 1 of 2 cells",
			Evidence: "up to 50 % of the samples, in decode 16K × 1, where the clock went from 1,950 MHz down to 1,800 MHz; too hot in 40 % of them",
			Fix:      "Look at its cooling, its power cables and the power supply, then measure again: these numbers are of a machine in distress.",
		}},
		"clocks set": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) {
			eachGPU(rows, func(r *speedmatrix.MachineRow) { r.ClocksSet, r.Clock = new(true), new(1400.0) })
		}, speedmatrix.Finding{
			Code: CodeClocksSet, Message: "The GPU has its clocks limited by a setting", Evidence: "in 100 % of the samples; at most 1,400 MHz of 2,100 MHz",
			Fix: "Set them free with: nvidia-smi -i 0 -rgc, and -rac for application clocks (as administrator). Or name the setting wherever you show the numbers.",
		}},
		"clocks low without a reason": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) {
			eachGPU(rows, func(r *speedmatrix.MachineRow) { r.Clock = new(1200.0) })
		}, speedmatrix.Finding{
			Code: CodeClocksLow, Message: "The GPU stayed far below the highest clock although nothing is reported that held it down: the clocks may be locked",
			Evidence: "at most 1,200 MHz of 2,100 MHz",
			Fix:      "Set them free with: nvidia-smi -i 0 -rgc, and -rac for application clocks (as administrator). Or name the setting wherever you show the numbers.",
		}},
		"clocks raised": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) {
			eachGPU(rows, func(r *speedmatrix.MachineRow) { r.Clock = new(2160.0) })
		}, speedmatrix.Finding{
			Code: CodeClocksRaised, Message: "The GPU ran above the highest clock as made, so others of the kind are slower", Evidence: "2,160 MHz, made for 2,100 MHz",
			Fix: "Take the offset of the clocks back, or name it wherever you show the numbers.",
		}},
	}
}

func everythingElse() map[string]trouble {
	return map[string]trouble{
		"another program": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) {
			rows[5].OtherProcesses, rows[5].OtherMemory = new(int32(1)), new(int64(3<<30))
		}, speedmatrix.Finding{
			Code: CodeOtherProcess, Message: "Another program computes on the GPU beside the server", Evidence: "1 program, 3 GB of its memory", Fix: "End it and measure again; nvidia-smi names it.",
		}},
		"memory full": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) { rows[5].MemoryUsed = new(int64(24500 << 20)) }, speedmatrix.Finding{
			Code: CodeMemoryFull, Message: "The memory of the GPU is nearly full", Evidence: "23.9 GB of 24 GB in use",
			Fix: "Leave the server less of it (vLLM: --gpu-memory-utilization 0.9), or a shorter maximum length: where memory runs out, requests fail, or the driver moves it to the slow side.",
		}},
		"a narrow slot": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) {
			eachGPU(rows, func(r *speedmatrix.MachineRow) { r.PCIeWidth = new(int32(4)) })
		}, speedmatrix.Finding{
			Code: CodePCIe, Message: "The PCIe link of the GPU is below its maximum", Evidence: "4.0 ×4 of 4.0 ×16 in 100 % of the samples under load",
			Fix: "Loading and moving the KV cache are slower; a single GPU's generation hardly is. Look at the slot, the riser and the board's settings.",
		}},
		"ECC": {func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) { r.Telemetry.GPUs[0].ECC = new(true) }, speedmatrix.Finding{
			Code: CodeECC, Message: "The memory of the GPU corrects errors, which this kind of card is delivered without", Evidence: "GeForce RTX 3090, ECC on",
			Fix: "It costs some of the memory's bandwidth, which generation lives on. Switch it off with: nvidia-smi -i 0 -e 0 (as administrator, then restart), or name it.",
		}},
		"a busy CPU": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) {
			for i := range rows[:40] {
				if rows[i].GPU == nil {
					rows[i].CPUBusy = new(0.97)
				}
			}
		}, speedmatrix.Finding{
			Code: CodeCPU, Message: "The CPU of the server's machine was saturated in 1 of 2 cells", Evidence: "97 % busy in decode 16K × 1",
			Fix: "End what else runs there. A server that has no GPU needs all of its CPU; one that has some should not.",
		}},
		"a greedy client": {func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) { r.Cells[1].Client.CPUShare = new(1.6) }, speedmatrix.Finding{
			Code: CodeClient, Message: "The client ran on the server's machine and took CPU from it", Evidence: "up to 10 % of the machine's CPU (1.60 of its 16 processors), in decode 16K × 8",
			Fix: "Measure from another machine on the same network to see what it makes of the numbers.",
		}},
		"swap": {func(_ *speedmatrix.Run, rows []speedmatrix.MachineRow) {
			rows[0].SwapOut, rows[2].SwapIn = new(int64(3_000_000)), new(int64(2_000_000))
		}, speedmatrix.Finding{
			Code: CodeSwap, Message: "The server's machine moved memory to or from its disk while cells were measured", Evidence: "5 MB swapped",
			Fix: "Free some memory, or load less of the model into it, and measure again.",
		}},
		"prefix caching off": {func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) {
			r.Engine[speedmatrix.EnginePrefixCaching] = speedmatrix.Fact{Value: false, Source: "GET /metrics"}
		}, speedmatrix.Finding{
			Code: CodePrefixCaching, Message: "The engine does not keep prompts that it has read, so every request reads its whole prompt again and launches at long contexts are cold",
			Evidence: "prefix caching off, by GET /metrics",
			Fix:      "Switch it on with --enable-prefix-caching (vLLM's default for most models) to measure what users with a common or a growing prompt get.",
		}},
		"eager mode": {launch("vllm serve m --enforce-eager --port 8000"), speedmatrix.Finding{
			Code: CodeEager, Message: "The engine runs in eager mode: it starts every kernel of a step anew, which slows small numbers of requests down most",
			Evidence: "--enforce-eager in the launch command", Fix: "Leave it out; it saves start-up time and some memory only.",
		}},
		"no metrics": {func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) {
			delete(r.Engine, speedmatrix.EngineMetrics)
			r.Engine[speedmatrix.EngineName] = speedmatrix.Fact{Value: "llama.cpp"}
		}, speedmatrix.Finding{
			Code: CodeNoMetrics, Message: "The server tells no metrics, so queues, preemptions and the engine's own count of tokens are not known", Evidence: "llama.cpp, nothing at GET /metrics",
			Fix: "Start llama-server with --metrics.",
		}},
		"no metrics through a proxy": {func(r *speedmatrix.Run, _ []speedmatrix.MachineRow) {
			delete(r.Engine, speedmatrix.EngineMetrics)
			r.Engine[speedmatrix.EngineName], r.Engine[speedmatrix.EngineProxy] = speedmatrix.Fact{Value: "llama.cpp"}, speedmatrix.Fact{Value: "LiteLLM"}
		}, speedmatrix.Finding{
			Code: CodeNoMetrics, Message: "The proxy does not pass on what the engine tells of itself, so queues, preemptions and the engine's own count of tokens are not known",
			Evidence: "LiteLLM in front of llama.cpp, nothing at GET /metrics",
			Fix:      "Measure the engine without the proxy to have them; the difference of the two runs is what the proxy costs.",
		}},
	}
}

func TestEveryFindingHasItsEvidenceAndItsFix(t *testing.T) {
	troubles := clocksAndPower()
	maps.Copy(troubles, everythingElse())
	for name, c := range troubles {
		run, rows := well()
		c.change(run, rows)
		if diff := cmp.Diff([]speedmatrix.Finding{c.want}, Of(run, rows)); diff != "" {
			t.Errorf("%s: wanted (−), found (+):\n%s", name, diff)
		}
	}
}

func TestOptionsThatCostSpeedAreNamedAsTheyWereWritten(t *testing.T) {
	for command, want := range map[string]string{
		"vllm serve m --cpu-offload-gb 10":             "--cpu-offload-gb 10",
		"vllm serve m --cpu-offload-gb=4.5":            "--cpu-offload-gb=4.5",
		"vllm serve m --cpu-offload-gb 0":              "",
		"llama-server -m x.gguf -ngl 0":                "-ngl 0",
		"llama-server -m x.gguf -ngl 99 -fa on":        "",
		"llama-server -m x.gguf --flash-attn off":      "--flash-attn off",
		"llama-server -m x.gguf -nkvo":                 "-nkvo",
		"CUDA_LAUNCH_BLOCKING=1 vllm serve m":          "CUDA_LAUNCH_BLOCKING=1",
		"CUDA_LAUNCH_BLOCKING=0 vllm serve m":          "",
		"docker run -e 'NCCL_P2P_DISABLE=1' vllm":      "NCCL_P2P_DISABLE=1",
		"python -m sglang --disable-overlap-schedule":  "--disable-overlap-schedule",
		"vllm serve m --device cpu":                    "--device cpu",
		"vllm serve m --device":                        "",
		"vllm serve \\\n m \\\n --no-async-scheduling": "--no-async-scheduling",
		"# --no-async-scheduling\nvllm serve m":        "",
		"":                                             "",
	} {
		run, rows := well()
		run.LaunchCommand = &speedmatrix.Fact{Value: command}
		list := Of(run, rows)
		switch {
		case want == "" && len(list) > 0:
			t.Errorf("%q: %+v", command, list)
		case want != "" && (len(list) != 1 || list[0].Code != CodeOption || !strings.HasPrefix(list[0].Message, "The server was started with "+want+": ") || list[0].Fix == ""):
			t.Errorf("%q: %+v", command, list)
		}
	}
}

func TestGPUsThatAreAlikeShareASentence(t *testing.T) {
	run, rows := well()
	first := &run.Telemetry.GPUs[0]
	first.PowerLimit = new(280.0)
	second, third := *first, *first
	second.Index, third.Index, third.PowerLimit = 1, 2, new(300.0)
	run.Telemetry.GPUs = append(run.Telemetry.GPUs, second, third)
	var messages []string
	for _, f := range Of(run, rows) {
		messages = append(messages, f.Message)
	}
	want := []string{
		"GPUs 0 and 1 may draw 280 W, 20 % less than as delivered, so these are not its usual speeds",
		"GPU 2 may draw 300 W, 14 % less than as delivered, so these are not its usual speeds",
	}
	if !slices.Equal(messages, want) {
		t.Errorf("%q", messages)
	}
}

func TestFindingsOfOthersStayAndTheirOwnAreMadeAnew(t *testing.T) {
	run, rows := well()
	run.Findings = []speedmatrix.Finding{{Code: "start_failed_once", Message: "x"}, {Code: CodeThermal, Message: "of an earlier save"}}
	before := slices.Clone(run.Findings)
	got := Of(run, rows)
	if len(got) != 1 || got[0].Code != "start_failed_once" || !slices.Equal(run.Findings, before) {
		t.Errorf("%+v; the run has %+v", got, run.Findings)
	}
	run.Origin = speedmatrix.OriginPredicted
	run.Engine[speedmatrix.EnginePrefixCaching] = speedmatrix.Fact{Value: false}
	if got := Of(run, rows); len(got) != 1 {
		t.Errorf("a prediction has findings of a machine: %+v", got)
	}
}

func TestASaturatedClientIsNotTheServers(t *testing.T) {
	run, rows := well()
	run.Telemetry.Of, run.Telemetry.GPUs, run.Server.SameMachine = speedmatrix.TelemetryOfClient, nil, false
	for i := range rows {
		rows[i].CPUBusy = new(0.99)
	}
	got := Of(run, rows)
	if len(got) != 1 || got[0].Message != "The CPU of the client's machine was saturated in all 2 cells" || got[0].Fix != "End what else runs there: a busy client may time late." {
		t.Errorf("%+v", got)
	}
}
