package machine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"speedmatrix"
)

// usualInterval is the time between two samples.
const usualInterval = 500 * time.Millisecond

// Watch says what to sample.
type Watch struct {
	// System is the machine; nil is this one.
	System *System
	// Now is the clock of the rows.
	Now func() int64
	// Cell names the cell being measured, may be nil.
	Cell func() string
	// Local says that the server runs on this machine, and Port where it listens. The GPUs of a client are not
	// sampled.
	Local bool
	Port  int
	// NoGPU says why no GPU is sampled although the server is local; "" samples them.
	NoGPU string
	// Interval between two samples; 0 is half a second.
	Interval time.Duration
}

// Sampler samples the machine until it is closed.
type Sampler struct {
	now  func() int64
	cell func() string
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	rows  []speedmatrix.MachineRow
	about speedmatrix.Telemetry
}

// watching is what a reader samples, and where it puts what it reads.
type watching struct {
	devices  []device
	tree     map[int32]bool
	interval time.Duration
	put      func(speedmatrix.MachineRow)
	// lack notes what cannot be read any more, and why.
	lack func(string)
}

// Start finds the GPUs of the server and begins to sample. It takes a few seconds at most.
func (w Watch) Start(ctx context.Context) *Sampler {
	system := w.System
	if system == nil {
		system = ThisSystem()
	}
	s := &Sampler{now: w.Now, cell: w.Cell, about: speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfClient}}
	interval := cmp.Or(w.Interval, usualInterval)
	s.about.IntervalSeconds = interval.Seconds()
	found, chosen := &gpus{}, scope{text: "no GPU"}
	switch {
	case !w.Local:
		s.about.Missing = []string{"the server runs on another machine: its GPUs, clocks and power are not known"}
	case w.NoGPU != "":
		s.about.Of, s.about.Missing = speedmatrix.TelemetryOfServer, []string{w.NoGPU}
	default:
		s.about.Of = speedmatrix.TelemetryOfServer
		if found = system.findGPUs(ctx); len(found.devices) > 0 {
			chosen = system.scopeOf(ctx, found, w.Port)
		}
		s.about.Missing = found.missing
	}
	s.about.Scope = chosen.text
	for i := range chosen.devices {
		s.about.GPUs = append(s.about.GPUs, chosen.devices[i].public())
	}
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	watched := &watching{devices: chosen.devices, tree: chosen.tree, interval: interval, put: s.put, lack: s.lack}
	if found.sample != nil {
		s.about.Sources = append(s.about.Sources, found.source)
		s.wg.Go(func() { found.sample(ctx, watched) })
	}
	if system.Usage != nil {
		s.about.Sources = append(s.about.Sources, "system")
		s.wg.Go(func() { system.sampleHost(ctx, watched) })
	}
	return s
}

// put stamps a row and keeps it in order of time.
func (s *Sampler) put(row speedmatrix.MachineRow) {
	if s.cell != nil {
		row.Cell = s.cell()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Under the lock, so that the rows stand in order of time.
	row.TimeNS = s.now()
	s.rows = append(s.rows, row)
}

func (s *Sampler) lack(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about.Missing = append(s.about.Missing, what)
}

// Rows gives all samples so far, in order of time.
func (s *Sampler) Rows() []speedmatrix.MachineRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows)
}

// Describe says what is sampled, and what could not be so far.
func (s *Sampler) Describe() *speedmatrix.Telemetry {
	s.mu.Lock()
	defer s.mu.Unlock()
	about := s.about
	about.Sources, about.GPUs, about.Missing = slices.Clone(about.Sources), slices.Clone(about.GPUs), slices.Clone(about.Missing)
	return &about
}

// Close ends the sampling and every program begun for it, and waits for them. The rows stay.
func (s *Sampler) Close() {
	s.end()
	s.wg.Wait()
}
