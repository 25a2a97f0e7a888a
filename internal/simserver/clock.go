package simserver

import (
	"math"
	"runtime"
	"time"
)

// never is an instant that does not come.
const never = math.MaxInt64

// spinFor is how long before an instant a spinning wait stops sleeping: the
// runtime wakes a sleeper up to a millisecond late where nothing else does.
const spinFor = 1100 * time.Microsecond

// clock is the server's time in nanoseconds since New, speed times as fast as the machine's.
type clock struct {
	begun time.Time
	speed float64
}

func newClock(speed float64) *clock { return &clock{begun: time.Now(), speed: speed} }

// now is the server's time.
func (c *clock) now() int64 {
	d := int64(time.Since(c.begun))
	if c.speed == 1 {
		return d
	}
	return int64(float64(d) * c.speed)
}

// until is how long the machine's clock runs to an instant of the server's time; negative if it has passed.
func (c *clock) until(at int64) time.Duration {
	if c.speed != 1 {
		at = int64(math.Ceil(float64(at) / c.speed))
	}
	return time.Duration(at) - time.Since(c.begun)
}

// pause is a span of the server's time on the machine's clock.
func (c *clock) pause(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.speed)
}

// spin waits for an instant without giving the processor away for longer than others need it.
func (c *clock) spin(at int64) {
	for c.until(at) > 0 {
		runtime.Gosched()
	}
}
