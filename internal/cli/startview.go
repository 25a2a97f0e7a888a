package cli

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"speedmatrix/internal/launch"
	"speedmatrix/internal/report"
	"speedmatrix/internal/unit"
)

// viewLines is how many lines of a starting server's log are in view.
const viewLines = 4

// startView shows how a server starts: on a terminal its last lines, else what it does as that changes.
type startView struct {
	p     *progress
	limit time.Duration
	began time.Time

	mu    sync.Mutex
	phase string
	lines []string
	done  bool
}

func newStartView(p *progress, limit time.Duration) *startView { return &startView{p: p, limit: limit} }

func (v *startView) begin(command string) {
	v.began = time.Now()
	v.p.say(fmt.Sprintf("Starting the server: %s", command))
	v.p.say(fmt.Sprintf("It has %s until it must be ready. Ctrl-C stops it.", unit.Duration(v.limit)))
}

// before is what logs put before what they say: who writes, how grave it is, when, and where in the code.
var before = regexp.MustCompile(`^(?:\([^()]*pid=\d+\) )?(?:(?:DEBUG|INFO|(WARNING|ERROR|CRITICAL))[: ]+)?(?:\[?(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\] ]*(?: TP\d+)?\]? )?(?:\[[\w./]+:\d+\] )?`)

// message is what a line of a log says: the rest fills a narrow screen. How grave it is stays unless that is nothing.
func message(line string) string {
	m := before.FindStringSubmatch(line)
	if m == nil || len(line) == len(m[0]) {
		return line
	}
	if m[1] != "" {
		return m[1] + " " + line[len(m[0]):]
	}
	return line[len(m[0]):]
}

// line takes a line of the log.
func (v *startView) line(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return
	}
	if strings.TrimSpace(line) != "" {
		v.lines = append(v.lines, message(report.Clean(line)))
		v.lines = v.lines[max(0, len(v.lines)-viewLines):]
	}
	phase := launch.PhaseOf(line)
	if phase == "" {
		return
	}
	if bare(phase) != bare(v.phase) && !v.p.live {
		v.p.say(fmt.Sprintf("%6s  %s …", unit.Duration(time.Since(v.began)), bare(phase)))
	}
	v.phase = phase
}

// bare is a phase without how far it is.
func bare(phase string) string { return strings.TrimRight(phase, "0123456789 %") }

// tick draws anew.
func (v *startView) tick() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.p.live || v.done {
		return
	}
	status := fmt.Sprintf("%s  starting", unit.Duration(time.Since(v.began)))
	if v.phase != "" {
		status = fmt.Sprintf("%s  %s …", unit.Duration(time.Since(v.began)), v.phase)
	}
	lines := []string{}
	for _, line := range v.lines {
		lines = append(lines, "  "+line)
	}
	v.p.block(append(lines, status))
}

// end takes the log out of view; ready is 0 where the server did not become ready.
func (v *startView) end(ready time.Duration) {
	v.mu.Lock()
	v.done = true
	v.mu.Unlock()
	v.p.block(nil)
	if ready > 0 {
		v.p.say(fmt.Sprintf("Ready after %s.", unit.Fine(ready)))
	}
}
