package machine

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"speedmatrix"
)

// Counters are what the machine counts and holds now; NaN is unknown.
type Counters struct {
	// CPUBusy and CPUTotal are seconds over all processors, since the machine started.
	CPUBusy, CPUTotal float64
	// RAMUsed is in bytes; the rest are bytes since the machine started.
	RAMUsed, SwapIn, SwapOut, Received, Sent float64
}

// readCounters reads this machine.
func readCounters(ctx context.Context) Counters {
	nan := math.NaN()
	c := Counters{nan, nan, nan, nan, nan, nan, nan}
	if times, err := cpu.TimesWithContext(ctx, false); err == nil && len(times) == 1 {
		c.CPUBusy, c.CPUTotal = busySeconds(times[0])
	}
	if memory, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		c.RAMUsed = float64(memory.Used)
	}
	if swap, err := mem.SwapMemoryWithContext(ctx); err == nil {
		c.SwapIn, c.SwapOut = float64(swap.Sin), float64(swap.Sout)
	}
	if ports, err := net.IOCountersWithContext(ctx, true); err == nil {
		c.Received, c.Sent = 0, 0
		for _, p := range ports {
			if !loopback(p.Name) {
				c.Received, c.Sent = c.Received+float64(p.BytesRecv), c.Sent+float64(p.BytesSent)
			}
		}
	}
	return c
}

// loopback says whether a port of the network leads back to the machine itself: "lo", "lo0".
func loopback(name string) bool {
	return strings.TrimRight(name, "0123456789") == "lo" || strings.HasPrefix(name, "Loopback")
}

// sampleHost samples the machine until ctx ends.
func (s *System) sampleHost(ctx context.Context, w *watching) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	before := s.Usage(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.Usage(ctx)
		w.put(between(before, now))
		before = now
	}
}

// between is the row of the time from one reading to the next.
func between(before, now Counters) speedmatrix.MachineRow {
	row := speedmatrix.MachineRow{
		RAMUsed: rise(0, now.RAMUsed), SwapIn: rise(before.SwapIn, now.SwapIn), SwapOut: rise(before.SwapOut, now.SwapOut),
		NetworkReceived: rise(before.Received, now.Received), NetworkSent: rise(before.Sent, now.Sent),
	}
	if busy := (now.CPUBusy - before.CPUBusy) / (now.CPUTotal - before.CPUTotal); finite(busy) {
		row.CPUBusy = new(min(max(busy, 0), 1))
	}
	return row
}

// rise is how much a counter has risen; nil where it is unknown or fell, as when a port was taken away.
func rise(before, now float64) *int64 {
	if d := now - before; finite(d) && d >= 0 {
		return new(int64(d))
	}
	return nil
}
