package tui

import (
	"fmt"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// barWidth is the width of the window's bar where there is room, aroundBar that of what stands around it.
const (
	barWidth  = 26
	aroundBar = 34
)

// cellLines say how the cell in progress gets on.
func (m Model) cellLines() []string {
	b := m.begin
	if b.Label == "" {
		return []string{faint(m.between()), "", ""}
	}
	name := b.Label + " × " + unit.Count(b.Concurrency)
	if b.Phase == speedmatrix.PhasePrefill {
		name = "prefill " + b.Label
	}
	if b.Again != "" {
		name += " (" + b.Again + ")"
	}
	return []string{accent(pad(name, 10)) + m.stepText(), m.rateLine(), m.engineLine()}
}

// between is what stands there while no cell is in progress.
func (m Model) between() string {
	if m.stopping != "" {
		return m.stopping
	}
	if len(m.finished) > 0 {
		return "next cell …"
	}
	return "getting ready …"
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-len([]rune(text)), 1))
}

// stepText is the step, with a bar in the window.
func (m Model) stepText() string {
	g := m.glance
	if g.Step == "" {
		return faint("since " + unit.Duration(m.now.Sub(m.begin.At).Truncate(time.Second)))
	}
	took := g.Now.Sub(g.Since)
	if g.Step != "window" && g.Step != "settle" {
		return fmt.Sprintf("%-7s %s", g.Step, unit.Fine(took)) + faint(fmt.Sprintf("   %d producing", g.Producing))
	}
	width := min(barWidth, max(m.width-aroundBar, 1))
	full := min(max(int(g.Share*float64(width)), 0), width)
	return fmt.Sprintf("%-7s %s%s %s", g.Step, strings.Repeat("━", full), faint(strings.Repeat("─", width-full)), unit.Fine(took)) +
		faint(fmt.Sprintf(" (%s)", unit.Percent(g.Share)))
}

// ticks of a line of rates, from none to the most.
var ticks = []rune("▁▂▃▄▅▆▇█")

// rateLine is the last rates as a line, and the running one.
func (m Model) rateLine() string {
	if len(m.rates) == 0 || m.glance.TokensPerSecond <= 0 {
		return faint("tok/s")
	}
	most := 0.0
	for _, r := range m.rates {
		most = max(most, r)
	}
	shown := m.rates[max(0, len(m.rates)-min(40, max(m.width-45, 8))):]
	line := make([]rune, len(shown))
	for i, r := range shown {
		line[i] = ticks[min(int(r/most*float64(len(ticks))), len(ticks)-1)]
	}
	text := faint(pad("tok/s", 10)) + string(line) + "  " + strong(unit.Rate(m.glance.TokensPerSecond))
	if n := m.begin.Concurrency; n > 1 {
		text += faint("   each ") + unit.Rate(m.glance.TokensPerSecond/float64(n))
	}
	return text
}

// engineLine is what the engine tells of itself.
func (m Model) engineLine() string {
	g := m.glance
	var parts []string
	if g.Running != nil {
		parts = append(parts, "running "+unit.Fixed(*g.Running, 0))
	}
	if g.Waiting != nil {
		text := "waiting " + unit.Fixed(*g.Waiting, 0)
		if *g.Waiting > 0 {
			text = amber(text)
		}
		parts = append(parts, text)
	}
	if g.KVUsage != nil {
		parts = append(parts, "KV "+unit.Percent(*g.KVUsage))
	}
	if len(parts) == 0 {
		parts = []string{faint("does not tell")}
	}
	return faint(pad("engine", 10)) + strings.Join(parts, "   ")
}

// machineLine is what is measured of the hardware.
func (m Model) machineLine() string {
	h := m.machine
	var gpu []string
	if h.ClockMHz != nil {
		gpu = append(gpu, unit.Fixed(*h.ClockMHz, 0)+" MHz")
	}
	if h.PowerWatts != nil {
		text := unit.Fixed(*h.PowerWatts, 0) + " W"
		if h.LimitWatts != nil {
			text = unit.Fixed(*h.PowerWatts, 0) + " of " + unit.Fixed(*h.LimitWatts, 0) + " W"
		}
		gpu = append(gpu, text)
	}
	if h.Celsius != nil {
		gpu = append(gpu, unit.Fixed(*h.Celsius, 0)+" °C")
	}
	if h.MemoryBytes != nil {
		gpu = append(gpu, unit.Memory(int64(*h.MemoryBytes)))
	}
	if len(gpu) > 0 {
		return faint(pad("GPU", 10)) + strings.Join(gpu, "   ")
	}
	if h.CPUShare != nil {
		return faint(pad("CPU", 10)) + unit.Percent(*h.CPUShare) + " busy"
	}
	return ""
}

// noticeLines are the last notices, the newest last, as many as there is room for; a long one is folded.
func (m Model) noticeLines(room int) []string {
	if room < 2 {
		return nil
	}
	var lines []string
	for i := len(m.notices) - 1; i >= 0; i-- {
		n := m.notices[i]
		folded := fold(n.At.Local().Format("15:04")+"  "+n.Text, m.width-5)
		if len(lines)+len(folded) > room-1 {
			break
		}
		for j := range folded {
			mark := "  "
			if j == 0 {
				mark = "! "
			}
			folded[j] = amber(mark + folded[j])
		}
		lines = append(folded, lines...)
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines
}

// finishedLines are the cells that ended last, the newest at the end, as many as there is room for.
func (m Model) finishedLines(room int) []string {
	n := min(room-1, len(m.finished))
	if n < 1 {
		return nil
	}
	lines := []string{""}
	for _, text := range m.finished[len(m.finished)-n:] {
		lines = append(lines, faint(text))
	}
	return lines
}

// fold breaks text at blanks so that no line is longer than width.
func fold(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > max(width, 10) {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// keys is the line of what can be pressed.
func (m Model) keys() string {
	if m.stopping != "" {
		return amber(m.stopping)
	}
	finish := "q finish after this cell"
	if m.finishing {
		finish = "q go on after all"
	}
	text := faint("s skip cell · " + finish + " · ? help")
	if m.finishing {
		text = amber("ends after this cell") + "   " + text
	}
	return text
}

func (m Model) helpLines() []string {
	return []string{
		strong("The keys"), "",
		"s       skip the cell in progress: it is marked Skipped",
		"q       finish the run after this cell; q again goes on after all",
		"Ctrl-C  end now: the window ends and what was measured is kept",
		"        a second Ctrl-C ends at once",
		"?       this help, and back", "",
		strong("The matrix"), "",
		"a number: total tok/s, brighter is faster    ▶ in progress    · to come",
		"– cannot fit   full: over capacity   fail: failed   loop: output repeated",
		"limit: this program was the bottleneck   wait: not ready   skip: skipped",
		"q behind a number: some requests waited in the server's queue", "",
		"A run that was ended goes on with: speedmatrix run --resume DIR", "",
		faint("? back"),
	}
}
