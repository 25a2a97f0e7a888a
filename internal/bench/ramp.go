package bench

import "time"

func (p *Protocol) ramp(now int64, o Observation) Action {
	if stream, found := p.newLoop(o); found {
		p.held = 0
		return Action{Kind: ActionRestart, Stream: stream, WakeNS: now + int64(pollEvery)}
	}
	if p.failing(o) {
		p.out.Ending = EndedFailing
		return p.stop(now)
	}
	firsts := 0
	for i := range o.Streams {
		if o.Streams[i].EverFirst {
			firsts++
		}
	}
	if firsts > p.firsts {
		p.firsts, p.lastNew = firsts, now
	}
	if p.rampHolds(now, o) {
		return p.open(now, o)
	}
	if p.saturated(now, o) {
		p.out.Saturated = true
		return p.open(now, o)
	}
	if time.Duration(now-p.out.LaunchNS) >= p.rules.Allowance {
		p.out.Unready = true
		if p.rules.MeasureUnready {
			return p.open(now, o)
		}
		p.out.Ending = EndedNotReady
		return p.stop(now)
	}
	return p.wait(now, pollEvery)
}

// rampHolds says whether every stream produces and the engine runs all of them, for as long as the rules want.
func (p *Protocol) rampHolds(now int64, o Observation) bool {
	if p.firsts < p.rules.Concurrency {
		p.held, p.ready = 0, 0
		return false
	}
	if p.ready == 0 {
		p.ready = now
	}
	running := !o.Gauges.Known ||
		o.Gauges.SentNS >= p.lastNew && o.Gauges.Running >= float64(p.rules.Concurrency)+p.rules.BaseRunning && o.Gauges.Waiting <= p.rules.BaseWaiting
	// A gauge that sees only a part of the engine must not hold up streams that all produce.
	if !running && (o.Gauges.Waiting > p.rules.BaseWaiting || time.Duration(now-p.ready) < lyingGaugeAfter) {
		p.held = 0
		return false
	}
	if p.clock(now) < p.rules.MinSinceLaunch {
		return false
	}
	if p.held == 0 {
		p.held = now
	}
	return time.Duration(now-p.held) >= p.rules.Hold
}

// clock is the time that has to reach MinSinceLaunch.
func (p *Protocol) clock(now int64) time.Duration {
	if p.rules.FromFill {
		return time.Duration(now - p.began)
	}
	return time.Duration(now - p.out.LaunchNS)
}

// saturated says whether no further stream has begun for a while although some wait and others produce.
func (p *Protocol) saturated(now int64, o Observation) bool {
	if p.rules.Saturation == 0 || p.firsts == 0 || time.Duration(now-p.lastNew) < p.rules.Saturation {
		return false
	}
	if o.Gauges.WaitingKnown {
		return o.Gauges.Waiting > p.rules.BaseWaiting
	}
	return p.firsts < p.rules.Concurrency
}

// failing says whether as many requests as there are streams failed in a row without a token.
func (p *Protocol) failing(o Observation) bool {
	failures := 0
	for i := range o.Streams {
		if o.Streams[i].Producing {
			return false
		}
		failures += o.Streams[i].Failures
	}
	return failures >= p.rules.Concurrency
}

// newLoop gives a stream whose loop was confirmed since the last look.
func (p *Protocol) newLoop(o Observation) (stream int, found bool) {
	for i := range o.Streams {
		if o.Streams[i].Loops > p.loops[i] {
			p.loops[i] = o.Streams[i].Loops
			return i, true
		}
	}
	return 0, false
}
