package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/report"
	"speedmatrix/internal/tui"
	"speedmatrix/internal/unit"
)

// progress shows how a run gets on: lines, a status line on a terminal, or JSON objects.
type progress struct {
	env    *Env
	human  io.Writer
	events io.Writer
	// side stands before every line, where two servers are measured at one time: "A ".
	side string

	mu   sync.Mutex
	live bool
	// drawn is how many lines stand below the last line that stays.
	drawn  int
	left   time.Duration
	done   int
	total  int
	screen *screen

	// lastNS and step are those of the last look; looks are drawn one at a time, beside whoever has them.
	lastNS  int64
	step    string
	drawing atomic.Bool
	draws   sync.WaitGroup
}

func newProgress(env *Env, events bool) *progress {
	p := &progress{env: env, human: env.Stdout, live: env.StdoutTerminal && !events && env.Getenv("TERM") != "dumb"}
	if events {
		p.human, p.events = env.Stderr, env.Stdout
	}
	return p
}

// terminal are the options for tables.
func (p *progress) terminal() report.TerminalOptions {
	return report.TerminalOptions{Width: p.env.Width, Color: p.env.StdoutTerminal && p.env.Getenv("NO_COLOR") == ""}
}

// turnTo shows everything on a screen from now on.
func (p *progress) turnTo(s *screen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.screen = s
}

// close turns back from the screen, if there is one, to lines.
func (p *progress) close() {
	p.mu.Lock()
	s := p.screen
	p.screen = nil
	p.mu.Unlock()
	if s != nil {
		s.view.Close()
	}
}

// line writes one line, above the status line where there is one.
func (p *progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = p.env.shownText(text)
	if p.screen != nil {
		p.screen.view.Send(tui.Notice{At: time.Now(), Text: text})
		return
	}
	p.clear()
	_, _ = fmt.Fprintln(p.human, p.side+text)
}

// clear wipes the status lines; the caller holds the lock.
func (p *progress) clear() {
	switch {
	case p.drawn > 1:
		_, _ = fmt.Fprintf(p.human, "\r\x1b[%dA\x1b[J", p.drawn-1)
	case p.drawn == 1:
		_, _ = io.WriteString(p.human, "\r\x1b[K")
	}
	p.drawn = 0
}

// block shows status lines in the place of those before; none wipes them.
func (p *progress) block(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	width := p.env.Width
	if width == 0 {
		width = helpWidth
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) >= width {
			lines[i] = string(runes[:width-1])
		}
	}
	_, _ = io.WriteString(p.human, strings.Join(lines, "\n"))
	p.drawn = len(lines)
}

// say tells one sentence.
func (p *progress) say(text string) { p.line(report.Clean(text)) }

// ask writes a question and stays on its line.
func (p *progress) ask(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.human, p.env.shownText(text))
}

// plan shows the start screen.
func (p *progress) plan(v report.PlanView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = report.Plan(p.human, v)
	_, _ = fmt.Fprintln(p.human)
}

// warning tells of a doubt about the run.
func (p *progress) warning(text string) {
	p.say("Warning: " + text)
	p.emit(bench.Event{Event: bench.EventWarning, Message: text})
}

// warmUp says that the warm-up begins.
func (p *progress) warmUp() {
	p.say("Warming up …")
	p.emit(bench.Event{Event: bench.EventWarmUp})
}

// expected says how long the run will take, and how long the plan's longest prompt.
func (p *progress) expected(s *bench.Session) {
	left := s.Expected()
	speed := ""
	if longest := longestPrompt(s.Plan); s.Pilot.Known && longest > 0 {
		speed = fmt.Sprintf(" (a prompt of %s takes about %s)", unit.FormatTokens(longest), unit.Fine(s.Pilot.Fill(longest)))
	}
	p.line(fmt.Sprintf("Warmed up. The matrix takes about %s%s.", unit.Duration(left), speed))
	seconds := left.Seconds()
	p.mu.Lock()
	for i := range s.Run.Cells {
		if s.Run.Cells[i].Status == speedmatrix.StatusInterrupted {
			p.total++
		}
	}
	p.mu.Unlock()
	p.emit(bench.Event{Event: bench.EventPlan, SecondsLeft: &seconds})
}

// longestPrompt is the largest context that the plan measures.
func longestPrompt(plan *bench.Plan) (longest int) {
	for i := range plan.Cells {
		if c := &plan.Cells[i]; c.Verdict != bench.Refused {
			longest = max(longest, c.Context)
		}
	}
	return longest
}

// emit writes an event of now.
func (p *progress) emit(e bench.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Time = time.Now().UTC().Format(time.RFC3339Nano)
	e.Done, e.Total = p.done, p.total
	p.write(e)
}

// write writes an event if events are wanted; the caller holds the lock.
func (p *progress) write(e bench.Event) {
	if p.events == nil {
		return
	}
	e, err := redact.Copy(p.env.shown, e)
	if err != nil {
		return
	}
	data, err := json.Marshal(e)
	if err != nil {
		return
	}
	_, _ = p.events.Write(append(data, '\n'))
}

// tell takes an event of the session.
func (p *progress) tell(e bench.Event) {
	p.draws.Wait()
	e, err := redact.Copy(p.env.shown, e)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.done, p.total = e.Done, e.Total
	if e.SecondsLeft != nil {
		p.left = time.Duration(*e.SecondsLeft * float64(time.Second))
	}
	p.write(e)
	screen := p.screen
	p.mu.Unlock()
	if screen != nil {
		screen.tell(e)
		return
	}
	switch {
	case e.Event == bench.EventDone && e.Result != nil:
		p.line(p.doneLine(e))
	case e.Event == bench.EventWarning:
		p.say("Warning: " + e.Message)
	}
}

// doneLine is the line of a finished cell.
func (p *progress) doneLine(e bench.Event) string {
	return fmt.Sprintf("%s   (%d of %d, %s left)", doneText(e), e.Done, e.Total, unit.Duration(p.left))
}

// doneText is what there is to say of a finished cell, and when it was.
func doneText(e bench.Event) string {
	when := e.Time
	if t, err := time.Parse(time.RFC3339Nano, e.Time); err == nil {
		when = t.Local().Format("15:04:05")
	}
	prefix := ""
	if again, _, ok := strings.Cut(e.Cell, "-decode"); ok && again != "" {
		prefix = again + " "
	}
	return fmt.Sprintf("%s  %s%s", when, prefix, report.CellLine(e.Result))
}

// glanceEvery is how often the cell in progress is shown.
const glanceEvery = time.Second

// glance takes a look at the cell in progress. It does not wait for a slow terminal: looks that come meanwhile are
// left out.
func (p *progress) glance(g bench.Glance) {
	if g.NowNS-p.lastNS < int64(glanceEvery) && g.Step.String() == p.step || p.drawing.Load() {
		return
	}
	p.lastNS, p.step = g.NowNS, g.Step.String()
	p.drawing.Store(true)
	p.draws.Go(func() {
		defer p.drawing.Store(false)
		p.draw(g)
	})
}

// draw shows a look.
func (p *progress) draw(g bench.Glance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events != nil {
		rate, part, left := g.TokensPerS, g.Share, p.left.Seconds()
		p.write(bench.Event{Event: bench.EventProgress, Time: time.Unix(0, g.NowNS).UTC().Format(time.RFC3339Nano), Cell: g.Key, Step: g.Step.String(),
			TokensPerSecond: &rate, Share: &part, Producing: g.Producing, Done: p.done, Total: p.total, SecondsLeft: &left})
	}
	if p.screen != nil {
		p.screen.glance(g)
		return
	}
	if !p.live {
		return
	}
	text := p.status(g)
	if w := p.env.Width; w > 0 && len([]rune(text)) >= w {
		text = string([]rune(text)[:w-1])
	}
	_, _ = io.WriteString(p.human, "\r\x1b[K"+text)
	p.drawn = 1
}

// status is the status line.
func (p *progress) status(g bench.Glance) string {
	took := time.Duration(g.NowNS - g.SinceNS)
	text := fmt.Sprintf("%s  %-6s", g.Key, g.Step)
	switch g.Step {
	case bench.StepWindow, bench.StepSettle:
		const width = 20
		full := int(g.Share * width)
		text += " " + strings.Repeat("━", full) + strings.Repeat("─", width-full)
	default:
		text += " " + unit.Fine(took)
	}
	if g.TokensPerS > 0 {
		text += fmt.Sprintf("  %s tok/s", unit.Rate(g.TokensPerS))
	}
	if g.Gauges.Known {
		text += fmt.Sprintf("  running %.0f waiting %.0f", g.Gauges.Running, g.Gauges.Waiting)
	}
	return text + fmt.Sprintf("  (%d of %d, %s left)", p.done+1, p.total, unit.Duration(p.left))
}

// tookLine is the line of the time that a run took, "" where it does not know.
func tookLine(doc *speedmatrix.Run) string {
	if text := report.TimeLine(doc); text != "" {
		return "Took     " + text + "\n"
	}
	return ""
}

// end shows the result and the next steps.
func (p *progress) end(doc *speedmatrix.Run, dir string) {
	p.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.write(bench.Event{Event: bench.EventEnd, Time: time.Now().UTC().Format(time.RFC3339Nano), Done: p.done, Total: p.total, Message: dir})
	_, _ = fmt.Fprintln(p.human)
	_ = report.Terminal(p.human, report.Build(doc), p.terminal())
	dir = p.env.shownText(dir)
	_, _ = fmt.Fprintf(p.human, "\n%sSaved    %s\nNext     speedmatrix report %s --open\n         speedmatrix verify %s\n", tookLine(doc), dir, dir, dir)
	if doc.Ended != "" {
		_, _ = fmt.Fprintf(p.human, "         speedmatrix run --resume %s\n", dir)
	}
}
