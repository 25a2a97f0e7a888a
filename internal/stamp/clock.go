// Package stamp says when bytes arrived. It has one time scale that never
// steps, and a connection wrapper that notes the arrival of the newest bytes:
// on Linux the time at which the kernel received them, which does not depend on
// this program's scheduler, garbage collector or load; elsewhere the time at
// which the read returned.
package stamp

import (
	"sync/atomic"
	"time"
)

// minStep is the smallest change between the two clocks that counts as a step:
// well above the error of one comparison, well below what would bend a token gap.
const minStep = 50 * time.Microsecond

// pairs is how often two clocks are read for one comparison; the tightest pair
// counts, so that being put aside by the scheduler does not matter.
const pairs = 16

// Clock is the time scale of all stamps: the wall clock at its creation plus
// the monotonic time since. It is safe for concurrent use, and one per process
// is enough. A clock made inside a testing/synctest bubble runs on its time.
type Clock struct {
	real   func() int64 // the real-time clock, in ns since 1970
	base   time.Time
	wall   int64        // base in ns since 1970
	offset atomic.Int64 // real-time clock − this scale, in ns
	steps  atomic.Int64
}

// NewClock makes a clock that agrees with the wall clock now.
func NewClock() *Clock {
	base := time.Now()
	c := &Clock{real: func() int64 { return time.Now().UnixNano() }, base: base, wall: base.UnixNano()}
	c.offset.Store(c.compare())
	return c
}

// NewClockOn makes a clock that watches another real-time clock, which gives
// nanoseconds since 1970.
func NewClockOn(real func() int64) *Clock {
	c := &Clock{real: real, base: time.Now(), wall: real()}
	c.offset.Store(c.compare())
	return c
}

// Now is the time on this scale in nanoseconds since 1970.
func (c *Clock) Now() int64 { return c.wall + int64(time.Since(c.base)) }

// FromKernel moves a kernel stamp (CLOCK_REALTIME, nanoseconds since 1970) to
// this scale.
func (c *Clock) FromKernel(realtimeNS int64) int64 { return realtimeNS - c.offset.Load() }

// Check compares the two clocks anew and uses the result from now on. It
// returns the step of the real-time clock since the last comparison, 0 if below
// 50 µs; a step is counted. Call it about once a second.
func (c *Clock) Check() time.Duration {
	offset := c.compare()
	step := time.Duration(offset - c.offset.Swap(offset))
	if step.Abs() < minStep {
		return 0
	}
	c.steps.Add(1)
	return step
}

// Steps is the number of steps that Check has found.
func (c *Clock) Steps() int { return int(c.steps.Load()) }

// Time gives a time of this scale as a time in UTC.
func (c *Clock) Time(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// compare measures real-time clock − this scale, in ns.
func (c *Clock) compare() int64 {
	var offset int64
	best := int64(-1)
	for range pairs {
		before := c.Now()
		real := c.real()
		width := c.Now() - before
		if best < 0 || width < best {
			best, offset = width, real-(before+width/2)
		}
	}
	return offset
}
