package machine

import (
	"maps"
	"slices"
	"testing"
)

func devicesOf(names ...string) *gpus {
	g := &gpus{source: nvidiaSMI}
	for i, name := range names {
		g.devices = append(g.devices, device{index: i, name: name, uuid: "GPU-" + string(rune('a'+i)) + "bcdef"})
	}
	return g
}

func TestTheGPUsOfAServerAreFound(t *testing.T) {
	vllm := []Process{{1, 0, "init"}, {10, 1, "bash"}, {20, 10, "vllm"}, {30, 20, "VLLM::EngineCore"}, {31, 30, "VLLM::Worker"}, {99, 10, "vllm"}}
	for name, c := range map[string]struct {
		gpus      *gpus
		processes Processes
		text      string
		indexes   []int
	}{
		"told by a list": {devicesOf("A", "A", "A", "A"), someProcesses{vllm, []int32{20}, map[string]string{"CUDA_VISIBLE_DEVICES": "3, 1"}},
			"GPUs 3 and 1 of 4, by the server's CUDA_VISIBLE_DEVICES", []int{3, 1}},
		"told by a UUID": {devicesOf("A", "B"), someProcesses{vllm, []int32{20}, map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-bb"}},
			"GPU 1 of 2, by the server's CUDA_VISIBLE_DEVICES", []int{1}},
		"numbers that CUDA may order otherwise": {devicesOf("A", "B"), someProcesses{vllm, []int32{20}, map[string]string{"CUDA_VISIBLE_DEVICES": "1"}},
			"all 2 GPUs: which of them the server uses is not known", []int{0, 1}},
		"numbers in the machine's order": {devicesOf("A", "B"), someProcesses{vllm, []int32{20}, map[string]string{"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}},
			"GPU 1 of 2, by the server's CUDA_VISIBLE_DEVICES", []int{1}},
		"a number that is not there": {devicesOf("A", "A"), someProcesses{vllm, []int32{20}, map[string]string{"CUDA_VISIBLE_DEVICES": "7"}},
			"all 2 GPUs: which of them the server uses is not known", []int{0, 1}},
		"a part of a GPU": {devicesOf("A", "A"), someProcesses{vllm, []int32{20}, map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-0001"}},
			"all 2 GPUs: which of them the server uses is not known", []int{0, 1}},
		"nothing known": {devicesOf("A", "A", "A"), noProcesses{}, "all 3 GPUs: which of them the server uses is not known", []int{0, 1, 2}},
		"one GPU":       {devicesOf("A"), noProcesses{}, "the machine's only GPU", []int{0}},
	} {
		s := recorded{t: t, process: c.processes}.system()
		got := s.scopeOf(t.Context(), c.gpus, 8000)
		var indexes []int
		for _, d := range got.devices {
			indexes = append(indexes, d.index)
		}
		if got.text != c.text || !slices.Equal(indexes, c.indexes) {
			t.Errorf("%s: %q, %v", name, got.text, indexes)
		}
	}
}

func TestAServersProcessesAreItsDescendantsAndItsLikes(t *testing.T) {
	list := []Process{
		{1, 0, "init"}, {10, 1, "bash"},
		{20, 10, "vllm"}, {21, 20, "vllm"}, {22, 20, "VLLM::EngineCore"}, {23, 22, "VLLM::Worker"},
		{50, 10, "python3"}, {51, 50, "python3"},
	}
	for name, c := range map[string]struct {
		listening, want []int32
	}{
		"the main process listens": {[]int32{20}, []int32{20, 21, 22, 23}},
		"a child of it listens":    {[]int32{21}, []int32{20, 21, 22, 23}},
		"another's server":         {[]int32{51}, []int32{50, 51}},
		"nobody listens":           {nil, nil},
	} {
		s := recorded{t: t, process: someProcesses{list: list, listening: c.listening}}.system()
		got := slices.Sorted(maps.Keys(s.serverProcesses(t.Context(), 8000)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestProcessesOnSeveralGPUsAreAllTaken(t *testing.T) {
	g := devicesOf("A", "A", "A")
	apps := []computeApp{{uuid: g.devices[0].uuid, pid: 5}, {uuid: g.devices[2].uuid, pid: 6}, {uuid: g.devices[1].uuid, pid: 7}}
	got, ok := byProcesses(g.devices, apps, map[int32]bool{5: true, 6: true})
	if !ok || got.text != "GPUs 0 and 2 of 3, by the server's processes" {
		t.Errorf("%v, %q", ok, got.text)
	}
	if got, ok := byProcesses(g.devices, apps, map[int32]bool{5: true, 6: true, 7: true}); !ok || got.text != "all 3 GPUs, by the server's processes" {
		t.Errorf("%v, %q", ok, got.text)
	}
	if _, ok := byProcesses(g.devices, apps, map[int32]bool{8: true}); ok {
		t.Error("a process without a GPU has one")
	}
}
