package machine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"speedmatrix/internal/unit"
)

// scope says which GPUs a server uses.
type scope struct {
	devices []device
	text    string
	// tree are the server's processes; nil where they are not known among those on the GPUs.
	tree map[int32]bool
}

// scopeOf finds out which of the GPUs the server that listens at a port uses: by its processes among those that
// compute, else by what it was told to see, else all.
func (s *System) scopeOf(ctx context.Context, g *gpus, port int) scope {
	tree := s.serverProcesses(ctx, port)
	if g.source == nvidiaSMI && len(tree) > 0 {
		if apps, err := computeApps(ctx, s.Command); err == nil {
			if sc, ok := byProcesses(g.devices, apps, tree); ok {
				return sc
			}
		}
	}
	if sc, ok := s.byVisibility(ctx, g, tree); ok {
		return sc
	}
	if len(g.devices) == 1 {
		return scope{devices: g.devices, text: "the machine's only GPU"}
	}
	return scope{devices: g.devices, text: fmt.Sprintf("all %s GPUs: which of them the server uses is not known", unit.Count(len(g.devices)))}
}

// byProcesses takes the GPUs on which the server's processes compute.
func byProcesses(devices []device, apps []computeApp, tree map[int32]bool) (scope, bool) {
	var used []device
	for _, d := range devices {
		if slices.ContainsFunc(apps, func(a computeApp) bool { return a.uuid == d.uuid && tree[a.pid] }) {
			used = append(used, d)
		}
	}
	if len(used) == 0 {
		return scope{}, false
	}
	return scope{devices: used, tree: tree, text: named(used, devices) + ", by the server's processes"}, true
}

// named is "GPU 0 of 2", "GPUs 0 and 1 of 4", "all 8 GPUs".
func named(used, all []device) string {
	var ids []string
	for _, d := range used {
		ids = append(ids, strconv.Itoa(d.index))
	}
	switch {
	case len(all) == 1:
		return "the machine's only GPU"
	case len(used) == len(all):
		return fmt.Sprintf("all %s GPUs", unit.Count(len(all)))
	case len(used) == 1:
		return fmt.Sprintf("GPU %s of %s", ids[0], unit.Count(len(all)))
	}
	last := len(ids) - 1
	return fmt.Sprintf("GPUs %s and %s of %s", strings.Join(ids[:last], ", "), ids[last], unit.Count(len(all)))
}

// visibility are the variables that limit which GPUs a process sees, by the source of the GPUs.
var visibility = map[string][]string{
	nvidiaSMI: {"CUDA_VISIBLE_DEVICES"},
	sourceAMD: {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"},
}

// byVisibility takes the GPUs that a process of the server was told to see.
func (s *System) byVisibility(ctx context.Context, g *gpus, tree map[int32]bool) (scope, bool) {
	for pid := range tree {
		for _, name := range visibility[g.source] {
			list, ok := s.Processes.Variable(ctx, pid, name)
			if !ok || list == "" {
				continue
			}
			order, _ := s.Processes.Variable(ctx, pid, "CUDA_DEVICE_ORDER")
			if used := listed(g, list, order == "PCI_BUS_ID"); len(used) > 0 {
				return scope{devices: used, text: named(used, g.devices) + ", by the server's " + name}, true
			}
		}
	}
	return scope{}, false
}

// listed are the GPUs of a list such as "0,2" or "GPU-5cd1…"; nil for one that does not tell. CUDA numbers GPUs of
// different kinds by their speed unless it is told to number them as they sit in the machine.
func listed(g *gpus, list string, inOrder bool) []device {
	alike := !slices.ContainsFunc(g.devices, func(d device) bool { return d.name != g.devices[0].name })
	var used []device
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		i := slices.IndexFunc(g.devices, func(d device) bool { return d.uuid != "" && len(item) > 4 && strings.HasPrefix(d.uuid, item) })
		if n, err := strconv.Atoi(item); err == nil && n >= 0 && n < len(g.devices) && (alike || inOrder || g.source != nvidiaSMI) {
			i = n
		}
		if i < 0 {
			return nil
		}
		used = append(used, g.devices[i])
	}
	return used
}

// serverProcesses are those that listen at the port with their descendants, and their relatives under a parent of
// the same name: some servers listen in one process and compute in its sibling.
func (s *System) serverProcesses(ctx context.Context, port int) map[int32]bool {
	if s.Processes == nil || port <= 0 {
		return nil
	}
	listening, err := s.Processes.Listening(ctx, port)
	if err != nil || len(listening) == 0 {
		return nil
	}
	list, err := s.Processes.List(ctx)
	if err != nil {
		return nil
	}
	tree := map[int32]bool{}
	for _, pid := range listening {
		tree[eldest(list, pid)] = true
	}
	for grown := true; grown; {
		grown = false
		for _, p := range list {
			if tree[p.Parent] && !tree[p.PID] {
				tree[p.PID], grown = true, true
			}
		}
	}
	return tree
}

// eldest follows a process up to its oldest ancestor under whose name all down to it run.
func eldest(list []Process, pid int32) int32 {
	byPID := map[int32]Process{}
	for _, p := range list {
		byPID[p.PID] = p
	}
	for range list {
		self, parent := byPID[pid], byPID[byPID[pid].Parent]
		if parent.PID <= 1 || parent.Name == "" || parent.Name != self.Name {
			break
		}
		pid = parent.PID
	}
	return pid
}
