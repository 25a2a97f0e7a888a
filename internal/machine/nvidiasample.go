package machine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"speedmatrix"
)

// nvidiaSamples are asked for all the time.
var nvidiaSamples = []string{
	"index", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "temperature.memory", "utilization.gpu", "memory.used",
	"clocks_event_reasons.active", "pcie.link.gen.current", "pcie.link.width.current",
}

// The reasons for lower clocks, as bits of clocks_event_reasons.active.
const (
	reasonClocksSet   = 0x2
	reasonPowerCap    = 0x4
	reasonHardware    = 0x8
	reasonThermal     = 0x20
	reasonHotHardware = 0x40
	reasonPowerBrake  = 0x80
	reasonsOfHardware = reasonHardware | reasonHotHardware | reasonPowerBrake
	reasonsOfHeat     = reasonThermal | reasonHotHardware
	nvidiaSilence     = 5 * time.Second
	processesEvery    = 30 * time.Second
	megabyte          = 1 << 20
	ratesKeep         = 3 * time.Second
	transferUnit      = 1e6
)

// nvidiaSampler follows the GPUs through one nvidia-smi that goes on, a second one for the rates of the PCIe link,
// which the first cannot tell, and a look at the processes now and then.
type nvidiaSampler struct {
	w      *watching
	fields []string
	ids    string

	mu     sync.Mutex
	rates  map[int]rate
	others map[int]others
}

type rate struct {
	received, sent *float64
	at             time.Time
}

// others are the processes of others on a GPU.
type others struct {
	count  int32
	memory *int64
}

func (s *System) sampleNVIDIA(ctx context.Context, w *watching) {
	n := &nvidiaSampler{w: w, fields: nvidiaSamples, rates: map[int]rate{}, others: map[int]others{}}
	var ids []string
	for _, d := range w.devices {
		ids = append(ids, strconv.Itoa(d.index))
	}
	n.ids = strings.Join(ids, ",")
	var wg sync.WaitGroup
	wg.Go(func() {
		p := stream{start: s.Start, name: nvidiaSMI, args: n.args, line: n.line, silence: nvidiaSilence}
		if err := p.run(ctx); err != nil {
			w.lack("no more samples of the GPUs: " + err.Error())
		}
	})
	wg.Go(func() {
		d := &dmon{n: n}
		p := stream{start: s.Start, name: nvidiaSMI, args: d.args, line: d.line, silence: nvidiaSilence}
		if err := p.run(ctx); err != nil {
			w.lack("no rates of the PCIe link: " + err.Error())
		}
	})
	if w.tree != nil {
		wg.Go(func() { n.watchProcesses(ctx, s.Command) })
	}
	wg.Wait()
}

func (n *nvidiaSampler) args() []string {
	return append(csvQuery(n.fields), "--id="+n.ids, "--loop-ms="+strconv.FormatInt(n.w.interval.Milliseconds(), 10))
}

// line takes a sample of one GPU.
func (n *nvidiaSampler) line(text string) bool {
	if fields, again := accept(n.fields, text); again {
		n.fields = fields
		return false
	}
	v := values(n.fields, text)
	index, err := strconv.Atoi(v["index"])
	if err != nil {
		return false
	}
	row := speedmatrix.MachineRow{
		GPU: new(int32(index)), Clock: number(v["clocks.sm"]), MemoryClock: number(v["clocks.mem"]), Power: number(v["power.draw"]),
		Temperature: number(v["temperature.gpu"]), MemoryTemperature: number(v["temperature.memory"]),
		Utilization: scaled(v["utilization.gpu"], 0.01), MemoryUsed: bytesOf(v["memory.used"], megabyte),
		PCIeGeneration: natural(v["pcie.link.gen.current"]), PCIeWidth: natural(v["pcie.link.width.current"]),
	}
	reasons := v["clocks_event_reasons.active"]
	if reasons == "" {
		reasons = v["clocks_throttle_reasons.active"]
	}
	setReasons(&row, reasons)
	n.extend(&row, index)
	n.w.put(row)
	return true
}

// extend adds what the other tools told last of the GPU.
func (n *nvidiaSampler) extend(row *speedmatrix.MachineRow, index int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r, ok := n.rates[index]; ok && time.Since(r.at) <= ratesKeep {
		row.PCIeReceived, row.PCIeSent = r.received, r.sent
	}
	if o, ok := n.others[index]; ok {
		row.OtherProcesses, row.OtherMemory = new(o.count), o.memory
	}
}

// setReasons takes apart the bits of what holds the clocks down: "0x0000000000000004".
func setReasons(row *speedmatrix.MachineRow, text string) {
	bits, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return
	}
	row.ClocksSet, row.PowerCap = new(bits&reasonClocksSet != 0), new(bits&reasonPowerCap != 0)
	row.HardwareSlowdown, row.Thermal = new(bits&reasonsOfHardware != 0), new(bits&reasonsOfHeat != 0)
}

// bytesOf reads an amount of memory.
func bytesOf(text string, unit float64) *int64 {
	v := scaled(text, unit)
	if v == nil || *v < 0 {
		return nil
	}
	return new(int64(*v))
}

// natural reads a number from 1, nil where there is none.
func natural(text string) *int32 {
	if n := whole(text); n > 0 {
		return new(int32(n))
	}
	return nil
}

// dmon reads the rates of the PCIe links. They are measured by the driver over 20 ms; its 32-bit counters of bytes,
// which run over within seconds, are not used.
type dmon struct {
	n       *nvidiaSampler
	columns []string
}

func (d *dmon) args() []string { return []string{"dmon", "-s", "t", "-d", "1", "-i", d.n.ids} }

// line takes a line such as "    0    312     87" below "# gpu  rxpci  txpci".
func (d *dmon) line(text string) bool {
	if head, ok := strings.CutPrefix(text, "#"); ok {
		if columns := strings.Fields(head); len(columns) > 0 && columns[0] == "gpu" {
			d.columns = columns
		}
		return true
	}
	fields := strings.Fields(text)
	if len(fields) != len(d.columns) || len(fields) == 0 {
		return false
	}
	index, err := strconv.Atoi(fields[0])
	if err != nil {
		return false
	}
	r := rate{at: time.Now()}
	for i, column := range d.columns {
		switch column {
		case "rxpci":
			r.received = scaled(fields[i], transferUnit)
		case "txpci":
			r.sent = scaled(fields[i], transferUnit)
		}
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.n.rates[index] = r
	return true
}

// watchProcesses looks now and then for processes of others on the GPUs.
func (n *nvidiaSampler) watchProcesses(ctx context.Context, command Command) {
	for {
		if apps, err := computeApps(ctx, command); err == nil {
			n.countOthers(apps)
		}
		if !pause(ctx, processesEvery) {
			return
		}
	}
}

func (n *nvidiaSampler) countOthers(apps []computeApp) {
	seen := map[int]others{}
	for _, d := range n.w.devices {
		o := others{memory: new(int64(0))}
		for _, app := range apps {
			if app.uuid != d.uuid || n.w.tree[app.pid] {
				continue
			}
			o.count++
			if app.memory == nil {
				o.memory = nil
			} else if o.memory != nil {
				*o.memory += *app.memory
			}
		}
		seen[d.index] = o
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.others = seen
}

// computeApp is a process that computes on a GPU.
type computeApp struct {
	uuid   string
	pid    int32
	memory *int64
}

// computeApps lists the processes that compute on the GPUs.
func computeApps(ctx context.Context, command Command) ([]computeApp, error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	fields := []string{"gpu_uuid", "pid", "used_memory"}
	out, err := command(ctx, nvidiaSMI, "--query-compute-apps="+strings.Join(fields, ","), "--format=csv,noheader,nounits")
	if err != nil {
		return nil, fmt.Errorf("list the processes on the GPUs: %w", err)
	}
	var apps []computeApp
	for line := range strings.Lines(string(out)) {
		v := values(fields, line)
		if pid, err := strconv.ParseInt(v["pid"], 10, 32); err == nil {
			apps = append(apps, computeApp{v["gpu_uuid"], int32(pid), bytesOf(v["used_memory"], megabyte)})
		}
	}
	return apps, nil
}
