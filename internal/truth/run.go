package truth

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"speedmatrix/internal/wire"
)

// failAtOnce fails before anything is generated.
func (g *generation) failAtOnce() error {
	if g.fail.Kind == FailSilent {
		return g.sleep.ever()
	}
	if err := g.sleep.until(g.arrived + g.fail.Delay); err != nil {
		return err
	}
	if g.fail.Kind == FailClose {
		return errDropped
	}
	g.problem().In(g.call.API).Write(g.w)
	g.rec.update(func(r *Request) { r.Status = g.problem().Status })
	return errScripted
}

func (g *generation) problem() *wire.Problem {
	if g.fail.Problem != nil {
		return g.fail.Problem
	}
	return wire.EngineBusy()
}

// run takes the request from the queue to the end of its answer.
func (g *generation) run() error {
	if err := g.headers(HeadersAtOnce); err != nil {
		return err
	}
	if err := g.waitStart(); err != nil {
		return err
	}
	j := g.job
	g.rec.update(func(r *Request) {
		r.AdmittedNS, r.PrefillNS, r.CachedTokens = g.s.stampOf(j.admittedAt), g.s.stampOf(j.prefillAt), j.cached
	})
	if err := g.headers(HeadersAtStart); err != nil {
		return err
	}
	if err := g.prefill(); err != nil {
		return err
	}
	if err := g.decode(); err != nil {
		return err
	}
	g.leave(g.due, g.finish)
	if delay := g.s.script.FinalDelay; delay > 0 {
		if err := g.sleep.until(g.due + delay); err != nil {
			return err
		}
	}
	return g.finishUp()
}

// headers sends the headers if this is their time.
func (g *generation) headers(when Headers) error {
	if g.out == nil || g.s.script.Headers != when {
		return nil
	}
	return g.out.open()
}

// waitStart waits in the queue until the prefill begins.
func (g *generation) waitStart() error {
	for {
		var ping <-chan time.Time
		if every := g.pingEvery(); every > 0 {
			g.sleep.timer.Reset(g.nextPing() - g.s.since())
			ping = g.sleep.timer.C
		}
		select {
		case <-g.job.start:
			g.sleep.timer.Stop()
			return nil
		case <-ping:
			if err := g.ping(); err != nil {
				return err
			}
		case <-g.sleep.ctx.Done():
			return g.sleep.ctx.Err()
		case <-g.s.closing:
			return errClosing
		}
	}
}

func (g *generation) pingEvery() time.Duration {
	if g.out == nil || g.started {
		return 0
	}
	return g.s.script.Framing.Ping
}

func (g *generation) nextPing() time.Duration {
	return g.arrived + time.Duration(g.pings+1)*g.s.script.Framing.Ping
}

func (g *generation) ping() error {
	g.pings++
	return g.out.ping()
}

// until waits for an instant and pings on the way while nothing else was sent.
func (g *generation) until(at time.Duration) error {
	for g.pingEvery() > 0 && g.nextPing() < at {
		if err := g.sleep.until(g.nextPing()); err != nil {
			return err
		}
		if err := g.ping(); err != nil {
			return err
		}
	}
	return g.sleep.until(at)
}

// prefill waits for the prefill's end and works out when the first token is due.
func (g *generation) prefill() error {
	script := &g.s.script
	first := g.job.firstAt
	g.due = first + g.stall(0)
	role := max(g.job.prefillAt, g.due-script.RoleEarly)
	early := script.RoleFirst && script.RoleEarly > 0
	if early && role < first {
		if err := g.roleAt(role); err != nil {
			return err
		}
		early = false
	}
	if err := g.until(first); err != nil {
		return err
	}
	g.s.sched.prefilled(g.job)
	if early {
		if err := g.roleAt(role); err != nil {
			return err
		}
	}
	if script.Lockstep {
		g.due = g.s.ticks.join(g.due, g.step(0))
		g.onTicks = true
	}
	g.firstDue = g.due
	return nil
}

func (g *generation) roleAt(at time.Duration) error {
	if err := g.until(at); err != nil {
		return err
	}
	return g.role()
}

// role sends the role event of a streamed chat.
func (g *generation) role() error {
	if g.out == nil || !g.call.API.Templated() {
		return nil
	}
	if g.out.speaker != nil {
		return g.open()
	}
	c := wire.Chunk{Role: true, RoleNull: g.s.script.Engine == LlamaCpp}
	g.eventUsage(&c, 0)
	if err := g.out.chunk(&c, false); err != nil {
		return err
	}
	at := g.s.now()
	if g.conn != nil {
		at = g.conn.wrote.Load()
	}
	g.rec.update(func(r *Request) { r.RoleNS = at })
	return nil
}

func (g *generation) stall(token int) time.Duration {
	if g.s.script.Stall == nil {
		return 0
	}
	return g.s.script.Stall(g.id, token)
}

func (g *generation) step(token int) Step {
	return Step{
		Request: g.id, Token: token, Context: g.prompt.tokens + token,
		Running: int(g.s.sched.generating.Load()), At: g.due,
	}
}

// next moves due on to the given token.
func (g *generation) next(token int) {
	stall := g.stall(token)
	if !g.s.script.Lockstep {
		g.due += max(g.s.script.Gap(g.step(token)), 0) + stall
		return
	}
	g.due = g.s.ticks.next(g.due+1, g.step(token))
	if stall > 0 {
		g.due = g.s.ticks.next(g.due+stall, g.step(token))
	}
}

// burst is how many tokens the event that begins at a token has.
func (g *generation) burst(token int) int {
	n := g.s.script.TokensPerEvent
	if g.s.script.Burst != nil {
		n = g.s.script.Burst(g.id, token)
	}
	n = min(max(n, 1), g.total-token)
	if g.fail != nil && token < g.fail.After {
		n = min(n, g.fail.After-token)
	}
	return n
}

// decode sends all tokens at their times.
func (g *generation) decode() error {
	for token := 0; token < g.total; {
		n := g.burst(token)
		fails := g.fail != nil && token == g.fail.After
		if !fails {
			for i := 1; i < n; i++ {
				g.next(token + i)
			}
		}
		if err := g.preempted(token > 0); err != nil {
			return err
		}
		if err := g.until(g.due); err != nil {
			return err
		}
		if fails {
			return g.failNow()
		}
		g.s.sched.produced(g.job, n)
		if err := g.emit(token, n); err != nil {
			return fmt.Errorf("send token %d: %w", token, err)
		}
		token += n
		if token < g.total {
			g.next(token)
		}
	}
	return nil
}

// preempted sits out the pauses that fall before the token now due. Those from
// before the first token are not for a generating request.
func (g *generation) preempted(generating bool) error {
	for len(g.pauses) > 0 && g.pauses[0].At < g.due {
		p := g.pauses[0]
		g.pauses = g.pauses[1:]
		if !generating {
			continue
		}
		if err := g.until(p.At); err != nil {
			return err
		}
		g.s.sched.pause(g.job, true, !p.CountLate)
		if err := g.until(p.At + p.Pause); err != nil {
			return err
		}
		g.s.sched.pause(g.job, false, p.CountLate)
		g.due += p.Pause
		if g.s.script.Lockstep {
			g.due = g.s.ticks.next(g.due, g.step(0))
		}
	}
	return nil
}

// failNow fails where the next token would have been due.
func (g *generation) failNow() error {
	if g.out == nil && (g.fail.Kind == FailEvent || g.fail.Kind == FailEnd) {
		if g.fail.Kind == FailEvent {
			g.problem().In(g.call.API).Write(g.w)
		}
		return errScripted
	}
	if g.out != nil {
		if err := g.out.flush(); err != nil {
			return err
		}
		if err := g.torn(); err != nil {
			return err
		}
	}
	switch g.fail.Kind {
	case FailHang:
		return g.sleep.ever()
	case FailReset:
		if g.out != nil {
			g.out.reset()
			return errScripted
		}
	case FailEvent:
		return g.lastWords(g.problem())
	case FailEnd:
		return g.lastWords(nil)
	case FailStatus, FailClose, FailSilent, FailDrop:
	}
	return errDropped
}

// torn sends the first half of the event that would come next, if the script wants so.
func (g *generation) torn() error {
	if !g.fail.Torn {
		return nil
	}
	if err := g.out.open(); err != nil {
		return err
	}
	half := g.out.enc.Append(nil, &wire.Chunk{Text: g.s.script.Text(g.id, g.fail.After)})
	_, err := g.out.write(append([]byte("data: "), half[:len(half)/2]...))
	return err
}

// lastWords ends a failing stream properly.
func (g *generation) lastWords(problem *wire.Problem) error {
	if err := g.out.open(); err != nil {
		return err
	}
	if problem != nil {
		if err := g.out.fail(problem, !g.fail.Done); err != nil {
			return err
		}
	}
	if g.fail.Done && g.out.speaker == nil {
		if err := g.out.done(); err != nil {
			return err
		}
	}
	return errScripted
}

// finishUp sends what follows the last token.
func (g *generation) finishUp() error {
	if g.out == nil {
		at := g.s.now()
		g.whole()
		g.rec.update(func(r *Request) {
			r.Status = http.StatusOK
			r.Events = append(r.Events, Event{AtNS: at, Tokens: g.total, Length: len(g.text) + len(g.thought), Channel: wire.Content})
		})
		return nil
	}
	if g.out.speaker != nil {
		return g.close()
	}
	if g.s.script.Framing.Trailers {
		g.w.Header().Set(http.TrailerPrefix+"X-Truth-Tokens", strconv.Itoa(g.total))
	}
	tail, done := g.tail()
	for i := range tail {
		if err := g.out.chunk(&tail[i], i == len(tail)-1 && !done); err != nil {
			return err
		}
	}
	if done {
		return g.out.done()
	}
	return g.out.flush()
}
