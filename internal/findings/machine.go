package findings

import (
	"fmt"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// The limits of what the machine may do beside the server.
const (
	// SaturatedShare is the busy share (0–1) of the CPU from which it counts as saturated.
	SaturatedShare = 0.9
	// LeastSwapped is how many bytes to and from the disk count as swapping.
	LeastSwapped = 1 << 20
	// clientShare of the machine's CPU is what a client may take before it is said.
	clientShare = 0.05
)

// CPUBusy is the mean busy share (0–1) of the CPU over the samples of the machine; ok is false where none tells.
func CPUBusy(rows []speedmatrix.MachineRow) (share float64, ok bool) {
	values := known(rows, func(r *speedmatrix.MachineRow) *float64 { return r.CPUBusy })
	if len(values) == 0 {
		return 0, false
	}
	for _, v := range values {
		share += v
	}
	return share / float64(len(values)), true
}

// Swapped is how many bytes were swapped in and out over the samples of the machine.
func Swapped(rows []speedmatrix.MachineRow) (bytes int64) {
	for _, r := range rows {
		if r.SwapIn != nil {
			bytes += *r.SwapIn
		}
		if r.SwapOut != nil {
			bytes += *r.SwapOut
		}
	}
	return bytes
}

// whose is the machine that the samples are of.
func (l *look) whose() string {
	if l.run.Telemetry != nil && l.run.Telemetry.Of == speedmatrix.TelemetryOfClient {
		return "client's machine"
	}
	return "server's machine"
}

// swap finds swapping while cells were measured.
func swap(l *look) []speedmatrix.Finding {
	var during []speedmatrix.MachineRow
	for _, r := range l.rows {
		if r.GPU == nil && r.Cell != "" {
			during = append(during, r)
		}
	}
	bytes := Swapped(during)
	if bytes <= LeastSwapped {
		return nil
	}
	return one(speedmatrix.Finding{
		Message:  "The " + l.whose() + " moved memory to or from its disk while cells were measured",
		Evidence: unit.Bytes(bytes) + " swapped",
		Fix:      "Free some memory, or load less of the model into it, and measure again.",
	})
}

// cpuSaturated finds windows in which the CPU had nothing left.
func cpuSaturated(l *look) []speedmatrix.Finding {
	cells, of, most := 0, 0, 0.0
	var where *speedmatrix.Cell
	for _, w := range l.windows {
		share, ok := CPUBusy(w.host)
		if !ok {
			continue
		}
		of++
		if share <= SaturatedShare {
			continue
		}
		cells++
		if share > most {
			most, where = share, w.cell
		}
	}
	if cells == 0 {
		return nil
	}
	f := speedmatrix.Finding{
		Message:  fmt.Sprintf("The CPU of the %s was saturated %s", l.whose(), inCells(cells, of)),
		Evidence: fmt.Sprintf("%s busy in %s", unit.Percent(most), name(where)),
		Fix:      "End what else runs there. A server that has no GPU needs all of its CPU; one that has some should not.",
	}
	if l.run.Telemetry.Of == speedmatrix.TelemetryOfClient {
		f.Fix = "End what else runs there: a busy client may time late."
	}
	return one(f)
}

// clientOnServer finds what it cost the server that the client ran beside it.
func clientOnServer(l *look) []speedmatrix.Finding {
	if !l.run.Server.SameMachine || l.run.Client.CPUs <= 0 {
		return nil
	}
	most := 0.0
	var where *speedmatrix.Cell
	for i := range l.run.Cells {
		c := &l.run.Cells[i]
		if c.Client == nil || c.Client.CPUShare == nil {
			continue
		}
		if share := *c.Client.CPUShare / float64(l.run.Client.CPUs); share > most {
			most, where = share, c
		}
	}
	if most < clientShare {
		return nil
	}
	return one(speedmatrix.Finding{
		Message:  "The client ran on the server's machine and took CPU from it",
		Evidence: fmt.Sprintf("up to %s of the machine's CPU (%s of its %s processors), in %s", unit.Percent(most), unit.Fixed(*where.Client.CPUShare, 2), unit.Count(l.run.Client.CPUs), name(where)),
		Fix:      "Measure from another machine on the same network to see what it makes of the numbers.",
	})
}
