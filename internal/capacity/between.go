package capacity

import (
	"math"

	"speedmatrix"
)

// Between is where a demand ends between two measured numbers of requests.
type Between struct {
	// Users is the crossing, a straight line between the two cells with both axes logarithmic; Low and High are
	// where it may lie: by the intervals of the two speeds, or anywhere between the cells where TTFT decides.
	Users, Low, High float64
	// By says what ends first: "speed" or "ttft".
	By string
}

// What ends a demand first.
const (
	BySpeed = "speed"
	ByTTFT  = "ttft"
)

// between interpolates where the demand ends between a cell that keeps it and the next, which does not; nil
// where one of them shows no speed.
func between(at, next *speedmatrix.Cell, q Demand) *Between {
	if at == nil || !next.Status.ShowsSpeed() {
		return nil
	}
	a, b := at.PerRequestTokensPerSecond, next.PerRequestTokensPerSecond
	ta, tb := medianTTFT(at), medianTTFT(next)
	if a == nil || b == nil || ta == nil || tb == nil {
		return nil
	}
	from, to := float64(at.Concurrency), float64(next.Concurrency)
	var speed, wait *Between
	if *b < q.Floor {
		line := func(sign float64) float64 {
			return crossing(point{from, *a * (1 + sign*halfWidth(at))}, point{to, *b * (1 + sign*halfWidth(next))}, q.Floor)
		}
		speed = &Between{Users: line(0), Low: line(-1), High: line(1), By: BySpeed}
	}
	if *tb > q.LimitMillis {
		wait = &Between{Users: crossing(point{from, *ta}, point{to, *tb}, q.LimitMillis), Low: from, High: to, By: ByTTFT}
	}
	if speed == nil || wait != nil && wait.Users < speed.Users {
		return wait
	}
	return speed
}

// point is a number of requests and a quantity measured at it.
type point struct{ requests, value float64 }

// crossing is the number of requests, between those of a and b, at which a line through both, on logarithmic axes,
// reaches a value.
func crossing(a, b point, value float64) float64 {
	if a.value <= 0 || b.value <= 0 || value <= 0 || a.value == b.value {
		return a.requests
	}
	share := (math.Log(value) - math.Log(a.value)) / (math.Log(b.value) - math.Log(a.value))
	return math.Exp(math.Log(a.requests) + min(max(share, 0), 1)*(math.Log(b.requests)-math.Log(a.requests)))
}

// halfWidth is half of a cell's 95 % interval as a share of its total tok/s; 0 where there is none.
func halfWidth(c *speedmatrix.Cell) float64 {
	if c.Interval95 == nil || c.TotalTokensPerSecond == nil || *c.TotalTokensPerSecond <= 0 {
		return 0
	}
	return (c.Interval95.High - c.Interval95.Low) / 2 / *c.TotalTokensPerSecond
}
