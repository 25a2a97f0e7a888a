package cli

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/report"
	"speedmatrix/internal/tui"
)

// screen is the live view of a run on the user's terminal.
type screen struct {
	view *tui.Screen
	// finish ends the run after the cell in progress, when ending is set.
	finish context.CancelFunc
	ending atomic.Bool
	// cells are those of the document by key.
	cells map[string]speedmatrix.Cell
}

// screenWanted says whether the live view is to be shown: on a terminal on both sides that is large enough.
func screenWanted(env *Env, o *runOptions) bool {
	return env.StdinTerminal && env.StdoutTerminal && !o.events && !o.lines && env.Getenv("TERM") != "dumb" &&
		env.Width >= tui.LeastWidth && env.Height >= tui.LeastHeight
}

// openScreen turns from lines to the live view while the matrix is measured.
func (r *runner) openScreen(ctx context.Context, driver *bench.Driver, sampler Sampler, finish context.CancelFunc) {
	if !screenWanted(r.env, r.o) {
		return
	}
	s := &screen{finish: finish, cells: map[string]speedmatrix.Cell{}}
	for i := range r.doc.Cells {
		s.cells[r.doc.Cells[i].Key()] = r.doc.Cells[i]
	}
	s.view = tui.Show(ctx, tui.Options{Input: r.env.Stdin, Output: r.env.Stdout, Environment: terminalEnvironment(r.env), Wish: func(w tui.Wish) {
		switch w {
		case tui.WishSkip:
			driver.SkipCell()
		case tui.WishFinish:
			s.ending.Store(!s.ending.Load())
		case tui.WishInterrupt:
			r.interrupt()
		}
	}})
	s.view.Send(tui.Plan{Title: r.screenTitle(), Cells: r.doc.Cells})
	r.show.turnTo(s)
	go s.watchMachine(ctx, sampler)
}

// machineEvery is how often the screen shows the machine's newest samples.
const machineEvery = 2 * time.Second

func (s *screen) watchMachine(ctx context.Context, sampler Sampler) {
	tick := time.NewTicker(machineEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.view.Send(machineNow(sampler.Rows(), sampler.Describe()))
		}
	}
}

// machineNow is the newest sample of the first GPU and of the machine.
func machineNow(rows []speedmatrix.MachineRow, about *speedmatrix.Telemetry) tui.Machine {
	var now tui.Machine
	for i := len(rows) - 1; i >= 0 && (now.CPUShare == nil || now.PowerWatts == nil); i-- {
		row := &rows[i]
		switch {
		case row.GPU == nil && now.CPUShare == nil:
			now.CPUShare = row.CPUBusy
		case row.GPU != nil && now.PowerWatts == nil:
			now.ClockMHz, now.PowerWatts, now.Celsius = row.Clock, row.Power, row.Temperature
			if row.MemoryUsed != nil {
				now.MemoryBytes = new(float64(*row.MemoryUsed))
			}
			for _, gpu := range about.GPUs {
				if int32(gpu.Index) == *row.GPU {
					now.LimitWatts = gpu.PowerLimit
				}
			}
		}
		if len(rows)-i > 64 {
			break
		}
	}
	return now
}

// terminalEnvironment is what of the environment says how the terminal shows colours.
func terminalEnvironment(env *Env) []string {
	var list []string
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM_PROGRAM", "TMUX", "STY", "WT_SESSION"} {
		if value := env.Getenv(name); value != "" {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// screenTitle is what is measured, in one line.
func (r *runner) screenTitle() string {
	model := r.doc.Model.Text(speedmatrix.ModelName)
	if model == "" {
		model = r.doc.Model.Text(speedmatrix.ModelServedName)
	}
	engine := strings.TrimSpace(r.doc.Engine.Text(speedmatrix.EngineName) + " " + r.doc.Engine.Text(speedmatrix.EngineVersion))
	hardware := cmp.Or(r.doc.Hardware.Text(speedmatrix.HardwareGPU), r.doc.Hardware.Text(speedmatrix.HardwareCPU))
	parts := []string{model, engine, hardware}
	title := ""
	for _, part := range parts {
		if part != "" && title != "" {
			title += " · "
		}
		title += part
	}
	return report.Clean(title)
}

// tell shows an event of the session.
func (s *screen) tell(e bench.Event) {
	again, key := splitAside(e.Cell)
	at, _ := time.Parse(time.RFC3339Nano, e.Time)
	switch e.Event {
	case bench.EventCell:
		c := s.cells[key]
		s.view.Send(tui.Begin{Phase: c.Phase, Label: report.Clean(c.ContextLabel), Context: c.Context, Concurrency: c.Concurrency, Again: again, At: at})
	case bench.EventDone:
		s.view.Send(tui.Done{Cell: e.Result, Again: again, Text: doneText(e), Count: e.Done, Of: e.Total, SecondsLeft: e.SecondsLeft})
		if s.ending.Load() {
			s.view.Send(tui.Stopping{Text: "finishing, as you wished …"})
			s.finish()
		}
	case bench.EventWarning:
		s.view.Send(tui.Notice{At: at, Text: report.Clean(e.Message)})
	}
}

// splitAside splits the key of a measurement besides the matrix: "drift-decode-0-x1".
func splitAside(cell string) (again, key string) {
	i := strings.Index(cell, "decode-")
	if i <= 0 {
		return "", cell
	}
	return strings.ReplaceAll(strings.TrimSuffix(cell[:i], "-"), "-", " "), cell[i:]
}

// glance shows the cell in progress.
func (s *screen) glance(g bench.Glance) {
	out := tui.Glance{Step: g.Step.String(), Since: time.Unix(0, g.SinceNS), Now: time.Unix(0, g.NowNS), Share: g.Share,
		TokensPerSecond: g.TokensPerS, Producing: g.Producing}
	if g.Gauges.Known {
		out.Running, out.KVUsage = &g.Gauges.Running, g.Gauges.KVUsage
		if g.Gauges.WaitingKnown {
			out.Waiting = &g.Gauges.Waiting
		}
	}
	s.view.Send(out)
}
