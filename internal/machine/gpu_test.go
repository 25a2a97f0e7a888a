package machine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

func plainFacts(facts speedmatrix.Facts) map[string]any {
	values := map[string]any{}
	for key, fact := range facts {
		values[key] = fact.Value
	}
	return values
}

func TestGPUsOfEveryKindAreRead(t *testing.T) {
	nvidia := func(file string) recorded {
		return recorded{answers: map[string]string{"nvidia-smi --query-gpu": file}}
	}
	amd := recorded{files: "sysfs-rx7900xtx.txt"}
	for name, c := range map[string]struct {
		machine recorded
		want    map[string]any
	}{
		"RTX 3090": {nvidia("nvidia-rtx3090.csv"), map[string]any{
			"type": "Discrete GPU", "gpu": "GeForce RTX 3090", "gpu_count": 1, "vram": "24 GB", "driver": "595.58.03", "gpu_vbios": "94.02.42.80.88",
			"gpu_pcie": "1.0 ×16", "gpu_pcie_max": "4.0 ×16", "gpu_power_limit_watts": 350.0, "gpu_power_default_watts": 350.0, "gpu_power_max_watts": 366.0,
			"gpu_clock_max_mhz": 2100.0, "gpu_memory_clock_max_mhz": 9751.0, "gpu_persistence": "off",
		}},
		"H100": {nvidia("nvidia-h100.csv"), map[string]any{
			"type": "Discrete GPU", "gpu": "H100 80GB HBM3", "gpu_count": 1, "vram": "80 GB", "driver": "570.133.20", "gpu_vbios": "96.00.74.00.01",
			"gpu_pcie": "5.0 ×16", "gpu_pcie_max": "5.0 ×16", "gpu_power_limit_watts": 700.0, "gpu_power_default_watts": 700.0, "gpu_power_max_watts": 700.0,
			"gpu_clock_max_mhz": 1980.0, "gpu_memory_clock_max_mhz": 2619.0, "gpu_persistence": "on", "gpu_ecc": "on", "gpu_mig": "off",
		}},
		"two kinds": {nvidia("nvidia-two.csv"), map[string]any{
			"type": "Discrete GPU", "gpu": "1 × GeForce RTX 3090 + 1 × GeForce RTX 4090", "gpu_count": 2, "vram": "24 GB", "driver": "580.95.05",
			"gpu_vbios": "1 × 94.02.42.80.88 + 1 × 95.02.3C.80.99", "gpu_pcie": "1 × 1.0 ×16 + 1 × 1.0 ×4", "gpu_pcie_max": "4.0 ×16",
			"gpu_power_limit_watts": "1 × 350 + 1 × 450", "gpu_power_default_watts": "1 × 350 + 1 × 450", "gpu_power_max_watts": "1 × 366 + 1 × 600",
			"gpu_clock_max_mhz": "1 × 2100 + 1 × 3105", "gpu_memory_clock_max_mhz": "1 × 10501 + 1 × 9751", "gpu_persistence": "off",
		}},
		"a laptop that tells little": {nvidia("nvidia-laptop.csv"), map[string]any{
			"type": "Discrete GPU", "gpu": "GeForce RTX 4070 Laptop GPU", "gpu_count": 1, "vram": "8 GB", "driver": "550.120", "gpu_vbios": "95.06.1B.00.29",
			"gpu_pcie": "4.0 ×8", "gpu_pcie_max": "4.0 ×8", "gpu_clock_max_mhz": 3105.0, "gpu_memory_clock_max_mhz": 8001.0, "gpu_persistence": "off",
		}},
		"memory shared with the CPU": {nvidia("nvidia-spark.csv"), map[string]any{
			"type": "Discrete GPU", "gpu": "GB10", "gpu_count": 1, "driver": "580.95.05", "gpu_vbios": "9A.0B.1E.00.00",
			"gpu_pcie": "1.0 ×1", "gpu_pcie_max": "1.0 ×1", "gpu_clock_max_mhz": 3003.0, "gpu_persistence": "off",
		}},
		"one GPU that is lost": {nvidia("nvidia-hurt.csv"), map[string]any{
			"type": "Discrete GPU", "gpu": "GeForce RTX 3090", "gpu_count": 2, "vram": "24 GB", "driver": "535.183.01", "gpu_vbios": "94.02.42.80.88",
			"gpu_pcie_max": "4.0 ×16", "gpu_clock_max_mhz": 2100.0, "gpu_memory_clock_max_mhz": 9751.0, "gpu_persistence": "off",
		}},
		"RX 7900 XTX by the kernel's files": {amd, map[string]any{
			"type": "Discrete GPU", "gpu": "Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M", "gpu_count": 1, "vram": "24 GB", "gpu_vbios": "113-EXT89231-001",
			"gpu_power_limit_watts": 290.0, "gpu_power_default_watts": 327.0, "gpu_power_max_watts": 376.0, "gpu_clock_max_mhz": 2575.0, "gpu_memory_clock_max_mhz": 1249.0,
		}},
		"RX 7900 XTX with rocm-smi for its name": {recorded{files: "sysfs-rx7900xtx.txt", answers: map[string]string{"rocm-smi --showproductname": "rocm-rx7900xtx.json"}}, map[string]any{
			"type": "Discrete GPU", "gpu": "Navi 31 [Radeon RX 7900 XT/7900 XTX]", "gpu_count": 1, "vram": "24 GB", "gpu_vbios": "113-EXT89231-001",
			"gpu_power_limit_watts": 290.0, "gpu_power_default_watts": 327.0, "gpu_power_max_watts": 376.0, "gpu_clock_max_mhz": 2575.0, "gpu_memory_clock_max_mhz": 1249.0,
		}},
		"MI300X by rocm-smi alone": {recorded{answers: map[string]string{"rocm-smi --showproductname": "rocm-mi300x.json"}}, map[string]any{
			"type": "Discrete GPU", "gpu": "AMD Instinct MI300X OAM", "gpu_count": 2, "vram": "192 GB", "driver": "6.8.5", "gpu_power_limit_watts": 750.0,
		}},
		"Arc A770, i915": {recorded{files: "sysfs-arc-a770-i915.txt"}, map[string]any{
			"type": "Discrete GPU", "gpu": "Arc A770", "gpu_count": 1, "vram": "16 GB", "gpu_power_limit_watts": 190.0, "gpu_power_default_watts": 190.0, "gpu_clock_max_mhz": 2400.0,
		}},
		"Arc B580, xe": {recorded{files: "sysfs-arc-b580-xe.txt"}, map[string]any{
			"type": "Discrete GPU", "gpu": "Intel GPU 0xe20b", "gpu_count": 1, "vram": "12 GB", "gpu_power_default_watts": 190.0, "gpu_clock_max_mhz": 2850.0,
		}},
		"M3 Max": {recorded{os: "darwin", answers: map[string]string{"system_profiler -json": "system_profiler-m3max.json"}}, map[string]any{
			"type": "GPU with shared memory", "gpu": "Apple M3 Max", "gpu_count": 1, "vram": "128 GB", "gpu_cores": 40.0,
		}},
		"none": {recorded{}, map[string]any{}},
	} {
		facts, _ := gpuFacts(t, c.machine)
		if diff := cmp.Diff(c.want, plainFacts(facts)); diff != "" {
			t.Errorf("%s: wanted (−), read (+):\n%s", name, diff)
		}
	}
}

func TestBoardsAreNamedWithoutTheirSerialNumbers(t *testing.T) {
	machine := recorded{t: t, files: "sysfs-rx7900xtx.txt"}.system()
	if got := machine.board(t.Context()); got != "ASUSTeK COMPUTER INC. ROG STRIX X670E-E GAMING WIFI" {
		t.Errorf("board %q", got)
	}
	apple := recorded{t: t, os: "darwin", answers: map[string]string{"system_profiler -json": "system_profiler-m3max.json"}}.system()
	if got := apple.board(t.Context()); got != "MacBook Pro (Mac15,9)" {
		t.Errorf("board %q", got)
	}
	if got := (recorded{t: t}).system().board(t.Context()); got != "" {
		t.Errorf("board %q of a machine that tells none", got)
	}
}

func TestABrokenDriverIsSaidNotTakenForNoGPU(t *testing.T) {
	for file, want := range map[string]string{
		"nvidia-mismatch.txt":  "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch",
		"nvidia-nodriver.txt":  "nvidia-smi: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
		"nvidia-nodevices.txt": "nvidia-smi: No devices were found",
		"nvidia-lost.txt":      "nvidia-smi: Unable to determine the device handle for GPU0000:01:00.0: Unknown Error",
	} {
		facts, found := gpuFacts(t, recorded{answers: map[string]string{"nvidia-smi --query-gpu": file}, failing: map[string]bool{"nvidia-smi --query-gpu": true}})
		if len(facts) != 0 || !slices.Equal(found.missing, []string{want}) {
			t.Errorf("%s: %v, %q", file, facts, found.missing)
		}
	}
	if _, found := gpuFacts(t, recorded{}); !slices.Equal(found.missing, []string{"no GPU was found"}) {
		t.Errorf("without any tool: %q", found.missing)
	}
}

func TestABrokenDriverDoesNotHideAnothersGPU(t *testing.T) {
	facts, found := gpuFacts(t, recorded{
		files: "sysfs-rx7900xtx.txt", answers: map[string]string{"nvidia-smi --query-gpu": "nvidia-nodriver.txt"}, failing: map[string]bool{"nvidia-smi --query-gpu": true},
	})
	if facts.Text(speedmatrix.HardwareVRAM) != "24 GB" || len(found.missing) != 1 {
		t.Errorf("%v, %q", facts, found.missing)
	}
}

func TestAFieldThatAnOlderToolRejectsIsLeftOut(t *testing.T) {
	var asked []string
	s := &System{Command: func(_ context.Context, _ string, args ...string) ([]byte, error) {
		fields := strings.Split(strings.TrimPrefix(args[0], "--query-gpu="), ",")
		asked = append(asked, args[0])
		for _, field := range []string{"mig.mode.current", "power.max_limit"} {
			if slices.Contains(fields, field) {
				return []byte(`Field "` + field + "\" is not a valid field to query.\n\n"), nil
			}
		}
		if len(fields) != len(nvidiaFacts)-2 {
			t.Errorf("asked for %q", fields)
		}
		return []byte("0, GPU-1, 470.82.01, 11264, 86.02.40.00.4A, 3, 16, 3, 16, 250.00, 250.00, 2100, 5705, [N/A], Disabled, GeForce GTX 1080 Ti, rev 2\n"), nil
	}}
	found := s.findNVIDIA(t.Context())
	if len(asked) != 3 || len(found.devices) != 1 || found.devices[0].name != "GeForce GTX 1080 Ti, rev 2" || found.devices[0].powerMax != nil {
		t.Errorf("asked %d times, found %+v", len(asked), found.devices)
	}
}

func TestAHangingToolIsEndedAfterThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s := &System{Command: func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		found := s.findNVIDIA(t.Context())
		if took := time.Since(begun); took != 3*time.Second || !slices.Equal(found.missing, []string{"nvidia-smi: no answer within 3s"}) {
			t.Errorf("it took %s, %q", took, found.missing)
		}
	})
}

// secrets are what the recorded tools tell and no run may hold.
var secrets = []string{"GPU-", "a1b2c3d4e5f60718", "231016893600042", "C02EXAMPLE01", "01234567-89AB", "00006031", "fd626d62"}

func TestNoIdentityLeavesThePackage(t *testing.T) {
	for _, r := range []recorded{
		{answers: map[string]string{"nvidia-smi --query-gpu": "nvidia-two.csv"}}, {files: "sysfs-rx7900xtx.txt"},
		{os: "darwin", answers: map[string]string{"system_profiler -json": "system_profiler-m3max.json"}},
	} {
		facts, found := gpuFacts(t, r)
		r.t = t
		set(facts, speedmatrix.HardwareBoard, r.system().board(t.Context()))
		all := []any{facts, found.missing}
		for i := range found.devices {
			all = append(all, found.devices[i].public())
		}
		data, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(data), secret) {
				t.Errorf("%q stands in %s", secret, data)
			}
		}
	}
}
