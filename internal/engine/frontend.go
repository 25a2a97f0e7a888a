package engine

import (
	"time"

	"speedmatrix/internal/profile"
)

// FrontEnd is what a request costs before the scheduler sees it: parsing,
// templating and tokenizing. A part is done one request after the other, a part
// for all at once: request k (from 1) of a burst of equal prompts of P tokens
// reaches the scheduler after (δ0 + δ1·P) + k·(σ0 + σ1·P). Times are in ns.
type FrontEnd struct {
	// Serial and SerialToken are σ0 and σ1, Delay and DelayToken δ0 and δ1.
	Serial, SerialToken, Delay, DelayToken float64
}

// FrontEndOf brings a profile's front end to nanoseconds.
func FrontEndOf(p *profile.Profile) FrontEnd {
	f := &p.FrontEnd
	return FrontEnd{Serial: f.SerialMS * 1e6, SerialToken: f.SerialTokenUS * 1e3, Delay: f.DelayMS * 1e6, DelayToken: f.DelayTokenUS * 1e3}
}

// SerialTime is how long a prompt holds up those behind it.
func (f *FrontEnd) SerialTime(prompt int) time.Duration {
	return time.Duration(f.Serial + f.SerialToken*float64(prompt))
}

// DelayTime is what a prompt takes after that, while others go on.
func (f *FrontEnd) DelayTime(prompt int) time.Duration {
	return time.Duration(f.Delay + f.DelayToken*float64(prompt))
}

// Desk is a front end at work: it remembers until when it is busy.
type Desk struct {
	FrontEnd
	free int64
}

// Arrive takes a prompt in at now and gives the time at which the scheduler gets it. Calls come in order of time;
// the times given need not be in order when prompts differ in length.
func (d *Desk) Arrive(now int64, prompt int) int64 {
	d.free = max(d.free, now) + int64(d.SerialTime(prompt))
	return d.free + int64(d.DelayTime(prompt))
}
